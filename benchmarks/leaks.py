"""Leaks that are found, and texts taken for leaks that are none; and what the index of hashed words costs.

Usage: python benchmarks/leaks.py [--clients 1000] [--chunks 100000] [--planted 500]

Clients hold made-up chunks of 60 to 180 words, a tenth of them forms that all clients fill in with words of their own.
A passage of the first client gets a whole chunk of another one, half of it, or a sentence, as it is or set otherwise.
Of passages that are no leaks some are the client's own, some hold a paragraph that many clients hold.
"""

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from rageval_dagster.corpus.matching import stray_owners
from rageval_dagster.corpus.scanning import hash_unscanned
from rageval_dagster.corpus.store import Page
from rageval_dagster.corpus.word_runs import SURE_WORDS
from rageval_dagster.records import Chunk
from rageval_dagster.storage.database import open_database
from rageval_dagster.storage.forgetting import empty_log

PASSAGES_AT_A_TIME = 50
WORDS = 30_000
"""Of which the clients' texts are made, the commonest first, as in a language (Zipf)."""


class Fleet:
    """A document store of made-up clients: what of it `hash_unscanned` and `stray_owners` read."""

    def __init__(self, clients: int, chunks: int) -> None:
        self._rng = np.random.default_rng(7)
        weights = 1 / np.arange(1, WORDS + 1)
        self._cumulated = np.cumsum(weights / weights.sum())
        self.shared = [self.sentence(40) for _ in range(3)]
        self.form = [self.sentence(9) for _ in range(8)]
        self.texts = {f"c{number:04}": [] for number in range(clients)}
        names = list(self.texts)
        for number in range(chunks):
            self.texts[names[number % clients]].append(self._filled() if number // clients % 10 == 9 else self._text())
        for holders, paragraph in zip((clients // 50, clients // 5, 2), self.shared, strict=True):
            for name in names[1 : 1 + max(holders, 2)]:
                self.texts[name][0] = f"{self.sentence(30)} {paragraph} {self.sentence(30)}"

    def words(self, count: int) -> list[str]:
        return [f"w{place:x}" for place in np.searchsorted(self._cumulated, self._rng.random(count))]

    def sentence(self, length: int) -> str:
        return " ".join(self.words(length)).capitalize() + "."

    def _text(self) -> str:
        left, said = int(self._rng.integers(60, 180)), []
        while left > 0:
            said.append(self.sentence(int(self._rng.integers(8, 30))))
            left -= len(said[-1].split())
        return " ".join(said)

    def _filled(self) -> str:
        return " ".join(f"{part} {' '.join(self.words(3))}" for part in self.form)

    def clients(self) -> list[str]:
        return list(self.texts)

    def scan(self, client_id: str, with_vectors: bool = True) -> Iterator[Page]:
        chunks = [Chunk(f"{client_id}-{n}", text, "d") for n, text in enumerate(self.texts[client_id])]
        yield Page(chunks, None, 0, [0] * len(chunks))


def spaced(text: str) -> str:
    return text.replace(" ", "  \n").replace(".", " .")


REWORDED: dict[str, Callable[[str], str]] = {"as it is": str, "in capitals": str.upper, "set otherwise": spaced}


def pieces(fleet: Fleet, rng: random.Random) -> dict[str, Callable[[], str]]:
    """Makers of what is planted, by name; the first client's own texts around it."""
    own, others = fleet.texts["c0000"], [name for name in fleet.texts if name != "c0000"]

    def foreign() -> str:
        texts = fleet.texts[rng.choice(others)]
        return rng.choice([text for text in texts[1:] if not text.startswith(fleet.form[0])])

    def filled() -> str:
        return rng.choice(
            [text for name in others[:50] for text in fleet.texts[name] if text.startswith(fleet.form[0])]
        )

    def words_of(count: int) -> str:
        found = foreign().split()
        start = rng.randrange(max(1, len(found) - count))
        return " ".join(found[start : start + count])

    return {
        "a whole chunk": foreign,
        "a form that the client fills in otherwise": filled,
        "half a chunk, half an own one": lambda: f"{rng.choice(own)[:300]} {words_of(45)}",
        "a sentence of 20 words in an own chunk": lambda: f"{rng.choice(own)} {words_of(20)} {rng.choice(own)}",
        f"{SURE_WORDS} words in an own chunk": lambda: f"{rng.choice(own)} {words_of(SURE_WORDS)} {rng.choice(own)}",
        "9 words in an own chunk": lambda: f"{rng.choice(own)} {words_of(9)} {rng.choice(own)}",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=1_000)
    parser.add_argument("--chunks", type=int, default=100_000)
    parser.add_argument("--planted", type=int, default=500)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "history.sqlite3"
        db = open_database(f"sqlite:///{path}")
        empty = path.stat().st_size
        fleet = Fleet(options.clients, options.chunks)
        began = time.perf_counter()
        hash_unscanned(db, fleet)  # pyright: ignore[reportArgumentType]
        took = time.perf_counter() - began
        with db.engine.connect() as connection:
            rows = connection.exec_driver_sql("SELECT COUNT(*) FROM word_hashes").scalar_one()
        empty_log(path)
        size = path.stat().st_size - empty
        print(f"{options.chunks:,} chunks of {options.clients:,} clients: {rows:,} rows, {size / 2**20:,.0f} MiB")
        print(f"{rows / options.chunks:.1f} rows a chunk, {size / rows:.0f} bytes a row")
        print(f"{1e6 * took / options.chunks:,.0f} us a chunk to hash and store")
        rng = random.Random(7)
        missed = False
        for what, make in pieces(fleet, rng).items():
            for how, reword in REWORDED.items():
                texts = [reword(make()) for _ in range(options.planted)]
                began = time.perf_counter()
                found = owners(db, fleet, texts)
                each = 1e3 * (time.perf_counter() - began) / len(texts)
                share = sum(found.get(text) == "foreign" for text in texts) / len(texts)
                print(f"leak: {what + ', ' + how:58} found {share:6.1%}  {each:6.2f} ms each")
                missed |= share < 0.99 and "9 words" not in what
        own = fleet.texts["c0000"]
        fair = {
            "own chunks, cut and joined": [
                f"{rng.choice(own)[40:]} {rng.choice(own)[:200]}" for _ in range(options.planted)
            ],
            "nobody's words": [fleet.sentence(120) for _ in range(options.planted)],
            "a paragraph that 2 % of the clients hold": [fleet.shared[0]] * 2,
            "a paragraph that 20 % of the clients hold": [fleet.shared[1]] * 2,
            "a paragraph that 2 clients hold": [fleet.shared[2]] * 2,
        }
        for what, texts in fair.items():
            found = owners(db, fleet, texts)
            said = {kind: sum(found.get(text) == kind for text in texts) / len(texts) for kind in ("foreign", "shared")}
            print(f"no leak: {what:50} foreign {said['foreign']:6.1%}  shared {said['shared']:6.1%}")
            missed |= said["foreign"] > 0
    sys.exit("a leak was missed, or none was taken for one" if missed else 0)


def owners(db: object, fleet: Fleet, texts: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for start in range(0, len(texts), PASSAGES_AT_A_TIME):
        strays = stray_owners(db, fleet, "c0000", texts[start : start + PASSAGES_AT_A_TIME])  # pyright: ignore
        found |= {text: stray.owner for text, stray in strays.items()}
    return found


if __name__ == "__main__":
    main()
