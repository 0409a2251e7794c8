"""`rageval ingest`: documents from files into the document store, without renewing what did not change.

Which documents an ingestion may remove: every chunk remembers the folder it was loaded from (as a hash) and its file's
path in it. Loading a path again removes the documents of files under that path which are gone, and of .jsonl rows which
are gone; documents of files or rows that cannot be read just now stay as they were. A path inside a folder that
was loaded before keeps that folder's document ids. A document that comes from another folder under an id that is known
takes the place of the one before. Nothing else is ever removed: what other folders brought stays, and is counted.
"""

import math
import os
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from itertools import compress
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple

from rageval_dagster.corpus.compatibility import check_dimension, check_embedder
from rageval_dagster.corpus.fields import LEFT_OUT_FIELD, POSITION_FIELD, read_time
from rageval_dagster.corpus.readers import Document, ReadError, count_documents, is_readable
from rageval_dagster.corpus.reading import TICK_S, read_files
from rageval_dagster.corpus.splitting import ChunkSize, split_document
from rageval_dagster.corpus.store import ChromaStore, Metadata
from rageval_dagster.corpus.word_runs import SHINGLE_WORDS
from rageval_dagster.errors import IngestError
from rageval_dagster.identity import digest
from rageval_dagster.languages import is_english_only, language_shares, language_warning
from rageval_dagster.records import Chunk
from rageval_dagster.storage.clients import check_name
from rageval_dagster.storage.tables import CLIENT_ID_LENGTH

if TYPE_CHECKING:
    from rageval_dagster.embedding.models import Embedder

ROOT_FIELD = "rageval_root"
FILE_FIELD = "rageval_file"
EMBEDDER_FIELD = "rageval_embedder"

Progress = Callable[[int, int, str], None]
"""Called every few seconds with (documents done, documents there may be, what is going on)."""

_CHUNKS_AT_A_TIME = 250
_DOCUMENTS_AT_A_TIME = 200
_MOST_RUNS = 500_000
"""Of what pages left out, some 50 MB: then what comes again is kept again."""
_LANGUAGES_OF = 50
"""So many chunks are looked at for their language, evenly from the first that are embedded."""


class Refusal(NamedTuple):
    """A file that was not loaded, or not all of it, and why."""

    file: str
    reason: str


@dataclass(frozen=True)
class IngestReport:
    """What an ingestion did. `documents` are those read; `added`, `unchanged` and `removed` count chunks.

    `removed_documents` are the ids of documents that went with their files; `elsewhere` counts the documents that were
    loaded from other folders, which stay. `ignored` counts files of other kinds; `kept_out` are folders of rageval's
    own.
    `foreign_store` is whether the embedded store was not made by rageval: the chunks were written into it all the
    same, because the user asked for that.
    """

    documents: int
    added: int
    unchanged: int
    removed: int
    removed_documents: list[str]
    elsewhere: int
    refused: list[Refusal]
    ignored: int
    foreign_store: bool
    kept_out: list[str]

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "refused": [refusal._asdict() for refusal in self.refused]}


class _Loaded(NamedTuple):
    """A document that was read, ready to be stored."""

    document_id: str
    file: str
    document: Document
    chunks: list[Chunk]
    left_out: str


def ingest(
    path: Path | str,
    client_id: str,
    store: ChromaStore,
    embedder: "Embedder",
    chunk_size: int = 800,
    overlap: int = 120,
    progress: Progress | None = None,
    embed_again: bool = False,
    warn: Callable[[str], None] | None = None,
    keep_out: Collection[Path] = (),
) -> IngestReport:
    """Loads a file, or a folder's .md .txt .html .pdf .jsonl files, for a client.

    A document's id is its file's path (with /) under the nearest folder around the path that was loaded before, else
    under the path itself, or the file's folder; or it is the `id` of its .jsonl row. Unchanged chunks are not embedded
    again and keep their time of adding; hidden files are passed over. A file that cannot be read, or that a link
    brings in from outside the folder, is refused with its reason, and the rest is loaded.

    Args:
        chunk_size: characters a chunk, 0 for whole documents (of PDFs: pages).
        overlap: characters that neighbouring chunks share, fewer than chunk_size.
        embed_again: unchanged chunks get a new vector, too.
        warn: is told before anything is embedded that the embedding model may not know the documents' language.
        keep_out: folders that are not read where they stand in the folder: texts of all clients are in them.

    Raises:
        RagevalError: no client can have that name.
        IngestError: there is nothing at the path that can be loaded, or the sizes are not possible.
        EmbeddingError: the client's vectors in the store are of another dimension or model.
        StoreError: the document store cannot be written.
    """
    check_name("client name", client_id, CLIENT_ID_LENGTH)
    if chunk_size < 0 or overlap < 0 or (chunk_size and overlap >= chunk_size):
        raise IngestError(
            f"chunk size {chunk_size} with overlap {overlap} is not possible: the overlap takes 0 or more, and less "
            "than the chunk size (a chunk size of 0 keeps documents whole)"
        )
    path = Path(os.path.realpath(Path(path).expanduser()))
    listing = _list_files(path, {Path(os.path.realpath(folder)) for folder in keep_out})
    foreign_store = store.is_foreign
    if store.has(client_id):
        store.ensure_client(client_id)
        check_dimension(store, client_id, embedder)
        if not embed_again and not store.is_made_by_us(client_id):
            check_embedder(store, client_id, embedder)
    root = _find_root(store, client_id, path)
    work = _Ingestion(client_id, store, embedder, root, ChunkSize(chunk_size, overlap), progress, embed_again, warn)
    work.load(listing)
    work.remove_vanished(path)
    return IngestReport(
        documents=len(work.document_ids),
        added=work.added,
        unchanged=work.unchanged,
        removed=work.removed,
        removed_documents=sorted(work.removed_documents),
        elsewhere=work.count_elsewhere(),
        refused=work.refused,
        ignored=listing.ignored,
        foreign_store=foreign_store,
        kept_out=[folder.relative_to(path).as_posix() for folder in listing.kept_out],
    )


class _Listing(NamedTuple):
    """The files to read, sorted, which files and folders are refused unread, and how many files are of other kinds.

    `kept_out` are folders of rageval's own.
    """

    files: list[Path]
    refused: list[tuple[Path, str]]
    ignored: int
    kept_out: list[Path]


def _list_files(path: Path, keep_out: Collection[Path]) -> _Listing:
    """What stands at a path.

    Raises:
        IngestError: nothing that can be read.
    """
    kinds = ".md, .txt, .html, .pdf or .jsonl"
    if not path.exists():
        raise IngestError(f"there is no file or folder {path}")
    if not path.is_dir():
        if not is_readable(path):
            raise IngestError(f"{path} is not a {kinds} file")
        return _Listing([path], [], 0, [])
    if path in keep_out:
        raise IngestError(
            f"{path} is where rageval keeps its own files, with texts of all clients; name a folder with this client's "
            "documents only"
        )
    files: list[Path] = []
    kept_out: list[Path] = []
    refused: list[tuple[Path, str]] = []
    others = 0
    folders = [path]
    while folders:
        folder = folders.pop()
        try:
            entries = [entry for entry in os.scandir(folder) if not entry.name.startswith(".")]
        except OSError as error:
            refused.append((folder, f"cannot be read ({error.strerror})"))
            continue
        for entry in entries:
            file = Path(entry.path)
            is_folder, is_link = entry.is_dir(follow_symlinks=False), entry.is_symlink()
            is_linked_folder, leads_out = is_link and file.is_dir(), is_link and _leads_out(file, path)
            if is_linked_folder and not leads_out:
                continue  # it is read where it stands
            if not (is_folder or is_linked_folder or is_readable(file)):
                others += 1
            elif not _is_utf8(entry.name):
                refused.append((file, "has a name that is not UTF-8: rename it"))
            elif leads_out:
                refused.append((file, "is a link that leads out of the folder: to load its target, copy that here"))
            elif is_folder:
                (kept_out if file in keep_out else folders).append(file)
            else:
                files.append(file)
    if not files and not refused:
        raise IngestError(f"{path} holds no {kinds} file ({others} others)")
    return _Listing(sorted(files), sorted(refused), others, sorted(kept_out))


def _leads_out(link: Path, folder: Path) -> bool:
    return not Path(os.path.realpath(link)).is_relative_to(folder)


def _is_utf8(name: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in name)


def _find_root(store: ChromaStore, client_id: str, path: Path) -> Path:
    """The nearest folder at or around the path that was loaded before, else the path, or its folder if it is a file."""
    folders = [path, *path.parents] if path.is_dir() else list(path.parents)
    if store.has(client_id):
        for folder in folders:
            if next(store.metadata(client_id, ROOT_FIELD, [_root_name(folder)], page_size=1), None):
                return folder
    return folders[0]


def _root_name(root: Path) -> str:
    return digest(str(root))[:16]


@dataclass
class _Ingestion:
    """One run of `ingest`: its counts, and what it has seen so far."""

    client_id: str
    store: ChromaStore
    embedder: "Embedder"
    root: Path
    size: ChunkSize
    progress: Progress | None
    embed_again: bool
    warn: Callable[[str], None] | None
    document_ids: set[str] = field(default_factory=set)
    refused: list[Refusal] = field(default_factory=list)
    incomplete: set[str] = field(default_factory=set)
    removed_documents: set[str] = field(default_factory=set)
    added: int = 0
    unchanged: int = 0
    removed: int = 0
    total: int = 0
    told_at: float = field(default_factory=time.monotonic)
    left_out: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.fields = self.store.fields(self.client_id)
        self.now = datetime.now(UTC).isoformat()
        self.redactor = self.store.redactor(self.client_id)
        embedded = [self.embedder.name, self.embedder.version, *filter(None, [self.redactor.version])]
        self.embedder_name = digest(*embedded)[:16]

    def load(self, listing: _Listing) -> None:
        for path, reason in listing.refused:
            self._refuse(self._name(path), reason)
        self.total = sum(map(count_documents, listing.files))
        batch: list[_Loaded] = []
        for loaded in self._read(listing.files):
            batch.append(loaded)
            if len(batch) >= _DOCUMENTS_AT_A_TIME or sum(len(each.chunks) for each in batch) >= _CHUNKS_AT_A_TIME:
                self._store(batch)
                batch = []
        self._store(batch)
        if not self.document_ids:
            file, reason = self.refused[0]
            raise IngestError(f"nothing could be loaded, {len(self.refused)} refused; the first: {file} {reason}")
        if self.progress is not None:
            self.progress(self.total, self.total, "")

    def _read(self, files: list[Path]) -> Iterator[_Loaded]:
        names = {file: self._name(file) for file in files}
        for file, found in read_files(files, self.size):
            name = names[file]
            self._tell(f"reading {name}")
            if isinstance(found, ReadError):
                self._refuse(name, str(found))
            elif found is not None:
                document_id = found.id or name
                if document_id in self.document_ids:
                    self._refuse(name, f"document id {document_id!r} occurred before; the first is kept")
                    continue
                self.document_ids.add(document_id)
                chunks = split_document(self.client_id, document_id, found)
                yield _Loaded(document_id, name, found, chunks, self._not_left_out_yet(found.left_out))

    def _not_left_out_yet(self, text: str) -> str:
        """What of a text no document before it left out: a site has its menus on every page."""
        if len(self.left_out) > _MOST_RUNS:
            self.left_out.clear()
        found = text.split()
        new = [False] * len(found)
        for start in range(max(len(found) - SHINGLE_WORDS + 1, 1)):
            run = hash(tuple(found[start : start + SHINGLE_WORDS]))
            if run not in self.left_out:
                self.left_out.add(run)
                new[start : start + SHINGLE_WORDS] = [True] * len(found[start : start + SHINGLE_WORDS])
        return " ".join(compress(found, new))

    def _name(self, path: Path) -> str:
        return path.relative_to(self.root).as_posix()

    def _tell(self, what: str, at_once: bool = False) -> None:
        if self.progress is not None and (at_once or time.monotonic() - self.told_at >= TICK_S):
            self.told_at = time.monotonic()
            self.progress(len(self.document_ids), self.total, what)

    def _refuse(self, file: str, reason: str) -> None:
        self.refused.append(Refusal(file, reason))
        self.incomplete.add(file)

    def _store(self, batch: list[_Loaded]) -> None:
        """Writes what is new before it deletes what is old: killed in between, the next run finishes it."""
        if not batch:
            return
        stored = self._stored_chunks([loaded.document_id for loaded in batch])
        new: list[Chunk] = []
        new_metadata: list[Metadata] = []
        moved: dict[str, Metadata] = {}
        kept: set[str] = set()
        for loaded in batch:
            for chunk in loaded.chunks:
                kept.add(chunk.id)
                before = stored.get(chunk.id)
                metadata = self._metadata(loaded, chunk, before or {})
                if before is None or self.embed_again or before.get(EMBEDDER_FIELD) != self.embedder_name:
                    new.append(chunk)
                    new_metadata.append(metadata)
                    continue
                metadata = {name: value for name, value in metadata.items() if before.get(name) != value}
                if before.get(self.fields.added_at) is not None:
                    metadata.pop(self.fields.added_at, None)
                if metadata:
                    moved[chunk.id] = metadata
        if new:
            self._check_language(new)
        size = math.ceil(len(new) / max(round(len(new) / _CHUNKS_AT_A_TIME), 1))  # a small rest would be mostly filler
        for start in range(0, len(new), max(size, 1)):
            # Always: a part may take long, and what was read before it was told of just now.
            self._tell(f"embedding {new[start].document_id} ({start:,} of {len(new):,} passages)", at_once=True)
            part = slice(start, start + size)
            # The store is the user's and gets the texts as they are; a model sees them redacted only.
            vectors = self.embedder.encode([self.redactor.redact(chunk.text) for chunk in new[part]])
            # Not before: a client without chunks would be taken for one by sensor and schedule, whose run would fail.
            self.store.ensure_client(self.client_id)
            self.store.upsert(self.client_id, new[part], vectors, new_metadata[part])
        if moved:
            self.store.update_metadata(self.client_id, moved)
        gone = sorted(stored.keys() - kept)
        if gone:
            self.store.delete(self.client_id, gone)
        self.added += len(new)
        self.unchanged += len(kept) - len(new)
        self.removed += len(gone)

    def _check_language(self, chunks: list[Chunk]) -> None:
        """Warns where the model knows English alone and the first chunks that it embeds are in other languages."""
        tell, self.warn = self.warn, None
        if tell is not None and is_english_only(self.embedder.name):
            first = chunks[:: max(len(chunks) // _LANGUAGES_OF, 1)][:_LANGUAGES_OF]
            if said := language_warning(self.embedder.name, language_shares(chunk.text for chunk in first)):
                tell(said)

    def _stored_chunks(self, document_ids: list[str]) -> dict[str, dict[str, Any]]:
        if not self.store.has(self.client_id):  # its first chunk is still to come
            return {}
        pages = self.store.metadata(self.client_id, self.fields.document, document_ids)
        return {chunk_id: metadata for page in pages for chunk_id, metadata in page.items()}

    def _metadata(self, loaded: _Loaded, chunk: Chunk, before: Metadata) -> Metadata:
        """A row's own metadata, with ours over it; the row's time of adding and page count where they make sense.

        `before` is what the store has of the chunk.
        """
        names = self.fields
        own = loaded.document.metadata
        metadata: dict[str, str | int | float | bool] = {
            **own,
            names.document: loaded.document_id,
            POSITION_FIELD: chunk.position or 0,
            ROOT_FIELD: _root_name(self.root),
            FILE_FIELD: loaded.file,
            EMBEDDER_FIELD: self.embedder_name,
        }
        if read_time(own.get(names.added_at)) is None:
            metadata[names.added_at] = self.now
        if chunk.page is not None:
            metadata[names.page] = chunk.page
        left_out = loaded.left_out if chunk.position == 0 else ""
        if left_out or before.get(LEFT_OUT_FIELD):
            metadata[LEFT_OUT_FIELD] = left_out
        return metadata

    def remove_vanished(self, path: Path) -> None:
        """Deletes the documents that came from files under the path and are in none of them now."""
        scope = path.relative_to(self.root)
        gone: list[str] = []
        for page in self.store.metadata(self.client_id, ROOT_FIELD, [_root_name(self.root)]):
            for chunk_id, metadata in page.items():
                file = str(metadata.get(FILE_FIELD, ""))
                document_id = str(metadata.get(self.fields.document))
                if (
                    document_id not in self.document_ids
                    and self.incomplete.isdisjoint([file, *map(str, PurePosixPath(file).parents)])
                    and Path(file).is_relative_to(scope)
                ):
                    gone.append(chunk_id)
                    self.removed_documents.add(document_id)
        self.store.delete(self.client_id, gone)
        self.removed += len(gone)

    def count_elsewhere(self) -> int:
        """How many documents of the client were loaded from folders that are not this one."""
        found: set[str] = set()
        for page in self.store.metadata(self.client_id, ROOT_FIELD, [_root_name(self.root)], others=True):
            own = [metadata for metadata in page.values() if ROOT_FIELD in metadata]
            found.update(str(metadata.get(self.fields.document)) for metadata in own)
        return len(found)
