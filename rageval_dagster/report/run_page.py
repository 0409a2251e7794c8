"""The Markdown page of a run in Dagster: verdict, what changed, questions to look at, trend; ids and numbers only."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from rageval_dagster.evaluation.summary import EvaluationReport
from rageval_dagster.evaluation.verdict import NO_THRESHOLDS
from rageval_dagster.gate.judging import Judged
from rageval_dagster.gate.spec import GateSpec
from rageval_dagster.markdown import escaped, sparkline, table
from rageval_dagster.report.advice import advised, good_value, suspected
from rageval_dagster.report.links import ReportLinks
from rageval_dagster.report.names import interval, listed, metric_name, number, plural
from rageval_dagster.report.verdict import verdict, what_changed
from rageval_dagster.storage.comparisons import MetricComparison
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.evaluations import Evaluation, evaluations_by_id
from rageval_dagster.storage.views import read_view
from rageval_dagster.telling.alarms import Alarm, run_alarms

QUESTIONS_SHOWN = 5
MOST_ADVICE = 3


def run_page(
    db: Database,
    reports: Sequence[EvaluationReport],
    judged: Sequence[Judged],
    links: ReportLinks,
    spec: GateSpec,
    thresholds: Mapping[str, float] = NO_THRESHOLDS,
) -> str:
    """A part for each evaluation of a trigger, in their order; where a report is served, question ids link into it.

    Leaks and systems that failed come before all of them.
    """
    at_gate = {each.evaluation.id: each for each in judged}
    ran = [report.evaluation for report in reports]
    parts = [_alarm(each, ran[0].client_id, links) for each in run_alarms(db, ran, spec.max_error_share)]
    parts += [_part(db, report, at_gate.get(report.evaluation.id), links, spec, thresholds) for report in reports]
    return "\n\n".join(parts) or "Nothing was evaluated."


def _alarm(alarm: Alarm, client_id: str, links: ReportLinks) -> str:
    url = None if alarm.evaluation_id is None else links.evaluation(client_id, alarm.evaluation_id)
    return f"**{escaped(alarm.sentence, 600)}** " + (f"[Open the report]({url})" if url else f"`{alarm.command}`")


def mentioned_dates(db: Database, judged: Judged) -> dict[int, datetime]:
    """When the evaluations ran that a verdict may name; without those that are not kept any more."""
    ids = {judged.judgement.baseline_id, *(change.since for change in judged.judgement.changes)}
    return {each.id: each.started_at for each in evaluations_by_id(db, filter(None, ids)).values()}


def _part(
    db: Database,
    report: EvaluationReport,
    judged: Judged | None,
    links: ReportLinks,
    spec: GateSpec,
    thresholds: Mapping[str, float],
) -> str:
    evaluation = report.evaluation
    lines = [f"### {escaped(evaluation.dataset_name)} / {escaped(evaluation.system)} (run {evaluation.id})"]
    if judged is not None:
        said = verdict(judged, mentioned_dates(db, judged), report.headline(), spec)
        lines.append(f"**{escaped(said.sentence, 600)}**")
        if changed := what_changed(judged.judgement.changes):
            lines.append("\n".join(f"- {escaped(line)}" for line in changed))
    lines.append(_metrics(db, report, judged, thresholds))
    failing = judged.judgement.newly_failing if judged is not None else ()
    if failing:
        told = f"Newly failing ({plural(len(failing), 'question')}): "
        lines.append(told + _linked(evaluation, failing, links))
    if report.worst_item_ids:
        lines.append("Worst questions: " + _linked(evaluation, report.worst_item_ids, links))
    suspects = (
        [] if judged is None else suspected(judged.judgement.changes, [row.metric_id for row in judged.regressed])
    )
    for said, found in (("Worse", suspects), ("Low", advised(report.summaries, evaluation.k, thresholds))):
        for each in found[:MOST_ADVICE]:
            names = ", ".join(metric_name(name) for name in each.low)
            lines.append(f"- {said}: {escaped(names)}. {each.advice.cause}. {each.advice.action}.")
    if page := links.evaluation(evaluation.client_id, evaluation.id):
        lines.append(f"[Open the report]({page})")
    else:
        lines.append(f"Read more: `rageval runs show {evaluation.id}`, `rageval report`")
    return "\n\n".join(lines)


def _metrics(db: Database, report: EvaluationReport, judged: Judged | None, thresholds: Mapping[str, float]) -> str:
    """The headline and judged metrics: mean, interval, good value, difference to the baseline, and the last runs."""
    evaluation = report.evaluation
    trend: dict[str, list[float | None]] = {}
    for row in read_view(db, "metric_trend", client_id=evaluation.client_id):
        if (row["dataset_name"], row["system_name"]) == (evaluation.dataset_name, evaluation.system):
            trend.setdefault(row["metric_id"], []).insert(0, row["mean"])
    compared = {row.metric_id: row for row in judged.comparisons} if judged is not None else {}
    shown = [*report.headline().values(), *report.by_model().values()]
    rows = [
        [
            escaped(metric_name(each.metric_id)),
            "–" if each.mean is None else number(each.mean),
            interval(each.ci_low, each.ci_high),
            "" if (good := good_value(each, thresholds)) is None else number(good),
            _difference(compared.get(each.metric_id)),
            sparkline(trend.get(each.metric_id, [])),
        ]
        for each in shown
    ]
    if not rows:
        return "No headline metric was run."
    return table(["metric", "mean", "95 % interval", "good", "against baseline", "last runs"], rows)


def _difference(row: MetricComparison | None) -> str:
    if row is None or row.difference is None:
        return ""
    word = "better" if row.better else row.decision
    return f"{'+' if row.difference >= 0 else ''}{number(row.difference)} {word}"


def _linked(evaluation: Evaluation, item_ids: Sequence[str], links: ReportLinks) -> str:
    urls = [links.question(evaluation.client_id, evaluation.id, item_id) for item_id in item_ids]
    shown = [f"[{id}]({url})" if url else f"`{id}`" for id, url in zip(item_ids, urls, strict=True)]
    return listed(shown, QUESTIONS_SHOWN)
