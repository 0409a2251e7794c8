"""Writing what a system said in the formats of other tools, each as far as it can hold it, or how it was scored."""

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from rageval_dagster.benchmark.exporting import written_whole
from rageval_dagster.benchmark.formats import row_of
from rageval_dagster.benchmark.formats.rows import Row, write_json, write_json_lines
from rageval_dagster.errors import DatasetError
from rageval_dagster.evaluation.breakdown import results_of, texts_deleted
from rageval_dagster.evaluation.summary import report_of
from rageval_dagster.metrics.registry import SHORT_NAMES
from rageval_dagster.recorded.formats import OUTPUT_FORMATS
from rageval_dagster.recorded.scoring import result_shape
from rageval_dagster.records import Hit, Result
from rageval_dagster.storage import scores as score_storage
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.evaluations import get_evaluation

Results = Mapping[str, Result]


class OutputWriter(NamedTuple):
    """What results are written as (`.json`: a list, `.jsonl`: lines, else a folder of files), and what that holds."""

    suffix: str
    carries: str


OUTPUT_WRITERS: dict[str, OutputWriter] = {
    "recorded": OutputWriter(".json", "question, first reference, answer and contexts"),
    "ragas": OutputWriter(".jsonl", "question, first reference, answer and contexts"),
    "ai4rag": OutputWriter(".json", "question, references, answer, contexts and document ids"),
    "test-results": OutputWriter("", "question, first reference, answer, contexts with ids, and documents with pages"),
    "native": OutputWriter(".jsonl", "the item, answer, citations, and contexts with ids"),
}

SCORES = "results"
"""The format that holds scores: ai4rag's results, with its names for its three metrics."""

FORMATS = (*OUTPUT_WRITERS, SCORES)


def write_outputs(results: Results, path: Path, format_name: str) -> None:
    """Writes results by their ids; what came back beyond the contexts that the answerer saw stands in none of them.

    Documents of the evidence are written where the corpus has them: of the others nobody could find any.

    Raises:
        DatasetError: an unknown format.
    """
    if format_name not in OUTPUT_WRITERS:
        raise DatasetError(f"unknown format {format_name!r} of outputs; known: {', '.join(OUTPUT_WRITERS)}")
    if format_name == "test-results":
        _write_test_results(results, path)
        return
    as_row = _native if format_name == "native" else partial(_by_names, OUTPUT_FORMATS[format_name].names)
    rows = [as_row(result_id, result) for result_id, result in results.items()]
    if OUTPUT_WRITERS[format_name].suffix == ".jsonl":
        write_json_lines(path, rows)
    else:
        write_json(path, rows)


def export_evaluation(db: Database, run_id: int, format_name: str, path: Path | None, force: bool) -> tuple[Path, int]:
    """Writes an evaluation in a format and returns where, and how many questions; only the user may read it.

    Raises:
        RagevalError: there is no such evaluation.
        TextsDeletedError: its texts were deleted.
        DatasetError: an unknown format, or the place is taken or cannot be written.
    """
    if format_name not in FORMATS:
        raise DatasetError(f"--format takes trec, {', '.join(FORMATS)}, not {format_name!r}")
    evaluation = get_evaluation(db, run_id)
    suffix = ".json" if format_name == SCORES else OUTPUT_WRITERS[format_name].suffix
    path = path or Path(f"run{run_id}.{format_name}{suffix}")
    results = results_of(db, evaluation)
    with written_whole(path, force) as draft:
        if format_name == SCORES:
            summaries = report_of(db, evaluation).summaries
            versions = {metric_id: summary.metric_version for metric_id, summary in summaries.items()}
            # Under the names that readers of ai4rag's results know.
            plain = {metric_id: name for name, metric_id in SHORT_NAMES.items()}
            columns = score_storage.load_scores(db, evaluation.id, versions)
            scores = result_shape(
                {plain.get(name, name): column for name, column in columns.items()},
                clusters={item_id: result.item.cluster() for item_id, result in results.items()},
                ceilings={name: summary.ceiling for name, summary in summaries.items() if summary.ceiling is not None},
            )
            draft.write_text(json.dumps(scores, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
        else:
            if any(result.texts_deleted for result in results.values()):
                raise texts_deleted(run_id, "answers")
            write_outputs(results, draft, format_name)
    return path, len(results)


def _by_names(names: Mapping[str, str], result_id: str, result: Result) -> Row:
    """A result under a format's names of fields."""
    values = {
        "id": result_id,
        "question": result.item.question,
        "reference": _reference(result),
        "answers": list(result.item.answers),
        "document ids": list(_documents(result)),
        "response": _answer(result),
        "contexts": _texts(result),
        "texts": _texts(result),
        "context ids": [hit.document_id for hit in _seen(result)] if _named(result) else None,
    }
    return row_of(values, names)


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
