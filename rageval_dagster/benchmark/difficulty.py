"""How hard a generated question is: at which rank the store gives back the chunk that it was written about."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from statistics import median_low
from typing import TYPE_CHECKING, Any

from rageval_dagster.errors import EmbeddingError
from rageval_dagster.records import NOT_RETURNED, Candidate, Item
from rageval_dagster.text import normalise_whitespace

if TYPE_CHECKING:
    from rageval_dagster.corpus.store import ChromaStore
    from rageval_dagster.embedding.models import Embedder

DIFFICULTY_DEPTH = 50


def with_difficulty(
    store: "ChromaStore", client_id: str, accepted: Sequence[Candidate], embedder: "Embedder"
) -> list[Candidate]:
    """Candidates with their round-trip rank, where the store's vectors are the embedder's; without it, where not.

    What was measured before stays so.
    """
    from rageval_dagster.corpus.compatibility import check_embedder

    new = [each for each in accepted if each.difficulty is None and each.item and each.item.evidence]
    if not new:
        return list(accepted)
    try:
        check_embedder(store, client_id, embedder)
    except EmbeddingError:
        return list(accepted)
    vectors = embedder.encode([candidate.item.question for candidate in new if candidate.item])
    ranks = {candidate.candidate_id: NOT_RETURNED for candidate in new}
    for candidate, hits in zip(new, store.query(client_id, vectors, DIFFICULTY_DEPTH), strict=True):
        for hit in hits:
            if candidate.item and candidate.item.evidence[0].quote and hit.text and _holds(hit.text, candidate.item):
                ranks[candidate.candidate_id] = hit.rank
                break
    return [
        replace(candidate, difficulty=ranks.get(candidate.candidate_id, candidate.difficulty)) for candidate in accepted
    ]


def difficulty_stats(candidates: Iterable[Candidate]) -> dict[str, Any]:
    """What a dataset's stats say of its difficulty: the best rank at which half of the questions measured or more get
    their own passage, None where fewer do; how many were measured, and how many ranks were looked at.
    """
    known = [each.difficulty for each in candidates if each.difficulty is not None]
    # Behind all ranks: left out, the hardest questions would make a dataset look easy.
    middle = median_low(rank if rank != NOT_RETURNED else DIFFICULTY_DEPTH + 1 for rank in known) if known else None
    return {
        "median_difficulty": middle if middle is not None and middle <= DIFFICULTY_DEPTH else None,
        "difficulty_measured": len(known),
        "difficulty_depth": DIFFICULTY_DEPTH,
    }


def _holds(text: str, item: Item) -> bool:
    quote = item.evidence[0].quote or ""
    return normalise_whitespace(quote) in normalise_whitespace(text)
