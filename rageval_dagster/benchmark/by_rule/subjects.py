"""What a sentence says something of: its subject, as far as that is plain without a parser."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from itertools import takewhile

from rageval_dagster.benchmark.by_rule.prose import words
from rageval_dagster.benchmark.by_rule.terms import (
    ADVERB,
    AGAIN,
    CHARACTER_PARTICLES,
    EDGES,
    PARTICLES,
    QUOTES,
    Surroundings,
    Term,
    in_lower_case,
    plain_words,
)
from rageval_dagster.languages import articles, leading, stop_words, verbs
from rageval_dagster.text import is_character

MAX_WORDS = 6
MAX_CHARACTERS = 12
"""Of a subject in a script without spaces."""

NOUN_SHARE = 0.2
"""So often a noun stands where nouns alone do."""
MAX_PHRASE_WORDS = 3

_INTRODUCTION = re.compile(r"[^,;:()]{2,60}, (?=\w)")
_CLAUSE = re.compile(r"^[A-ZÀ-Þ]\w+(?: [a-zß-ÿ]\w+)+ [A-ZÀ-Þ]")
"""A verb that is not known may stand between two names: "Kevin helps Randall"."""
_TOKEN = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*|[^\w\s]")
_TOKEN_OR_NUMBER = re.compile(rf"{_TOKEN.pattern}|\w+")
_OF = frozenset("of de del della di do da dos das des du van von der that to dass que che dat".split())
"""What is of something, or that or to do something, is told behind it: the course of, the fact that."""
_LATIN_OR_KATAKANA = re.compile(r"[A-Za-z][A-Za-z0-9]+(?:[ .&+-][A-Za-z0-9]+)*|[\u30a1-\u30fa\u30fc]{3,}")


def subject(sentence: str, named: Collection[Term], around: Surroundings) -> Term | None:
    """What a sentence opens with, but for an article, or a name behind an introduction ("In 1926, Schrödinger ...");
    None where it does not show plainly.

    It is a noun with all that stands before it up to a verb (`languages.verbs`), or up to where the passage goes on
    with a verb another time; else an identifier or a name that no noun follows. A noun that has neither in it has a
    word that tells something.

    Args:
        named: what the sentence names (`terms`).
    """
    if 2 * sum(map(is_character, sentence)) > sum(map(str.isalpha, sentence)):
        return _unspaced(sentence, named, around)
    introduction = _INTRODUCTION.match(sentence)
    if introduction and verbs(around.language).isdisjoint(words(introduction.group())):
        start = introduction.end()
        later = [replace(term, start=term.start - start) for term in named if term.start >= start]
        found = _opened(sentence[start:], later, around)
        return replace(found, start=found.start + start) if found and found.kind != "noun" else None
    return _opened(sentence, named, around)


def _opened(sentence: str, named: Collection[Term], around: Surroundings) -> Term | None:
    """`subject` of a sentence without an introduction, in a script with spaces."""
    tokens = [*re.finditer(r"\S+", sentence)]
    if len(tokens) > 1 and tokens[0].group().casefold() in articles(around.language):
        tokens = tokens[1:]
    elif len(tokens) > 1 and ADVERB.search(tokens[0].group()) and tokens[1].group()[0].isupper():
        # "Specifically GnuPG does ..."
        return None
    start, known = tokens[0].start(), verbs(around.language)
    held = [*takewhile(lambda token: _may_belong_to_noun(token.group(), around), tokens[:MAX_WORDS])]
    verb = next((place for place, token in enumerate(held) if place and token.group().casefold() in known), len(held))
    held = held[:verb]
    # "PostgreSQL currently does ..."
    held = held[:-1] if len(held) > 1 and ADVERB.search(held[-1].group()) else held
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
    if _CLAUSE.search(plain) and not PARTICLES.union(stop_words(around.language)).intersection(plain.split()):
        return None
    last = within[-1] if within else None
    if last and last.kind == "name" and last.start > start and plain.endswith(f" {last.text}"):
        return last  # "director Ann Lee", "the shorter term Rhine Delta"
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
    return word.casefold() in verbs(language) or ADVERB.search(word) is not None


def noun_phrases(text: str, language: str | None) -> Iterator[Term]:
    """Of a sentence the nouns with the adjectives and nouns before them, as far as they show: one to three words in
    lower case behind an article or preposition, and before a word or sign that goes on with something else.

    In German every word with a capital; in other languages whose prepositions are not known, and in scripts without
    spaces, every word. Of what "of" follows, only what it is of tells something: the course of, a number of.
    """
    if not leading(language):
        yield from (term for term in plain_words(text) if not _is_of_something(text, term))
        return
    before, after = articles(language) | leading(language), stop_words(language) | verbs(language)
    tokens = [*_TOKEN_OR_NUMBER.finditer(text)]
    for place, token in enumerate(tokens):
        if token.group().casefold() not in before:
            continue
        held = [*takewhile(lambda token: _is_of_phrase(token.group(), language), tokens[place + 1 :])]
        following = tokens[place + 1 + len(held)].group() if place + 1 + len(held) < len(tokens) else "."
        goes_on = following[0].isalnum() and following.casefold() not in after
        if 0 < len(held) <= MAX_PHRASE_WORDS and not goes_on and following not in _OF:
            start = held[0].start()
            yield Term(text[start : held[-1].end()], "noun", start)


def _is_of_phrase(word: str, language: str | None) -> bool:
    return word[0].islower() and word not in stop_words(language) and not is_verb_or_adverb(word, language)


def _is_of_something(text: str, term: Term) -> bool:
    following = text[term.start + len(term.text) :].split(maxsplit=1)
    return bool(following) and following[0] in _OF


def nouns(texts: Iterable[str], language: str | None) -> frozenset[str]:
    """The words of sentences, in lower case, that stand where a noun does, often enough: behind an article or
    preposition, of them once behind an article, and before no other noun."""
    before, after = (
        articles(language) | leading(language),
        (stop_words(language) | verbs(language)) - articles(language),
    )
    found: Counter[str] = Counter()
    all_: Counter[str] = Counter()
    plain: set[str] = set()
    for text in texts:
        tokens = _TOKEN.findall(text.lower())
        all_.update(tokens)
        for first, word, following in zip(tokens, tokens[1:], tokens[2:], strict=False):
            if first in before and (following in after or not following[0].isalpha()):
                found[word] += 1
                if first in articles(language):
                    plain.add(word)
    return frozenset(word for word, count in found.items() if word in plain and count >= NOUN_SHARE * all_[word])
