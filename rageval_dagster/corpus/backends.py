"""The two places where Chroma can live: in a folder of this machine, and on a server."""

import json
import math
import os
import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pydantic import SecretStr

from rageval_dagster.corpus.chroma_internals import (
    AWAY,
    HEARTBEAT,
    MARKER_FILE,
    Catalogue,
    ClientValue,
    Collection,
    FieldValue,
    collection_named,
    embedded,
    open_client,
    server,
    translated,
)
from rageval_dagster.corpus.fields import read_name
from rageval_dagster.corpus.snapshots import Snapshot, take_snapshot
from rageval_dagster.errors import SettingsError, StoreAwayError, StoreError, Translating, unwritable
from rageval_dagster.network import silence_libraries
from rageval_dagster.settings import Settings

if TYPE_CHECKING:
    import chromadb

    from rageval_dagster.corpus.chroma_internals import ClientAPI

_CONNECT_TIMEOUT_S = 5
_LIST_PAGE = 100
_VALUES_PAGE = 5_000
_GROUPED_FOR_S = 86_400
_DEFAULT_PORTS = {"http": 80, "https": 443}
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_HEADER_VALUE = re.compile(r"[\x20-\x7e]*")


class EmbeddedChroma:
    """Chroma in a folder. One that this project did not make is read from a snapshot copy until it is written to."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._catalogue = Catalogue(settings.embedded_chroma_path, settings.chroma_tenant, settings.chroma_database)
        self._client: ClientAPI | None = None
        self._writable = False
        self._snapshot: Snapshot | None = None

    @property
    def location(self) -> str:
        return str(self._catalogue.path)

    def translated(self) -> Translating:
        """Turns what Chroma raises into one line."""
        return translated(self.location)

    @property
    def is_foreign(self) -> bool:
        """Whether there is a store that this project did not make."""
        return self._catalogue.is_foreign

    def is_there(self) -> bool:
        """Whether there is a store at all."""
        return self._catalogue.exists()

    def collections(self) -> list[Collection]:
        return self._catalogue.collections()

    def collection(self, name: str) -> Collection | None:
        """One by its name: never given here, since one query gives all."""
        return None

    def probes(self, collections: list[Collection]) -> Iterator[str]:
        """For each collection the number of its last write."""
        revisions = self._catalogue.revisions() if collections else {}
        for collection in collections:
            yield str(revisions.get(collection.id, 0))

    def values(self, collection: Collection, field: str) -> list[FieldValue]:
        """The values of a metadata field that may name something."""
        return self._catalogue.values(collection.id, field)

    def count(self, collection: Collection) -> int:
        """How many chunks a collection has."""
        return self._catalogue.count(collection.id)

    def client(self, write: bool = False) -> "ClientAPI":
        """An open Chroma client: over the store itself if it is ours or `write`, else over a snapshot of it."""
        if self._client is None or (write and not self._writable):
            self._writable = write or not self.is_foreign
            path = self._catalogue.path
            if not (write and self.is_foreign):
                os.umask(0o077)  # a store of ours or a copy: for its owner only
            if not self._writable:
                self._settings.ensure_home()
                self._snapshot = take_snapshot(self._catalogue, self._settings.home)
                path = self._snapshot.path
            elif not self._catalogue.exists():
                self._make_folder()
            with self.translated():
                self._client = open_client(self._catalogue.tenant, self._catalogue.database, lambda: embedded(path))
        return self._client

    def _make_folder(self) -> None:
        path = self._catalogue.path
        try:
            path.mkdir(parents=True, exist_ok=True, mode=0o700)
            (path / MARKER_FILE).write_text("made by rageval: opened in place, not copied\n", encoding="utf-8")
        except OSError as error:
            what = f"a Chroma store cannot be made at {path}"
            raise StoreError(unwritable(what, error, "RAGEVAL_CHROMA_PATH names its folder")) from None


class ServerChroma:
    """Chroma on a server."""

    is_foreign = False

    def __init__(self, settings: Settings, patience_s: float = math.inf) -> None:
        self._settings = settings
        self._patience_s = patience_s
        self._listed: dict[str, chromadb.Collection] = {}
        parts = urlsplit(settings.chroma_url or "")
        if parts.scheme not in _DEFAULT_PORTS or not parts.hostname or parts.username or parts.path.strip("/"):
            raise SettingsError("RAGEVAL_CHROMA_URL takes http(s)://host:port of a Chroma server, and nothing more")
        self._host = parts.hostname
        self._port = parts.port or _DEFAULT_PORTS[parts.scheme]
        self._tls = parts.scheme == "https"
        self.location = f"{parts.scheme}://{self._host}:{self._port}"
        self._headers = _headers(settings)

    @cached_property
    def _client(self) -> "ClientAPI":
        self._check_answering()
        with self.translated():
            return open_client(
                self._settings.chroma_tenant,
                self._settings.chroma_database,
                lambda: server(self._host, self._port, self._tls, self._headers),
            )

    def translated(self) -> Translating:
        """Turns what Chroma raises into one line, without the secrets that the server may have sent back."""
        return translated(self.location, tuple(self._headers.values()))

    def _check_answering(self) -> None:
        """Chroma's own client waits for ever for a server that accepts and never answers."""
        import httpx

        silence_libraries()
        path, word = HEARTBEAT
        try:
            answer = httpx.get(f"{self.location}{path}", headers=_shown(self._headers), timeout=_CONNECT_TIMEOUT_S)
        except httpx.HTTPError as error:
            raise StoreAwayError(
                f"no Chroma server answers at {self.location} ({type(error).__name__}); start it, or set "
                "RAGEVAL_CHROMA_URL to where it runs"
            ) from None
        if not answer.is_success or word not in answer.text:
            kind = StoreAwayError if answer.status_code in AWAY else StoreError
            raise kind(
                f"{self.location} answered {answer.status_code}, not as a Chroma server does, when asked whether it "
                "is one; see RAGEVAL_CHROMA_URL and RAGEVAL_CHROMA_TOKEN"
            )

    def client(self, write: bool = False) -> "ClientAPI":
        """An open Chroma client."""
        return self._client

    def is_there(self) -> bool:
        """A server that does not answer is an error."""
        return True

    def collections(self) -> list[Collection]:
        listed: list[chromadb.Collection] = []
        with self.translated():
            while True:
                page = self._client.list_collections(limit=_LIST_PAGE, offset=len(listed))
                listed += page
                if len(page) < _LIST_PAGE:
                    break
        self._listed = {str(each.id): each for each in listed}
        found = [Collection(str(each.id), each.name, each.metadata or {}) for each in listed]
        return sorted(found, key=lambda collection: collection.name)

    def collection(self, name: str) -> Collection | None:
        """The one of that name, from one request; None where there is none."""
        with self.translated():
            found = collection_named(self._client, name)
        if found is None:
            return None
        self._listed[str(found.id)] = found
        return Collection(str(found.id), found.name, found.metadata or {})

    def probes(self, collections: list[Collection]) -> Iterator[str]:
        """For each collection its number of chunks, a request each, when it is asked for.

        That is all that a server tells cheaply: an edit in place does not move it.
        """
        for collection in collections:
            yield str(self.count(collection))

    def values(self, collection: Collection, field: str) -> list[FieldValue]:
        """The values of a metadata field that may name something.

        They take reading the whole collection's metadata: once a process while the number of its chunks stays, again
        after a day. Where that takes longer than our patience, the next call goes on where this one stopped.

        Raises:
            StoreError: our patience is over.
        """
        key = self.location, collection.id, field
        count, now = self.count(collection), time.monotonic()
        grouping = _groupings.get(key)
        if grouping is None or (
            grouping.is_done and (grouping.count != count or now - grouping.began > _GROUPED_FOR_S)
        ):
            grouping = _groupings[key] = _Grouping(count, now)
        while not grouping.is_done:
            with self.translated():
                page = self._opened(collection).get(include=["metadatas"], limit=_VALUES_PAGE, offset=grouping.offset)
            found: list[Any] = [(metadata or {}).get(field) for metadata in page["metadatas"] or []]
            grouping.add(found)
            if not grouping.is_done and time.monotonic() - now > self._patience_s:
                raise StoreError(
                    f"the clients of the chunks at {self.location} are still being read ({grouping.offset} of {count} "
                    f"in {collection.name!r}); the next look continues from there"
                )
        return [FieldValue(value, count, str(count)) for (_, value), count in grouping.counts.items()]

    def count(self, collection: Collection) -> int:
        """How many chunks a collection has."""
        with self.translated():
            return self._opened(collection).count()

    def _opened(self, collection: Collection) -> "chromadb.Collection":
        if collection.id not in self._listed:
            self._listed[collection.id] = self._client.get_collection(collection.name, embedding_function=None)
        return self._listed[collection.id]


@dataclass
class _Grouping:
    """The values of a field in a collection, as far as they are read; `count` is how many chunks it had at first."""

    count: int
    began: float
    offset: int = 0
    is_done: bool = False
    counts: Counter[tuple[type, ClientValue]] = field(default_factory=Counter)  # by type too: 7 and 7.0 are one key

    def add(self, page: Sequence[Any]) -> None:
        self.counts.update((type(value), value) for value in page if read_name(value) is not None)
        self.offset += len(page)
        self.is_done = len(page) < _VALUES_PAGE


_groupings: dict[tuple[str, str, str], _Grouping] = {}

Backend = EmbeddedChroma | ServerChroma


def open_backend(settings: Settings, patience_s: float = math.inf) -> Backend:
    """The server where RAGEVAL_CHROMA_URL names one, else the embedded store. Nothing is opened yet.

    `patience_s` is how long finding out whose chunks a server has may take at a time.
    """
    return ServerChroma(settings, patience_s) if settings.chroma_url else EmbeddedChroma(settings)


def _headers(settings: Settings) -> dict[str, SecretStr]:
    """Those of the token, and the user's own over them."""
    token, own = settings.chroma_token, settings.chroma_headers
    headers: dict[str, SecretStr] = {}
    if token is not None:
        headers = {"Authorization": SecretStr(f"Bearer {token.get_secret_value()}"), "X-Chroma-Token": token}
    if own is not None:
        try:
            headers |= {name: SecretStr(value) for name, value in _read_headers(own).items()}
        except ValueError:
            raise SettingsError(
                'RAGEVAL_CHROMA_HEADERS takes a JSON object of header names and values, such as {"X-Api-Key": "..."}'
            ) from None
    return headers


def _read_headers(text: SecretStr) -> dict[str, str]:
    headers = json.loads(text.get_secret_value())
    if not isinstance(headers, dict) or not all(
        _HEADER_NAME.fullmatch(name) and isinstance(value, str) and _HEADER_VALUE.fullmatch(value)
        for name, value in headers.items()
    ):
        raise ValueError("no headers")
    return headers


def _shown(headers: Mapping[str, SecretStr]) -> dict[str, str]:
    return {name: value.get_secret_value() for name, value in headers.items()}
