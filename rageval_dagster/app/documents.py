"""A client's documents: loaded into the document store, or noted as changed there by somebody else."""

from contextlib import nullcontext
from pathlib import Path

from rageval_dagster.app.clients import meant_instead
from rageval_dagster.app.opening import Tell, untold
from rageval_dagster.corpus.ingest import IngestReport, Progress
from rageval_dagster.corpus.ingest import ingest as load
from rageval_dagster.corpus.store import open_store
from rageval_dagster.embedding.models import load_embedder
from rageval_dagster.errors import RagevalError
from rageval_dagster.settings import Settings
from rageval_dagster.storage.clients import ensure_client, get_client, list_clients, observe_probe
from rageval_dagster.storage.clients import notify as note
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.forgetting import left_alone
from rageval_dagster.storage.leases import WAIT_S, keep_lease, lease_holder


def ingest(
    settings: Settings,
    db: Database,
    client: str,
    path: Path,
    chunk_size: int = 800,
    overlap: int = 120,
    embed_again: bool = False,
    progress: Progress | None = None,
    tell: Tell = untold,
) -> tuple[IngestReport, str | None]:
    """Loads documents, see `corpus.ingest`, and counts what it changed, so that the sensor need not find out.

    The lease keeps the sensor from taking a half-loaded corpus for a change. A client gets its row in the history only
    once it has documents: what is refused leaves nothing behind. Where a run works on the client, it is waited for, and
    `tell` is told so.

    Returns:
        What the ingestion did, and the known client that may be meant where a new one was made.

    Raises:
        LeaseHeldError: somebody works on the client for longer than `WAIT_S`.
    """
    meant = meant_instead(settings, db, client)
    own = settings.for_client(client)
    embedder = load_embedder(own.embedding_model, own)
    known = client in {row.client_id for row in list_clients(db)}
    with keep_lease(db, client, lease_holder("ingest"), wait_s=WAIT_S, waiting=tell) if known else nullcontext():
        report = load(
            path,
            client,
            open_store(settings),
            embedder,
            chunk_size=chunk_size,
            overlap=overlap,
            progress=progress,
            embed_again=embed_again,
            warn=lambda said: tell(f"warning: {said}"),
            keep_out=[settings.home, settings.report_dir],
        )
    if report.added or report.removed:
        ensure_client(db, client)
        # The probe of a server is its number of chunks, which may be as before: what was told is counted, too.
        note(db, client)
        observe_probe(db, client, open_store(settings).probe(client), get_client(db, client).notified_at)
    return report, meant if report.added else None


def notify(settings: Settings, db: Database, client: str) -> tuple[bool, bool]:
    """Notes that somebody changed a client's documents; the document store is asked only about an unknown client.

    Returns:
        Whether the evaluation is enabled, without which nothing comes of it; and whether the store did not have the
        client when it was looked at last.

    Raises:
        RagevalError: there is no such client, or it was forgotten.
        StoreError: the store, which alone may know the client, does not answer.
    """
    known = next((each for each in list_clients(db) if each.client_id == client), None)
    enabled = settings.enabled and settings.for_client(client).enabled
    if known is None:
        if left_alone(db, [client]):
            raise RagevalError(
                f"client {client!r} was forgotten and is left alone; to evaluate it again: rageval evaluate --client "
                f"{client}"
            )
        open_store(settings).probe(client)  # says so where the store does not know the client
    note(db, client)
    return enabled, known is not None and known.vanished_at is not None
