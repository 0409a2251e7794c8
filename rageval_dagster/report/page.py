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

from markupsafe import Markup, escape

from rageval_dagster.evaluation.leaks import passages_of_others
from rageval_dagster.gate.spec import seen_from
from rageval_dagster.report.charts import Points, sparkline
from rageval_dagster.report.contents import ClientContents, EvaluationContents
from rageval_dagster.report.questions import QUADRANTS
from rageval_dagster.telling.links import report_file
from rageval_dagster.telling.reasons import plain_reason
from rageval_dagster.telling.standing import TROUBLES, Standing, Trouble, trouble_of
from rageval_dagster.telling.verdicts import (
    TONES,
    Tone,
    Verdict,
    failed_on,
    newly_turned,
    questions_moved,
    what_changed,
)
from rageval_dagster.telling.words import STAND_IN, VERSIONS, capitalised, interval, metric_name, minute, number, signed
from rageval_dagster.text import TURNS_DIRECTION, plural

_TEMPLATES = Path(__file__).parent / "templates"
_SAID: dict[Trouble, str] = {
    "leak": "Returned passages of other clients",
    "regression": "Got worse",
    "failed": "System failed",
    "errors": "Could not be scored",
    "failed_run": "Last run failed",
    "benchmark": "Benchmark breaks its rules",
    "lost_evidence": "Documents or parts of them are missing",
    "changed_answers": "Answers changed, and no judge model reads them",
    "judge_drift": "Judge changed",
    "stale": "Not evaluated for too long",
}
"""What the page of all clients says of those with a trouble; in the order in which it tells them."""
MOST_CLIENTS = 5
"""So many are named of each trouble; the others stand in the table below."""
_ANSWERS: dict[Tone, str] = {
    "worse": "Do not ship",
    "failed": "Do not ship",
    "unclear": "Unclear",
    "first": "Nothing to compare with yet",
    "same": "May ship: no drop proven",
    "better": "May ship: it got better",
    "unmeasured": "Cannot tell",
}
"""May it ship?"""
_MISSING = "Unclear: documents or parts of them are missing"
_IF_MEANT = "May ship, if the documents were meant to change"
_TOO_FEW = "No clear drop, but too few questions to be sure"
_LARGE_ONLY = "No large drop seen; with so few questions, a smaller one can stay unseen"
_ORIGINS = {"extractive": "written by rules", "llm": "written by a model"}

_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def client_page(contents: ClientContents, redacted: bool = False, fleet: str | None = None) -> str:
    """A client's report. `fleet` is the address of the page of all clients, relative to this one."""
    return _rendered(
        "client",
        client=contents,
        redacted=redacted,
        fleet=fleet,
        answer=_answer,
        words={each.evaluation.id: _in_a_word(each) for each in contents.evaluations},
        versions=VERSIONS,
        quadrants=QUADRANTS,
        origins=_ORIGINS,
        stand_in=STAND_IN,
        names={row["id"]: row["q"] for each in contents.evaluations for row in each.questions.rows if "q" in row},
        ceilings={each.evaluation.id: _ceiling(each) for each in contents.evaluations},
        data={each.evaluation.id: packed(_data(each)) for each in contents.evaluations},
    )


def fleet_page(
    clients: Sequence[Standing], with_report: Collection[str] = (), trends: Mapping[str, Points] | None = None
) -> str:
    """The page of all clients, worst first; those `with_report`, by name, link to their pages in the same folder.

    `trends` are the last means of the metric that each client's row shows.
    """
    files = {name: report_file(name) for each in clients if (name := each.row["client_id"]) in with_report}

    def named(client: Standing) -> Markup:
        name = client.row["client_id"]
        return Markup('<a href="{}">{}</a>').format(files[name], name) if name in files else escape(name)

    concerned: dict[Trouble, list[Standing]] = {
        trouble: [each for each in clients if trouble in each.troubles] for trouble in _SAID
    }
    return _rendered(
        "fleet",
        clients=clients,
        files=files,
        named=named,
        reasons=_reasons,
        trends=trends or {},
        troubles=[(TROUBLES[trouble], _SAID[trouble], those) for trouble, those in concerned.items() if those],
        most_clients=MOST_CLIENTS,
        verdicts=sorted({said for each in clients for said in each.verdict.split(", ")}),
    )


def experiment_page(contents: Mapping[str, Any]) -> str:
    """The report of an experiment, of what `report.experiment.contents_of` gives."""
    return _rendered("experiment", experiment=contents)


def served_page(
    title: str,
    said: str = "",
    command: str = "",
    *,
    links: Sequence[tuple[str, str]] = (),
    form: str = "",
    form_token: str = "",
    after: str = "",
    from_elsewhere: bool = False,
) -> str:
    """A page that `rageval serve` shows beside the reports: a form, `login` or `logout`, or what is not there.

    `links` are addresses with what they lead to. `after` is the address to which the form leads. `from_elsewhere` is
    whether a link on another site led here.
    """
    return _rendered(
        "served",
        title=title,
        said=said,
        command=command,
        links=links,
        form=form,
        form_token=form_token,
        after=after,
        from_elsewhere=from_elsewhere,
    )


def label_page(kind: str, **values: Any) -> str:
    """A page where people label; `report.labelling` has the kinds and what each takes."""
    return _rendered("label", kind=kind, **values)


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


def _answer(verdict: Verdict, tone: Tone, if_meant: bool) -> str:
    """May it ship?

    Args:
        tone: of what is shown: a leak is `worse`.
        if_meant: whether documents are gone, and nothing else is wrong.
    """
    if if_meant:
        return _IF_MEANT
    if tone == "unclear" and verdict.lost_evidence is not None:
        return _MISSING
    if tone == "same" and verdict.shows_large_drops_only:
        return _LARGE_ONLY
    return _TOO_FEW if tone == "same" and not verdict.can_prove else _ANSWERS[tone]


def _in_a_word(contents: EvaluationContents) -> str:
    """What became of an evaluation: `leak`, `regressed`, `passed`."""
    return "leak" if contents.evaluation.foreign_chunks else TONES[contents.verdict.tone]


def _reasons(client: Standing) -> list[str]:
    """What is wrong with a client, in sentences: by its open incidents, and by what its newest evaluation says."""
    row, opened = client.row, {trouble_of(each): each for each in client.incidents}
    said = {trouble: plain_reason(each) for trouble, each in opened.items()}
    said = {"failed": f"{failed_on('The system', row['errors'], row['items'])}.", **said}
    if row["foreign_chunks"]:  # an incident is of one dataset
        said["leak"] = f"It returned {passages_of_others(row['foreign_chunks'])}."
    return [said[trouble] for trouble in client.troubles if trouble in said]


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


def _fate(row: Mapping[str, Any]) -> str:
    """What became of a question: where its evidence stands, and stood in the baseline; and whether it was declined."""
    if row.get("f"):
        return "the system failed"
    if row.get("lk"):
        return "another client's words came back"
    if row.get("u"):
        return "it has no answer and should be declined"
    ranks = [f"rank {row[name]}" if row[name] else "not found" for name in ("kb", "k") if name in row]
    found = [f"evidence: {' → '.join(dict.fromkeys(ranks))}"] if ranks else []
    return "; ".join([*found, *(["the answer declines"] if row.get("x") else [])])


def _ceiling(contents: EvaluationContents) -> str | None:
    """Why precision cannot reach 1, where it cannot."""
    k = contents.evaluation.k
    precision = contents.report.summaries.get(f"{contents.report.prefix}precision_at_{k}")
    if precision is None or precision.ceiling is None or precision.ceiling >= 1:
        return None
    return (
        f"Perfect retrieval would reach a {metric_name(precision.metric_id)} of {number(precision.ceiling)}, its "
        f"ceiling: most questions have fewer than {k} relevant {contents.report.level}s, so other passages fill the "
        "list. The good value is therefore a share of the ceiling. Another k, dataset or evidence has another ceiling."
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
        "shortened": lambda text, most: text if len(text) <= most else f"{text[: most - 1]}…",
        "spaced": lambda name: name.replace("_", " "),
        "day": lambda moment: f"{moment.day} {moment:%b}",
        "fate": _fate,
        "what_changed": lambda change: capitalised(what_changed([change])[0]),
    }
    environment.globals |= {
        "plural": plural,
        "interval": interval,
        "shell": shlex.quote,
        "newly_turned": newly_turned,
        "questions_moved": questions_moved,
        "sparkline": sparkline,
    }
    return environment


@cache
def _source(name: str) -> str:
    return (_TEMPLATES / name).read_text(encoding="utf-8")
