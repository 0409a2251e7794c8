"""The report as one HTML file: nothing outside it is needed, and everything of documents and models is escaped."""

import base64
import gzip
import hashlib
import json
import math
import re
import shlex
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from markupsafe import Markup

from rageval_dagster.gate.spec import seen_from
from rageval_dagster.report.charts import trend_chart
from rageval_dagster.report.contents import ClientContents, EvaluationContents
from rageval_dagster.report.links import report_file
from rageval_dagster.report.names import VERSIONS, interval, metric_name, number, plural
from rageval_dagster.report.triage import QUADRANTS
from rageval_dagster.report.verdict import (
    TROUBLES,
    Tone,
    Trouble,
    gravity,
    tone_of_client,
    troubles_of_client,
)
from rageval_dagster.settings import Settings
from rageval_dagster.storage.incidents import Incident
from rageval_dagster.telling.alarms import is_failed_run
from rageval_dagster.telling.reasons import reason
from rageval_dagster.text import TURNS_DIRECTION

_TEMPLATES = Path(__file__).parent / "templates"
TONES = {
    "worse": "regressed",
    "better": "passed, better",
    "same": "passed",
    "unclear": "unclear",
    "first": "first run",
    "unmeasured": "not measured",
    "failed": "system failed",
}
_SAID: dict[Trouble, tuple[str, str]] = {
    "leak": (
        "the system of {} client returned chunks of other clients",
        "the systems of {} clients returned chunks of other clients",
    ),
    "regression": ("{} of {} regressed", "{} of {} regressed"),
    "failed": ("the system of {} client failed", "the systems of {} clients failed"),
    "errors": ("many questions of {} client could not be scored", "many questions of {} clients could not be scored"),
    "failed_run": ("the last run of {} client failed", "the last runs of {} clients failed"),
    "benchmark": ("the benchmark of {} client breaks its rules", "the benchmarks of {} clients break their rules"),
    "stale": ("{} client was not evaluated for too long", "{} clients were not evaluated for too long"),
}
"""How the page of all clients counts those with a trouble: one, or several; in the order in which it tells them."""
MOST_CLIENTS = 5
"""So many are named in its sentence; the others stand in the table below it."""
MOST_ADVICE = 4
"""So many causes stand in sight; the others fold out."""

_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def client_page(contents: ClientContents, redacted: bool = False, fleet: str | None = None) -> str:
    """A client's report. `fleet` is the address of the page of all clients, relative to this one."""
    return _rendered(
        "client",
        client=contents,
        redacted=redacted,
        fleet=fleet,
        tones=TONES,
        versions=VERSIONS,
        quadrants=QUADRANTS,
        most_advice=MOST_ADVICE,
        names=_names(contents),
        charts={each.evaluation.id: _charts(each) for each in contents.evaluations},
        ceilings={each.evaluation.id: _ceiling(each) for each in contents.evaluations},
        data={each.evaluation.id: packed(_data(each)) for each in contents.evaluations},
    )


def fleet_page(
    overview: Sequence[Mapping[str, Any]],
    settings: Settings,
    incidents: Sequence[Incident] = (),
    with_report: Collection[str] = (),
) -> str:
    """The page of all clients, worst first. `overview` are the rows of fleet_overview, `incidents` those that are open.

    Behind the clients that leak or got worse stand those with which something else is wrong. Those `with_report`, by
    name, link to their own pages in the same folder.
    """
    evaluated = {row["client_id"]: row["evaluated_at"] for row in overview}
    of_client: dict[str, list[Incident]] = defaultdict(list)
    for incident in incidents:
        if incident.kind != "failed_run" or is_failed_run(incident, evaluated.get(incident.client_id)):
            of_client[incident.client_id].append(incident)
    rows = [_fleet_row(row, of_client[row["client_id"]], row["client_id"] in with_report, settings) for row in overview]
    rows.sort(key=lambda row: gravity(row["troubles"]))
    return _rendered(
        "fleet",
        rows=rows,
        wrong=any(row["troubles"] for row in rows),
        sentence=fleet_sentence(rows),
        verdicts=sorted({said for row in rows for said in row["verdict"].split(", ")}),
    )


def _rendered(page: str, **values: Any) -> str:
    """The template of that name, with its script, the style of all pages, when it was made, and by which program."""
    script = _source(f"{page}.js")
    template = _environment().get_template(f"{page}.html")
    found = template.render(
        **values,
        made_at=_moment(datetime.now(UTC)),
        style=Markup(_source("style.css")),  # noqa: S704 - this package's own file
        script=Markup(script),  # noqa: S704 - this package's own file
        script_hash=script_hash(script),
        program_version=_program_version(),
    )
    return writable(found)


def fleet_sentence(rows: Sequence[Mapping[str, Any]]) -> Markup:
    """What is wrong with how many clients, and with which, as links to their reports; where nothing is, that."""
    said: list[Markup] = []
    for trouble, (one, many) in _SAID.items():
        clients = [row for row in rows if trouble in row["troubles"]]
        if clients:
            counted = (one if len(clients) == 1 else many).format(len(clients), plural(len(rows), "client"))
            counted = counted if said else f"{counted[0].upper()}{counted[1:]}"
            said.append(Markup("{}: {}").format(counted, _clients(clients, trouble)))
    return Markup("; ").join(said) + "." if said else Markup("No client is known to have regressed.")


def _clients(rows: Sequence[Mapping[str, Any]], trouble: Trouble) -> Markup:
    """The clients, each with on how many questions its system failed, or that its run died; once, where it was on all
    questions of each."""
    on_all = trouble == "failed" and all(row["errors"] == row["questions"] for row in rows)
    said = []
    for row in rows[:MOST_CLIENTS]:
        failed, of = row["errors"], row["questions"]
        more = ""
        if trouble == "failed" and not on_all:
            more = " (on all questions)" if failed == of else f" (on {failed:,} of {plural(of, 'question')})"
        if trouble == "failed_run" and row["died"]:
            more = " (its process died)"
        name = Markup('<a href="{}">{}</a>').format(row["file"], row["client"]) if row["file"] else row["client"]
        said.append(Markup("{}{}").format(name, more))
    left = len(rows) - MOST_CLIENTS
    end = (f" and {left} more" if left > 0 else "") + (" (on all questions)" if on_all else "")
    return Markup(", ").join(said) + end


def _word(row: Mapping[str, Any], troubles: Sequence[Trouble], tone: Tone | None) -> str:
    if troubles:
        return ", ".join(TROUBLES[each] for each in troubles)
    return "not judged" if row["evaluations"] and tone is None else TONES.get(tone or "", "not evaluated")


def _opened(incidents: Sequence[Incident], row: Mapping[str, Any]) -> list[dict[str, str]]:
    """Why each of the client's incidents is open; without those that the row's own numbers tell."""
    told = {"regression": row["regressed_metric"] is not None, "leak": bool(row["foreign_chunks"])}
    return [
        {"trouble": TROUBLES[_trouble(each)], "reason": reason(each), "since": _moment(each.opened_at)}
        for each in incidents
        if not told.get(each.kind, False)
    ]


def _trouble(incident: Incident) -> Trouble:
    """What an incident is called: where the system failed, no metric could be scored, and none is named."""
    return "failed" if incident.kind == "errors" and not incident.details["metrics"] else incident.kind


def _fleet_row(
    row: Mapping[str, Any], incidents: Sequence[Incident], has_report: bool, settings: Settings
) -> dict[str, Any]:
    regressed = row["regressed_metric"] is not None
    allowed = settings.for_client_or_default(row["client_id"]).max_error_share
    tone = tone_of_client(row, allowed)
    troubles = troubles_of_client(row, {each.kind for each in incidents}, allowed)
    file = report_file(row["client_id"]) if has_report else None
    metric = row["regressed_metric"] if regressed else row["worst_metric"]
    return {
        "client": row["client_id"],
        "file": file,
        "vanished": row["vanished_at"] is not None,
        "pending": bool(row["pending_changes"]),
        "troubles": troubles,
        "died": any(each.details.get("died") for each in incidents),
        "tone": "worse" if gravity(troubles) == 0 else "below" if troubles else "",
        "verdict": _word(row, troubles, tone),
        "incidents": _opened(incidents, row),
        "metric": "" if metric is None else metric_name(metric),
        "now": row["regressed_mean"] if regressed else row["worst_mean"],
        "change": -row["regressed_by"] if regressed else row["worst_delta"],
        "mrr": row["mrr"],
        "questions": row["items"],
        "newly_failing": row["newly_failing"],
        "failing_list": f"{file}#run={row['newly_failing_evaluation_id']}&only=new" if file else None,
        "errors": row["errors"],
        "leaks": row["foreign_chunks"],
        "about": f"{row['dataset_name']} / {row['system_name']}" if row["system_name"] else "",
        "evaluated": "" if row["evaluated_at"] is None else _moment(row["evaluated_at"]),
    }


def script_hash(script: str) -> str:
    """The script's hash as a Content-Security-Policy names it: nothing else on the page runs."""
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def packed(data: Any) -> str:
    """JSON, compressed, in letters that mean nothing in HTML."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    # A lone surrogate is no character, and cannot be written.
    raw = text.encode("utf-8", "replace")
    return base64.b64encode(gzip.compress(raw, 9, mtime=0)).decode("ascii")


def writable(page: str) -> str:
    """The page without characters that HTML does not have, or that show others elsewhere than they stand."""
    return TURNS_DIRECTION.sub("�", _CONTROLS.sub("�", page))


def _data(contents: EvaluationContents) -> dict[str, Any]:
    return {
        "metrics": contents.metric_ids,
        "names": [figure.name for figure in contents.figures],
        "higher": [figure.summary.higher_is_better for figure in contents.figures],
        "quadrants": {name: said for name, (said, _) in QUADRANTS.items()},
        "level": contents.report.level,
        "rows": contents.questions.rows,
        "texts": contents.questions.texts,
    }


def _names(contents: ClientContents) -> dict[str, str]:
    """The questions that the page itself names, by id."""
    named = {id for each in contents.evaluations for id in each.judged.judgement.newly_failing[:5]}
    return {
        row["id"]: row["q"]
        for each in contents.evaluations
        for row in each.questions.rows
        if row["id"] in named and "q" in row
    }


def _charts(contents: EvaluationContents) -> list[tuple[str, Markup, list[str]]]:
    """Retrieval, with precision's ceiling; and the metrics of answers that stand among the first."""
    k, trends, prefix = contents.evaluation.k, contents.trends, contents.report.prefix
    retrieval = [f"{prefix}{name}" for name in (f"precision_at_{k}", f"recall_at_{k}", "mrr")]
    answers = [each.metric_id for each in contents.first if not each.metric_id.startswith("retrieval.")]
    if not answers:
        answers = [name for name in ("overlap.faithfulness", "overlap.answer_correctness") if name in trends]
    found = []
    for title, ids in (("Retrieval over time", retrieval), ("Answers over time", answers[:4])):
        series = {metric_name(name): trends[name] for name in ids if name in trends}
        precision = next((each for each in contents.figures if each.metric_id == ids[0]), None) if ids else None
        if precision is not None and precision.summary.ceiling is not None and ids[0] in trends:
            ceiling = precision.summary.ceiling
            series[f"ceiling of precision ({number(ceiling)})"] = [(moment, ceiling) for moment, _ in trends[ids[0]]]
        chart = trend_chart(title, series)
        if chart:
            found.append((title, chart, list(series)))
    return found


def _ceiling(contents: EvaluationContents) -> str | None:
    """Why precision cannot reach 1, where it cannot."""
    k = contents.evaluation.k
    precision = f"{contents.report.prefix}precision_at_{k}"
    ceiling = next((each.summary.ceiling for each in contents.figures if each.metric_id == precision), None)
    if ceiling is None or ceiling >= 1:
        return None
    return (
        f"The ceiling of {metric_name(precision)}, {number(ceiling)}, is what perfect retrieval would reach: questions "
        f"have fewer than {k} relevant {contents.report.level}s, so that others fill the list. Another k, dataset or "
        "evidence has another ceiling: compare precision with its ceiling, not with 1."
    )


@cache
def _environment() -> Any:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "score": _score,
        "seen_from": seen_from,
        "signed": _signed,
        "percent": _percent,
        "moment": _moment,
        "metric_name": metric_name,
        "shortened": _shortened,
    }
    environment.globals |= {"plural": plural, "interval": interval, "shell": shlex.quote}
    return environment


@cache
def _source(name: str) -> str:
    return (_TEMPLATES / name).read_text(encoding="utf-8")


def _score(value: float | None, digits: int = 2) -> str:
    return "–" if value is None else number(value, digits)


def _signed(value: float) -> str:
    said = number(value)
    return said.replace("-", "−") if value < 0 else f"+{said}"


def _percent(share: float | None) -> str:
    return "0%" if share is None else f"{math.floor(share * 100 + 0.5)}%"


def _moment(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M}"


def _shortened(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:59]}…"


def _program_version() -> str:
    try:
        return version("rageval-dagster")
    except PackageNotFoundError:
        return "from a checkout"
