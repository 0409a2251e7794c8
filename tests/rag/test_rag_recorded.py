"""Systems whose answers stand in a file."""

import json
from pathlib import Path
from typing import Any

import pytest

from rageval_dagster.errors import SettingsError
from rageval_dagster.rag.system import RagSystem
from rageval_dagster.records import Answer, Hit, Item
from tests.rag.definitions import ask, load


def system(folder: Path, content: str | bytes, **fields: Any) -> RagSystem:
    (folder / "said.jsonl").write_bytes(content if isinstance(content, bytes) else content.encode())
    return load(folder, kind="recorded", file="said.jsonl", **fields)


def lines(*rows: Any) -> str:
    return "\n".join(json.dumps(row) for row in rows)


def row(question: str, answer: str = "so", **rest: Any) -> dict[str, Any]:
    return {"question": question, "answer": answer, "contexts": [], **rest}


@pytest.mark.parametrize(
    ("rows", "fields"),
    [
        ({"question": "q", "reference_answer": "r", "answer": "so", "contexts": ["c1", "c2"]}, {}),
        (
            {"user_input": "q", "response": "so", "retrieved_contexts": ["c1", "c2"], "reference": "r"},
            {"question": "user_input", "response": {"answer": "response", "contexts": "retrieved_contexts"}},
        ),
    ],
)
def test_formats_are_read_by_their_mapping(tmp_path: Path, rows: dict[str, Any], fields: dict[str, Any]) -> None:
    for content in (lines(rows), json.dumps([rows], indent=2), b"\xef\xbb\xbf" + lines(rows).encode() + b"\r\n\r\n"):
        (found,) = system(tmp_path, content, **fields).retrieve([Item("q")], 1)
        assert found.hits == (Hit("", "", 1, 0.0, "c1"), Hit("", "", 2, 0.0, "c2"))
        assert found.answer is not None
        assert (found.answer.answer, found.answer.latency_s) == (Answer("so"), None)


def test_a_row_belongs_to_its_item_or_else_to_its_question(tmp_path: Path) -> None:
    plain, later = Item("Which  one?"), Item("Which one?", history=({"role": "user", "content": "Hi"},))
    ours = system(
        tmp_path,
        lines(
            row(" Which\none? ", "the plain one"),
            row("Which one?", "the later one", item_id=later.item_id),
            row("Another?", "a stock number is no item", item_id="SKU-1"),
            {"question": "A third?", "answer": "so"},
        ),
    )
    assert ask(ours, plain, later, Item("Another?"), Item("A third?"), Item("which one?")) == [
        "the plain one",
        "the later one",
        "a stock number is no item",
        "wrong_shape: contexts is missing",
        "not_recorded: the file has no row for the question",
    ]


def test_rows_that_agree_are_one_and_rows_that_do_not_are_named(tmp_path: Path) -> None:
    assert ask(system(tmp_path, lines(row("a", note=1), row("a", note=2))), Item("a")) == ["so"]
    with pytest.raises(SettingsError, match=r"said.jsonl: rows 2 and 4 answer the same question differently"):
        system(tmp_path, "\n" + lines(row("a"), row("b"), row("a", "otherwise")))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (lines(row("a")) + '\n{"question": "canary', "said.jsonl: row 2 is not JSON"),
        (lines(row("a"), ["canary"]), "said.jsonl: row 2 is not a JSON object"),
        (lines({"query": "canary"}, row("a")), "said.jsonl: row 1 has no question (question)"),
        (lines(*[{"question": 7}] * 7), "row 5 has no question (question), and 2 more"),
        (json.dumps([row("a"), 3]), "said.jsonl: row 2 is not a JSON object"),
        ("[" * 100_000, "said.jsonl: row 1 is not JSON"),
        (b'{"question": "\xff"}', "said.jsonl: row 1 is not JSON"),
    ],
)
def test_rows_that_cannot_be_used_are_named(tmp_path: Path, content: str | bytes, message: str) -> None:
    with pytest.raises(SettingsError) as raised:
        system(tmp_path, content)
    assert message in str(raised.value)
    assert "canary" not in str(raised.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"system 'theirs': .*gone\.jsonl cannot be read \(No such file"):
        load(tmp_path, kind="recorded", file="gone.jsonl")


def test_the_file_is_the_version(tmp_path: Path) -> None:
    def versions(content: str) -> tuple[str | None, str]:
        ours = system(tmp_path, content)
        return ours.declared_version(Item("a"), 10), ours.version

    first, other, again = (versions(lines(row("a", answer))) for answer in ("x", "y", "x"))
    assert first == again
    assert first[0] != other[0]
    assert first[1] != other[1]
