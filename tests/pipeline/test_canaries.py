"""Canaries: a text and a secret are planted, and then looked for everywhere that they may not be."""

import json
import logging
import socketserver
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from rageval_dagster.corpus.store import open_store
from rageval_dagster.embedding.models import load_embedder
from rageval_dagster.errors import RagevalError
from rageval_dagster.llm.client import ChatClient, ChatRequest, Failure
from rageval_dagster.rag.external import load_external
from rageval_dagster.records import Item
from rageval_dagster.settings import Settings, load_settings
from rageval_dagster.storage.database import Database, open_database
from rageval_dagster.storage.evaluations import list_evaluations
from rageval_dagster.storage.results import load_results
from rageval_dagster.telling.links import FLEET_FILE
from tests.cli.running import Ended, Run
from tests.llm.scripted_server import Fault, ScriptedServer
from tests.loopback import LoopbackServer, Quiet, free_port
from tests.pipeline.small_project import CANARY, Project, documents, holding

SECRET = "s3cret-wryneck-9f27"


@pytest.fixture
def log_file(tmp_path: Path) -> Iterator[Path]:
    """What all loggers say, at every level."""
    path = tmp_path / "everything.log"
    handler = logging.FileHandler(path)
    named = [logging.getLogger(name) for name in logging.root.manager.loggerDict]
    levels = [(logger, logger.level) for logger in [logging.getLogger(), *named]]
    for logger, _ in levels:
        logger.setLevel(logging.DEBUG)
    logging.getLogger().addHandler(handler)
    yield path
    for logger, level in levels:
        logger.setLevel(level)
    logging.getLogger().removeHandler(handler)
    handler.close()


# --- Texts -----------------------------------------------------------------------------------------------------------

THEIR_SYSTEM = f"""
def answer(question, k, history, principal):
    if "break" in question:
        raise ValueError(question)
    said = " ".join(turn["content"] for turn in history) + str(principal)
    return {{"answer": f"{CANARY} " + said, "contexts": ["The {CANARY} castle of Avonlea has 3 towers.", question]}}
"""


@pytest.fixture
def planted(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A client with the canary in its documents, its questions with all that belongs to them, and its system."""
    monkeypatch.setenv("EVALUATION_DEFAULT_SAMPLE_SIZE", "2")
    monkeypatch.syspath_prepend(str(project.folder))
    (project.folder / "their_system.py").write_text(THEIR_SYSTEM, encoding="utf-8")
    (project.folder / "rageval.toml").write_text(
        '[defaults]\nsystem = "theirs"\n'
        '[defaults.systems.theirs]\nkind = "callable"\nfunction = "their_system:answer"\n',
        encoding="utf-8",
    )
    rows = [
        {
            "question": f"{verb} {CANARY} towers?",
            "answers": [f"the {CANARY} ones"],
            "evidence": [{"document_id": "castle-avonlea", "quote": f"It is known as the {CANARY} castle"}],
            "history": [{"role": "user", "content": f"Tell me of {CANARY}"}],
            "principal": {"name": CANARY},
        }
        for verb in ("Who built the", "Who did break the")
    ]
    (project.folder / "questions.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    project.ingest("acme", documents("castle", count=2))
    return project


def fail_in_a_metric(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ValueError(CANARY)

    monkeypatch.setattr("rageval_dagster.evaluation.scoring.compute_scores", broken)


def fail_in_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise OSError(CANARY)

    monkeypatch.setattr("rageval_dagster.corpus.store.ChromaStore.scan", broken)


@pytest.mark.core
def test_no_text_reaches_dagster_logs_or_the_screen(
    planted: Project, run: Run, log_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    def run_seen(*arguments: str) -> Ended:
        ended = run(*arguments)
        seen.extend((ended.out, ended.err))
        return ended

    run_seen("datasets", "import", "questions.jsonl", "--client", "acme", "--name", "own")
    assert run_seen("evaluate", "--client", "acme").code == 4  # a question failed
    db = planted.database()
    results = [
        result
        for evaluation in list_evaluations(db, client_id="acme")
        for _, result in load_results(db, evaluation.id).values()
    ]
    # It went all the way: stored where it can be deleted, and the failing question named by its kind alone.
    assert any(CANARY in result.answer.text for result in results if result.answer)
    assert [result.error for result in results if result.error] == ["raised: ValueError"]
    for fail in (fail_in_a_metric, fail_in_the_store):
        with monkeypatch.context() as broken:
            broken.setenv("EVALUATION_DEFAULT_K", "3")
            fail(broken)
            ended = run_seen("evaluate", "--client", "acme")
            assert ended.code == 2
            assert "unexpected " in ended.err
    with ScriptedServer(fault_for=lambda received: Fault(status=400, message=CANARY + received.text)) as server:
        monkeypatch.setenv("RAGEVAL_GENERATOR_MODEL", "writer")
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        assert run_seen("datasets", "generate", "--client", "acme").code == 2
        assert server.requests
    assert CANARY not in "".join(seen)
    assert log_file.stat().st_size > 1_000
    assert holding(CANARY, planted.settings.dagster_home, log_file) == []
    # Reports are where texts belong, but for redacted ones.
    reports = planted.settings.report_dir
    assert holding(CANARY, reports) == [str(path) for path in reports.glob("*.html") if path.name != FLEET_FILE]
    assert run("report", "--client", "acme", "--redact").code == 0
    assert holding(CANARY, *reports.glob("*.redacted.html")) == []


def test_who_lets_text_in_is_warned(planted: Project, log_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGEVAL_TEXT_IN_DAGSTER", "true")
    fail_in_the_store(monkeypatch)
    launched = planted.evaluate("acme", "command:one")
    assert CANARY in (launched.message or "")
    assert holding(CANARY, planted.settings.dagster_home)
    assert holding("RAGEVAL_TEXT_IN_DAGSTER is true: ", planted.settings.dagster_home)


# --- Secrets ---------------------------------------------------------------------------------------------------------


@contextmanager
def echoing(status: int, heartbeat: bool = False) -> Iterator[str]:
    """The address of a server that sends the headers of every request back, in headers and body, with this status."""

    class Handler(Quiet):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            known = heartbeat and self.path.endswith("/heartbeat")
            said = dict(self.headers.items())
            body = {"nanosecond heartbeat": 1} if known else {"error": "InternalError", "message": json.dumps(said)}
            self.send_response(200 if known else status)
            self.send_header("Content-Type", "application/json")
            self.send_header("X-Echo", json.dumps(said))
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

        do_POST = do_GET

    with LoopbackServer(Handler) as server:
        yield server.origin


_ENCRYPTION_WANTED = {(80877103).to_bytes(4, "big"), (80877104).to_bytes(4, "big")}


@contextmanager
def refusing_postgresql() -> Iterator[int]:
    """The port of a server that speaks as much of PostgreSQL's protocol as it takes to refuse a password, naming it."""

    class Handler(socketserver.BaseRequestHandler):
        def receive(self) -> bytes:
            return self.request.recv(int.from_bytes(self.request.recv(4), "big") - 4)

        def handle(self) -> None:
            while self.receive() in _ENCRYPTION_WANTED:
                self.request.sendall(b"N")
            self.request.sendall(b"R\x00\x00\x00\x08\x00\x00\x00\x03")  # wants the password as it is
            self.request.recv(1)
            password = self.receive().rstrip(b"\x00")
            fields = b"SFATAL\x00C28P01\x00Mpassword " + password + b" is wrong\x00\x00"
            self.request.sendall(b"E" + (len(fields) + 4).to_bytes(4, "big") + fields)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


Action = Callable[[Settings, Database], object]


def opens_database(settings: Settings, db: Database) -> object:
    return open_database(settings.database_url)


def lists_clients(settings: Settings, db: Database) -> object:
    return open_store(settings).clients()


def embeds(settings: Settings, db: Database) -> object:
    return load_embedder("openai:vectors", settings).encode(["a text"])


def chats(settings: Settings, db: Database) -> object:
    [reply] = ChatClient(settings, "answer", db, "acme").complete([ChatRequest("a question")])
    assert isinstance(reply, Failure)
    return reply


def asks_the_system(settings: Settings, db: Database) -> object:
    system = load_external("theirs", settings, "acme")
    item = Item("A question?")
    return [system.declared_version(item, 5), *system.retrieve([item], 5)]


def only_reads(settings: Settings, db: Database) -> object:
    return settings


def their_system(url: str, fields: str = 'auth_env = "THEIR_TOKEN"') -> str:
    addresses = f'url = "{url}/ask"\nversion_url = "{url}/version"'
    return f'[defaults.systems.theirs]\nkind = "http"\n{addresses}\nmax_attempts = 1\n{fields}'


def failures(url: str, unreachable: str, refusing_port: int) -> Iterator[tuple[Mapping[str, str], Action, str]]:
    """(environment, what is done, rageval.toml) of everything that fails with a secret in its hands."""
    postgresql, mysql = "postgresql+psycopg", "mysql+pymysql"
    port = unreachable.rpartition(":")[2]
    for database in [
        f"{postgresql}://me:{SECRET}@127.0.0.1:{port}/history",
        f"{mysql}://me:{SECRET}@127.0.0.1:{port}/history",
        f"{postgresql}://me:{SECRET}@127.0.0.1:{refusing_port}/history",
        f"{postgresql}://127.0.0.1:{port}/history?password={SECRET}",
        f"{postgresql}://me:{SECRET}@127.0.0.1:port/history",
        f"{postgresql}://me:{SECRET}@127.0.0.1:{port}",
        f"{postgresql}://me:{SECRET}@db.example.com/history?sslmode=disable",
        f"mssql://me:{SECRET}@127.0.0.1/history",
        f"me:{SECRET}",
    ]:
        yield {"RAGEVAL_DATABASE_URL": database}, opens_database, ""
    for address in (url, unreachable):
        model = {"OPENAI_API_KEY": SECRET, "OPENAI_BASE_URL": f"{address}/v1", "RAGEVAL_LLM_MAX_ATTEMPTS": "1"}
        yield model, embeds, ""
        yield {**model, "RAGEVAL_ANSWER_MODEL": "speaker"}, chats, ""
        own = {"RAGEVAL_ANSWER_API_KEY": SECRET, "RAGEVAL_ANSWER_BASE_URL": address, "RAGEVAL_LLM_MAX_ATTEMPTS": "1"}
        yield {**own, "RAGEVAL_ANSWER_MODEL": "speaker"}, chats, ""
        yield {"RAGEVAL_CHROMA_URL": address, "RAGEVAL_CHROMA_TOKEN": SECRET}, lists_clients, ""
        headers = {"RAGEVAL_CHROMA_URL": address, "RAGEVAL_CHROMA_HEADERS": json.dumps({"X-Key": SECRET})}
        yield headers, lists_clients, ""
        yield {"THEIR_TOKEN": SECRET}, asks_the_system, their_system(address)
        yield {"THEIR_TOKEN": SECRET}, asks_the_system, their_system(address, 'headers_env = {X-Key = "THEIR_TOKEN"}')
    chroma = {"RAGEVAL_CHROMA_URL": url, "RAGEVAL_CHROMA_TOKEN": SECRET}
    for wrong in (f"{{{SECRET}", *map(json.dumps, ([SECRET], {"X-Key": [SECRET]}, {"X-Key": f"{SECRET}\n"}))):
        yield {**chroma, "RAGEVAL_CHROMA_HEADERS": wrong}, lists_clients, ""
    yield {"THEIR_TOKEN": f"{SECRET}\nmore"}, asks_the_system, their_system(url)
    yield {"THEIR_TOKEN": SECRET}, asks_the_system, their_system("http://far.example.com")
    everything = {
        "RAGEVAL_DATABASE_URL": f"{postgresql}://me:{SECRET}@127.0.0.1/history",
        "OPENAI_API_KEY": SECRET,
        "RAGEVAL_CHROMA_TOKEN": SECRET,
        "RAGEVAL_CHROMA_HEADERS": json.dumps({"X-Key": SECRET}),
        "RAGEVAL_GENERATOR_API_KEY": SECRET,
        "THEIR_TOKEN": SECRET,
    }
    yield {**everything, "EVALUATION_DEFAULT_K": "none"}, only_reads, ""
    yield everything, only_reads, "[nonsense]"
    yield everything, only_reads, "[defaults]\nk = -1\nopenai_api_key_env = 'THEIR_TOKEN'"
    yield everything, only_reads, "[defaults]\nopenai_api_key_env = 'NO_SUCH_VARIABLE'"
    yield everything, only_reads, "[defaults]\nsystem = 'none'"
    yield everything, only_reads, "not TOML"


_NAMED_BY_FILES = {
    *("RAGEVAL_DATABASE_URL", "OPENAI_API_KEY", "RAGEVAL_CHROMA_TOKEN", "RAGEVAL_CHROMA_HEADERS", "THEIR_TOKEN")
}


def told(error: BaseException) -> str:
    """All that an exception tells: its words, and its traceback with the variables of every function but the test's."""
    tb = error.__traceback__
    while tb is not None and tb.tb_frame.f_code.co_filename == __file__:
        tb = tb.tb_next
    shown = traceback.TracebackException(type(error), error, tb, capture_locals=True)
    return "\n".join([str(error), repr(error), repr(error.args), *shown.format()])


@pytest.mark.parametrize("as_file", [False, True], ids=["variable", "file"])
def test_no_secret_is_in_any_error(
    as_file: bool,
    sqlite_db: Database,
    tmp_path: Path,
    log_file: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    failed = 0
    for status in (401, 500):
        with echoing(status) as url, echoing(status, heartbeat=True) as half, refusing_postgresql() as port:
            unreachable = f"http://127.0.0.1:{free_port()}"
            cases = [*failures(url, unreachable, port)]
            cases += [case for case in failures(half, unreachable, port) if case[1] is lists_clients]
            for number, (environment, action, toml) in enumerate(cases):
                folder = tmp_path / f"{status}-{number}"
                folder.mkdir()
                (folder / "rageval.toml").write_text(toml, encoding="utf-8")
                with monkeypatch.context() as given:
                    for name, value in {"RAGEVAL_HOME": str(folder / "home"), **environment}.items():
                        if as_file and name in _NAMED_BY_FILES:
                            (folder / name).write_text(value, encoding="utf-8")
                            given.setenv(f"{name}_FILE", str(folder / name))
                        else:
                            given.setenv(name, value)
                    try:
                        settings = load_settings(None, folder / "none.env", folder / "rageval.toml")
                        said = repr(settings) + str(settings) + repr(action(settings, sqlite_db))
                    except RagevalError as error:
                        failed += 1
                        said = told(error)
                assert SECRET not in said, (sorted(environment), action.__name__, said)
    printed = capfd.readouterr()
    assert failed > 60
    assert SECRET not in printed.out + printed.err
    assert holding(SECRET, log_file, tmp_path / "history.sqlite3") == []


@pytest.mark.core
def test_no_command_shows_stores_or_logs_a_secret(
    project: Project, run: Run, log_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVALUATION_AUTO_GENERATE_DATASETS", "false")
    project.ingest("acme", documents("castle", count=1))
    (project.folder / "questions.jsonl").write_text(
        json.dumps({"question": "What is sold?", "answers": ["a ticket"]}), encoding="utf-8"
    )
    seen: list[str] = []

    def run_all(*commands: list[str]) -> None:
        for ended in (run(*command) for command in commands):
            seen.extend((ended.out, ended.err))

    with echoing(401) as url:
        (project.folder / "rageval.toml").write_text(
            f'[defaults]\nsystem = "theirs"\n{their_system(url)}', encoding="utf-8"
        )
        (project.folder / "key").write_text(SECRET, encoding="utf-8")
        for name, value in {
            "THEIR_TOKEN": SECRET,
            "OPENAI_API_KEY_FILE": str(project.folder / "key"),
            "OPENAI_BASE_URL": f"{url}/v1",
            "RAGEVAL_ANSWER_MODEL": "speaker",
            "RAGEVAL_LLM_MAX_ATTEMPTS": "1",
            "RAGEVAL_CHROMA_TOKEN": SECRET,
            "RAGEVAL_CHROMA_HEADERS": json.dumps({"X-Key": SECRET}),
        }.items():
            monkeypatch.setenv(name, value)
        commands = [["config", "show"], ["config", "show", "--json"], ["doctor"], ["doctor", "--json"], ["status"]]
        run_all(*commands, ["datasets", "import", "questions.jsonl", "--client", "acme"])
        run_all(["evaluate", "--client", "acme"], ["evaluate", "--client", "acme", "--system", "bm25"])
        run_all(["report"], ["init"])
        [theirs] = [each for each in list_evaluations(project.database()) if each.system == "theirs"]
        results = [result for _, result in load_results(project.database(), theirs.id).values()]
        assert [result.error for result in results] == ["http_status: 401"]
        monkeypatch.setenv("RAGEVAL_CHROMA_URL", url)
        run_all(*commands, ["evaluate", "--all"], ["clients", "list"], ["init", "--chroma", url])
        monkeypatch.setenv("RAGEVAL_DATABASE_URL", f"postgresql+psycopg://me:{SECRET}@127.0.0.1:{free_port()}/history")
        run_all(*commands, ["evaluate", "--all"], ["clients", "list"], ["runs", "list"])
    assert "401" in "".join(seen)
    assert SECRET not in "".join(seen)
    assert holding(SECRET, project.settings.home, log_file) == []
