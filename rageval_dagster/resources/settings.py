"""The settings of a run, as they were when it was asked for."""

from collections.abc import Mapping
from typing import Any

import dagster as dg
from pydantic import PrivateAttr

from rageval_dagster.resources.database import HistoryDatabase
from rageval_dagster.settings import Settings, load_settings

PLAN = "rageval_plan"
"""The key of the resource EvaluationPlan, by which a run's configuration names it."""


class RunSettings(dg.ConfigurableResource):
    """What holds for a run: of its client what was kept when it was asked for, whatever rageval.toml says since.

    A run that nobody asked for ahead (the launchpad's) is asked for as it starts.
    """

    database: dg.ResourceDependency[HistoryDatabase]

    _key: str | None = PrivateAttr(default=None)
    _trigger: str = PrivateAttr(default="")
    _plan: Mapping[str, Any] = PrivateAttr(default={})
    _own: Settings | None = PrivateAttr(default=None)

    def setup_for_execution(self, context: dg.InitResourceContext) -> None:
        run, self._own = context.run, None
        if run is None:
            return
        config: Mapping[str, Any] = run.run_config
        plan = config.get("resources", {}).get(PLAN, {}).get("config", {})
        # A run re-executed from failure keeps its first run's trigger, and so resumes that evaluation.
        self._trigger = plan.get("trigger") or f"run:{run.root_run_id or run.run_id}"
        self._plan = {name: value for name, value in plan.items() if name != "trigger"}
        self._key = run.tags.get("dagster/partition")
        if self._key is not None:
            self._freeze(load_settings(), self.database.client_of(self._key))

    @property
    def trigger(self) -> str:
        """What the run's evaluations are known by."""
        return self._trigger

    def read(self) -> Settings:
        """The settings of the run's client, which `for_client` gives, too; outside of such a run those of all.

        They are read once a run.
        """
        if self._own is not None:
            return self._own
        settings = load_settings()
        if self._key is None:
            return settings
        from rageval_dagster.storage.run_requests import requested

        client_id = self.database.client_of(self._key)
        kept = requested(self.database.open(), settings, client_id, self._trigger)
        if kept is None:  # where they were wrong as it was asked for
            self._freeze(settings, client_id)
            kept = requested(self.database.open(), settings, client_id, self._trigger)
        self._own = settings.for_client(client_id) if kept is None else kept[0]
        return self._own

    def _freeze(self, settings: Settings, client_id: str) -> None:
        from rageval_dagster.storage.run_requests import freeze

        freeze(self.database.open(), settings, {client_id: self._trigger}, self._plan)
