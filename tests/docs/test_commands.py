"""Every command of the documentation is run as it stands; the names of its examples are made to exist first."""

import csv
import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from rageval_dagster.cli import main
from rageval_dagster.embedding.models import load_embedder
from rageval_dagster.settings import DEFAULT_EMBEDDING_MODEL, Settings, load_settings
from tests.corpus.their_store import replace_collection, their_chroma
from tests.docs.pages import PAGES, ROOT, blocks, commands
from tests.llm.scripted_model import scripted_model
from tests.llm.scripted_server import ScriptedServer
from tests.loopback import free_port
from tests.pipeline.small_project import Project, documents

ELSEWHERE = re.compile(
    r"curl -X POST http://localhost:8000/api/v1/|rageval (serve|worker --processes 2|doctor --test-webhook)$"
)
"""Run by tests/test_api.py, tests/pipeline/test_workers.py and tests/cli/test_cli_alerts.py: they need a server."""
SERVICES = ("dagster-daemon", "dagster-webserver")
PLACES = {"RAGEVAL_CONFIG", "RAGEVAL_HOME", "DAGSTER_HOME", "RAGEVAL_CHROMA_TOKEN_FILE"}


def of_kind(page: str, program: str) -> list[str]:
    return [line for line in commands(page) if line.split()[0] == program]


def test_every_command_is_of_a_kind_that_a_test_runs() -> None:
    programs = {line.split()[0] for page in PAGES for line in commands(page)}
    assert programs <= {"make", "rageval", "export", "curl", *SERVICES}


@pytest.mark.parametrize("page", PAGES)
def test_every_make_target_and_benchmark_exists(page: str) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for line in of_kind(page, "make"):
        assert re.search(rf"^{line.split()[1]}:", makefile, flags=re.MULTILINE), line
    told = re.findall(r"`(?:python )?(benchmarks/\w+\.py)", (ROOT / page).read_text(encoding="utf-8"))
    assert [program for program in told if not (ROOT / program).exists()] == []


@pytest.mark.parametrize("page", PAGES)
def test_every_variable_that_is_exported_is_a_setting(page: str) -> None:
    known = {field.alias for field in Settings.model_fields.values()} | PLACES
    named = [line.split()[1].partition("=")[0] for line in of_kind(page, "export")]
    assert [name for name in named if name not in known] == []


@pytest.fixture
def model() -> Iterator[ScriptedServer]:
    with ScriptedServer(scripted_model) as server:
        yield server


def every_rageval_command() -> list[str]:
    """Each once, as the pages tell them one after the other; what deletes the client comes last."""
    lines = dict.fromkeys(line for page in PAGES for line in of_kind(page, "rageval") if not ELSEWHERE.match(line))
    return sorted(lines, key=lambda line: line.startswith("rageval forget"))


def fill_in(labels: Path) -> None:
    """What people do with the file between two commands."""
    with labels.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    with labels.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows({**row, "value": "1"} for row in rows)


@pytest.mark.core
def test_every_rageval_command_works(
    evaluated: Project, model: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_examples(evaluated.folder)
    monkeypatch.setenv("RAGEVAL_JUDGE_MODEL", "scripted")
    monkeypatch.setenv("OPENAI_BASE_URL", model.base_url)
    for line in every_rageval_command():
        with monkeypatch.context() as own:
            if "--style" in line:
                own.setenv("RAGEVAL_GENERATOR_MODEL", "scripted")
            if line.startswith("rageval labels import"):
                fill_in(evaluated.folder / "labels.csv")
            code = run(line.replace("--system assistant", "--system dense"), own)
        # The gate of a small project has too few questions to tell.
        assert not code or ("--gate" in line and code == 3), line


def run(line: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """The command's exit code."""
    monkeypatch.setattr(sys, "argv", shlex.split(line))
    try:
        main()
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


def write_examples(folder: Path) -> None:
    """The files that commands of the pages name, where possible what the pages say stands in them."""
    (folder / "FOLDER").mkdir()
    for row in documents("lighthouse"):
        (folder / "FOLDER" / f"{row['id']}.md").write_text(f"# {row['title']}\n\n{row['text']}\n", encoding="utf-8")
    one_line = {
        "questions.jsonl": blocks("docs/your-questions.md", "json")[0],
        "answers.jsonl": blocks("docs/your-rag-system.md", "json")[0],
    }
    for name, text in one_line.items():
        (folder / name).write_text(json.dumps(json.loads(text)), encoding="utf-8")
    [traces] = blocks("docs/formats.md", "json phoenix both")
    (folder / "traces.jsonl").write_text(traces, encoding="utf-8")
    (folder / "qrels.txt").write_text("q1 0 d1 1\n", encoding="utf-8")
    (folder / "run.txt").write_text("q1 Q0 d2 1 2.0 mine\nq1 Q0 d1 2 1.0 mine\n", encoding="utf-8")
    labelled = [
        {"question": "Who?", "contexts": [], "answer": said, "gold_answers": ["Ada"], "label": label}
        for said, label in (("Ada", "correct"), ("Grace", "wrong"))
    ]
    (folder / "judged.jsonl").write_text("\n".join(map(json.dumps, labelled)), encoding="utf-8")
    beir = folder / "beir-folder"
    beir.mkdir()
    (beir / "corpus.jsonl").write_text('{"_id": "d1", "text": "A text."}\n', encoding="utf-8")
    (beir / "queries.jsonl").write_text('{"_id": "q1", "text": "Where does the ferry leave from?"}\n', encoding="utf-8")
    (beir / "qrels.tsv").write_text("q1\td1\t1\n", encoding="utf-8")
    (folder / "log.csv").write_text("text\nWhere does the ferry leave from?\n", encoding="utf-8")
    [experiment] = blocks("docs/experiments.md", "toml experiment")
    (folder / "experiment.toml").write_text(experiment, encoding="utf-8")
    [squad] = blocks("docs/formats.md", "json squad dataset")
    (folder / "squad.json").write_text(squad, encoding="utf-8")
    chunk = {"chunk_id": "t::1", "text": "Either party may terminate.", "doc_id": "terms.md", "page": 1, "score": 0.8}
    asked = {"query_id": "q1", "query": "Who?", "top_k_chunks": [chunk], "answers": "Either [terms.md:1]."}
    (folder / "results.json").write_text(json.dumps({"test_1": asked}), encoding="utf-8")
    truth = {"q1": {"query_id": "q1", "answer": "Either party.", "document": {"terms.md": [1]}}}
    (folder / "truth.json").write_text(json.dumps(truth), encoding="utf-8")
    write_store(folder / "CHROMA")


def write_store(folder: Path) -> None:
    """Somebody's embedded store, with a collection of the pages' client."""
    embedder = load_embedder(DEFAULT_EMBEDDING_MODEL, load_settings({}, folder / "none.env"))
    rows = documents("lighthouse")
    texts = [row["text"] for row in rows]
    metadatas = [{"source": f"{row['id']}.md"} for row in rows]
    with their_chroma(folder) as client:
        replace_collection(client, "acme", [row["id"] for row in rows], texts, embedder.encode(texts), metadatas)


@pytest.mark.slow
def test_the_services_start_as_production_says(evaluated: Project) -> None:
    lines = [line for line in commands("docs/production.md") if line.split()[0] in SERVICES]
    assert {line.split()[0] for line in lines} == set(SERVICES)
    port = str(free_port())
    environment = os.environ | evaluated.environment
    home = [sys.executable, "-m", "rageval_dagster.automation.home"]
    dagster_home = subprocess.run(home, env=environment, capture_output=True, text=True, check=True).stdout.strip()
    started = []
    try:
        for line in lines:
            program, *words = shlex.split(line.replace("3000", port))
            started.append(
                subprocess.Popen(
                    [Path(sys.executable).parent / program, *words],
                    cwd=ROOT,
                    env=environment | {"DAGSTER_HOME": dagster_home},
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
            )
        asked = {"query": "{ instance { daemonHealth { allDaemonStatuses { healthy required } } } }"}
        deadline = time.monotonic() + 240
        healthy = False
        while not healthy and time.monotonic() < deadline:
            assert [service.poll() for service in started] == [None, None]
            try:
                said = httpx.post(f"http://127.0.0.1:{port}/graphql", json=asked, timeout=30).json()
                statuses = said["data"]["instance"]["daemonHealth"]["allDaemonStatuses"]
                healthy = all(daemon["healthy"] for daemon in statuses if daemon["required"])
            except httpx.TransportError:
                pass
            time.sleep(0.5)
        assert healthy
    finally:
        for service in started:
            service.terminate()
        for service in started:
            service.wait(60)
