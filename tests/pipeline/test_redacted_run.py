"""A client whose texts are redacted: what is stored, embedded, asked and answered of it."""

import json
import sys
from pathlib import Path

import dagster as dg
import pytest

from rageval_dagster.benchmark.importing import import_dataset
from rageval_dagster.corpus.store import open_store
from rageval_dagster.storage.benchmark import current_datasets, dataset_items
from rageval_dagster.storage.results import load_results
from tests.pipeline.small_project import Project, documents

ADDRESS, NUMBER = "ada.lovelace@example.org", "+49 30 7654321"
PERSONAL = (ADDRESS.encode(), NUMBER.encode())

THEIR_SYSTEM = f"""
asked = []

def answer(question, history, principal):
    asked.append([question, history, principal])
    contexts = ["The keeper is {ADDRESS}, who was appointed in 1950."]
    return {{"answer": "Ask {ADDRESS} or {NUMBER}.", "contexts": contexts}}
"""

HOOK = "def redact(text):\n    return text.replace({address!r}, {instead!r})\n"


@pytest.fixture
def contacts(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Documents, a question with all that belongs to it, and a system, each with what may not be kept."""
    monkeypatch.setenv("EVALUATION_AUTO_GENERATE_DATASETS", "false")
    monkeypatch.setattr(sys, "path", [str(project.folder), *sys.path])
    for module in ("assistant_with_contacts", "own_hook"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    (project.folder / "assistant_with_contacts.py").write_text(THEIR_SYSTEM, encoding="utf-8")
    rows = documents("castle", count=2)
    rows[0]["text"] += f"\n\nThe keeper of the archive is reached by {ADDRESS} or {NUMBER} on every day of the week."
    project.write("documents", rows)
    item = {
        "question": f"Who is {ADDRESS}?",
        "answers": [f"the keeper, {NUMBER}"],
        "evidence": [{"document_id": rows[0]["id"], "quote": f"The keeper of the archive is reached by {ADDRESS}"}],
        "history": [{"role": "user", "content": f"I called {NUMBER}"}],
        "principal": {"mail": ADDRESS, "groups": [NUMBER]},
        "checks": [{"name": "phone", "kind": "fact", "expect": NUMBER}],
    }
    (project.folder / "questions.jsonl").write_text(json.dumps(item), encoding="utf-8")
    return project


def configure(project: Project, redact: str) -> None:
    (project.folder / "rageval.toml").write_text(
        f"""
[clients.acme]
{redact}
system = "theirs"

[clients.acme.systems.theirs]
kind = "callable"
function = "assistant_with_contacts:answer"
version = "1"
""",
        encoding="utf-8",
    )


def prepare(project: Project) -> None:
    project.ingest("acme", [json.loads(line) for line in (project.folder / "documents.jsonl").open(encoding="utf-8")])
    (project.folder / "acme.jsonl").unlink()
    db, store = project.database(), open_store(project.settings)
    import_dataset(db, "acme", "own", project.folder / "questions.jsonl", "native", store=store)


def asked() -> list[object]:
    import assistant_with_contacts  # pyright: ignore[reportMissingImports]

    return assistant_with_contacts.asked


def files_with(project: Project, *words: bytes) -> list[Path]:
    files = [path for path in project.settings.home.rglob("*") if path.is_file()]
    return [path for path in files if any(word in path.read_bytes() for word in words)]


@pytest.mark.core
def test_nothing_personal_is_kept_embedded_asked_or_answered(contacts: Project) -> None:
    configure(contacts, 'redact = "pii"')
    prepare(contacts)
    report = contacts.report("acme", "command:one")
    # The user's own documents are theirs; nothing else has any of it.
    store = contacts.settings.embedded_chroma_path
    assert [path for path in files_with(contacts, *PERSONAL) if not path.is_relative_to(store)] == []
    assert files_with(contacts, *PERSONAL)
    assert (
        asked()
        == [
            [
                "Who is [email]?",
                [{"role": "user", "content": "I called [phone]"}],
                {"mail": "[email]", "groups": ["[phone]"]},
            ]
        ]
        * 3
    )
    [(_, result)] = load_results(contacts.database(), report.evaluation.id).values()
    assert result.answer is not None
    assert result.answer.text == "Ask [email] or [phone]."
    assert [hit.text for hit in result.hits] == ["The keeper is [email], who was appointed in 1950."]
    assert result.item.checks[0]["expect"] == "[phone]"
    # The redacted quote stands in a redacted chunk.
    assert result.relevant_chunks
    with dg.DagsterInstance.get() as instance:
        event = instance.get_latest_materialization_event(dg.AssetKey("corpus_version"))
        assert event is not None
        assert event.asset_materialization is not None
        assert event.asset_materialization.metadata["redacted"].value == 2


@pytest.mark.slow
def test_another_redaction_is_another_system_and_reuses_no_answers(contacts: Project) -> None:
    configure(contacts, "")
    prepare(contacts)
    plain = contacts.report("acme", "command:one")
    assert contacts.report("acme", "command:two").evaluation.versions == plain.evaluation.versions
    assert len(asked()) == 3, "three times in the first run, and no more"
    hook = contacts.folder / "own_hook.py"
    hook.write_text(HOOK.format(address=ADDRESS, instead="somebody"), encoding="utf-8")
    configure(contacts, 'redact = "own_hook:redact"')
    redacted = contacts.report("acme", "command:three")
    assert redacted.evaluation.versions.system != plain.evaluation.versions.system
    assert redacted.evaluation.versions.corpus != plain.evaluation.versions.corpus
    assert len(asked()) == 4


def test_a_hook_that_fails_stops_everything_before_anything_is_stored(contacts: Project) -> None:
    (contacts.folder / "own_hook.py").write_text("def redact(text):\n    raise ValueError(text)\n", encoding="utf-8")
    configure(contacts, "")
    contacts.ingest("acme", documents("castle", count=2))
    configure(contacts, 'redact = "own_hook:redact"')
    launched = contacts.evaluate("acme", "command:one")
    assert launched.failed_step == "corpus_version"
    assert "redact: own_hook:redact raised ValueError" in (launched.message or "")
    db, store = contacts.database(), open_store(contacts.settings)
    with pytest.raises(Exception, match="own_hook:redact raised ValueError"):
        import_dataset(db, "acme", "own", contacts.folder / "questions.jsonl", "native", store=store)
    assert [dataset_items(db, dataset.id) for dataset in current_datasets(db, "acme")] == []
    (contacts.folder / "acme.jsonl").unlink()
    store_path = contacts.settings.embedded_chroma_path
    assert [path for path in files_with(contacts, b"quinzical") if not path.is_relative_to(store_path)] == []
