"""Names and contents that mean harm: refused clearly, or taken for what they are, all the way to the screen."""

import json
import sqlite3
import unicodedata

import dagster as dg
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rageval_dagster.assets.partitions import CLIENTS_PARTITIONS
from rageval_dagster.cli.console import print_json, print_table, say
from rageval_dagster.corpus.names import is_made_key, partition_key
from rageval_dagster.errors import RagevalError
from rageval_dagster.resources import HistoryDatabase
from rageval_dagster.storage.clients import check_name, ensure_client
from rageval_dagster.storage.evaluations import list_evaluations
from rageval_dagster.storage.tables import CLIENT_ID_LENGTH
from rageval_dagster.storage.views import read_view, view_preview
from rageval_dagster.text import TURNS_DIRECTION
from tests.cli.running import Run, refused
from tests.pipeline.looks import tick
from tests.pipeline.small_project import Project, documents

MARKS = "../../x'; DROP TABLE clients;-- {client} {0} %s <script>alert(1)</script>|`x` **b** [l](http://x)"
HOSTILE = f"a...b {MARKS} שלום 🦊".ljust(CLIENT_ID_LENGTH, "🦊")
ESCAPES = "\x1b]0;owned\x07 \x1b[2J \x9b31m \u202ednuorg\u202c"


def can_be_a_client(name: str) -> bool:
    try:
        check_name("client name", name, CLIENT_ID_LENGTH)
    except RagevalError:
        return False
    return True


_names = st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1, max_size=40).filter(can_be_a_client)


@given(_names, st.one_of(_names, st.just("a...b")))
@example("a...b", partition_key("a...b"))
@example("a-b", "a...b")
def test_every_client_has_a_partition_of_its_own(one: str, other: str) -> None:
    for name in (one, other):
        assert "..." not in partition_key(name)
        assert partition_key(name).isprintable()
        assert is_made_key(partition_key(name)) == (partition_key(name) != name)
    assert (partition_key(one) == partition_key(other)) == (one == other)


def test_a_partition_tells_its_client(project: Project) -> None:
    for name in ("acme", "a...b", partition_key("a...b"), "🦊" * CLIENT_ID_LENGTH):
        ensure_client(project.database(), name)
        assert HistoryDatabase().client_of(partition_key(name)) == name
    with pytest.raises(RagevalError, match="no client has the partition 'gone~0123456789ab'"):
        HistoryDatabase().client_of("gone~0123456789ab")


@pytest.mark.parametrize(
    "name", ["a\u202eb", "\u2066acme\u2069", "acme\u200f", "a\nb", "a\x1b[2Jb", "\ud800", "x" * 201, " acme", ""]
)
def test_a_name_that_nobody_can_have_leaves_nothing_behind(project: Project, run: Run, name: str) -> None:
    path = project.write("documents", documents("castle", count=1))
    ended = run("ingest", path, "--client", name)
    refused(ended, "client name")
    assert name in ("", " acme") or name not in ended.err
    assert not (project.settings.home / "chroma").exists()


def test_letters_from_right_to_left_are_fine() -> None:
    check_name("client name", "שלום עולם", CLIENT_ID_LENGTH)
    check_name("client name", "مرحبا ۱۲۳", CLIENT_ID_LENGTH)


def test_what_a_terminal_obeys_is_not_printed_and_json_keeps_it(capfd: pytest.CaptureFixture[str]) -> None:
    print_table([{"text": ESCAPES + "\nnext line"}], ["text"], "")
    say(ESCAPES)
    print_json({"text": ESCAPES})
    printed = capfd.readouterr()
    for each in printed.out + printed.err:
        assert each == "\n" or (unicodedata.category(each) != "Cc" and not TURNS_DIRECTION.match(each))
    assert json.loads(printed.out[printed.out.index("{") :]) == {"text": ESCAPES}


def test_a_name_is_no_markup_in_dagsters_metadata(project: Project) -> None:
    ensure_client(project.database(), HOSTILE)
    markdown = view_preview(project.database(), "fleet_overview").markdown
    assert len({line.count("|") for line in markdown.splitlines()}) == 1
    assert not [mark for mark in ("<script>", "](http", "**b**", "`x`") if mark in markdown]


def hostile_documents() -> list[dict[str, str]]:
    rows = documents("castle", count=4)
    for number, (row, document_id) in enumerate(
        zip(rows, ["../../../etc/passwd", MARKS, "\u200fمرحبا", "{question}"], strict=True)
    ):
        row["id"] = document_id
        row["text"] += f"\n\nThe motto of place {number} is written as {MARKS} {ESCAPES} on its gate."
    rows.append({"id": "large", "title": "All", "text": "The hall was built in stages. " * 35_000})
    return rows


@pytest.mark.slow
def test_all_of_it_is_evaluated_and_shown(project: Project, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVALUATION_DEFAULT_SAMPLE_SIZE", "3")
    around = set(project.folder.parent.iterdir())
    path = project.write("documents", hostile_documents())
    assert run("ingest", path, "--client", HOSTILE, "--chunk-size", "0").code == 0
    question = f"What is the motto {MARKS} {ESCAPES}?"
    item = {
        "question": question,
        "answers": [f"{MARKS} {ESCAPES}"],
        "evidence": [{"document_id": MARKS, "quote": "The motto of place 1"}],
        "category": f"<b>{ESCAPES}</b>",
        "history": [{"role": "user", "content": ESCAPES}],
    }
    questions = project.folder / "questions.jsonl"
    questions.write_text(json.dumps(item), encoding="utf-8")
    assert run("datasets", "import", questions, "--client", HOSTILE, "--name", "own").code == 0
    assert project.evaluate(HOSTILE, "command:one", systems=["bm25"]).message is None
    evaluations = list_evaluations(project.database(), client_id=HOSTILE)
    assert {evaluation.status for evaluation in evaluations} == {"complete"}
    numbers = [str(evaluation.id) for evaluation in evaluations]
    datasets = [str(evaluation.dataset_id) for evaluation in evaluations]
    for command in [
        ["status"],
        ["clients", "list"],
        ["runs", "list"],
        ["datasets", "list"],
        *(["runs", "show", number] for number in numbers),
        *(["datasets", "show", number] for number in datasets),
    ]:
        for arguments in (command, [*command, "--json"]):
            ended = run(*arguments)
            assert ended.code == 0, arguments
            assert [each for each in ended.out if unicodedata.category(each) == "Cc" and each != "\n"] == []
            assert "\u202e" not in ended.out
    assert [row["client_id"] for row in json.loads(run("status", "--json").out)] == [HOSTILE]
    shown = [json.loads(run("datasets", "show", number, "--json").out)["items"] for number in datasets]
    assert question in [item["question"] for items in shown for item in items]
    # Nothing of it became a path, a statement, a column or an element.
    assert set(project.folder.parent.iterdir()) == around
    with sqlite3.connect(project.settings.home / "rageval.sqlite3") as connection:
        assert connection.execute("SELECT client_id FROM clients").fetchall() == [(HOSTILE,)]
    with dg.DagsterInstance.get() as instance:
        assert instance.get_dynamic_partitions(CLIENTS_PARTITIONS) == [partition_key(HOSTILE)]


def test_a_client_that_is_refused_stops_no_other(project: Project, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    import chromadb

    monkeypatch.setenv("RAGEVAL_CLIENT_FIELD", "customer")
    project.settings.ensure_home()
    collection = chromadb.PersistentClient(str(project.settings.embedded_chroma_path)).create_collection("shared")
    names = ["good", "bad\nname", "a\u202eb", "a...b"]
    collection.add(
        ids=[f"c{number}" for number in range(4)],
        documents=["The gate was built in 1801 by the river."] * 4,
        embeddings=[[1.0, float(number)] for number in range(4)],
        metadatas=[{"customer": name} for name in names],
    )
    with dg.DagsterInstance.get() as instance:
        asked = [request.partition_key for request in tick(instance).run_requests or []]
    assert asked == [partition_key("a...b"), "good"]
    ended = run("evaluate", "--all", "--dry-run")
    assert ended.err.count("left out:") == 2
    assert "'bad\\nname'" in ended.err
    assert "'a\\u202eb'" in ended.err
    assert [row["client_id"] for row in read_view(project.database(), "fleet_overview")] == ["a...b", "good"]
