"""What Dagster shows of a run: verdict, numbers, the last runs as pictures, questions to look at; ids and numbers only.

Dagster shows text and links right away, and on an asset's pages also short Markdown. Longer Markdown, and all Markdown
in a run's log, is behind a click.
"""

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from rageval_dagster.evaluation.summary import EvaluationReport
from rageval_dagster.evaluation.verdict import NO_THRESHOLDS, Thresholds, good_value, is_users
from rageval_dagster.gate.causes import UNRETURNED, gone_in
from rageval_dagster.gate.spec import GateSpec
from rageval_dagster.labels.estimates import Estimate
from rageval_dagster.markdown import escaped, sparkline, table
from rageval_dagster.storage.comparisons import Change, MetricComparison
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.evaluations import Evaluation
from rageval_dagster.storage.scores import Summary
from rageval_dagster.storage.views import read_view
from rageval_dagster.telling.advice import Advised, likely_causes, suspected
from rageval_dagster.telling.alarms import run_alarms
from rageval_dagster.telling.calibration import calibration, calibration_lines
from rageval_dagster.telling.links import ReportLinks
from rageval_dagster.telling.verdicts import TONES, Verdict, good_values_told, headline, headline_metrics
from rageval_dagster.telling.words import capitalised, date, interval, metric_name, number, one_line, signed
from rageval_dagster.text import named, plural

QUESTIONS_SHOWN = 5
MOST_ADVICE = 3
SHOWN_AT_ONCE = 999
"""Characters of Markdown that Dagster shows without a click."""

WIDTH, HEIGHT, LEFT, EDGE = 300, 64, 30, 6
"""Of a picture, in pixels; what stands left of the runs has the scale's ends."""
LEAST_SPAN = 0.2
"""Of the values from bottom to top: what moves by less looks as calm as it is."""

History = Mapping[str, Sequence[Mapping[str, Any]]]
"""{metric id: its rows in metric_trend, oldest first}."""


class Markdown(str):
    """Text that Dagster lays out."""


class Address(str):
    """Text that Dagster makes a link of."""


def run_metadata(
    db: Database,
    reports: Sequence[EvaluationReport],
    verdicts: Sequence[Verdict],
    links: ReportLinks,
    spec: GateSpec,
    own: Thresholds = NO_THRESHOLDS,
    estimates: Mapping[int, Mapping[str, Estimate]] | None = None,
) -> dict[str, Any]:
    """What Dagster keeps of a run, in the order in which it is shown: first what went wrong, then of each evaluation
    its verdict, trend, report, questions and pictures, the gravest first, last the numbers.

    Those are named `dataset/...` (with the system where there are several). Dagster plots the numbers of all clients
    side by side; a client's history is in the pictures. `estimates` are what labels make of each evaluation's metrics.
    """
    metadata: dict[str, Any] = {}
    if not reports:
        return {"verdict": "Nothing was evaluated."}
    client_id = reports[0].evaluation.client_id
    # An asset's overview shows the newest run of any client, without its partition.
    metadata["client"] = one_line(client_id)
    alarms = run_alarms(db, [report.evaluation for report in reports], spec.max_error_share)
    if alarms:
        metadata["alarm"] = " ".join(f"{each.sentence} {each.command}" for each in alarms)
    several = len({report.evaluation.system for report in reports}) > 1
    at_gate = {each.judged.evaluation.id: each for each in verdicts}
    numbers: dict[str, float] = {}
    histories = _histories(db, client_id)
    for report in sorted(reports, key=lambda each: at_gate[each.evaluation.id].gravity):
        evaluation, found = report.evaluation, at_gate[report.evaluation.id]
        name = one_line(evaluation.dataset_name + (f"/{evaluation.system}" if several else ""))
        if f"{name}/verdict" in metadata:  # two that are cut to the same: none takes another's place
            name += f" (run {evaluation.id})"
        history = histories.get((evaluation.dataset_name, evaluation.system), {})
        gated = spec.gated(report.summaries, evaluation.k, report.level)
        first = headline_metrics(report.summaries, [*gated, *own], evaluation.k)
        metadata[f"{name}/verdict"] = headline(found, report.headline())
        changes = found.judged.judgement.changes
        gone = gone_in(changes)
        if gone is not None:
            metadata[f"{name}/lost documents"] = f"{capitalised(gone.detail)}{_which(gone)}"
        absent = next((each for each in changes if each.what in UNRETURNED and each.documents), None)
        if absent is not None:
            metadata[f"{name}/documents no longer returned"] = f"{len(absent.documents)}{_which(absent)}"
        if first:
            metadata[f"{name}/trend"] = "; ".join(
                f"{metric_name(each.metric_id)} {number(each.mean)} {_bars(history, each.metric_id)}" for each in first
            )
        if page := links.evaluation(client_id, evaluation.id):
            metadata[f"{name}/report"] = Address(page)
        failing = found.judged.judgement.newly_failing
        for label, ids in (("newly failing", failing), ("worst questions", report.worst_item_ids)):
            if ids:
                metadata[f"{name}/{label}"] = question_list(evaluation, ids, links)
        compared = {row.metric_id: row for row in found.judged.comparisons}
        labelled = (estimates or {}).get(evaluation.id, {})
        for each in first:
            metadata[f"{name}/{metric_name(each.metric_id)}"] = _metric(
                each,
                history.get(each.metric_id, ()),
                compared.get(each.metric_id),
                good_value(each, own),
                calibration(each.metric_id, labelled.get(each.metric_id)),
            )
        if lines := calibration_lines(sorted(report.by_model().keys() | labelled.keys()), labelled):
            metadata[f"{name}/calibration"] = capitalised("; ".join(lines))
        metadata[f"{name}/good values"] = good_values_told(report, own)
        metadata[f"{name}/details"] = Markdown(
            _details(report, found, links, history, own, likely_causes(db, report, own))
        )
        users = {metric: summary for metric, summary in report.summaries.items() if is_users(metric)}
        for metric, summary in {**report.headline(), **report.by_model(), **users}.items():
            if summary.mean is not None:
                numbers[f"{name}/{metric}"] = summary.mean
        for metric, each in labelled.items():
            figures = {"corrected": each.corrected.mean, "judge_bias": each.corrected.bias, "agreement": each.agreement}
            numbers |= {f"{name}/{metric}/{what}": value for what, value in figures.items() if value is not None}
        for row in found.judged.gated:
            if row.difference is not None:
                numbers[f"{name}/{row.metric_id}/against_baseline"] = row.difference
    return metadata | numbers


def verdict_lines(reports: Sequence[EvaluationReport], verdicts: Sequence[Verdict], links: ReportLinks) -> list[str]:
    """For the end of a run's log: a line for each evaluation, with where to read more."""
    levels = {report.evaluation.id: report.headline() for report in reports}
    lines = []
    for found in sorted(verdicts, key=lambda each: each.gravity):
        evaluation = found.judged.evaluation
        more = links.evaluation(evaluation.client_id, evaluation.id) or f"rageval runs show {evaluation.id}"
        of = f"{one_line(evaluation.dataset_name)} / {one_line(evaluation.system)}"
        lines.append(f"{of}: {headline(found, levels[evaluation.id])} {more}")
    return lines


def verdict_tag(verdicts: Sequence[Verdict]) -> str:
    """The worst verdict of a run in a word or two, by which people find runs: `leak`, `regressed`, `passed`."""
    if any(each.judged.evaluation.foreign_chunks for each in verdicts):
        return "leak"
    tone = min(verdicts, key=lambda each: each.gravity).tone if verdicts else "unmeasured"
    return TONES["same" if tone == "better" else tone]


def _which(change: Change) -> str:
    """`: a.md, b.md and 8 more`: the documents that a change names."""
    return f": {named(list(map(one_line, change.documents)))}" if change.documents else ""


def _histories(db: Database, client_id: str) -> Mapping[tuple[str, str], History]:
    """{(dataset, system): its history}, of all that the client has."""
    found: dict[tuple[str, str], dict[str, list[Mapping[str, Any]]]] = {}
    for row in read_view(db, "metric_trend", client_id=client_id):
        metrics = found.setdefault((row["dataset_name"], row["system_name"]), {})
        metrics.setdefault(row["metric_id"], []).insert(0, row)
    return found


def _bars(history: History, metric_id: str) -> str:
    return sparkline([row["mean"] for row in history.get(metric_id, ())])


def _metric(
    summary: Summary,
    rows: Sequence[Mapping[str, Any]],
    compared: MetricComparison | None,
    good: float | None,
    calibrated: str | None,
) -> Markdown:
    """A metric's number with all that it is held against, and a picture of the last runs."""
    known = [row for row in rows if row["mean"] is not None]
    between = interval(summary.ci_low, summary.ci_high)
    said = [f"**{number(summary.mean)}**" + (f" (95 %: {between})" if between else "")]
    if change := _difference(compared):
        said.append(f"{change} against the baseline")
    if good is not None:
        said.append(f"good {'from' if summary.higher_is_better else 'up to'} {number(good)}")
    if calibrated is not None:
        said.append(calibrated)
    if not known:
        return Markdown("; ".join(said))
    days = list(dict.fromkeys(date(row["finished_at"]) for row in (known[0], known[-1]) if row["finished_at"]))
    said.append(f"{plural(len(known), 'run')}, {' to '.join(days)}")
    worse = compared is not None and compared.decision == "regressed"
    return Markdown(f"{'; '.join(said)}\n\n{_picture(known, good, worse)}")


def _picture(rows: Sequence[Mapping[str, Any]], good: float | None, worse: bool) -> str:
    """A line through the means in their 95 % intervals, with the good value dashed, as an image within the Markdown."""
    means, lows, highs = (
        [row["mean"] if row[end] is None else row[end] for row in rows] for end in ("mean", "ci_low", "ci_high")
    )
    bottom, top = min(lows), max(highs)
    if top - bottom < LEAST_SPAN:
        middle = (bottom + top) / 2
        bottom, top = middle - LEAST_SPAN / 2, middle + LEAST_SPAN / 2

    def down(value: float) -> str:
        return f"{EDGE + (HEIGHT - 2 * EDGE) * (top - value) / (top - bottom):.0f}"

    def across(run: int) -> str:
        return f"{WIDTH - EDGE - (WIDTH - LEFT - 2 * EDGE) * (len(rows) - 1 - run) / max(len(rows) - 1, 1):.0f}"

    def path(values: Sequence[float]) -> list[str]:
        return [f"{across(run)},{down(value)}" for run, value in enumerate(values)]

    colour = "#d33" if worse else "#47c"
    dashes = ""
    if good is not None and bottom <= good <= top:
        dashes = f'<path d="M{LEFT},{down(good)}H{WIDTH}" stroke="#888" stroke-dasharray="3"/>'
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" fill="{colour}" stroke="{colour}">'
        f'<path d="M{" ".join(path(lows) + path(highs)[::-1])}z" opacity=".2" stroke-width="5"/>{dashes}'
        f'<path d="M{" ".join(path(means))}" fill="none" stroke-width="2"/>'
        f'<circle cx="{across(len(rows) - 1)}" cy="{down(means[-1])}" r="3"/>'
        f'<g font-size="11" fill="#888" stroke="none"><text y="12">{number(top)}</text>'
        f'<text y="{HEIGHT - 3}">{number(bottom)}</text></g></svg>'
    )
    encoded = base64.b64encode(svg.encode()).decode()
    return f"![{', '.join(map(number, means))}](data:image/svg+xml;base64,{encoded})"


def question_list(evaluation: Evaluation, item_ids: Sequence[str], links: ReportLinks) -> Markdown:
    """How many, and the first ones, as many as Dagster shows without a click."""
    count, shown = plural(len(item_ids), "question"), QUESTIONS_SHOWN
    while len(said := f"{count}: {_linked(evaluation, item_ids, links, shown)}") > SHOWN_AT_ONCE and shown > 1:
        shown -= 1
    return Markdown(said)


def _linked(evaluation: Evaluation, item_ids: Sequence[str], links: ReportLinks, most: int = QUESTIONS_SHOWN) -> str:
    """`question 1`, `question 2` as links that open the report at that very question; without a report their ids."""
    urls = [links.question(evaluation.client_id, evaluation.id, item_id) for item_id in item_ids]
    shown = [
        f"[question {place}]({url})" if url else f"`{id}`"
        for place, (id, url) in enumerate(zip(item_ids, urls, strict=True), 1)
    ]
    more = "" if urls[0] else f" (`rageval runs show {evaluation.id}`)"
    return named(shown, most) + more


def _details(
    report: EvaluationReport,
    found: Verdict,
    links: ReportLinks,
    history: History,
    thresholds: Thresholds,
    causes: Sequence[Advised],
) -> str:
    evaluation, judged = report.evaluation, found.judged
    lines = [
        f"### {escaped(evaluation.dataset_name)} / {escaped(evaluation.system)} (run {evaluation.id})",
        f"**{escaped(headline(found, report.headline()), 600)}**",
        _metrics(report, found, history, thresholds),
    ]
    if failing := judged.judgement.newly_failing:
        lines.append(f"Newly failing ({plural(len(failing), 'question')}): {_linked(evaluation, failing, links)}")
    if report.worst_item_ids:
        lines.append("Worst questions: " + _linked(evaluation, report.worst_item_ids, links))
    suspects = suspected(judged.judgement.changes, [row.metric_id for row in judged.regressed])
    for said, advice in (("Worse", suspects), ("Low", causes)):
        for each in advice[:MOST_ADVICE]:
            names = ", ".join(metric_name(name) for name in each.low)
            lines.append(f"- {said}: {escaped(names)}. {each.advice.cause}. {each.advice.action}.")
    if page := links.evaluation(evaluation.client_id, evaluation.id):
        lines.append(f"[Open the report]({page})")
    else:
        lines.append(f"Read more: `rageval runs show {evaluation.id}`, `rageval report`")
    return "\n\n".join(lines)


def _metrics(report: EvaluationReport, found: Verdict, history: History, thresholds: Thresholds) -> str:
    """The headline and judged metrics: mean, interval, good value, difference to the baseline, and the last runs."""
    compared = {row.metric_id: row for row in found.judged.comparisons}
    rows = [
        [
            escaped(metric_name(each.metric_id)),
            number(each.mean),
            interval(each.ci_low, each.ci_high),
            "" if (good := good_value(each, thresholds)) is None else number(good),
            _difference(compared.get(each.metric_id)),
            _bars(history, each.metric_id),
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
