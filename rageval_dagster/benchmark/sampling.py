"""Which chunks the questions are written about: random, diverse and recent samples, with a quota per document."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal, get_args

from rageval_dagster.benchmark.coverage import directions
from rageval_dagster.errors import SettingsError
from rageval_dagster.identity import digest

if TYPE_CHECKING:
    import numpy as np

    from rageval_dagster.storage.corpus import ManifestEntry

Strategy = Literal["random", "diverse", "recent"]
STRATEGIES: tuple[str, ...] = get_args(Strategy)

VectorSource = Callable[["Sequence[ManifestEntry]"], "np.ndarray"]
"""Gives the embeddings of entries, shape [n, d], in their order."""

QUOTA_SHARE = 0.1
"""The share of a sample that one document gets before every other document had its turn."""

_POOL_SIZE = 4000
_TARGET_SIZE = 2000


def check_strategy(strategy: str) -> None:
    """Raises SettingsError for a strategy that is none of `STRATEGIES`."""
    if strategy not in STRATEGIES:
        raise SettingsError(f"--strategy takes {', '.join(STRATEGIES)}, not {strategy!r}")


def draw_sample(
    entries: "Sequence[ManifestEntry]",
    size: int,
    strategy: str,
    seed: int,
    vectors: VectorSource | None = None,
    spare: int = 0,
) -> list[str]:
    """Draws the chunks that questions are generated from.

    - `random` ranks chunks by a seeded hash of their text (consistent sampling, Broder 1997), so that changing 1 % of
      the chunks changes about 1 % of the sample, and new ids for the same texts change nothing.
    - `diverse` covers topics: documents take turns, and each turn goes to the chunk that represents best what the
      sample does not cover yet (facility location, greedy: Nemhauser et al. 1978). Large corpora are first thinned
      out with `random`.
    - `recent` takes the newest chunks by `added_at`, or by `first_seen` where the store knows no time.

    Identical texts count once. One document fills at most a tenth of the sample (at least one chunk), unless the
    other documents have too few chunks.

    Args:
        entries: the manifest of one client, in any order.
        size: how many chunks are wanted; fewer come back from a smaller corpus.
        spare: how many more are drawn after them, by the same quota, for where some give no question.
        strategy: one of `STRATEGIES`.
        seed: another seed, another sample (of `recent`: only its ties).
        vectors: needed by `diverse`; called once, with at most max(4000, 2 * (size + spare)) entries.

    Returns:
        Chunk keys in the order of drawing.

    Raises:
        SettingsError: an unknown strategy.
        ValueError: `diverse` without vectors.
    """
    check_strategy(strategy)
    ranked = _distinct_by_hash(entries, seed)
    quota = max(1, int(size * QUOTA_SHARE))
    if strategy == "recent":
        # A stable sort: the seeded order decides between chunks of the same moment.
        ranked.sort(key=_age, reverse=True)
    ranked = _with_quota(ranked, quota)
    size = max(size, 0) + spare
    if strategy == "diverse" and len(ranked) > size:
        if vectors is None:
            raise ValueError("the diverse strategy needs the vectors of the chunks")
        pool = ranked[: max(_POOL_SIZE, 2 * size)]
        ranked = [
            pool[index] for index in _facility_location(vectors(pool), [entry.document_id for entry in pool], size)
        ]
    return [entry.chunk_key for entry in ranked[:size]]


def _distinct_by_hash(entries: "Sequence[ManifestEntry]", seed: int) -> "list[ManifestEntry]":
    """One entry of each text, ordered by the seeded hash of the text."""
    chosen: dict[str, ManifestEntry] = {}
    for entry in entries:
        other = chosen.get(entry.text_hash)
        if other is None or (entry.document_id, entry.chunk_key) < (other.document_id, other.chunk_key):
            chosen[entry.text_hash] = entry
    return sorted(chosen.values(), key=lambda entry: digest(str(seed), entry.text_hash))


def _with_quota(ranked: "Sequence[ManifestEntry]", quota: int) -> "list[ManifestEntry]":
    """The same entries in rounds: in each round a document places at most `quota` of them.

    Rounds instead of a hard limit, because a corpus of one long document still has to fill the sample.
    """
    placed: dict[str, int] = defaultdict(int)
    rounds: dict[int, list[ManifestEntry]] = defaultdict(list)
    for entry in ranked:
        rounds[placed[entry.document_id] // quota].append(entry)
        placed[entry.document_id] += 1
    return [entry for number in sorted(rounds) for entry in rounds[number]]


def _age(entry: "ManifestEntry") -> datetime:
    moment = entry.added_at or entry.first_seen
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _facility_location(vectors: "np.ndarray", documents: Sequence[str], size: int) -> list[int]:
    """Indices of `size` rows that together are most similar to all rows, documents taking turns.

    Greedy: starts from the first row (the seed's choice); each step takes, among the documents with the fewest rows so
    far, the row that raises the summed best similarity most. Large pools are measured against their first rows only
    (they come in random order).
    """
    import numpy as np

    rows = directions(vectors)
    similarity = rows @ rows[:_TARGET_SIZE].T
    document = np.unique(documents, return_inverse=True)[1]
    remaining = np.bincount(document)
    turns = np.zeros(len(remaining))
    free = np.ones(len(rows), dtype=bool)
    covered = np.full(similarity.shape[1], -1.0, dtype=np.float32)
    picked: list[int] = []
    while len(picked) < size:
        best = 0
        if picked:
            allowed = np.flatnonzero(free & (turns[document] == turns[remaining > 0].min()))
            gains = np.maximum(similarity[allowed] - covered, 0.0).sum(axis=1, dtype=np.float64)
            best = int(allowed[np.argmax(gains)])
        picked.append(best)
        free[best] = False
        remaining[document[best]] -= 1
        turns[document[best]] += 1
        covered = np.maximum(covered, similarity[best])
    return picked
