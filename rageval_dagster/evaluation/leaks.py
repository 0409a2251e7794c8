"""Chunks that a system returned and that are not the client's: another client's are a leak, nobody's unknown."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rageval_dagster.identity import digest
from rageval_dagster.records import Owner, Result
from rageval_dagster.storage import results as result_storage
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.evaluations import Evaluation
from rageval_dagster.text import plural

LONGEST_ID = 200
"""Characters of an id that is shown as it is."""


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
        for item_id, retrieval in result_storage.load_retrievals(db, evaluation.id).items():
            for hit in retrieval.hits or ():
                if hit.owner == owner:
                    found[Stray(evaluation.id, item_id, _name(hit.chunk_id))] = None
    return list(found)


def stray_count(results: Iterable[Result], owner: Owner) -> int | None:
    """How many chunks of these results are `foreign`, or `unknown`; None where no system tells what it retrieved."""
    told = [result for result in results if result.tells_contexts]
    return len({_name(hit.chunk_id) for result in told for hit in result.hits if hit.owner == owner}) if told else None


def chunks_of_others(count: int) -> str:
    """`1 chunk of another client`, `3 chunks of other clients`."""
    return f"{plural(count, 'chunk')} of {'another client' if count == 1 else 'other clients'}"


def _name(chunk_id: str) -> str:
    """The id, or where it is so long that the system may have given a text for it, what stands for it."""
    return chunk_id if len(chunk_id) <= LONGEST_ID else f"id:{digest(chunk_id)[:16]}"
