"""How far an answer is supported by its contexts, told from words, numbers, names and negations, without a model."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rageval_dagster import languages
from rageval_dagster.metrics.numbers import numbers
from rageval_dagster.text import is_character, normalised, word_spans

VERSION = "2"

STOP_WEIGHT = 0.3
"""What a stop word weighs beside a content word's 1: every text has most of them, but talk about oneself has others."""

CLAIM_WEIGHT = 2.0
"""What a number or a name weighs: no other word says the same, and they are what is most often wrong."""

APART_LOSS = 0.125
"""The part of its weight that a content word loses for each neighbour that the contexts have too, but nowhere after or
before it as in the answer: in many contexts, single words are found by chance. With two neighbours it stays below what
a word gains by being known, so that a further context cannot take more than it gives."""

REACH = 4
"""Within how many content words a context has a neighbour: a clause, with words put in or left out."""

CONTRADICTION_FACTOR = 0.5
"""What each number, negation or opposite without support leaves of its sentence: one of them can make all of it wrong,
however many of its other words are known."""

_NEGATION = "¬"
_NEGATIONS = frozenset(
    """
    not no never none nobody nothing neither nor without cannot
    nicht nichts nie niemals kein keine keinen keinem keiner ohne
    pas jamais aucun aucune sans nunca jamás ningún ninguna sin tampoco
    non mai nessun nessuno nessuna senza não nenhum nenhuma sem niet geen nooit zonder
    """.split()
)
"""Words that negate, all taken for one. In scripts without spaces a negation makes other pairs of characters."""

_SHORT_NOT = re.compile(r"n ?['’] ?t\b", re.IGNORECASE)
_OPPOSITE_PREFIXES = ("un", "in", "im", "ir", "il", "dis", "non")
_SHORTEST_OPPOSITE = 4
"""Letters of a word that has an opposite by its prefix: `until` is not one of `til`."""

# What points to a context, and the numbers of a list's entries: they say nothing that a context could hold.
_POINTER = re.compile(
    r"\[[^\[\]]{1,200}\]|\(source:[^()]{1,200}\)|^[ \t]*\d{1,3}[.)](?=\s)"
    r"|\b(?:passage|document|source|context|excerpt)s? \d{1,3}\b",
    re.IGNORECASE | re.MULTILINE,
)


def support(answer: str, contexts: Sequence[str]) -> float | None:
    """How far the contexts support the answer, in [0, 1]; None where it has no words, 0.0 without contexts.

    It is the share of the answer's words that the contexts have, compared by their stems. Stop words weigh
    `STOP_WEIGHT`, numbers and names `CLAIM_WEIGHT`. A content word loses `APART_LOSS` for each neighbour that the
    contexts have only elsewhere. What a sentence has is multiplied by `CONTRADICTION_FACTOR` for each of its numbers
    that no context has, each negation of a word that no context negates, and each unknown word of which the contexts
    have the opposite by its prefix (`unpopular`, `popular`). Citations and the numbers of list entries do not count.

    What is copied from a context has 1.0. Neither the order of the contexts matters nor how often one is given, and a
    further context lowers the value only where it has such an opposite.
    """
    answer = _normal_form(answer)
    reader = _Reader(answer)
    said = [read for text in languages.sentences(_POINTER.sub(" ", answer)) if (read := reader.sentence(text))]
    if not said:
        return None
    # A copy of what has citations, as of what has none: the contexts count with and without them.
    plain = {_normal_form(context) for context in contexts}
    known = _Known(said, plain | {_POINTER.sub(" ", context) for context in plain}, reader)
    return sum(map(known.credit, said)) / sum(sum(sentence.weights) for sentence in said)


@dataclass(frozen=True)
class _Sentence:
    """A sentence of the answer."""

    text: str
    words: list[str]
    stems: list[str]
    weights: list[float]
    content: list[int]
    """The places of its content words."""
    numbers: frozenset[str]


class _Reader:
    """Reads answer and contexts alike, by the stop words and the stems of the answer's language."""

    def __init__(self, answer: str) -> None:
        from Stemmer import Stemmer

        language = languages.detect(answer) or "en"
        # The language of a short text is uncertain, and English stop words do no harm in others.
        self._stop_words = (languages.stop_words("en") | languages.stop_words(language)) - _NEGATIONS
        try:
            self._stemmer = Stemmer(language)
        except KeyError:
            self._stemmer = None

    def stems(self, words: Sequence[str]) -> list[str]:
        stems = self._stemmer.stemWords(words) if self._stemmer else words
        return [_NEGATION if word in _NEGATIONS else stem for word, stem in zip(words, stems, strict=True)]

    def content(self, words: Sequence[str]) -> list[int]:
        return [
            place
            for place, word in enumerate(words)
            if word not in self._stop_words and (len(word) > 1 or not word.isascii() or word.isdecimal())
        ]

    def sentence(self, text: str) -> _Sentence | None:
        written = list(_words(text))
        words = [word.casefold() for word in written]
        content = self.content(words)
        weights = [STOP_WEIGHT] * len(words)
        for place in content:
            name = place > 0 and written[place][0].isupper()
            weights[place] = CLAIM_WEIGHT if name or any(character.isdecimal() for character in words[place]) else 1.0
        return _Sentence(text, words, self.stems(words), weights, content, numbers(text)) if words else None


class _Known:
    """What the contexts have of the words, pairs of words and numbers of the answer."""

    def __init__(self, said: Sequence[_Sentence], contexts: Iterable[str], reader: _Reader) -> None:
        self._words: set[str] = set()
        self._stems: set[str] = set()
        self._pairs: set[tuple[str, str]] = set()
        self._numbers: set[str] = set()
        asked = {sentence.stems[place] for sentence in said for place in sentence.content}
        for context in contexts:
            words = [word.casefold() for word in _words(context)]
            stems = reader.stems(words)
            self._words.update(words)
            self._stems.update(stems)
            self._numbers |= numbers(context)
            content = [stems[place] for place in reader.content(words)]
            for place, stem in enumerate(content):
                if stem in asked:
                    following = content[place + 1 : place + 1 + REACH]
                    self._pairs.update((stem, other) for other in following if other in asked)

    def credit(self, sentence: _Sentence) -> float:
        """What the sentence has of its weight."""
        unknown_numbers = len(sentence.numbers - self._numbers)
        found = [
            stem in self._stems or (not unknown_numbers and word.isdecimal())  # 1,234 may be 1234 there
            for word, stem in zip(sentence.words, sentence.stems, strict=True)
        ]
        credit = sum(weight for weight, known in zip(sentence.weights, found, strict=True) if known)
        for place, after in zip(sentence.content, sentence.content[1:], strict=False):
            pair = sentence.stems[place], sentence.stems[after]
            if _NEGATION not in pair and {*pair} <= self._stems and pair not in self._pairs:
                credit -= APART_LOSS * (sentence.weights[place] + sentence.weights[after])
        contradictions = unknown_numbers + self._new_negations(sentence)
        contradictions += sum(self._has_opposite(sentence.words[at]) for at in sentence.content if not found[at])
        return credit * CONTRADICTION_FACTOR**contradictions

    def _new_negations(self, sentence: _Sentence) -> int:
        stems = [sentence.stems[place] for place in sentence.content]
        new = 0
        for place, stem in enumerate(stems):
            if stem == _NEGATION:
                negated = stems[place + 1 : place + 2]
                new += (stem, negated[0]) not in self._pairs if negated else stem not in self._stems
        # That the contexts do not say something is nothing that a context says.
        return 0 if new and languages.is_decline(sentence.text) else new

    def _has_opposite(self, word: str) -> bool:
        opposites = [prefix + word for prefix in _OPPOSITE_PREFIXES]
        opposites += [word[len(prefix) :] for prefix in _OPPOSITE_PREFIXES if word.startswith(prefix)]
        return any(min(len(word), len(each)) >= _SHORTEST_OPPOSITE and each in self._words for each in opposites)


def _normal_form(text: str) -> str:
    text = _SHORT_NOT.sub(" not", text)
    if text.isascii():
        return text
    # The stemmer takes UTF-8: no lone surrogates.
    return normalised(text, "NFKC").encode("utf-8", "replace").decode("utf-8")


def _words(text: str) -> Iterator[str]:
    """The words of a text; in scripts without spaces, each two neighbouring characters, and one that stands alone."""
    before, end, alone = "", -1, False
    for match in word_spans(text):
        word = match.group()
        if before and match.start() == end and is_character(word):
            yield before + word
            before, end, alone = word, match.end(), False
            continue
        if alone:
            yield before
        if alone := is_character(word):
            before, end = word, match.end()
        else:
            yield word
            before = ""
    if alone:
        yield before
