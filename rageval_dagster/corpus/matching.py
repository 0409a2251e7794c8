"""What an external system returned, matched to the client's chunks by id and by content: whose it is, and which."""

from collections.abc import Sequence
from dataclasses import dataclass

from rageval_dagster.corpus.evidence import Resolution
from rageval_dagster.corpus.store import ChromaStore
from rageval_dagster.records import Hit, Item
from rageval_dagster.storage.database import Database


@dataclass(frozen=True)
class Placed:
    """Hits as chunks of the store, and what is relevant among them."""

    hits: tuple[Hit, ...] | None
    resolution: Resolution


def place_hits(
    db: Database,
    store: ChromaStore,
    client_id: str,
    asked: Sequence[tuple[Item, Resolution, tuple[Hit, ...] | None]],
) -> list[Placed]:
    raise NotImplementedError
