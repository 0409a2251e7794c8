"""English questions by rule: in everyday words about a whole subject, and about the things that a sentence names."""

import re
from collections.abc import Iterator, Mapping

from rageval_dagster.benchmark.by_rule.corpus import spaced_words
from rageval_dagster.benchmark.by_rule.prose import words
from rageval_dagster.benchmark.words import STOPWORDS

SUBJECT_QUESTIONS = (
    "Who or what is {subject}, and what makes it special?",
    "What is {subject}, and what does someone need to know about it?",
)
"""Chosen on clapnq, by how well they rank nine retrieval systems as the human questions do
(benchmarks/synthetic_vs_human.py)."""

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
_EDGES = "\"'*.,;:!?[]\u2018\u2019\u201c\u201d"


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
