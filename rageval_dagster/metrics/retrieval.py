"""The `retrieval` family: trec_eval's ranking measures of what was retrieved, by chunk and by document."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from rageval_dagster.metrics.interface import NO_EVIDENCE, Metric, MetricOptions, Rows, Tools, scored
from rageval_dagster.records import Hit, Outcome, Result

VERSION = "1"

Pattern = tuple[int, int, tuple[int, ...]]
"""All that the measures see of a ranking: its length, how many ids are relevant, at which positions they stand."""

_NOTHING_RETRIEVED = Outcome.undefined("nothing was retrieved")


def metrics(options: MetricOptions) -> list[Metric]:
    """The family's metrics at cutoff k: the ranking measures by chunk, then by document, then foreign_hits."""
    k = options.k
    return [
        *_level_metrics(k, "", "chunk", Result.found_as, lambda result: result.relevant_chunks),
        *_level_metrics(
            k, "document_", "document", lambda _, hit: hit.document_id, lambda result: result.relevant_documents
        ),
        Metric(
            id="retrieval.foreign_hits",
            version=VERSION,
            score=lambda results, _tools: [{"foreign_hits": _foreign_share(result.hits)} for result in results],
            needs=frozenset({"hits"}),
            unanswerable="scored",
            description="Share of the returned chunks that belong to another client or to nobody.",
            edge_cases="Nothing retrieved: undefined. Also scored on unanswerable questions, because a leak is a leak "
            "there too. A repeated id counts once, as foreign if any of its copies is. The detail counts foreign and "
            "unknown chunks separately; a chunk that several other clients hold is unknown.",
            source="own",
            higher_is_better=False,
            good_value=0.0,
        ),
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


def _level_metrics(
    k: int,
    prefix: str,
    unit: str,
    key: Callable[[Result, Hit], str],
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

    def pattern_of(result: Result) -> Pattern | None:
        wanted = relevant(result)
        if not wanted:
            return None
        # The ids in the system's order, each at its best rank.
        ranked = dict.fromkeys([key(result, hit) for hit in sorted(result.hits, key=lambda hit: hit.rank)])
        return len(ranked), len(wanted), tuple([rank for rank, each in enumerate(ranked) if each in wanted])

    def score(results: Sequence[Result], _tools: Tools) -> Rows:
        patterns = list(map(pattern_of, results))
        outcomes = ranking_outcomes((pattern for pattern in patterns if pattern), measures)
        nothing_relevant = dict.fromkeys(measures, NO_EVIDENCE)
        return [outcomes[pattern] if pattern else nothing_relevant for pattern in patterns]

    def ceiling(result: Result) -> float:
        return min(len(relevant(result) or ()), k) / k

    declare = partial(
        Metric,
        version=VERSION,
        score=score,
        needs=frozenset({"hits", "evidence"}),
        unanswerable="undefined",
    )
    empty = f"Nothing retrieved: 0. No relevant {unit} known, or the corpus has none of them: undefined. "
    repeats = (
        "A repeated id keeps its best rank. A page that evidence names without a quote counts as one chunk, at the "
        "rank of its first chunk. If the document's pages are not known, that page does not count."
        if unit == "chunk"
        else "Each document counts once, at its best rank."
    )
    return [
        declare(
            id=f"retrieval.{prefix}precision_at_{k}",
            description=f"Relevant {unit}s among the first {k}, divided by {k}.",
            edge_cases=f"{empty}The divisor is {k} even if fewer {unit}s were retrieved. The ceiling is "
            f"min(relevant, {k}) / {k}; the good value is multiplied by it. {repeats}",
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
            description=f"1 / rank of the first relevant {unit} among all retrieved {unit}s; 0 if there is none.",
            edge_cases=empty + repeats,
            source="seeds 001, 004; trec_eval recip_rank",
            good_value=0.8,
        ),
        *(
            declare(
                id=f"retrieval.{prefix}ndcg_at_{cutoff}",
                description=f"Normalised discounted cumulative gain of the first {cutoff} {unit}s; gains are 0 or 1.",
                edge_cases=empty + repeats,
                source="Järvelin and Kekäläinen 2002; trec_eval ndcg_cut",
            )
            for cutoff in dict.fromkeys((k, 10))
        ),
        declare(
            id=f"retrieval.{prefix}map",
            description=f"Average precision over all retrieved {unit}s; the divisor is the number of relevant {unit}s.",
            edge_cases=empty + repeats,
            source="trec_eval map",
        ),
    ]


def _foreign_share(hits: Sequence[Hit]) -> Outcome:
    if not hits:
        return _NOTHING_RETRIEVED
    if {hit.owner for hit in hits} == {"own"}:
        return scored(0.0)
    foreign = {hit.chunk_id for hit in hits if hit.owner == "foreign"}
    unknown = {hit.chunk_id for hit in hits if hit.owner in ("shared", "unknown")}
    counts = {"foreign": len(foreign), "unknown": len(unknown - foreign)}
    return Outcome.scored(len(foreign | unknown) / len({hit.chunk_id for hit in hits}), detail=counts)
