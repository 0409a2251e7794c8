"""`rageval notify`: what an ingestion pipeline says is kept, whatever the document store can tell just now."""

import json

import pytest

from rageval_dagster.storage.clients import ensure_client, get_client, mark_vanished, notify
from rageval_dagster.storage.forgetting import bury
from tests.cli.running import Run, refused
from tests.pipeline.small_project import Project


def test_it_says_what_happens_and_when(loaded: Project, run: Run) -> None:
    ended = run("notify", "--client", "acme")  # in the store, and not met by anybody yet
    assert ended.code == 0
    assert (
        "acme: noted. Once nobody has said so again for 0 s (RAGEVAL_SETTLE_S), the sensor asks for one run"
        in ended.out
    )
    first = get_client(loaded.database(), "acme").notified_at
    assert first is not None
    assert json.loads(run("notify", "--client", "acme", "--json").out) == {
        "client": "acme",
        "settle_s": 0.0,
        "enabled": True,
    }
    again = get_client(loaded.database(), "acme").notified_at
    assert again is not None
    assert again > first


def test_an_ingestion_counts_an_edit_that_a_server_s_number_of_chunks_does_not_show(
    project: Project, run: Run, chroma_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAGEVAL_CHROMA_URL", chroma_server)
    folder = project.folder / "gates"
    folder.mkdir()

    def changes(hour: str) -> int:
        (folder / "north.md").write_text(f"# The northern gate\n\nIt opens at {hour}.", encoding="utf-8")
        assert run("ingest", str(folder), "--client", "gates").code == 0
        client = get_client(project.database(), "gates")
        assert client.notified_at is None
        return client.change_seq

    assert [changes("eight"), changes("nine"), changes("nine")] == [1, 2, 2]


def test_a_known_client_s_store_need_not_answer(project: Project, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    db = project.database()
    ensure_client(db, "acme")
    monkeypatch.setenv("RAGEVAL_CHROMA_URL", "http://127.0.0.1:9")
    assert run("notify", "--client", "acme").code == 0
    assert get_client(db, "acme").notified_at is not None
    refused(run("notify", "--client", "acne"), "no Chroma server answers")


def test_an_unknown_client_is_refused(loaded: Project, run: Run) -> None:
    refused(run("notify", "--client", "acne"), "has no client 'acne' among its 1 (did you mean 'acme'?)")


def test_a_forgotten_client_is_left_alone(loaded: Project, run: Run) -> None:
    bury(loaded.database(), "acme", {})
    refused(run("notify", "--client", "acme"), "'acme' was forgotten", "rageval evaluate --client acme")


def test_it_says_so_where_nothing_will_happen_yet(loaded: Project, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    db = loaded.database()
    notify(db, "acme")
    mark_vanished(db, "acme", vanished=True)
    assert "did not have it when it was looked at last" in run("notify", "--client", "acme").out
    monkeypatch.setenv("EVALUATION_ENABLED", "false")
    assert "its evaluation is disabled (EVALUATION_ENABLED)" in run("notify", "--client", "acme").out
