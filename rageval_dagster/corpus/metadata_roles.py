"""Which metadata field says what, judged by its name and by how its values behave over many chunks."""

import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

from rageval_dagster.corpus.fields import FALLBACK_DOCUMENT_FIELD, read_name, read_time, read_whole_number

DOCUMENT_NAMES = (
    *("document_id", "doc_id", "documentid", "docid", "ref_doc_id", "document", "doc", "dokument_id", "dokument"),
    *("source_id", "file_id", "article_id", "page_id", "parent_id", "source", "quelle", "file_path", "filepath"),
    *("file_name", "filename", "file", "datei", "dateiname", "fichier", "archivo", "path", "url", "uri", "link"),
    *("document_name", "doc_name", "document_title", "doc_title", "title", "titel"),
)
"""From the surest to the least sure."""

TIME_NAMES = (
    *("added_at", "ingested_at", "indexed_at", "inserted_at", "created_at", "added", "ingested", "indexed", "created"),
    *("creation_date", "createdate", "erstellt", "erstellt_am", "updated_at", "modified_at", "last_modified"),
    *("last_modified_date", "modified", "updated", "published_at", "published", "timestamp", "date", "datum", "time"),
)
PAGE_NAMES = ("page", "page_number", "page_no", "page_num", "pageno", "page_label", "seite", "seitenzahl", "pagina")
SURE_CLIENT_WORDS = frozenset("customer client tenant kunde kunden mandant mandanten cliente".split())
CLIENT_WORDS = SURE_CLIENT_WORDS | frozenset(
    "account org organization organisation project company workspace namespace firma".split()
)
"""Some of them may also be what a passage is about: those must not change within a document."""

MIN_SHARE = 0.05
"""A field that fewer chunks have says nothing about a collection."""
MIN_CLIENT_SHARE = 0.8
MAX_CUT_DOCUMENTS = 0.02
MIN_CHUNKS_A_CLIENT = 3
MAX_CHUNKS_A_DOCUMENT = 1_000
"""On average: a field whose values hold more names a system or a kind of document, not a document."""

_MAX_FIELDS = 200
_MISSING = 0
_EARLIEST = datetime(1980, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class FieldUse:
    """How chunks use a metadata field in its role.

    `share` is that of the chunks where it can be read so, `values` counts its different values there, and `types` has
    the share of each type (text, number, truth value) among the chunks that have the field at all.
    """

    name: str
    share: float
    values: int
    types: Mapping[str, float]


class MetadataColumns:
    """The metadata of many chunks, field by field, without the values themselves."""

    def __init__(self) -> None:
        self.count = 0
        self._latest = datetime.now(UTC) + timedelta(days=1)
        self._names: dict[str, array[int]] = {}
        self._types: dict[str, Counter[str]] = defaultdict(Counter)
        self._times: Counter[str] = Counter()
        self._pages: Counter[str] = Counter()
        self._read_as_name: Counter[str] = Counter()

    def add(self, metadata: Mapping[str, Any] | None) -> None:
        for field, value in (metadata or {}).items():
            if value is None or (field not in self._names and len(self._names) == _MAX_FIELDS):
                continue
            column = self._names.setdefault(field, array("q"))
            column.extend([_MISSING] * (self.count - len(column)))
            name = read_name(value)
            column.append(hash(name) or 1 if name else _MISSING)
            self._types[field][_type_name(value)] += 1
            self._read_as_name[field] += name is not None
            time = read_time(value) if not isinstance(value, str) or len(value) <= 40 else None
            self._times[field] += time is not None and _EARLIEST <= time <= self._latest
            self._pages[field] += read_whole_number(value) is not None
        self.count += 1

    def document_field(self) -> FieldUse | None:
        """The field that names a chunk's document; None where none does."""
        ranks = {field: _rank(field, DOCUMENT_NAMES) for field in self._names if self._may_name_documents(field)}
        return self._best(ranks, self._read_as_name)

    def time_field(self) -> FieldUse | None:
        """The field that says when a chunk was added, or at least when its document was made."""
        return self._best(
            {
                field: _rank(field, TIME_NAMES)
                for field in self._names
                if self._times[field] >= 0.5 * self._present(field)
                and (_rank(field, TIME_NAMES) is not None or self._types[field].keys() == {"text"})
            },
            self._times,
        )

    def page_field(self) -> FieldUse | None:
        named = {field: rank for field in self._names if (rank := _rank(field, PAGE_NAMES)) is not None}
        return self._best(named, self._pages)

    def client_fields(self, document: FieldUse | None) -> list[FieldUse]:
        """The fields that tell several clients apart, those that most chunks have first.

        Such a field has a telling name and few values. Where the name may mean something else, it has the same value
        all over a document; several customers may well have a document of one name.
        """
        found = [self._use(field, self._read_as_name) for field in self._names if _is_client_name(field)]
        fit = [
            use
            for use in found
            if use.share >= MIN_CLIENT_SHARE
            and 2 <= use.values <= use.share * self.count / MIN_CHUNKS_A_CLIENT
            and (
                document is None
                or not SURE_CLIENT_WORDS.isdisjoint(words_of(use.name))
                or self._share_cut(document.name, use.name) <= MAX_CUT_DOCUMENTS
            )
        ]
        return sorted(fit, key=lambda use: (-use.share, use.values, use.name))

    def documents(self, field: str) -> tuple[int, float]:
        """How many documents there are by this field, or the fallback, and the share of chunks with neither.

        A chunk that names no document is one itself.
        """
        own, fallback = self._column(field), self._column(FALLBACK_DOCUMENT_FIELD)
        named = [value if value != _MISSING else other for value, other in zip(own, fallback, strict=True)]
        unnamed = named.count(_MISSING)
        return len(set(named) - {_MISSING}) + unnamed, unnamed / max(self.count, 1)

    def _may_name_documents(self, field: str) -> bool:
        """By behaviour: fields with telling names need only look possible, the others like documents."""
        values, present = self._distinct(field), self._read_as_name[field]
        if not values or present / values > MAX_CHUNKS_A_DOCUMENT:
            return False
        if _rank(field, DOCUMENT_NAMES) is not None:
            return True
        # A document's chunks were added one after the other.
        runs = sum(value != following for value, following in pairwise(self._column(field)))
        return (
            not _is_client_name(field)
            and self._types[field].keys() == {"text"}
            and self._times[field] == 0
            and values >= 5
            and 2 * values <= present
            and runs <= 1.2 * values
        )

    def _best(self, ranks: Mapping[str, int | None], readable: Mapping[str, int]) -> FieldUse | None:
        """The field that at least half of the chunks have, that has several chunks a value, and the surest name."""
        uses = [(self._use(field, readable), rank) for field, rank in ranks.items()]
        fit = [
            (use.share < 0.5, self._is_unique(use), rank if rank is not None else 1_000, -use.share, use.name, use)
            for use, rank in uses
            if use.share >= MIN_SHARE
        ]
        return min(fit)[-1] if fit else None

    def _is_unique(self, use: FieldUse) -> bool:
        return use.values > 0.9 * use.share * self.count

    def _use(self, field: str, readable: Mapping[str, int]) -> FieldUse:
        present = self._present(field)
        types = {kind: number / present for kind, number in self._types[field].most_common()}
        return FieldUse(field, readable[field] / max(self.count, 1), self._distinct(field), types)

    def _share_cut(self, document_field: str, client_field: str) -> float:
        """The share of documents in whose chunks the client field has several values."""
        clients: dict[int, set[int]] = defaultdict(set)
        for document, client in zip(self._column(document_field), self._column(client_field), strict=True):
            if _MISSING not in (document, client):
                clients[document].add(client)
        return sum(len(each) > 1 for each in clients.values()) / max(len(clients), 1)

    def _present(self, field: str) -> int:
        return self._types[field].total()

    def _distinct(self, field: str) -> int:
        return len(set(self._names[field]) - {_MISSING})

    def _column(self, field: str) -> "array[int]":
        column = self._names.get(field, array("q"))
        return column + array("q", [_MISSING] * (self.count - len(column)))


def words_of(name: str) -> list[str]:
    """The words of a field's name: customerId and customer-id have the same."""
    return re.findall(r"[^\W_]+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower())


def _rank(field: str, names: Sequence[str]) -> int | None:
    """The place of the name among `names`, with whatever stands before it (metadata.source)."""
    spoken = f"_{'_'.join(words_of(field))}"
    return next((place for place, name in enumerate(names) if spoken.endswith(f"_{name}")), None)


def _is_client_name(field: str) -> bool:
    return not CLIENT_WORDS.isdisjoint(words_of(field))


def _type_name(value: Any) -> str:
    if isinstance(value, bool):
        return "truth value"
    if isinstance(value, int | float):
        return "number"
    return "text" if isinstance(value, str) else "list"
