"""SQuAD's JSON, and the rows that the Hugging Face hub makes of it, as JSON, JSON Lines and Parquet."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from rageval_dagster.benchmark.formats import ReadOptions, read_dataset
from rageval_dagster.errors import DatasetError
from rageval_dagster.records import Evidence, Item

CONTEXT = "The light of Avonlea was lit in 1801. Its keeper, Ada, came in 1810. She stayed for long."
ANSWER = {"text": "Ada", "answer_start": CONTEXT.index("Ada")}
SENTENCE = "Its keeper, Ada, came in 1810."
WHO = {"id": "q1", "question": "Who kept the light?", "answers": [ANSWER, ANSWER, {"text": "Its keeper, Ada"}]}
FOUND = Item(WHO["question"], ("Ada", "Its keeper, Ada"), (Evidence("Avonlea", None, SENTENCE),))
ROW = {"id": "q1", "title": "Avonlea", "context": CONTEXT, "question": "Who kept the light?"}
DATA = Path(os.environ.get("RAGEVAL_DATA_DIR", Path(__file__).parents[2] / "../shared/data")) / "xquad_squad"


def article(*questions: Any, **more: Any) -> dict[str, Any]:
    return {"title": "Avonlea", "paragraphs": [{"context": CONTEXT, "qas": [*questions]}], **more}


def written(folder: Path, value: Any, name: str = "squad.json") -> Path:
    path = folder / name
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def parquet(folder: Path, rows: list[dict[str, Any]], name: str = "squad.parquet", **options: Any) -> Path:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.Table.from_pylist(rows), folder / name, **options)
    return folder / name


def test_a_question_has_its_articles_title_and_the_sentence_of_its_answer(tmp_path: Path) -> None:
    path = written(tmp_path, {"version": "1.1", "data": [article(WHO), article()]})
    report = read_dataset(path, "squad")
    assert (report.items, report.refused) == ([FOUND], [])


def test_an_impossible_question_is_unanswerable_and_has_no_evidence(tmp_path: Path) -> None:
    impossible = {"question": "Who sank it?", "answers": [], "is_impossible": True, "plausible_answers": [ANSWER]}
    path = written(tmp_path, {"version": "v2.0", "data": [article({**WHO, "is_impossible": False}, impossible)]})
    report = read_dataset(path, "squad")
    assert report.items == [FOUND, Item("Who sank it?", answerable=False)]


HUB_ANSWERS = {"text": ["Ada", "Its keeper, Ada"], "answer_start": [CONTEXT.index("Ada"), -1]}
HUB_ROWS = [
    {**ROW, "answers": HUB_ANSWERS},
    {**ROW, "question": "Who sank it?", "answers": {"text": [], "answer_start": []}},
]


@pytest.mark.parametrize("kind", ["json", "jsonl", "parquet"])
def test_rows_of_the_hub_are_read_in_each_kind_of_file(tmp_path: Path, kind: str) -> None:
    if kind == "parquet":
        path = parquet(tmp_path, HUB_ROWS)
    else:
        path = tmp_path / "rows"
        text = json.dumps(HUB_ROWS) if kind == "json" else "\n".join(map(json.dumps, HUB_ROWS))
        path.write_text(text, encoding="utf-8")
    report = read_dataset(path, "squad")
    assert (report.items, report.refused) == ([FOUND, Item("Who sank it?", answerable=False)], [])


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_columns_of_other_names_are_mapped(tmp_path: Path, kind: str) -> None:
    row = {"Prompt": "Who kept the light?", "gold": ["Ada", "Its keeper, Ada"], "passage": CONTEXT, "doc": "Avonlea"}
    path = parquet(tmp_path, [row]) if kind == "parquet" else written(tmp_path, row, "rows.jsonl")
    columns = {"question": "Prompt", "answers": "gold", "context": "passage", "title": "doc"}
    assert read_dataset(path, "squad", ReadOptions(columns)).items == [FOUND]
    with pytest.raises(DatasetError, match=r"no row of .* has 'Gold', which --map answers=Gold names"):
        read_dataset(path, "squad", ReadOptions({"answers": "Gold"}))


def test_parquet_is_read_in_every_format_of_json_rows(tmp_path: Path) -> None:
    path = parquet(tmp_path, [{"user_input": "Who?", "reference": "Ada", "score": float("nan")}])
    assert read_dataset(path, "ragas").items == [Item("Who?", ("Ada",))]
    path = parquet(tmp_path, [{"question": "Who?", "answers": ["Ada"], "answerable": None}], "native.parquet")
    assert read_dataset(path, "native").items == [Item("Who?", ("Ada",))]


def test_an_answer_that_is_no_span_has_the_whole_context_as_its_quote(tmp_path: Path) -> None:
    path = written(tmp_path, [{**ROW, "answers": "A woman."}])
    assert read_dataset(path, "squad").items[0].evidence == (Evidence("Avonlea", None, CONTEXT),)


def test_without_a_context_only_the_document_is_known_and_without_a_title_its_hash(tmp_path: Path) -> None:
    rows = [{**ROW, "context": None, "answers": "Ada"}, {**ROW, "title": None, "answers": "Ada", "question": "Whose?"}]
    documents = [item.evidence[0] for item in read_dataset(written(tmp_path, rows), "squad").items]
    assert documents[0] == Evidence("Avonlea")
    assert documents[1].document_id.startswith("context-")
    assert documents[1].quote == SENTENCE


BAD = [
    ({**ROW}, "answers", "is missing"),
    ({**ROW, "answer": ["Ada"]}, "answers", "the row has 'answer': did you mean answers?"),
    ({**ROW, "answers": [""]}, "answers[0]", "is empty"),
    ({**ROW, "answers": {"text": ["Ada", 7]}}, "answers.text[1]", "takes a string, not a number"),
    ({**ROW, "answers": {"texts": ["Ada"]}}, "answers.text", "is missing"),
    ({**ROW, "answers": [{"answer_start": 3}]}, "answers[0].text", "takes a string, not null"),
    ({**ROW, "answers": [], "is_impossible": False}, "answers", "is empty, but is_impossible is false"),
    ({**ROW, "answers": ["Ada"], "is_impossible": True}, "answers", "holds some, but is_impossible is true"),
    ({**ROW, "answers": ["Ada"], "question": " "}, "question", "is empty"),
    ({**ROW, "answers": ["Ada"], "context": ["a"]}, "context", "takes a string, not a list"),
    ({**ROW, "answers": ["Ada\0"]}, "answers", "holds a NUL character"),
    (7, None, "is not a JSON object"),
]


@pytest.mark.parametrize(("row", "field", "reason"), BAD)
@pytest.mark.parametrize("nested", [True, False])
def test_a_bad_question_is_refused_by_its_number_and_the_rest_goes_on(
    tmp_path: Path, row: Any, field: str | None, reason: str, nested: bool
) -> None:
    good = {**ROW, "answers": WHO["answers"]}
    if nested and isinstance(row, dict):
        row = {name: value for name, value in row.items() if name not in ("title", "context")} | (
            {"context": row["context"]} if isinstance(row["context"], list) else {}
        )
    value = {"data": [article(WHO), article(row)]} if nested else [good, row]
    report = read_dataset(written(tmp_path, value), "squad")
    assert report.items == [FOUND]
    [refusal] = report.refused
    assert (refusal.row, refusal.field) == (2, field)
    assert reason in refusal.reason


def test_what_is_no_article_is_refused_too(tmp_path: Path) -> None:
    value = {"data": [7, {"title": "A", "paragraphs": [7, {"qas": 7}]}, {"title": "B", "paragraphs": 7}, article(WHO)]}
    report = read_dataset(written(tmp_path, value), "squad")
    assert report.items == [FOUND]
    assert [refusal.row for refusal in report.refused] == [1, 2, 3, 4]


def test_a_text_in_parquet_that_is_not_utf_8_is_refused_with_its_row(tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    raw = pa.array([b"Who?", b"Wh\xff?", b"What?"], pa.binary())
    text = pa.Array.from_buffers(pa.string(), 3, raw.buffers())
    pq.write_table(pa.table({"question": text, "answers": ["a", "b", "c"]}), tmp_path / "rows.parquet")
    report = read_dataset(tmp_path / "rows.parquet", "squad")
    assert [item.question for item in report.items] == ["Who?", "What?"]
    assert [str(refusal) for refusal in report.refused] == ["rows.parquet, row 2: is not UTF-8"]


def test_a_damaged_parquet_file_is_one_clear_error(tmp_path: Path) -> None:
    path = parquet(tmp_path, HUB_ROWS)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(DatasetError, match=r"squad.parquet is not a readable Parquet file"):
        read_dataset(path, "squad")


def test_without_pyarrow_it_is_said_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rows.parquet").write_bytes(b"PAR1 and more")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(DatasetError, match=r"pip install 'rageval-dagster\[parquet\]'"):
        read_dataset(tmp_path / "rows.parquet", "squad")


@pytest.mark.skipif(not DATA.is_dir(), reason=f"no human data in {DATA}: set RAGEVAL_DATA_DIR")
@pytest.mark.parametrize("language", ["de", "zh"])
def test_xquad_is_read_with_the_sentence_of_each_answer(language: str) -> None:
    path = DATA / f"xquad.{language}.json"
    articles = json.loads(path.read_text(encoding="utf-8"))["data"]
    contexts = [
        (each["title"], part["context"]) for each in articles for part in each["paragraphs"] for _ in part["qas"]
    ]
    report = read_dataset(path, "squad")
    assert len(report.items) + len(report.refused) == 1190
    assert all("is the same item" in refusal.reason for refusal in report.refused)
    for number, item in report.rows:
        title, context = contexts[number - 1]
        [evidence] = item.evidence
        assert evidence.document_id == title
        assert item.answers[0] in (evidence.quote or "")
        assert (evidence.quote or "") in context


def test_of_10_000_rows_in_parquet_the_50_bad_ones_are_named_and_the_rest_is_read(tmp_path: Path) -> None:
    rows = [{**ROW, "question": f"Who kept light {n}?", "answers": {"text": ["Ada"]}} for n in range(1, 10_001)]
    faults = (
        ({"question": " "}, "question", "is empty"),
        ({"question": None}, "question", "is missing"),
        ({"answers": None}, "answers", "is missing"),
        ({"answers": {"text": [""]}}, "answers.text[0]", "is empty"),
        ({"question": "Who\0?"}, "question", "holds a NUL character"),
    )
    bad = {row: faults[row // 200 % len(faults)] for row in range(7, 10_000, 200)}
    for row, (fault, _, _) in bad.items():
        rows[row - 1] |= fault
    report = read_dataset(parquet(tmp_path, rows, row_group_size=3_000), "squad")
    assert len(report.items) == 9_950
    assert [(each.row, each.field, each.reason) for each in report.refused] == [
        (row, field, reason) for row, (_, field, reason) in bad.items()
    ]
