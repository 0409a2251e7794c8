"""The frame of the checks of a client's newest evaluations: what Dagster is told of them, and what they look at."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import dagster as dg

from rageval_dagster.assets.partitions import clients_partitions
from rageval_dagster.settings import Settings
from rageval_dagster.storage.database import Database

if TYPE_CHECKING:
    from rageval_dagster.evaluation.summary import EvaluationReport
    from rageval_dagster.gate.decision import Judged


@dataclass(frozen=True)
class Newest:
    """A client's newest evaluations, read once for all checks; the settings are those of the run for this client."""

    db: Database
    client_id: str
    settings: Settings

    @cached_property
    def reports(self) -> "list[EvaluationReport]":
        from rageval_dagster.evaluation.summary import reports_of

        return reports_of(self.db, self.client_id)

    @cached_property
    def judged(self) -> "list[Judged]":
        from rageval_dagster.gate.decision import judged_newest

        return judged_newest(self.db, self.client_id)


Body = Callable[[Newest], dg.AssetCheckResult]


@dataclass(frozen=True)
class EvaluationCheck:
    """A check as Dagster knows it, and how its outcome is found."""

    spec: dg.AssetCheckSpec
    body: Body


def evaluation_check(name: str | None = None, description: str | None = None) -> Callable[[Body], EvaluationCheck]:
    """Decorates the body of a check, whose name and words are the check's where nothing else is given."""

    def decorate(body: Body) -> EvaluationCheck:
        spec = dg.AssetCheckSpec(
            name or body.__name__,
            asset="evaluation_runs",
            description=description or inspect.getdoc(body),
            partitions_def=clients_partitions,
        )
        return EvaluationCheck(spec, body)

    return decorate
