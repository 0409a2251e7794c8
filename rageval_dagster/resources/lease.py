"""One run at a time per client: the lease in the history database, held while a run's process works."""

from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg

from rageval_dagster.errors import LeaseHeldError
from rageval_dagster.resources.database import HistoryDatabase
from rageval_dagster.resources.tracing import run_span
from rageval_dagster.settings import load_settings

TEXT_WARNING = (
    "RAGEVAL_TEXT_IN_DAGSTER is true: messages of errors may bring texts of documents into Dagster's event log, from "
    "which they cannot be deleted client by client"
)


BUSY_TAG = "rageval/client_was_busy"
"""Of a run that began while another one worked on its client, and did nothing: no failure of the client's."""


@contextmanager
def _told_as_busy(instance: dg.DagsterInstance | None, run_id: str) -> Iterator[None]:
    try:
        yield
    except LeaseHeldError:
        if instance is not None:
            instance.add_run_tags(run_id, {BUSY_TAG: "true"})
        raise


def end_dead_run(instance: dg.DagsterInstance, run_id: str) -> dg.DagsterRun | None:
    """Tells Dagster of a run whose process died, or lost its lease, that it failed; gives it unless it ended before.

    Dagster's default launcher does not notice, nor does anybody for a run of the command line: the run would count as
    running, and keep every later one of the client in the queue.
    """
    run = instance.get_run_by_id(run_id)
    if run is None or run.is_finished:
        return None
    instance.report_run_failed(run, "the run's process died, or stood still until its lease was over")
    return run


class ClientLease(dg.ConfigurableResource):
    """Held from the first asset that needs it to the end of the run's process, with a heartbeat.

    Runs from the UI, the daemon and the command line all take it, on whatever machine. That of a process that was
    killed is taken over when it expires.
    """

    database: dg.ResourceDependency[HistoryDatabase]

    @contextmanager
    def yield_for_execution(self, context: dg.InitResourceContext) -> Iterator["ClientLease"]:
        if load_settings().text_in_dagster and context.log is not None:
            context.log.warning(TEXT_WARNING)
        key = context.run.tags.get("dagster/partition") if context.run is not None else None
        if key is None or context.run is None:
            yield self
            return
        from rageval_dagster.storage.clients import ensure_client
        from rageval_dagster.storage.leases import WAIT_S, keep_lease, lease_holder, run_of

        db, client_id = self.database.open(), self.database.client_of(key)
        ensure_client(db, client_id)
        log = context.log
        waiting = (lambda _: None) if log is None else log.warning
        with (
            _told_as_busy(context.instance, context.run.run_id),
            keep_lease(db, client_id, lease_holder(f"run {context.run_id}"), wait_s=WAIT_S, waiting=waiting) as lease,
        ):
            dead = run_of(lease.taken_from) if lease.taken_from else None
            if context.instance is not None and dead is not None:
                end_dead_run(context.instance, dead)
            with run_span(context.run, client_id):
                yield self
