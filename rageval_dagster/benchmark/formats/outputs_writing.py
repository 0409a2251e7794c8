"""Writing what a system said in the formats of other tools, each as far as it can hold it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rageval_dagster.benchmark.formats.rows import Row, write_json, write_json_lines
from rageval_dagster.errors import DatasetError
from rageval_dagster.records import Hit, Result

Results = Mapping[str, Result]


@dataclass(frozen=True)
class OutputWriter:
    """How results are written to a file (or a folder of files), its usual name's ending, and what it holds of each."""

    write: Callable[[Results, Path], None]
    suffix: str
    carries: str


def write_outputs(results: Results, path: Path, format_name: str) -> None:
    """Writes results by their ids; what came back beyond the contexts that the answerer saw stands in none of them.

    Documents of the evidence are written where the corpus has them: of the others nobody could find any.

    Raises:
        DatasetError: an unknown format.
    """
    if format_name not in OUTPUT_WRITERS:
        raise DatasetError(f"unknown format {format_name!r} of outputs; known: {', '.join(OUTPUT_WRITERS)}")
    OUTPUT_WRITERS[format_name].write(results, path)


def _recorded(result_id: str, result: Result) -> Row:
    return {
        "id": result_id,
        "question": result.item.question,
        "reference_answer": _reference(result),
        "answer": _answer(result),
        "contexts": _texts(result),
    }


def _ragas(result_id: str, result: Result) -> Row:
    return {
        "id": result_id,
        "user_input": result.item.question,
        "response": _answer(result),
        "retrieved_contexts": _texts(result),
        "reference": _reference(result),
    }


def _ai4rag(result_id: str, result: Result) -> Row:
    return {
        "question": result.item.question,
        "answer": _answer(result),
        "contexts": _texts(result),
        "context_ids": [hit.document_id for hit in _seen(result)] if _named(result) else None,
        "ground_truths": list(result.item.answers),
        "ground_truths_context_ids": list(_documents(result)),
        "question_id": result_id,
    }


def _native(result_id: str, result: Result) -> Row:
    known, item = _documents(result), result.item.to_dict()
    row = {
        **item,
        "item_id": result_id,
        "evidence": [each for each in item["evidence"] if each["document_id"] in known],
        "answer": _answer(result),
        "contexts": _chunks(result, "document_id") if result.tells_contexts else None,
    }
    if result.answer is not None:
        row |= {"declined": result.answer.declined, "citations": list(result.answer.citations)}
    return row if result.error is None else row | {"error": result.error}


def _write_json(row_of: Callable[[str, Result], Row], results: Results, path: Path) -> None:
    write_json(path, [row_of(result_id, result) for result_id, result in results.items()])


def _write_lines(row_of: Callable[[str, Result], Row], results: Results, path: Path) -> None:
    write_json_lines(path, (row_of(result_id, result) for result_id, result in results.items()))


def _write_test_results(results: Results, folder: Path) -> None:
    """Writes `test_results.json` and `ground_truth.json` into the folder."""
    folder.mkdir()
    tests: dict[str, Any] = {}
    truths: dict[str, Any] = {}
    for result_id, result in results.items():
        tests[result_id] = {"query_id": result_id, "query": result.item.question}
        if result.tells_contexts:
            tests[result_id]["top_k_chunks"] = _chunks(result, "doc_id")
        tests[result_id]["answers"] = _answer(result)
        truths[result_id] = {"query_id": result_id, "answer": _reference(result), "document": _documents(result)}
    write_json(folder / "test_results.json", tests)
    write_json(folder / "ground_truth.json", truths)


OUTPUT_WRITERS: dict[str, OutputWriter] = {
    "recorded": OutputWriter(
        partial(_write_json, _recorded), ".json", "question, first reference, answer and contexts"
    ),
    "ragas": OutputWriter(partial(_write_lines, _ragas), ".jsonl", "question, first reference, answer and contexts"),
    "ai4rag": OutputWriter(
        partial(_write_json, _ai4rag), ".json", "question, references, answer, contexts and document ids"
    ),
    "test-results": OutputWriter(
        _write_test_results, "", "question, first reference, answer, contexts with ids, and documents with pages"
    ),
    "native": OutputWriter(
        partial(_write_lines, _native), ".jsonl", "the item, answer, citations, and contexts with ids"
    ),
}


def _answer(result: Result) -> str | None:
    return None if result.answer is None or result.error is not None else result.answer.text


def _reference(result: Result) -> str | None:
    return next(iter(result.item.answers), None)


def _seen(result: Result) -> tuple[Hit, ...]:
    """The hits that the answerer saw."""
    return result.hits[: len(result.contexts)]


def _texts(result: Result) -> list[str] | None:
    """The contexts as texts, None where some are not known."""
    if not result.tells_contexts or not all(hit.text for hit in _seen(result)):
        return None
    return list(result.contexts)


def _named(result: Result) -> bool:
    """Whether it is known which documents came back."""
    return result.tells_contexts and all(hit.document_id for hit in _seen(result))


def _chunks(result: Result, document_field: str) -> list[dict[str, Any]]:
    named = _named(result)
    return [
        {"text": hit.text, **({"chunk_id": hit.chunk_id, document_field: hit.document_id} if named else {})}
        | {name: value for name, value in (("page", hit.page), ("score", hit.score)) if value is not None}
        for hit in _seen(result)
    ]


def _documents(result: Result) -> dict[str, list[int]]:
    """The evidence's documents that the corpus has, with the pages that are named."""
    pages: dict[str, list[int]] = {}
    for evidence in result.item.evidence:
        if evidence.document_id in (result.relevant_documents or ()):
            named = pages.setdefault(evidence.document_id, [])
            if evidence.page is not None and evidence.page not in named:
                named.append(evidence.page)
    return pages
