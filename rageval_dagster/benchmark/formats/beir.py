"""The BEIR format: a folder with queries and relevance judgements (its corpus is what `rageval ingest` loads)."""

import json
from collections.abc import Container, Iterable
from dataclasses import replace
from pathlib import Path

from rageval_dagster.benchmark.formats.items import item_of
from rageval_dagster.benchmark.formats.rows import (
    ReadOptions,
    ReadReport,
    Refusal,
    Row,
    RowError,
    decoded,
    json_lines,
    numbered_lines,
    read_rows,
    text_field,
    without_repetition,
)
from rageval_dagster.errors import DatasetError
from rageval_dagster.records import Evidence, Item
from rageval_dagster.text import finite_number

QUERIES = "queries.jsonl"
QRELS = "qrels.tsv"
SPLIT_QRELS = "qrels/test.tsv"
_FIELDS = {"text": "question", "answers": "answers", "is_impossible": "impossible"}


def read(path: Path) -> ReadReport:
    """Reads `queries.jsonl` {_id or id, text, answers?, is_impossible?} and `qrels.tsv` or `qrels/test.tsv`.

    Each relevant document becomes evidence without a quote; relevance of 0 or less is none. With `qrels/test.tsv` a
    query that it does not name, and that is not said to be impossible, belongs to another split and is left out.
    Further fields of a query are ignored, as other tools of the format do.

    Raises:
        DatasetError: a file is missing, cannot be read, or is empty.
    """
    if not path.is_dir():
        raise DatasetError(f"{path} is not a folder; the format beir takes one with {QUERIES} and {QRELS}")
    qrels_name = next((name for name in (QRELS, SPLIT_QRELS) if (path / name).is_file()), None)
    if qrels_name is None:
        raise DatasetError(f"{path} has neither {QRELS} nor {SPLIT_QRELS}")
    queries, refused = _read_queries(path / QUERIES)
    judged = _read_qrels(path / qrels_name, qrels_name, queries, refused)
    rows: list[tuple[int, Item]] = []
    left_out = 0
    for query_id, (number, query) in queries.items():
        if qrels_name == SPLIT_QRELS and query_id not in judged and query.answerable:
            left_out += 1
            continue
        relevant = [document for document, relevance in judged.get(query_id, {}).items() if relevance > 0]
        rows.append((number, replace(query, evidence=tuple(Evidence(document) for document in relevant))))
    return ReadReport(without_repetition(rows, QUERIES, refused), refused, left_out)


def write(items: Iterable[Item], path: Path) -> None:
    """Writes `queries.jsonl` and `qrels.tsv` into a folder: questions, answers, answerability and document ids.

    The format has no place for quotes, pages, categories, history or checks.

    Raises:
        DatasetError: a document id holds a tab or a line break, which this format cannot.
    """
    path.mkdir(parents=True, exist_ok=True)
    with (
        (path / QUERIES).open("w", encoding="utf-8", newline="\n") as queries,
        (path / QRELS).open("w", encoding="utf-8", newline="\n") as qrels,
    ):
        qrels.write("query-id\tcorpus-id\tscore\n")
        for item in items:
            row = {
                "_id": item.item_id,
                "text": item.question,
                "answers": list(item.answers),
                "is_impossible": not item.answerable,
            }
            queries.write(json.dumps(row, ensure_ascii=False) + "\n")
            for document in dict.fromkeys(evidence.document_id for evidence in item.evidence):
                if any(character in document for character in "\t\r\n"):
                    raise DatasetError(f"item {item.item_id}: its document id has a tab or line break, beir takes none")
                qrels.write(f"{item.item_id}\t{document}\t1\n")


def _read_queries(path: Path) -> tuple[dict[str, tuple[int, Item]], list[Refusal]]:
    """Row number and item, as yet without evidence, by query id."""
    queries: dict[str, Item] = {}

    def query(row: Row) -> str:
        query_id = _query_id(row)
        if query_id in queries:
            raise RowError("_id", "names two queries")
        queries[query_id] = item_of(row, _FIELDS)
        return query_id

    found, refused = read_rows(path, json_lines(path), query, ReadOptions())
    return {query_id: (number, queries[query_id]) for number, query_id in found}, refused


def _query_id(row: Row) -> str:
    name = "_id" if row.get("_id") is not None else "id"
    value = row.get(name)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if value is None:
        raise RowError("_id", "is missing")
    return text_field(row, name)


def _read_qrels(
    path: Path, name: str, known_queries: Container[str], refused: list[Refusal]
) -> dict[str, dict[str, float]]:
    """Relevance by document id by query id, in the order of the file."""
    judged: dict[str, dict[str, float]] = {}
    for place, (number, line) in enumerate(numbered_lines(path)):
        try:
            columns = decoded(line).split("\t")
            if place == 0 and len(columns) == 3 and finite_number(columns[2]) is None:  # a header
                continue
            _add_judgement(judged, columns, known_queries)
        except RowError as error:
            refused.append(Refusal(name, number, error.field, error.reason))
    return judged


def _add_judgement(judged: dict[str, dict[str, float]], columns: list[str], known_queries: Container[str]) -> None:
    if len(columns) != 3:
        raise RowError(None, f"has {len(columns)} columns, not 3 separated by tabs (query-id, corpus-id, score)")
    query_id, document_id, score = columns
    relevance = finite_number(score)
    if not document_id.strip():
        raise RowError("corpus-id", "is empty")
    if relevance is None:
        raise RowError("score", "takes a number")
    if query_id not in known_queries:
        raise RowError("query-id", f"names no query that could be read from {QUERIES}")
    documents = judged.setdefault(query_id, {})
    if documents.setdefault(document_id, relevance) != relevance:
        raise RowError("score", "contradicts an earlier row about the same query and document")
