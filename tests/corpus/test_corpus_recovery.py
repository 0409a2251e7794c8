"""An embedded store whose last writer was killed in the middle of a write to its SQLite file."""

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from rageval_dagster.corpus.catalogue import DATABASE_FILE, MARKER_FILE
from rageval_dagster.corpus.store import open_store
from rageval_dagster.errors import StoreError
from rageval_dagster.settings import Settings
from tests.corpus.conftest import Fill

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
    before = {path.name: path.read_bytes() for path in broken_off.iterdir() if path.is_file()}
    with pytest.raises(StoreError, match=r"its last writer died in the middle of a write.*open it once with Chroma"):
        open_store(embedded_settings).clients()
    assert {path.name: path.read_bytes() for path in broken_off.iterdir() if path.is_file()} == before
    with sqlite3.connect(broken_off / DATABASE_FILE) as owner:  # as its own program does when it starts
        owner.execute("SELECT count(*) FROM collections").fetchone()
    assert open_store(embedded_settings).clients() == ["acme"]
