"""What a client's corpus is now, and whether this state of it was evaluated before."""

from dataclasses import dataclass

from rageval_dagster.corpus.scanning import ScanReport, scan_corpus
from rageval_dagster.corpus.store import ChromaStore
from rageval_dagster.records import Progress
from rageval_dagster.storage import clients as client_storage
from rageval_dagster.storage import evaluations as evaluation_storage
from rageval_dagster.storage.database import Database


@dataclass(frozen=True)
class CorpusState:
    """A scan's findings; `evaluated` is whether the client's newest finished evaluation saw this very state."""

    scan: ScanReport
    evaluated: bool

    @property
    def data_version(self) -> str:
        return f"{self.scan.corpus_version[:16]}.{self.scan.index_version[:16]}"

    def metadata(self) -> dict[str, str | int]:
        return {
            "corpus_version": self.scan.corpus_version,
            "index_version": self.scan.index_version,
            "chunks": self.scan.chunk_count,
            "documents": self.scan.document_count,
            "added": self.scan.added,
            "changed": self.scan.changed,
            "removed": self.scan.removed,
            "re-embedded": self.scan.reembedded,
        }


def scan_client(db: Database, store: ChromaStore, client_id: str, progress: Progress | None = None) -> CorpusState:
    """Scans a client's chunks, brings the manifest up to date, and tells the sensor how far this scan has seen.

    Raises:
        StoreError: if the store does not answer or does not know the client.
    """
    # Taken before the scan: what changes while it runs is seen by the next tick.
    change_seq = client_storage.ensure_client(db, client_id).change_seq
    probe = store.probe(client_id)
    scan = scan_corpus(db, store, client_id, progress)
    client_storage.settle_probe(db, client_id, probe, change_seq)
    newest = evaluation_storage.list_evaluations(db, client_id=client_id, status="complete", limit=1)
    seen = (newest[0].versions.corpus, newest[0].versions.index) if newest else None
    evaluated = seen == (scan.corpus_version, scan.index_version)
    if evaluated:
        client_storage.mark_evaluated(db, client_id, change_seq)
    return CorpusState(scan, evaluated)
