"""Likely causes and what to do: of a regression, of metrics below their good value, and of pairs that tell more.

The diagnoses are those of the seed documents that `Advice.source` numbers, in our words, extended where this project
measures what they do not.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

from rageval_dagster.storage.comparisons import Change
from rageval_dagster.storage.scores import Summary

LOW, HIGH = 0.5, 0.8
"""A mean below the first is low and above the second high, for metrics without a good value of their own."""


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
    """Advice that applies: the metrics that are low (or regressed), and high, by id."""

    advice: Advice
    low: Sequence[str]
    high: Sequence[str]


_FAITHFUL = ("claims.faithfulness", "judge.faithfulness")
_RIGHT = ("claims.answer_correctness", "judge.correctness", "lexical.answer_match")
_CORRECT = (*_RIGHT, "overlap.answer_correctness")

_FOUND = (
    "retrieval.recall_at_{k}",
    "retrieval.document_recall_at_{k}",
    "retrieval.hit_rate_at_{k}",
    "retrieval.document_hit_rate_at_{k}",
)

_CHANGED = ("corpus", "index", "system", "judge")
_REGRESSED = (
    Advice(
        "The documents changed: passages with answers are gone or cut otherwise, or new ones come before them",
        "Compare the two runs: it names the documents, and shows the passages of both times for each question",
        "004",
    ),
    Advice(
        "The vectors changed: not all come from the model that searches, or from its version",
        "See what embedded the documents since, and embed them again with the model that searches",
        "004",
    ),
    Advice(
        "The system behaves otherwise: a release of it, its prompt, its model or its settings",
        "Compare the answers of both times, and take back what was released or accept the run",
        "004",
    ),
    Advice(
        "The judge's scores changed where passages and answers did not",
        "Read some verdicts: if they are right now, accept the run",
        "002",
    ),
)
"""What to make of questions that got worse by a change, in the order of `_CHANGED`."""

_PAIRS = (
    Advice(
        "The answers keep to their contexts, but the contexts are not the right ones",
        "Mend retrieval first: chunk size and overlap, the embedding model, hybrid search",
        "004",
        low=("retrieval.precision_at_{k}", "retrieval.recall_at_{k}", "retrieval.mrr"),
        high=_FAITHFUL,
    ),
    Advice(
        "The answers are grounded but do not say what is expected: the expected answers may be too narrow, or the "
        "contexts lack the fact",
        "Read some questions: add other right wordings to the expected answers, see whether the contexts hold the fact",
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
        "Check how tables and figures are cut into chunks, and what the answering prompt says of numbers",
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
        "The answers hold what is expected in other words, or with more around it",
        "No cause for concern by itself: read exact match only for questions with one short answer",
        "003",
        low=("lexical.exact_match",),
        high=("lexical.keyword_coverage",),
    ),
    Advice(
        "The answers are as expected without their contexts saying so: the model may answer from memory",
        "See whether the contexts support the answers, and have the prompt allow only what they say",
        "003",
        low=(*_FAITHFUL, "claims.context_precision", "claims.context_recall"),
        high=("lexical.keyword_coverage", "overlap.answer_correctness"),
    ),
)

_SINGLE = (
    Advice(
        "Many of the passages that come back have nothing to do with the question",
        "Tune the embedding model, cut chunks better, add keyword search (BM25) to make it hybrid",
        "004",
        low=("retrieval.precision_at_{k}", "retrieval.document_precision_at_{k}", "claims.context_precision"),
    ),
    Advice(
        "Passages that hold the answer do not come back",
        "See whether they are indexed at all, raise k, widen the search with related terms or a graph of entities",
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
        "Add or tune a reranker, use a better embedding model, weigh keyword against vector search otherwise",
        "004",
        low=("retrieval.mrr", "retrieval.document_mrr", "retrieval.ndcg_at_10", "retrieval.document_ndcg_at_10"),
        unless=_FOUND,
    ),
    Advice(
        "The answers say what their contexts do not",
        "Verify answers before they are given, demand citations, allow the system to decline",
        "004, 000",
        low=(*_FAITHFUL, "overlap.faithfulness", "embedding.answer_hallucination"),
    ),
    Advice(
        "Citations point to passages that do not say it, or that were never retrieved",
        "Number the contexts clearly in the prompt, and keep their ids through any compression of them",
        "004",
        low=("citation.accuracy", "citation.accuracy_judged"),
    ),
    Advice(
        "Much of what the answers say has no source, so that nobody can check it",
        "Demand a citation for each statement in the prompt (RAG__CITATION_REQUIRED for the built-in answers)",
        "004, 003",
        low=("citation.coverage", "judge.citation_quality", "lexical.source_citation"),
    ),
    Advice(
        "The answers do not speak to the question",
        "Look at how questions are rewritten before the search, and at how their intent is told",
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
        "Too few of the passages are near the question to answer it from",
        "Retrieve more passages, or cut the documents so that a passage holds a whole thought",
        "000",
        low=("embedding.context_sufficiency",),
    ),
    Advice(
        "The answers differ from the expected ones in meaning: facts may be wrong",
        "Read the questions that score lowest beside their contexts",
        "000",
        low=_RIGHT,
    ),
    Advice(
        "The system answers what it should decline, or declines what it could answer",
        "Tune when it declines: its threshold on retrieval scores, or what its prompt says of missing answers",
        "004",
        low=("quality.refusal_correct",),
    ),
    Advice(
        "The answers leave out what the contexts or the expected answers hold",
        "Ask for complete answers, raise the limit of their length, give the model more contexts",
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
    of = dict(zip(_CHANGED, _REGRESSED, strict=True))
    if not regressed:
        return []
    return [Advised(of[change.what], regressed, ()) for change in changes if change.worse and change.what in of]


def advised(summaries: Mapping[str, Summary], k: int, thresholds: Mapping[str, float]) -> list[Advised]:
    """What the means of an evaluation suggest: pairs first, then single metrics, those first that lack most.

    A single metric that a pair explains is not said again. `thresholds` are the client's own good values by metric id.
    """
    low_ones = {name for name, summary in summaries.items() if _is_low(summary, thresholds)}
    high_ones = {name for name, summary in summaries.items() if _is_high(summary, thresholds)}
    held = [name for name in low_ones | high_ones if good_value(summaries[name], thresholds) is not None]
    if len(held) > 2 and low_ones.issuperset(held):
        return [Advised(EVERYTHING_LOW, sorted(held), ())]
    pairs = _applying(_PAIRS, k, low_ones, high_ones)
    explained = {name for each in pairs for name in each.low}
    singles = [each for each in _applying(_SINGLE, k, low_ones, high_ones) if not explained.issuperset(each.low)]
    lacks = {name: _lack(summaries[name], thresholds) for name in low_ones}
    return [*pairs, *sorted(singles, key=lambda each: -max(lacks[name] for name in each.low))]


def _applying(known: Iterable[Advice], k: int, low_ones: Set[str], high_ones: Set[str]) -> list[Advised]:
    found = []
    for advice in known:
        low = [name for name in _ids(advice.low, k) if name in low_ones]
        high = [name for name in _ids(advice.high, k) if name in high_ones]
        if low and (high or not advice.high) and low_ones.isdisjoint(_ids(advice.unless, k)):
            found.append(Advised(advice, low, high))
    return found


def _lack(summary: Summary, thresholds: Mapping[str, float]) -> float:
    """How far a low metric is from what it should be, as a share of that."""
    good = good_value(summary, thresholds)
    wanted = good if good is not None else LOW if summary.higher_is_better else 1 - LOW
    distance = abs((summary.mean or 0.0) - wanted)
    return distance / wanted if wanted else distance


def good_value(summary: Summary, thresholds: Mapping[str, float]) -> float | None:
    """What a metric's mean should reach: the client's threshold, else its own good value, times its ceiling."""
    good = thresholds.get(summary.metric_id, summary.good_value)
    if good is None or summary.ceiling is None:
        return good
    return good * summary.ceiling


def _is_low(summary: Summary, thresholds: Mapping[str, float]) -> bool:
    good = good_value(summary, thresholds)
    if summary.mean is None:
        return False
    if good is None:
        return summary.mean < LOW if summary.higher_is_better else summary.mean > 1 - LOW
    return summary.mean < good if summary.higher_is_better else summary.mean > good


def _is_high(summary: Summary, thresholds: Mapping[str, float]) -> bool:
    good = good_value(summary, thresholds)
    if summary.mean is None or good is not None:
        return summary.mean is not None and not _is_low(summary, thresholds)
    return summary.mean >= HIGH if summary.higher_is_better else summary.mean <= 1 - HIGH


def _ids(patterns: Iterable[str], k: int) -> list[str]:
    return [pattern.format(k=k) for pattern in patterns]
