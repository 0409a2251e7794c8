"""An embedded store that somebody else made is evaluated from a copy, and its own files stay as they are.

So they do where the last writer, whoever it was, was killed in the middle of a write.
"""

import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from rageval_dagster.corpus.chroma_internals import DATABASE_FILE, MARKER_FILE
from rageval_dagster.corpus.store import open_store
from rageval_dagster.errors import StoreError
from rageval_dagster.settings import Settings
from tests.corpus.conftest import Fill, settings_of
from tests.corpus.their_store import contents

THEIR_PROGRAM = """
import sys, numpy as np, chromadb
from chromadb.config import Settings
client = chromadb.PersistentClient(sys.argv[1], settings=Settings(anonymized_telemetry=False))
collection = client.get_or_create_collection("theirs", embedding_function=None)
first, last = int(sys.argv[2]), int(sys.argv[3])
vectors = np.random.default_rng(first).normal(size=(last - first, 16))
names = [f"c{i}" for i in range(first, last)]
collection.upsert(ids=names, embeddings=vectors, documents=[f"text {name}" for name in names])
collection.query(query_embeddings=vectors[:1], n_results=1)
"""


def run_their_program(path: Path, first: int, last: int) -> None:
    subprocess.run([sys.executable, "-c", THEIR_PROGRAM, str(path), str(first), str(last)], check=True)


@pytest.fixture(scope="module")
def their_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("theirs") / "chroma"
    run_their_program(path, 0, 1500)
    return path


@pytest.fixture
def foreign(their_store: Path, tmp_path: Path, home: Path) -> Settings:
    path = tmp_path / "a store"
    shutil.copytree(their_store, path)
    return settings_of(home, RAGEVAL_CHROMA_PATH=str(path))


def snapshots(settings: Settings) -> list[Path]:
    return sorted(path for path in (settings.home / "snapshots").iterdir() if path.is_dir())


def test_evaluating_a_foreign_store_leaves_its_files_alone(foreign: Settings) -> None:
    before = contents(foreign.embedded_chroma_path)
    store = open_store(foreign)
    assert store.is_foreign
    assert store.clients() == ["theirs"]
    assert store.count("theirs") == 1500
    assert sum(len(page.chunks) for page in store.scan("theirs")) == 1500
    [vector] = store.vectors("theirs", ["c700"])
    assert store.query("theirs", vector[None], depth=1)[0][0].chunk_id == "c700"
    store.probes()
    assert contents(foreign.embedded_chroma_path) == before
    [copy] = snapshots(foreign)
    assert copy.stat().st_mode & 0o077 == 0


def test_an_unchanged_store_is_copied_once_and_a_changed_one_anew(foreign: Settings) -> None:
    open_store(foreign).count("theirs")
    [first] = snapshots(foreign)
    made = (first / "chroma.sqlite3").stat().st_ino
    open_store(foreign).count("theirs")
    assert [path.joinpath("chroma.sqlite3").stat().st_ino for path in snapshots(foreign)] == [made]
    run_their_program(foreign.embedded_chroma_path, 1500, 1510)
    again = open_store(foreign)
    assert again.count("theirs") == 1510
    [vector] = again.vectors("theirs", ["c1505"])
    assert again.query("theirs", vector[None], depth=1)[0][0].chunk_id == "c1505"
    assert len(snapshots(foreign)) == 1
    assert snapshots(foreign) != [first]


def test_a_copy_in_use_is_kept_until_its_user_is_gone(foreign: Settings) -> None:
    user = open_store(foreign)
    user.count("theirs")
    run_their_program(foreign.embedded_chroma_path, 1500, 1501)
    open_store(foreign).count("theirs")
    assert len(snapshots(foreign)) == 2
    [vector] = user.vectors("theirs", ["c3"])  # reads index files for the first time
    assert user.query("theirs", vector[None], depth=1)[0][0].chunk_id == "c3"
    del user
    open_store(foreign).count("theirs")
    assert len(snapshots(foreign)) == 1


def test_what_a_killed_copy_left_is_removed(foreign: Settings) -> None:
    open_store(foreign).count("theirs")
    [copy] = snapshots(foreign)
    leftover = copy.with_name(f"draft-{copy.name.split('-')[0]}-x")
    leftover.mkdir()
    open_store(foreign).count("theirs")
    assert snapshots(foreign) == [copy]


def test_writing_because_the_user_asked_goes_into_the_store_itself(foreign: Settings, fill) -> None:
    store = open_store(foreign)
    assert store.count("theirs") == 1500  # from a copy
    fill(store, "mine", ["a text"])
    assert store.get("mine", ["c0"])[0].text == "a text"
    again = open_store(foreign)
    assert again.is_foreign
    assert again.clients() == ["mine", "theirs"]
    assert again.count("mine") == 1


DIE_WHILE_WRITING = """
import os, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA cache_size = 1")  # pages go to the file before the transaction ends
connection.execute("BEGIN")
connection.execute("UPDATE embedding_metadata SET string_value = string_value || ' and more' || hex(randomblob(2000))")
os._exit(9)
"""


@pytest.fixture
def broken_off(embedded_settings: Settings, fill: Fill) -> Path:
    """The folder of a store in which a writer died: its file is half written, and what it was lies beside it."""
    fill(open_store(embedded_settings), "acme", [f"text {number}" for number in range(50)])
    folder = embedded_settings.embedded_chroma_path
    subprocess.run([sys.executable, "-c", DIE_WHILE_WRITING, str(folder / DATABASE_FILE)], check=False)
    assert (folder / f"{DATABASE_FILE}-journal").stat().st_size > 0
    return folder


def test_our_own_store_is_as_before_the_write(broken_off: Path, embedded_settings: Settings) -> None:
    store = open_store(embedded_settings)
    assert store.clients() == ["acme"]
    texts = [chunk.text for page in store.scan("acme") for chunk in page.chunks]
    assert sorted(texts) == sorted(f"text {number}" for number in range(50))


def test_a_store_of_others_is_left_as_it_is_and_its_owner_told(broken_off: Path, embedded_settings: Settings) -> None:
    (broken_off / MARKER_FILE).unlink()
    before = contents(broken_off)
    with pytest.raises(StoreError, match=r"its last writer died in the middle of a write.*open it once with Chroma"):
        open_store(embedded_settings).clients()
    assert contents(broken_off) == before
    with sqlite3.connect(broken_off / DATABASE_FILE) as owner:  # as its own program does when it starts
        owner.execute("SELECT count(*) FROM collections").fetchone()
    assert open_store(embedded_settings).clients() == ["acme"]
