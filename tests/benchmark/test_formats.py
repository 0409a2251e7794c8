"""Dataset files: every field survives a round trip, and a bad row is refused by file, row and field."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from item_strategies import item_lists

from rageval_dagster.benchmark.formats import read_dataset, write_dataset
from rageval_dagster.errors import DatasetError
from rageval_dagster.records import Evidence, Item

FULL = {
    "question": "Who built the Fram?",
    "answers": ["Colin Archer"],
    "evidence": [{"document_id": "ships.md", "page": 3, "quote": "built by Colin Archer"}, {"document_id": "towns.md"}],
    "category": "entity_specific",
    "answerable": True,
    "origin": "human",
    "human_verified": True,
    "history": [{"role": "user", "content": "Tell me about ships."}],
    "principal": {"groups": ["staff"], "level": 2},
    "checks": [
        {"name": "builder", "kind": "fact", "expect": "Archer", "any_of": ["Colin Archer"], "pattern": "Ar.her"},
        {"name": "year", "kind": "number", "expect": 1892, "forbid": ["cannot say"]},
        {"name": "rules", "kind": "list", "expect": ["C-1", "C-2"]},
        {"name": "sum", "kind": "calculation", "expect": "604.00", "intermediates": {"rate": 0.305}},
    ],
}


def native_file(folder: Path, *rows: object) -> Path:
    path = folder / "items.jsonl"
    path.write_text(
        "".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows), encoding="utf-8"
    )
    return path


def beir_folder(folder: Path, queries: list[dict], qrels: str, qrels_name: str = "qrels.tsv") -> Path:
    (folder / qrels_name).parent.mkdir(exist_ok=True)
    (folder / "queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in queries), encoding="utf-8")
    (folder / qrels_name).write_text(qrels, encoding="utf-8")
    return folder


@settings(max_examples=50, deadline=None)
@given(item_lists)
def test_native_files_give_back_what_was_written(tmp_path_factory: pytest.TempPathFactory, written: list[Item]) -> None:
    path = tmp_path_factory.mktemp("native") / "items.jsonl"
    write_dataset(written, path)
    report = read_dataset(path)
    assert report.refused == []
    assert report.items == written
    assert [item.item_id for item in report.items] == [item.item_id for item in written]


@settings(max_examples=50, deadline=None)
@given(item_lists)
def test_beir_folders_give_back_questions_answers_and_documents(
    tmp_path_factory: pytest.TempPathFactory, written: list[Item]
) -> None:
    folder = tmp_path_factory.mktemp("beir")
    documents = [evidence.document_id for item in written for evidence in item.evidence]
    if any(character in document for document in documents for character in "\t\r\n"):
        with pytest.raises(DatasetError, match="tab or line break"):
            write_dataset(written, folder, "beir")
        return
    write_dataset(written, folder, "beir")
    report = read_dataset(folder, "beir")
    expected = {
        (item.question, item.answers, item.answerable, tuple(dict.fromkeys(e.document_id for e in item.evidence)))
        for item in written
    }
    found = {
        (item.question, item.answers, item.answerable, tuple(e.document_id for e in item.evidence))
        for item in report.items
    }
    assert found == expected
    assert all(refusal.reason.startswith("is the same item") for refusal in report.refused)


def test_every_field_is_read(tmp_path: Path) -> None:
    full, bare = read_dataset(native_file(tmp_path, FULL, {"question": "Why?", "principal": None})).items
    assert full.to_dict() == {**FULL, "item_id": full.item_id}
    assert bare == Item("Why?")


@pytest.mark.parametrize(
    ("change", "field", "reason"),
    [
        ({"question": None}, "question", "missing"),
        ({"question": "  "}, "question", "empty"),
        ({"answer": "Archer"}, "answer", "is not a field"),
        ({"answers": "Archer"}, "answers", "takes a list, not a string"),
        ({"evidence": [{"quote": "x"}]}, "evidence[0].document_id", "missing"),
        ({"evidence": [{"document_id": "d", "page": 0}]}, "evidence[0].page", "at least 1"),
        ({"evidence": [{"document_id": "d", "qoute": "x"}]}, "evidence[0].qoute", "is not a field"),
        ({"answerable": "yes"}, "answerable", "true or false"),
        ({"history": [{"role": "user"}]}, "history[0].content", "missing"),
        ({"checks": [{"name": "n", "kind": "regex", "expect": "x"}]}, "checks[0].kind", "list, fact"),
        ({"checks": [{"name": "n", "kind": "fact"}]}, "checks[0].expect", "missing"),
        ({"checks": [{"name": "n", "kind": "fact", "pattern": "("}]}, "checks[0].pattern", "regular expression"),
        ({"checks": [{"name": "n", "kind": "number", "expect": ["thirty"]}]}, "checks[0].expect[0]", "digits"),
        ({"checks": FULL["checks"][:1] * 2}, "checks[1].name", "names two"),
        ({"question": "NUL \0"}, "question", "NUL"),
        ({"principal": {"half": ["\ud800"]}}, "principal", "surrogate"),
    ],
)
def test_a_bad_row_is_refused_and_the_rest_goes_on(tmp_path: Path, change: dict, field: str, reason: str) -> None:
    report = read_dataset(native_file(tmp_path, {"question": "First?"}, {**FULL, **change}, FULL))
    assert [item.question for item in report.items] == ["First?", FULL["question"]]
    [refusal] = report.refused
    assert (refusal.file, refusal.row, refusal.field) == ("items.jsonl", 2, field)
    assert reason in refusal.reason
    assert str(refusal).startswith(f"items.jsonl, row 2, field {field}: ")
    assert refusal.to_dict()["row"] == 2


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[]",
        '"text"',
        '{"question": "a", "question": "b"}',
        '{"question": "a", "principal": {"n": NaN}}',
        '{"question": "a", "principal": {"n": 1e999}}',
        "[" * 100_000,
        '{"principal": ' + "9" * 5000 + "}",
    ],
)
def test_a_line_that_is_no_object_is_refused(tmp_path: Path, line: str) -> None:
    report = read_dataset(native_file(tmp_path, FULL, line))
    assert len(report.items) == 1
    assert [refusal.row for refusal in report.refused] == [2]


def test_bytes_that_are_no_text_are_refused_and_blank_lines_and_marks_are_not(tmp_path: Path) -> None:
    path = tmp_path / "items.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"question": "a?"}\r\n\r\n{"question": "\xff"}\n{"question": "b\xe2\x80\xa8?"}')
    report = read_dataset(path)
    assert [item.question for item in report.items] == ["a?", "b\u2028?"]
    assert [(refusal.row, refusal.reason) for refusal in report.refused] == [(3, "is not UTF-8")]


def test_an_item_that_stands_twice_is_refused_once(tmp_path: Path) -> None:
    report = read_dataset(native_file(tmp_path, FULL, {**FULL, "category": "temporal"}))
    assert len(report.items) == 1
    assert [str(refusal) for refusal in report.refused] == ["items.jsonl, row 2: is the same item as row 1"]


@pytest.mark.parametrize(
    ("name", "format_name", "words"),
    [
        ("empty.jsonl", "native", r"empty\.jsonl is empty$"),
        ("absent", "native", "absent does not exist$"),
        ("absent", "beir", "absent does not exist$"),
        (".", "native", "is a folder"),
        ("empty.jsonl", "beir", "is not a folder"),
        (".", "beir", r"neither qrels\.tsv nor qrels/test\.tsv"),
        ("half", "beir", r"queries\.jsonl cannot be read"),
        ("empty.jsonl", "xml", "unknown format 'xml'; known: native, beir, csv"),
    ],
)
def test_unusable_files_are_one_clear_line(tmp_path: Path, name: str, format_name: str, words: str) -> None:
    (tmp_path / "empty.jsonl").write_text("\n \n")
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / "qrels.tsv").write_text("q\td\t1\n")
    with pytest.raises(DatasetError, match=words):
        read_dataset(tmp_path / name, format_name)
    with pytest.raises(DatasetError, match="cannot be written"):
        write_dataset([Item("a?")], tmp_path / "empty.jsonl" / "below" / "items.jsonl")


QUERIES = [
    {"_id": "q1", "text": "Who built the Fram?", "answers": ["Colin Archer"], "metadata": {"from": "elsewhere"}},
    {"id": 2, "text": "Who sank the Fram?", "is_impossible": True},
    {"id": "q3", "text": "Who built the Maud?"},
]


@pytest.mark.parametrize("header", ["", "query-id\tcorpus-id\tscore\n"])
def test_beir_judgements_become_evidence(tmp_path: Path, header: str) -> None:
    report = read_dataset(beir_folder(tmp_path, QUERIES, f"{header}q1\td2\t2\nq1\td1\t1\nq1\td3\t0\n"), "beir")
    assert report.refused == []
    assert report.items == [
        Item("Who built the Fram?", ("Colin Archer",), (Evidence("d2"), Evidence("d1"))),
        Item("Who sank the Fram?", answerable=False),
        Item("Who built the Maud?"),
    ]


def test_queries_of_another_beir_split_are_left_out_and_counted(tmp_path: Path) -> None:
    report = read_dataset(beir_folder(tmp_path, QUERIES, "q1\td1\t1\n", "qrels/test.tsv"), "beir")
    assert [item.question for item in report.items] == ["Who built the Fram?", "Who sank the Fram?"]
    assert report.left_out == 1


def test_bad_beir_rows_are_refused_and_the_rest_goes_on(tmp_path: Path) -> None:
    queries = [*QUERIES, {"text": "No id?"}, {"_id": "q1", "text": "Again?"}, {"_id": "q5", "text": ""}]
    qrels = "q1\td1\t1\nnobody\td1\t1\nq1\td1\n\nq1\t \t1\nq1\td2\tmuch\nq1\td1\t0\nq3\td9\t1\n"
    report = read_dataset(beir_folder(tmp_path, queries, qrels), "beir")
    assert [item.document_ids for item in report.items] == [{"d1"}, set(), {"d9"}]
    assert [(refusal.file, refusal.row, refusal.field) for refusal in report.refused] == [
        ("queries.jsonl", 4, "_id"),
        ("queries.jsonl", 5, "_id"),
        ("queries.jsonl", 6, "text"),
        ("qrels.tsv", 2, "query-id"),
        ("qrels.tsv", 3, None),
        ("qrels.tsv", 5, "corpus-id"),
        ("qrels.tsv", 6, "score"),
        ("qrels.tsv", 7, "score"),
    ]


@pytest.mark.parametrize(("name", "items", "unanswerable"), [("clapnq", 600, 300), ("xquad_en", 1188, 0)])
def test_human_sets_are_read(name: str, items: int, unanswerable: int) -> None:
    folder = Path(__file__).parents[2] / os.environ.get("RAGEVAL_DATA_DIR", "../shared/data") / name
    if not folder.exists():
        pytest.skip(f"no data at {folder}")
    report = read_dataset(folder, "beir")
    assert len(report.items) == items
    assert sum(not item.answerable for item in report.items) == unanswerable
    assert all(bool(item.evidence) == item.answerable for item in report.items)
    assert all(refusal.reason.startswith("is the same item") for refusal in report.refused)
