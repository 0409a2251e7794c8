"""Evaluations: what each retrieved, answered and scored, stored by content so that an unchanged night adds few rows."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from rageval_dagster.errors import RagevalError
from rageval_dagster.identity import digest
from rageval_dagster.records import Answer, Hit, Item, Outcome, Result
from rageval_dagster.storage import tables
from rageval_dagster.storage.benchmark import get_dataset
from rageval_dagster.storage.clients import check_name
from rageval_dagster.storage.database import Database, in_batches, retried, upsert
from rageval_dagster.storage.tables import (
    NAME_LENGTH,
    benchmark_items,
    dataset_items,
    evaluation_datasets,
    evaluation_runs,
    item_results,
    metric_scores,
    metric_summaries,
    retrievals,
    reuse_keys,
    texts,
)
from rageval_dagster.storage.types import storable, utc_now

EvaluationStatus = Literal["running", "complete", "failed"]


@dataclass(frozen=True)
class Versions:
    """The five versions that can explain why a score changed; None where there is none."""

    corpus: str | None
    index: str | None
    dataset: str | None
    system: str | None
    judge: str | None


@dataclass(frozen=True)
class Evaluation:
    """One evaluation of a system on a dataset. `id` is its number, `evaluation_id` its content key.

    `system_declared` is the version that the system says it has; None: it says none, and may have changed unnoticed.
    """

    id: int
    evaluation_id: str
    client_id: str
    dataset_id: int
    dataset_name: str
    system: str
    system_reference: bool
    system_declared: str | None
    trigger: str
    k: int
    depth: int
    versions: Versions
    status: EvaluationStatus
    dagster_run_id: str | None
    item_count: int
    error_count: int
    cost_usd: float | None
    duration_s: float | None
    started_at: datetime
    finished_at: datetime | None
    headline: dict[str, float | None]


@dataclass(frozen=True)
class RetrievalRecord:
    """What a system returned for an item, and which chunks and documents were relevant then.

    `retrieval_id` is the hash of all of it; None for relevant means that no evidence of that kind is known, None for
    hits that the system does not tell them.
    """

    retrieval_id: str
    item_id: str
    relevant_chunks: list[str] | None
    relevant_documents: list[str] | None
    hits: list[Hit] | None
    error: str | None


@dataclass(frozen=True)
class ResultRecord:
    """What a system answered from a retrieval; the answerer saw the texts of its first `context_count` hits.

    `result_id` is the hash of all of it but the latency, the retrieval's id included.
    """

    result_id: str
    item_id: str
    retrieval_id: str
    answer: Answer | None
    context_count: int
    error: str | None
    latency_s: float | None


@dataclass(frozen=True)
class RunItem:
    """How far an evaluation is with an item: the ids it has so far, with the keys under which they may be reused."""

    item_id: str
    retrieval_id: str | None
    retrieval_key: str | None
    result_id: str | None
    answer_key: str | None


@dataclass(frozen=True)
class Summary:
    """A metric over an evaluation: counts, mean with its interval, range, and bounds with all errors as 0 or 1.

    `ceiling` is the best mean that any ranking could reach; None where that is 1.
    """

    metric_id: str
    n: int
    n_scored: int
    n_undefined: int
    n_error: int
    mean: float | None
    ci_low: float | None
    ci_high: float | None
    min: float | None
    max: float | None
    worst_low: float | None
    worst_high: float | None
    ceiling: float | None
    metric_version: str
    higher_is_better: bool = True


def evaluation_key(client_id: str, system: str, dataset_id: int, trigger: str) -> str:
    """32 hex digits that name an evaluation: the same four always mean the same one."""
    return digest(client_id, system, str(dataset_id), trigger)[:32]


@retried
def open_evaluation(
    db: Database,
    client_id: str,
    dataset_id: int,
    system: str,
    trigger: str,
    k: int,
    depth: int,
    versions: Versions,
    dagster_run_id: str | None,
    item_ids: Sequence[str],
    system_reference: bool,
    system_declared: str | None,
) -> Evaluation:
    """Starts an evaluation, or resumes it: an unfinished one goes on under the versions and run given now.

    Where corpus, index, system, k or depth changed since, its items start anew. A complete one is returned as it is.

    Raises:
        DatasetError: there is no such dataset.
    """
    check_name("system name", system, NAME_LENGTH)
    check_name("trigger", trigger, NAME_LENGTH)
    get_dataset(db, dataset_id)
    key = evaluation_key(client_id, system, dataset_id, trigger)
    now = utc_now()
    measured = {
        "k": k,
        "depth": depth,
        "corpus_version": versions.corpus,
        "index_version": versions.index,
        "dataset_version": versions.dataset,
        "system_version": versions.system,
    }
    current = {
        **measured,
        "judge_version": versions.judge,
        "system_declared": system_declared,
        "status": "running",
        "dagster_run_id": dagster_run_id,
        "item_count": len(set(item_ids)),
        "finished_at": None,
    }
    with db.begin() as connection:
        known = connection.execute(
            sa.select(evaluation_runs).where(evaluation_runs.c.evaluation_id == key)
        ).one_or_none()
        if known is None:
            row = {
                "evaluation_id": key,
                "client_id": client_id,
                "dataset_id": dataset_id,
                "system_name": system,
                "system_reference": system_reference,
                "trigger_key": trigger,
                "error_count": 0,
                "started_at": now,
                "headline": {},
                **current,
            }
            upsert(connection, evaluation_runs, [row], key=["evaluation_id"])
        elif known.status != "complete":
            connection.execute(sa.update(evaluation_runs).where(evaluation_runs.c.id == known.id).values(**current))
            if any(known._mapping[name] != value for name, value in measured.items()):
                _unlink(connection, known.id)
        evaluation = _read(connection, evaluation_runs.c.evaluation_id == key)
        if evaluation.status != "complete":
            rows = [
                {"evaluation_id": evaluation.id, "client_id": client_id, "item_id": item_id}
                for item_id in dict.fromkeys(item_ids)
            ]
            upsert(connection, tables.run_items, rows)
    return evaluation


@retried
def start_anew(db: Database, id: int) -> None:
    """Takes retrievals and results from an evaluation's items: should it be resumed, it asks everything again."""
    with db.begin() as connection:
        _unlink(connection, id)


def list_evaluations(
    db: Database,
    client_id: str | None = None,
    dataset_id: int | None = None,
    trigger: str | None = None,
    status: EvaluationStatus | None = None,
    limit: int = 50,
) -> list[Evaluation]:
    """Evaluations, newest first."""
    wanted = {
        evaluation_runs.c.client_id: client_id,
        evaluation_runs.c.dataset_id: dataset_id,
        evaluation_runs.c.trigger_key: trigger,
        evaluation_runs.c.status: status,
    }
    query = _EVALUATIONS.where(*(column == value for column, value in wanted.items() if value is not None))
    with db.connect() as connection:
        rows = connection.execute(query.order_by(evaluation_runs.c.id.desc()).limit(limit))
        return [_evaluation(row) for row in rows]


def get_evaluation(db: Database, id: int) -> Evaluation:
    """Raises RagevalError for a number that no evaluation has."""
    with db.connect() as connection:
        return _read(connection, evaluation_runs.c.id == id)


def unfinished_trigger(db: Database, client_id: str, prefix: str) -> str | None:
    """The newest trigger that starts with `prefix` and has a running evaluation."""
    for evaluation in list_evaluations(db, client_id, status="running"):
        if evaluation.trigger.startswith(prefix):
            return evaluation.trigger
    return None


def evaluations_of_trigger(db: Database, client_id: str, trigger: str | None = None) -> list[Evaluation]:
    """What one trigger started, or (None) the client's newest, oldest first; those that failed are among them."""
    if trigger is None:
        newest = list_evaluations(db, client_id, limit=1)
        if not newest:
            return []
        trigger = newest[0].trigger
    found = list_evaluations(db, client_id, trigger=trigger, limit=1000)
    return sorted(found, key=lambda evaluation: evaluation.id)


@retried
def finish_evaluation(
    db: Database,
    id: int,
    status: EvaluationStatus,
    headline: Mapping[str, float | None],
    duration_s: float | None,
    error_count: int,
    judge_version: str | None = None,
    cost_usd: float | None = None,
) -> None:
    """Closes an evaluation as complete or failed; a judge version or cost that is None stays as it was."""
    given = {"judge_version": judge_version, "cost_usd": cost_usd}
    with db.begin() as connection:
        connection.execute(
            sa.update(evaluation_runs)
            .where(evaluation_runs.c.id == id)
            .values(
                status=status,
                headline=dict(headline),
                duration_s=duration_s,
                error_count=error_count,
                finished_at=utc_now(),
                **{name: value for name, value in given.items() if value is not None},
            )
        )


@retried
def set_judge_version(db: Database, id: int, judge_version: str | None) -> None:
    """Says which metrics (their definitions and models) judge the evaluation."""
    with db.begin() as connection:
        connection.execute(
            sa.update(evaluation_runs).where(evaluation_runs.c.id == id).values(judge_version=judge_version)
        )


@retried
def save_retrievals(db: Database, evaluation_id: int, records: Sequence[tuple[RetrievalRecord, str | None]]) -> None:
    """Stores retrievals, each with the key under which it may be reused, and gives them to the evaluation's items.

    Each text is stored once per client. One that failed, or has no key, is stored but never reused.
    """
    now = utc_now()
    with db.begin() as connection:
        client_id = _client_of(connection, evaluation_id)
        found: dict[str, str] = {}
        rows = []
        for record, _ in records:
            hits = None if record.hits is None else []
            for hit in record.hits or ():
                text_hash = digest(hit.text) if hit.text else None
                if text_hash is not None:
                    found[text_hash] = hit.text
                if hits is not None:
                    hits.append(_hit_row(hit, text_hash))
            rows.append(
                {
                    "client_id": client_id,
                    "retrieval_id": record.retrieval_id,
                    "item_id": record.item_id,
                    "relevant_chunks": None if record.relevant_chunks is None else sorted(record.relevant_chunks),
                    "relevant_documents": (
                        None if record.relevant_documents is None else sorted(record.relevant_documents)
                    ),
                    "hits": hits,
                    "error": record.error,
                    "created_at": now,
                }
            )
        upsert(
            connection,
            texts,
            [{"client_id": client_id, "text_hash": key, "text": text} for key, text in found.items()],
        )
        upsert(connection, retrievals, rows)
        _remember(
            connection,
            client_id,
            {key: record.retrieval_id for record, key in records if record.error is None and key is not None},
            now,
        )
        _link_retrievals(
            connection,
            client_id,
            evaluation_id,
            {record.item_id: (record.retrieval_id, key) for record, key in records},
        )


def reusable_retrievals(
    db: Database, client_id: str, retrieval_keys: Iterable[str], max_age_days: float | None = None
) -> dict[str, str]:
    """{retrieval key: retrieval id} for those keys that have one without an error, made at most so long ago."""
    return _reusable(db, client_id, retrieval_keys, max_age_days)


@retried
def link_retrievals(db: Database, evaluation_id: int, links: Mapping[str, tuple[str, str]]) -> None:
    """Gives the evaluation's items retrievals that exist: {item id: (retrieval id, retrieval key)}."""
    with db.begin() as connection:
        _link_retrievals(connection, _client_of(connection, evaluation_id), evaluation_id, links)


def load_retrievals(
    db: Database, evaluation_id: int, item_ids: Iterable[str] | None = None
) -> dict[str, RetrievalRecord]:
    """{item id: retrieval} of the evaluation's items, or of these, that have one; in the order of the dataset."""
    items = tables.run_items
    wanted = None if item_ids is None else set(item_ids)
    with db.connect() as connection:
        client_id = _client_of(connection, evaluation_id)
        rows = [
            row
            for row in connection.execute(
                sa.select(retrievals)
                .select_from(
                    _in_dataset().join(
                        retrievals,
                        sa.and_(
                            retrievals.c.client_id == items.c.client_id,
                            retrievals.c.retrieval_id == items.c.retrieval_id,
                        ),
                    )
                )
                .where(items.c.evaluation_id == evaluation_id)
                .order_by(dataset_items.c.position, items.c.item_id)
            )
            if wanted is None or row.item_id in wanted
        ]
        words = _texts_of(connection, client_id, rows)
    return {
        row.item_id: RetrievalRecord(
            retrieval_id=row.retrieval_id,
            item_id=row.item_id,
            relevant_chunks=row.relevant_chunks,
            relevant_documents=row.relevant_documents,
            hits=None if row.hits is None else _hits(row, words),
            error=row.error,
        )
        for row in rows
    }


def run_items(db: Database, evaluation_id: int) -> list[RunItem]:
    """The evaluation's items in the order of its dataset."""
    items = tables.run_items
    with db.connect() as connection:
        rows = connection.execute(
            sa.select(*(items.c[name] for name in RunItem.__dataclass_fields__))
            .select_from(_in_dataset())
            .where(items.c.evaluation_id == evaluation_id)
            .order_by(dataset_items.c.position, items.c.item_id)
        )
        return [RunItem(**row._mapping) for row in rows]


@retried
def save_results(db: Database, evaluation_id: int, records: Sequence[tuple[ResultRecord, str | None]]) -> None:
    """Stores results, each with the key under which its answer may be reused, and gives them to the items.

    One that failed, or has no key, is stored but never reused.
    """
    now = utc_now()
    with db.begin() as connection:
        client_id = _client_of(connection, evaluation_id)
        rows = [
            {
                "client_id": client_id,
                "result_id": record.result_id,
                "item_id": record.item_id,
                "retrieval_id": record.retrieval_id,
                "answer": None if record.answer is None else record.answer.text,
                "declined": None if record.answer is None else record.answer.declined,
                "citations": None if record.answer is None else list(record.answer.citations),
                "context_count": record.context_count,
                "error": record.error,
                "latency_s": record.latency_s,
                "created_at": now,
            }
            for record, _ in records
        ]
        # An equal one may have lost its texts since.
        upsert(connection, item_results, rows, update=["answer", "citations"])
        _remember(
            connection,
            client_id,
            {key: record.result_id for record, key in records if record.error is None and key is not None},
            now,
        )
        _link_results(
            connection,
            client_id,
            evaluation_id,
            {record.item_id: (record.result_id, key) for record, key in records},
        )


def reusable_results(
    db: Database, client_id: str, answer_keys: Iterable[str], max_age_days: float | None = None
) -> dict[str, str]:
    """{answer key: result id} for those keys that have one without an error, made at most so long ago."""
    return _reusable(db, client_id, answer_keys, max_age_days)


@retried
def link_results(db: Database, evaluation_id: int, links: Mapping[str, tuple[str, str]]) -> None:
    """Gives the evaluation's items results that exist: {item id: (result id, answer key)}."""
    with db.begin() as connection:
        _link_results(connection, _client_of(connection, evaluation_id), evaluation_id, links)


def load_results(db: Database, evaluation_id: int) -> dict[str, tuple[str, Result]]:
    """{item id: (result id, result)} for the items that have a result, in the order of the dataset.

    Those whose question was deleted, since it was not used for longer than texts are kept, are left out.
    """
    items = tables.run_items
    with db.connect() as connection:
        evaluation = _read(connection, evaluation_runs.c.id == evaluation_id)
        rows = connection.execute(
            sa.select(
                items.c.item_id,
                items.c.result_id,
                benchmark_items.c.item,
                retrievals.c.relevant_chunks,
                retrievals.c.relevant_documents,
                retrievals.c.hits,
                retrievals.c.error.label("retrieval_error"),
                item_results.c.answer,
                item_results.c.declined,
                item_results.c.citations,
                item_results.c.context_count,
                item_results.c.error,
            )
            .select_from(
                _in_dataset()
                .join(
                    benchmark_items,
                    sa.and_(
                        benchmark_items.c.client_id == dataset_items.c.client_id,
                        benchmark_items.c.item_hash == dataset_items.c.item_hash,
                    ),
                )
                .join(
                    item_results,
                    sa.and_(
                        item_results.c.client_id == items.c.client_id,
                        item_results.c.result_id == items.c.result_id,
                    ),
                )
                .join(
                    retrievals,
                    sa.and_(
                        retrievals.c.client_id == item_results.c.client_id,
                        retrievals.c.retrieval_id == item_results.c.retrieval_id,
                    ),
                )
            )
            .where(items.c.evaluation_id == evaluation_id)
            .order_by(dataset_items.c.position, items.c.item_id)
        ).all()
        words = _texts_of(connection, evaluation.client_id, rows)
    return {row.item_id: (row.result_id, _result(row, words, evaluation.k)) for row in rows}


def scored(
    db: Database, client_id: str, result_ids: Iterable[str], metric_versions: Mapping[str, str]
) -> set[tuple[str, str]]:
    """The (result id, metric id) pairs that have an outcome without an error under the metric's version."""
    found: set[tuple[str, str]] = set()
    with db.connect() as connection:
        for batch in in_batches(result_ids):
            rows = connection.execute(
                sa.select(metric_scores.c.result_id, metric_scores.c.metric_id, metric_scores.c.metric_version).where(
                    metric_scores.c.client_id == client_id,
                    metric_scores.c.result_id.in_(batch),
                    metric_scores.c.status != "error",
                )
            )
            found.update(
                (row.result_id, row.metric_id)
                for row in rows
                if metric_versions.get(row.metric_id) == row.metric_version
            )
    return found


@retried
def save_scores(db: Database, evaluation_id: int, scores: Sequence[tuple[str, str, str, Outcome]]) -> None:
    """Stores (result id, metric id, metric version, outcome) rows; saving the same again changes nothing.

    A key's outcome without an error is final. After an error another outcome is a new take; the evaluation
    remembers which take it used where that is not the first one without an error.
    """
    now = utc_now()
    with db.begin() as connection:
        client_id = _client_of(connection, evaluation_id)
        known = _known_takes(connection, client_id, {score[0] for score in scores})
        new_rows: list[dict[str, Any]] = []
        used: dict[str, dict[str, int | None]] = {}
        for result_id, metric_id, metric_version, outcome in scores:
            takes = known.setdefault((result_id, metric_id, metric_version), [])
            if all(status == "error" for _, status, _ in takes):
                same = (outcome.status, None if outcome.reason is None else storable(outcome.reason))
                if not takes or takes[-1][1:] != same:
                    take = takes[-1][0] + 1 if takes else 0
                    takes.append((take, *same))
                    new_rows.append(
                        {
                            "client_id": client_id,
                            "result_id": result_id,
                            "metric_id": metric_id,
                            "metric_version": metric_version,
                            "take": take,
                            "status": outcome.status,
                            "value": outcome.value,
                            "reason": outcome.reason,
                            "detail": None if outcome.detail is None else dict(outcome.detail),
                            "created_at": now,
                        }
                    )
            last_take, last_status, _ = takes[-1]
            used.setdefault(result_id, {})[metric_id] = last_take if last_status == "error" else None
        upsert(connection, metric_scores, new_rows)
        _remember_takes(connection, client_id, evaluation_id, used)


def load_scores(db: Database, evaluation_id: int, metric_versions: Mapping[str, str]) -> dict[str, dict[str, Outcome]]:
    """{metric id: {item id: outcome}} of the takes that this evaluation used; metrics without any are left out."""
    items = tables.run_items
    with db.connect() as connection:
        rows = connection.execute(
            sa.select(
                items.c.item_id,
                items.c.takes,
                metric_scores.c.metric_id,
                metric_scores.c.metric_version,
                metric_scores.c.take,
                metric_scores.c.status,
                metric_scores.c.value,
                metric_scores.c.reason,
                metric_scores.c.detail,
            )
            .select_from(
                _in_dataset().join(
                    metric_scores,
                    sa.and_(
                        metric_scores.c.client_id == items.c.client_id,
                        metric_scores.c.result_id == items.c.result_id,
                    ),
                )
            )
            .where(items.c.evaluation_id == evaluation_id)
            .order_by(dataset_items.c.position, items.c.item_id, metric_scores.c.metric_id, metric_scores.c.take)
        ).all()
    found: dict[str, dict[str, Outcome]] = {metric_id: {} for metric_id in metric_versions}
    for row in rows:
        if metric_versions.get(row.metric_id) != row.metric_version:
            continue
        wanted = (row.takes or {}).get(row.metric_id)
        is_used = row.take == wanted if wanted is not None else row.status != "error"
        if is_used:
            found[row.metric_id].setdefault(row.item_id, Outcome(row.status, row.value, row.reason, row.detail))
    return {metric_id: outcomes for metric_id, outcomes in found.items() if outcomes}


_SUMMARY_COLUMNS = {
    name: {"min": "min_value", "max": "max_value"}.get(name, name) for name in Summary.__dataclass_fields__
}


@retried
def save_summaries(db: Database, evaluation_id: int, summaries: Sequence[Summary]) -> None:
    """Stores an evaluation's summaries, one a metric; of one that is there, the figures are renewed."""
    with db.begin() as connection:
        client_id = _client_of(connection, evaluation_id)
        rows = [
            {
                "evaluation_id": evaluation_id,
                "client_id": client_id,
                **{column: getattr(summary, name) for name, column in _SUMMARY_COLUMNS.items()},
            }
            for summary in summaries
        ]
        changing = [column for column in _SUMMARY_COLUMNS.values() if column != "metric_id"]
        upsert(connection, metric_summaries, rows, update=changing)


def load_summaries(db: Database, evaluation_id: int) -> list[Summary]:
    """An evaluation's summaries by metric id."""
    with db.connect() as connection:
        rows = connection.execute(
            sa.select(*(metric_summaries.c[column].label(name) for name, column in _SUMMARY_COLUMNS.items()))
            .where(metric_summaries.c.evaluation_id == evaluation_id)
            .order_by(metric_summaries.c.metric_id)
        )
        return [Summary(**row._mapping) for row in rows]


_EVALUATIONS = sa.select(evaluation_runs, evaluation_datasets.c.name.label("dataset_name")).join(
    evaluation_datasets, evaluation_datasets.c.id == evaluation_runs.c.dataset_id
)


def _read(connection: Connection, condition: sa.ColumnElement[bool]) -> Evaluation:
    row = connection.execute(_EVALUATIONS.where(condition)).one_or_none()
    if row is None:
        raise RagevalError("there is no such evaluation; `rageval runs list` shows those there are")
    return _evaluation(row)


def _evaluation(row: Any) -> Evaluation:
    return Evaluation(
        id=row.id,
        evaluation_id=row.evaluation_id,
        client_id=row.client_id,
        dataset_id=row.dataset_id,
        dataset_name=row.dataset_name,
        system=row.system_name,
        system_reference=row.system_reference,
        system_declared=row.system_declared,
        trigger=row.trigger_key,
        k=row.k,
        depth=row.depth,
        versions=Versions(
            corpus=row.corpus_version,
            index=row.index_version,
            dataset=row.dataset_version,
            system=row.system_version,
            judge=row.judge_version,
        ),
        status=row.status,
        dagster_run_id=row.dagster_run_id,
        item_count=row.item_count,
        error_count=row.error_count,
        cost_usd=row.cost_usd,
        duration_s=row.duration_s,
        started_at=row.started_at,
        finished_at=row.finished_at,
        headline=row.headline,
    )


def _client_of(connection: Connection, evaluation_id: int) -> str:
    client_id = connection.execute(
        sa.select(evaluation_runs.c.client_id).where(evaluation_runs.c.id == evaluation_id)
    ).scalar_one_or_none()
    if client_id is None:
        raise RagevalError(f"there is no evaluation {evaluation_id}; `rageval runs list` shows those there are")
    return client_id


def _in_dataset() -> sa.Join:
    """Run items with their place in the evaluation's dataset."""
    items = tables.run_items
    return items.join(evaluation_runs, evaluation_runs.c.id == items.c.evaluation_id).join(
        dataset_items,
        sa.and_(
            dataset_items.c.dataset_id == evaluation_runs.c.dataset_id,
            dataset_items.c.item_id == items.c.item_id,
        ),
    )


def _hit_row(hit: Hit, text_hash: str | None) -> dict[str, Any]:
    return {
        "chunk_id": hit.chunk_id,
        "document_id": hit.document_id,
        "rank": hit.rank,
        "score": hit.score,
        "page": hit.page,
        "owner": hit.owner,
        "text_hash": text_hash,
    }


def _hits(row: Any, words: Mapping[str, str]) -> list[Hit]:
    return [
        Hit(
            chunk_id=hit["chunk_id"],
            document_id=hit["document_id"],
            rank=hit["rank"],
            score=hit["score"],
            text=words.get(hit["text_hash"], ""),
            page=hit["page"],
            owner=hit["owner"],
        )
        for hit in row.hits or ()
    ]


def _result(row: Any, words: Mapping[str, str], k: int) -> Result:
    hits = tuple(_hits(row, words))
    # An answer that was given is declined or not; a hit that had a text has its hash.
    answer_gone = row.answer is None and row.declined is not None
    context_gone = any(hit["text_hash"] not in words for hit in row.hits or () if hit["text_hash"] is not None)
    return Result(
        item=Item.from_dict(row.item),
        relevant_chunks=None if row.relevant_chunks is None else frozenset(row.relevant_chunks),
        relevant_documents=None if row.relevant_documents is None else frozenset(row.relevant_documents),
        hits=hits,
        k=k,
        answer=None if row.answer is None else Answer(row.answer, bool(row.declined), tuple(row.citations or ())),
        contexts=tuple(hit.text for hit in hits[: row.context_count]),
        error=row.error if row.error is not None else row.retrieval_error,
        tells_contexts=row.hits is not None,
        texts_deleted=answer_gone or context_gone,
    )


def _texts_of(connection: Connection, client_id: str, rows: Sequence[Any]) -> dict[str, str]:
    """{text hash: text} of all the hits of these rows."""
    needed = (hit["text_hash"] for row in rows for hit in row.hits or () if hit["text_hash"] is not None)
    found: dict[str, str] = {}
    for batch in in_batches(needed):
        found.update(
            (row.text_hash, row.text)
            for row in connection.execute(
                sa.select(texts.c.text_hash, texts.c.text).where(
                    texts.c.client_id == client_id, texts.c.text_hash.in_(batch)
                )
            )
        )
    return found


def _remember(connection: Connection, client_id: str, contents: Mapping[str, str], now: datetime) -> None:
    rows = [
        {"client_id": client_id, "reuse_key": key, "content_id": content_id, "made_at": now}
        for key, content_id in contents.items()
    ]
    upsert(connection, reuse_keys, rows, update=["content_id", "made_at"])


def _reusable(db: Database, client_id: str, keys: Iterable[str], max_age_days: float | None) -> dict[str, str]:
    found: dict[str, str] = {}
    with db.connect() as connection:
        for batch in in_batches(keys):
            query = sa.select(reuse_keys.c.reuse_key, reuse_keys.c.content_id).where(
                reuse_keys.c.client_id == client_id, reuse_keys.c.reuse_key.in_(batch)
            )
            if max_age_days is not None:
                query = query.where(reuse_keys.c.made_at >= utc_now() - timedelta(days=max_age_days))
            found.update((row.reuse_key, row.content_id) for row in connection.execute(query))
    return found


def _unlink(connection: Connection, evaluation_id: int) -> None:
    items = tables.run_items
    links = ("retrieval_id", "retrieval_key", "result_id", "answer_key", "takes")
    connection.execute(
        sa.update(items).where(items.c.evaluation_id == evaluation_id).values(dict.fromkeys(links, sa.null()))
    )


def _link_retrievals(
    connection: Connection, client_id: str, evaluation_id: int, links: Mapping[str, tuple[str, str | None]]
) -> None:
    rows = [
        {
            "evaluation_id": evaluation_id,
            "client_id": client_id,
            "item_id": item_id,
            "retrieval_id": retrieval_id,
            "retrieval_key": key,
        }
        for item_id, (retrieval_id, key) in links.items()
    ]
    upsert(connection, tables.run_items, rows, update=["retrieval_id", "retrieval_key"])


def _link_results(
    connection: Connection, client_id: str, evaluation_id: int, links: Mapping[str, tuple[str, str | None]]
) -> None:
    rows = [
        {
            "evaluation_id": evaluation_id,
            "client_id": client_id,
            "item_id": item_id,
            "result_id": result_id,
            "answer_key": key,
        }
        for item_id, (result_id, key) in links.items()
    ]
    upsert(connection, tables.run_items, rows, update=["result_id", "answer_key"])


def _known_takes(
    connection: Connection, client_id: str, result_ids: Iterable[str]
) -> dict[tuple[str, str, str], list[tuple[int, str, str | None]]]:
    """(take, status, reason) of every stored outcome, oldest first, by (result, metric, metric version)."""
    known: dict[tuple[str, str, str], list[tuple[int, str, str | None]]] = {}
    for batch in in_batches(sorted(result_ids)):
        rows = connection.execute(
            sa.select(
                metric_scores.c.result_id,
                metric_scores.c.metric_id,
                metric_scores.c.metric_version,
                metric_scores.c.take,
                metric_scores.c.status,
                metric_scores.c.reason,
            )
            .where(metric_scores.c.client_id == client_id, metric_scores.c.result_id.in_(batch))
            .order_by(metric_scores.c.take)
        )
        for row in rows:
            known.setdefault((row.result_id, row.metric_id, row.metric_version), []).append(
                (row.take, row.status, row.reason)
            )
    return known


def _remember_takes(
    connection: Connection, client_id: str, evaluation_id: int, used: Mapping[str, Mapping[str, int | None]]
) -> None:
    items = tables.run_items
    rows = connection.execute(
        sa.select(items.c.item_id, items.c.result_id, items.c.takes).where(items.c.evaluation_id == evaluation_id)
    ).all()
    changed = []
    for row in rows:
        if row.result_id not in used:
            continue
        before = row.takes or {}
        after = {metric_id: take for metric_id, take in {**before, **used[row.result_id]}.items() if take is not None}
        if after != before:
            changed.append(
                {
                    "evaluation_id": evaluation_id,
                    "client_id": client_id,
                    "item_id": row.item_id,
                    "takes": after or None,
                }
            )
    upsert(connection, items, changed, update=["takes"])
