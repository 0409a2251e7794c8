"""Results: what each item of an evaluation retrieved and answered, stored by content and reused while unchanged."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from rageval_dagster.identity import digest
from rageval_dagster.records import UNKEPT, Answer, Hit, Item, Owner, Result
from rageval_dagster.storage import tables
from rageval_dagster.storage.database import Database, retried, rows_in, same, upsert
from rageval_dagster.storage.evaluations import Evaluation, client_of, in_dataset, read_evaluation
from rageval_dagster.storage.tables import (
    benchmark_items,
    dataset_items,
    item_results,
    retrievals,
    reuse_keys,
    texts,
)
from rageval_dagster.storage.types import utc_now


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

    `result_id` is the hash of all of it but latency and time, the retrieval's id included. `made_at` is since when it
    may be reused, None: now. `answer_owner` and `answer_holders` say whose words an answer held that is not kept.
    """

    result_id: str
    item_id: str
    retrieval_id: str
    answer: Answer | None
    context_count: int
    error: str | None
    latency_s: float | None
    made_at: datetime | None = None
    answer_owner: Owner = "own"
    answer_holders: tuple[int, ...] = ()


@dataclass(frozen=True)
class RunItem:
    """How far an evaluation is with an item: the ids of its retrieval and of its result, as far as it has them."""

    item_id: str
    retrieval_id: str | None
    result_id: str | None


RETRIEVAL = ("retrieval_id", "retrieval_key")
RESULT = ("result_id", "answer_key")
"""What an evaluation's items are given: the columns of its id, and of the key under which it may be reused."""

_RESULT_OF_ITEM = same(item_results, tables.run_items, "client_id", "result_id")


@retried
def save_retrievals(db: Database, evaluation_id: int, records: Sequence[tuple[RetrievalRecord, str | None]]) -> None:
    """Stores retrievals, each with the key under which it may be reused, and gives them to the evaluation's items.

    Each text is stored once per client. One that failed, or has no key, is stored but never reused.
    """
    now = utc_now()
    with db.begin() as connection:
        client_id = client_of(connection, evaluation_id)
        found = {digest(hit.text): hit.text for record, _ in records for hit in record.hits or () if hit.text}
        rows = [
            {
                "client_id": client_id,
                "retrieval_id": record.retrieval_id,
                "item_id": record.item_id,
                "relevant_chunks": record.relevant_chunks and sorted(record.relevant_chunks),
                "relevant_documents": record.relevant_documents and sorted(record.relevant_documents),
                "hits": None if record.hits is None else [_kept(hit) for hit in record.hits],
                "error": record.error,
                "created_at": now,
            }
            for record, _ in records
        ]
        held = [{"client_id": client_id, "text_hash": key, "text": text} for key, text in found.items()]
        upsert(connection, texts, held)
        upsert(connection, retrievals, rows)
        given = {each.item_id: (each.retrieval_id, key, now if each.error is None else None) for each, key in records}
        _give(connection, evaluation_id, RETRIEVAL, given)


def reusable(db: Database, client_id: str, keys: Iterable[str], max_age_days: float | None = None) -> dict[str, str]:
    """{retrieval or answer key: its retrieval or result id}, of those without an error, made at most so long ago."""
    query = sa.select(reuse_keys.c.reuse_key, reuse_keys.c.content_id).where(reuse_keys.c.client_id == client_id)
    if max_age_days is not None:
        query = query.where(reuse_keys.c.made_at >= utc_now() - timedelta(days=max_age_days))
    return {row.reuse_key: row.content_id for row in db.rows_in(query, reuse_keys.c.reuse_key, keys)}


@retried
def link(
    db: Database, evaluation_id: int, columns: tuple[str, str], links: Mapping[str, tuple[str, str | None]]
) -> None:
    """Gives the evaluation's items {item id: (id, key)} of what exists, in the columns of RETRIEVAL or RESULT."""
    with db.begin() as connection:
        _give(connection, evaluation_id, columns, {item_id: (*each, None) for item_id, each in links.items()})


def answers_before(db: Database, evaluation: Evaluation) -> int:
    """How many of an evaluation's answers were made before it began. Of one long ago, some may have been made anew
    since: ask right after it."""
    own, reused = tables.run_items.c, reuse_keys.c
    query = (
        sa.select(sa.func.count())
        .join(reuse_keys, (reused.client_id == own.client_id) & (reused.reuse_key == own.answer_key))
        .where(own.evaluation_id == evaluation.id, reused.made_at < evaluation.started_at)
    )
    return db.scalars(query)[0]


def reuse(
    db: Database,
    evaluation: Evaluation,
    columns: tuple[str, str],
    keys: Mapping[str, str | None],
    max_age_days: float | None = None,
) -> set[str]:
    """Links items with what is stored under their keys, as `reusable`; gives the ids of those that got something."""
    found = reusable(db, evaluation.client_id, filter(None, keys.values()), max_age_days)
    links = {item_id: (found[key], key) for item_id, key in keys.items() if key in found}
    link(db, evaluation.id, columns, links)
    return set(links)


def load_retrievals(
    db: Database, evaluation_id: int, item_ids: Iterable[str] | None = None
) -> dict[str, RetrievalRecord]:
    """{item id: retrieval} of the evaluation's items, or of these, that have one; in the order of the dataset."""
    items = tables.run_items
    wanted = None if item_ids is None else set(item_ids)
    with db.connect() as connection:
        client_id = client_of(connection, evaluation_id)
        query = (
            sa.select(retrievals)
            .select_from(in_dataset().join(retrievals, same(retrievals, items, "client_id", "retrieval_id")))
            .where(items.c.evaluation_id == evaluation_id)
            .order_by(dataset_items.c.position, items.c.item_id)
        )
        rows = [row for row in connection.execute(query) if wanted is None or row.item_id in wanted]
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


def returned_chunks(db: Database, client_id: str, retrieval_ids: Iterable[str]) -> dict[str, list[str]]:
    """{retrieval id: the ids of the chunks that came back, in their order}; none where the system did not tell them."""
    query = sa.select(retrievals.c.retrieval_id, retrievals.c.hits).where(retrievals.c.client_id == client_id)
    rows = db.rows_in(query, retrievals.c.retrieval_id, retrieval_ids)
    return {row.retrieval_id: [hit["chunk_id"] for hit in row.hits or ()] for row in rows}


def answers_of(db: Database, client_id: str, result_ids: Iterable[str]) -> dict[str, Answer]:
    """{result id: its answer, without citations}, of those that have one that is kept."""
    of = item_results.c
    query = sa.select(of.result_id, of.answer, of.declined).where(of.client_id == client_id, of.answer.is_not(None))
    rows = db.rows_in(query, of.result_id, result_ids)
    return {row.result_id: Answer(row.answer, bool(row.declined)) for row in rows}


def run_items(db: Database, evaluation_id: int) -> list[RunItem]:
    """The evaluation's items in the order of its dataset."""
    items = tables.run_items
    query = (
        sa.select(*(items.c[name] for name in RunItem.__dataclass_fields__))
        .select_from(in_dataset())
        .where(items.c.evaluation_id == evaluation_id)
        .order_by(dataset_items.c.position, items.c.item_id)
    )
    return [RunItem(**row._mapping) for row in db.rows(query)]


@retried
def save_results(db: Database, evaluation_id: int, records: Sequence[tuple[ResultRecord, str | None]]) -> None:
    """Stores results, each with the key under which its answer may be reused, and gives them to the items.

    One that failed, or has no key, is stored but never reused.
    """
    now = utc_now()
    with db.begin() as connection:
        client_id = client_of(connection, evaluation_id)
        rows = [
            {
                "client_id": client_id,
                "result_id": record.result_id,
                "item_id": record.item_id,
                "retrieval_id": record.retrieval_id,
                "answer": None if record.answer is None else record.answer.text,
                "declined": None if record.answer is None else record.answer.declined,
                "citations": None if record.answer is None else list(record.answer.citations),
                "answer_owner": record.answer_owner,
                "answer_holders": list(record.answer_holders) or None,
                "context_count": record.context_count,
                "error": record.error,
                "latency_s": record.latency_s,
                "created_at": now,
            }
            for record, _ in records
        ]
        # An equal one may have lost its texts since.
        upsert(connection, item_results, rows, update=["answer", "citations"])
        given = {
            each.item_id: (each.result_id, key, (each.made_at or now) if each.error is None else None)
            for each, key in records
        }
        _give(connection, evaluation_id, RESULT, given)


def failed_count(db: Database, evaluation_id: int) -> int:
    """How many of the evaluation's items have a result with an error."""
    items = tables.run_items
    query = sa.select(sa.func.count()).select_from(items.join(item_results, _RESULT_OF_ITEM))
    return db.rows(query.where(items.c.evaluation_id == evaluation_id, item_results.c.error.is_not(None)))[0][0]


def failure_reasons(db: Database, evaluation_ids: Iterable[int]) -> dict[int, Counter[str]]:
    """How many questions the system failed on in each of these evaluations, by the reason."""
    items = tables.run_items
    query = (
        sa.select(items.c.evaluation_id, item_results.c.error, sa.func.count().label("count"))
        .select_from(items.join(item_results, _RESULT_OF_ITEM))
        .where(item_results.c.error.is_not(None))
        .group_by(items.c.evaluation_id, item_results.c.error)
    )
    found: dict[int, Counter[str]] = defaultdict(Counter)
    for row in db.rows_in(query, items.c.evaluation_id, evaluation_ids):
        found[row.evaluation_id][row.error] = row.count
    return found


def load_results(db: Database, evaluation_id: int, item_id: str | None = None) -> dict[str, tuple[str, Result]]:
    """{item id: (result id, result)} for the items, or the one, that have a result, in the order of the dataset.

    Those whose question was deleted, since it was not used for longer than texts are kept, are left out.
    """
    items = tables.run_items
    with db.connect() as connection:
        evaluation = read_evaluation(connection, evaluation_id)
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
                item_results.c.answer_owner,
                item_results.c.context_count,
                item_results.c.error,
            )
            .select_from(
                in_dataset()
                .join(benchmark_items, same(benchmark_items, dataset_items, "client_id", "item_hash"))
                .join(item_results, _RESULT_OF_ITEM)
                .join(retrievals, same(retrievals, item_results, "client_id", "retrieval_id"))
            )
            .where(items.c.evaluation_id == evaluation_id, *([] if item_id is None else [items.c.item_id == item_id]))
            .order_by(dataset_items.c.position, items.c.item_id)
        ).all()
        words = _texts_of(connection, evaluation.client_id, rows)
    return {row.item_id: (row.result_id, _result(row, words, evaluation.k)) for row in rows}


def known_results(db: Database, client_id: str, result_ids: Iterable[str]) -> set[str]:
    """Those of the ids that are results of the client."""
    query = sa.select(item_results.c.result_id).where(item_results.c.client_id == client_id)
    return {row.result_id for row in db.rows_in(query, item_results.c.result_id, result_ids)}


def deleted_answers(db: Database, client_id: str, result_ids: Iterable[str]) -> set[str]:
    """Those of the ids that are results of the client whose answer was given, and deleted since."""
    of = item_results.c
    query = sa.select(of.result_id).where(of.client_id == client_id, of.answer.is_(None), of.declined.is_not(None))
    return {row.result_id for row in db.rows_in(query, of.result_id, result_ids)}


def results_by_item(db: Database, evaluation_id: int) -> dict[str, Result]:
    """{item id: result}, as `load_results`."""
    return {item_id: result for item_id, (_, result) in load_results(db, evaluation_id).items()}


def answer_owners(db: Database, evaluation_id: int) -> dict[str, tuple[Owner, tuple[int, ...]]]:
    """{item id: whose words it held, with the holders} of the evaluation's answers that were not kept for that."""
    items, of = tables.run_items, item_results.c
    query = sa.select(items.c.item_id, of.answer_owner, of.answer_holders).select_from(
        items.join(item_results, _RESULT_OF_ITEM)
    )
    rows = db.rows(query.where(items.c.evaluation_id == evaluation_id, of.answer_owner.in_(UNKEPT)))
    return {row.item_id: (row.answer_owner, tuple(row.answer_holders or ())) for row in rows}


def latencies(db: Database, evaluation_id: int) -> list[float]:
    """Seconds that the system took for each answer of an evaluation, where that was measured."""
    items = tables.run_items
    query = (
        sa.select(item_results.c.latency_s)
        .select_from(items.join(item_results, _RESULT_OF_ITEM))
        .where(items.c.evaluation_id == evaluation_id, item_results.c.latency_s.is_not(None))
    )
    return [row.latency_s for row in db.rows(query)]


_HIT = ("chunk_id", "document_id", "rank", "score", "page", "owner")
"""What is kept of a hit, beside the hash of its text."""


def _kept(hit: Hit) -> dict[str, Any]:
    kept = {name: getattr(hit, name) for name in _HIT} | {"text_hash": digest(hit.text) if hit.text else None}
    return kept | ({"holders": list(hit.holders)} if hit.holders else {})


def _hits(row: Any, words: Mapping[str, str]) -> list[Hit]:
    return [
        Hit(
            **{name: hit[name] for name in _HIT},
            text=words.get(hit["text_hash"], ""),
            holders=tuple(hit.get("holders", ())),
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
        answer_owner=row.answer_owner,
    )


def _texts_of(connection: Connection, client_id: str, rows: Sequence[Any]) -> dict[str, str]:
    """{text hash: text} of all the hits of these rows."""
    needed = (hit["text_hash"] for row in rows for hit in row.hits or () if hit["text_hash"] is not None)
    query = sa.select(texts.c.text_hash, texts.c.text).where(texts.c.client_id == client_id)
    return {row.text_hash: row.text for row in rows_in(connection, query, texts.c.text_hash, needed)}


def _give(
    connection: Connection,
    evaluation_id: int,
    columns: tuple[str, str],
    given: Mapping[str, tuple[str, str | None, datetime | None]],
) -> None:
    """Gives the evaluation's items {item id: (content id, key, since when it may be reused by that key)}."""
    client_id = client_of(connection, evaluation_id)
    rows = [
        {"client_id": client_id, "reuse_key": key, "content_id": content_id, "made_at": made_at}
        for content_id, key, made_at in given.values()
        if key is not None and made_at is not None
    ]
    upsert(connection, reuse_keys, rows, update=["content_id", "made_at"])
    owner = {"evaluation_id": evaluation_id, "client_id": client_id}
    links = [
        {**owner, "item_id": item_id, **dict(zip(columns, each[:2], strict=True))} for item_id, each in given.items()
    ]
    upsert(connection, tables.run_items, links, update=columns)
