"""Incidents as messages that Slack shows: what happened, to whom, the numbers, what changed, and what to do next."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from rageval_dagster.storage.comparisons import Change
from rageval_dagster.storage.incidents import OVER, Incident, Kind
from rageval_dagster.telling.links import ReportLinks
from rageval_dagster.telling.reasons import mean, moment, plain_reason, reason
from rageval_dagster.telling.verdicts import newly_failing, what_changed
from rageval_dagster.telling.words import LONGEST_NAME, capitalised, one_line

LONGEST_DETAIL = 200
MOST_INCIDENTS = 20
MOST_CHANGES = 8
LONGEST_SECTION = 2_900
"""Characters; Slack takes 3,000 in a section."""

_OPENED: dict[Kind, str] = {
    "regression": "Regressed",
    "leak": "Leak: passages of other clients were returned",
    "errors": "Many questions failed",
    "benchmark": "A benchmark fails its rules",
    "failed_run": "A run failed",
    "lost_evidence": "Documents or parts of them are missing",
    "judge_drift": "The judge has changed",
    "changed_answers": "The answers changed, and no judge model reads them",
    "stale": "Not evaluated for too long",
}
_RECOVERED: dict[Kind, str] = {
    "regression": "Quality has recovered",
    "leak": "No more passages of other clients",
    "errors": "Questions no longer fail",
    "benchmark": "The benchmark passes its rules again",
    "failed_run": "Runs succeed again",
    "lost_evidence": "Documents and evidence are there again",
    "judge_drift": "The judge scores as before",
    "changed_answers": "The answers are as before",
    "stale": "Evaluated again",
}
BY_CLIENT: tuple[Kind, ...] = ("regression", "leak", "benchmark", "lost_evidence", "judge_drift", "changed_answers")
"""The kinds that have a message for each client; the others come in numbers, when something fails for all."""

_PLAIN_NAME = re.compile(r"[A-Za-z0-9][\w.-]*", re.ASCII)


def message(incidents: Sequence[Incident], links: ReportLinks) -> dict[str, Any]:
    """One message about incidents of one kind that were all opened, or all closed: Slack's blocks, and the same as text
    for who shows no blocks. Of a failed run it has the client's report, where `links` have an address for it."""
    shown = sorted(incidents, key=lambda each: (each.client_id, each.evaluation_id or 0, each.subject))
    kind, clients = shown[0].kind, list(dict.fromkeys(each.client_id for each in shown))
    if shown[0].phase == "opening":
        title = _OPENED[kind]
    elif all(each.details[OVER]["reason"] == "recovered" for each in shown):
        title = _RECOVERED[kind]
    else:
        title = f"Closed ({_OPENED[kind].lower()})"
    headline = f"*{title}: {_code(clients[0]) if len(clients) == 1 else f'{len(clients)} clients'}*"
    lines = [line for each in _in_groups(shown[:MOST_INCIDENTS]) for line in _lines(each, links)]
    if len(shown) > MOST_INCIDENTS:
        lines.append(f"and {len(shown) - MOST_INCIDENTS} more: {_code('rageval status')}")
    sections = list(_sections([headline, *lines]))
    return {"text": "\n".join(sections), "blocks": [_block(section) for section in sections], "unfurl_links": False}


def note(line: str) -> dict[str, Any]:
    """A message of one line of our own words."""
    return {"text": line, "blocks": [_block(line)], "unfurl_links": False}


def _block(section: str) -> dict[str, Any]:
    # Verbatim: no name becomes a link, a channel or a person.
    return {"type": "section", "text": {"type": "mrkdwn", "text": section, "verbatim": True}}


def _sections(lines: Sequence[str]) -> Iterator[str]:
    section = ""
    for line in lines:
        if section and len(section) + len(line) >= LONGEST_SECTION:
            yield section
            section = ""
        section += f"\n{line}" if section else line
    yield section


def _in_groups(incidents: Sequence[Incident]) -> Iterator[list[Incident]]:
    """Those of one evaluation or dataset together; of the kinds that come in numbers, all."""
    if incidents[0].kind not in BY_CLIENT:
        yield list(incidents)
        return
    for _, group in groupby(incidents, key=lambda each: (each.evaluation_id, each.details.get("dataset_id"))):
        yield list(group)


def _lines(incidents: Sequence[Incident], links: ReportLinks) -> Iterator[str]:
    first = incidents[0]
    for each in incidents:
        why = reason(each, _code) if each.phase == "opening" else _ended(each)
        if (each.kind, each.phase) == ("failed_run", "opening"):
            why = f"{_escaped(plain_reason(each), LONGEST_DETAIL)} Dagster run {_code(each.run_id or '')}"
            if page := links.client(each.client_id):
                why += f", <{page}|report>"
        yield f"• {_about(each)}: {why}"
    if first.phase == "closing":
        return
    if first.kind == "regression":
        yield from _explained(first.details)
    yield f"Next: {', '.join(map(_code, _next(incidents)))}"


def _about(incident: Incident) -> str:
    details = incident.details
    names = [details[name] for name in ("dataset", "system", "metric") if name in details]
    whose = [] if incident.kind in BY_CLIENT else [incident.client_id]
    return " / ".join(map(_code, [*whose, *names]))


def _explained(details: Mapping[str, Any]) -> Iterator[str]:
    for said in what_changed([Change(**change) for change in details["changes"][:MOST_CHANGES]]):
        yield _escaped(capitalised(said), LONGEST_DETAIL)
    if not details["changes"]:
        yield "Nothing that is versioned changed since the last good evaluation"
    if details["newly_failing"]:
        yield newly_failing(details["newly_failing"], details["asked_again"])


def _next(incidents: Sequence[Incident]) -> list[str]:
    """The commands that say more."""
    first = incidents[0]
    match first.kind:
        case "regression":
            return [f"rageval runs compare {first.details['baseline_id']} {first.evaluation_id}"]
        case "leak":
            return [f"rageval runs show {first.evaluation_id}"]
        case "lost_evidence" | "judge_drift" | "changed_answers":
            return [f"rageval runs {verb} {first.evaluation_id}" for verb in ("show", "accept")]
        case "errors":
            which = "rageval status" if len(incidents) > 1 else f"rageval runs show {first.evaluation_id}"
            return [which, "rageval doctor"]
        case "benchmark":
            return [f"rageval datasets show {first.details['dataset_id']}"]
        case "failed_run":
            return ["rageval doctor", f"rageval evaluate --client {_as_argument(incidents)}"]
        case "stale":
            return ["rageval doctor", "rageval status"]


def _as_argument(incidents: Sequence[Incident]) -> str:
    """The client's name, where there is one: since people paste it into a shell, only if nothing in it means something
    there."""
    [name, *others] = {each.client_id for each in incidents}
    return "NAME" if others or len(name) > LONGEST_NAME or not _PLAIN_NAME.fullmatch(name) else name


def _ended(incident: Incident) -> str:
    over = incident.details[OVER]
    evaluation = f"evaluation {over.get('evaluation_id')}"
    if over["reason"] == "accepted":
        return f"accepted as the new baseline ({evaluation})"
    if over["reason"] == "not_watched":
        return "no longer evaluated"
    match incident.kind:
        case "regression":
            return f"{mean(over['mean'])} in {evaluation}, baseline {mean(over['baseline_mean'])}"
        case "leak":
            return f"none in {evaluation}"
        case "lost_evidence" | "judge_drift" | "changed_answers":
            return f"in {evaluation}"
        case "errors":
            return f"no more than allowed in {evaluation}"
        case "benchmark":
            return f"dataset {over['dataset_id']}"
        case "failed_run":
            return f"Dagster run {_code(over['run_id'])}"
        case "stale":
            last = over["last_evaluated"]
            # More hours were allowed since, and no run was complete yet.
            wanted = f"no complete evaluation yet; one is expected every {over['fresh_hours']:g} h"
            return wanted if last == "never" else f"last complete evaluation {moment(last)}"


def _code(name: str) -> str:
    """A name as code, in which Slack sees no formatting."""
    return f"`{_escaped(name).replace('`', chr(39))}`"


def _escaped(text: str, longest: int = LONGEST_NAME) -> str:
    """Text of others on one line, cut, with Slack's three control characters escaped."""
    line = one_line(text, longest)
    return line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
