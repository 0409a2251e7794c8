"""`config show`, `clients list`, `doctor` and `status`: what is set, whose documents there are, and what is wrong."""

import json
import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from rageval_dagster.cli.config import without_secrets
from rageval_dagster.llm.prompts import load_prompt
from rageval_dagster.records import Chunk
from rageval_dagster.storage.clients import ensure_client, mark_vanished
from rageval_dagster.storage.forgetting import bury
from tests.cli.running import Run, refused, stock
from tests.corpus.their_store import their_chroma
from tests.loopback import free_port
from tests.pipeline.small_project import Project
from tests.storage.history_builder import MRR, finish, make_dataset, make_items, open_run, work

ASSISTANT = """
[defaults]
k = 7
system = "assistant"

[defaults.systems.assistant]
kind = "http"
url = "{url}/ask?key=topsecret"
auth_env = "ASSISTANT_TOKEN"
headers = {{ X-Tenant = "hush" }}
request = {{ question = "{{question}}", pin = "hush" }}

[clients.acme]
k = 3
"""


def configure(project: Project, text: str) -> None:
    (project.folder / "rageval.toml").write_text(text, encoding="utf-8")


HARBOURS = [Chunk(f"c{number}", f"The harbour number {number} is open.", "d1") for number in range(2)]


@pytest.fixture
def listener() -> Iterator[tuple[str, list[bytes]]]:
    """The address of somebody who takes connections, and all that was sent there."""
    received: list[bytes] = []
    server = socket.create_server(("127.0.0.1", 0))

    def listen() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            with connection:
                received.append(connection.recv(1000))

    thread = threading.Thread(target=listen, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.getsockname()[1]}", received
    server.shutdown(socket.SHUT_RDWR)
    server.close()
    thread.join()


def test_each_setting_with_its_value_and_where_it_comes_from(
    project: Project, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(project, ASSISTANT.format(url="https://rag.example.com"))
    monkeypatch.setenv("EVALUATION_SCHEDULE_CRON", "0 5 * * *")
    (project.folder / ".env").write_text("RAGEVAL_SETTLE_S=5\n", encoding="utf-8")
    rows = {row["setting"]: row for row in json.loads(run("config", "show", "--client", "acme", "--json").out)}
    found = {name: (rows[name]["value"], rows[name]["from"]) for name in ("k", "schedule", "sample_size", "page_field")}
    assert found == {
        "k": (3, "rageval.toml [clients.acme]"),
        "schedule": ("0 5 * * *", "environment"),
        "sample_size": (8, "environment"),
        "page_field": ("page", "default"),
    }
    assert rows["k"]["variable"] == "EVALUATION_DEFAULT_K"
    everyone = {row["setting"]: row for row in json.loads(run("config", "show", "--json").out)}
    assert (everyone["k"]["value"], everyone["k"]["from"]) == (7, "rageval.toml [defaults]")


def test_an_unknown_client_is_refused(project: Project, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    configure(project, ASSISTANT.format(url="https://rag.example.com"))
    ended = run("config", "show", "--client", "amce")
    refused(ended, "there is no client 'amce' ('acme' is meant?)", "rageval clients list")
    assert ended.out == ""
    stock(project.settings, "loaded", *HARBOURS)
    ensure_client(project.database(), "evaluated")
    for known in ("acme", "loaded", "evaluated"):
        assert run("config", "show", "--client", known).code == 0
    monkeypatch.setenv("RAGEVAL_DATABASE_URL", "postgresql+psycopg://me:topsecret@127.0.0.1:1/history")
    shown = run("config", "show", "--client", "amce")
    assert shown.code == 0
    assert "cannot be told" in shown.err
    assert "topsecret" not in shown.out + shown.err


def test_secrets_are_set_or_not_set_and_nothing_more(
    project: Project, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(project, ASSISTANT.format(url="https://rag.example.com"))
    monkeypatch.setenv("ASSISTANT_TOKEN", "topsecret")
    monkeypatch.setenv("OPENAI_API_KEY", "topsecret")
    monkeypatch.setenv("OPENAI_BASE_URL", "https://me:topsecret@models.example.com/v1?key=topsecret")
    monkeypatch.setenv("RAGEVAL_DATABASE_URL", "postgresql+psycopg://me:topsecret@db/history")
    for options in ([], ["--json"]):
        shown = run("config", "show", *options)
        assert "topsecret" not in shown.out + shown.err
        assert "hush" not in shown.out
        assert "https://...@models.example.com/v1?..." in shown.out
        assert "POST https://rag.example.com/ask?..." in shown.out
        assert "Authorization from ASSISTANT_TOKEN (set)" in shown.out
        assert "X-Tenant" in shown.out
    monkeypatch.delenv("ASSISTANT_TOKEN")
    assert "Authorization from ASSISTANT_TOKEN (not set)" in run("config", "show").out


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://host:8000/v1", "http://host:8000/v1"),
        ("https://a:b@host/x", "https://...@host/x"),
        ("https://host/x?code=s3cret#frag", "https://host/x?..."),
    ],
)
def test_urls_without_what_may_be_secret(url: str, shown: str) -> None:
    assert without_secrets(url) == shown


def test_a_wrong_client_table_is_named(project: Project, run: Run) -> None:
    configure(project, "[clients.acme]\nk = 0\n")
    refused(run("config", "show", "--client", "acme"), "[clients.acme]", "k", "from 1 to 1000")


def test_the_clients_of_store_and_history(project: Project, run: Run) -> None:
    db = project.database()
    for client_id in ("acme", "back"):
        stock(project.settings, client_id, *HARBOURS)
    ensure_client(db, "back")
    bury(db, "back", {})
    ensure_client(db, "gone")
    mark_vanished(db, "gone", vanished=True)
    with their_chroma(project.settings.embedded_chroma_path) as client:
        client.create_collection("tmp_load", embedding_function=None)
    configure(project, '[defaults]\nexclude = ["tmp_*"]\n[clients.acme]\nk = 3\n')
    printed = json.loads(run("clients", "list", "--json").out)
    found = {row["client"]: row for row in printed["clients"]}
    assert {name: row["state"] for name, row in found.items()} == {
        "acme": "new",
        "back": "forgotten, still in the store",
        "gone": "not in the store",
    }
    assert (found["acme"]["own table"], found["back"]["own table"]) == (True, False)
    assert found["acme"]["chunks"] == 2
    assert printed["left_out"] == [{"name": "tmp_load", "reason": "exclude has 'tmp_*'"}]
    shown = run("clients", "list").out
    assert "exclude has 'tmp_*'" in shown
    assert "forgotten, still in the store" in shown


def test_a_store_that_is_named_and_not_there_is_said_when_clients_are_listed(
    project: Project, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    ensure_client(project.database(), "gone")
    assert "there is no Chroma store" not in run("clients", "list").err, "nobody named one"
    monkeypatch.setenv("RAGEVAL_CHROMA_PATH", str(project.folder / "nowhere"))
    ended = run("clients", "list")
    assert (ended.code, "gone" in ended.out) == (0, True), "the history has it"
    assert f"there is no Chroma store at {project.folder / 'nowhere'}" in ended.err
    assert not (project.folder / "nowhere").exists()


def test_no_clients_yet(project: Project, run: Run) -> None:
    assert "rageval ingest PATH" in run("clients", "list").out


def findings(run: Run) -> dict[str, dict[str, str]]:
    rows = json.loads(run("doctor", "--json").out)
    return {f"{row['check']}: {row['ok']}": row["finding"] for row in rows}


def test_doctor_names_every_wrong_table_and_strange_variable(
    project: Project, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    stock(project.settings, "acme", *HARBOURS)
    configure(
        project, "[clients.acme]\n[clients.beta]\nk = 0\n[clients.gamma]\nsystm = 'bm25'\n[clients.delta]\nk = 3\n"
    )
    monkeypatch.setenv("EVALUATION_DEFAULT_SAMPEL_SIZE", "5")
    found = findings(run)
    assert "EVALUATION_DEFAULT_SAMPLE_SIZE" in found["settings: warning"]
    assert "from 1 to 1000" in found["client beta: no"]
    assert "system is meant" in found["client gamma: no"]
    assert "no documents in the store" in found["client delta: warning"]
    assert not any(check.startswith("client acme") for check in found)
    assert found["clients' tables: no"] == "2 of 4 tables can be used"
    assert run("doctor").code == 2


def test_doctor_reaches_for_systems_and_tells_them_nothing(
    project: Project, run: Run, monkeypatch: pytest.MonkeyPatch, listener: tuple[str, list[bytes]]
) -> None:
    url, received = listener
    configure(project, ASSISTANT.format(url=url))
    assert "ASSISTANT_TOKEN" in findings(run)["system assistant: no"]
    monkeypatch.setenv("ASSISTANT_TOKEN", "topsecret")
    said = findings(run)["system assistant: yes"]
    assert "a server listens at 127.0.0.1:" in said
    assert "it was asked nothing, so its path and key are untested" in said
    assert "rageval evaluate --client NAME --system assistant" in said
    assert b"".join(received) == b""
    port = free_port()
    configure(project, ASSISTANT.format(url=f"http://127.0.0.1:{port}"))
    assert f"127.0.0.1:{port} takes no connection" in findings(run)["system assistant: no"]
    configure(project, ASSISTANT.format(url=f"http://127.0.0.1:{port}").replace('system = "assistant"', ""))
    assert "takes no connection" in findings(run)["system assistant: warning"]


def test_doctor_names_what_would_travel_unencrypted(
    project: Project, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASSISTANT_TOKEN", "topsecret")
    monkeypatch.setenv("RAGEVAL_ANSWER_MODEL", "small")
    monkeypatch.setenv("RAGEVAL_ANSWER_API_KEY", "topsecret")
    monkeypatch.setenv("RAGEVAL_ANSWER_BASE_URL", "http://models.invalid/v1")
    configure(project, ASSISTANT.format(url="http://rag.invalid"))
    found = findings(run)
    assert "without encryption" in found["system assistant: no"]
    assert "models.invalid" in found["answer model: no"]
    assert (
        found["answer model: warning"] == "the API key and all texts travel unencrypted to models.invalid: take https"
    )
    assert "topsecret" not in json.dumps(found)


@pytest.mark.parametrize(
    ("toml", "variables", "found"),
    [
        ("[defaults]\nk = \n", {}, {"settings: no": "rageval.toml"}),
        ("", {"RAGEVAL_CHROMA_PATH": "nowhere"}, {"document store: no": "nowhere"}),
        (
            '[defaults]\nredact = "pii"\n[clients.acme]\nredact = "no_such_module:redact"\n',
            {},
            {"redaction: yes": "pii", "redaction: no": "no_such_module"},
        ),
        *(
            (
                "",
                {"RAGEVAL_CHROMA_URL": "ftp://documents", "RAGEVAL_ANSWER_MODEL": "m", "RAGEVAL_ANSWER_BASE_URL": url},
                {"document store: no": "RAGEVAL_CHROMA_URL", "answer model: no": "http(s)://"},
            )
            for url in ("localhost:11434/v1", "http://models:many/v1", "http://[models/v1")
        ),
    ],
)
def test_doctor_says_what_cannot_be_used_and_makes_nothing(
    project: Project,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    toml: str,
    variables: dict[str, str],
    found: dict[str, str],
) -> None:
    configure(project, toml)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    said = findings(run)
    assert {check: word for check, word in found.items() if word in said[check]} == found
    assert run("doctor").code == 2
    assert not (project.folder / "nowhere").exists()


def test_doctor_reads_the_prompts(project: Project, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "prompts"
    folder.mkdir()
    (folder / "README.txt").write_text("Our prompts.", encoding="utf-8")
    monkeypatch.setenv("RAGEVAL_PROMPTS", str(folder))
    assert "0 of 19 prompts replaced" in findings(run)["prompts: yes"]
    (folder / "judge_faithfullness.txt").write_text("[system]", encoding="utf-8")
    load_prompt.cache_clear()
    refused = findings(run)["prompts: no"]
    assert "judge_faithfullness.txt is called as no prompt is; judge_faithfulness.txt is meant?" in refused


def test_status_shows_leaks_first_and_systems_that_may_have_changed(project: Project, run: Run) -> None:
    db = project.database()
    finish(db, open_run(db, make_dataset(db, "acme", make_items(3)), "first"), {MRR: 0.1})
    leaking = open_run(db, make_dataset(db, "zebra", make_items(3)), "first", system="assistant", declared=None)
    finish(db, leaking, {MRR: 0.9}, foreign=2, unknown=7)
    _, zebra, acme = run("status").out.splitlines()
    assert re.split("  +", zebra)[:13] == [
        *("zebra", "human", "assistant", "leak", MRR, "0.900", "-", "3", "0", "0", "2", "7", "may have changed"),
    ]
    assert "may have changed" not in acme
    [first, second] = json.loads(run("status", "--json").out)
    assert (first["foreign_chunks"], first["unknown_chunks"]) == (2, 7)
    assert first["system_note"] == "system unversioned, may have changed"
    assert second["system_note"] == "system versioned"


def test_status_says_what_its_columns_are(project: Project, run: Run) -> None:
    db = project.database()
    items = make_items(3)
    dataset = make_dataset(db, "acme", items)
    for trigger, mean in (("first", 0.9), ("second", 0.7)):
        evaluation = open_run(db, dataset, trigger)
        work(db, evaluation, items)
        finish(db, evaluation, {MRR: mean})
    ensure_client(db, "newcomer")
    header, acme, newcomer = run("status").out.splitlines()
    assert re.split("  +", header) == [
        *("client", "dataset", "system", "verdict", "metric", "now", "change", "questions", "newly failing"),
        *("errors", "leaks", "unknown", "note", "pending changes", "evaluated"),
    ]
    assert re.split("  +", acme)[:14] == [
        *("acme", "human", "dense (reference)", "-", MRR, "0.700", "-0.200", "3", "0", "0", "0", "0", "-", "0"),
    ]
    assert newcomer.startswith("newcomer")
    [first, _] = json.loads(run("status", "--json").out)
    assert (first["client_id"], first["worst_metric"], first["worst_mean"]) == ("acme", MRR, 0.7)
