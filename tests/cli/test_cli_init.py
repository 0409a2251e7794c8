"""`rageval init`: what it says of a store, and that the file it writes works whatever the store holds."""

import json
import re
import sqlite3
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rageval_dagster.cli.starter import quoted
from rageval_dagster.corpus.store import open_store
from rageval_dagster.settings import Settings, load_settings
from tests.cli.running import Run, refused
from tests.corpus.test_corpus_inspection import GERMAN, named
from tests.corpus.their_store import contents, their_chroma
from tests.pipeline.small_project import Project
from tests.pipeline.test_canaries import echoing

Add = Callable[..., None]


@pytest.fixture
def theirs(project: Project) -> Path:
    """The folder of a store that somebody else makes."""
    return project.folder / "their store"


@pytest.fixture
def add(theirs: Path) -> Add:
    def make(name: str, texts: Sequence[str], metadatas: Sequence[Any] | None = None, dimension: int = 8) -> None:
        with their_chroma(theirs) as client:
            collection = client.create_collection(name, embedding_function=None)
            ids = [f"{name}-{n}" for n in range(len(texts))]
            vectors = np.eye(len(texts), dimension, dtype=np.float32)
            if texts:
                collection.add(ids=ids, documents=texts, metadatas=metadatas, embeddings=vectors)

    return make


def written(folder: Path) -> Settings:
    return load_settings({"RAGEVAL_HOME": str(folder / "home")}, config_file=folder / "rageval.toml")


def test_from_a_store_to_a_file_that_works(project: Project, run: Run, theirs: Path, add: Add) -> None:
    rows = [{"file_name": f"{n // 4}.pdf", "created": "2024-05-01" if n % 2 else 1714564800} for n in range(12)]
    add("acme", [*named("Acme", 6), *named("Acme", 6, GERMAN)], rows)
    add("beta", named("Beta", 8), [{"url": f"u{n // 2}"} for n in range(8)])
    add("tmp_load", named("Temporary", 3))
    add("empty", [])
    before = contents(theirs)

    ended = run("init", "--chroma", theirs)
    assert ended.code == 0, ended.err
    assert "4 collections, 2 look like clients" in ended.out
    assert re.search(r"tmp_load +3 .* no: its name says 'tmp'", ended.out)
    assert "mixed types: number 50 %, text 50 %" in ended.out
    assert "the built-in dense retriever is off" in ended.out
    assert "knows English alone" in ended.out
    assert "rageval evaluate --client acme" in ended.out
    assert "harbour" not in ended.out
    assert contents(theirs) == before

    settings = written(project.folder)
    assert settings.embedded_chroma_path == theirs
    assert (settings.system, settings.document_field) == (("bm25",), "file_name")
    assert settings.for_client("beta").document_field == "url"
    store = open_store(settings)
    assert store.clients() == ["acme", "beta"]
    assert [name for name, _ in store.left_out()] == ["empty", "tmp_load"]
    assert {chunk.document_id for page in store.scan("beta") for chunk in page.chunks} == {"u0", "u1", "u2", "u3"}


def test_what_was_found_as_json(project: Project, run: Run, theirs: Path, add: Add) -> None:
    add("knowledge", named("Place", 40), [{"tenant": f"t{n // 10}", "url": f"u{n // 2}"} for n in range(40)])
    printed = json.loads(run("init", "--chroma", theirs, "--json").out)
    assert printed["clients"] == ["knowledge"]
    [collection] = printed["collections"]
    assert collection["shared_by"]["clients"] == 4
    assert collection["texts"]["languages"] == {"en": 1.0}
    assert printed["settings"]["defaults"]["client_field"] == "tenant"
    assert printed["file"] == str(project.folder / "rageval.toml")
    assert open_store(written(project.folder)).clients() == ["t0", "t1", "t2", "t3"]


def test_the_examples_can_be_taken_in(project: Project, run: Run, theirs: Path, add: Add) -> None:
    add("acme", named("Acme", 6))
    assert run("init", "--chroma", theirs).code == 0
    path = project.folder / "rageval.toml"
    text = re.sub(r"^#(?! )", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    path.write_text(text.replace('system = "bm25"', 'system = "assistant"', 1), encoding="utf-8")
    settings = written(project.folder)
    assert settings.system == ("assistant",)
    assert list(settings.systems) == ["assistant", "function", "recorded"]
    assert settings.llm == "forbidden"
    assert settings.for_client("acme").sample_size == 100


def test_a_file_that_is_there_stays_unless_forced(project: Project, run: Run, theirs: Path, add: Add) -> None:
    add("acme", named("Acme", 6))
    path = project.folder / "rageval.toml"
    path.write_text("[defaults]\nk = 7\n", encoding="utf-8")
    refused(run("init", "--chroma", theirs), "rageval.toml", "--force")
    assert path.read_text(encoding="utf-8") == "[defaults]\nk = 7\n"
    assert run("init", "--chroma", theirs, "--force").code == 0
    assert "chroma_path" in path.read_text(encoding="utf-8")
    assert [file.name for file in project.folder.iterdir() if "rageval.toml" in file.name] == ["rageval.toml"]


def test_settings_that_win_over_the_file_are_named(
    project: Project, run: Run, theirs: Path, add: Add, monkeypatch: pytest.MonkeyPatch
) -> None:
    add("acme", named("Acme", 6), [{"file": "a"}] * 6)
    (project.folder / ".env").write_text("RAGEVAL_DOCUMENT_FIELD=other\n", encoding="utf-8")
    monkeypatch.setenv("RAGEVAL_CHROMA_PATH", str(project.folder / "elsewhere"))
    ended = run("init", "--chroma", theirs)
    assert ended.code == 0, ended.err
    assert "RAGEVAL_DOCUMENT_FIELD is set in .env, which wins over document_field" in ended.out
    assert "names another store than this one" in ended.out


def test_no_secret_is_kept(project: Project, run: Run, theirs: Path, add: Add, monkeypatch: pytest.MonkeyPatch) -> None:
    add("acme", named("Acme", 6))
    for variable in ("RAGEVAL_CHROMA_TOKEN", "OPENAI_API_KEY", "RAGEVAL_ANSWER_API_KEY"):
        monkeypatch.setenv(variable, "topsecret")
    ended = run("init", "--chroma", theirs)
    assert ended.code == 0, ended.err
    assert "topsecret" not in ended.out + ended.err + (project.folder / "rageval.toml").read_text(encoding="utf-8")


@given(st.text(max_size=20))
@example("two\nlines \x00 \x7f \u202e # ] ' \" \\ 😀")
def test_any_name_is_quoted_and_every_character_of_it_can_be_seen(name: str) -> None:
    text = f"[clients.{quoted(name)}]\ndocument_field = {quoted(name)}  # comment\nnames = {quoted([name])}\n"
    assert tomllib.loads(text)["clients"][name] == {"document_field": name, "names": [name]}
    assert text.replace("\n", "").isprintable()


def test_hostile_fields_and_values(project: Project, run: Run, theirs: Path, add: Add) -> None:
    document, tenant = 'file "name"\n\\ # [x]', "customer \u202e'"
    rows = [{document: f"d{n // 5}", tenant: f'k"{n // 20}\n'} for n in range(60)]
    add("knowledge", named("Place", 60), rows)
    ended = run("init", "--chroma", theirs)
    assert ended.code == 0, ended.err
    assert "\u202e" not in ended.out
    settings = written(project.folder)
    assert (settings.client_field, settings.document_field) == (tenant, document)


def test_there_is_nothing_to_look_at(project: Project, run: Run, tmp_path: Path) -> None:
    refused(run("init"), "no Chroma store at", "rageval ingest")
    refused(run("init", "--chroma", tmp_path / "nowhere"), "nowhere", "--chroma")
    (tmp_path / "other").mkdir()
    with sqlite3.connect(tmp_path / "other" / "chroma.sqlite3") as database:
        database.execute("CREATE TABLE something (id)")
    refused(run("init", "--chroma", tmp_path / "other"), "cannot be read")
    assert not (tmp_path / "rageval.toml").exists()
    assert not (tmp_path / "nowhere").exists()


def test_an_address_that_is_no_chroma(project: Project, run: Run) -> None:
    with echoing(200) as somebody:
        refused(run("init", "--chroma", somebody), somebody, "Chroma server")
    refused(run("init", "--chroma", "http://127.0.0.1:1"), "no Chroma server answers at http://127.0.0.1:1")
    ended = run("init", "--chroma", "http://me:topsecret@127.0.0.1:1")
    refused(ended, "http(s)://host:port")
    assert "topsecret" not in ended.err
