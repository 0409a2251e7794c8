"""From a store and a RAG system that are somebody else's to first results, with the commands of the README alone."""

import csv
import json
from pathlib import Path

import pytest

from rageval_dagster.embedding.models import load_embedder
from rageval_dagster.settings import DEFAULT_EMBEDDING_MODEL, load_settings
from tests.cli.running import Run
from tests.corpus.their_store import contents, replace_collection, their_chroma
from tests.pipeline.other_rag import TOKEN, OtherRag, serving
from tests.pipeline.small_project import Project, documents

THEIR_SYSTEM = """
[defaults.systems.assistant]
kind = "http"
url = "{url}"
auth_env = "ASSISTANT_TOKEN"
request = {{ q = "{{question}}", top = "{{k}}" }}

[defaults.systems.assistant.response]
answer = "result.text"
contexts = "result.passages"
context = {{ text = "body", id = "ref", document_id = "source" }}
"""


def defining(topic: str) -> list[dict[str, str]]:
    """The documents of a topic, each with an entry, so that a question can be made of it by rule."""
    return [
        {
            **row,
            "text": f"{row['text']}\n\n{row['id']}_key\n\nOpens the northern gate of {row['title'][4:]} at night.",
        }
        for row in documents(topic)
    ]


def their_store(folder: Path, topics: tuple[str, ...]) -> None:
    embedder = load_embedder(DEFAULT_EMBEDDING_MODEL, load_settings({}, folder / "none.env"))
    with their_chroma(folder) as client:
        for topic in topics:
            rows = defining(topic)
            texts = [part for row in rows for part in row["text"].split("\n\n", 2)]
            files = [f"{row['id']}.md" for row in rows for _ in row["text"].split("\n\n", 2)]
            ids = [f"{number:08x}" for number in range(len(texts))]
            metadatas = [{"file_name": file, "len": len(text)} for file, text in zip(files, texts, strict=True)]
            replace_collection(client, f"kb_{topic}", ids, texts, embedder.encode(texts), metadatas)


def logged_questions(path: Path) -> None:
    rows = documents("lighthouse")
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["asked_at", "text"])
        writer.writerows([["2026-11-01", f"When may visitors enter the {row['title'][4:]}?"] for row in rows])
        writer.writerow(["2026-11-02", "  "])


@pytest.mark.slow
def test_from_init_to_scores(project: Project, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    store = project.folder / "theirs"
    their_store(store, ("lighthouse", "fortress"))
    before = contents(store)
    monkeypatch.setenv("ASSISTANT_TOKEN", TOKEN)
    logged_questions(project.folder / "log.csv")

    began = run("init", "--chroma", store)
    assert began.code == 0, began.err
    assert "file_name" in began.out, "the field that names the document is found"
    listed = json.loads(run("clients", "list", "--json").out)
    assert "kb_lighthouse" in json.dumps(listed)
    with serving(OtherRag(defining("lighthouse"))) as assistant:
        written = Path("rageval.toml").read_text(encoding="utf-8")
        named = written.replace('\nsystem = "dense"', '\nsystem = "assistant"')
        assert named != written
        Path("rageval.toml").write_text(named + THEIR_SYSTEM.format(url=assistant.url), encoding="utf-8")
        checked = run("doctor")
        assert checked.code == 0, checked.out
        imported = run(
            *("datasets", "import", "log.csv", "--client", "kb_lighthouse"),
            *("--format", "csv", "--map", "question=text"),
        )
        assert imported.code == 4, imported.err
        assert "row 10" in imported.err
        assert "text" in imported.err
        ended = run("evaluate", "--client", "kb_lighthouse", "--json")
        assert ended.code == 0, ended.err
    rows = {row["dataset_id"]: row for row in map(json.loads, ended.out.splitlines())}
    assert {row["system"] for row in rows.values()} == {"assistant"}
    assert not any(row["reference_system"] for row in rows.values())
    logged, synthetic = (rows[number]["metrics"] for number in sorted(rows))
    # Without reference and evidence: what needs neither is measured, and nothing else is made up.
    assert logged["embedding.question_alignment"]["n_scored"] == 8
    assert logged["retrieval.mrr"]["n_scored"] == 0
    assert logged["lexical.token_f1"]["n_scored"] == 0
    assert synthetic["retrieval.mrr"]["n_scored"] == 8
    assert synthetic["retrieval.mrr"]["mean"] > 0.7
    assert "kb_lighthouse" in run("status").out
    assert contents(store) == before
