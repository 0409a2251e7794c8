"""Every command of the README is run as it stands; the names of its examples are made to exist first."""

import json
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rageval_dagster.cli import main
from rageval_dagster.embedding.models import load_embedder
from rageval_dagster.llm.endpoints import endpoint_of
from rageval_dagster.rag.external import load_external
from rageval_dagster.settings import DEFAULT_EMBEDDING_MODEL, load_settings
from tests.corpus.their_store import replace_collection, their_chroma
from tests.llm.scripted_model import scripted_model
from tests.llm.scripted_server import ScriptedServer
from tests.pipeline.conftest import loaded, project
from tests.pipeline.small_project import Project, documents

__all__ = ["loaded", "project"]

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def commands() -> list[str]:
    blocks = re.findall(r"```sh\n(.*?)```", README, flags=re.DOTALL)
    lines = [line.split("#")[0].strip() for block in blocks for line in block.splitlines()]
    return [line for line in lines if line]


def test_every_make_target_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = {line.split()[1] for line in commands() if line.startswith("make ")}
    assert targets >= {"demo", "ui", "test", "check"}
    assert all(re.search(rf"^{target}:", makefile, flags=re.MULTILINE) for target in targets)


@pytest.fixture
def model() -> Iterator[ScriptedServer]:
    with ScriptedServer(scripted_model) as server:
        yield server


@pytest.mark.slow
def test_every_rageval_command_works(project: Project, model: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = project.folder / "FOLDER"
    folder.mkdir()
    for row in documents("lighthouse"):
        (folder / f"{row['id']}.md").write_text(f"# {row['title']}\n\n{row['text']}\n", encoding="utf-8")
    question, answer = re.findall(r"```json\n(.*?)```", README, flags=re.DOTALL)
    (project.folder / "questions.jsonl").write_text(json.dumps(json.loads(question)), encoding="utf-8")
    (project.folder / "answers.jsonl").write_text(json.dumps(json.loads(answer)), encoding="utf-8")
    (project.folder / "qrels.txt").write_text("q1 0 d1 1\n", encoding="utf-8")
    (project.folder / "run.txt").write_text("q1 Q0 d2 1 2.0 mine\nq1 Q0 d1 2 1.0 mine\n", encoding="utf-8")
    (project.folder / "judged.jsonl").write_text(
        "\n".join(
            json.dumps({"question": "Who?", "contexts": [], "answer": said, "gold_answers": ["Ada"], "label": label})
            for said, label in (("Ada", "correct"), ("Grace", "wrong"))
        ),
        encoding="utf-8",
    )
    beir = project.folder / "beir-folder"
    beir.mkdir()
    (beir / "corpus.jsonl").write_text('{"_id": "d1", "text": "A text."}\n', encoding="utf-8")
    (beir / "queries.jsonl").write_text('{"_id": "q1", "text": "Where does the ferry leave from?"}\n', encoding="utf-8")
    (beir / "qrels.tsv").write_text("q1\td1\t1\n", encoding="utf-8")
    (project.folder / "log.csv").write_text("text\nWhere does the ferry leave from?\n", encoding="utf-8")
    make_store(project.folder / "CHROMA")
    chunk = {"chunk_id": "t::1", "text": "Either party may terminate.", "doc_id": "terms.md", "page": 1, "score": 0.8}
    asked = {
        "query_id": "q1",
        "query": "Who may terminate?",
        "top_k_chunks": [chunk],
        "answers": "Either [terms.md:1].",
    }
    (project.folder / "results.json").write_text(json.dumps({"test_1": asked}), encoding="utf-8")
    truth = {"q1": {"query_id": "q1", "answer": "Either party.", "document": {"terms.md": [1]}}}
    (project.folder / "truth.json").write_text(json.dumps(truth), encoding="utf-8")
    monkeypatch.setenv("RAGEVAL_JUDGE_MODEL", "scripted")
    monkeypatch.setenv("OPENAI_BASE_URL", model.base_url)
    ran = []
    for line in commands():
        words = shlex.split(line)
        if words[0] != "rageval":
            continue
        monkeypatch.setattr(sys, "argv", words)
        try:
            main()
            code = 0
        except SystemExit as ended:
            code = ended.code
        # The gate of a small project has too few questions to tell.
        assert not code or ("--gate" in words and code == 3), line
        ran.append(words[1])
    assert {
        *("ingest", "evaluate", "status", "runs", "datasets", "doctor", "init", "clients", "config"),
        *("score", "trec", "metrics", "judge", "notify"),
    } <= set(ran)


def make_store(folder: Path) -> None:
    """Somebody's embedded store, with a collection of the README's client."""
    embedder = load_embedder(DEFAULT_EMBEDDING_MODEL, load_settings({}, folder / "none.env"))
    rows = documents("lighthouse")
    texts = [row["text"] for row in rows]
    metadatas = [{"source": f"{row['id']}.md"} for row in rows]
    with their_chroma(folder) as client:
        replace_collection(client, "acme", [row["id"] for row in rows], texts, embedder.encode(texts), metadatas)


def test_the_settings_files_of_the_readme_are_some(tmp_path: Path) -> None:
    systems, models = re.findall(r"```toml\n(.*?)```", README, flags=re.DOTALL)
    (tmp_path / "rageval.toml").write_text(systems, encoding="utf-8")
    settings = load_settings({"ACME_TOKEN": "x"}, tmp_path / "none.env", tmp_path / "rageval.toml")
    system = load_external("assistant", settings.for_client("acme"), "acme")
    assert (system.name, system.reference) == ("assistant", False)
    (tmp_path / "rageval.toml").write_text(models, encoding="utf-8")
    settings = load_settings({"ACME_LLM_KEY": "x"}, tmp_path / "none.env", tmp_path / "rageval.toml")
    judge = endpoint_of(settings.for_client("acme"), "judge")
    assert judge is not None
    assert (judge.model, judge.host) == ("gpt-5-mini", "llm.acme.example")
    assert endpoint_of(settings.for_client("secret"), "judge") is None


def test_every_variable_of_the_readme_is_a_setting() -> None:
    from rageval_dagster.settings import Settings

    known = {field.alias for field in Settings.model_fields.values()}
    named = set(re.findall(r"\b((?:RAGEVAL|EVALUATION|OPENAI|RAG_)_[A-Z_]+)\b", README)) - {
        "RAGEVAL_TEST_POSTGRES_URL",
        "RAGEVAL_CONFIG",
    }
    assert named <= known


def test_every_link_of_the_readme_leads_somewhere() -> None:
    targets = re.findall(r"\]\(([^)#]+)\)", README)
    assert [target for target in targets if not target.startswith("http") and not (ROOT / target).exists()] == []
