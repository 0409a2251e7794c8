"""The frozen records that travel between the packages: chunks, items with their evidence, hits, answers, outcomes."""

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, Literal

from rageval_dagster.identity import digest, digest_json

Progress = Callable[[int, int], None]
"""Called with (done, total) now and then during long work."""


class Pace:
    """How fast long work goes: by the second, or by the minute where it is slower than one a second.

    Which of them the first telling decides, so that the numbers of one work can be compared.
    """

    def __init__(self) -> None:
        self._by_minute: bool | None = None

    def describe(self, done: int, total: int, seconds: float) -> str:
        """The pace of `done` in so many seconds, and how long the rest takes so: `1.8/s, 0:01:20 left`."""
        if not done:
            return "none yet"
        rate = done / max(seconds, 1e-9)
        if self._by_minute is None:
            self._by_minute = rate < 1.0
        left = f", {timedelta(seconds=round((total - done) / rate))} left" if done < total else ""
        return (f"{60 * rate:.1f}/min" if self._by_minute else f"{rate:.1f}/s") + left


@dataclass(frozen=True)
class Chunk:
    """One passage of a document as the store holds it.

    `position` is the chunk's place in its document (0-based), `page` its 1-based page where the source has pages.
    `title` is what people call the document, where the store says so: nothing is told apart by it. `left_out` is what
    its file says beside the text, such as a menu: nobody is asked about it, but a system may return it.
    """

    id: str
    text: str
    document_id: str
    page: int | None = None
    position: int | None = None
    added_at: datetime | None = None
    title: str | None = None
    left_out: str = ""

    @cached_property
    def text_hash(self) -> str:
        return digest(self.text)

    @cached_property
    def words_hash(self) -> str:
        """Of the text whatever its white space."""
        return digest(" ".join(self.text.split()))

    @property
    def has_document(self) -> bool:
        """Whether the store names the chunk's document; where it does not, the chunk is one itself."""
        return self.document_id != self.id

    @cached_property
    def content_key(self) -> str:
        """What a chunk is whatever its id: its document, if the store names one, and its text."""
        return digest(self.document_id if self.has_document else None, self.text_hash)


PAGES_TOGETHER = 20
"""A manual of 200 pages is not one thing that fails as a whole: with each document as one, a corpus of five such
manuals could never show a difference."""
PASSAGES_TOGETHER = 50
"""Of a document without pages: about as much text."""


@dataclass(frozen=True)
class Evidence:
    """What proves an answer: a document, where known the page, and the exact words.

    Without a quote the page is what is to be found; without either the item is scored at document level.
    """

    document_id: str
    page: int | None = None
    quote: str | None = None

    @property
    def is_page(self) -> bool:
        """Whether it names a page and no words of it."""
        return self.page is not None and not self.quote


def page_id(document_id: str, page: int | None) -> str:
    """What stands for a whole page among the ids of chunks."""
    return f"page:{page}:{document_id}"


@dataclass(frozen=True)
class Item:
    """A benchmark question with everything that scoring reads of it (the native format of a dataset).

    `answers` and `evidence` may be empty: a logged question has neither. `origin` says where it comes from:
    `extractive`, `llm`, `human`, `imported`, `logged`.
    """

    question: str
    answers: tuple[str, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    category: str = "factual_lookup"
    answerable: bool = True
    origin: str = "imported"
    human_verified: bool = False
    history: tuple[Mapping[str, str], ...] = ()
    principal: Mapping[str, Any] | None = None
    checks: tuple[Mapping[str, Any], ...] = ()

    @cached_property
    def item_id(self) -> str:
        """16 hex digits over the question, its answers, its evidence, and history and principal where it has them."""
        identity: dict[str, Any] = {
            "question": self.question,
            "answers": list(self.answers),
            "evidence": [asdict(evidence) for evidence in self.evidence],
        }
        if self.history:
            identity["history"] = [dict(turn) for turn in self.history]
        if self.principal:
            identity["principal"] = dict(self.principal)
        return digest_json(identity)[:16]

    @cached_property
    def grading_key(self) -> str | None:
        """What scoring reads of the item beyond what makes its id; None where that is nothing out of the ordinary.

        Two items with one id and different grading_key are the same question, judged otherwise.
        """
        if self.answerable and not self.checks:
            return None
        return digest_json({"answerable": self.answerable, "checks": [dict(check) for check in self.checks]})

    def cluster(self, position: int | None = None) -> str:
        """What its score hangs together with: its document, of a long one the `PAGES_TOGETHER` around it, or the
        `PASSAGES_TOGETHER` where it has no pages; or itself if it has no evidence.

        `position` is the 0-based place in the document of the passage that its evidence stands in, where it is known.
        """
        if not self.evidence:
            return self.item_id
        first = self.evidence[0]
        part = (first.page - 1) // PAGES_TOGETHER if first.page else (position or 0) // PASSAGES_TOGETHER
        return f"{first.document_id} part {part + 1}" if part else first.document_id

    @property
    def document_ids(self) -> frozenset[str]:
        return frozenset(evidence.document_id for evidence in self.evidence)

    def to_dict(self) -> dict[str, Any]:
        """The item in the native format; empty optional fields are left out."""
        row: dict[str, Any] = {
            "item_id": self.item_id,
            "question": self.question,
            "answers": list(self.answers),
            "evidence": [
                {key: value for key, value in asdict(evidence).items() if value is not None}
                for evidence in self.evidence
            ],
            "category": self.category,
            "answerable": self.answerable,
            "origin": self.origin,
            "human_verified": self.human_verified,
        }
        if self.history:
            row["history"] = [dict(turn) for turn in self.history]
        if self.principal:
            row["principal"] = dict(self.principal)
        if self.checks:
            row["checks"] = [dict(check) for check in self.checks]
        return row

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> "Item":
        """The inverse of `to_dict`, for rows this project wrote itself (no checking: importers check)."""
        return cls(
            question=row["question"],
            answers=tuple(row.get("answers", ())),
            evidence=tuple(Evidence(**evidence) for evidence in row.get("evidence", ())),
            category=row.get("category", "factual_lookup"),
            answerable=row.get("answerable", True),
            origin=row.get("origin", "imported"),
            human_verified=row.get("human_verified", False),
            history=tuple(row.get("history", ())),
            principal=row.get("principal"),
            checks=tuple(row.get("checks", ())),
        )


CandidateStatus = Literal["new", "accepted", "rejected", "retired", "failed"]

NOT_RETURNED = 0
"""The difficulty of a question whose own passage the store does not return among the first."""


@dataclass(frozen=True)
class Candidate:
    """A generated question-answer pair on its way into a dataset, or the reason why there is none.

    `chunk_key` is the `content_key` of the chunk it was made from; `attempt` tells several from one chunk apart;
    `generator` names generator, prompt version and model in one string. `difficulty` is the round-trip rank:
    the rank (1-based) at which the source chunk comes back for the question, `NOT_RETURNED` if it does not, None if
    that was not measured.
    """

    chunk_key: str
    generator: str
    attempt: int
    status: CandidateStatus
    item: Item | None = None
    reasons: tuple[str, ...] = ()
    difficulty: int | None = None

    @cached_property
    def candidate_id(self) -> str:
        return digest(self.chunk_key, self.generator, str(self.attempt))[:32]


Owner = Literal["own", "foreign", "shared", "unknown"]
"""Whose words these are: the client's, one other client's, some other clients', or nobody's (or everybody's)."""

UNKEPT: frozenset[Owner] = frozenset({"foreign", "shared"})
"""Of these no word is stored: whoever they belong to can be forgotten."""


@dataclass(frozen=True)
class Hit:
    """One retrieved chunk. `rank` is 1-based in the order the system returned; `owner` says whose chunk it is.

    `holders` stand for the clients whose words a `foreign` one holds, see `storage/word_hashes.holder_of`.
    """

    chunk_id: str
    document_id: str
    rank: int
    score: float
    text: str = ""
    page: int | None = None
    owner: Owner = "own"
    holders: tuple[int, ...] = ()


@dataclass(frozen=True)
class Answer:
    """What the system said. `declined` is whether it declined to answer.

    Citations stand in the text; `citations` are those that the system gave apart from it: chunk ids, document ids, or
    numbers of contexts from 1.
    """

    text: str
    declined: bool = False
    citations: tuple[str, ...] = ()


@dataclass(frozen=True)
class Result:
    """All that happened to one item in an evaluation: what every metric is computed from.

    `relevant_chunks` are the chunk ids that hold the evidence, and the `page_id`s of pages that are wanted as a whole;
    `relevant_documents` the document ids. Each is None where the item has no evidence of that kind, or the corpus does
    not hold it. `k` is the evaluation's cutoff; `contexts` are the texts that the answerer saw, in order. `error` is
    set when the system failed for this item.
    `tells_contexts` is false where the system does not say what it retrieved: no hits then mean nothing.
    `texts_deleted` is true where answer or contexts were deleted since, so that there is nothing left to judge.
    `answer_owner` is whose words an answer held that was not kept.
    """

    item: Item
    relevant_chunks: frozenset[str] | None
    relevant_documents: frozenset[str] | None
    hits: tuple[Hit, ...]
    k: int
    answer: Answer | None = None
    contexts: tuple[str, ...] = ()
    error: str | None = None
    tells_contexts: bool = True
    texts_deleted: bool = False
    answer_owner: Owner = "own"

    @property
    def answer_text(self) -> str:
        """What was answered; empty without an answer."""
        return "" if self.answer is None else self.answer.text

    @cached_property
    def references(self) -> tuple[str, ...]:
        """The reference answers that are not blank."""
        return tuple(text for text in self.item.answers if text.strip())

    def found_as(self, hit: Hit) -> str:
        """What a hit counts as among chunks: the page that it is of where that is wanted as a whole, else itself."""
        page = page_id(hit.document_id, hit.page)
        return page if page in (self.relevant_chunks or ()) else hit.chunk_id

    def is_relevant(self, hit: Hit) -> bool:
        """Whether a hit holds the evidence, or is of its document where only that is known."""
        if self.relevant_chunks is not None:
            return self.found_as(hit) in self.relevant_chunks
        return hit.document_id in (self.relevant_documents or ())


OutcomeStatus = Literal["scored", "undefined", "error"]

Decision = Literal["passed", "regressed", "unclear"]
"""What became of a metric since the reference."""


@dataclass(frozen=True)
class Outcome:
    """A metric's typed result for one item: a finite value in [0, 1], or undefined, or an error with its reason.

    `made_at` is when the oldest reply of a judge came that it is made of; None: just now, or it is not asked for.
    """

    status: OutcomeStatus
    value: float | None = None
    reason: str | None = None
    detail: Mapping[str, Any] | None = field(default=None, compare=False)
    made_at: datetime | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if self.status == "scored":
            if self.value is None or not math.isfinite(self.value) or not 0.0 <= self.value <= 1.0:
                raise ValueError(f"a scored outcome takes a finite value in [0, 1], not {self.value!r}")
        elif self.value is not None:
            raise ValueError(f"an outcome that is {self.status} has no value")

    @classmethod
    def scored(cls, value: float, detail: Mapping[str, Any] | None = None) -> "Outcome":
        return cls("scored", float(value), None, detail)

    @classmethod
    def undefined(cls, reason: str) -> "Outcome":
        return cls("undefined", None, reason)

    @classmethod
    def error(cls, reason: str) -> "Outcome":
        return cls("error", None, reason)


@dataclass(frozen=True)
class Interval:
    """A mean with its confidence interval."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Summary:
    """What the outcomes of one metric come to. Mean, interval and range are None where nothing was scored.

    n = n_scored + n_undefined + n_error. `worst_low` and `worst_high` bound the mean that the scored and the failed
    items would have together, had all the failed ones scored 0, or 1; None where there are neither.
    """

    n: int
    n_scored: int
    n_undefined: int
    n_error: int
    mean: float | None
    ci_low: float | None
    ci_high: float | None
    min: float | None
    max: float | None
    worst_low: float | None
    worst_high: float | None
