"""TREC files of others: what is read of them, in what shape, and which lines are refused."""

import math
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rageval_dagster.benchmark.trec_files import read_qrels, read_run, write_trec
from rageval_dagster.errors import DatasetError
from rageval_dagster.records import Hit, Item, Result


def write(folder: Path, content: str | bytes) -> Path:
    path = folder / "file.txt"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize(
    "content",
    [
        b"q1 Q0 d1 1 2.5 t\r\nq1 Q0 d2 2 1e-3 t\r\n",
        b"\xef\xbb\xbfq1 Q0 d1 1 2.5 t\nq1 Q0 d2 2 1e-3 t",
        b"\n  \nq1\tQ0\td1\t1\t2.5\tt\n\n q1  Q0 \t d2 2 .001 t \n\n",
    ],
    ids=["line ends of Windows", "byte order mark, no last line end", "tabs and blank lines"],
)
def test_a_run_however_it_is_set(tmp_path: Path, content: bytes) -> None:
    assert read_run(write(tmp_path, content)).values == {"q1": {"d1": 2.5, "d2": 0.001}}


def test_the_order_of_the_file_and_its_ranks_say_nothing(tmp_path: Path) -> None:
    lines = [f"q{query} Q0 d{number} 7 {number / 8} t" for query in range(3) for number in range(9)]
    plain = read_run(write(tmp_path, "\n".join(lines))).values
    random.Random(0).shuffle(lines)
    assert read_run(write(tmp_path, "\n".join(lines))).values == plain


def test_a_repeated_document_keeps_its_best_score(tmp_path: Path) -> None:
    read = read_run(write(tmp_path, "q Q0 a 1 3 t\nq Q0 b 2 2 t\nq Q0 a 3 1 t\nq Q0 b 4 9 t\n"))
    assert read.values == {"q": {"a": 3.0, "b": 9.0}}
    assert (read.repeated, read.refused) == (2, [])


BAD_RUN_LINES = {
    "q Q0 d 1 2.0": (None, "has 5 columns, not 6 (query Q0 document rank score tag)"),
    "q Q0 my file 1 2.0 t": (None, "has 7 columns, not 6 (query Q0 document rank score tag)"),
    "q Q0 d 1 high t": ("score", "takes a finite number"),
    "q Q0 d 1 nan t": ("score", "takes a finite number"),
    "q Q0 d 1 1e999 t": ("score", "takes a finite number"),
    "q Q0 d 1 1_000 t": ("score", "takes a finite number"),
    "q\0 Q0 d 1 1 t": ("query", "holds a NUL character"),
    b"q Q0 d\xff 1 1 t": ("document", "is not UTF-8"),
}


@pytest.mark.parametrize("line", BAD_RUN_LINES, ids=repr)
def test_a_bad_line_of_a_run_is_refused_and_the_rest_is_read(tmp_path: Path, line: str | bytes) -> None:
    bad = line if isinstance(line, bytes) else line.encode()
    read = read_run(write(tmp_path, b"q Q0 first 1 2.0 t\n\n" + bad + b"\nq Q0 last 1 1.0 t\n"))
    assert read.values == {"q": {"first": 2.0, "last": 1.0}}
    [refusal] = read.refused
    assert (refusal.file, refusal.row, refusal.field, refusal.reason) == ("file.txt", 3, *BAD_RUN_LINES[line])


@pytest.mark.parametrize("relevance", ["1.0", "yes", "1_0", "1001", "-1001"])
def test_relevance_is_a_whole_number_that_trec_eval_can_take(tmp_path: Path, relevance: str) -> None:
    read = read_qrels(write(tmp_path, f"q 0 a 1\nq 0 b {relevance}\n"))
    assert read.values == {"q": {"a": 1}}
    assert str(read.refused[0]) == "file.txt, row 2, field relevance: takes a whole number from -1000 to 1000"


def test_a_judgement_that_contradicts_an_earlier_one_is_refused(tmp_path: Path) -> None:
    read = read_qrels(write(tmp_path, "q 0 a 1\nq 0 b 0\nq 0 a 1\nq 0 a 0\nq 0 c -1\n"))
    assert read.values == {"q": {"a": 1, "b": 0, "c": -1}}
    assert [(refusal.row, refusal.field) for refusal in read.refused] == [(4, "relevance")]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "is empty"),
        (" \n\n", "is empty"),
        ("q Q0 d 1 2.0 t\n", "none of its 1 lines can be read; file.txt, row 1: has 6 columns, not 4"),
        ("q 0 d 1\n".encode("utf-16"), "none of its 2 lines can be read"),
    ],
)
def test_a_file_without_a_usable_line_is_one_clear_line(tmp_path: Path, content: str | bytes, words: str) -> None:
    with pytest.raises(DatasetError, match=words):
        read_qrels(write(tmp_path, content))
    with pytest.raises(DatasetError, match="cannot be read"):
        read_run(tmp_path / "absent.run")


def _is_readable(line: bytes) -> bool:
    try:
        query, _, document, _, score, _ = line.split()
        return math.isfinite(float(score)) and b"_" not in score and "\0" not in (query + b" " + document).decode()
    except ValueError:
        return False


line = st.sampled_from([b"q Q0 d 1 1 t", b"q Q0 d 2 0.5 t", b"q Q0 e 2 x t", b"q\tQ0 e 1 -1e-3 t\r", b"r Q0 d 1 1"])
anything = st.one_of(
    st.binary(max_size=200), st.lists(st.one_of(line, st.binary(max_size=20)), max_size=8).map(b"\n".join)
)


@settings(deadline=None)
@given(anything)
def test_every_line_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = write(tmp_path_factory.mktemp("trec"), content)
    lines = [line for line in content.removeprefix(b"\xef\xbb\xbf").split(b"\n") if line.strip()]
    if not any(_is_readable(line) for line in lines):
        with pytest.raises(DatasetError, match=r"is empty|none of its"):
            read_run(path)
        return
    read = read_run(path)
    assert len(lines) == sum(map(len, read.values.values())) + read.repeated + len(read.refused)


ids = st.text(min_size=1, max_size=6)


@settings(deadline=None)
@given(st.dictionaries(ids, st.tuples(st.lists(ids, max_size=5), st.sets(ids, max_size=3)), min_size=1, max_size=4))
def test_what_was_written_is_read_again(
    tmp_path_factory: pytest.TempPathFactory, questions: dict[str, tuple[list[str], set[str]]]
) -> None:
    results = {
        query: Result(
            Item("Who?"),
            frozenset(relevant) or None,
            None,
            tuple(Hit(chunk, "d", rank, 0.0) for rank, chunk in enumerate(chunks, start=1)),
            k=5,
        )
        for query, (chunks, relevant) in questions.items()
    }
    qrels_path, run_path = write_trec(tmp_path_factory.mktemp("trec"), results, "chunk", tag="t", stem="s")
    for path, read, expected in (
        (qrels_path, read_qrels, [len(relevant) for _, relevant in questions.values()]),
        (run_path, read_run, [len(set(chunks)) for chunks, _ in questions.values()]),
    ):
        if not any(expected):
            continue
        found = read(path)
        assert not found.refused
        assert not found.repeated
        assert [len(documents) for documents in found.values.values()] == [count for count in expected if count]
