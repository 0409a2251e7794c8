"""Snapshot copies of embedded Chroma stores that belong to somebody else."""

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from rageval_dagster.corpus.chroma_internals import DATABASE_FILE, Catalogue
from rageval_dagster.errors import StoreError, unwritable
from rageval_dagster.identity import digest

SNAPSHOT_FOLDER = "snapshots"
_ATTEMPTS = 5
_LOCK_FILE = ".in-use"
_DRAFT = "draft-"


@dataclass(frozen=True)
class Snapshot:
    """A copy that is not removed as long as this object, or the process, lives."""

    path: Path
    lock: IO[bytes]


def take_snapshot(catalogue: Catalogue, home: Path) -> Snapshot:
    """The copy of a store as it is now, made unless there is one of this very state; older ones that nobody uses go.

    Raises:
        StoreError: the store keeps being written while it is copied, or the copy cannot be written.
    """
    folder = home / SNAPSHOT_FOLDER
    store = digest(str(catalogue.path.resolve()))[:16]
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        # One process at a time: none removes what another has just made and not locked yet.
        with (folder / f"{store}.lock").open("wb") as turn, _locked(turn):
            for leftover in folder.glob(f"{_DRAFT}{store}-*"):  # of a process that was killed
                shutil.rmtree(leftover)
            target = folder / f"{store}-{catalogue.state()[:16]}"
            if not target.is_dir():
                target = _copy(catalogue, folder, store)
            # Append: the file is shared with whoever has the snapshot open already.
            lock = (target / _LOCK_FILE).open("ab")
            _lock(lock, exclusive=False)
            for other in sorted(folder.glob(f"{store}-*")):
                if other != target and _is_free(other):
                    shutil.rmtree(other)
    except OSError as error:
        what = f"the Chroma store at {catalogue.path} cannot be copied into {folder}"
        why = "it was not made by rageval and is evaluated from a copy; see that both can be read"
        raise StoreError(unwritable(what, error, why)) from None
    return Snapshot(target, lock)


def list_snapshots(home: Path) -> list[Path]:
    """The folders of all copies, of whichever store, unfinished ones included."""
    return sorted(path for path in (home / SNAPSHOT_FOLDER).glob("*") if path.is_dir())


def remove_snapshots(home: Path) -> list[Path]:
    """Removes every copy, of whichever store, and returns those that stay because a process has them open.

    Raises:
        StoreError: one cannot be removed.
    """
    kept: list[Path] = []
    try:
        for turn_file in sorted((home / SNAPSHOT_FOLDER).glob("*.lock")):
            store = turn_file.stem
            with turn_file.open("wb") as turn, _locked(turn):
                for copy in sorted(turn_file.parent.glob(f"*{store}-*")):
                    if copy.name.startswith(_DRAFT) or _is_free(copy):
                        shutil.rmtree(copy)
                    else:
                        kept.append(copy)
    except OSError as error:
        raise StoreError(
            f"{error.filename} cannot be removed ({error.strerror}): it is a copy of a document store; delete it"
        ) from None
    return kept


def _copy(catalogue: Catalogue, folder: Path, store: str) -> Path:
    for _ in range(_ATTEMPTS):
        before = catalogue.state(), _signature(catalogue.path)
        target = folder / f"{store}-{before[0][:16]}"
        draft = Path(tempfile.mkdtemp(prefix=f"{_DRAFT}{store}-", dir=folder))
        try:
            with (
                catalogue.connect() as source,
                closing(sqlite3.connect(draft / DATABASE_FILE)) as copy,
            ):
                source.backup(copy)
            for part in sorted(catalogue.path.iterdir()):
                if part.is_dir():
                    shutil.copytree(part, draft / part.name)
            for path in draft.rglob("*"):  # whoever may read the store, the copy is for its owner only
                path.chmod(0o700 if path.is_dir() else 0o600)
            if (catalogue.state(), _signature(catalogue.path)) == before:
                return target if target.is_dir() else draft.rename(target)
        except FileNotFoundError:
            continue  # a collection was deleted meanwhile
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    raise StoreError(f"the Chroma store at {catalogue.path} keeps being written to; run again when it is idle")


def _signature(path: Path) -> list[tuple[str, int, int]]:
    """Name, size and time of change of every file: index files are written apart from the database."""
    found = []
    for folder, _, files in os.walk(path):
        for name in files:
            status = (Path(folder) / name).stat()
            found.append((f"{folder}/{name}", status.st_size, status.st_mtime_ns))
    return sorted(found)


def _is_free(snapshot: Path) -> bool:
    """Whether no process has the snapshot open: Chroma reads some of its files only at the first query."""
    with (snapshot / _LOCK_FILE).open("ab") as lock:
        return _lock(lock, exclusive=True)


@contextmanager
def _locked(file: IO[bytes]) -> Iterator[None]:
    _lock(file, exclusive=True, wait=True)
    yield  # closing the file gives the lock back


def _lock(file: IO[bytes], exclusive: bool, wait: bool = False) -> bool:
    import fcntl

    kind = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
    try:
        fcntl.flock(file, kind if wait else kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
