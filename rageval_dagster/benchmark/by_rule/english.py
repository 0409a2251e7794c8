"""English questions by rule: what a passage is about, and questions about that, or about what a sentence names."""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import PurePosixPath

from rageval_dagster.benchmark.by_rule.facts import spaced_words
from rageval_dagster.benchmark.by_rule.prose import without_number, words
from rageval_dagster.benchmark.wording import STOPWORDS

SUBJECT_QUESTIONS = (
    "Who or what is {subject}, and what makes it special?",
    "What is {subject}, and what does someone need to know about it?",
)
"""Chosen on clapnq, by how well they rank nine retrieval systems as the human questions do
(benchmarks/synthetic_vs_human.py)."""

MAX_SUBJECT_WORDS = 8
MAX_SUBJECT_CHARACTERS = 200

MAX_TERMS = 2
MIN_TERM_CHARACTERS = 4
RARE = 2
"""In more chunks of the corpus than this a word tells none of them: what is asked about must hold a rarer one."""

_HANGING = re.compile(
    r"(?:also|and|another|as|but|either|except|finally|further\w*|he|hence|her|here|his|however|i|instead|its?|like"
    r"|likewise|moreover|note|notice|or|otherwise|please|see|she|similarly|so|such|that|the[mny]|their|there\w*"
    r"|th(?:is|ese|ose|us)|unlike|we|you)\b"
    r"|(?:[\w-]+,? ){1,3}(?:it|they|he|she)\b"
    r"|.*\b(?:this|these|those|above|below|following)\b",
    re.IGNORECASE,
)
"""A sentence that says little without the one before it: how it starts, or that it points there."""

_CODE = re.compile(r"`+([^`\s][^`]{0,38}[^`\s])`+")
_NAME = re.compile(r"(?<![^\s\"“(])[A-Z][\w'’-]*\w(?: [A-Z][\w'’-]*\w){0,3}(?=[\s.,;:)!?\"”]|$)")
_IDENTIFIER = re.compile(r"\w[\w.-]*(?:\w[_.]\w|[a-z][A-Z]|[A-Za-z]\d|\d[A-Za-z])[\w.-]*(?:\(\))?|\w+\(\)")
_YEAR = re.compile(r"(?:1\d|20)\d\d")
_NO_SUBJECTS = frozenset(
    """
    abstract api appendix authors background changelog chapter commands configuration content contents contributing
    credits description details doc docs documentation example examples faq features file files getting guide help
    home http index info information installation introduction licence license manual menu name navigation news note
    notes options overview page parameters part preface readme reference references requirements section settings
    start started status summary support syntax synopsis table testing tips title usage use version welcome
    """.split()
)
"""Names of files and headings that many documents have: they tell nobody what a passage is about."""
_EDGES = "\"'*.,;:!?[]\u2018\u2019\u201c\u201d"


@lru_cache(maxsize=4096)
def subject_of(document_id: str, heading: str | None, title: str | None = None, is_shared: bool = False) -> str | None:
    """What a sentence is about: the heading above it where that is telling, else its document's title, name or folder.

    A heading of one word ("Scope"), or one that several documents have (`is_shared`), is a part of a subject, and the
    subject only where nothing else names it.
    """
    path = PurePosixPath(document_id.replace("\\", "/"))
    name, folder = (" ".join(re.split(r"[\s_-]+", part)).strip() for part in (path.stem, path.parent.name))
    section, title = _within_a_sentence(heading or ""), _within_a_sentence(title or "")
    is_own = not is_shared and len([word for word in words(section) if word not in STOPWORDS | _NO_SUBJECTS]) > 1
    by_rank = [
        section if is_own or name.lower() in section.lower().split() else "",
        title,
        name if _is_readable(name) else "",
        section,
        folder if _is_readable(folder) else "",
    ]
    return next((each for each in by_rank if _tells(each)), None)


def _within_a_sentence(heading: str) -> str:
    """A heading without its number and quotation marks, as it reads within a sentence."""
    subject = " ".join(re.sub(r"[\"“”`*]|''", "", without_number(heading)).split())
    first, _, rest = subject.partition(" ")
    return f"{first.lower()} {rest}" if rest and first in {"A", "An", "The"} else subject


def _is_readable(name: str) -> bool:
    """Whether a file's or folder's name reads as a name, not as a number or a hash."""
    return (
        re.search(r"[^\W\d_]{2}", name) is not None
        and not re.fullmatch(r"[0-9a-f]{8,}", name.replace(" ", ""))
        and sum(character.isdigit() for character in name) <= 0.3 * len(name)
    )


def _tells(subject: str) -> bool:
    """Whether a subject tells one document from another: no "README", no "Chapter 3", no question, no sentence."""
    telling = [word for word in words(subject) if word not in STOPWORDS | _NO_SUBJECTS and not word.isdigit()]
    return (
        bool(telling)
        and not re.match(r"(?:this|that|these|those)\b", subject, re.IGNORECASE)
        and len(subject.split()) <= MAX_SUBJECT_WORDS
        and len(subject) <= MAX_SUBJECT_CHARACTERS
        and not subject.endswith(("?", "!", ".", "()"))
    )


def stands_alone(sentence: str) -> bool:
    """Whether a sentence can be understood without the one before it, as far as its words tell."""
    return _HANGING.match(sentence) is None


def names_subject(text: str, subject: str) -> bool:
    """Whether a text holds at least half of the subject's words (what stands in brackets aside)."""
    stems = {word[:5] for word in words(text)}
    named = [word[:5] for word in words(re.sub(r"\(.*?\)", "", subject)) if word not in STOPWORDS]
    return bool(named) and sum(word in stems for word in named) / len(named) >= 0.5


def known_item(sentence: str, subject: str | None, chunks_with: Mapping[str, int]) -> tuple[str, str] | None:
    """A question about what a sentence names, with its category; None where that tells it from no other passage.

    Args:
        subject: what the passage is about; None where that is not known.
        chunks_with: in how many chunks each word stands (`CorpusFacts`).
    """
    known = {word[:5] for word in words(subject or "")}
    telling = [
        term
        for term in dict.fromkeys(_terms(sentence))
        if len(term) >= MIN_TERM_CHARACTERS
        and not known.issuperset(word[:5] for word in words(term))
        and any(0 < chunks_with.get(word, 0) <= RARE for word in spaced_words(term))
    ]
    named = sorted(telling, key=len, reverse=True)[:MAX_TERMS]
    if not named:
        return None
    asked = " and ".join(sorted(named, key=sentence.find))
    is_year, is_name = _YEAR.fullmatch(named[0]), _NAME.fullmatch(named[0])
    category = "temporal" if is_year else "entity_specific" if is_name else "factual_lookup"
    question = f"what is said about {asked}?"
    return (f"Regarding {subject}, {question}" if subject else f"W{question[1:]}"), category


def _terms(sentence: str) -> Iterator[str]:
    """Code, names, identifiers and years in a sentence."""
    yield from _CODE.findall(sentence)
    plain = _CODE.sub(",", sentence)
    for match in _NAME.finditer(plain):
        name = re.sub(r"['’]s$", "", match.group()).split()
        while name and name[0].lower() in STOPWORDS:
            name = name[1:]
        # Any word has a capital where it opens the sentence.
        if len(name) > 1 or (name and match.start()):
            yield " ".join(name)
    for token in plain.split():
        word = token.strip(_EDGES)
        if _IDENTIFIER.fullmatch(word) or _YEAR.fullmatch(word):
            yield word
