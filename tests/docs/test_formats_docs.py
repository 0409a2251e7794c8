"""docs/formats.md: it names every format and field, and its examples are read as they stand."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from rageval_dagster.benchmark.formats import FORMATS, ReadOptions, read_dataset
from rageval_dagster.benchmark.formats.items import CHECK_KINDS
from rageval_dagster.benchmark.trec_files import read_qrels, read_run
from rageval_dagster.llm.client import ChatClient
from rageval_dagster.recorded.formats import (
    OUTPUT_FORMATS,
    OutputOptions,
    detect_format,
    outputs_of,
    read_outputs,
)
from rageval_dagster.recorded.judging import file_shape, judge_outputs
from rageval_dagster.recorded.scoring import score
from rageval_dagster.settings import load_settings
from tests.llm.scripted_server import ScriptedServer

TEXT = (Path(__file__).parents[2] / "docs" / "formats.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## (\S+)\n(.*?)(?=^## |\Z)", TEXT, flags=re.MULTILINE | re.DOTALL))
EXAMPLES = re.findall(r"^```(json|csv|tsv|text) ([^\n]+)\n(.*?)^```$", TEXT, flags=re.MULTILINE | re.DOTALL)


def examples(language: str, heading: str) -> list[str]:
    return [text for kind, name, text in EXAMPLES if (kind, name) == (language, heading)]


def rows(use: str) -> list[tuple[str, str, str]]:
    """Format, file name and text of each example for a use."""
    found = [
        (name.split()[0], "rows.json", text)
        for kind, name, text in EXAMPLES
        if kind == "json" and name.split()[1] in (use, "both")
    ]
    return found + [("csv", "rows.csv", text) for text in examples("csv", use)]


@pytest.mark.parametrize("name", [*FORMATS, *OUTPUT_FORMATS])
def test_every_format_has_a_section_with_its_fields(name: str) -> None:
    fields = [*(FORMATS[name].fields if name in FORMATS else ())]
    fields += OUTPUT_FORMATS[name].fields if name in OUTPUT_FORMATS else ()
    assert [field for field in fields if f"`{field}`" not in SECTIONS[name]] == []


@pytest.mark.parametrize("kind", CHECK_KINDS)
def test_every_kind_of_check_has_an_example(kind: str) -> None:
    assert f'"kind": "{kind}"' in SECTIONS["Checks"]


def test_every_format_has_an_example() -> None:
    assert {name for name, _, _ in rows("dataset")} == set(FORMATS) - {"test-results"}
    assert {name for name, _, _ in rows("outputs")} == set(OUTPUT_FORMATS)


@pytest.mark.parametrize(("name", "file", "text"), rows("dataset"))
def test_the_examples_of_datasets_are_read(name: str, file: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / file
    if name == "beir":
        path = tmp_path / "folder"
        path.mkdir()
        (path / "queries.jsonl").write_text(text, encoding="utf-8")
        (path / "qrels.tsv").write_text(examples("tsv", "beir")[0], encoding="utf-8")
    else:
        path.write_text(text, encoding="utf-8")
    report = read_dataset(path, name)
    assert (report.refused, list(report.unused)) == ([], [])
    assert all(item.answers or not item.answerable or item.origin == "logged" for item in report.items)
    assert report.items


@pytest.mark.parametrize(("name", "file", "text"), rows("outputs"))
def test_the_examples_of_outputs_are_read_and_told_apart(name: str, file: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / file
    path.write_text(text, encoding="utf-8")
    report = read_outputs(path, name)
    assert (report.refused, list(report.unused)) == ([], [])
    assert all(output.result.answer is not None for output in report.rows)
    assert report.rows
    assert detect_format(path, {}) == name


def test_the_files_beside_test_results_go_with_them(tmp_path: Path) -> None:
    files: dict[str, Path] = {}
    for part in ("outputs", "ground-truth", "queries"):
        [text] = examples("json", f"test-results {part}")
        files[part] = tmp_path / f"{part}.json"
        files[part].write_text(text, encoding="utf-8")
    options = OutputOptions(queries=files["queries"], ground_truth=files["ground-truth"])
    report = read_outputs(files["outputs"], "test-results", options)
    assert report.refused == []
    [item] = [output.result.item for output in report.rows]
    dataset = read_dataset(files["ground-truth"], "test-results", ReadOptions(queries=files["queries"]))
    assert (dataset.refused, dataset.items) == ([], [item])
    assert all((item.question, item.answers, item.evidence))


def test_the_answers_beside_expected_outputs_go_with_them(tmp_path: Path) -> None:
    [row] = examples("json", "expected-outputs both")
    [answers] = examples("json", "expected-outputs answers")
    (tmp_path / "rows.json").write_text(row, encoding="utf-8")
    (tmp_path / "answers.json").write_text(answers, encoding="utf-8")
    options = OutputOptions(answers=tmp_path / "answers.json")
    report = read_outputs(tmp_path / "rows.json", "expected-outputs", options)
    assert report.refused == []
    assert [output.result.answer is not None for output in report.rows] == [True]


def test_the_examples_of_checks_hold() -> None:
    declared = [json.loads(text) for text in examples("json", "native outputs") if '"checks"' in text]
    found = score(declared, ["checks.*"])["question_scores"]
    values = [value for column in found.values() for value in column.values() if value is not None]
    assert values == [1.0] * len(declared)


def test_the_trec_examples_are_read(tmp_path: Path) -> None:
    for name, read in (("qrels", read_qrels), ("run", read_run)):
        (tmp_path / name).write_text(examples("text", name)[0], encoding="utf-8")
        found = read(tmp_path / name)
        assert (list(found.values), found.refused) == (["q1"], [])


def test_what_is_printed_is_explained() -> None:
    shape = score([{"question": "Who?", "answers": ["Ada"], "answer": "Ada"}], ["lexical.token_f1"])
    explained = TEXT.split("## What `score --json` prints")[1]
    [summary] = shape["scores"].values()
    assert [key for key in (*shape, *summary) if f"`{key}`" not in explained] == []


def test_what_judge_writes_is_shown_as_it_is() -> None:
    """The example's scores, given by a judge, come out as the example, with the same names in the same order."""
    [text] = examples("json", "judge output")
    shown = json.loads(text)
    [(row_id, result)] = shown["results"].items()
    row = {"id": row_id, "question": result["query"], "reference_answer": "30 days", "answer": result["answer"]}
    outputs = outputs_of([{**row, "contexts": ["Either party may terminate."]}], OutputOptions()).rows

    def reply(body: dict[str, Any]) -> str:
        return json.dumps(result["evaluations"][body["response_format"]["json_schema"]["name"]])

    with ScriptedServer(reply) as server:
        settings = load_settings({"RAGEVAL_JUDGE_MODEL": "gpt-5", "OPENAI_BASE_URL": server.base_url})
        client = ChatClient(settings, "judge", None, "(files)")
        written = file_shape(judge_outputs(outputs, client), Path("results.json"), client)
    assert json.dumps(written) == json.dumps(shown)
