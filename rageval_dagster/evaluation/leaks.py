"""Chunks that a system returned and that are not the client's: another client's are a leak, nobody's unknown."""

from collections.abc import Sequence
from dataclasses import dataclass

from rageval_dagster.records import Owner
from rageval_dagster.storage import evaluations as evaluation_storage
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.evaluations import Evaluation


@dataclass(frozen=True)
class Stray:
    """A chunk that a system returned for a question although it is not the client's; ids only."""

    evaluation_id: int
    item_id: str
    chunk_id: str


def stray_chunks(db: Database, evaluations: Sequence[Evaluation], owner: Owner) -> list[Stray]:
    """The chunks of these evaluations that are `foreign`, or `unknown`, each once a question."""
    found: dict[Stray, None] = {}
    for evaluation in evaluations:
        for item_id, retrieval in evaluation_storage.load_retrievals(db, evaluation.id).items():
            for hit in retrieval.hits or ():
                if hit.owner == owner:
                    found[Stray(evaluation.id, item_id, hit.chunk_id)] = None
    return list(found)
