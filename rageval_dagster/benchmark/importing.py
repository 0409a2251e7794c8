"""Importing a benchmark from a file: read, its ids found in the corpus, judged by the rules, frozen as a dataset."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rageval_dagster.benchmark.coverage import Lack, note_corpus
from rageval_dagster.benchmark.due import DEFAULT_NAME
from rageval_dagster.benchmark.formats import ReadOptions, ReadReport, Refusal, read_dataset
from rageval_dagster.benchmark.formats.rows import without_repetition
from rageval_dagster.benchmark.validation import validate_items
from rageval_dagster.corpus.evidence import find_quotes, nearest_matches
from rageval_dagster.errors import DatasetError
from rageval_dagster.records import Chunk, Evidence, Item
from rageval_dagster.redaction import Redactor
from rageval_dagster.storage import benchmark as benchmark_storage
from rageval_dagster.storage import clients as client_storage
from rageval_dagster.storage.benchmark import Dataset
from rageval_dagster.storage.database import Database, in_batches
from rageval_dagster.storage.tables import CLIENT_ID_LENGTH, NAME_LENGTH

if TYPE_CHECKING:
    from rageval_dagster.corpus.store import ChromaStore

NEAREST_FOR = 100
"""For so many unknown documents similar ones are looked for: each is compared with all that the corpus has."""

_NO_TEXTS = ("name", "kind")
"""Fields of a check that say what it is."""

_NEAREST = 3
_DOCUMENTS_AT_A_TIME = 200

_Finding = tuple[Lack, list[str] | None]


@dataclass(frozen=True)
class Unresolved:
    """Evidence of an item that the corpus does not hold.

    `nearest` are ids of the documents that may be meant, or, of a quote, of the chunks of its document that share most
    words with it; None where nobody looked, because there were too many.
    """

    item_id: str
    question: str
    document_id: str
    reason: Lack
    nearest: list[str] | None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class ImportReport:
    """What came of an import.

    `checked` is whether the evidence was looked for in the corpus, `unused` names the columns of a table not read.
    """

    dataset: Dataset
    refused: list[Refusal]
    unresolved: list[Unresolved]
    checked: bool
    unused: Sequence[str] = ()


def import_dataset(
    db: Database,
    client_id: str,
    name: str,
    path: Path,
    format_name: str,
    options: ReadOptions | None = None,
    store: "ChromaStore | None" = None,
    document_pattern: str | None = None,
) -> ImportReport:
    """Imports a file as a dataset of a client; importing the same rows again gives the same dataset.

    Where the file names a chunk in place of a document, the evidence is the chunk's text, quoted from its document: it
    survives splitting anew. Where it names a document that the corpus does not have, and the quote stands in exactly
    one that it has, this one is meant.

    Args:
        store: where the client's documents are, and what is redacted. Without it, or if it does not have the client,
            the file's ids stay as they are.
        document_pattern: a regular expression. Where its first group (else all of it) in an id of the file equals that
            in the id of exactly one document, this one is meant.

    Raises:
        DatasetError: the file cannot be read, has no usable row, the name is that of a generated dataset, or the
            pattern is no regular expression.
        StoreError: the store does not answer.
    """
    try:
        pattern = None if document_pattern is None else re.compile(document_pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise DatasetError(f"--map-document {document_pattern!r} is not a regular expression ({error})") from None
    report = read_dataset(path, format_name, options)
    if store is not None:
        report = redacted_report(report, path.name, store.redactor(client_id))
    if not report.rows:
        first = f"; the first: {report.refused[0]}" if report.refused else ""
        raise DatasetError(f"{path} has no row that can be imported{first}")
    generated = [
        dataset
        for dataset in benchmark_storage.list_datasets(db, client_id)
        if dataset.name == name and dataset.kind == "generated"
    ]
    if generated or name == DEFAULT_NAME:
        raise DatasetError(f"{name!r} is the name of client {client_id!r}'s generated dataset: choose another --name")
    client_storage.check_name("client name", client_id, CLIENT_ID_LENGTH)
    client_storage.check_name("dataset name", name, NAME_LENGTH)
    items, refused, unresolved = report.items, list(report.refused), []
    checked = store is not None and store.has(client_id)
    if store is not None and checked and any(item.evidence for item in items):
        corpus = _Corpus(store, client_id, report, pattern)
        placed = [(number, corpus.placed(item)) for number, item in report.rows]
        items = [item for _, item in without_repetition(placed, path.name, refused)]
        unresolved = corpus.unresolved(items)
    client_storage.ensure_client(db, client_id)
    judged = validate_items(items)
    flagged = {item_id: list(rules) for item_id, rules in judged.flagged.items()}
    for each in unresolved:
        flagged.setdefault(each.item_id, []).append(each.reason)
    dataset = benchmark_storage.save_dataset(
        db,
        client_id,
        name,
        "imported",
        items,
        created_by=f"import {format_name}",
        corpus_version=None,
        valid=judged.valid,
        rule_failures=judged.rule_failures,
        stats={
            "categories": dict(sorted(Counter(item.category for item in items).items())),
            "flagged": flagged,
            "rules": [asdict(result) for result in judged.rule_results],
            "refused": len(refused),
        },
    )
    if store is not None and checked:
        client = client_storage.get_client(db, client_id)
        # Only where the last scan knows the client's chunks as they are; else the next run notes what they cover.
        if client.probe == store.probe(client_id) and client.scanned_seq == client.change_seq:
            note_corpus(db, store, client_id, [dataset])
    return ImportReport(dataset, refused, unresolved, checked, report.unused)


class _Corpus:
    """The ids of a client's documents and chunks as the store has them now, and the chunks that a file names."""

    def __init__(
        self, store: "ChromaStore", client_id: str, report: ReadReport, pattern: re.Pattern[str] | None
    ) -> None:
        self._store = store
        self._client_id = client_id
        self._pattern = pattern
        self._named_beside = report.chunk_ids
        self._named: dict[str, Chunk] = {}
        self._chunk_ids: dict[str, list[str]] = {}
        self._without_document: set[str] = set()
        named = {evidence.document_id for item in report.items for evidence in item.evidence}
        named |= set(report.chunk_ids.values())
        for chunk in self._chunks():
            self._chunk_ids.setdefault(chunk.document_id, []).append(chunk.id)
            if not chunk.has_document:
                self._without_document.add(chunk.id)
            if chunk.id in named:
                self._named[chunk.id] = chunk
        self._by_key: dict[str, list[str]] = {}
        for document_id in self._chunk_ids:
            if key := self._key(document_id):
                self._by_key.setdefault(key, []).append(document_id)
        self._by_quote = self._documents_with([evidence for item in report.items for evidence in item.evidence])

    def placed(self, item: Item) -> Item:
        """The item with the evidence that the file's ids stand for."""
        chunk = self._named.get(self._named_beside.get(item.item_id, ""))
        if chunk is not None:
            return replace(item, evidence=(Evidence(chunk.document_id, None, chunk.text),))
        return replace(item, evidence=tuple(dict.fromkeys(map(self._placed, item.evidence))))

    def _placed(self, evidence: Evidence) -> Evidence:
        document_id = evidence.document_id
        chunk = self._named.get(document_id)
        # The id of a chunk without a document may be another tomorrow.
        if chunk is not None and (document_id not in self._chunk_ids or not chunk.has_document):
            return Evidence(chunk.document_id, evidence.page, evidence.quote or chunk.text)
        if document_id in self._chunk_ids:
            return evidence
        meant = self._meant(document_id) or self._by_quote.get(evidence, [])
        return replace(evidence, document_id=meant[0]) if len(meant) == 1 else evidence

    def unresolved(self, items: Sequence[Item]) -> list[Unresolved]:
        """The evidence of items that the corpus does not hold."""
        asked = list(dict.fromkeys(evidence for item in items for evidence in item.evidence))
        found = self._quotes_not_found(asked) | self._documents_not_found(asked)
        return [
            Unresolved(item.item_id, item.question, evidence.document_id, *found[evidence])
            for item in items
            for evidence in item.evidence
            if evidence in found
        ]

    def _documents_not_found(self, asked: Sequence[Evidence]) -> dict[Evidence, _Finding]:
        held = self._held_by_any([each for each in asked if each.quote and each.document_id not in self._chunk_ids])
        absent = [each for each in asked if each.document_id not in self._chunk_ids and each not in held]
        nearest: dict[str, list[str]] = {}
        found: dict[Evidence, _Finding] = {}
        for evidence in absent:
            if meant := self._meant(evidence.document_id):
                found[evidence] = "ambiguous_document", meant[:_NEAREST]
                continue
            if evidence.document_id not in nearest and len(nearest) < NEAREST_FOR:
                nearest[evidence.document_id] = nearest_matches(evidence.document_id, self._chunk_ids)
            found[evidence] = "no_such_document", nearest.get(evidence.document_id)
        return found

    def _quotes_not_found(self, asked: Sequence[Evidence]) -> dict[Evidence, _Finding]:
        quoted = [each for each in asked if each.quote and each.document_id in self._chunk_ids]
        held = self._held_by_any([each for each in quoted if each.document_id in self._without_document])
        documents = sorted({each.document_id for each in quoted if each not in held})
        found: dict[Evidence, _Finding] = {}
        for part in map(set, in_batches(documents, _DOCUMENTS_AT_A_TIME)):
            chunks: dict[str, list[Chunk]] = {document_id: [] for document_id in part}
            chunk_ids = [chunk_id for document_id in part for chunk_id in self._chunk_ids[document_id]]
            for chunk in self._store.get(self._client_id, chunk_ids):
                chunks[chunk.document_id].append(chunk)
            for evidence in quoted:
                if evidence.document_id not in part or evidence in held:
                    continue
                own, quote = chunks[evidence.document_id], evidence.quote or ""
                if not find_quotes([evidence], own)[evidence]:
                    found[evidence] = "quote_not_found", _most_alike(quote, own)
        return found

    def _held_by_any(self, asked: Sequence[Evidence]) -> set[Evidence]:
        """Those whose quote stands in a chunk without a document, under whatever id."""
        if not asked or not self._without_document:
            return set()
        chunks = (chunk for chunk in self._chunks() if not chunk.has_document)
        return {evidence for evidence, chunk_ids in find_quotes(asked, chunks).items() if chunk_ids}

    def _chunks(self) -> Iterator[Chunk]:
        for page in self._store.scan(self._client_id, with_vectors=False):
            yield from page.chunks

    def _documents_with(self, evidence: Sequence[Evidence]) -> dict[Evidence, list[str]]:
        """The documents that hold the quote of evidence whose own document the corpus does not have."""
        known = {*self._chunk_ids, *self._named}
        lost = [
            each for each in evidence if each.quote and not (each.document_id in known or self._meant(each.document_id))
        ]
        if not lost:
            return {}
        document_of = {chunk_id: name for name, chunk_ids in self._chunk_ids.items() for chunk_id in chunk_ids}
        named = (chunk for chunk in self._chunks() if chunk.has_document)
        return {
            each: sorted({document_of[chunk_id] for chunk_id in chunk_ids})
            for each, chunk_ids in find_quotes(lost, named).items()
        }

    def _key(self, document_id: str) -> str | None:
        """What the pattern finds in an id."""
        match = None if self._pattern is None else self._pattern.search(document_id)
        return None if match is None else match.group(1 if match.re.groups else 0)

    def _meant(self, document_id: str) -> list[str]:
        """The documents in whose ids the pattern finds the same."""
        return self._by_key.get(self._key(document_id) or "", [])


def _most_alike(quote: str, chunks: Sequence[Chunk]) -> list[str]:
    """The ids of the chunks that share most words with a quote, up to three."""
    words = set(quote.casefold().split())
    shared = {chunk.id: len(words.intersection(chunk.text.casefold().split())) for chunk in chunks}
    return [chunk_id for chunk_id in sorted(shared, key=lambda each: -shared[each]) if shared[chunk_id]][:_NEAREST]


def redacted_item(item: Item, redactor: Redactor) -> Item:
    """The item with question, answers, quotes, history, principal and checks redacted; ids and category stay.

    Raises:
        RedactionError: the user's own redaction failed.
    """
    if redactor.version is None:
        return item
    return replace(
        item,
        question=redactor.redact(item.question),
        answers=tuple(redactor.redact(answer) for answer in item.answers),
        evidence=tuple(
            replace(each, quote=None if each.quote is None else redactor.redact(each.quote)) for each in item.evidence
        ),
        history=tuple({**turn, "content": redactor.redact(turn["content"])} for turn in item.history),
        principal=_redacted(item.principal, redactor),
        checks=tuple(
            {key: value if key in _NO_TEXTS else _redacted(value, redactor) for key, value in check.items()}
            for check in item.checks
        ),
    )


def redacted_report(report: ReadReport, file: str, redactor: Redactor) -> ReadReport:
    """What was read of a file, redacted; rows that became alike are refused but for the first."""
    if redactor.version is None:
        return report
    refused = list(report.refused)
    redacted = [(number, item, redacted_item(item, redactor)) for number, item in report.rows]
    return replace(
        report,
        rows=without_repetition([(number, item) for number, _, item in redacted], file, refused),
        refused=refused,
        chunk_ids={
            after.item_id: report.chunk_ids[before.item_id]
            for _, before, after in redacted
            if before.item_id in report.chunk_ids
        },
    )


def _redacted(value: Any, redactor: Redactor) -> Any:
    """A JSON value with every text in it redacted; the names of fields stay."""
    if isinstance(value, str):
        return redactor.redact(value)
    if isinstance(value, Mapping):
        return {key: _redacted(part, redactor) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_redacted(part, redactor) for part in value]
    return value
