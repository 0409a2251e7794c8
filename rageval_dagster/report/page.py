"""The report as one HTML file: nothing outside it is needed, and everything of documents and models is escaped."""

import base64
import gzip
import hashlib
import json
import math
import re
import shlex
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
from rageval_dagster.report.questions import QUADRANTS
from rageval_dagster.telling.links import report_file
from rageval_dagster.telling.reasons import reason
from rageval_dagster.telling.standing import TROUBLES, Standing, Trouble, trouble_of
from rageval_dagster.telling.verdicts import TONES, newly_failing
from rageval_dagster.telling.words import VERSIONS, interval, metric_name, minute, number, signed
from rageval_dagster.text import TURNS_DIRECTION, plural

_TEMPLATES = Path(__file__).parent / "templates"
_SAID: dict[Trouble, tuple[str, str]] = {
    "leak": (
        "the system of {} client returned passages of other clients",
        "the systems of {} clients returned passages of other clients",
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


def fleet_page(clients: Sequence[Standing], with_report: Collection[str] = ()) -> str:
    """The page of all clients, worst first; those `with_report`, by name, link to their pages in the same folder."""
    files = {name: report_file(name) for each in clients if (name := each.row["client_id"]) in with_report}
    return _rendered(
        "fleet",
        clients=clients,
        files=files,
        opened={each.row["client_id"]: _opened(each) for each in clients},
        wrong=any(each.troubles for each in clients),
        sentence=_fleet_sentence(clients, files),
        verdicts=sorted({said for each in clients for said in each.verdict.split(", ")}),
    )


def _rendered(page: str, **values: Any) -> str:
    """The template of that name, with its script, the style of all pages, when it was made, and by which program."""
    script = _source(f"{page}.js")
    try:
        program_version = version("rageval-dagster")
    except PackageNotFoundError:
        program_version = "from a checkout"
    found = (
        _environment()
        .get_template(f"{page}.html")
        .render(
            **values,
            made_at=minute(datetime.now(UTC)),
            style=Markup(_source("style.css")),  # noqa: S704 - this package's own file
            script=Markup(script),  # noqa: S704 - this package's own file
            script_hash=script_hash(script),
            program_version=program_version,
        )
    )
    return writable(found)


def _fleet_sentence(clients: Sequence[Standing], files: Mapping[str, str]) -> Markup:
    """What is wrong with how many clients, and with which, as links to their reports; where nothing is, that."""
    said: list[Markup] = []
    for trouble, (one, many) in _SAID.items():
        concerned = [each for each in clients if trouble in each.troubles]
        if concerned:
            counted = (one if len(concerned) == 1 else many).format(len(concerned), plural(len(clients), "client"))
            counted = counted if said else f"{counted[0].upper()}{counted[1:]}"
            said.append(Markup("{}: {}").format(counted, _named(concerned, trouble, files)))
    return Markup("; ").join(said) + "." if said else Markup("No client is known to have regressed.")


def _named(clients: Sequence[Standing], trouble: Trouble, files: Mapping[str, str]) -> Markup:
    """The clients, each with on how many questions its system failed, or that its run died; once, where it was on all
    questions of each."""
    on_all = trouble == "failed" and all(each.row["errors"] == each.row["items"] for each in clients)
    said = []
    for each in clients[:MOST_CLIENTS]:
        client, failed, of = (each.row[name] for name in ("client_id", "errors", "items"))
        more = ""
        if trouble == "failed" and not on_all:
            more = " (on all questions)" if failed == of else f" (on {failed:,} of {plural(of, 'question')})"
        if trouble == "failed_run" and any(incident.details.get("died") for incident in each.incidents):
            more = " (its process died)"
        name = Markup('<a href="{}">{}</a>').format(files[client], client) if client in files else client
        said.append(Markup("{}{}").format(name, more))
    left = len(clients) - MOST_CLIENTS
    end = (f" and {left} more" if left > 0 else "") + (" (on all questions)" if on_all else "")
    return Markup(", ").join(said) + end


def _opened(client: Standing) -> list[dict[str, str]]:
    """Why each of the client's incidents is open; without those that the row's own numbers tell."""
    told = {"regression": client.row["regressed_metric"] is not None, "leak": bool(client.row["foreign_chunks"])}
    return [
        {"trouble": TROUBLES[trouble_of(each)], "reason": reason(each), "since": minute(each.opened_at)}
        for each in client.incidents
        if not told.get(each.kind, False)
    ]


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
        "metrics": [figure.metric_id for figure in contents.figures],
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
    precision = f"{prefix}precision_at_{k}"
    answers = [each.metric_id for each in contents.first if not each.metric_id.startswith("retrieval.")]
    answers = answers or ["overlap.faithfulness", "overlap.answer_correctness"]
    found = []
    for title, ids in (
        ("Retrieval over time", [precision, f"{prefix}recall_at_{k}", f"{prefix}mrr"]),
        ("Answers over time", answers[:4]),
    ):
        series = {metric_name(name): trends[name] for name in ids if name in trends}
        ceiling = contents.report.summaries[precision].ceiling if precision in trends and precision in ids else None
        if ceiling is not None:
            series[f"ceiling of precision ({number(ceiling)})"] = [(moment, ceiling) for moment, _ in trends[precision]]
        if chart := trend_chart(title, series):
            found.append((title, chart, list(series)))
    return found


def _ceiling(contents: EvaluationContents) -> str | None:
    """Why precision cannot reach 1, where it cannot."""
    k = contents.evaluation.k
    precision = contents.report.summaries.get(f"{contents.report.prefix}precision_at_{k}")
    if precision is None or precision.ceiling is None or precision.ceiling >= 1:
        return None
    return (
        f"The ceiling of {metric_name(precision.metric_id)}, {number(precision.ceiling)}, is what perfect retrieval "
        f"would reach: questions have fewer than {k} relevant {contents.report.level}s, so that others fill the list. "
        "Another k, dataset or evidence has another ceiling: compare precision with its ceiling, not with 1."
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
        "score": number,
        "seen_from": seen_from,
        "signed": signed,
        "percent": lambda share: "0%" if share is None else f"{math.floor(share * 100 + 0.5)}%",
        "moment": minute,
        "metric_name": metric_name,
        "shortened": lambda text: text if len(text) <= 60 else f"{text[:59]}…",
    }
    environment.globals |= {
        "plural": plural,
        "interval": interval,
        "shell": shlex.quote,
        "newly_failing": newly_failing,
    }
    return environment


@cache
def _source(name: str) -> str:
    return (_TEMPLATES / name).read_text(encoding="utf-8")
