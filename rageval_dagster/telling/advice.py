"""Likely causes and what to do: of a regression, of metrics below their good value, and of pairs that tell more.

The diagnoses are those of the seed documents that `Advice.source` numbers, in our words, extended where this project
measures what they do not.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import chain

from rageval_dagster.evaluation.rightness import failed_questions, told_by
from rageval_dagster.evaluation.summary import EvaluationReport, outcomes_of
from rageval_dagster.evaluation.verdict import good_value, is_below
from rageval_dagster.storage.comparisons import Change
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.scores import Summary

LOW, HIGH = 0.5, 0.8
"""A mean below the first is low and above the second high, for metrics without a good value of their own."""
TELLING = 0.1
"""By so much lower on the questions that failed, a metric has to do with why they did."""


@dataclass(frozen=True)
class Advice:
    """What it means that one of the metrics in `low` is low, while (where given) one of those in `high` is high.

    It is not said where one of those in `unless` is low.
    """

    cause: str
    action: str
    source: str
    low: tuple[str, ...] = ()
    high: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()


@dataclass(frozen=True)
class Advised:
    """Advice that applies: the metrics that are low (or regressed), and high, by id.

    `lower` is by how much lower they are, from 0 to 1, on the questions that failed than on the others: the most of
    those in `low`; None where that is not known.
    """

    advice: Advice
    low: Sequence[str]
    high: Sequence[str]
    lower: float | None = None

    @property
    def is_telling(self) -> bool:
        """Whether it may explain why questions failed."""
        return self.lower is None or self.lower >= TELLING


_FAITHFUL = ("claims.faithfulness", "judge.faithfulness")
_RIGHT = ("claims.answer_correctness", "judge.correctness", "lexical.answer_match")
_CORRECT = (*_RIGHT, "overlap.answer_correctness")

_FOUND = (
    "retrieval.recall_at_{k}",
    "retrieval.document_recall_at_{k}",
    "retrieval.hit_rate_at_{k}",
    "retrieval.document_hit_rate_at_{k}",
)

_REGRESSED = {
    "corpus": Advice(
        "The documents changed: passages with answers are gone or split differently, or new ones rank above them",
        "Compare the two runs: this names the documents, and shows the passages of both runs for each question",
        "004",
    ),
    "index": Advice(
        "The vectors changed: not all come from the model (and model version) that embeds the questions",
        "Find out what embedded the documents since, and embed them again with the model that embeds the questions",
        "004",
    ),
    "system": Advice(
        "The system behaves differently: a new release, prompt or model, or different settings",
        "Compare the answers before and after, then roll back the release or accept the run",
        "004",
    ),
    "judge": Advice(
        "The judge's scores changed for the same passages and answers",
        "Read some verdicts: if they are now correct, accept the run",
        "002",
    ),
}
"""What to make of questions that got worse by a change."""

_PAIRS = (
    Advice(
        "The answers keep to their contexts, but the contexts are not the right ones",
        "Fix retrieval first: chunk size and overlap, the embedding model, hybrid search",
        "004",
        low=("retrieval.precision_at_{k}", "retrieval.recall_at_{k}", "retrieval.mrr"),
        high=_FAITHFUL,
    ),
    Advice(
        "The answers are grounded but do not say what is expected: the expected answers may be too narrow, or the "
        "contexts lack the fact",
        "Read some questions: add other correct wordings to the expected answers, check if the contexts hold the fact",
        "001",
        low=_CORRECT,
        high=_FAITHFUL,
    ),
    Advice(
        "The right documents are found, but the answers do not make use of them",
        "Try another answering model or prompt, and see whether answers are cut off",
        "001",
        low=(*_CORRECT, *_FAITHFUL, "judge.completeness"),
        high=("overlap.context_correctness", "retrieval.hit_rate_at_{k}"),
        unless=_FOUND,
    ),
    Advice(
        "The answers name the right things with wrong numbers",
        "Check how tables and figures are cut into chunks, and what the answering prompt says about numbers",
        "003",
        low=("lexical.number_match", "checks.calculation_correct"),
        high=("lexical.keyword_coverage",),
    ),
    Advice(
        "The answers are right where they are short, and leave details out elsewhere",
        "Ask in the answering prompt for complete answers",
        "003",
        low=("lexical.keyword_coverage",),
        high=("lexical.exact_match",),
    ),
    Advice(
        "The answers say what is expected in other words, or with more around it",
        "No cause for concern by itself: read exact match only for questions with one short answer",
        "003",
        low=("lexical.exact_match",),
        high=("lexical.keyword_coverage",),
    ),
    Advice(
        "The answers are as expected, but their contexts do not say so: the model may answer from memory",
        "See whether the contexts support the answers, and have the prompt allow only what they say",
        "003",
        low=(*_FAITHFUL, "claims.context_precision", "claims.context_recall"),
        high=("lexical.keyword_coverage", "overlap.answer_correctness"),
    ),
)

_BETTER = {"lexical.source_citation": "citation.coverage"}
"""Where the better measure of the same was taken, the other one, which looks for phrases, suggests nothing."""

_SINGLE = (
    Advice(
        "Many of the passages that come back have nothing to do with the question",
        "Tune the embedding model, improve chunking, add keyword search (BM25) for hybrid search",
        "004",
        low=("retrieval.precision_at_{k}", "retrieval.document_precision_at_{k}", "claims.context_precision"),
    ),
    Advice(
        "Passages that hold the answer do not come back",
        "See whether they are indexed at all, raise k, widen the search with related terms or a knowledge graph",
        "004",
        low=(
            "retrieval.recall_at_{k}",
            "retrieval.document_recall_at_{k}",
            "retrieval.hit_rate_at_{k}",
            "retrieval.document_hit_rate_at_{k}",
            "claims.context_recall",
            "overlap.context_correctness",
        ),
    ),
    Advice(
        "The right passages come back, but low in the list",
        "Add or tune a reranker, use a better embedding model, change the weights of keyword and vector search",
        "004",
        low=("retrieval.mrr", "retrieval.document_mrr", "retrieval.ndcg_at_10", "retrieval.document_ndcg_at_10"),
        unless=_FOUND,
    ),
    Advice(
        "The answers say things that their contexts do not",
        "Verify answers before they are returned, require citations, allow the system to decline",
        "004, 000",
        low=(*_FAITHFUL, "overlap.faithfulness", "embedding.answer_hallucination"),
    ),
    Advice(
        "Citations point to passages that do not say it, or that were never retrieved",
        "Number the contexts clearly in the prompt, and keep their ids when contexts are compressed",
        "004",
        low=("citation.accuracy", "citation.accuracy_judged"),
    ),
    Advice(
        "Much of what the answers say has no source, so nobody can check it",
        "Require a citation for each statement in the prompt (RAG__CITATION_REQUIRED for the built-in answers)",
        "004, 003",
        low=("citation.coverage", "judge.citation_quality", "lexical.source_citation"),
    ),
    Advice(
        "The answers do not address the question",
        "Look at how questions are rewritten before the search, and at how their intent is detected",
        "004",
        low=("claims.answer_relevancy", "judge.answer_relevance", "embedding.question_alignment"),
    ),
    Advice(
        "The passages that come back may be off the question's topic",
        "See whether the embedding model fits the documents' language and field",
        "000",
        low=("embedding.context_relevance",),
    ),
    Advice(
        "Too few of the passages are close enough to the question to answer it",
        "Retrieve more passages, or split the documents so that each passage holds a whole thought",
        "000",
        low=("embedding.context_sufficiency",),
    ),
    Advice(
        "The answers differ from the expected ones in meaning: facts may be wrong",
        "Read the lowest-scoring questions next to their contexts",
        "000",
        low=_RIGHT,
    ),
    Advice(
        "The system answers questions that it should decline, or declines questions that it could answer",
        "Tune when it declines: its threshold on retrieval scores, or what its prompt says about missing answers",
        "004",
        low=("quality.refusal_correct",),
    ),
    Advice(
        "The answers leave out what the contexts or the expected answers hold",
        "Ask for complete answers, raise the length limit, give the model more contexts",
        "002, 003",
        low=("judge.completeness", "lexical.answer_completeness", "checks.list_coverage"),
    ),
)

EVERYTHING_LOW = Advice(
    "Everything is low: the questions may not fit these documents, or the system does not see them",
    "Try some questions by hand, see whether the expected documents exist under these names, and whether the system "
    "searches this client's documents",
    "001",
)


def suspected(changes: Iterable[Change], regressed: Sequence[str]) -> list[Advised]:
    """What a regression of some metrics may come from: the changes that questions got worse by, in their order."""
    worse = [change.what for change in changes if change.worse and change.what in _REGRESSED] if regressed else []
    return [Advised(_REGRESSED[what], regressed, ()) for what in worse]


def advised(summaries: Mapping[str, Summary], k: int, thresholds: Mapping[str, float]) -> list[Advised]:
    """What the means of an evaluation suggest: pairs first, then single metrics, those first that lack most.

    A single metric that a pair explains is not said again. `thresholds` are the client's own good values by metric id.
    """

    def wanted(summary: Summary, bound: float) -> float:
        good = good_value(summary, thresholds)
        return good if good is not None else bound if summary.higher_is_better else 1 - bound

    def lack(name: str) -> float:
        """How far a low metric is from what it should be, as a share of that."""
        aim = wanted(summaries[name], LOW)
        distance = abs((summaries[name].mean or 0.0) - aim)
        return distance / aim if aim else distance

    measured = {name: summary for name, summary in summaries.items() if summary.mean is not None}
    measured = {name: summary for name, summary in measured.items() if _BETTER.get(name) not in measured}
    low_ones = {name for name, summary in measured.items() if is_below(summary, wanted(summary, LOW))}
    high_ones = {name for name, summary in measured.items() if not is_below(summary, wanted(summary, HIGH))}
    held = [name for name in low_ones | high_ones if good_value(summaries[name], thresholds) is not None]
    if len(held) > 2 and low_ones.issuperset(held):
        return [Advised(EVERYTHING_LOW, sorted(held), ())]
    pairs = _applying(_PAIRS, k, low_ones, high_ones)
    explained = {name for each in pairs for name in each.low}
    singles = [each for each in _applying(_SINGLE, k, low_ones, high_ones) if not explained.issuperset(each.low)]
    return [*pairs, *sorted(singles, key=lambda each: -max(map(lack, each.low)))]


def likely_causes(db: Database, report: EvaluationReport, thresholds: Mapping[str, float]) -> list[Advised]:
    """What `advised` gives of an evaluation, first what explains its failed questions: the metrics that are much lower
    on them than on the others. What says nothing of them comes last."""
    found = advised(report.summaries, report.evaluation.k, thresholds)
    if not found:
        return []
    outcomes = outcomes_of(db, report, {*told_by(report), *chain(*(each.low for each in found))})
    failed = failed_questions(report, outcomes)

    def lower(name: str) -> float:
        values = {item_id: each.value for item_id, each in outcomes.get(name, {}).items() if each.value is not None}
        of_failed = [value for item_id, value in values.items() if item_id in failed]
        of_others = [value for item_id, value in values.items() if item_id not in failed]
        if not of_failed or not of_others:
            return 0.0
        sign = 1.0 if report.summaries[name].higher_is_better else -1.0
        return sign * (sum(of_others) / len(of_others) - sum(of_failed) / len(of_failed))

    asked = set(chain(*outcomes.values()))
    if not failed or failed >= asked:
        return found
    told = [replace(each, lower=max(map(lower, each.low))) for each in found]
    return sorted(told, key=lambda each: -(each.lower or 0.0))


def _applying(known: Iterable[Advice], k: int, low_ones: Set[str], high_ones: Set[str]) -> list[Advised]:
    found = []
    for advice in known:
        low, high, unless = (
            [name for pattern in patterns if (name := pattern.format(k=k)) in present]
            for patterns, present in ((advice.low, low_ones), (advice.high, high_ones), (advice.unless, low_ones))
        )
        if low and (high or not advice.high) and not unless:
            found.append(Advised(advice, low, high))
    return found
