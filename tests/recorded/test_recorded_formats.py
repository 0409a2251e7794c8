"""What systems said, read from each format; whatever is wrong with a row is said by row and field."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rageval_dagster.errors import DatasetError
from rageval_dagster.recorded.formats import (
    OUTPUT_FORMATS,
    OutputOptions,
    OutputsReport,
    detect_format,
    outputs_of,
    read_outputs,
)
from rageval_dagster.records import Answer, Evidence

QUESTION = "When did New York begin?"


def write(folder: Path, value: object, name: str = "outputs.json") -> Path:
    path = folder / name
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return path


def read(folder: Path, value: object, format_name: str, **options: Any) -> OutputsReport:
    return read_outputs(write(folder, value), format_name, OutputOptions(**options))


RECORDED = {"question": QUESTION, "reference_answer": "In April.", "answer": "In May.", "contexts": ["a", "b"]}
EVALUATION_DATA = {
    "question": QUESTION,
    "answer": "In May.",
    "contexts": ["a", "b"],
    "context_ids": ["readme.md", "overview.md"],
    "ground_truths": ["In April.", "April"],
    "ground_truths_context_ids": ["readme.md", "architecture.md"],
    "question_id": "q7",
}
RAGAS = {"user_input": QUESTION, "response": "In May.", "retrieved_contexts": ["a", "b"], "reference": "In April."}
JUDGED = {
    "id": 7,
    "question": QUESTION,
    "contexts": ["a", "b"],
    "answer": "In May.",
    "gold_answers": ["In April."],
    "label": 0,
    "other_judges": {"BEM": "No", "none": None},
}
NATIVE = {
    "question": QUESTION,
    "answers": ["In April."],
    "evidence": [{"document_id": "d.pdf", "page": 3}],
    "answer": "In May. [1]",
    "contexts": [{"text": "a", "document_id": "d.pdf", "chunk_id": "c1", "page": 3, "score": 0.5}],
    "declined": False,
    "citations": ["c1", 1],
}
TEST_RESULTS = {
    "t1": {
        "query_id": "Q1",
        "top_k_chunks": [{"chunk_id": "d.pdf::1", "text": "a", "doc_id": "d.pdf", "page": 3, "score": 0.8}],
        "answers": "In May. [d.pdf:3]",
    }
}
EXPECTED = {"EF_1": {"question": QUESTION, "expected_output": "In April.", "answer": "In May."}}
CSV = f'question,response,contexts,answer\n"{QUESTION}",In May.,"[""a"", ""b""]",In April.\n'
LANGFUSE = {"id": "t1", "input": QUESTION, "output": "In May.", "bookmarked": False, "observations": []}
PHOENIX = {
    "context": {"trace_id": "t1", "span_id": "s1"},
    "span_kind": "RETRIEVER",
    "parent_id": None,
    "attributes": {"input.value": QUESTION, "output.value": "In May.", "retrieval": {"documents": ["a"]}},
}

ALL: Mapping[str, Any] = {
    "recorded": [RECORDED],
    "ai4rag": [EVALUATION_DATA],
    "ragas": json.dumps(RAGAS) + "\n",
    "judged": json.dumps(JUDGED) + "\n",
    "native": json.dumps(NATIVE) + "\n",
    "test-results": TEST_RESULTS,
    "expected-outputs": EXPECTED,
    "csv": CSV,
    "langfuse": json.dumps(LANGFUSE) + "\n",
    "phoenix": json.dumps(PHOENIX) + "\n",
}
TRACES = ("langfuse", "phoenix")


@pytest.mark.parametrize("format_name", OUTPUT_FORMATS)
def test_every_format_is_told_by_its_fields_and_read(tmp_path: Path, format_name: str) -> None:
    path = write(tmp_path, ALL[format_name])
    assert detect_format(path, {}) == format_name
    report = read_outputs(path, format_name)
    assert report.refused == []
    [output] = report.rows
    assert output.result.answer is not None
    assert output.result.answer.text.startswith("In May.")
    if format_name != "test-results":
        assert output.result.item.question == QUESTION
    if format_name not in ("test-results", *TRACES):
        assert output.result.item.answers[0] == "In April."


def test_evaluation_data_s_context_ids_are_documents(tmp_path: Path) -> None:
    without_texts = {name: value for name, value in EVALUATION_DATA.items() if name not in ("contexts", "question_id")}
    first, second = read(tmp_path, [EVALUATION_DATA, without_texts], "ai4rag").rows
    assert (first.id, second.id) == ("q7", "q1")
    assert first.result.item.answers == ("In April.", "April")
    assert first.result.relevant_documents == {"readme.md", "architecture.md"}
    for output in (first, second):
        assert [(hit.document_id, hit.rank) for hit in output.result.hits] == [("readme.md", 1), ("overview.md", 2)]
        assert len({hit.chunk_id for hit in output.result.hits}) == 2
    assert (first.result.contexts, second.result.contexts) == (("a", "b"), ("", ""))
    numbers = {**EVALUATION_DATA, "context_ids": [7, 8], "ground_truths_context_ids": [7]}
    [output] = read(tmp_path, [numbers], "ai4rag").rows
    assert output.result.item.document_ids == {output.result.hits[0].document_id}


def test_native_outputs_keep_ids_pages_scores_and_citations(tmp_path: Path) -> None:
    [output] = read(tmp_path, [NATIVE], "native").rows
    [hit] = output.result.hits
    assert (hit.chunk_id, hit.document_id, hit.page, hit.score) == ("c1", "d.pdf", 3, 0.5)
    assert output.result.answer == Answer("In May. [1]", declined=False, citations=("c1", "1"))
    assert output.result.item.evidence == (Evidence("d.pdf", 3),)


@pytest.mark.parametrize(("label", "read_as"), [(0, "0"), (True, "true"), (1.0, "1"), (0.5, "0.5")])
def test_the_label_and_other_judges_are_texts(tmp_path: Path, label: object, read_as: str) -> None:
    [output] = read(tmp_path, [{**JUDGED, "label": label, "question": ""}], "judged").rows
    assert (output.id, output.label, output.others) == ("7", read_as, {"BEM": "No"})
    assert output.result.item.question == "", "judged without it"


def test_results_find_references_and_questions_by_query_id(tmp_path: Path) -> None:
    truth = write(tmp_path, {"Q1": {"answer": "In April.", "document": {"d.pdf": [3, 4]}}}, "truth.json")
    queries = write(tmp_path, {"Q1": QUESTION}, "queries.json")
    [output] = read(tmp_path, TEST_RESULTS, "test-results").rows
    assert output.result.item.question == "", "the id of a query is not its text"
    [output] = read(tmp_path, TEST_RESULTS, "test-results", ground_truth=truth, queries=queries).rows
    assert output.id == "t1"
    assert output.result.item.question == QUESTION
    assert output.result.item.answers == ("In April.",)
    assert output.result.relevant_documents == {"d.pdf"}
    assert [hit.page for hit in output.result.hits] == [3]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("answers.json", {"EF_1": "In May.", "EF_9": "?"}),
        ("answers.json", {"EF_1": {"answer": "In May.", "contexts": ["a"]}, "EF_9": {"answer": "?"}}),
        ("answers.jsonl", '{"id": "EF_1", "answer": "In May."}\n{"id": "EF_9", "answer": "?"}\n'),
        ("answers.csv", "id,answer\nEF_1,In May.\nEF_9,?\n"),
    ],
)
def test_answers_by_question_id_and_none_is_dropped(tmp_path: Path, name: str, content: object) -> None:
    expected = {
        "EF_1": {"question": QUESTION, "expected_output": "In April."},
        "EF_2": {"question": "And then?", "expected_output": "In May."},
    }
    report = read(tmp_path, expected, "expected-outputs", answers=write(tmp_path, content, name))
    first, second = report.rows
    assert (first.id, first.result.error) == ("EF_1", None)
    assert first.result.answer == Answer("In May.")
    assert (second.id, second.result.answer) == ("EF_2", None)
    assert (second.result.error or "").startswith("not_recorded")
    [refusal] = report.refused
    assert (refusal.file, refusal.reason) == (name, "answers none of the questions")


def test_an_answer_may_be_empty_or_null_and_contexts_not_told(tmp_path: Path) -> None:
    rows = [{**RECORDED, "answer": ""}, {**RECORDED, "answer": None, "contexts": None}, {"question": QUESTION}]
    report = read(tmp_path, [*rows, {**RECORDED, "contexts": []}], "recorded")
    assert [output.id for output in report.rows] == ["q0", "q1", "q3"]
    assert [output.result.answer for output in report.rows] == [Answer(""), None, Answer("In May.")]
    assert [output.result.contexts for output in report.rows] == [("a", "b"), (), ()]
    assert [output.result.tells_contexts for output in report.rows] == [True, False, True]
    assert [str(refusal) for refusal in report.refused] == ["outputs.json, row 3, field answer: is missing"]


def test_an_answer_that_declines_is_known_by_its_words_unless_the_row_says(tmp_path: Path) -> None:
    rows = [
        {**NATIVE, "answer": "Ask your broker.", "declined": None},
        {**NATIVE, "answer": "Ask your broker.", "declined": False},
        {**NATIVE, "answer": None, "declined": True},
    ]
    report = read(tmp_path, rows, "native", decline_phrases=("ask your broker",))
    assert [output.result.answer and output.result.answer.declined for output in report.rows] == [True, False, True]


def test_ids_are_the_file_s_own_or_the_place_of_the_row(tmp_path: Path) -> None:
    rows = [{**RECORDED, "id": "a"}, {"question": 3}, RECORDED, {**RECORDED, "id": "a"}, {**RECORDED, "id": True}]
    report = read(tmp_path, rows, "recorded")
    assert [output.id for output in report.rows] == ["a", "q2"]
    assert [(refusal.row, refusal.field) for refusal in report.refused] == [(2, "question"), (4, "id"), (5, "id")]


@pytest.mark.parametrize(
    ("row", "format_name", "field"),
    [
        ({**RECORDED, "answer": 3}, "recorded", "answer"),
        ({**RECORDED, "contexts": ["a", 3]}, "recorded", "contexts[1]"),
        ({**RECORDED, "question": "x" * 1_000_001}, "recorded", "question"),
        ({**EVALUATION_DATA, "context_ids": ["a"]}, "ai4rag", "context_ids"),
        ({"user_input": QUESTION}, "ragas", "response"),
        ({"question": QUESTION, "answer": "a"}, "judged", "label"),
        ({**NATIVE, "contexts": [*NATIVE["contexts"], {"text": "b"}]}, "native", "contexts[1].document_id"),
        ({**NATIVE, "contexts": [{"text": "a", "page": 0, "document_id": "d"}]}, "native", "contexts[0].page"),
        ({**NATIVE, "contexts": [{"text": "a", "document_id": "d", "score": "1"}]}, "native", "contexts[0].score"),
        ({**NATIVE, "contexts": [{"txt": "a"}]}, "native", "contexts[0].txt"),
        ({**NATIVE, "citations": [1.5]}, "native", "citations[0]"),
        ({"question": QUESTION, "answers": ["a"]}, "native", "answer"),
    ],
)
def test_what_is_wrong_is_said_by_field(tmp_path: Path, row: object, format_name: str, field: str) -> None:
    report = read(tmp_path, [row], format_name)
    assert report.rows == []
    assert [(refusal.row, refusal.field) for refusal in report.refused] == [(1, field)]


def test_one_bad_entry_of_an_object_is_refused_alone(tmp_path: Path) -> None:
    entries = ['"t0": {"answers": ""}', '"t1": {"answers": "a"}', '"t2": 3', '"t3": {}', '"t4": {"answers": []}']
    text = f'{{{", ".join(entries)}, "t3": {{"answers": "c"}}}}'
    report = read(tmp_path, text, "test-results")
    assert [output.id for output in report.rows] == ["t0", "t1"]
    assert [(refusal.row, refusal.field) for refusal in report.refused] == [(3, None), (4, None), (5, "answers")]


def test_columns_may_have_names_of_their_own(tmp_path: Path) -> None:
    path = write(tmp_path, "Prompt,Said,extra\nWhere?,There.,x\n", "log.csv")
    columns = {"question": "Prompt", "response": "Said"}
    assert detect_format(path, columns) == "csv"
    report = read_outputs(path, "csv", OutputOptions(columns))
    assert report.rows[0].result.answer == Answer("There.")
    assert report.unused == ["extra"]
    with pytest.raises(DatasetError, match="--map reply=Said"):
        read_outputs(path, "csv", OutputOptions({"reply": "Said"}))


@pytest.mark.parametrize("content", [[{**RECORDED, "label": 1}], [{"a": 1}], [3], "question,answer\na,b\n"])
def test_a_file_that_fits_no_format_or_several_needs_to_be_told(tmp_path: Path, content: object) -> None:
    with pytest.raises(DatasetError, match="--format"):
        detect_format(write(tmp_path, content), {})


def test_references_further_down_tell_the_format(tmp_path: Path) -> None:
    plain = {"question": QUESTION, "answer": "In May.", "contexts": ["a"]}
    path = write(tmp_path, [plain, {**plain, "answers": ["In April."], "answer": "In April."}])
    assert detect_format(path, {}) == "native"
    assert detect_format(write(tmp_path, [plain, plain]), {}) == "recorded"


def test_a_row_with_references_and_an_unknown_field_is_not_read_without_its_references(tmp_path: Path) -> None:
    row = {"question": QUESTION, "answers": ["In April."], "answer": "In May.", "contexts": ["a"], "model": "m"}
    path = write(tmp_path, [row])
    assert detect_format(path, {}) == "native"
    [refusal] = read_outputs(path, "native").refused
    assert (refusal.row, refusal.field) == (1, "model")
    [refusal] = outputs_of([row], OutputOptions()).refused
    assert refusal.field == "model"
    said = {"question": QUESTION, "answer": "In May.", "item_id": "i", "citations": ["1"], "model": "m"}
    assert detect_format(write(tmp_path, [said]), {}) == "recorded"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("question", "\ud800"),
        ("answer", "a\0b"),
        ("contexts", [{"text": "a", "document_id": "d", "score": float("nan")}]),
        ("contexts", [{"text": "a", "document_id": "d", "score": float("inf")}]),
    ],
)
def test_what_no_file_could_hold_is_refused_in_memory_too(field: str, value: object) -> None:
    report = outputs_of([{**RECORDED, field: value}, RECORDED], OutputOptions())
    assert len(report.rows) == 1
    [refusal] = report.refused
    assert refusal.row == 1
    assert refusal.field is not None
    assert refusal.field.startswith(field)


def test_files_by_id_are_for_the_formats_that_take_them(tmp_path: Path) -> None:
    path = write(tmp_path, [RECORDED])
    with pytest.raises(DatasetError, match="--ground-truth is for the formats test-results"):
        read_outputs(path, "recorded", OutputOptions(ground_truth=path))
    with pytest.raises(DatasetError, match="--answers is for the formats expected-outputs"):
        read_outputs(path, "recorded", OutputOptions(answers=path))
    with pytest.raises(DatasetError, match="known: recorded"):
        read_outputs(path, "beir")
    with pytest.raises(DatasetError, match="cannot be read"):
        read_outputs(tmp_path / "absent.json", "recorded")


FIELDS = sorted(
    {
        *RECORDED,
        *LANGFUSE,
        *PHOENIX,
        "traceId",
        "type",
        "retrieval.documents",
        *EVALUATION_DATA,
        *RAGAS,
        *JUDGED,
        *NATIVE,
        *EXPECTED["EF_1"],
        *TEST_RESULTS["t1"],
    }
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["text", "document_id", "x"]), inner),
    max_leaves=6,
)


@given(st.lists(st.dictionaries(st.sampled_from(FIELDS), values) | values, max_size=5), st.sampled_from(sorted(ALL)))
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_every_row_is_read_or_refused(tmp_path: Path, rows: list[Any], format_name: str) -> None:
    if format_name == "csv":
        return
    report = read_outputs(write(tmp_path, rows), format_name)
    read_or_refused = len(report.rows) + len(report.refused)
    assert read_or_refused <= len(rows) if format_name in TRACES else read_or_refused == len(rows)
    assert len({output.id for output in report.rows}) == len(report.rows)
    in_memory = outputs_of([row for row in rows if isinstance(row, dict)], OutputOptions())
    assert len(in_memory.rows) + len(in_memory.refused) == sum(isinstance(row, dict) for row in rows)
