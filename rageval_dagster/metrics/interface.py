"""What a metric is: its declaration, how it scores a batch, and the tools that the metrics of one run share."""

from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from rageval_dagster.llm.client import ChatRequest
from rageval_dagster.records import Answer, Outcome, Result
from rageval_dagster.settings import JudgeWeights

if TYPE_CHECKING:
    import numpy as np

    from rageval_dagster.embedding.models import Embedder
    from rageval_dagster.llm.client import ChatClient

T = TypeVar("T")

REPEATS = "repeats"
"""Where the detail of an outcome has the scores of a judge that was asked several times, and their spread."""

Need = Literal["evidence", "hits", "answer", "reference", "contexts", "checks", "embedder", "judge"]

Unanswerable = Literal["undefined", "if_answered", "scored"]
"""What holds on an unanswerable item: no value, a value if the system answered all the same, or always a value."""

Rows = Sequence[Mapping[str, Outcome | None]]
"""A family's outcomes by metric name, of each result in order; None or left out where a metric does not apply."""

Score = Callable[[Sequence[Result], "Tools"], Rows]


class Judge(Protocol):
    """What a judged metric asks: the judge model, and the metrics' embedder, while other results are judged too."""

    async def ask(self, request: ChatRequest, read: Callable[[str], T]) -> T:
        """What `read` makes of the reply; a reply for which it raises UnusableReplyError is asked for again.

        Raises:
            ModelFailedError: no usable reply came; it becomes the outcome's error.
        """
        ...

    async def embed(self, texts: Iterable[str]) -> Mapping[str, "np.ndarray"]:
        """As `Tools.embed`."""
        ...


Judged = Callable[[Result, Judge], Awaitable[Outcome]]
"""How one result is judged."""

scored = lru_cache(maxsize=65_536)(Outcome.scored)
"""`Outcome.scored` with one shared object for equal values, because most scores take few distinct values."""


@dataclass(frozen=True)
class MetricOptions:
    """What the metrics are computed with. What changes a number is part of its metric's version, or of its id (`k`).

    `k` is the cutoff (at least 1); thresholds are cosines. `minimum_retrieval_score` is in the retriever's own unit;
    None where nobody said what a good score is. `overlap_compat` gives unitxt's own numbers in the overlap family.
    `judge_version` is that of the judge model, None where there is none, which is asked `judge_repeats` times;
    `prompts_dir` holds the user's own prompts, and `judge_weights` are those of `judge.overall`.
    """

    k: int
    embedder_version: str | None = None
    sufficiency_threshold: float = 0.5
    hallucination_threshold: float = 0.4
    citation_threshold: float = 0.4
    minimum_retrieval_score: float | None = None
    citation_required: bool = True
    min_citation_coverage: float = 0.7
    overlap_compat: bool = False
    judge_version: str | None = None
    judge_repeats: int = 1
    prompts_dir: Path | None = None
    judge_weights: JudgeWeights = field(default_factory=JudgeWeights)

    def __post_init__(self) -> None:
        if self.k < 1:
            raise ValueError(f"the cutoff k is at least 1, not {self.k}")


def gave_answer(answer: Answer | None) -> bool:
    """Whether the system answered: it said something, and did not decline."""
    return answer is not None and not answer.declined and bool(answer.text.strip())


@dataclass(frozen=True)
class Metric:
    """One metric as it is declared; its value is always in [0, 1].

    `id` is `family.name` with the cutoff filled in (`retrieval.precision_at_5`). `version` changes whenever the number
    for the same result may change: it holds the definition's own version, its parameters, the embedding model, and of
    a judged metric the judge model and the prompts (at most 128 characters).
    `score` computes its whole family (it is called once per batch) and returns this metric's outcomes under its name.
    A metric that asks the judge model has `judged` instead, which judges one result; results are judged at once.
    `asks` names its requests about a result of usual size: metrics that ask the same name it alike (none: one request).
    `ceiling` is the highest value that a result allows, for metrics that cannot always reach 1.
    `of_claims`: it judges what an answer claims, so that it is undefined where the answer declines.
    """

    id: str
    version: str
    needs: frozenset[Need]
    unanswerable: Unanswerable
    description: str
    edge_cases: str
    source: str
    higher_is_better: bool = True
    good_value: float | None = None
    ceiling: Callable[[Result], float] | None = None
    score: Score | None = None
    judged: Judged | None = None
    asks: frozenset[str] = frozenset()
    of_claims: bool = False

    def __post_init__(self) -> None:
        if (self.score is None) == (self.judged is None):
            raise ValueError(f"{self.id}: a metric has either `score` or `judged`")

    @property
    def family(self) -> str:
        return self.id.partition(".")[0]

    @property
    def name(self) -> str:
        return self.id.partition(".")[2]

    def compute(self, results: Sequence[Result], tools: "Tools") -> list[Outcome]:
        """One outcome a result, in order; of a metric that needs no judge.

        Raises:
            TypeError: the family's score did not give one outcome for every result that this metric applies to.
        """
        score = self.score
        if score is None:
            raise TypeError(f"{self.id} is computed by metrics.judging")
        barred = self.barred(results, tools)
        rows = tools.once(results, score, lambda: score(results, tools))
        outcomes = [reason or row.get(self.name) for reason, row in zip(barred, rows, strict=True)]
        if not all(isinstance(outcome, Outcome) for outcome in outcomes):
            raise TypeError(f"{self.id} left results without an outcome")
        return outcomes  # pyright: ignore[reportReturnType]

    def barred(self, results: Sequence[Result], tools: "Tools") -> list[Outcome | None]:
        """`inapplicable` of each result, told once a batch for all metrics that need the same."""
        key = (self.needs, self.unanswerable, self.of_claims)
        return tools.once(results, key, lambda: list(map(self.inapplicable, results)))

    def inapplicable(self, result: Result) -> Outcome | None:
        """The outcome of a result that this metric cannot or must not judge; None for all others."""
        if result.error is not None:
            return Outcome.error(result.error)
        if not result.tells_contexts and self.needs & {"hits", "contexts"}:
            return _NOT_TOLD
        if "contexts" in self.needs and not all(hit.text for hit in result.hits[: len(result.contexts)]):
            return _NO_TEXTS
        if not result.item.answerable:
            if self.unanswerable == "undefined":
                return _UNANSWERABLE
            if self.unanswerable == "if_answered" and not gave_answer(result.answer):
                return _NOT_ANSWERED
        if "answer" in self.needs and result.answer is None:
            return _NO_ANSWER
        if self.of_claims and result.answer is not None and result.answer.declined:
            return _DECLINED
        if "reference" in self.needs and not result.item.answers:
            return _NO_REFERENCE
        if "checks" in self.needs and not result.item.checks:
            return _NO_CHECKS
        return None


EMPTY_ANSWER = Outcome.undefined("the answer is empty")
EMPTY_QUESTION = Outcome.undefined("the question is empty")
EMPTY_REFERENCE = Outcome.undefined("the reference answer is empty")
NO_EVIDENCE = Outcome.undefined("no evidence in the corpus")

_UNANSWERABLE = Outcome.undefined("the question is unanswerable")
_NOT_ANSWERED = Outcome.undefined("the question is unanswerable and was not answered")
_DECLINED = Outcome.undefined("the answer declines, which claims nothing")
_NOT_TOLD = Outcome.undefined("the system does not tell what it retrieved")
_NO_TEXTS = Outcome.undefined("the texts of some contexts are not known")
_NO_ANSWER = Outcome.undefined("there is no answer to judge")
_NO_CHECKS = Outcome.undefined("the question declares no checks")
_NO_REFERENCE = Outcome.undefined("no reference answer")


class Tools:
    """What the metrics of one run share: embedder and judge, the vectors, and what a family computed for the batch."""

    def __init__(self, embedder: "Embedder | None" = None, judge: "ChatClient | None" = None) -> None:
        self.embedder = embedder
        self.judge = judge
        self._vectors: dict[str, np.ndarray] = {}
        self._batch: Sequence[Result] | None = None
        self._made: dict[Hashable, tuple[Any, Exception | None]] = {}

    def once(self, results: Sequence[Result], key: Hashable, make: Callable[[], T]) -> T:
        """What `make` returns, computed once per batch and key; a failure is kept and raised again, not repeated."""
        if results is not self._batch:
            self._batch, self._made = results, {}
        if key not in self._made:
            try:
                self._made[key] = (make(), None)
            except Exception as error:  # noqa: BLE001  (kept, and raised again below)
                self._made[key] = (None, error)
        value, failure = self._made[key]
        if failure is not None:
            raise failure
        return value

    def embed(self, texts: Iterable[str]) -> Mapping[str, "np.ndarray"]:
        """The vectors of each text, float32 [windows, dimension], rows of length 1; at least the texts asked for.

        Each distinct text, and each distinct window of long ones, is embedded once in the life of these tools.

        Raises:
            LookupError: there is no embedder.
        """
        if self.embedder is None:
            raise LookupError("these tools have no embedder")
        windows = {text: self.embedder.windows(text) or [text] for text in texts if text not in self._vectors}
        if windows:
            pieces = {piece: row for row, piece in enumerate(dict.fromkeys(w for ws in windows.values() for w in ws))}
            matrix = self.embedder.encode(list(pieces))
            for text, parts in windows.items():
                self._vectors[text] = matrix[[pieces[part] for part in parts]]
        return self._vectors
