"""The `retrieval` family: trec_eval's ranking measures of what was retrieved, by chunk and by document."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from operator import attrgetter

from rageval_dagster.metrics.interface import Columns, Metric, MetricOptions, Tools, scored
from rageval_dagster.records import Hit, Outcome, Result

VERSION = "1"

Pattern = tuple[int, int, tuple[int, ...]]
"""All that the measures see of a ranking: its length, how many ids are relevant, at which positions they stand."""

_NO_EVIDENCE = Outcome.undefined("no evidence in the corpus")
_NOTHING_RETRIEVED = Outcome.undefined("nothing was retrieved")


def metrics(options: MetricOptions) -> list[Metric]:
    """The family's metrics at cutoff k: the ranking measures by chunk, then by document, then foreign_hits."""
    k = options.k
    return [
        *_level_metrics(k, "", "chunk", _ranked_chunks, lambda result: result.relevant_chunks),
        *_level_metrics(k, "document_", "document", _ranked_documents, lambda result: result.relevant_documents),
        _foreign_hits(),
    ]


def ranking_outcomes(patterns: Iterable[Pattern], measures: dict[str, str]) -> dict[Pattern, dict[str, Outcome]]:
    """Each distinct pattern's outcomes by metric name, in one call of pytrec_eval.

    `measures` maps metric names to trec_eval's (`{"precision_at_5": "P_5"}`). Equal patterns have equal values, so
    that a pattern is ranked once however many questions show it, and no id of the user's reaches the C library.
    """
    from pytrec_eval import RelevanceEvaluator

    distinct = list(dict.fromkeys(patterns))
    runs: dict[int, dict[str, float]] = {}
    qrels: dict[str, dict[str, int]] = {}
    run: dict[str, dict[str, float]] = {}
    for number, (length, relevant, positions) in enumerate(distinct):
        # trec_eval sorts by score: minus the position keeps the system's order, without ties.
        run[str(number)] = runs.setdefault(length, {str(position): -float(position) for position in range(length)})
        found = dict.fromkeys(map(str, positions), 1)
        missed = dict.fromkeys((f"missed {index}" for index in range(relevant - len(positions))), 1)
        qrels[str(number)] = found | missed
    values = RelevanceEvaluator(qrels, set(measures.values())).evaluate(run) if distinct else {}
    return {
        pattern: {name: scored(min(1.0, values[str(number)][measure])) for name, measure in measures.items()}
        for number, pattern in enumerate(distinct)
    }


_rank = attrgetter("rank")


def _ranked(hits: Sequence[Hit]) -> list[Hit]:
    return sorted(hits, key=_rank)


def _ranked_chunks(result: Result) -> dict[str, None]:
    """The chunk ids in the system's order, each at its best rank."""
    return dict.fromkeys([hit.chunk_id for hit in _ranked(result.hits)])


def _ranked_documents(result: Result) -> dict[str, None]:
    """The document ids in the order of their first chunks."""
    return dict.fromkeys([hit.document_id for hit in _ranked(result.hits)])


def _level_metrics(
    k: int,
    prefix: str,
    unit: str,
    ranked: Callable[[Result], dict[str, None]],
    relevant: Callable[[Result], frozenset[str] | None],
) -> list[Metric]:
    measures = {
        f"{prefix}precision_at_{k}": f"P_{k}",
        f"{prefix}recall_at_{k}": f"recall_{k}",
        f"{prefix}hit_rate_at_{k}": f"success_{k}",
        f"{prefix}mrr": "recip_rank",
        f"{prefix}ndcg_at_{k}": f"ndcg_cut_{k}",
        f"{prefix}ndcg_at_10": "ndcg_cut_10",
        f"{prefix}map": "map",
    }

    def score(results: Sequence[Result], _tools: Tools) -> Columns:
        patterns = [_pattern(ranked(result), relevant(result)) for result in results]
        outcomes = ranking_outcomes((pattern for pattern in patterns if pattern), measures)
        return {
            name: [outcomes[pattern][name] if pattern else _NO_EVIDENCE for pattern in patterns] for name in measures
        }

    def ceiling(result: Result) -> float:
        return min(len(relevant(result) or ()), k) / k

    declare = partial(
        Metric,
        version=VERSION,
        score=score,
        needs=frozenset({"hits", "evidence"}),
        unanswerable="undefined",
    )
    empty = f"Nothing retrieved: 0. No relevant {unit} known, or none in the corpus: undefined. "
    repeats = (
        "A repeated id keeps its best rank."
        if unit == "chunk"
        else "The list is collapsed to each document's first occurrence."
    )
    return [
        declare(
            id=f"retrieval.{prefix}precision_at_{k}",
            description=f"Relevant {unit}s among the first {k}, divided by {k}.",
            edge_cases=f"{empty}Divides by {k} even if fewer came back; its ceiling is min(relevant, {k}) / {k}, and "
            f"its good value counts times that. {repeats}",
            source="seed 004; trec_eval P",
            good_value=0.7,
            ceiling=ceiling,
        ),
        declare(
            id=f"retrieval.{prefix}recall_at_{k}",
            description=f"Relevant {unit}s among the first {k}, divided by all relevant {unit}s.",
            edge_cases=empty + repeats,
            source="seed 004; trec_eval recall",
            good_value=0.8,
        ),
        declare(
            id=f"retrieval.{prefix}hit_rate_at_{k}",
            description=f"1 if any relevant {unit} is among the first {k}, else 0.",
            edge_cases=empty + repeats,
            source="seed 004; trec_eval success",
            good_value=0.9,
        ),
        declare(
            id=f"retrieval.{prefix}mrr",
            description=f"1 / rank of the first relevant {unit}, over all that was retrieved; 0 if there is none.",
            edge_cases=empty + repeats,
            source="seeds 001, 004; trec_eval recip_rank",
            good_value=0.8,
        ),
        *(
            declare(
                id=f"retrieval.{prefix}ndcg_at_{cutoff}",
                description=f"Normalised discounted cumulative gain of the first {cutoff} {unit}s, gains 0 or 1.",
                edge_cases=empty + repeats,
                source="Järvelin and Kekäläinen 2002; trec_eval ndcg_cut",
            )
            for cutoff in dict.fromkeys((k, 10))
        ),
        declare(
            id=f"retrieval.{prefix}map",
            description=f"Average precision over all that was retrieved, divided by all relevant {unit}s.",
            edge_cases=empty + repeats,
            source="trec_eval map",
        ),
    ]


def _pattern(ranked: dict[str, None], relevant: frozenset[str] | None) -> Pattern | None:
    if not relevant:
        return None
    return len(ranked), len(relevant), tuple([rank for rank, key in enumerate(ranked) if key in relevant])


def _foreign_hits() -> Metric:
    return Metric(
        id="retrieval.foreign_hits",
        version=VERSION,
        score=_score_foreign_hits,
        needs=frozenset({"hits"}),
        unanswerable="scored",
        description="Share of the returned chunks that are not the client's: another client's, or nobody's.",
        edge_cases="Nothing retrieved: undefined. Scored on unanswerable items too, because a leak there is a leak. "
        "A repeated id counts once, as foreign if it is that anywhere. The detail counts foreign and unknown chunks "
        "apart.",
        source="own",
        higher_is_better=False,
        good_value=0.0,
    )


def _score_foreign_hits(results: Sequence[Result], _tools: Tools) -> Columns:
    return {"foreign_hits": [_foreign_share(result.hits) for result in results]}


def _foreign_share(hits: Sequence[Hit]) -> Outcome:
    if not hits:
        return _NOTHING_RETRIEVED
    if {hit.owner for hit in hits} == {"own"}:
        return scored(0.0)
    foreign, unknown = ({hit.chunk_id for hit in hits if hit.owner == kind} for kind in ("foreign", "unknown"))
    counts = {"foreign": len(foreign), "unknown": len(unknown - foreign)}
    return Outcome.scored(len(foreign | unknown) / len({hit.chunk_id for hit in hits}), detail=counts)
