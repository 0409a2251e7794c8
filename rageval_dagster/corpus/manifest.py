"""What the last scan found, small enough to be held in memory: whether a chunk is as it was then, and what left."""

from array import array
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import itemgetter
from typing import TYPE_CHECKING

from rageval_dagster.storage.corpus import ManifestEntry, absent_documents, iter_contents, iter_words_beside
from rageval_dagster.storage.database import Database

if TYPE_CHECKING:
    import numpy as np

_PREFIX = 16
"""Hex digits of a chunk's key that are held."""


def fingerprint(
    chunk_key: str,
    document_id: str,
    page: int | None,
    position: int | None,
    text_hash: str,
    vector_hash: str | None,
    added_at: datetime | None,
    title: str | None,
) -> int:
    """Equal for equal values, within this process only."""
    return hash((chunk_key, document_id, page, position, text_hash, vector_hash, added_at, title))


class Manifest:
    """A client's manifest as a scan finds it, 17 bytes a chunk, and which of its chunks the scan has seen.

    A look-up in SQL for every chunk takes as long as reading them.
    """

    def __init__(self, db: Database, client_id: str) -> None:
        import numpy as np

        keys, prints = array("Q"), array("q")
        for rows in iter_contents(db, client_id):  # in the order of the keys
            keys.extend(int(row[0][:_PREFIX], 16) for row in rows)
            prints.extend(hash(tuple(row)) for row in rows)
        self._keys = np.frombuffer(keys, dtype=np.uint64) if keys else np.empty(0, dtype=np.uint64)
        self._prints = np.frombuffer(prints, dtype=np.int64) if prints else np.empty(0, dtype=np.int64)
        self._seen = np.zeros(len(keys), dtype=bool)

    def look(self, chunk_keys: Sequence[str], fingerprints: Sequence[int]) -> tuple[list[int], list[int]]:
        """The places in `chunk_keys` of the chunks that are not as they were: (perhaps changed, surely new).

        All of them count as seen.
        """
        import numpy as np

        at, known = self._find(chunk_keys)
        self._seen[at[known]] = True
        changed = known.copy()
        changed[known] = self._prints[at[known]] != np.array(fingerprints, dtype=np.int64)[known]
        return np.flatnonzero(changed).tolist(), np.flatnonzero(~known).tolist()

    @property
    def all_seen(self) -> bool:
        return bool(self._seen.all())

    def unseen(self, chunk_keys: Sequence[str]) -> list[int]:
        """The places in `chunk_keys` of the chunks that were known and have not been seen."""
        import numpy as np

        at, known = self._find(chunk_keys)
        known[known] = ~self._seen[at[known]]
        return np.flatnonzero(known).tolist()

    def _find(self, chunk_keys: Sequence[str]) -> "tuple[np.ndarray, np.ndarray]":
        """Where each chunk is held, and whether it is."""
        import numpy as np

        keys = np.array([int(key[:_PREFIX], 16) for key in chunk_keys], dtype=np.uint64)
        at = np.searchsorted(self._keys, keys)
        known = at < len(self._keys)
        known[known] = self._keys[at[known]] == keys[known]
        return at, known


@dataclass
class _Words:
    """What tells a document's text, in whatever order its passages come: how many, the sum of their hashes, and one."""

    count: int = 0
    total: int = 0
    example: str = ""

    @property
    def text(self) -> tuple[int, int]:
        """Equal of two documents that have the same passages."""
        return self.count, self.total

    def add(self, words_hash: str) -> None:
        self.count += 1
        self.total += int(words_hash, 16)
        # The highest: the first is more often one that many documents have, such as a cover page.
        self.example = max(self.example, words_hash)


class Leaving:
    """The passages that leave their documents in a scan, and so which documents went on under another id."""

    def __init__(self, db: Database, client_id: str) -> None:
        self._db = db
        self._client_id = client_id
        self._words: defaultdict[str, _Words] = defaultdict(_Words)

    def add(self, entries: Iterable[ManifestEntry]) -> None:
        """Passages as the scan before found them. Those whose document the store does not name belong to none."""
        for entry in entries:
            if entry.document_id != entry.chunk_id:
                self._words[entry.document_id].add(entry.words_hash)

    def moved(self) -> dict[str, str]:
        """{document that is gone: the one that has all its words and no others}, once the manifest is up to date."""
        gone = absent_documents(self._db, self._client_id, self._words)
        present: defaultdict[str, _Words] = defaultdict(_Words)
        examples = {self._words[document_id].example for document_id in gone}
        for document_id, words_hash in iter_words_beside(self._db, self._client_id, examples):
            present[document_id].add(words_hash)
        new = {
            words.text: document_id for document_id, words in sorted(present.items(), key=itemgetter(0), reverse=True)
        }
        texts = {document_id: self._words[document_id].text for document_id in gone}
        return {document_id: new[text] for document_id, text in texts.items() if text in new}
