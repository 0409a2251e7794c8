"""Copies of a client's documents in other chunkings, or with vectors of another model: an experiment's own.

They live in a folder of the experiment below RAGEVAL_HOME, each a document store of its own with its own list of
chunks. Nothing else reads them, and the folder goes with the experiment.
"""

import math
import re
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from rageval_dagster.corpus.ingest import Progress, ingest
from rageval_dagster.corpus.readers import Document, is_readable
from rageval_dagster.corpus.reading import read_files
from rageval_dagster.corpus.scanning import scan_corpus
from rageval_dagster.corpus.splitting import ChunkSize
from rageval_dagster.corpus.store import ChromaStore, open_store
from rageval_dagster.embedding.cache import CachedEmbedder
from rageval_dagster.embedding.models import Embedder, is_on_this_machine, load_embedder
from rageval_dagster.errors import EmbeddingError, IngestError, LeaseHeldError, StoreError
from rageval_dagster.experiments.definition import (
    CHUNK_OVERLAP,
    CHUNK_SIZE,
    Configuration,
    Definition,
    built_in_retriever,
)
from rageval_dagster.identity import digest, digest_json
from rageval_dagster.settings import Settings
from rageval_dagster.storage.database import Database, open_database
from rageval_dagster.storage.experiments import Experiment, list_experiments, while_known

if TYPE_CHECKING:
    import numpy as np

_MADE, _FAILED = "made", "failed"
_PLAIN = re.compile(r"(?!.*-[0-9a-f]{12}$)[a-z0-9]([a-z0-9._-]*[a-z0-9])?")
"""Names that are folders as they are. Others get a hash: no two are one folder, even where case makes no difference."""
_NUMBERS_PER_VECTOR = 384
"""Of the default model; of others nobody knows before they are loaded."""
_SAMPLED, _MEASURED = 100, 15
"""Of so many texts a short, a middling and a long one are embedded so often: a batch of the default model."""
_BYTES_PER_CHUNK = 2_500
"""What Chroma and the list of chunks take of a chunk beside its text (three times: stored, indexed) and its vector."""


@dataclass(frozen=True)
class Cut:
    """One copy: how documents are cut (None: the store's own chunks), and whose vectors it has (None: no one's)."""

    size: int | None
    overlap: int | None
    embedding_model: str | None

    @property
    def key(self) -> str:
        return digest_json([self.size, self.overlap, self.embedding_model])[:16]


def cut_of(definition: Definition, settings: Settings, configuration: Configuration) -> Cut | None:
    """The copy that a configuration searches; None: the client's own document store."""
    retrievers = definition.parameters.get("retriever", [built_in_retriever(settings)])
    model = str(configuration.get("embedding_model", settings.embedding_model))
    if configuration.get("retriever", retrievers[0]) == "bm25":
        # Without vectors of its own it shares the copy of another configuration, if there is one.
        model = str(definition.parameters.get("embedding_model", [settings.embedding_model])[0])
    if definition.cuts_documents:
        size, overlap = configuration.get("chunk_size", CHUNK_SIZE), configuration.get("chunk_overlap", CHUNK_OVERLAP)
        return Cut(int(size), int(overlap) if size else 0, None if set(retrievers) == {"bm25"} else model)
    if model == settings.embedding_model or set(retrievers) == {"bm25"}:
        return None
    return Cut(None, None, model)


def folder_of(settings: Settings, client_id: str, number: int | None = None) -> Path:
    """Where an experiment has its files, or (None) all of a client's experiments."""
    plain = _PLAIN.fullmatch(client_id) is not None
    slug = re.sub(r"[^a-z0-9]+", "-", client_id.lower())[:40].strip("-") or "client"
    folder = settings.home / "experiments" / (client_id if plain else f"{slug}-{digest(client_id)[:12]}")
    return folder if number is None else folder / str(number)


def delete_copies(settings: Settings, experiment: Experiment) -> None:
    """Deletes the copies; its result files stay."""
    close_copies()
    shutil.rmtree(_copies_of(settings, experiment), ignore_errors=True)


def files_of(settings: Settings, client_id: str) -> list[Path]:
    """All files of all of a client's experiments."""
    return [path for path in folder_of(settings, client_id).rglob("*") if path.is_file()]


def delete_files(settings: Settings, client_id: str) -> None:
    """Deletes all files of all of a client's experiments: copies, results and reports."""
    close_copies()
    shutil.rmtree(folder_of(settings, client_id), ignore_errors=True)


@contextmanager
def run_alone(settings: Settings, experiment: Experiment) -> Iterator[None]:
    """For the length of a block no other command runs the experiment: both would write to its copies.

    Raises:
        LeaseHeldError: another command runs it.
    """
    import fcntl

    folder = folder_of(settings, experiment.client_id, experiment.number)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (folder / ".lock").open("ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LeaseHeldError(
                f"experiment {experiment.number} is being run by another command; wait for it to end, then run again"
            ) from None
        yield  # closing the file gives the lock back


@contextmanager
def writing_files(settings: Settings, db: Database, experiment: Experiment) -> Iterator[None]:
    """For who writes files of an experiment: where it was deleted meanwhile, as with its client, none of them stays.

    Raises:
        RagevalError: it was deleted.
    """
    try:
        with while_known(db, experiment):
            yield
    finally:
        if all(each.number != experiment.number for each in list_experiments(db, experiment.client_id)):
            close_copies()
            shutil.rmtree(folder_of(settings, experiment.client_id, experiment.number), ignore_errors=True)


def delete_leftovers(settings: Settings, db: Database) -> None:
    """Deletes the files of experiments that the database does not know any more."""
    known = {folder_of(settings, each.client_id, each.number) for each in list_experiments(db)}
    for folder in (settings.home / "experiments").glob("*/*"):
        if folder not in known:
            shutil.rmtree(folder, ignore_errors=True)


def make_copies(
    settings: Settings,
    db: Database,
    experiment: Experiment,
    documents: str | None,
    cuts: Sequence[Cut],
    progress: Progress | None = None,
) -> dict[Cut, str]:
    """Makes the copies that are not made yet; one that was killed in the middle goes on.

    A text that was embedded before for this client is not embedded again.

    Returns:
        Why a copy cannot be made, of those that cannot.

    Raises:
        StoreError: the client's document store does not answer.
    """
    failed: dict[Cut, str] = {}
    for cut in cuts:
        folder = _folder(settings, experiment, cut)
        if (folder / _MADE).exists():
            continue
        try:
            _make(settings, db, experiment, documents, cut, folder, progress)
        except (EmbeddingError, IngestError) as error:
            failed[cut] = str(error)
            (folder / _FAILED).write_text(str(error), encoding="utf-8")
        else:
            (folder / _MADE).touch()
    return failed


def open_copy(settings: Settings, experiment: Experiment, cut: Cut) -> tuple[ChromaStore, Database]:
    """The document store of a copy, and the database with its list of chunks.

    Raises:
        EmbeddingError: it could not be made.
        StoreError: it is not made yet.
    """
    folder = _folder(settings, experiment, cut)
    if not (folder / _MADE).exists():
        failed = folder / _FAILED
        if failed.exists():
            raise EmbeddingError(f"no copy of the documents: {failed.read_text(encoding='utf-8')}")
        raise StoreError(
            f"experiment {experiment.number}: the copies of the documents are not made yet; make the asset "
            "experiment_copies of its partition first"
        )
    return open_store(_settings_of(settings, folder)), _open_list(folder)


def close_copies() -> None:
    """Lets go of what `open_copy` opened."""
    _open_list.cache_clear()


def copy_embedder(settings: Settings, db: Database, client_id: str, cut: Cut) -> Embedder:
    """The model of a copy's vectors, each text embedded once a client."""
    if cut.embedding_model is None:
        return WithoutVectors()
    return CachedEmbedder(load_embedder(cut.embedding_model, settings), db, client_id)


def forecast_copies(
    settings: Settings, definition: Definition, cuts: Sequence[Cut], characters: int
) -> dict[str, float | None]:
    """What all copies together take at the most: chunks, texts to embed, seconds for that, and megabytes of disk.

    The seconds are measured on a few texts; None where a model is behind an endpoint, or may not be on this machine.

    Args:
        characters: of all documents.
    """
    chunks = texts = size = 0.0
    least, most = 0.0, 0.0
    paces: dict[tuple[int | None, str], tuple[float, float] | None] = {}
    for cut in cuts:
        step = max((cut.size or CHUNK_SIZE) - (cut.overlap or 0), 1)
        # Cut at the ends of sentences and sections, a chunk is some three quarters full.
        own = max(characters / (0.75 * step), 1.0)
        chunks += own
        if cut.embedding_model is not None:
            texts += own
            kind = cut.size, cut.embedding_model
            if kind not in paces:
                paces[kind] = _seconds_per_text(settings, definition, cut, cut.embedding_model)
            fast, slow = paces[kind] or (math.nan, math.nan)
            least, most = least + own * fast, most + own * slow
        vector = 4 * _NUMBERS_PER_VECTOR if cut.embedding_model is not None else 4
        size += own * (_BYTES_PER_CHUNK + vector) + 3 * characters * ((cut.size or CHUNK_SIZE) / step)
    return {
        "copies": len(cuts),
        "chunks_in_all_copies_estimated": round(chunks),
        "texts_to_embed": round(texts),
        "embedding_seconds_at_least": None if math.isnan(least) else round(least, 3),
        "embedding_seconds_at_most": None if math.isnan(most) else round(most, 3),
        "disk_mb": round(size / 1e6, 1),
    }


def _seconds_per_text(settings: Settings, definition: Definition, cut: Cut, model: str) -> tuple[float, float] | None:
    """What embedding a text of a copy takes on this machine now, in seconds: of a short one, and of a long one."""
    texts = sorted(_some_texts(settings, definition, cut), key=len) if is_on_this_machine(model) else []
    if not texts:
        return None
    embedder = load_embedder(model, settings)
    embedder.encode(texts[:1])  # it is loaded
    found = []
    for share in (0.1, 0.5, 0.9):
        began = time.monotonic()
        embedder.encode([texts[int(share * len(texts))]] * _MEASURED)
        found.append((time.monotonic() - began) / _MEASURED)
    return min(found), max(found)


def _some_texts(settings: Settings, definition: Definition, cut: Cut) -> list[str]:
    if cut.size is None or definition.documents is None:
        pages = open_store(settings).scan(definition.client, with_vectors=False)
        return list(islice((chunk.text for page in pages for chunk in page.chunks), _SAMPLED))
    path = Path(definition.documents)
    files = [path] if path.is_file() else sorted(each for each in path.rglob("*") if is_readable(each))
    with closing(read_files(files, ChunkSize(cut.size, cut.overlap or 0))) as reading:
        documents = (found for _, found in reading if isinstance(found, Document))
        return list(islice((section.text for found in documents for section in found.sections), _SAMPLED))


class WithoutVectors:
    """Where nobody searches by vectors: one constant for each text, since Chroma wants a number."""

    name = version = "none"
    dimension = 1

    def encode(self, texts: Sequence[str]) -> "np.ndarray":
        import numpy as np

        return np.ones((len(texts), 1), dtype=np.float32)

    def windows(self, text: str) -> list[str]:
        return [text]


def _make(
    settings: Settings,
    db: Database,
    experiment: Experiment,
    documents: str | None,
    cut: Cut,
    folder: Path,
    progress: Progress | None,
) -> None:
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    client_id = experiment.client_id
    store = open_store(_settings_of(settings, folder))
    embedder = copy_embedder(settings, db, client_id, cut)
    if cut.size is not None and documents is not None:
        ingest(documents, client_id, store, embedder, cut.size, cut.overlap or 0, progress)
    else:
        _copy_chunks(open_store(settings), store, client_id, embedder, progress)
    scan_corpus(_open_list(folder), open_store(_settings_of(settings, folder)), client_id)


def _copy_chunks(
    source: ChromaStore, target: ChromaStore, client_id: str, embedder: Embedder, progress: Progress | None
) -> None:
    """The source's chunks as they are (redacted, where the client's are), with the embedder's vectors."""
    target.ensure_client(client_id)
    fields = target.fields(client_id)
    total, done = source.count(client_id), 0
    for page in source.scan(client_id, with_vectors=False):
        metadatas = [
            {
                **({fields.document: chunk.document_id} if chunk.has_document else {}),
                **({} if chunk.page is None else {fields.page: chunk.page}),
            }
            for chunk in page.chunks
        ]
        vectors = embedder.encode([chunk.text for chunk in page.chunks])
        target.upsert(client_id, page.chunks, vectors, metadatas)
        done += len(page.chunks)
        if progress is not None:
            progress(done, total, "embedding")


def _copies_of(settings: Settings, experiment: Experiment) -> Path:
    return folder_of(settings, experiment.client_id, experiment.number) / "copies"


def _folder(settings: Settings, experiment: Experiment, cut: Cut) -> Path:
    return _copies_of(settings, experiment) / cut.key


def _settings_of(settings: Settings, folder: Path) -> Settings:
    here = {"chroma_url": None, "chroma_path": str(folder / "chroma"), "client_field": None, "collection": None}
    return settings.model_copy(update=here)


@lru_cache(maxsize=64)
def _open_list(folder: Path) -> Database:
    return open_database(f"sqlite:///{folder / 'chunks.sqlite3'}")
