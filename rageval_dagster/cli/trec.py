"""`rageval trec`: the measures of information retrieval on TREC files of any origin."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rageval_dagster.cli.console import DONE_IN_PART, cell, print_json, print_table, say
from rageval_dagster.text import plural

if TYPE_CHECKING:
    from rageval_dagster.benchmark.formats.rows import Refusal
    from rageval_dagster.metrics.trec import RunScores

MAX_NAMES = 10
MAX_REFUSALS = 20


def trec(
    qrels: Annotated[Path, typer.Argument(help="The judgements: query 0 document relevance, one per line.")],
    run: Annotated[Path, typer.Argument(help="The run: query Q0 document rank score tag, one per line.")],
    measure: Annotated[
        list[str] | None,
        typer.Option("--measure", "-m", help="P@5, RR, nDCG@10 ... or trec_eval's name, P_5; repeat for several."),
    ] = None,
    complete: Annotated[
        bool, typer.Option("--complete", "-c", help="Count a query that the run lacks as 0, as trec_eval -c does.")
    ] = False,
    per_query: Annotated[bool, typer.Option("--per-query", help="Also print each query's value.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Scores a run against its qrels: each measure's mean with its 95 % interval, and what could not be scored.

    A run is sorted by score, equal scores by document id, both descending, as trec_eval does. A query of the qrels
    that the run lacks is an error and left out of the mean. A query without a relevant document is undefined.
    """
    from rageval_dagster.benchmark.trec_files import read_qrels, read_run
    from rageval_dagster.metrics.trec import DEFAULT_MEASURES, parse_measure, score_run

    measures = [parse_measure(name) for name in measure or DEFAULT_MEASURES]
    judged, retrieved = read_qrels(qrels), read_run(run)
    scores = score_run(judged.values, retrieved.values, measures, complete=complete)
    refused = [*judged.refused, *retrieved.refused]
    _say_refused(refused)
    if retrieved.repeated:
        say(f"{plural(retrieved.repeated, 'line')} of the run repeated a document of the query: its best score counts")
    _say_unscored(scores, complete)
    if as_json:
        print_json(
            {
                "scores": {measure.name: _score(scores, measure.name) for measure in scores.measures},
                **(_per_query_json(scores) if per_query else {}),
                "missing": scores.missing,
                "unjudged": scores.unjudged,
                "without_relevant": scores.without_relevant,
                "repeated": retrieved.repeated,
                "refused": [refusal.to_dict() for refusal in refused],
            }
        )
    else:
        _print_scores(scores)
        if per_query:
            print()
            _print_queries(scores)
    if refused or (scores.missing and not complete):
        raise typer.Exit(DONE_IN_PART)


def _say_refused(refused: "Sequence[Refusal]") -> None:
    for refusal in refused[:MAX_REFUSALS]:
        say(f"refused: {cell(refusal)}")
    if len(refused) > MAX_REFUSALS:
        say(f"refused: {len(refused) - MAX_REFUSALS} more lines; --json names them all")


def _say_unscored(scores: "RunScores", complete: bool) -> None:
    told = "each counts as 0" if complete else "errors, outside the mean (-c counts each as 0)"
    for queries, what in (
        (scores.missing, f"of the qrels missing from the run: {told}"),
        (scores.without_relevant, "without a relevant document in the qrels: undefined"),
        (scores.unjudged, "of the run that the qrels do not have: undefined"),
    ):
        if queries:
            named = ", ".join(map(cell, queries[:MAX_NAMES])) + (", ..." if len(queries) > MAX_NAMES else "")
            number = f"{len(queries)} query" if len(queries) == 1 else f"{len(queries)} queries"
            say(f"{number} {what}: {named}")


def _score(scores: "RunScores", name: str) -> dict[str, Any]:
    """A measure's summary, of one that counts its sum; `n` is of the queries of qrels and run together."""
    if name in scores.summaries:
        return asdict(scores.summaries[name])
    counts = scores.counts[name]
    n_error = sum(query not in counts for query in scores.missing)
    n_undefined = len(scores.unjudged) + sum(query not in counts for query in scores.without_relevant)
    return {
        "sum": sum(counts.values()),
        "n": len(counts) + n_error + n_undefined,
        "n_scored": len(counts),
        "n_undefined": n_undefined,
        "n_error": n_error,
    }


def _per_query_json(scores: "RunScores") -> dict[str, Any]:
    """Values by measure and query, null where there is none, and there why."""
    return {
        "question_scores": {
            measure.name: dict(scores.counts[measure.name])
            if measure.name in scores.counts
            else {query: outcome.value for query, outcome in scores.outcomes[measure.name].items()}
            for measure in scores.measures
        },
        "outcomes": {
            name: {
                query: {"status": outcome.status, "reason": outcome.reason}
                for query, outcome in outcomes.items()
                if outcome.value is None
            }
            for name, outcomes in scores.outcomes.items()
        },
    }


def _print_scores(scores: "RunScores") -> None:
    rows = [{"measure": measure.name, **_score(scores, measure.name)} for measure in scores.measures]
    names = {"mean": "mean", "ci_low": "low", "ci_high": "high", "sum": "sum"}
    names |= {"n": "n", "n_scored": "scored", "n_undefined": "undefined", "n_error": "errors"}
    if any(row["n_error"] for row in rows):
        names |= {"worst_low": "mean if errors were 0", "worst_high": "if errors were 1"}
    shown = [name for name in names if any(name in row for row in rows)]
    print_table(
        [{"measure": row["measure"], **{names[name]: _four(row.get(name)) for name in shown}} for row in rows],
        ["measure", *(names[name] for name in shown)],
        "",
    )


def _print_queries(scores: "RunScores") -> None:
    """A row a query, with why it has no value where it has none."""
    queries = dict.fromkeys(
        query for columns in (scores.outcomes, scores.counts) for column in columns.values() for query in column
    )
    rows: list[dict[str, Any]] = []
    for query in queries:
        row: dict[str, Any] = {"query": query, "why not": ""}
        for name, counts in scores.counts.items():
            row[name] = counts.get(query)
        for name, outcomes in scores.outcomes.items():
            row[name] = _four(outcomes[query].value)
            row["why not"] = outcomes[query].reason or ""
        rows.append(row)
    print_table(rows, ["query", *(measure.name for measure in scores.measures), "why not"], "")


def _four(value: float | None) -> str | int | None:
    """A score with the four decimals of trec_eval; counts as they are."""
    return f"{value:.4f}" if isinstance(value, float) else value
