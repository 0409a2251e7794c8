"""`config show`, `clients list`, `doctor` and `status`: what is set, whose documents there are, and what is wrong."""

import json
import re
import socket
from pathlib import Path

import pytest

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


def test_each_setting_with_its_value_and_source(project: Project, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_client_is_known_to_the_file_the_store_or_the_history(
    project: Project, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(project, ASSISTANT.format(url="https://rag.example.com"))
    refused(run("config", "show", "--client", "amce"), "did you mean 'acme'?", "rageval clients list")
    stock(project.settings, "loaded", *HARBOURS)
    ensure_client(project.database(), "evaluated")
    for known in ("acme", "loaded", "evaluated"):
        assert run("config", "show", "--client", known).code == 0
    monkeypatch.setenv("RAGEVAL_DATABASE_URL", "postgresql+psycopg://me:topsecret@127.0.0.1:1/history")
    shown = run("config", "show", "--client", "amce")
    assert shown.code == 0
    assert "cannot tell whether there is a client" in shown.err
    assert "topsecret" not in shown.out + shown.err


def test_secrets_are_only_set_or_not_set(project: Project, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_doctor_names_wrong_tables_and_variables(project: Project, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    stock(project.settings, "acme", *HARBOURS)
    tables = {"acme": "", "beta": "k = 0", "gamma": "systm = 'bm25'", "delta": "k = 3"}
    configure(project, "".join(f"[clients.{name}]\n{line}\n" for name, line in tables.items()))
    monkeypatch.setenv("EVALUATION_DEFAULT_SAMPEL_SIZE", "5")
    found = findings(run)
    assert "EVALUATION_DEFAULT_SAMPLE_SIZE" in found["settings: warning"]
    assert "from 1 to 1000" in found["client beta: no"]
    assert "did you mean system" in found["client gamma: no"]
    assert "no documents in the store" in found["client delta: warning"]
    assert not any(check.startswith("client acme") for check in found)
    assert found["clients' tables: no"] == "2 of 4 tables can be used"
    assert run("doctor").code == 2


def test_doctor_reaches_for_systems_and_tells_them_nothing(
    project: Project, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        configure(project, ASSISTANT.format(url=f"http://127.0.0.1:{server.getsockname()[1]}"))
        assert "ASSISTANT_TOKEN" in findings(run)["system assistant: no"]
        monkeypatch.setenv("ASSISTANT_TOKEN", "topsecret")
        said = findings(run)["system assistant: not asked"]
        connection, _ = server.accept()
        with connection:
            assert connection.recv(1000) == b""
    assert "a server listens at 127.0.0.1:" in said
    assert "rageval doctor --ask asks it one question" in said
    port = free_port()
    configure(project, ASSISTANT.format(url=f"http://127.0.0.1:{port}"))
    assert f"127.0.0.1:{port} accepts no connections" in findings(run)["system assistant: no"]
    configure(project, ASSISTANT.format(url=f"http://127.0.0.1:{port}").replace('system = "assistant"', ""))
    assert "accepts no connections" in findings(run)["system assistant: warning"]


def test_doctor_names_what_travels_unencrypted(project: Project, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSISTANT_TOKEN", "topsecret")
    monkeypatch.setenv("RAGEVAL_ANSWER_MODEL", "small")
    monkeypatch.setenv("RAGEVAL_ANSWER_API_KEY", "topsecret")
    monkeypatch.setenv("RAGEVAL_ANSWER_BASE_URL", "http://models.invalid/v1")
    configure(project, ASSISTANT.format(url="http://rag.invalid"))
    found = findings(run)
    assert "without encryption" in found["system assistant: no"]
    assert "models.invalid" in found["answer model: no"]
    said = "the API key and all texts travel unencrypted to models.invalid: use https"
    assert found["answer model: warning"] == said
    assert "topsecret" not in json.dumps(found)


@pytest.mark.parametrize(
    ("toml", "variables", "found"),
    [
        ("[defaults]\nk = \n", {}, {"settings: no": "rageval.toml"}),
        ("", {"RAGEVAL_CHROMA_PATH": "nowhere"}, {"document store: no": "nowhere"}),
        ("", {"RAGEVAL_EMBEDDING_MODEL": "/no/such/model"}, {"embedding model: no": "/no/such/model"}),
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
    assert "judge_faithfullness.txt is called as no prompt is; did you mean judge_faithfulness.txt?" in refused


def test_status_says_what_its_columns_are_and_shows_leaks_first(
    project: Project, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = project.database()
    items = make_items(3)
    dataset = make_dataset(db, "acme", items)
    for trigger, mean in (("first", 0.9), ("second", 0.7)):
        evaluation = open_run(db, dataset, trigger)
        work(db, evaluation, items)
        finish(db, evaluation, {MRR: mean})
    leaking = open_run(db, make_dataset(db, "zebra", items), "first", system="assistant", declared=None)
    finish(db, leaking, {MRR: 0.9}, foreign=2, unknown=7)
    ensure_client(db, "newcomer")
    header, zebra, acme, newcomer = (re.split("  +", line) for line in run("status").out.splitlines())
    assert header == [
        *("client", "dataset", "system", "verdict", "metric", "now", "change", "since", "questions"),
        *("leaks", "unknown", "note", "evaluated"),
    ], "and no column in which there is nothing"
    assert zebra[:12] == [
        *("zebra", "human", "assistant", "leak", "MRR", "0.900", "-", "-", "3", "2", "7", "may have changed"),
    ]
    assert acme[:12] == [
        *(
            "acme",
            "human",
            "dense (reference)",
            "not judged",
            "MRR",
            "0.700",
            "-0.200",
            "run before",
            "3",
            "0",
            "0",
            "-",
        ),
    ]
    assert newcomer[0] == "newcomer"
    monkeypatch.setenv("COLUMNS", "80")
    narrow = run("status").out.splitlines()
    assert max(map(len, narrow)) <= 80
    assert [line.split()[0] for line in narrow] == ["client", "zebra", "acme", "newcomer"]
    first, second, _ = json.loads(run("status", "--json").out)
    assert (first["foreign_chunks"], first["unknown_chunks"]) == (2, 7)
    assert first["system_note"] == "system unversioned, may have changed"
    assert second["system_note"] == "system versioned"
    assert (second["client_id"], second["worst_metric"], second["worst_mean"]) == ("acme", MRR, 0.7)
