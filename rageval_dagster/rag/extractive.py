"""The keyless answerer: the contexts' own sentences that match a question best, or a decline where none does.

How well a passage answers a question is measured by late interaction (Khattab and Zaharia, SIGIR 2020): each word of
the question looks for its nearest word, in context, among the passage's. A passage about the right subject that says
nothing about what is asked scores lower than by the cosine of whole texts: some words of the question find nothing.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from rageval_dagster.identity import digest_json
from rageval_dagster.languages import detect
from rageval_dagster.rag.system import AnswerOutcome
from rageval_dagster.records import Answer, Item, Progress
from rageval_dagster.text import sentences

if TYPE_CHECKING:
    import numpy as np

    from rageval_dagster.embedding.models import TokenVectors

DECLINED_TEXT = "The retrieved passages do not answer this question."

MIN_SUPPORT = 0.56
"""Below it nothing is answered. Chosen on the human questions of clapnq and xquad for all-MiniLM-L6-v2 and English;
benchmarks/declining.py shows the choice, and what thresholds chosen on one half of the questions do on the other."""
RUNNER_UP_SHARE = 0.9
"""The second best sentence is added if its support is at least this share of the best one's."""
NEIGHBOURS = 1
"""Sentences before and after that count with a sentence when declining: names stand there that it calls `it`."""
FLOOR = 0.05
"""The least that a word of the question scores: one without any counterpart lowers the mean but does not undo it."""

BLOCK = 64
"""Items answered at once: with a few, most of what the model reads is filler (see `embedding.models`). The token
vectors of their contexts take some 120 MB."""

_REVISION = 2
_BLANK_LINE = re.compile(r"\n[^\S\n]*\n")
_LAST_MARKS = re.compile(r"[.!?。！？।…][\"'”’)\]]*$")
_WORD = re.compile(r"[^\W_]")


class TokenEmbedder(Protocol):
    """What the answerer needs of an embedding model."""

    @property
    def version(self) -> str: ...

    def token_vectors(self, texts: Sequence[str]) -> "list[TokenVectors]": ...


@dataclass(frozen=True)
class Passage:
    """A context as it is read: `text` is its heading, if any, and its sentences; `spans` are theirs in it."""

    text: str
    sentences: tuple[str, ...]
    spans: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Match:
    """A sentence of a context (0-based): its own support for the question, and that with its neighbours, in [0, 1]."""

    context: int
    sentence: str
    support: float
    support_around: float


class ExtractiveAnswerer:
    """Answers with at most two sentences of the contexts, each cited as [n], or declines."""

    def __init__(self, embedder: TokenEmbedder) -> None:
        self._embedder = embedder

    @property
    def version(self) -> str:
        return digest_json(
            ["extractive", _REVISION, self._embedder.version, MIN_SUPPORT, RUNNER_UP_SHARE, NEIGHBOURS, FLOOR]
        )

    def answer(
        self, items: Sequence[Item], contexts: Sequence[Sequence[str]], progress: Progress | None = None
    ) -> list[AnswerOutcome]:
        """As `Answerer.answer`; there are no errors."""
        outcomes: list[AnswerOutcome] = []
        for start in range(0, len(items), BLOCK):
            questions = [item.question for item in items[start : start + BLOCK]]
            for matches in self.matches(questions, contexts[start : start + BLOCK]):
                outcomes.append(AnswerOutcome(compose(matches)))
            if progress is not None:
                progress(len(outcomes), len(items))
        return outcomes

    def matches(self, questions: Sequence[str], contexts: Sequence[Sequence[str]]) -> Iterator[list[Match]]:
        """For each question every sentence of its contexts, in their order."""
        passages = {text: read_passage(text) for own in contexts for text in own}
        texts = list(dict.fromkeys([*questions, *(passage.text for passage in passages.values())]))
        tokens = dict(zip(texts, self._embedder.token_vectors(texts), strict=True))
        for question, own in zip(questions, contexts, strict=True):
            rows = [row for row, (start, end) in enumerate(tokens[question].spans) if _WORD.search(question[start:end])]
            asked = tokens[question].vectors[rows]
            yield [
                match
                for number, context in enumerate(own)
                for match in _match(asked, number, passages[context], tokens[passages[context].text])
            ]


def compose(matches: Sequence[Match]) -> Answer:
    """The best sentences in the order of the contexts, with their citations; a decline below the least support."""
    if max((match.support_around for match in matches), default=0.0) < MIN_SUPPORT:
        return Answer(DECLINED_TEXT, declined=True)
    distinct = {match.sentence: match for match in reversed(matches)}  # the first context that holds a sentence
    best = sorted(distinct.values(), key=lambda match: (-match.support, match.context))[:2]
    chosen = [match for match in best if match.support >= RUNNER_UP_SHARE * best[0].support]
    in_order = [match for match in matches if match in chosen]
    return Answer(" ".join(_cited(match.sentence, match.context + 1) for match in in_order))


def _cited(sentence: str, number: int) -> str:
    """The citation stands before the last mark, so that whoever splits the answer keeps it with its sentence."""
    marks = _LAST_MARKS.search(sentence)
    end = marks.start() if marks else len(sentence)
    return f"{sentence[:end]} [{number}]{sentence[end:]}"


def read_passage(text: str) -> Passage:
    """The heading and the sentences of a context; white space is made single spaces."""
    heading, body = _split_heading(text)
    language = detect(text) or "en"
    found = tuple(
        " ".join(sentence.split())
        for block in _BLANK_LINE.split(body)
        if block.strip()
        for sentence in sentences(block, language)
    )
    parts = [heading, *found] if heading else list(found)
    ends = [sum(len(part) + 1 for part in parts[: count + 1]) - 1 for count in range(len(parts))]
    spans = [(end - len(part), end) for part, end in zip(parts, ends, strict=True)]
    return Passage(" ".join(parts), found, tuple(spans[len(parts) - len(found) :]))


def _split_heading(text: str) -> tuple[str, str]:
    """A first line that is a heading, and the rest.

    A heading names the subject, as the question does; it tells nothing about it, and may not count as an answer.
    """
    first, _, rest = text.strip().partition("\n")
    following = rest.lstrip()
    is_heading = (
        following != ""
        and len(first.split()) <= 12
        and len(first) <= 120
        and not first.rstrip().endswith((".", "!", "?", ",", ";", "。", "！", "？", "।"))
        and not first[0].islower()
        and not following[0].islower()
    )
    return (" ".join(first.split()), rest) if is_heading else ("", text)


def _match(asked: "np.ndarray", context: int, passage: Passage, tokens: "TokenVectors") -> list[Match]:
    import numpy as np

    if not len(asked) or not passage.sentences:
        return []
    similarity = tokens.vectors @ asked.T
    best = np.full((len(passage.sentences), len(asked)), FLOOR)
    for row, (start, end) in enumerate(passage.spans):
        inside = (tokens.spans[:, 0] >= start) & (tokens.spans[:, 1] <= end)
        if inside.any():
            best[row] = np.clip(similarity[inside].max(axis=0), FLOOR, 1.0)
    around = [
        best[max(row - NEIGHBOURS, 0) : row + NEIGHBOURS + 1].max(axis=0) for row in range(len(passage.sentences))
    ]
    return [
        Match(context, sentence, _geometric_mean(own), _geometric_mean(with_neighbours))
        for sentence, own, with_neighbours in zip(passage.sentences, best, around, strict=True)
    ]


def _geometric_mean(values: "np.ndarray") -> float:
    import numpy as np

    # Rounded: the last digits of a vector depend on the texts that shared its batch.
    return round(float(np.exp(np.log(values).mean())), 5)
