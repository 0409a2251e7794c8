"""What `doctor` asks of chat models and of the user's own systems, and what it says of them."""

import json
import queue
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rageval_dagster.records import Chunk, Item
from tests.cli.running import Run, stock
from tests.llm.scripted_server import Fault, Received, ScriptedServer
from tests.pipeline.small_project import CANARY, Project
from tests.rag.rag_server import RagServer, Reply, answering
from tests.storage.history_builder import make_dataset

KEY = "sk-canary-1234567890"


def rows(run: Run) -> list[tuple[str, str, str]]:
    ended = run("doctor", "--json")
    assert KEY not in ended.out + ended.err
    return [(row["check"], row["ok"], row["finding"]) for row in json.loads(ended.out) if "model" in row["check"]]


def test_each_role_s_model_is_asked_once_about_nobody_s_documents(project: Project, run: Run) -> None:
    stock(project.settings, "acme", Chunk("c1", f"The {CANARY} is open.", "d1"))

    def of_model(received: Received) -> Fault | None:
        if received.body["model"] == "gone":
            return Fault(status=404, code="model_not_found")
        return None if received.body["model"] == "able" or "response_format" not in received.body else Fault(status=400)

    with ScriptedServer('{"sum": 5}', fault_for=of_model) as server:
        Path("rageval.toml").write_text(
            f"""
[defaults]
openai_base_url = "{server.base_url}"
generator_model = "plain"
answer_model = "able"
judge_model = "able"
[prices]
able = {{in = 1.0, out = 2.0}}
[clients.acme]
[clients.beta]
judge_model = "gone"
[clients.gamma]
judge_base_url = "{server.base_url.replace("http", "https")}x"
llm = "forbidden"
""",
            encoding="utf-8",
        )
        found = rows(run)
    where = server.base_url.removeprefix("http://").removesuffix("/v1")
    chat = [row for row in found if row[0].partition(" ")[0] in ("generator", "answer", "judge")]
    assert [row[:2] for row in chat] == [
        ("generator model", "yes"),
        ("answer model", "yes"),
        ("judge model", "yes"),
        ("judge model", "warning"),
        ("judge model", "no"),
    ]
    generator, answer, _, same, gone = (finding for *_, finding in chat)
    assert generator.startswith(f"plain at {where}: answers in ")
    assert "takes neither JSON schemas nor JSON mode, tells the tokens; what it costs is not counted" in generator
    assert answer.startswith(f"able at {where}: answers in ")
    assert answer.endswith("takes JSON schemas, tells the tokens")
    assert "models favour what they wrote themselves" in same
    assert "HTTP 404" in gone
    assert "RAGEVAL_JUDGE_MODEL" in gone
    # Schema, JSON mode and text; then once for each of the other roles; and the model that is not there.
    assert [received.body["model"] for received in server.requests] == [*["plain"] * 3, "able", "able", "gone"]
    sent = json.dumps([received.body for received in server.requests])
    assert CANARY not in sent
    assert "acme" not in sent


def test_a_wrong_key_is_told_and_nothing_is_kept(project: Project, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGEVAL_ANSWER_MODEL", "small")
    monkeypatch.setenv("RAGEVAL_ANSWER_API_KEY", KEY)
    with ScriptedServer('{"sum": 5}', faults=[Fault(status=401)]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        [(_, refused, finding)] = [row for row in rows(run) if row[0] == "answer model"]
        assert refused == "no"
        assert "HTTP 401; see that OPENAI_API_KEY or RAGEVAL_ANSWER_API_KEY is valid" in finding
        for number in (2, 3):
            [(_, ok, _)] = [row for row in rows(run) if row[0] == "answer model"]
            assert ok == "yes"
            assert len(server.requests) == number


def test_a_model_that_replies_no_json_is_warned_of(project: Project, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGEVAL_ANSWER_MODEL", "small")
    with ScriptedServer("It is five.") as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        [(_, ok, finding)] = [row for row in rows(run) if row[0] == "answer model"]
    assert ok == "warning"
    assert "replied no JSON" in finding


def test_a_client_s_embedding_endpoint_is_tried_with_its_own_address_and_key(project: Project, run: Run) -> None:
    with ScriptedServer() as server:
        Path("rageval.toml").write_text(
            f"""
[clients.beta]
embedding_model = "openai:vectors"
openai_base_url = "{server.base_url}"
[clients.gamma]
embedding_model = "openai:vectors"
openai_base_url = "{server.base_url}"
""",
            encoding="utf-8",
        )
        found = [row for row in rows(run) if row[2].startswith("openai:")]
    assert [(check, ok) for check, ok, _ in found] == [("embedding model", "yes")]
    assert len(server.requests) == 1


def test_systems_of_clients_name_them_and_what_all_override_is_no_failure(
    project: Project, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACME_TOKEN", KEY)
    with ScriptedServer() as server:
        table = f"""
[defaults]
system = ["assistant"]
[defaults.systems.assistant]
kind = "http"
url = "{server.base_url}"
auth_env = "ASSISTANT_TOKEN"
response = {{ answer = "answer" }}
[clients.acme.systems.assistant]
auth_env = "ACME_TOKEN"
"""
        Path("rageval.toml").write_text(table, encoding="utf-8")
        ended = run("doctor", "--json")
        found = [row for row in json.loads(ended.out) if row["check"].startswith("system")]
        assert [(row["check"], row["ok"]) for row in found] == [
            ("system assistant", "warning"),
            ("system assistant of acme", "not asked"),
        ]
        assert "no client is evaluated with it" in found[0]["finding"]
        # Another client is evaluated with what holds for all.
        Path("rageval.toml").write_text(f"{table}[clients.beta]\n", encoding="utf-8")
        ended = run("doctor", "--json")
    assert ended.code == 2
    failed = [row["check"] for row in json.loads(ended.out) if row["check"].startswith("system") and row["ok"] == "no"]
    assert failed == ["system assistant"]


def test_dagster_s_definitions_are_loaded(project: Project, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def row() -> tuple[int, str, str]:
        ended = run("doctor", "--json")
        [(ok, finding)] = [
            (each["ok"], each["finding"]) for each in json.loads(ended.out) if each["check"] == "Dagster's definitions"
        ]
        return ended.code, ok, finding

    code, ok, finding = row()
    assert (code, ok) == (0, "yes")
    assert re.fullmatch(r"\d+ assets, \d+ jobs, \d+ schedules, \d+ sensors", finding)
    # As where a package of Dagster's is missing, or of another version.
    monkeypatch.setitem(sys.modules, "rageval_dagster.definitions", None)
    code, ok, finding = row()
    assert (code, ok) == (2, "no")
    assert finding.startswith("Dagster cannot load rageval_dagster.definitions (ModuleNotFoundError: ")
    assert "\n" not in finding


# --- the user's own systems -------------------------------------------------------------------------------------------

HARBOUR = "The harbour of Larvik was opened in 1892 and closes when the ice is thicker than a hand."
LIGHT = "The lighthouse of Stavern was built in 1855 and has been lit by electricity since 1936."
SYSTEM = """
[defaults]
system = ["assistant"]
[defaults.systems.assistant]
kind = "http"
url = "{url}/ask"
max_attempts = 1
"""


@pytest.fixture
def harbours(project: Project) -> Project:
    """Two clients with a document each; one has questions too."""
    stock(project.settings, "acme", Chunk("c1", HARBOUR, "d1"))
    stock(project.settings, "beta", Chunk("c1", LIGHT, "d1"))
    make_dataset(project.database(), "beta", [Item("Who pays?", answerable=False), Item("When was the light built?")])
    return project


def system_row(run: Run, *options: str) -> tuple[int, str, str]:
    ended = run("doctor", "--json", *options)
    [(ok, finding)] = [
        (row["ok"], row["finding"]) for row in json.loads(ended.out) if row["check"].startswith("system ")
    ]
    return ended.code, ok, finding


def test_a_system_is_asked_a_question_of_a_client_s_only_if_one_says_so(harbours: Project, run: Run) -> None:
    long = "It was built in 1855. " * 10
    with RagServer(
        answering(long, [LIGHT, "Nobody wrote this sentence anywhere in the documents of anybody."])
    ) as server:
        Path("rageval.toml").write_text(SYSTEM.format(url=server.url), encoding="utf-8")
        code, ok, finding = system_row(run)
        assert (code, ok, server.questions) == (0, "not asked", [])
        assert finding.endswith("; rageval doctor --ask asks it one question")
        code, ok, finding = system_row(run, "--ask")
        assert server.questions == ["When was the light built?"]
    assert (code, ok) == (0, "yes")
    assert finding.startswith("http: asked a question of beta, it answered in ")
    assert ' s: "It was built in 1855. It was built' in finding
    assert "2 contexts: 1 of beta's documents, 1 unknown" in finding
    assert long.strip() not in finding


def test_only_one_client_s_systems_are_asked_if_one_names_it(harbours: Project, run: Run) -> None:
    with RagServer(answering("1855", [HARBOUR])) as server:
        Path("rageval.toml").write_text(SYSTEM.format(url=server.url), encoding="utf-8")
        code, ok, finding = system_row(run, "--ask", "--client", "acme")
        assert server.questions == ["What can I ask you about?"]
        assert json.loads(run("doctor", "--json", "--ask", "--client", "nobody").out)[-2]["finding"].startswith(
            "has neither documents nor a table"
        )
        assert len(server.questions) == 1
    assert (code, ok) == (0, "yes")
    assert "1 context: " in finding
    assert "leak" not in finding


def test_a_reranker_that_cannot_be_loaded_is_told(project: Project, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    project.given(monkeypatch, RAGEVAL_RERANKER="./nowhere")
    [row] = [row for row in json.loads(run("doctor", "--json").out) if row["check"] == "reranker"]
    assert row["ok"] == "no"
    assert row["finding"].startswith("reranker ./nowhere: no model in the folder")


def test_a_folder_of_reports_that_cannot_be_written_is_told(
    project: Project, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def row() -> tuple[str, str]:
        [found] = [row for row in json.loads(run("doctor", "--json").out) if row["check"] == "report folder"]
        return found["ok"], found["finding"]

    assert row() == ("yes", f"{project.settings.report_dir} can be written")
    assert list(project.settings.report_dir.iterdir()) == []
    (project.folder / "file").write_text("")
    for place, words in (("oss://bucket/reports", "needs a package"), (str(project.folder / "file"), "cannot be")):
        project.given(monkeypatch, RAGEVAL_REPORT_DIR=place)
        ok, finding = row()
        assert ok == "no"
        assert words in finding


@pytest.mark.parametrize(
    ("reply", "expected", "words"),
    [
        (Reply(status=401), (2, "no"), ("http_status: 401", "the system refused its key")),
        (Reply({"text": "x"}), (2, "no"), ("wrong_shape: contexts is missing", "mend the paths under response")),
        (answering("1855", [HARBOUR]), (2, "no"), ("1 context: 1 of another client's: a leak",)),
        (answering("1855", []), (0, "warning"), ("0 contexts",)),
        (answering("", [LIGHT]), (0, "warning"), ("with no text",)),
    ],
)
def test_what_is_wrong_with_a_system_shows_when_it_is_asked(
    reply: Reply, expected: tuple[int, str], words: tuple[str, ...], harbours: Project, run: Run
) -> None:
    with RagServer(reply) as server:
        Path("rageval.toml").write_text(SYSTEM.format(url=server.url), encoding="utf-8")
        code, ok, finding = system_row(run, "--ask")
    assert (code, ok) == expected
    for each in words:
        assert each in finding
    assert len(server.asked) == 1


def test_what_several_other_clients_hold_is_told_too(harbours: Project, run: Run) -> None:
    stock(harbours.settings, "gamma", Chunk("c1", HARBOUR, "d1"))
    with RagServer(answering("1855", [LIGHT, HARBOUR])) as server:
        Path("rageval.toml").write_text(SYSTEM.format(url=server.url), encoding="utf-8")
        code, ok, finding = system_row(run, "--ask")
    assert (code, ok) == (0, "yes")
    assert "2 contexts: 1 of beta's documents, 1 unknown" in finding


def test_a_function_is_asked_about_nothing_where_no_client_has_questions(project: Project, run: Run) -> None:
    stock(project.settings, "acme", Chunk("c1", HARBOUR, "d1"))
    Path("acme_rag.py").write_text(
        f"def ask(question, client):\n    return {{'answer': f'{{client}}: {{question}}', 'contexts': [{HARBOUR!r}]}}\n"
    )
    toml = '[defaults]\nsystem = ["mine"]\n[defaults.systems.mine]\nkind = "callable"\nfunction = "acme_rag:ask"\n'
    Path("rageval.toml").write_text(toml, encoding="utf-8")
    assert system_row(run)[1] == "not asked"
    code, ok, finding = system_row(run, "--ask")
    assert (code, ok) == (0, "yes")
    assert finding.startswith("callable: asked a question about nothing, it answered in ")
    assert '"acme: What can I ask you about?"; 1 context: 1 of acme\'s documents' in finding


@pytest.mark.parametrize(
    ("stop", "code"), [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.slow)]
)
def test_a_command_that_is_stopped_ends_with_one_plain_line(harbours: Project, stop: signal.Signals, code: int) -> None:
    waiting: queue.Queue[Reply] = queue.Queue()

    def reply(_: object) -> Reply:
        waiting.put(never := Reply(fault="hang"))
        return never

    with RagServer(reply) as server:
        Path("rageval.toml").write_text(SYSTEM.format(url=server.url), encoding="utf-8")
        command = [sys.executable, "-m", "rageval_dagster", "doctor", "--ask"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        waiting.get()
        process.send_signal(stop)
        out, err = process.communicate()
    assert (process.returncode, out) == (code, "")
    assert err == "rageval: interrupted; run the command again\n"
