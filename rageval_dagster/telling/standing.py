"""How clients stand, worst first: what is wrong with each, in words that the terminal and the page of all share."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rageval_dagster.evaluation.verdict import too_many_errors
from rageval_dagster.gate.causes import GONE
from rageval_dagster.settings import Settings
from rageval_dagster.storage.comparisons import Change
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.incidents import Incident, Kind
from rageval_dagster.storage.standing import newest_changes
from rageval_dagster.telling.alarms import is_failed_run
from rageval_dagster.telling.verdicts import TONES, Tone

Trouble = Literal[
    "leak",
    "regression",
    "failed",
    "errors",
    "failed_run",
    "benchmark",
    "lost_evidence",
    "changed_answers",
    "judge_drift",
    "stale",
]

TROUBLES: dict[Trouble, str] = {
    "leak": "leak",
    "regression": "regressed",
    "failed": "system failed",
    "errors": "not scored",
    "failed_run": "failed run",
    "benchmark": "benchmark fails",
    "lost_evidence": "documents or parts missing",
    "changed_answers": "answers changed",
    "judge_drift": "judge changed",
    "stale": "out of date",
}
"""What may be wrong with a client, in a word, the gravest first."""


@dataclass(frozen=True)
class Standing:
    """A client: its row of fleet_overview, its open incidents, and what is wrong with it, the gravest first.

    `gone` is what its documents lost that no incident is about, with the evaluation that found it; `lately` is how many
    questions newly fail that did not in the evaluation before. The metric's change is against the baseline where that
    regressed, None where that is unclear, else since the evaluation before. No metric of the gate shows that answers
    changed, and none is known of a run that failed.
    """

    row: Mapping[str, Any]
    incidents: Sequence[Incident]
    troubles: Sequence[Trouble]
    verdict: str
    gone: tuple[int, Change] | None = None
    lately: int = 0

    @property
    def gravity(self) -> int:
        """Where it stands in a list, worst first: leaks and regressions, other troubles, doubts, none."""
        if self.troubles:
            return 0 if self.troubles[0] in ("leak", "regression") else 1
        return 2 if self.is_doubtful else 3

    @property
    def is_doubtful(self) -> bool:
        """Whether nothing is surely wrong, but a metric may have fallen, or a question lately began to fail or lost its
        evidence."""
        lost = self.gone is not None and self.gone[1].worse
        return not self.troubles and bool(self.row["verdict"] == "unclear" or self.lately or lost)

    @property
    def metric(self) -> tuple[str | None, float | None, float | None]:
        """The metric to look at, its mean, and its change."""
        row = self.row
        if self.troubles[:1] in (["changed_answers"], ["failed_run"]):
            return None, None, None
        if row["regressed_metric"] is not None:
            return row["regressed_metric"], row["regressed_mean"], -row["regressed_by"]
        # Since the run before, a metric may have risen that is unclear against the baseline.
        return row["worst_metric"], row["worst_mean"], None if row["verdict"] == "unclear" else row["worst_delta"]


def gone_of_clients(db: Database, settings: Settings, client_id: str | None = None) -> dict[str, tuple[int, Change]]:
    """{client: (evaluation, what it lost)} where that does not decide its verdict; of several the one by which most
    questions lost their evidence. Systems that the settings no longer name do not count."""
    found: dict[str, tuple[int, Change]] = {}
    for client, evaluation_id, system, changes in newest_changes(db, client_id):
        for change in changes:
            if change.what == GONE and system in settings.for_client_or_default(client).system:
                known = found.get(client)
                if known is None or (change.worse or 0) > (known[1].worse or 0):
                    found[client] = evaluation_id, change
    return found


def client_standings(
    overview: Sequence[Mapping[str, Any]],
    incidents: Sequence[Incident],
    settings: Settings,
    gone: Mapping[str, tuple[int, Change]],
    lately: Mapping[str, int],
) -> list[Standing]:
    """The clients of fleet_overview, worst first, see `Standing.gravity`.

    Args:
        gone: of `gone_of_clients`.
        lately: of `lately_failing`.
    """
    evaluated = {row["client_id"]: row["evaluated_at"] for row in overview}
    of_client: dict[str, list[Incident]] = defaultdict(list)
    for each in incidents:
        if each.kind != "failed_run" or is_failed_run(each, evaluated.get(each.client_id)):
            of_client[each.client_id].append(each)
    found = []
    for row in overview:
        opened, allowed = of_client[row["client_id"]], settings.for_client_or_default(row["client_id"]).max_error_share
        troubles = troubles_of_client(row, {each.kind for each in opened}, allowed)
        tone = tone_of_client(row, allowed)
        calm = TONES[tone] if tone is not None else "not judged" if row["evaluations"] else "not evaluated"
        said = ", ".join(TROUBLES[each] for each in troubles) or calm
        client_id = row["client_id"]
        found.append(Standing(row, opened, troubles, said, gone.get(client_id), lately.get(client_id, 0)))
    return sorted(found, key=lambda each: each.gravity)


def tone_of_client(row: Mapping[str, Any], max_error_share: float) -> Tone | None:
    """What a row of fleet_overview says of its client; None where nothing was judged."""
    if row["regressed_metric"] is None and too_many_errors(row["errors"] or 0, row["items"] or 0, max_error_share):
        return "failed"
    tones: dict[str | None, Tone] = {
        "passed": "same",
        "first": "first",
        "regressed": "worse",
        "unclear": "unclear",
        "failed": "failed",
    }
    return tones.get(row["verdict"])


def troubles_of_client(row: Mapping[str, Any], kinds: Collection[Kind], max_error_share: float) -> list[Trouble]:
    """What is wrong with a client, the gravest first: by its row of fleet_overview and the kinds of its open incidents.

    Of leaks and regressions the newest evaluation knows more than an incident that nobody has looked at since; where
    it cannot tell, the incident stands.
    """
    failed = too_many_errors(row["errors"] or 0, row["items"] or 0, max_error_share)
    regressed = tone_of_client(row, max_error_share) == "worse"
    found: dict[Trouble, bool] = {
        "leak": bool(row["foreign_chunks"]) or ("leak" in kinds and row["foreign_chunks"] is None),
        "regression": regressed or ("regression" in kinds and row["verdict"] not in ("passed", "first")),
        "failed": failed,
        "errors": "errors" in kinds and not failed,
        "failed_run": "failed_run" in kinds,
        "benchmark": "benchmark" in kinds,
        "lost_evidence": "lost_evidence" in kinds,
        "changed_answers": "changed_answers" in kinds,
        "judge_drift": "judge_drift" in kinds,
        "stale": "stale" in kinds,
    }
    return [trouble for trouble in TROUBLES if found[trouble]]


def trouble_of(incident: Incident) -> Trouble:
    """What an incident is called: where the system failed, no metric could be scored, and none is named."""
    return "failed" if incident.kind == "errors" and not incident.details["metrics"] else incident.kind
