"""What a sentence says something of: its subject, as far as that is plain without a parser."""

import re
from collections import Counter
from collections.abc import Collection, Iterable
from itertools import takewhile

from rageval_dagster.benchmark.by_rule.prose import words
from rageval_dagster.benchmark.by_rule.terms import (
    AGAIN,
    CHARACTER_PARTICLES,
    EDGES,
    PARTICLES,
    QUOTES,
    Surroundings,
    Term,
    in_lower_case,
)
from rageval_dagster.languages import articles, leading, stop_words, verbs
from rageval_dagster.text import is_character

MAX_WORDS = 6
MAX_CHARACTERS = 12
"""Of a subject in a script without spaces."""

NOUN_SHARE = 0.2
"""So often a noun stands where nouns alone do."""

_TOKEN = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*|[^\w\s]")
_LATIN_OR_KATAKANA = re.compile(r"[A-Za-z][A-Za-z0-9]+(?:[ .&+-][A-Za-z0-9]+)*|[\u30a1-\u30fa\u30fc]{3,}")
_ADVERB = re.compile(r"\w{2}(?:ly|mente)$")
"""In English, Italian, Portuguese and Spanish; what is none, such as "assembly", is left out as well."""


def subject(sentence: str, named: Collection[Term], around: Surroundings) -> Term | None:
    """What a sentence opens with, but for an article; None where it does not show plainly.

    It is a noun with all that stands before it up to a verb (`languages.verbs`), or up to where the passage goes on
    with a verb another time; else an identifier or a name that no noun follows. A noun that has neither in it has a
    word that tells something.

    Args:
        named: what the sentence names (`terms`).
    """
    if 2 * sum(map(is_character, sentence)) > sum(map(str.isalpha, sentence)):
        return _unspaced(sentence, named, around)
    tokens = [*re.finditer(r"\S+", sentence)]
    if len(tokens) > 1 and tokens[0].group().casefold() in articles(around.language):
        tokens = tokens[1:]
    start, known = tokens[0].start(), verbs(around.language)
    held = [*takewhile(lambda token: _may_belong_to_noun(token.group(), around), tokens[:MAX_WORDS])]
    verb = next((place for place, token in enumerate(held) if place and token.group().casefold() in known), len(held))
    held = held[:verb]
    # "PostgreSQL currently does ..."
    held = held[:-1] if len(held) > 1 and _ADVERB.search(held[-1].group()) else held
    for length in range(len(held), 0, -1):
        if PARTICLES & {held[0].group(), held[length - 1].group()}:
            continue
        text = sentence[start : held[length - 1].end()]
        following = "".join(token.group() for token in tokens[length : length + 1])
        is_verb = following.casefold() in known
        if is_verb or (length < len(held) and _is_unit(text, following, around)):
            return _noun(text, start, named, around) or _named(start, sentence, named, around)
    return _named(start, sentence, named, around)


def _may_belong_to_noun(token: str, around: Surroundings) -> bool:
    return (
        any(map(str.isalnum, token))
        and (token in PARTICLES or not _is_function_word(token, around))
        and not (token[0].isdigit() or token[0] in "'\u2019")
        and token[-1] not in ",;:.!?–—"
        and token.count("(") == token.count(")")
    )


def _is_function_word(token: str, around: Surroundings) -> bool:
    word = token.strip(EDGES)
    # SELECT FROM is none, and "you've" is.
    return re.split("['’]", word.casefold())[0] in stop_words(around.language) and not (
        word.isupper() and len(word) > 1
    )


def _is_unit(text: str, following: str, around: Surroundings) -> bool:
    """Whether the passage has several words before a verb, too, or before another word where no verbs are known."""
    known = verbs(around.language)
    if (known and " " not in text) or around.folded.count(text.casefold()) < AGAIN:
        return False
    found = re.finditer(rf"(?<!\w){re.escape(text.casefold())}(?!\w)\W*(\w*)", around.folded)
    return any(match.group(1) in known if known else match.group(1) not in words(following) for match in found)


def _noun(text: str, start: int, named: Collection[Term], around: Surroundings) -> Term | None:
    """A subject as a term, of the kind of what it names."""
    within = [term for term in named if start <= term.start < start + len(text)]
    plain = " ".join(filter(None, (word.strip(QUOTES) for word in text.split())))
    # Where no verbs are known, a single word may be as much as a whole noun.
    may_tell = " " in plain or not verbs(around.language)
    if not within and not (may_tell and any(len(word) > 2 and word not in around.common for word in words(plain))):
        return None
    if start == 0 and plain.partition(" ")[0][1:].islower():
        names = [term.text for term in named if term.kind == "name"]
        plain = in_lower_case(plain, around.text, around.language, names)
    kinds = {term.kind for term in within}
    kind = "identifier" if "identifier" in kinds else "name" if "name" in kinds else "noun"
    return Term(plain, kind, start)


def _named(start: int, sentence: str, named: Collection[Term], around: Surroundings) -> Term | None:
    """The identifier or name that a sentence opens with, unless it goes on with something that may belong to it."""
    for term in named:
        if term.start >= start and not sentence[start : term.start].strip(f" {QUOTES}") and term.kind != "year":
            following = "".join(sentence[term.start + len(term.text) :].lstrip(f" {QUOTES}").split()[:1])
            is_verb = following.casefold() in verbs(around.language)
            goes_on = following[:1].islower() and not _is_function_word(following, around)
            if is_verb or (goes_on and (term.kind == "identifier" or _is_unit(term.text, following, around))):
                return term
    return None


def _unspaced(sentence: str, named: Collection[Term], around: Surroundings) -> Term | None:
    """What stands before the first verb or particle, where nothing else does."""
    known = "|".join(sorted(verbs(around.language), key=len, reverse=True))
    pattern = rf"[「『《“\"]?([^\s，。、；：！？「」『』《》“”]{{2,{MAX_CHARACTERS}}}?)[」』》”\"]?(?:{known})"
    match = re.match(pattern, sentence) if known else None
    if match is None or not CHARACTER_PARTICLES.isdisjoint(match.group(1)):
        return None
    text = match.group(1)
    is_name = _LATIN_OR_KATAKANA.fullmatch(text) or any(term.text == text and term.kind == "name" for term in named)
    return Term(text, "name" if is_name else "noun", 0)


def is_verb_or_adverb(word: str, language: str | None) -> bool:
    """Whether a word plainly is one; most verbs do not show."""
    return word.casefold() in verbs(language) or _ADVERB.search(word) is not None


def nouns(texts: Iterable[str], language: str | None) -> frozenset[str]:
    """The words of sentences, in lower case, that stand where a noun does, often enough: behind an article or
    preposition, and before no other noun."""
    before, after = (
        articles(language) | leading(language),
        (stop_words(language) | verbs(language)) - articles(language),
    )
    found: Counter[str] = Counter()
    all_: Counter[str] = Counter()
    for text in texts:
        tokens = _TOKEN.findall(text.lower())
        all_.update(tokens)
        for first, word, following in zip(tokens, tokens[1:], tokens[2:], strict=False):
            if first in before and (following in after or not following[0].isalpha()):
                found[word] += 1
    return frozenset(word for word, count in found.items() if count >= NOUN_SHARE * all_[word])
