"""Stores that others keep: ids that change every night, chunks cut anew, clients in one pot; and never written to."""

import uuid
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import sqlalchemy as sa

from demo.documents import python_language
from rageval_dagster.corpus.readers import Document, Section
from rageval_dagster.corpus.splitting import ChunkSize, split_document
from rageval_dagster.corpus.store import open_store
from rageval_dagster.embedding.models import load_embedder
from rageval_dagster.storage.benchmark import dataset_items
from rageval_dagster.storage.evaluations import Evaluation, list_evaluations
from rageval_dagster.storage.results import load_results
from rageval_dagster.storage.tables import qa_candidates
from rageval_dagster.storage.views import read_view
from tests.cli.running import Run
from tests.corpus.conftest import new_server_database
from tests.corpus.reading_proxy import reading_proxy
from tests.corpus.their_store import contents, replace_collection, server_chroma, their_chroma
from tests.pipeline.looks import tick
from tests.pipeline.small_project import Project, documents

TOPICS = ("assert", "with", "exceptions")

GERMAN = [
    f"Der Leuchtturm von {place} wurde {1801 + 7 * number} von {name} gegründet. Er steht auf einer Klippe über dem "
    f"alten Hafen, und seine {number + 3} Türme sind von der See aus zu sehen. Besucher dürfen ihn ab {8 + number} Uhr "
    f"betreten. Eine Karte kostet am Tor beim Fluss {12 + number} Kronen.\n\n"
    f"tor_{place.lower()}\n\nÖffnet das nördliche Tor des Leuchtturms von {place} bei Nacht für den Wärter."
    for number, (place, name) in enumerate([("Husum", "Theodor Woldsen"), ("Wismar", "Anna Stralendorff")])
]

Put = Callable[..., None]


@pytest.fixture
def their_folder(project: Project, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a store that is not ours, which the project evaluates."""
    path = project.folder / "theirs"
    project.environment["RAGEVAL_CHROMA_PATH"] = str(path)
    monkeypatch.setenv("RAGEVAL_CHROMA_PATH", str(path))
    return path


@pytest.fixture
def put(project: Project) -> Put:
    """Makes a collection hold these chunks (id, text, metadata) and no others, with the vectors of the usual model."""
    embedder = load_embedder(project.settings.embedding_model, project.settings)
    known: dict[str, Any] = {}

    def write(client: Any, collection: str, chunks: Sequence[tuple[str, str, Any]]) -> None:
        ids, texts, metadatas = zip(*chunks, strict=True)
        new = [text for text in texts if text not in known]
        known.update(zip(new, embedder.encode(new), strict=True))
        replace_collection(client, collection, ids, texts, [known[text] for text in texts], metadatas)

    return write


def defining(name: str) -> str:
    """What a document defines, so that a question can be made of it by rule."""
    return f"\n\n{name}_key\n\nOpens the northern gate of {name} at night for its keeper and nobody else."


def pieces(size: int, overlap: int) -> Iterator[tuple[str, str]]:
    """Topic and text of each chunk of real prose, and of what each document defines."""
    for row in python_language():
        if row["id"] in TOPICS:
            document = Document([Section(row["text"] + defining(row["id"]))])
            for chunk in split_document("theirs", row["id"], document, ChunkSize(size, overlap)):
                yield row["id"], chunk.text


def questions(project: Project) -> list[Any]:
    """The accepted candidates; new chunks may be asked about again, and give the same ones."""
    with project.database().connect() as connection:
        query = (
            sa.select(qa_candidates)
            .where(qa_candidates.c.status == "accepted")
            .order_by(qa_candidates.c.client_id, qa_candidates.c.candidate_id)
        )
        return list(connection.execute(query))


def evaluated(project: Project, client: str, trigger: str) -> Evaluation:
    report = project.report(client, trigger)
    assert report.evaluation.status == "complete"
    assert report.evaluation.error_count == 0
    assert report.summaries["retrieval.recall_at_5"].n_scored == report.evaluation.item_count
    return report.evaluation


@pytest.mark.slow
def test_new_ids_and_new_cuts_keep_questions_and_history(project: Project, their_folder: Path, put: Put) -> None:
    """Two clients, one without a field for the document: all ids renewed, then split at 400 instead of 800."""

    def fill(size: int, name: Callable[[int], str]) -> None:
        with their_chroma(their_folder) as client:
            chunks = list(enumerate(pieces(size, size // 8)))
            put(client, "named", [(name(n), text, {"document_id": topic}) for n, (topic, text) in chunks])
            put(client, "loose", [(name(n), text, None) for n, (_, text) in chunks])

    nights: dict[str, dict[str, Evaluation]] = {"named": {}, "loose": {}}

    def evaluate_all(night: str) -> list[Any]:
        for client, seen in nights.items():
            seen[night] = evaluated(project, client, f"schedule:{night}")
        return questions(project)

    fill(800, str)
    written = evaluate_all("first")
    assert {row.client_id for row in written} == {"named", "loose"}
    fill(800, lambda _: str(uuid.uuid4()))
    assert evaluate_all("renewed") == written
    fill(400, str)  # the numbers of the first night, for other chunks
    assert evaluate_all("split") == written
    db = project.database()
    for client, seen in nights.items():
        history = [seen["split"], seen["renewed"], seen["first"]]
        assert list_evaluations(db, client, status="complete") == history
        assert len({each.versions.corpus for each in history}) == 3
        assert len({(each.dataset_id, each.item_count) for each in history}) == 1
        assert len({(each.versions.dataset, each.versions.system) for each in history}) == 1
        assert seen["renewed"].headline == seen["first"].headline
        changes = read_view(db, "run_against_previous", client_id=client)
        assert {(row["evaluation_id"], row["previous_evaluation_id"]) for row in changes} == {
            (new.id, old.id) for new, old in pairwise(history)
        }
        assert {(row["corpus_changed"], row["system_changed"]) for row in changes} == {(1, 0)}


@pytest.mark.slow
def test_a_mixed_store_is_evaluated_and_its_files_stay_as_they_are(
    project: Project, their_folder: Path, put: Put, run: Run
) -> None:
    """German and English; every command but `ingest` and `demo`, and the sensor."""
    english = [row["text"] + defining(row["id"]) for row in documents("castle", count=3)]
    with their_chroma(their_folder) as client:
        mixed = [
            (f"{number}/ä", text, {"source": f"s{number}.html"}) for number, text in enumerate([*GERMAN, *english])
        ]
        put(client, "wiki", [*mixed, ("empty", " \n", None), ("note", "Seite 1", {"source": 7})])
    before = contents(their_folder)
    for command in ("init", "doctor", "datasets generate --client wiki", "evaluate --client wiki"):
        assert run(*command.split()).code == 0, command
    [evaluation] = list_evaluations(project.database(), "wiki", status="complete")
    asked = dataset_items(project.database(), evaluation.dataset_id)
    languages = {evidence.document_id in ("s0.html", "s1.html") for item in asked for evidence in item.evidence}
    assert languages == {True, False}
    with dg.DagsterInstance.get() as instance:
        tick(instance)
    for command in ("status", "runs list", "clients list", "forget --client wiki --yes"):
        assert run(*command.split()).code == 0, command
    assert contents(their_folder) == before


@pytest.mark.slow
def test_clients_in_one_pot_are_kept_apart_behind_a_server_that_takes_no_writes(
    project: Project, put: Put, chroma_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fifty clients, named by text and by numbers of both kinds, with chunks that are nobody's."""

    def names(number: int) -> list[Any]:
        return [str(number), number, float(number)] if number % 2 else [f"client {number}"]

    database = new_server_database(chroma_server)
    places = [row["text"] + defining(row["id"]) for row in documents("mill")]
    chunks = [
        (f"{number}-{at}", text, {"tenant": names(number)[at % len(names(number))]})
        for number in range(50)
        for at, text in enumerate(places if number in (7, 8) else places[number % 8 : number % 8 + 1])
    ]
    nobodys = [("a", places[0], None), ("b", places[0], {"tenant": True}), ("c", places[0], {"tenant": ["7"]})]
    put(server_chroma(chroma_server, database), "pot", [*chunks, *nobodys])
    with reading_proxy(chroma_server) as proxy:
        there = {"RAGEVAL_CHROMA_URL": proxy.url, "RAGEVAL_CHROMA_DATABASE": database}
        project = project.given(monkeypatch, **there, RAGEVAL_CLIENT_FIELD="tenant")
        store = open_store(project.settings)
        assert len(store.clients()) == 50
        assert store.without_client() == 3
        for client, number in (("7", 7), ("client 8", 8)):
            assert store.count(client) == 8
            evaluation = evaluated(project, client, "command:one")
            asked = dataset_items(project.database(), evaluation.dataset_id)
            assert {evidence.document_id.partition("-")[0] for item in asked for evidence in item.evidence} == {
                str(number)
            }
            results = load_results(project.database(), evaluation.id).values()
            hits = [hit for _, result in results for hit in result.hits]
            assert hits
            assert {hit.chunk_id.partition("-")[0] for hit in hits} == {str(number)}
    assert proxy.passed
    assert proxy.refused == []
