"""Handing an evaluation over: what the system said in the formats of other tools, or its scores."""

import json
from pathlib import Path

from rageval_dagster.benchmark.exporting import written_whole
from rageval_dagster.benchmark.formats.outputs_writing import OUTPUT_WRITERS, write_outputs
from rageval_dagster.errors import DatasetError, TextsDeletedError
from rageval_dagster.evaluation.result_shape import result_shape
from rageval_dagster.evaluation.summary import report_of
from rageval_dagster.records import Result
from rageval_dagster.storage import results as result_storage
from rageval_dagster.storage import scores as score_storage
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.evaluations import Evaluation, get_evaluation

SCORES = "results"
"""The format that holds scores: ai4rag's results."""

FORMATS = (*OUTPUT_WRITERS, SCORES)


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
            scores = result_shape(
                score_storage.load_scores(db, evaluation.id, versions),
                clusters={item_id: result.item.cluster for item_id, result in results.items()},
                ceilings={name: summary.ceiling for name, summary in summaries.items() if summary.ceiling is not None},
            )
            draft.write_text(json.dumps(scores, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
        else:
            if any(result.texts_deleted for result in results.values()):
                raise _texts_deleted(run_id, "answers")
            write_outputs(results, draft, format_name)
    return path, len(results)


def results_of(db: Database, evaluation: Evaluation) -> dict[str, Result]:
    """What happened to each question of an evaluation, by item id.

    Raises:
        TextsDeletedError: its questions were deleted.
    """
    results = result_storage.results_by_item(db, evaluation.id)
    if evaluation.status == "complete" and len(results) < evaluation.item_count:
        raise _texts_deleted(evaluation.id, "questions")
    return results


def _texts_deleted(run_id: int, what: str) -> TextsDeletedError:
    return TextsDeletedError(
        f"run {run_id} has lost its {what}: they were not used for longer than "
        "texts are kept (RAGEVAL_RETENTION_DAYS_TEXT); evaluate the client again"
    )
