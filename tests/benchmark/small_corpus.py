"""A client's chunks with made-up vectors in embedded Chroma, and questions about them that no generator wrote."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rageval_dagster.benchmark.due import BenchmarkSpec
from rageval_dagster.corpus.store import ChromaStore, open_store
from rageval_dagster.evaluation.changes import scan_client
from rageval_dagster.records import Candidate, Chunk, Evidence, Item
from rageval_dagster.settings import Settings, load_settings
from rageval_dagster.storage.benchmark import Dataset, current_datasets, save_candidates, save_dataset
from rageval_dagster.storage.clients import get_client
from rageval_dagster.storage.database import Database

SPEC = BenchmarkSpec("synthetic", 10, None, "rules 1", 7, automatic=True, target=25)
DIMENSION = 8


def chunk(number: int, text: str = "") -> Chunk:
    return Chunk(f"c{number}", text or f"The harbour {number} was opened in {1801 + number}.", f"{number}.md")


def asked(about: Chunk) -> Item:
    """A question with the chunk's text as its quote."""
    return Item(f"When did {about.id} open?", (about.text[-5:-1],), (Evidence(about.document_id, None, about.text),))


@dataclass
class SmallCorpus:
    """The chunks of client `acme`, and what the database knows of them."""

    db: Database
    settings: Settings

    @classmethod
    def in_folder(cls, db: Database, folder: Path) -> "SmallCorpus":
        settings = load_settings({"RAGEVAL_HOME": str(folder / "home")}, env_file=folder / "none.env")
        settings.ensure_home()
        open_store(settings).ensure_client("acme")
        return cls(db, settings)

    @property
    def store(self) -> ChromaStore:
        """As it is now."""
        return open_store(self.settings)

    def hold(self, *chunks: Chunk, directions: Sequence[int] = ()) -> None:
        """Makes these the client's only chunks, each with a vector near one of the axes, and scans them."""
        store = self.store
        store.delete("acme", [each.id for page in store.scan("acme") for each in page.chunks])
        vectors = np.full((len(chunks), DIMENSION), 0.01, dtype=np.float32)
        for row in range(len(chunks)):
            vectors[row, directions[row] if directions else row % DIMENSION] = 1
            vectors[row, row % DIMENSION] += 0.01
        metadatas = [
            {"document_id": each.document_id, "position": each.position or 0} if each.has_document else {"n": 1}
            for each in chunks
        ]
        store.upsert("acme", chunks, vectors, metadatas)
        scan_client(self.db, self.store, "acme", ["dense"])

    def generated(self, items: Sequence[Item], about: Sequence[Chunk] = (), **stats: Any) -> Dataset:
        """Items as a generated dataset with their candidates, those of `about` made from these chunks."""
        keys = [each.content_key for each in about] or [f"key {number}" for number in range(len(items))]
        made = [Candidate(key, SPEC.generator, 0, "accepted", item) for key, item in zip(keys, items, strict=True)]
        save_candidates(self.db, "acme", made)
        noted = {
            "generator": SPEC.generator,
            "sample_size": SPEC.size,
            "strategy": "random",
            "shares": None,
            "corpus_version": get_client(self.db, "acme").corpus_version,
        }
        return self._saved(SPEC.name, "generated", items, noted | stats)

    def imported(self, items: Sequence[Item], **stats: Any) -> Dataset:
        return self._saved("own", "imported", items, stats)

    def _saved(self, name: str, kind: Any, items: Sequence[Item], stats: dict[str, Any]) -> Dataset:
        return save_dataset(self.db, "acme", name, kind, items, "a test", None, True, {}, stats)

    def dataset(self, name: str) -> Dataset:
        [dataset] = [each for each in current_datasets(self.db, "acme") if each.name == name]
        return dataset
