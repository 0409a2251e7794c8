"""What a client's corpus is now, and whether this state of it was evaluated before."""

from collections.abc import Sequence
from dataclasses import dataclass

from rageval_dagster.corpus.scanning import ScanReport, scan_corpus
from rageval_dagster.corpus.store import ChromaStore
from rageval_dagster.records import Progress
from rageval_dagster.storage import benchmark as benchmark_storage
from rageval_dagster.storage import clients as client_storage
from rageval_dagster.storage import evaluations as evaluation_storage
from rageval_dagster.storage.benchmark import Dataset
from rageval_dagster.storage.database import Database


@dataclass(frozen=True)
class CorpusState:
    """A scan's findings; `evaluated` is whether this very state is the one that was evaluated last."""

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
            "redacted": self.scan.redacted,
        }


def scan_client(
    db: Database, store: ChromaStore, client_id: str, systems: Sequence[str], progress: Progress | None = None
) -> CorpusState:
    """Scans a client's chunks, brings the manifest up to date, and tells the sensor how far this scan has seen.

    A change that the sensor has not counted yet is counted here: should this run fail, or not evaluate, it stays
    outstanding.

    Raises:
        StoreError: if the store does not answer or does not know the client.
    """
    # The probe of before the scan: what changes while it runs is seen by the next tick.
    client_storage.observe_probe(db, client_id, store.probe(client_id))
    scan = scan_corpus(db, store, client_id, progress)
    return CorpusState(scan, evaluated=note_evaluated(db, client_id, systems))


def note_evaluated(db: Database, client_id: str, systems: Sequence[str]) -> bool:
    """Marks the changes that the client's last scan has seen as evaluated, if they are; returns whether they are.

    They are where the newest finished evaluation of each current dataset by each of `systems`, those that are evaluated
    by default, saw the corpus and the index as they were scanned. One of a single dataset does not stand for that.
    """
    client = client_storage.get_client(db, client_id)
    datasets = benchmark_storage.current_datasets(db, client_id)
    evaluated = bool(datasets) and all(
        _saw(db, dataset, system, client.corpus_version, client.index_version)
        for dataset in datasets
        for system in systems
    )
    if evaluated:
        client_storage.mark_evaluated(db, client_id, client.scanned_seq)
    return evaluated


def _saw(db: Database, dataset: Dataset, system: str, corpus: str | None, index: str | None) -> bool:
    complete = evaluation_storage.list_evaluations(db, dataset.client_id, dataset.id, status="complete")
    newest = next((evaluation for evaluation in complete if evaluation.system == system), None)
    return newest is not None and newest.judged and (newest.versions.corpus, newest.versions.index) == (corpus, index)
