"""The JSON formats of other tools: the shapes their documentation shows, and whatever else is found in such files."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from item_strategies import item_lists

from rageval_dagster.benchmark.formats import FORMATS, ReadOptions, read_dataset, write_dataset
from rageval_dagster.errors import DatasetError
from rageval_dagster.records import Evidence, Item

QUESTION = "Which vector databases are supported?"


def json_file(folder: Path, value: object, name: str = "questions.json") -> Path:
    path = folder / name
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def lines_file(folder: Path, *rows: object) -> Path:
    path = folder / "questions.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


BOTH = ("Chroma and Milvus", "Milvus and Chroma")
CASE = {"query": QUESTION, "expected_answer": "Two.", "expected_sources": ["stores.md"], "category": "temporal"}
CHECKS = ({"name": "difference", "kind": "number", "expect": 36},)
SHAPES = {
    "recorded": (
        [{"question": QUESTION, "reference_answer": "Two.", "answer": "Three.", "contexts": ["a", "b"]}],
        Item(QUESTION, ("Two.",)),
    ),
    "ai4rag": (
        [{"question": QUESTION, "correct_answers": [*BOTH], "correct_answer_document_ids": ["stores.md", "start.md"]}],
        Item(QUESTION, BOTH, evidence=(Evidence("stores.md"), Evidence("start.md"))),
    ),
    "test-cases": ({"test_cases": [CASE]}, Item(QUESTION, ("Two.",), (Evidence("stores.md"),), category="temporal")),
    "qa-pairs": (
        [{"question": QUESTION, "answer": "Two.", "chunk_id": "stores.md::0033", "document_id": "stores.md"}],
        Item(QUESTION, ("Two.",), (Evidence("stores.md"),)),
    ),
    "ragas": (
        [{"user_input": QUESTION, "response": "Three.", "retrieved_contexts": ["a"], "reference": "Two."}],
        Item(QUESTION, ("Two.",)),
    ),
    "judged": (
        [{"id": 7, "question": QUESTION, "contexts": ["a"], "answer": "Three.", "gold_answers": ["Two."], "label": 0}],
        Item(QUESTION, ("Two.",)),
    ),
    "expected-outputs": (
        [{"question_id": "EF_2", "question": QUESTION, "expected_output": "Yes, by 36.", "checks": [*CHECKS]}],
        Item(QUESTION, ("Yes, by 36.",), checks=CHECKS),
    ),
    "test-results": (
        {"Test_1": {"query": QUESTION, "answer": "Two.", "document": {"stores.pdf": [3, 4], "start.pdf": []}}},
        Item(QUESTION, ("Two.",), (Evidence("stores.pdf", 3), Evidence("stores.pdf", 4), Evidence("start.pdf"))),
    ),
}


@pytest.mark.parametrize("format_name", list(SHAPES))
def test_the_documented_shape_is_read(tmp_path: Path, format_name: str) -> None:
    content, expected = SHAPES[format_name]
    report = read_dataset(json_file(tmp_path, content), format_name)
    assert report.items == [expected]
    assert report.refused == []


@pytest.mark.parametrize("format_name", [name for name in SHAPES if isinstance(SHAPES[name][0], list)])
def test_a_line_each_is_read_too(tmp_path: Path, format_name: str) -> None:
    content, expected = SHAPES[format_name]
    assert isinstance(content, list)
    path = lines_file(tmp_path, *content, {"nothing": "of use"})
    report = read_dataset(path, format_name)
    assert report.items == [expected]
    assert [(refusal.file, refusal.row) for refusal in report.refused] == [("questions.jsonl", 2)]


def test_a_pair_says_which_chunk_it_is_from(tmp_path: Path) -> None:
    rows = [
        {"question": "Who?", "answer": "He.", "chunk_id": "c1", "document_id": "a.md"},
        {"question": "When?", "answer": None, "chunk_id": "c2"},
        {"question": "Where?", "answer": "", "document_id": "b.md", "chunk_id": ""},
    ]
    report = read_dataset(json_file(tmp_path, rows), "qa-pairs")
    assert [item.document_ids for item in report.items] == [{"a.md"}, {"c2"}, {"b.md"}]
    assert [report.chunk_ids.get(item.item_id) for item in report.items] == ["c1", "c2", None]
    assert [item.answers for item in report.items] == [("He.",), (), ()]


# What each format holds of an item, as an item.
CARRIED: dict[str, Callable[[Item], Item]] = {
    "ai4rag": lambda item: Item(item.question, item.answers, documents_of(item)),
    "test-cases": lambda item: Item(item.question, item.answers[:1], documents_of(item), item.category),
    "qa-pairs": lambda item: Item(item.question, item.answers[:1], documents_of(item)[:1]),
    "ragas": lambda item: Item(item.question, item.answers[:1]),
}


def documents_of(item: Item) -> tuple[Evidence, ...]:
    return tuple(Evidence(document) for document in dict.fromkeys(each.document_id for each in item.evidence))


@pytest.mark.parametrize("format_name", list(CARRIED))
@settings(max_examples=30, deadline=None)
@given(written=item_lists)
def test_files_give_back_what_the_format_holds(
    tmp_path_factory: pytest.TempPathFactory, format_name: str, written: list[Item]
) -> None:
    path = tmp_path_factory.mktemp("json") / "items"
    write_dataset(written, path, format_name)
    report = read_dataset(path, format_name)
    # ai4rag needs answers and documents: its own evaluation fails without them.
    held = [item for item in written if format_name != "ai4rag" or (item.answers and item.evidence)]
    carried = [CARRIED[format_name](item) for item in held]
    first = {item.item_id: item for item in reversed(carried)}
    assert report.items == [first[item_id] for item_id in dict.fromkeys(each.item_id for each in carried)]
    same = [refusal for refusal in report.refused if "is the same item" in refusal.reason]
    assert len(same) == len(carried) - len(first)
    assert len(report.refused) - len(same) == len(written) - len(held)


def test_a_format_that_is_only_read_says_which_can_be_written(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"'judged' is only read; those that can be written: native, beir, csv"):
        write_dataset([Item("Who?")], tmp_path / "items", "judged")


AI4RAG = {"question": "Who?", "correct_answers": ["He."], "correct_answer_document_ids": ["a"]}
BAD_ROWS = [
    ("recorded", {"reference_answer": "x"}, "question", "missing"),
    ("recorded", {"question": "Who?", "reference_answer": ["x"]}, "reference_answer", "takes a string, not a list"),
    ("ai4rag", {"question": "Who?"}, "correct_answers", "is missing"),
    ("ai4rag", {"question": "Who?", "correct_answers": ["He."]}, "correct_answer_document_ids", "is missing"),
    ("ai4rag", {**AI4RAG, "correct_answers": []}, "correct_answers", "is empty"),
    ("ai4rag", {**AI4RAG, "correct_answers": [" "]}, "correct_answers[0]", "is empty"),
    ("ai4rag", {**AI4RAG, "correct_answer_document_ids": []}, "correct_answer_document_ids", "is empty"),
    ("ai4rag", {**AI4RAG, "correct_answer_document_ids": [7]}, "correct_answer_document_ids[0]", "a string"),
    (
        "ai4rag",
        {"question": "Who?", "correct_answer": ["He."], "correct_answer_document_ids": ["a"]},
        "correct_answers",
        "is missing; the row has 'correct_answer': did you mean correct_answers?",
    ),
    ("ai4rag", {"Question": "Who?"}, "question", "the row has 'Question': did you mean question?"),
    (
        "ai4rag",
        {"question": "Who?", "correct_answers": ["He."], "correct_answers_document_ids": ["a"]},
        "correct_answer_document_ids",
        "did you mean correct_answer_document_ids?",
    ),
    ("test-cases", {"query": " "}, "query", "empty"),
    ("qa-pairs", {"question": "Who?", "chunk_id": 7}, "chunk_id", "takes a string, not a number"),
    (
        "expected-outputs",
        {"question": "Who?", "checks": [{"name": "n", "kind": "sum"}]},
        "checks[0].kind",
        "takes list",
    ),
    ("test-results", {"query": "Who?", "document": {"a.pdf": ["3"]}}, "document", "whole number"),
    ("ragas", {"user_input": "a" * 1_000_001}, "user_input", "longer than 1 MB"),
    ("ragas", {"user_input": "NUL \0"}, "user_input", "NUL"),
    ("ragas", {"user_input": "half \ud800"}, "user_input", "surrogate"),
    ("ragas", ["user_input"], None, "not a JSON object"),
]


@pytest.mark.parametrize(("format_name", "row", "field", "reason"), BAD_ROWS)
def test_a_bad_row_is_refused_and_the_rest_goes_on(
    tmp_path: Path, format_name: str, row: object, field: str | None, reason: str
) -> None:
    content, expected = SHAPES[format_name]
    rows = content if isinstance(content, list) else next(iter(content.values()))
    rows = [*(rows if isinstance(rows, list) else [rows]), row]
    report = read_dataset(
        json_file(tmp_path, {"test_cases": rows} if format_name == "test-cases" else rows), format_name
    )
    assert report.items == [expected]
    [refusal] = report.refused
    assert (refusal.row, refusal.field) == (2, field)
    assert reason in refusal.reason


def test_what_is_bad_within_a_row_of_a_list_does_not_spoil_the_others(tmp_path: Path) -> None:
    path = tmp_path / "recorded.json"
    path.write_bytes(
        b'\xef\xbb\xbf[{"question": "a?"},\n{"question": "b\xff?"}, {"question": "c?", "question": "d?"},'
        b'{"question": "e?", "contexts": [NaN]}, {"question": "f?", "extra": ' + b"9" * 5000 + b"},"
        b'{"question": "g?", "extra": ' + b"[" * 90 + b"]" * 90 + b"}, 7,\n"
        b'{"question": "tab\tand\nline?"}]'
    )
    report = read_dataset(path, "recorded")
    assert [item.question for item in report.items] == ["a?", "tab\tand\nline?"]
    assert [(refusal.row, refusal.field) for refusal in report.refused] == [
        (2, "question"),
        (3, "question"),
        (4, "contexts"),
        (5, "extra"),
        (6, "extra"),
        (7, None),
    ]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"[{}, {]", "is not JSON (line 1, column 7"),
        (b"", "is empty"),
        (b"\xff\xfe[\0]\0", "is UTF-16"),
        (b"[" * 100_000, "nested too deeply"),
    ],
)
def test_a_file_that_is_no_json_is_one_clear_line(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "broken.json"
    path.write_bytes(content)
    with pytest.raises(DatasetError) as caught:
        read_dataset(path, "recorded")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


QUERY_FILES = [
    {"Test_1": "Who built it?", "Test_2": "When?"},
    {"Test_1": {"query": "Who built it?"}, "Test_2": {"question": "When?"}},
    [{"query_id": "Test_1", "query": "Who built it?"}, {"id": "Test_2", "text": "When?"}],
    {"t1": {"query_id": "Test_1", "query": "Who built it?", "top_k_chunks": [], "answers": "x"}},
]


@pytest.mark.parametrize("queries", QUERY_FILES)
def test_questions_named_by_id_are_looked_up(tmp_path: Path, queries: object) -> None:
    truth = {"Test_1": {"query_id": "Test_1", "answer": "He.", "document": {"a.pdf": [3]}}, "x": {"query_id": "Test_9"}}
    path = json_file(tmp_path, truth)
    options = ReadOptions(queries=json_file(tmp_path, queries, "queries.json"))
    report = read_dataset(path, "test-results", options)
    assert report.items == [Item("Who built it?", ("He.",), (Evidence("a.pdf", 3),))]
    [refusal] = report.refused
    assert (refusal.row, refusal.field) == (2, "query")
    assert "none for its id" in refusal.reason


def test_without_queries_an_id_is_no_question(tmp_path: Path) -> None:
    path = json_file(tmp_path, {"Test_1": {"answer": "He."}})
    report = read_dataset(path, "test-results")
    assert report.items == []
    assert "--queries" in report.refused[0].reason
    empty = json_file(tmp_path, [[]], "queries.json")
    for format_name, queries, words in (
        ("test-results", empty, "has no questions by id"),
        ("test-results", tmp_path / "absent.json", "cannot be read"),
        ("ragas", empty, "--queries is for the formats expected-outputs, test-results, not for ragas"),
    ):
        with pytest.raises(DatasetError, match=words):
            read_dataset(path, format_name, ReadOptions(queries=queries))


def test_expected_outputs_by_id_and_as_csv(tmp_path: Path) -> None:
    checks = [{"name": "premium", "kind": "calculation", "expect": "604", "forbid": ["cannot calculate"]}]
    queries = json_file(tmp_path, {"EF_3": "What is the premium?"}, "queries.json")
    expected = Item("What is the premium?", ("$604",), checks=tuple(checks))
    by_id = json_file(tmp_path, {"EF_3": {"expected_output": "$604", "checks": checks}})
    assert read_dataset(by_id, "expected-outputs", ReadOptions(queries=queries)).items == [expected]
    table = tmp_path / "outputs.csv"
    cell = json.dumps(checks).replace('"', '""')
    table.write_text(
        f'question_id,expected_output,checks,generated_answer\nEF_3,$604,"{cell}",x\nEF_3,$605,[,x\nEF_4,$606,,x\n'
    )
    report = read_dataset(table, "expected-outputs", ReadOptions(queries=queries))
    assert report.items == [expected]
    assert report.unused == ["generated_answer"]
    assert [(refusal.row, refusal.field) for refusal in report.refused] == [(3, "checks"), (4, "question")]


def test_fields_may_have_other_names(tmp_path: Path) -> None:
    path = json_file(tmp_path, [{"prompt": "Who?", "question": "never read", "ideal": 7}, {"prompt": "When?"}])
    options = ReadOptions({"question": "prompt", "reference_answer": "ideal"})
    report = read_dataset(path, "recorded", options)
    assert report.items == [Item("When?")]
    [refusal] = report.refused
    assert (refusal.row, refusal.field) == (1, "ideal")
    native = lines_file(tmp_path, {"frage": "Wer?", "answers": []}, {"frage": "Wann?", "history": [{"role": "user"}]})
    report = read_dataset(native, "native", ReadOptions({"question": "frage"}))
    assert [item.question for item in report.items] == ["Wer?"]


@pytest.mark.parametrize(
    ("format_name", "columns", "words"),
    [
        ("recorded", {"question": "prompt"}, "no row of .* has 'prompt', which --map question=prompt names"),
        ("recorded", {"query": "question"}, "with the format recorded --map takes question, reference_answer"),
        ("test-results", {"query": "question"}, "--map is not for this format"),
    ],
)
def test_a_name_that_no_row_has_is_one_error(
    tmp_path: Path, format_name: str, columns: dict[str, str], words: str
) -> None:
    with pytest.raises(DatasetError, match=words):
        read_dataset(json_file(tmp_path, [{"question": "Who?"}]), format_name, ReadOptions(columns))


@pytest.mark.parametrize("format_name", list(FORMATS))
@pytest.mark.parametrize(
    "content",
    [
        '[{"question": ["canary"], "user_input": {"canary": 1}, "query": ["canary"]}]',
        '[{"question": canary',
        "question\ncanary,canary\n",
    ],
)
def test_what_stands_in_a_file_is_never_said(tmp_path: Path, format_name: str, content: str) -> None:
    (tmp_path / "queries.jsonl").write_text(content)
    (tmp_path / "qrels.tsv").write_text("canary\t\t1\n")
    said = ""
    try:
        report = read_dataset(tmp_path if format_name == "beir" else tmp_path / "queries.jsonl", format_name)
        said = " ".join(map(str, report.refused))
    except DatasetError as error:
        said = str(error)
    assert said
    assert "canary" not in said
