"""What watching a document store costs: an unchanged look at a store of any size, many clients, and the scan of a run.

Usage: python benchmarks/watching.py [--chunks 100000] [--clients 1000] [--store FOLDER]

Builds embedded Chroma stores of made-up chunks with vectors of 8 dimensions (1,000,000 take minutes; with --store
they stay, and are used again). Each measurement is a process of its own. A bare scan reads the same fields of all
chunks with Chroma and does nothing with them; base is what the same process holds before, when Chroma has loaded the
collection's index, which it does for the first vector.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

CLIENT = "acme"
FIELD = "tenant"
DIMENSION = 8
BATCH = 5_000
PAGE = 10_000  # of those between 1,000 and 10,000 the quickest
LOOKS = 50
TICK_LIMIT_S = 0.1
CLIENTS_LIMIT_S = 10
SCAN_LIMIT = 1.3
MEMORY_LIMIT_MB = 300


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", type=int, default=100_000)
    parser.add_argument("--clients", type=int, default=1_000)
    parser.add_argument("--store", type=Path, help="where the stores are kept")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        MEASUREMENTS[options.measure]()
        return
    with tempfile.TemporaryDirectory() as folder:
        compare(options.store or Path(folder), options.chunks, options.clients)


def compare(folder: Path, chunks: int, clients: int) -> None:
    large, small = folder / f"{chunks}", folder / f"{chunks // 10}"
    many, shared = folder / f"{clients}-collections", folder / f"{clients}-values-{chunks // 10}"
    build_once(small, lambda: build(small, chunks // 10))
    build_once(large, lambda: build(large, chunks))
    build_once(many, lambda: build_collections(many, clients))
    build_once(shared, lambda: build(shared, chunks // 10, clients))
    for store in (small, large, many, shared):
        shutil.rmtree(store / "home", ignore_errors=True)  # nobody has looked at them yet

    print(f"\nan unchanged look, of {LOOKS} the quickest:")
    [of_small], [of_large] = (measured("look", store) for store in (small, large))
    print(f"  {chunks // 10} chunks: {1000 * of_small:.1f} ms; {chunks} chunks: {1000 * of_large:.1f} ms", end="")
    print(f" ({of_large / of_small:.2f} x; {verdict(of_large, TICK_LIMIT_S, 's')})")
    for name, store, field in (("collections", many, ""), (f"values of {FIELD}", shared, FIELD)):
        [first], [later] = measured("first-look", store, field), measured("look", store, field)
        print(f"  {clients} {name}: {later:.2f} s ({verdict(later, CLIENTS_LIMIT_S, 's')}); the first: {first:.2f} s")

    print(f"\nscans of {chunks} chunks with vectors:")
    bare = [measured("bare", large)]
    first = measured("scan", large)
    again = [measured("scan", large)]
    # In turns, and of each the quickest: what else the machine does shall hit neither more.
    bare.append(measured("bare", large))
    again.append(measured("scan", large))
    least, scan = min(bare), min(again)
    for name, (seconds, processor, megabytes) in {
        "bare": least,
        "the first one": first,
        "nothing changed": scan,
    }.items():
        ratios = f"{seconds / least[0]:.2f} x, {processor / least[1]:.2f} x"
        print(f"  {name}: {seconds:.1f} s, {processor:.1f} s of processors ({ratios}), {megabytes:.0f} MB above base")
    print(f"  a scan against a bare one: {verdict(scan[0] / least[0], SCAN_LIMIT, 'x')}")
    print(f"  memory: {verdict(scan[2], MEMORY_LIMIT_MB, 'MB')}; {scan[2] - least[2]:.0f} MB above the bare scan's")


def verdict(found: float, limit: float, unit: str) -> str:
    said = "holds" if found <= limit else "DOES NOT HOLD"
    return f"{found:.2f} {unit} of at most {limit} {unit} ({found / limit:.2f} x): {said}"


def measured(what: str, store: Path, field: str = "") -> list[float]:
    """The numbers that a process of its own prints."""
    environment = {
        "PATH": os.environ["PATH"],
        "RAGEVAL_HOME": str(store / "home"),
        "RAGEVAL_CHROMA_PATH": str(store / "chroma"),
        "RAGEVAL_SETTLE_S": "0",
        **({"RAGEVAL_CLIENT_FIELD": field} if field else {}),
    }
    command = [sys.executable, __file__, "--measure", what]
    done = subprocess.run(command, env=environment, cwd=store, check=True, stdout=subprocess.PIPE, text=True)
    return [float(number) for number in done.stdout.split()]


# Measurements, each in a process of its own.


def look() -> float:
    """The seconds of one look of the sensor, apart from what Dagster does with it."""
    from rageval_dagster.corpus.store import open_store
    from rageval_dagster.corpus.watching import Cursor, probe_clients
    from rageval_dagster.settings import load_settings
    from rageval_dagster.storage.database import open_database

    settings = load_settings()
    settings.ensure_home()
    db = open_database(settings.database_url)
    started = time.perf_counter()
    probe_clients(db, open_store(settings), Cursor(), settings, time.time())
    return time.perf_counter() - started


def print_first_look() -> None:
    print(look())


def print_look() -> None:
    look()
    print(min(look() for _ in range(LOOKS)))


def print_scan() -> None:
    from rageval_dagster.corpus.scanning import scan_corpus
    from rageval_dagster.corpus.store import open_store
    from rageval_dagster.settings import load_settings
    from rageval_dagster.storage.database import open_database

    settings = load_settings()
    db = open_database(settings.database_url)
    store = open_store(settings)
    store.dimension(CLIENT)
    print_cost(lambda: scan_corpus(db, store, CLIENT))


def print_bare() -> None:
    collection = chroma(Path(os.environ["RAGEVAL_CHROMA_PATH"])).get_collection(CLIENT, embedding_function=None)

    def scan() -> None:
        offset, found = 0, PAGE
        while found == PAGE:
            include = ["documents", "metadatas", "embeddings"]
            found = len(collection.get(limit=PAGE, offset=offset, include=include)["ids"])
            offset += PAGE

    collection.get(limit=1, include=["embeddings"])
    print_cost(scan)


def print_cost(work: Callable[[], Any]) -> None:
    """Seconds, seconds of processors, and the most memory in MB above what was held before."""
    before, started, worked = status("VmRSS"), time.perf_counter(), time.process_time()
    work()
    print(time.perf_counter() - started, time.process_time() - worked, status("VmHWM") - before)


def status(name: str) -> float:
    """A figure of this process's memory in MB. Not from `resource`: that includes the parent's."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name))
    return int(line.split()[1]) / 1024


MEASUREMENTS = {"look": print_look, "first-look": print_first_look, "scan": print_scan, "bare": print_bare}


# Stores.


def build_once(folder: Path, make: Callable[[], None]) -> None:
    marker = folder / "chroma" / ".rageval-store"  # so that it is opened where it is, not copied
    if marker.exists():
        return
    folder.mkdir(parents=True)
    started = time.perf_counter()
    make()
    marker.touch()
    print(f"built {folder.name} in {time.perf_counter() - started:.0f} s", flush=True)


def chroma(path: Path) -> Any:
    import chromadb
    from chromadb.config import Settings as ChromaSettings

    return chromadb.PersistentClient(str(path), settings=ChromaSettings(anonymized_telemetry=False))


def build(folder: Path, chunks: int, clients: int = 1) -> None:
    collection = chroma(folder / "chroma").create_collection(CLIENT, embedding_function=None)
    for start in range(0, chunks, BATCH):
        add(collection, range(start, min(start + BATCH, chunks)), clients)


def build_collections(folder: Path, clients: int) -> None:
    client = chroma(folder / "chroma")
    for number in range(clients):
        add(client.create_collection(f"client-{number}", embedding_function=None), range(10), 1)


def add(collection: Any, numbers: range, clients: int) -> None:
    import numpy as np

    texts = [
        f"The archive of place {number % 997} holds {number} letters, the last of them of {1500 + number % 500}."
        " Whoever asks for one of them is shown to the reading room on the upper floor."
        for number in numbers
    ]
    collection.add(
        ids=[f"chunk-{number}" for number in numbers],
        embeddings=np.random.default_rng(numbers.start).normal(size=(len(numbers), DIMENSION)).astype(np.float32),
        documents=texts,
        metadatas=[
            {"document_id": f"document-{number // 10}", "position": number % 10, FIELD: f"client-{number % clients}"}
            for number in numbers
        ],
    )


if __name__ == "__main__":
    main()
