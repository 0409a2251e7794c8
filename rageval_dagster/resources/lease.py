"""One run at a time per client: the lease in the history database, held while a run's process works."""

from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg

from rageval_dagster.resources.database import HistoryDatabase

WAIT_S = 60.0
"""How long a run waits for another one of the same client, or for an ingestion, to end."""


class ClientLease(dg.ConfigurableResource):
    """Held from the first asset that needs it to the end of the run's process, with a heartbeat.

    Runs from the UI, the daemon and the command line all take it. The holder's name tells host and process, so that
    the lease of a process killed on this host is taken over at once, and any other's when it expires.
    """

    database: dg.ResourceDependency[HistoryDatabase]

    @contextmanager
    def yield_for_execution(self, context: dg.InitResourceContext) -> Iterator["ClientLease"]:
        client_id = context.run.tags.get("dagster/partition") if context.run is not None else None
        if client_id is None:
            yield self
            return
        from rageval_dagster.storage.clients import ensure_client, keep_lease, lease_holder

        db = self.database.open()
        ensure_client(db, client_id)
        with keep_lease(db, client_id, lease_holder(f"run {context.run_id}"), wait_s=WAIT_S):
            yield self
