"""What a question or a sentence is by its wording: asking for a list, being polite, reporting a failure."""

import re
import tomllib
from pathlib import Path

from rageval_dagster.languages.declining import is_decline, plain

LONGEST = 300
"""Characters of a question, and of a sentence, that are looked at: nobody asks for a list, or is polite, at length."""


def asks_for_list(question: str) -> bool:
    """Whether a question asks for several things: "List all ...", "What are the ...", "Welche ... gibt es?".

    A heuristic over the wording, in English, German, French, Spanish, Italian, Dutch, Portuguese, Polish, Russian,
    Chinese, Japanese and Korean; a question in another language never asks for a list.
    """
    return _LIST_QUESTION.search(plain(question[:LONGEST])) is not None


def is_pleasantry(sentence: str) -> bool:
    """Whether a sentence says nothing about any subject: "Sure!", "I hope this helps.", "Here is what I found"."""
    if len(sentence) > LONGEST:
        return False
    return _PLEASANTRY.fullmatch(plain(sentence).strip(_EDGES)) is not None


def is_fallback(text: str) -> bool:
    """Whether an answer is what a system says in place of one: a decline in any known language, or its own failure.

    A failure is told by how the answer begins ("Unable to generate ...", "An error occurred"), after an apology or not.
    """
    opening = _APOLOGY.sub("", plain(text[:LONGEST]).lstrip(_EDGES), count=1)
    return _FAILURE.match(opening) is not None or is_decline(text)


_EDGES = " \t.,;:!?…。！？，、*_~#>\"'“”«»()-–—"

_PLURAL = r"(?:(?!of\b)\w+ ){0,3}\w+[^sui\W]s\b(?!')"
_SEVERAL = "all|every|each|both|any|some|at least|\\d+|two|three|four|five|six|seven|eight|nine|ten"

_PATTERNS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


def _any_of(name: str) -> re.Pattern[str]:
    """One pattern of those that stand line by line under this name."""
    lines = _PATTERNS[name].replace("<several>", _SEVERAL).replace("<plural>", _PLURAL).strip().splitlines()
    return re.compile("|".join(f"(?:{line})" for line in lines))


_LIST_QUESTION = _any_of("list_question")

_PLEASANTRY = _any_of("pleasantry")

_APOLOGY = re.compile(
    r"(?:(?:(?:i'm|i am|we're|we are|we|i) )?(?:(?:very |so )?sorry|apologi[sz]e|unfortunately|apologies|oops|error"
    r"|leider|entschuldigung|désolée?|lo siento|lamentablemente|mi dispiace|purtroppo|desculpe"
    r"|抱歉|对不起|申し訳ありません)"
    r"(?: for (?:the|any) inconvenience)?[,.:;!，。、]? ?(?:but |aber |mais |pero |ma |mas |但)?)?"
    r"(?:(?:i|we|the (?:system|model|assistant)) |it (?:looks|seems) like |there was )?"
)
"""What may stand before a failure."""

_FAILURE = _any_of("failure")
