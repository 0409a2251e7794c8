"""How hard a generated question is: at which rank the store gives back the chunk that it was written about."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING

from rageval_dagster.benchmark.wording import normalise_whitespace
from rageval_dagster.errors import EmbeddingError
from rageval_dagster.records import Candidate, Item

if TYPE_CHECKING:
    from rageval_dagster.corpus.store import ChromaStore
    from rageval_dagster.embedding.models import Embedder

DIFFICULTY_DEPTH = 50


def with_difficulty(
    store: "ChromaStore", client_id: str, accepted: Sequence[Candidate], embedder: "Embedder"
) -> list[Candidate]:
    """Candidates with their round-trip rank, where the store's vectors are the embedder's."""
    from rageval_dagster.corpus.compatibility import check_embedder

    new = [each for each in accepted if each.difficulty is None and each.item and each.item.evidence]
    if not new:
        return list(accepted)
    try:
        check_embedder(store, client_id, embedder)
    except EmbeddingError:
        return list(accepted)
    vectors = embedder.encode([candidate.item.question for candidate in new if candidate.item])
    ranks: dict[str, int] = {}
    for candidate, hits in zip(new, store.query(client_id, vectors, DIFFICULTY_DEPTH), strict=True):
        for hit in hits:
            if candidate.item and candidate.item.evidence[0].quote and hit.text and _holds(hit.text, candidate.item):
                ranks[candidate.candidate_id] = hit.rank
                break
    return [
        replace(candidate, difficulty=ranks.get(candidate.candidate_id, candidate.difficulty)) for candidate in accepted
    ]


def median_difficulty(candidates: Iterable[Candidate]) -> float | None:
    """Of those whose difficulty is known; None where that is of none."""
    known = [each.difficulty for each in candidates if each.difficulty is not None]
    return float(median(known)) if known else None


def _holds(text: str, item: Item) -> bool:
    quote = item.evidence[0].quote or ""
    return normalise_whitespace(quote) in normalise_whitespace(text)
