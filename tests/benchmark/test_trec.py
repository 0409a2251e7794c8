"""TREC files: what trec_eval computes from them is what was retrieved."""

from pathlib import Path

import pytest

from rageval_dagster.benchmark.trec_files import write_trec
from rageval_dagster.errors import DatasetError
from rageval_dagster.records import Hit, Item, Result, page_id


def result(hits: list[tuple[str, str]], chunks: set[str] | None, documents: set[str] | None) -> Result:
    return Result(
        Item("Who?"),
        None if chunks is None else frozenset(chunks),
        None if documents is None else frozenset(documents),
        # Scores that say the opposite of the ranks: the order is what counts.
        tuple(Hit(chunk, document, rank, float(rank)) for rank, (chunk, document) in enumerate(hits, start=1)),
        k=5,
    )


RESULTS = {
    "one": result([("c1", "d1"), ("c2", "d1"), ("c 3", "d2"), ("c1", "d1")], {"c 3"}, {"d2"}),
    "two": result([("c9", "d9")], None, None),
    "three": result([], {"c4"}, {"d4"}),
}


def test_chunk_files(tmp_path: Path) -> None:
    qrels, run = write_trec(tmp_path / "new", RESULTS, "chunk", tag="dense", stem="run1.chunk")
    assert qrels.read_text() == "one 0 c%203 1\nthree 0 c4 1\n"
    assert run.read_text() == (
        "one Q0 c1 1 -1 dense\none Q0 c2 2 -2 dense\none Q0 c%203 3 -3 dense\ntwo Q0 c9 1 -1 dense\n"
    )


def test_document_files_keep_each_documents_best_rank(tmp_path: Path) -> None:
    qrels, run = write_trec(tmp_path, RESULTS, "document", tag="my system", stem="run1")
    assert qrels.read_text() == "one 0 d2 1\nthree 0 d4 1\n"
    assert run.read_text().splitlines()[:2] == ["one Q0 d1 1 -1 my%20system", "one Q0 d2 2 -2 my%20system"]


def test_a_wanted_page_is_what_its_chunks_stand_for(tmp_path: Path) -> None:
    hits = tuple(Hit(f"c{n}", "m.pdf", n, 0.0, page=page) for n, page in enumerate((1, 3, 3), 1))
    wanted = frozenset([page_id("m.pdf", 3)])
    qrels, run = write_trec(tmp_path, {"one": Result(Item("Who?"), wanted, None, hits, k=5)}, "chunk", "dense", "s")
    assert qrels.read_text() == "one 0 page:3:m.pdf 1\n"
    assert run.read_text() == "one Q0 c1 1 -1 dense\none Q0 page:3:m.pdf 2 -2 dense\n"


def test_what_cannot_be_written_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DatasetError, match="cannot be written"):
        write_trec(tmp_path / "file", RESULTS, "chunk", tag="t", stem="s")
    with pytest.raises(DatasetError, match="chunk or document"):
        write_trec(tmp_path, RESULTS, "page", tag="t", stem="s")
