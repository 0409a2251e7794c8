"""Retention: what is older than its client's settings allow is deleted, first the texts, much later the scores."""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from rageval_dagster.errors import DatabaseError, LeaseHeldError, RagevalError
from rageval_dagster.settings import Settings
from rageval_dagster.storage.benchmark import current_datasets, list_datasets
from rageval_dagster.storage.clients import list_clients
from rageval_dagster.storage.database import Database, delete_batch, in_batches, same
from rageval_dagster.storage.evaluations import start_anew
from rageval_dagster.storage.forgetting import empty_log, file_of
from rageval_dagster.storage.leases import keep_lease, lease_holder
from rageval_dagster.storage.tables import (
    answer_labels,
    baselines,
    benchmark_items,
    chunk_samples,
    clients,
    corpus_changes,
    corpus_versions,
    dataset_items,
    document_changes,
    embedding_cache,
    evaluation_datasets,
    evaluation_runs,
    experiments,
    incidents,
    item_results,
    judge_checks,
    label_queue,
    llm_cache,
    llm_calls,
    metric_comparisons,
    metric_scores,
    metric_summaries,
    night_scores,
    qa_candidates,
    repeated_scores,
    retrievals,
    reuse_keys,
    run_items,
    run_requests,
    texts,
)
from rageval_dagster.storage.types import utc_now

PAGE = 1_000

_ended = sa.func.coalesce(evaluation_runs.c.finished_at, evaluation_runs.c.started_at)


@dataclass
class RetentionReport:
    """Over how many clients, and how many rows of each table are gone or have lost their texts.

    `busy` counts the clients that somebody worked on: their turn is the next time. `failures` says what went wrong.
    `kept` counts what is old enough to go and stays, because a baseline needs it (evaluations with their scores, and
    baselines with their texts), or because people labelled it.
    """

    clients: int = 0
    busy: int = 0
    failures: list[str] = field(default_factory=list)
    rows: Counter[str] = field(default_factory=Counter)
    kept: Counter[str] = field(default_factory=Counter)

    def metadata(self) -> dict[str, int]:
        return {"clients": self.clients, "busy": self.busy, "failed": len(self.failures), **self.rows, **+self.kept}


def retain_all(
    db: Database, settings: Settings, judged: Collection[str] = (), now: datetime | None = None
) -> RetentionReport:
    """Applies every client's retention, under its lease; what goes wrong with one client stops no other.

    So does it to what is no client, but whose files were judged: of that there are replies and calls, and no lease.
    `judged` are the reasons that a person gave for rejecting a candidate: such a decision outlives its text.
    """
    report, now = RetentionReport(), now or utc_now()
    known = {client.client_id for client in list_clients(db)}
    for client_id in sorted(known | _asked_models(db)):
        try:
            own = settings.for_client(client_id)
            with keep_lease(db, client_id, lease_holder("retention")) if client_id in known else nullcontext():
                scores, words = (
                    now - timedelta(days=days) for days in (own.retention_days_scores, own.retention_days_text)
                )
                keep_texts = own.retention_days_text > 0  # with 0 nobody wants any to be kept
                labelled = labelled_answers(db, client_id)
                report.rows += delete_scores(db, client_id, scores, labelled)
                report.rows += delete_texts(db, client_id, words, judged, keep_texts, labelled)
                report.kept["evaluations_kept_for_baselines"] += _count(db, _since_baselines(client_id), scores)
                if keep_texts:
                    report.kept["baselines_kept_with_texts"] += _count(db, _baselines(client_id), words)
                    if labelled:
                        report.kept["answers_kept_for_labels"] += len(labelled - _used(db, client_id, words))
            report.clients += 1
        except LeaseHeldError:
            report.busy += 1
        except RagevalError as error:
            report.failures.append(f"client {client_id!r}: {error}")
    if db.dialect == "sqlite":
        with suppress(DatabaseError):  # who reads it just now keeps it until tomorrow
            empty_log(file_of(db))
    return report


def _asked_models(db: Database) -> set[str]:
    """Whose replies or calls of models are kept."""
    query = sa.union(*(sa.select(table.c.client_id) for table in (llm_cache, llm_calls)))
    return set(db.scalars(query))


def delete_scores(
    db: Database, client_id: str, before: datetime, labelled: Collection[str] | None = None
) -> Counter[str]:
    """Deletes the client's evaluations that ended before a time, and what only they had; {table: rows}.

    A baseline stays as long as it is one, and of the evaluations since then what links it with now: their scores by
    question, their verdicts, and their rows. Needs the client's lease, like `delete_texts`. Transactions are short, and
    doing it again deletes nothing more. `labelled` is what `labelled_answers` gives; None: it is asked.
    """
    rows: Counter[str] = Counter()
    runs = evaluation_runs.c
    past = sa.and_(runs.client_id == client_id, _ended < before)
    linking = _since_baselines(client_id)
    old = sa.select(runs.id).where(past, runs.id.not_in(_baselines(client_id)))
    gone = sa.select(runs.id).where(past, runs.id.not_in(linking))
    for table in (run_items, metric_summaries):
        _delete(db, table, table.c.evaluation_id.in_(old))
    for table in (night_scores, repeated_scores, judge_checks, metric_comparisons, baselines):
        _delete(db, table, table.c.evaluation_id.in_(gone))
    rows["evaluation_runs"] = _delete(db, evaluation_runs, runs.id.in_(gone))
    if rows["evaluation_runs"]:
        _mark_newest(db, client_id)
    rows["evaluation_datasets"] = _delete_datasets(db, client_id, before)
    kept = set(labelled_answers(db, client_id) if labelled is None else labelled)
    rows["answer_labels"] = _sweep(
        db,
        answer_labels.c.result_id,
        client_id,
        answer_labels.c.labelled_at < before,
        lambda row: row[0] not in kept,
    )
    used = _used(db, client_id) | kept
    rows["reuse_keys"] = _delete_keys(db, client_id, before, used)
    for key in (metric_scores.c.result_id, item_results.c.result_id, retrievals.c.retrieval_id):
        made = key.table.c.created_at
        rows[key.table.name] = _sweep(db, key, client_id, made < before, lambda row: row[0] not in used)
    there = sa.select(item_results.c.result_id).where(item_results.c.client_id == client_id)
    queue = label_queue.c
    rows["label_queue"] = _delete(db, label_queue, sa.and_(queue.client_id == client_id, queue.result_id.not_in(there)))
    named = [
        sa.select(column).where(column.table.c.client_id == client_id, column.is_not(None))
        for column in (runs.corpus_version, evaluation_datasets.c.corpus_version, clients.c.corpus_version)
    ]
    unnamed = sa.and_(*(corpus_versions.c.corpus_version.not_in(versions) for versions in named))
    rows["corpus_versions"] = _delete_old(db, corpus_versions.c.first_seen, client_id, before, unnamed)
    drawn_at = chunk_samples.c.drawn_at
    newest = sa.select(sa.func.max(drawn_at)).where(chunk_samples.c.client_id == client_id)
    last = db.scalars(newest)[0] or before
    rows["chunk_samples"] = _delete_old(db, drawn_at, client_id, min(before, last))
    times = (
        run_requests.c.requested_at,
        llm_calls.c.called_at,
        corpus_changes.c.found_at,
        incidents.c.closed_at,
        experiments.c.opened_at,
    )
    for time in times:
        rows[time.table.name] = _delete_old(db, time, client_id, before)
    # Questions about a document that has another name now are found by where it went, however long ago.
    left = document_changes.c.moved_to.is_(None)
    rows["document_changes"] = _delete_old(db, document_changes.c.found_at, client_id, before, left)
    return +rows


def _baselines(client_id: str) -> sa.Select[int]:
    """The evaluations that are a baseline now: of each dataset's name and system the newest."""
    rows = baselines.c
    newest = (
        sa.select(sa.func.max(rows.id)).where(rows.client_id == client_id).group_by(rows.dataset_name, rows.system_name)
    )
    return sa.select(rows.evaluation_id).where(rows.id.in_(newest))


def _count(db: Database, evaluations: sa.Select[int], before: datetime) -> int:
    """How many of these evaluations ended before a time."""
    query = sa.select(sa.func.count()).where(evaluation_runs.c.id.in_(evaluations), _ended < before)
    return db.scalars(query)[0]


def _since_baselines(client_id: str) -> sa.Select[int]:
    """The baselines of now, and the complete evaluations since then of their datasets' names and systems."""
    first, names = baselines.alias(), evaluation_datasets.alias()
    runs = evaluation_runs.c
    return (
        sa.select(runs.id)
        .join(names, names.c.id == runs.dataset_id)
        .join(
            first,
            sa.and_(
                first.c.client_id == runs.client_id,
                first.c.dataset_name == names.c.name,
                first.c.system_name == runs.system_name,
                first.c.evaluation_id <= runs.id,
            ),
        )
        .where(
            runs.client_id == client_id,
            runs.status == "complete",
            first.c.evaluation_id.in_(_baselines(client_id)),
        )
    )


def _mark_newest(db: Database, client_id: str) -> None:
    """An older evaluation may have been resumed, and outlive a newer one: then it is the newest."""
    runs, names = evaluation_runs.c, evaluation_datasets.c
    newest = (
        sa.select(sa.func.max(runs.id))
        .join(evaluation_datasets, names.id == runs.dataset_id)
        .where(runs.client_id == client_id, runs.status == "complete")
        .group_by(names.name, runs.system_name)
    )
    for ids in in_batches(db.scalars(newest)):
        db.execute(sa.update(evaluation_runs).where(runs.id.in_(ids), runs.newest.is_(None)).values(newest=True))


def _delete_datasets(db: Database, client_id: str, before: datetime) -> int:
    """The versions of datasets, last checked before a time, that are not current and that no evaluation has."""
    rows, runs = evaluation_datasets.c, evaluation_runs.c
    current = [dataset.id for dataset in current_datasets(db, client_id)]
    evaluated = sa.select(runs.dataset_id).where(runs.client_id == client_id)
    unused = sa.select(rows.id).where(
        rows.client_id == client_id, rows.checked_at < before, rows.id.not_in(current), rows.id.not_in(evaluated)
    )
    _delete(db, dataset_items, dataset_items.c.dataset_id.in_(unused))
    return _delete(db, evaluation_datasets, rows.id.in_(unused))


def delete_texts(
    db: Database,
    client_id: str,
    before: datetime,
    judged: Collection[str] = (),
    keep_baselines: bool = True,
    labelled: Collection[str] | None = None,
) -> Counter[str]:
    """Deletes the client's texts that nothing used since a time; ids and scores stay; {table: rows}.

    Used is what an evaluation since then has, however old it is itself. Current datasets keep their questions, and with
    `keep_baselines` baselines keep their texts: should the judge change, they are judged anew; so do `labelled`
    answers, as `labelled_answers` gives them (None: it is asked).
    """
    rows: Counter[str] = Counter()
    _start_unfinished_anew(db, client_id, before)
    lasting = _baselines(client_id) if keep_baselines else None
    used = _used(db, client_id, before, lasting)
    if keep_baselines:
        used |= set(labelled_answers(db, client_id) if labelled is None else labelled)
    # The keys come first: nothing that has lost its texts may be reused.
    rows["reuse_keys"] = _delete_keys(db, client_id, before, used)
    rows["item_results"] = _sweep(
        db,
        item_results.c.result_id,
        client_id,
        sa.and_(item_results.c.created_at < before, item_results.c.answer.is_not(None)),
        lambda row: row[0] not in used,
        blank=("answer", "citations"),
    )
    # A judge's reasons quote what it judged.
    rows["metric_scores"] = _sweep(
        db,
        metric_scores.c.result_id,
        client_id,
        sa.and_(metric_scores.c.created_at < before, metric_scores.c.detail.is_not(None)),
        lambda row: row[0] not in used,
        blank=("detail",),
    ) + _blank_superseded(db, client_id, before, used)
    shown = _shown_texts(db, client_id, before, used)
    rows["texts"] = _sweep(db, texts.c.text_hash, client_id, sa.true(), lambda row: row[0] not in shown)
    rows["llm_cache"] = _delete_old(db, llm_cache.c.made_at, client_id, before)
    rows["embedding_cache"] = _delete_old(db, embedding_cache.c.made_at, client_id, before)
    rows["run_requests"] = _delete_old(db, run_requests.c.requested_at, client_id, before)
    return +(rows + _delete_questions(db, client_id, before, judged, lasting))


def _blank_superseded(db: Database, client_id: str, before: datetime, used: Collection[str]) -> int:
    """Deletes the reasons that no evaluation since has, of results that are used: there are newer verdicts."""
    items, scores, summaries = run_items.c, metric_scores.c, metric_summaries.c
    key = (scores.result_id, scores.metric_id, scores.metric_version, scores.take)
    total = 0
    for batch in in_batches(used):
        mine = sa.and_(scores.client_id == client_id, scores.result_id.in_(batch))
        old = sa.select(*key).where(mine, scores.created_at < before, scores.detail.is_not(None))
        first = sa.select(*key[:3], sa.func.min(scores.take)).where(mine, scores.status != "error").group_by(*key[:3])
        had = (
            sa.select(items.result_id, items.takes, summaries.metric_id, summaries.metric_version)
            .join_from(run_items, evaluation_runs, evaluation_runs.c.id == items.evaluation_id)
            .join(metric_summaries, summaries.evaluation_id == items.evaluation_id)
            .where(items.client_id == client_id, items.result_id.in_(batch), _ended >= before)
        )
        with db.connect() as connection:
            there = {tuple(row) for row in connection.execute(old)}
            if not there:
                continue
            metrics = {metric_id for _, metric_id, _, _ in there}
            firsts = {tuple(row[:3]): row[3] for row in connection.execute(first.where(scores.metric_id.in_(metrics)))}
            for result_id, takes, *metric in connection.execute(had.where(summaries.metric_id.in_(metrics))):
                take = (takes or {}).get(metric[0])
                there.discard((result_id, *metric, firsts.get((result_id, *metric)) if take is None else take))
        for superseded in in_batches(sorted(there)):
            _apply(db, metric_scores, sa.and_(mine, sa.tuple_(*key).in_(superseded)), ("detail",))
        total += len(there)
    return total


def _start_unfinished_anew(db: Database, client_id: str, before: datetime) -> None:
    """What an evaluation has that nobody went on with since: should it be resumed, its texts would be missing."""
    runs = evaluation_runs.c
    query = sa.select(runs.id).where(runs.client_id == client_id, runs.status != "complete", _ended < before)
    for evaluation_id in db.scalars(query):
        start_anew(db, evaluation_id)


def _delete_questions(
    db: Database, client_id: str, before: datetime, judged: Collection[str], lasting: sa.Select[int] | None
) -> Counter[str]:
    """Of datasets that are neither current nor used since, and of candidates for none of the current ones."""
    current = {dataset.id for dataset in current_datasets(db, client_id)}
    kept = current | {dataset.id for dataset in list_datasets(db, client_id) if dataset.checked_at >= before}
    runs, members = evaluation_runs.c, dataset_items.c
    used = sa.select(runs.dataset_id).where(runs.client_id == client_id, _is_used(before, lasting))
    with db.connect() as connection:
        kept.update(connection.execute(used).scalars())
        rows = connection.execute(
            sa.select(members.dataset_id, members.item_id, members.item_hash).where(members.dataset_id.in_(kept))
        ).all()
    hashes = {row.item_hash for row in rows}
    asked = {row.item_id for row in rows if row.dataset_id in current}
    id, old = qa_candidates.c.candidate_id, qa_candidates.c.created_at < before
    columns = (qa_candidates.c.item_id, qa_candidates.c.reasons)

    def sweep(condition: sa.ColumnElement[bool], decided: bool, *blank: str) -> int:
        return _sweep(
            db,
            id,
            client_id,
            condition,
            lambda row: row.item_id not in asked and decided != set(judged).isdisjoint(row.reasons),
            columns,
            blank,
        )

    return Counter(
        benchmark_items=_sweep(db, benchmark_items.c.item_hash, client_id, sa.true(), lambda row: row[0] not in hashes),
        qa_candidates=sweep(old, False) + sweep(sa.and_(old, qa_candidates.c.item.is_not(None)), True, "item"),
    )


def _is_used(since: datetime, lasting: sa.Select[int] | None) -> sa.ColumnElement[bool]:
    recent = _ended >= since
    return recent if lasting is None else sa.or_(recent, evaluation_runs.c.id.in_(lasting))


def _used(
    db: Database, client_id: str, since: datetime | None = None, lasting: sa.Select[int] | None = None
) -> set[str]:
    """The ids of the retrievals and results that the client's evaluations have: those that ended since a time, or are
    among the `lasting` ones."""
    of_runs = run_items.join(evaluation_runs, evaluation_runs.c.id == run_items.c.evaluation_id)
    wanted = evaluation_runs.c.client_id == client_id
    if since is not None:
        wanted = sa.and_(wanted, _is_used(since, lasting))
    columns = (run_items.c.retrieval_id, run_items.c.result_id)
    query = sa.union(*(sa.select(column).select_from(of_runs).where(wanted) for column in columns))
    return {id for id in db.scalars(query) if id is not None}


def labelled_answers(db: Database, client_id: str) -> set[str]:
    """The ids of the results that people labelled, and of their retrievals, as long as their questions are asked."""
    items = sa.select(dataset_items.c.item_id).where(
        dataset_items.c.dataset_id.in_([dataset.id for dataset in current_datasets(db, client_id)])
    )
    query = (
        sa.select(item_results.c.result_id, item_results.c.retrieval_id)
        .join(answer_labels, same(answer_labels, item_results, "client_id", "result_id"))
        .where(item_results.c.client_id == client_id, item_results.c.item_id.in_(items))
    )
    return {id for row in db.rows(query) for id in row}


def _shown_texts(db: Database, client_id: str, since: datetime, used: Collection[str]) -> set[str]:
    """The hashes of the texts in retrievals that are used or younger."""
    rows = retrievals.c
    shown: set[str] = set()
    with db.connect() as connection:
        for wanted in (rows.created_at >= since, *(rows.retrieval_id.in_(batch) for batch in in_batches(used))):
            for hits in connection.execute(sa.select(rows.hits).where(rows.client_id == client_id, wanted)).scalars():
                shown.update(hit["text_hash"] for hit in hits or ())
    return shown


def _delete_keys(db: Database, client_id: str, before: datetime, used: Collection[str]) -> int:
    """The keys, older than a time, of what is not used."""
    keys, old = reuse_keys.c, reuse_keys.c.made_at < before
    return _sweep(db, keys.reuse_key, client_id, old, lambda row: row.content_id not in used, (keys.content_id,))


def _delete_old(
    db: Database, time: sa.Column[datetime], client_id: str, before: datetime, *conditions: sa.ColumnElement[bool]
) -> int:
    return _delete(db, time.table, sa.and_(time.table.c.client_id == client_id, time < before, *conditions))


def _delete(db: Database, table: Any, condition: sa.ColumnElement[bool]) -> int:
    """Deletes rows in short transactions; how many."""
    total = 0
    while deleted := delete_batch(db, table, condition):
        total += deleted
    return total


def _sweep(
    db: Database,
    key: sa.Column[str],
    client_id: str,
    condition: sa.ColumnElement[bool],
    unused: Callable[[Any], bool],
    also: Sequence[sa.Column[Any]] = (),
    blank: Sequence[str] = (),
) -> int:
    """Deletes a client's unused rows, or sets columns of theirs to NULL, a page of keys at a time; how many keys.

    `unused` is asked with a row of the key and the columns `also`.
    """
    total, last = 0, ""
    owned = key.table.c.client_id == client_id
    while True:
        query = sa.select(key, *also).where(owned, key > last, condition).order_by(key).limit(PAGE)
        rows = db.rows(query if also else query.distinct())
        ids = [row[0] for row in rows if unused(row)]
        if ids:
            _apply(db, key.table, sa.and_(owned, key.in_(ids)), blank)
            total += len(ids)
        if len(rows) < PAGE:
            return total
        last = rows[-1][0]


def _apply(db: Database, table: Any, condition: sa.ColumnElement[bool], blank: Sequence[str]) -> None:
    statement = sa.update(table).values(dict.fromkeys(blank, sa.null())) if blank else sa.delete(table)
    db.execute(statement.where(condition))
