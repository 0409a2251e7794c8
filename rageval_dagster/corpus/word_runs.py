"""Runs of words as keyed hashes, a few of each text: what two texts share is found without keeping either.

A run is kept if the pair of neighbouring words with the smallest hash opens or closes it (closed syncmers: Edgar,
"Syncmers are more sensitive than minimizers for selecting conserved k-mers in biological sequences", PeerJ 2021). So
whether one is kept depends on its own words alone: all texts that hold it keep it, or none, which could not be said of
winnowing. Of every `WINDOW` neighbouring runs one at least is kept: texts that share `SURE_WORDS` words in a row share
a hash.
"""

import hashlib
import re
from typing import TYPE_CHECKING, NamedTuple

from rageval_dagster.storage.word_hashes import HASH_BITS
from rageval_dagster.text import normalised, word_spans

if TYPE_CHECKING:
    import numpy as np

SHINGLE_WORDS = 6
"""Texts share content where they share runs of so many words."""

RUN_WORDS = 8
PAIR = 2
WINDOW = RUN_WORDS - PAIR
SURE_WORDS = RUN_WORDS + WINDOW - 1

_INVISIBLE = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f\u00ad\u034f\u061c\u180b-\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff]"
)


def words(text: str) -> list[str]:
    """The words of a text, whatever its case, punctuation, spaces, invisible characters and ways to write a letter."""
    return [match.group().casefold() for match in word_spans(normalised(_INVISIBLE.sub("", text), "NFKC"))]


class Run(NamedTuple):
    """A run of `RUN_WORDS` words from the place `start` of a text's words."""

    start: int
    hash: int


class RunHasher:
    """Hashes runs by a secret key, so that nobody without it can look up what they guess."""

    def __init__(self, key: bytes) -> None:
        import numpy as np

        self._key = key
        self._hashes: dict[str, int] = {}
        # Odd, so that no bit of a word is lost.
        self._factors = np.array([self._hash(f"factor {number}") | 1 for number in range(RUN_WORDS)], dtype=np.uint64)

    def _hash(self, word: str) -> int:
        return int.from_bytes(hashlib.blake2b(word.encode("utf-8", "replace"), key=self._key, digest_size=8).digest())

    def runs(self, found: list[str]) -> list[Run]:
        """The kept runs of a text's words, in order: one at least of `SURE_WORDS`, none of fewer than `RUN_WORDS`."""
        import numpy as np

        if len(found) < RUN_WORDS:
            return []
        each = self._words(found)
        pairs = self._mixed(each, PAIR)
        within = np.lib.stride_tricks.sliding_window_view(pairs, RUN_WORDS - PAIR + 1)
        starts = np.flatnonzero(within.min(axis=1) == np.minimum(within[:, 0], within[:, -1]))
        hashes = (self._mixed(each, RUN_WORDS) >> np.uint64(64 - HASH_BITS)).astype(np.int64)
        return list(map(Run, starts.tolist(), hashes[starts].tolist()))

    def _words(self, found: list[str]) -> "np.ndarray":
        import numpy as np

        known = self._hashes
        if len(known) > 1_000_000:
            known.clear()
        for word in set(found).difference(known):
            known[word] = self._hash(word)
        return np.array([known[word] for word in found], dtype=np.uint64)

    def _mixed(self, each: "np.ndarray", length: int) -> "np.ndarray":
        """The hashes of all neighbours of so many words, uint64 [words - length + 1]."""
        import numpy as np

        count = len(each) - length + 1
        mixed = np.zeros(count, dtype=np.uint64)
        for place, factor in enumerate(self._factors[:length]):
            mixed += each[place : place + count] * factor
        # The last step of splitmix64: every bit of the sum counts.
        mixed ^= mixed >> np.uint64(30)
        mixed *= np.uint64(0xBF58476D1CE4E5B9)
        mixed ^= mixed >> np.uint64(27)
        mixed *= np.uint64(0x94D049BB133111EB)
        return mixed ^ (mixed >> np.uint64(31))
