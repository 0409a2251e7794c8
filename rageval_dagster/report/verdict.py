"""The verdict on an evaluation in a sentence: better, worse or the same, since when, by how much, and what changed."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from rageval_dagster.evaluation.verdict import too_many_errors
from rageval_dagster.gate.causes import UNVERSIONED
from rageval_dagster.gate.judging import Judged
from rageval_dagster.gate.spec import GateSpec
from rageval_dagster.report.names import VERSIONS, date, metric_name, movement, number, plural
from rageval_dagster.storage.comparisons import Change, MetricComparison
from rageval_dagster.storage.incidents import Kind
from rageval_dagster.storage.scores import Summary

Tone = Literal["worse", "better", "same", "unclear", "first", "unmeasured", "failed"]
Trouble = Literal["leak", "regression", "failed", "errors", "failed_run", "benchmark", "stale"]

TROUBLES: dict[Trouble, str] = {
    "leak": "leak",
    "regression": "regressed",
    "failed": "system failed",
    "errors": "not scored",
    "failed_run": "failed run",
    "benchmark": "benchmark fails",
    "stale": "out of date",
}
"""What may be wrong with a client, in a word, the gravest first."""

MOST_NAMED = 2
"""Metrics that a sentence names; the others stand in the table below it."""


@dataclass(frozen=True)
class Verdict:
    """What an evaluation says beside its baseline. `tone` is which of the kinds of sentences it is."""

    tone: Tone
    sentence: str


def verdict(judged: Judged, dates: Mapping[int, datetime], headline: Mapping[str, Summary], spec: GateSpec) -> Verdict:
    """The verdict on an evaluation that was at the gate; first of all, whether its system failed on many questions."""
    said, evaluation = _of_scores(judged, dates, headline), judged.evaluation
    if not too_many_errors(evaluation.error_count, evaluation.item_count, spec.max_error_share):
        return said
    failed = f"The system failed on {evaluation.error_count} of {plural(evaluation.item_count, 'question')}"
    if evaluation.answered_nothing:
        return Verdict("failed", f"{failed}: nothing of it could be measured.")
    tone = "worse" if said.tone == "worse" else "failed"
    return Verdict(tone, f"{failed}; of the others: {said.sentence[0].lower()}{said.sentence[1:]}")


def _of_scores(judged: Judged, dates: Mapping[int, datetime], headline: Mapping[str, Summary]) -> Verdict:
    """What the scores say.

    `dates` are those of the evaluations that it mentions, by number; `headline` the metrics that a first run is told
    by.
    """
    judgement = judged.judgement
    if judgement.verdict is None or (judgement.verdict == "failed" and judgement.baseline_id is None):
        return Verdict("unmeasured", "Too little could be scored to say how good it is.")
    if judgement.verdict == "first":
        begun = "First run" if judgement.baseline_id is None else "Accepted as the baseline"
        return Verdict("first", f"{begun}: {_levels(headline)}; later runs are held against it.")
    since = _since(judged, dates)
    why = ", ".join(what_changed(judgement.changes)) or "nothing changed"
    if judged.regressed:
        return Verdict("worse", f"Regressed since {since}: {_moved(judged.regressed)}; {why}.")
    unclear = [row for row in judged.gated if row.decision == "unclear"]
    fallen = [row for row in unclear if row.difference is not None]
    if fallen:
        chance = "strongly suspected" if any(row.suspected for row in fallen) else "which may be chance"
        return Verdict("unclear", f"Unclear since {since}: {_moved(fallen)}, {chance}; {why}.")
    if unclear:
        dark = unclear[0]
        return Verdict("unclear", f"Unclear since {since}: {metric_name(dark.metric_id)}: {dark.remark}; {why}.")
    improved = [row for row in judged.gated if row.better]
    if improved:
        return Verdict("better", f"Passed, and better since {since}: {_moved(improved)}; {why}.")
    return Verdict("same", f"Passed: as good as on {since}: {why}.")


def tone_of_client(row: Mapping[str, Any], max_error_share: float) -> Tone | None:
    """What a row of fleet_overview says of its client in a word; None where nothing was judged."""
    regressed = row["regressed_metric"] is not None
    if not regressed and too_many_errors(row["errors"] or 0, row["items"] or 0, max_error_share):
        return "failed"
    if row["verdict"] == "passed":
        return "first" if row["worst_delta"] is None else "same"  # None: there is nothing before
    tones: dict[str | None, Tone] = {"regressed": "worse", "unclear": "unclear", "failed": "failed"}
    return tones.get(row["verdict"])


def troubles_of_client(row: Mapping[str, Any], kinds: Collection[Kind], max_error_share: float) -> list[Trouble]:
    """What is wrong with a client, the gravest first: by its row of fleet_overview and the kinds of its open incidents.

    Of leaks and regressions the newest evaluation knows more than an incident that nobody has looked at since; where
    it cannot tell, the incident stands.
    """
    tone = tone_of_client(row, max_error_share)
    failed = too_many_errors(row["errors"] or 0, row["items"] or 0, max_error_share)
    found: dict[Trouble, bool] = {
        "leak": bool(row["foreign_chunks"]) or ("leak" in kinds and row["foreign_chunks"] is None),
        "regression": tone == "worse" or ("regression" in kinds and row["verdict"] != "passed"),
        "failed": failed,
        "errors": "errors" in kinds and not failed,
        "failed_run": "failed_run" in kinds,
        "benchmark": "benchmark" in kinds,
        "stale": "stale" in kinds,
    }
    return [trouble for trouble in TROUBLES if found[trouble]]


def gravity(troubles: Sequence[Trouble]) -> int:
    """Where a client stands in a list, worst first: leaks and regressions, other troubles, none."""
    if not troubles:
        return 2
    return 0 if troubles[0] in ("leak", "regression") else 1


def what_changed(changes: Sequence[Change]) -> list[str]:
    """`the documents changed (3 changed chunks)` for each of the five that did."""
    said = []
    for change in changes:
        verb = "changed" if change.what != "dataset" else "were renewed"
        named = f"{VERSIONS.get(change.what, change.what)} {verb} ({change.detail})"
        unsure = "the system may have changed (it declares no version)"
        said.append(unsure if change.detail == UNVERSIONED else named)
    return said


def _since(judged: Judged, dates: Mapping[int, datetime]) -> str:
    judgement = judged.judgement
    named = [change.since for change in judgement.changes if change.since is not None]
    known = [dates[each] for each in (*named, judgement.baseline_id) if each is not None and each in dates]
    return date(known[0], judged.evaluation.started_at) if known else f"run {judgement.baseline_id}"


def _moved(rows: Sequence[MetricComparison]) -> str:
    worst = sorted(rows, key=lambda row: -abs(row.difference or 0.0))
    said = [
        f"{metric_name(row.metric_id)} {movement(row.baseline_mean, row.mean)}"
        for row in worst[:MOST_NAMED]
        if row.baseline_mean is not None and row.mean is not None
    ]
    more = len(rows) - MOST_NAMED
    return ", ".join(said) + (f" and {more} more" if more > 0 else "")


def _levels(headline: Mapping[str, Summary]) -> str:
    known = {name: each for name, each in headline.items() if each.mean is not None}
    # What the gate looks at; the others stand below the sentence.
    first = {name: each for name, each in known.items() if name == "mrr" or name.startswith("hit_rate")}
    said = [f"{metric_name(each.metric_id)} {number(each.mean or 0.0)}" for each in (first or known).values()]
    return ", ".join(said) or "nothing could be scored"
