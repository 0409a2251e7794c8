"""`rageval forget` as a user meets it: what it shows, asks, refuses and says that it left."""

import os
import pty
import sys
from collections.abc import Iterator

import dagster as dg
import pytest

from rageval_dagster.assets.partitions import CLIENTS_PARTITIONS
from rageval_dagster.automation.requests import ensure_partitions
from rageval_dagster.corpus.chroma_internals import MARKER_FILE
from rageval_dagster.corpus.snapshots import list_snapshots
from rageval_dagster.corpus.store import ChromaStore, open_store
from rageval_dagster.records import Chunk
from rageval_dagster.storage.forgetting import rows_of, tombstone
from rageval_dagster.storage.leases import keep_lease
from tests.cli.running import Run, refused, stock
from tests.pipeline.small_project import Project
from tests.storage.planted import CANARY, plant


@pytest.fixture
def known(project: Project) -> Project:
    """A project whose history has rows of `acme` in every table."""
    plant(project.database(), "acme")
    return project


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Standard input is a terminal; gives the end at which somebody types."""
    keyboard, line = pty.openpty()
    with os.fdopen(line, "r", encoding="utf-8") as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        yield keyboard
    os.close(keyboard)


def test_what_will_be_deleted_is_shown_and_what_was_not_is_said(known: Project, run: Run) -> None:
    with dg.DagsterInstance.get() as instance:
        ensure_partitions(instance, ["acme"])
    ended = run("forget", "--client", "acme", "--yes")
    assert ended.code == 0, ended
    shown = dict(line.rsplit(maxsplit=1) for line in ended.out.splitlines() if line.startswith(("rows", "Dagster")))
    assert shown["rows of texts"] == "30"
    assert shown["Dagster partitions"] == "1"
    assert "acme: forgotten" in ended.out
    assert "document store is yours and was not touched" in ended.out
    assert "backups of the database" in ended.out
    assert CANARY not in ended.out + ended.err
    assert rows_of(known.database(), "acme") == {}
    assert run("status").out.startswith("no clients yet")


def test_without_a_terminal_nothing_is_deleted_unasked(known: Project, run: Run) -> None:
    before = rows_of(known.database(), "acme")
    refused(run("forget", "--client", "acme"), "--yes")
    assert rows_of(known.database(), "acme") == before


@pytest.mark.parametrize(("typed", "code", "left"), [("n", 2, True), ("", 2, True), ("y", 0, False)])
def test_it_asks(known: Project, run: Run, terminal: int, typed: str, code: int, left: bool) -> None:
    os.write(terminal, f"{typed}\n".encode())
    assert run("forget", "--client", "acme").code == code
    assert bool(rows_of(known.database(), "acme")) is left


def test_a_client_of_whom_nothing_is_stored(known: Project, run: Run) -> None:
    before = rows_of(known.database(), "acme")
    refused(run("forget", "--client", "nobody", "--yes"), "nothing is stored about a client 'nobody'", "exclude")
    assert tombstone(known.database(), "nobody") is None
    assert rows_of(known.database(), "acme") == before


def test_a_client_that_only_dagster_knows(project: Project, run: Run) -> None:
    with dg.DagsterInstance.get() as instance:
        ensure_partitions(instance, ["acme"])
        assert run("forget", "--client", "acme", "--yes").code == 0
        assert not instance.get_dynamic_partitions(CLIENTS_PARTITIONS)
    assert tombstone(project.database(), "acme") is not None


def test_a_client_that_is_being_worked_on(known: Project, run: Run) -> None:
    before = rows_of(known.database(), "acme")
    with keep_lease(known.database(), "acme", "elsewhere:1:run 7"):
        refused(run("forget", "--client", "acme", "--yes"), "'acme' is being worked on by elsewhere:1:run 7")
    assert rows_of(known.database(), "acme") == before


def test_a_client_that_was_forgotten_before(known: Project, run: Run) -> None:
    assert run("forget", "--client", "acme", "--yes").code == 0
    stone = tombstone(known.database(), "acme")
    again = run("forget", "--client", "acme", "--yes")
    assert again.code == 0
    assert "was forgotten on" in again.err
    assert tombstone(known.database(), "acme") == stone


def copied(project: Project) -> ChromaStore:
    """Somebody else's store with a chunk of `acme`, open in a copy."""
    stock(project.settings, "acme", Chunk("c0", f"the {CANARY}", "c0"))
    (project.settings.embedded_chroma_path / MARKER_FILE).unlink()
    store = open_store(project.settings)
    assert store.count("acme") == 1
    return store


def test_copies_of_the_store_go_but_for_one_in_use(known: Project, run: Run) -> None:
    store = copied(known)
    [copy] = list_snapshots(known.settings.home)
    ended = run("forget", "--client", "acme", "--yes")
    assert ended.code == 4
    assert f"not deleted: {copy}: another process has it open" in ended.err
    del store
    assert run("forget", "--client", "acme", "--yes").code == 0
    assert list_snapshots(known.settings.home) == []
    assert open_store(known.settings).clients() == ["acme"]
