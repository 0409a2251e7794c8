"""What a system returned that is not the client's: another client's words are a leak, nobody's chunks unknown."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from rageval_dagster.identity import digest
from rageval_dagster.records import Owner, Result
from rageval_dagster.storage import results as result_storage
from rageval_dagster.storage.clients import list_clients
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.evaluations import Evaluation
from rageval_dagster.storage.word_hashes import hash_key, holder_of
from rageval_dagster.text import plural

ANSWER = "answer"

_COUNTED: Mapping[Owner, frozenset[Owner]] = {
    "foreign": frozenset({"foreign"}),
    "unknown": frozenset({"unknown", "shared"}),
}

LONGEST_ID = 200
"""Characters of an id that is shown as it is."""


@dataclass(frozen=True)
class Stray:
    """What a system returned for a question although it is not the client's: the id of a chunk, or `answer`.

    `clients` are those whose words it holds, where that is known: not of what was found by an earlier version, and
    none that was forgotten since.
    """

    evaluation_id: int
    item_id: str
    chunk_id: str
    clients: tuple[str, ...] = ()


def stray_chunks(
    db: Database, evaluations: Sequence[Evaluation], owner: Owner, others: Callable[[], Iterable[str]] = tuple
) -> list[Stray]:
    """The chunks and answers of these evaluations that are `foreign`, or `unknown`, each once a question.

    What several clients hold, and this one does not, counts as unknown.

    Args:
        others: gives more clients that may have a name, such as those of the store that no scan has seen; asked only
            where the history knows none.
    """
    counted = _COUNTED[owner]
    found: dict[tuple[int, str, str, tuple[int, ...]], None] = {}
    for evaluation in evaluations:
        for item_id, retrieval in result_storage.load_retrievals(db, evaluation.id).items():
            for hit in retrieval.hits or ():
                if hit.owner in counted:
                    found[evaluation.id, item_id, _name(hit.chunk_id), hit.holders] = None
        for item_id, (whose, holders) in result_storage.answer_owners(db, evaluation.id).items():
            if whose in counted:
                found[evaluation.id, item_id, ANSWER, holders] = None
    if not found:
        return []
    key = hash_key(db)
    names = {holder_of(key, each.client_id): each.client_id for each in list_clients(db)}
    if not names.keys() >= {each for *_, holders in found for each in holders}:
        names |= {holder_of(key, each): each for each in others()}
    return [
        Stray(evaluation_id, item_id, what, tuple(sorted(names[each] for each in holders if each in names)))
        for evaluation_id, item_id, what, holders in found
    ]


def words_of(strays: Iterable[Stray]) -> list[str]:
    """The clients whose words came back, by name."""
    return sorted({client for stray in strays for client in stray.clients})


def stray_count(results: Iterable[Result], owner: Owner) -> int | None:
    """How many chunks and answers of these results are `foreign`, or `unknown`.

    None where no system tells what it retrieved, and no answer shows it.
    """
    results, counted = list(results), _COUNTED[owner]
    answers = sum(result.answer_owner in counted for result in results)
    told = [result for result in results if result.tells_contexts]
    chunks = {_name(hit.chunk_id) for result in told for hit in result.hits if hit.owner in counted}
    return len(chunks) + answers if told or answers else None


def passages_of_others(count: int) -> str:
    """`1 passage of another client`, `3 passages of other clients`: chunks, and answers with their words."""
    return f"{plural(count, 'passage')} of {'another client' if count == 1 else 'other clients'}"


def _name(chunk_id: str) -> str:
    """The id, or where it is so long that the system may have given a text for it, what stands for it."""
    return chunk_id if len(chunk_id) <= LONGEST_ID else f"id:{digest(chunk_id)[:16]}"
