"""The Markdown page of a run in Dagster: verdict, what changed, questions to look at, trend; ids and numbers only."""

from collections.abc import Sequence

from rageval_dagster.evaluation.summary import EvaluationReport
from rageval_dagster.evaluation.verdict import NO_THRESHOLDS, Thresholds, good_value
from rageval_dagster.markdown import escaped, sparkline, table
from rageval_dagster.storage.comparisons import MetricComparison
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.evaluations import Evaluation
from rageval_dagster.storage.views import read_view
from rageval_dagster.telling.advice import advised, suspected
from rageval_dagster.telling.alarms import Alarm, run_alarms
from rageval_dagster.telling.links import ReportLinks
from rageval_dagster.telling.verdicts import Verdict, headline
from rageval_dagster.telling.words import interval, metric_name, number, signed
from rageval_dagster.text import named, plural

QUESTIONS_SHOWN = 5
MOST_ADVICE = 3


def run_page(
    db: Database,
    reports: Sequence[EvaluationReport],
    verdicts: Sequence[Verdict],
    links: ReportLinks,
    max_error_share: float,
    thresholds: Thresholds = NO_THRESHOLDS,
) -> str:
    """A part for each evaluation of a trigger, in their order; where a report is served, question ids link into it.

    Leaks and systems that failed come before all of them.
    """
    at_gate = {each.judged.evaluation.id: each for each in verdicts}
    ran = [report.evaluation for report in reports]
    parts = [_alarm(each, ran[0].client_id, links) for each in run_alarms(db, ran, max_error_share)]
    parts += [_part(db, report, at_gate[report.evaluation.id], links, thresholds) for report in reports]
    return "\n\n".join(parts) or "Nothing was evaluated."


def _alarm(alarm: Alarm, client_id: str, links: ReportLinks) -> str:
    url = None if alarm.evaluation_id is None else links.evaluation(client_id, alarm.evaluation_id)
    return f"**{escaped(alarm.sentence, 600)}** " + (f"[Open the report]({url})" if url else f"`{alarm.command}`")


def _part(db: Database, report: EvaluationReport, found: Verdict, links: ReportLinks, thresholds: Thresholds) -> str:
    evaluation, judged = report.evaluation, found.judged
    lines = [
        f"### {escaped(evaluation.dataset_name)} / {escaped(evaluation.system)} (run {evaluation.id})",
        f"**{escaped(headline(found, report.headline()), 600)}**",
        _metrics(db, report, found, thresholds),
    ]
    if failing := judged.judgement.newly_failing:
        lines.append(f"Newly failing ({plural(len(failing), 'question')}): {_linked(evaluation, failing, links)}")
    if report.worst_item_ids:
        lines.append("Worst questions: " + _linked(evaluation, report.worst_item_ids, links))
    suspects = suspected(judged.judgement.changes, [row.metric_id for row in judged.regressed])
    for said, advice in (("Worse", suspects), ("Low", advised(report.summaries, evaluation.k, thresholds))):
        for each in advice[:MOST_ADVICE]:
            names = ", ".join(metric_name(name) for name in each.low)
            lines.append(f"- {said}: {escaped(names)}. {each.advice.cause}. {each.advice.action}.")
    if page := links.evaluation(evaluation.client_id, evaluation.id):
        lines.append(f"[Open the report]({page})")
    else:
        lines.append(f"Read more: `rageval runs show {evaluation.id}`, `rageval report`")
    return "\n\n".join(lines)


def _metrics(db: Database, report: EvaluationReport, found: Verdict, thresholds: Thresholds) -> str:
    """The headline and judged metrics: mean, interval, good value, difference to the baseline, and the last runs."""
    evaluation = report.evaluation
    trend: dict[str, list[float | None]] = {}
    for row in read_view(db, "metric_trend", client_id=evaluation.client_id):
        if (row["dataset_name"], row["system_name"]) == (evaluation.dataset_name, evaluation.system):
            trend.setdefault(row["metric_id"], []).insert(0, row["mean"])
    compared = {row.metric_id: row for row in found.judged.comparisons}
    rows = [
        [
            escaped(metric_name(each.metric_id)),
            number(each.mean),
            interval(each.ci_low, each.ci_high),
            "" if (good := good_value(each, thresholds)) is None else number(good),
            _difference(compared.get(each.metric_id)),
            sparkline(trend.get(each.metric_id, [])),
        ]
        for each in [*report.headline().values(), *report.by_model().values()]
    ]
    if not rows:
        return "No headline metric was run."
    return table(["metric", "mean", "95 % interval", "good", "against baseline", "last runs"], rows)


def _difference(row: MetricComparison | None) -> str:
    if row is None or row.difference is None:
        return ""
    return f"{signed(row.difference)} {'better' if row.better else row.decision}"


def _linked(evaluation: Evaluation, item_ids: Sequence[str], links: ReportLinks) -> str:
    urls = [links.question(evaluation.client_id, evaluation.id, item_id) for item_id in item_ids]
    shown = [f"[{id}]({url})" if url else f"`{id}`" for id, url in zip(item_ids, urls, strict=True)]
    return named(shown, QUESTIONS_SHOWN)
