"""`rageval runs compare` and `accept`, and what `evaluate --gate` says and exits with."""

import getpass
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rageval_dagster.app.opening import open_all
from rageval_dagster.cli.console import GATE_FAILED, UNCLEAR, cell, print_json, print_table, say
from rageval_dagster.settings import Settings
from rageval_dagster.text import named, plural

if TYPE_CHECKING:
    from rageval_dagster.gate.comparing_runs import WorseItem
    from rageval_dagster.gate.decision import Judged
    from rageval_dagster.storage.comparisons import MetricComparison
    from rageval_dagster.storage.database import Database

COMPARISON_COLUMNS = [
    *("metric", "before", "now", "change", "95 % interval", "visible from", "shared", "decision"),
]
LESS = ("shared", "visible from", "95 % interval")
"""The columns that a narrow terminal goes without, the first one first."""
WORST = 5
MOST_IDS = 10


def compare(
    before: Annotated[int, typer.Argument(help="The earlier evaluation's number.")],
    now: Annotated[int, typer.Argument(help="The later evaluation's number.")],
    worst: Annotated[int, typer.Option(min=0, help="Show at most this many of the questions that got worse.")] = WORST,
    every: Annotated[bool, typer.Option("--all", help="Show every metric, not only those that changed.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compares two evaluations: what changed, each metric on the shared questions, and the questions that got worse."""
    from rageval_dagster.gate.comparing_runs import compare_runs
    from rageval_dagster.gate.nights import LEAST_QUESTIONS
    from rageval_dagster.storage.corpus import document_names
    from rageval_dagster.telling.verdicts import what_changed
    from rageval_dagster.telling.words import capitalised

    settings, db = open_all()
    found = compare_runs(db, settings, before, now)
    if as_json:
        print_json(
            {
                "before": before,
                "now": now,
                "changes": [asdict(change) for change in found.changes],
                "documents": {
                    name: {"what": change.what, **asdict(change)} for name, change in found.documents.items()
                },
                "gone": [{"item_id": each.item.item_id, "why": each.why} for each in found.gone],
                "shared_questions": len(found.pair.shared),
                "metrics": [asdict(row) for row in found.rows],
                "worse": [{"item_id": each.item.item_id, "falls": dict(each.falls)} for each in found.worse],
            }
        )
        return
    runs = [
        f"run {each.id} (dataset {each.dataset_id} {cell(each.dataset_name)}, {cell(each.system)})"
        for each in (found.pair.before, found.pair.now)
    ]
    print(f"{found.pair.now.client_id}: {' and '.join(runs)}\n")
    hits = (hit for each in found.worse[:worst] for result in (each.before, each.now) for hit in result.hits)
    told = (document_id for change in found.changes for document_id in change.documents)
    ids = [*found.documents, *told, *(hit.document_id for hit in hits)]
    names = document_names(db, found.pair.now.client_id, ids)
    for change in found.changes:
        [said] = what_changed([change], worse=True)
        which = f": {named([names[each] for each in change.documents])}" if change.documents else ""
        print(cell(f"{capitalised(said)}{which}"))
    for what in ("new", "rewritten", "changed", "renamed", "removed"):
        if which := [
            f"{names[document_id]} -> {change.moved_to}" if what == "renamed" else names[document_id]
            for document_id, change in found.documents.items()
            if change.what == what
        ]:
            print(f"  documents {what}: {named(which)}")
    for each in found.gone[:worst]:
        print(f"  gone: {each.item.item_id}  {cell(each.item.question)} ({each.why})")
    if len(found.gone) > worst:
        print(f"  gone: {len(found.gone) - worst} more: --worst {len(found.gone)}")
    if not found.changes:
        print("nothing changed: corpus, index, dataset, system and judge are the same")
    print(f"compared on {plural(len(found.pair.shared), 'shared question')}\n")
    compared = [row for row in found.rows if row.difference is not None and row.n_shared >= LEAST_QUESTIONS]
    moved = [row for row in compared if row.decision != "passed" or row.better]
    rows = [row for row in found.rows if every or row.gated or row in moved]
    print_table([_comparison_row(row) for row in rows], COMPARISON_COLUMNS, "no metric was scored in both", LESS)
    left_out = [row for row in found.rows if row not in rows]
    if unchanged := sum(row in compared for row in left_out):
        print(f"{plural(unchanged, 'metric')} unchanged: --all shows them")
    if silent := len(left_out) - unchanged:
        print(
            f"{plural(silent, 'metric')} with fewer than {LEAST_QUESTIONS} questions scored in both: --all shows them"
        )
    print("\nThe gate's metrics come first. Shared: questions scored in both. Before: the mean of all questions.")
    print("Now: that mean plus the change on the shared questions; the mean of the questions asked in this run is in")
    print(
        f"rageval runs show {now}. Visible from: the smallest drop that 80 of 100 such comparisons find; none if a drop"
    )
    print("of any size can be missed.")
    remarks: dict[str, list[str]] = {}
    for row in rows:
        if row.remark:
            remarks.setdefault(row.remark, []).append(row.metric_id)
    for remark, metrics in remarks.items():
        print(f"{named(metrics)}: {remark}")
    if found.worse[:worst]:
        print("\nQuestions that got worse; a passage with * holds the evidence, or is of its document where only that")
        print("is known:")
    for each in found.worse[:worst]:
        _print_worse(each, names)
    if (left := len(found.worse) - worst) > 0:
        print(f"\n{plural(left, 'question')} more got worse: --worst {len(found.worse)}")


def accept(
    run_id: Annotated[int, typer.Argument(help="The evaluation's number.")],
    by: Annotated[str | None, typer.Option(help="Who accepts it; default: your login name.")] = None,
) -> None:
    """Makes an evaluation the baseline: later evaluations of its dataset and system are compared with it."""
    from rageval_dagster.app.evaluate import accept_run

    settings, db = open_all()
    evaluation = accept_run(settings, db, run_id, by or getpass.getuser(), say)
    print(
        f"run {run_id} is the baseline of {cell(evaluation.client_id)} / {cell(evaluation.dataset_name)} / "
        f"{cell(evaluation.system)} from now on"
    )


def say_gate(
    settings: Settings, db: "Database", judged: "Sequence[Judged]", failed: "Sequence[str]", junit: Path | None
) -> int:
    """Says what the gate found of each evaluation and gives the exit code: 0, 1 (regressed) or 3 (unclear).

    `failed` are clients that could not be evaluated. Where `junit` is named, it is written there too.
    """
    from rageval_dagster.benchmark.exporting import written_whole
    from rageval_dagster.gate.decision import deciding
    from rageval_dagster.telling.junit import NOT_EVALUATED, junit_xml
    from rageval_dagster.telling.verdicts import sentence, verdict_of

    told = [verdict_of(db, each, settings.for_client(each.evaluation.client_id).max_error_share) for each in judged]
    if junit is not None:
        with written_whole(junit, force=True) as draft:
            draft.write_bytes(junit_xml(told, failed))
    for each, found in zip(judged, told, strict=True):
        evaluation = each.evaluation
        of = f"{evaluation.client_id} / {evaluation.dataset_name} / {evaluation.system}"
        say(f"gate: {of}: {sentence(found)}")
        for kind, line in zip(("warning: ", ""), newly_failing(each), strict=False):
            say(f"  {kind}{line}")
    for client_id in failed:
        say(f"gate: {client_id}: {NOT_EVALUATED}")
    verdicts = {each.judgement.verdict for each in deciding(db, judged)}
    if "regressed" in verdicts:
        return GATE_FAILED
    return UNCLEAR if "unclear" in verdicts or verdicts == {None} else 0


def newly_failing(judged: "Judged") -> Sequence[str]:
    """The first questions that newly fail, by id, and the command that shows both answers; nothing without."""
    from rageval_dagster.telling.verdicts import newly_turned

    failing = judged.judgement.newly_failing
    if not failing:
        return ()
    both = f"both answers: rageval runs compare {judged.judgement.baseline_id} {judged.evaluation.id}"
    return f"{newly_turned(judged.judgement)}: {named(failing, MOST_IDS)}", both


def _comparison_row(row: "MetricComparison") -> dict[str, Any]:
    from rageval_dagster.gate.spec import seen_from

    seen: float | str | None = None
    # Of what was found nobody asks how small it might have been.
    if row.difference is not None and row.decision != "regressed" and not row.better:
        seen = "none" if row.smallest_drop is None else seen_from(row.smallest_drop, 3)
    return {
        "metric": row.metric_id,
        "before": row.baseline_mean,
        "now": row.mean,
        "change": "" if row.difference is None else f"{row.difference:+z.3f}",
        "95 % interval": "" if row.ci_low is None else f"[{row.ci_low:+z.3f}, {row.ci_high:+z.3f}]",
        "visible from": seen,
        "shared": row.n_shared,
        "decision": f"{row.decision}, better" if row.better else row.decision,
    }


def _print_worse(each: "WorseItem", names: Mapping[str, str]) -> None:
    from rageval_dagster.evaluation.summary import said_by

    falls = ", ".join(f"{name} {before:.2f} -> {now:.2f}" for name, (before, now) in each.falls.items())
    print(f"\n{each.item.item_id}  {falls}\n  Q: {cell(each.item.question)}")
    for name, result in (("before", each.before), ("now", each.now)):
        print(f"  {name:6} answered: {cell(said_by(result))}")
        for hit in result.hits[: result.k]:
            mark = "*" if result.is_relevant(hit) else " "
            print(f"  {hit.rank:>9}{mark} {cell(names[hit.document_id])}  {cell(hit.text)[:100]}")
