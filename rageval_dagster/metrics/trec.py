"""The measures of a TREC run: ir_measures' and trec_eval's names, and each measure's outcome for each query."""

import difflib
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from rageval_dagster.errors import RagevalError
from rageval_dagster.metrics.interface import scored
from rageval_dagster.records import Outcome
from rageval_dagster.statistics import Summary, summarise

Qrels = Mapping[str, Mapping[str, int]]
"""Relevance by document by query: 1 and more is relevant, 0 is not, less is in the pool and was not judged."""

Run = Mapping[str, Mapping[str, float]]
"""Score by document by query; higher is better."""

Aggregate = Literal["mean", "geometric mean", "sum"]

DEFAULT_MEASURES = ("P@5", "R@5", "Success@5", "RR", "nDCG@5", "nDCG@10", "AP")
"""The `retrieval` family at its default cutoff."""

MAX_CUTOFF = 1_000_000

# What trec_eval calls a measure without a cutoff and with one, by ir_measures' name for it.
_IR_MEASURES: dict[str, tuple[str | None, str | None]] = {
    "P": (None, "P"),
    "R": (None, "recall"),
    "RR": ("recip_rank", "recip_rank"),
    "nDCG": ("ndcg", "ndcg_cut"),
    "AP": ("map", "map_cut"),
    "Success": (None, "success"),
    "Rprec": ("Rprec", None),
    "Bpref": ("bpref", None),
    "infAP": ("infAP", None),
    "SetP": ("set_P", None),
    "SetR": ("set_recall", None),
    "SetF": ("set_F", None),
    "SetAP": ("set_map", None),
    "SetRelP": ("set_relative_P", None),
    "NumRet": ("num_ret", None),
    "NumRel": ("num_rel", None),
    "NumRelRet": ("num_rel_ret", None),
    "NumQ": ("num_q", None),
}
_ALIASES = {
    "Precision": "P",
    "Recall": "R",
    "MRR": "RR",
    "NDCG": "nDCG",
    "MAP": "AP",
    "RPrec": "Rprec",
    "BPref": "Bpref",
}
_TREC_EVAL = {
    *("recip_rank", "ndcg", "map", "Rprec", "bpref", "infAP", "ndcg_rel", "Rndcg", "G", "binG", "gm_map", "gm_bpref"),
    *("set_P", "set_recall", "set_F", "set_map", "set_relative_P"),
    *("num_ret", "num_rel", "num_rel_ret", "num_nonrel_judged_ret", "num_q"),
}
_TREC_EVAL_AT = {"P", "recall", "success", "ndcg_cut", "map_cut", "relative_P", "Rprec_mult"}

KNOWN = (
    *(name for name, (plain, _) in _IR_MEASURES.items() if plain),
    *(f"{name}@k" for name, (_, at) in _IR_MEASURES.items() if at),
    *sorted(_TREC_EVAL - {"Rprec", "infAP"}, key=str.lower),
    *(f"{name}_k" for name in sorted(_TREC_EVAL_AT, key=str.lower)),
)
"""All names, ir_measures' first, each once; k stands for the cutoff (a factor of R in `Rprec_mult_k`)."""

_SPELLING = re.compile(r"(.+?)(?:([@_.])([0-9]+(?:\.[0-9]{1,2})?))?")

_GEOMETRIC_FLOOR = 1e-5
"""What trec_eval takes for a score below it, before it averages logarithms."""


@dataclass(frozen=True)
class Measure:
    """One measure: `name` as it was asked for, and what pytrec_eval computes for it.

    `depth` cuts the reciprocal rank: trec_eval has no such measure, and computed from the same ranking it cannot
    disagree with the uncut one.
    """

    name: str
    trec_name: str
    aggregate: Aggregate = "mean"
    depth: int | None = None


def parse_measure(name: str) -> Measure:
    """The measure of an ir_measures name (`nDCG@10`) or a trec_eval name (`ndcg_cut_10`, `ndcg_cut.10`).

    Raises:
        RagevalError: there is none of that name, or its cutoff is missing or not one it takes.
    """
    spelling = _SPELLING.fullmatch(name)
    base, separator, cutoff = spelling.groups(default="") if spelling else (name, "", "")
    plain, at = _IR_MEASURES.get(_ALIASES.get(base, base), (None, None))
    if separator == "@" and at:
        number = _whole(name, cutoff)
        return Measure(name, at, depth=number) if at == "recip_rank" else Measure(name, f"{at}_{number}")
    if separator in ("_", ".") and base == "Rprec_mult":
        return Measure(name, f"{base}_{_factor(name, cutoff):.2f}")
    if separator in ("_", ".") and base in _TREC_EVAL_AT:
        return Measure(name, f"{base}_{_whole(name, cutoff)}")
    if not separator and (plain or name in _TREC_EVAL):
        trec_name = plain or name
        if trec_name.startswith("num_"):
            return Measure(name, trec_name, "sum")
        if trec_name.startswith("gm_"):
            return Measure(name, trec_name.removeprefix("gm_"), "geometric mean")
        return Measure(name, trec_name)
    if not separator and (at or name in _TREC_EVAL_AT):
        example = f"{name}@5" if at else f"{name}_5" if name != "Rprec_mult" else f"{name}_0.50"
        raise RagevalError(f"the measure {name!r} needs a cutoff, as in {example}")
    raise RagevalError(f"no measure is called {name!r}{_nearest(base, cutoff)}; known: {', '.join(KNOWN)}")


def _whole(name: str, cutoff: str) -> int:
    if not cutoff.isdecimal() or not 1 <= int(cutoff) <= MAX_CUTOFF:
        raise RagevalError(f"the measure {name!r} takes a whole number from 1 to {MAX_CUTOFF} as its cutoff")
    return int(cutoff)


def _factor(name: str, cutoff: str) -> float:
    if not 0.01 <= float(cutoff) <= MAX_CUTOFF:
        raise RagevalError(f"the measure {name!r} takes a factor from 0.01 to {MAX_CUTOFF}")
    return float(cutoff)


def _nearest(base: str, cutoff: str) -> str:
    """The best guess at what was meant, with the cutoff that was given where it takes one."""
    spelled = {re.sub(r"[@_]k$", "", known).lower(): known for known in reversed(KNOWN)}
    if cutoff:
        spelled |= {known[:-2].lower(): known for known in reversed(KNOWN) if known.endswith(("@k", "_k"))}
    found = difflib.get_close_matches(base.lower(), spelled, n=1)
    if not found:
        return ""
    known = spelled[found[0]]
    return f"; the nearest is {known[:-1] + (cutoff or '5') if known.endswith(('@k', '_k')) else known}"


def ranking(scores: Mapping[str, float]) -> list[str]:
    """The documents best first: by score, equal scores by id, both descending, as trec_eval sorts a run.

    Scores are compared in double precision, as trec_eval 10 does; pytrec_eval and trec_eval 9 round them to single.
    """
    return sorted(scores, key=lambda document: (scores[document], document), reverse=True)


@dataclass(frozen=True)
class RunScores:
    """What the measures say of a run, query by query.

    `outcomes` has, by measure name, each query's outcome, `counts` each query's number for the measures that count.
    Queries are those of qrels and run together. `missing` have relevant documents in the qrels and are not in the
    run, `unjudged` are in the run and not in the qrels, `without_relevant` have no relevant document in the qrels.
    """

    measures: Sequence[Measure]
    outcomes: Mapping[str, Mapping[str, Outcome]]
    counts: Mapping[str, Mapping[str, int]]
    missing: Sequence[str]
    unjudged: Sequence[str]
    without_relevant: Sequence[str]

    @cached_property
    def summaries(self) -> Mapping[str, Summary]:
        """Each measure's summary, but for those that count; of a geometric mean all numbers are geometric."""
        kinds = {measure.name: measure.aggregate for measure in self.measures}
        return {
            name: _geometric(column) if kinds[name] == "geometric mean" else summarise(column)
            for name, column in self.outcomes.items()
        }


def score_run(qrels: Qrels, run: Run, measures: Iterable[Measure], *, complete: bool = False) -> RunScores:
    """Scores a run by qrels; every measure sees the same ranking (see `ranking`).

    A query of the qrels that the run lacks is an error, or scores 0 with `complete` (trec_eval's -c). A query without
    a relevant document, and one that the qrels do not know, is undefined. The counts (`num_ret` ...) are of the
    queries that both know, with `complete` of all in the qrels.

    Raises:
        RagevalError: no query of the qrels is in the run.
    """
    measures = list({measure.name: measure for measure in measures}.values())
    answered = [query for query in qrels if query in run]
    if not answered:
        theirs, ours = min(qrels, default=""), min(run, default="")
        raise RagevalError(
            f"none of the {len(qrels)} queries of the qrels is in the run (one of the qrels: {theirs!r}, of the run: "
            f"{ours!r})"
        )
    relevant = {query for query, judged in qrels.items() if any(relevance >= 1 for relevance in judged.values())}
    missing = [query for query in qrels if query in relevant and query not in run]
    without_relevant = [query for query in qrels if query not in relevant]
    absent = scored(0.0) if complete else _ABSENT
    unscored = dict.fromkeys(missing, absent) | dict.fromkeys(without_relevant, _NO_RELEVANT)
    unscored |= {query: _UNJUDGED for query in run if query not in qrels}
    ranked = [query for query in answered if query in relevant]
    values = _values(qrels, run, ranked, {measure.trec_name for measure in measures if measure.aggregate != "sum"})
    return RunScores(
        measures=measures,
        outcomes={
            measure.name: dict(zip(ranked, _column(measure, values), strict=True)) | unscored
            for measure in measures
            if measure.aggregate != "sum"
        },
        counts={
            measure.name: {
                query: _COUNTS[measure.trec_name](qrels[query], run.get(query, {}))
                for query in (qrels if complete else answered)
            }
            for measure in measures
            if measure.aggregate == "sum"
        },
        missing=missing,
        unjudged=[query for query in run if query not in qrels],
        without_relevant=without_relevant,
    )


_ABSENT = Outcome.error("the run does not have the query")
_NO_RELEVANT = Outcome.undefined("the qrels have no relevant document for the query")
_UNJUDGED = Outcome.undefined("the qrels do not have the query")

_COUNTS: dict[str, Callable[[Mapping[str, int], Mapping[str, float]], int]] = {
    "num_q": lambda _judged, _retrieved: 1,
    "num_ret": lambda _judged, retrieved: len(retrieved),
    "num_rel": lambda judged, _retrieved: sum(relevance >= 1 for relevance in judged.values()),
    "num_rel_ret": lambda judged, retrieved: sum(judged.get(document, 0) >= 1 for document in retrieved),
    "num_nonrel_judged_ret": lambda judged, retrieved: sum(judged.get(document, -1) == 0 for document in retrieved),
}


def _values(qrels: Qrels, run: Run, queries: Sequence[str], names: set[str]) -> list[Mapping[str, float]]:
    """pytrec_eval's values of each query, by its names."""
    from pytrec_eval import RelevanceEvaluator

    if not queries or not names:
        return [{} for _ in queries]
    # Numbers for the queries: one called "no_query" would be taken for one that it has seen before.
    evaluator = RelevanceEvaluator({str(number): qrels[query] for number, query in enumerate(queries)}, names)
    values = evaluator.evaluate(
        {
            str(number): {document: -float(rank) for rank, document in enumerate(ranking(run[query]))}
            for number, query in enumerate(queries)
        }
    )
    return [values[str(number)] for number in range(len(queries))]


def _column(measure: Measure, values: Sequence[Mapping[str, float]]) -> list[Outcome]:
    column = [min(1.0, each[measure.trec_name]) for each in values]
    if measure.depth is not None:
        column = [value if value and round(1 / value) <= measure.depth else 0.0 for value in column]
    return [scored(value) for value in column]


def _geometric(outcomes: Mapping[str, Outcome]) -> Summary:
    """Summed up on a logarithmic scale from 0 (the floor) to 1, and taken back: an interval as good as the mean's."""
    floor = math.log(_GEOMETRIC_FLOOR)

    def there(outcome: Outcome) -> Outcome:
        if outcome.value is None:
            return outcome
        return scored(1.0 - math.log(max(outcome.value, _GEOMETRIC_FLOOR)) / floor)

    def back(value: float | None) -> float | None:
        return None if value is None else math.exp((1.0 - value) * floor)

    summary = summarise({query: there(outcome) for query, outcome in outcomes.items()})
    bounds = ("mean", "ci_low", "ci_high", "min", "max", "worst_low", "worst_high")
    return replace(summary, **{name: back(getattr(summary, name)) for name in bounds})
