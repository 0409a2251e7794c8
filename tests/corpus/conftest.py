"""Document stores to test on: embedded Chroma, a real Chroma server, and a deterministic embedder without a model."""

import hashlib
import subprocess
import sys
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rageval_dagster.corpus.backends import open_backend
from rageval_dagster.corpus.store import ChromaStore, open_store
from rageval_dagster.records import Chunk
from rageval_dagster.settings import Settings, load_settings
from tests.loopback import free_port


class HashingEmbedder:
    """Each word adds to one place of the vector: texts that share words are near. Counts what it was asked for."""

    def __init__(self, dimension: int = 32, version: str = "1") -> None:
        self.name = f"hashing-{dimension}"
        self.version = version
        self.dimension = dimension
        self.encoded: list[str] = []

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        self.encoded += texts
        vectors = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for row, text in enumerate(texts):
            for word in text.lower().split():
                place = hashlib.sha256(f"{self.version}{word}".encode()).digest()
                vectors[row, int.from_bytes(place[:4], "big") % self.dimension] += 1 if place[4] % 2 else -1
            if not vectors[row].any():
                vectors[row, 0] = 1
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    def windows(self, text: str) -> list[str]:
        return [text]


@pytest.fixture
def embedder() -> HashingEmbedder:
    return HashingEmbedder()


@pytest.fixture(scope="session")
def chroma_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a running Chroma server."""
    port = free_port()
    folder = tmp_path_factory.mktemp("chroma-server")
    command = [Path(sys.executable).with_name("chroma"), "run", "--path", folder, "--host", "127.0.0.1"]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen([*command, "--port", str(port)], stdout=log, stderr=log)
    try:
        url = f"http://127.0.0.1:{port}"
        deadline = time.monotonic() + 60
        while True:
            try:
                urllib.request.urlopen(f"{url}/api/v2/heartbeat", timeout=5)
                break
            except OSError:
                if server.poll() is not None or time.monotonic() > deadline:
                    pytest.fail(f"chroma run did not start: {(folder / 'log').read_text()[-500:]}")
                time.sleep(0.05)
        yield url
    finally:
        server.terminate()
        server.wait()


def new_server_database(url: str) -> str:
    """The name of a new, empty database on a Chroma server."""
    from chromadb import AdminClient
    from chromadb.config import Settings as ChromaSettings

    name = f"test-{uuid.uuid4().hex}"
    host, port = url.removeprefix("http://").split(":")
    AdminClient(
        ChromaSettings(
            chroma_api_impl="chromadb.api.fastapi.FastAPI",
            chroma_server_host=host,
            chroma_server_http_port=int(port),
            anonymized_telemetry=False,
        )
    ).create_database(name)
    return name


def settings_of(home: Path, toml: str = "", **variables: str) -> Settings:
    """Settings from these variables, and a rageval.toml beside the home where it is given."""
    environment = {"RAGEVAL_HOME": str(home), **variables}
    if toml:
        path = home.with_name("rageval.toml")
        path.write_text(toml, encoding="utf-8")
        environment["RAGEVAL_CONFIG"] = str(path)
    return load_settings(environment, env_file=home / "none.env")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def embedded_settings(home: Path) -> Settings:
    return settings_of(home)


@pytest.fixture(params=["embedded", "server"])
def settings(request: pytest.FixtureRequest, home: Path) -> Settings:
    """Settings for an empty store, once embedded and once on a server."""
    if request.param == "embedded":
        return settings_of(home)
    url = request.getfixturevalue("chroma_server")
    return settings_of(home, RAGEVAL_CHROMA_URL=url, RAGEVAL_CHROMA_DATABASE=new_server_database(url))


@pytest.fixture
def store(settings: Settings) -> ChromaStore:
    return open_store(settings)


def their_collection(settings: Settings, name: str = "theirs", **options: Any) -> Any:
    """A collection that somebody else makes in the store, or has made, with Chroma itself."""
    return open_backend(settings).client(write=True).get_or_create_collection(name, embedding_function=None, **options)


Fill = Callable[..., list[Chunk]]


@pytest.fixture
def fill(embedder: HashingEmbedder) -> Fill:
    """Writes texts as chunks `c0`, `c1`, ... of document `d0`, `d1`, ... (two chunks each) into a client."""

    def write(store: ChromaStore, client_id: str, texts: Sequence[str], first: int = 0) -> list[Chunk]:
        chunks = [
            Chunk(f"c{number}", text, f"d{number // 2}", position=number % 2)
            for number, text in enumerate(texts, first)
        ]
        store.ensure_client(client_id)
        metadatas = [{"document_id": chunk.document_id, "position": chunk.position or 0} for chunk in chunks]
        store.upsert(client_id, chunks, embedder.encode(texts), metadatas)
        return chunks

    return write


@pytest.fixture
def make_pdf() -> Callable[[Sequence[str]], bytes]:
    """The smallest PDF with a line of text on each page."""

    def build(pages: Sequence[str]) -> bytes:
        kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(len(pages)))
        objects = [
            "<< /Type /Catalog /Pages 2 0 R >>",
            f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
            "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        ]
        for number, text in enumerate(pages):
            content = f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET"
            objects += [
                f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {5 + 2 * number} 0 R "
                "/Resources << /Font << /F1 3 0 R >> >> >>",
                f"<< /Length {len(content)} >>\nstream\n{content}\nendstream",
            ]
        out = b"%PDF-1.4\n"
        offsets = []
        for number, body in enumerate(objects, 1):
            offsets.append(len(out))
            out += f"{number} 0 obj\n{body}\nendobj\n".encode()
        table = "".join(f"{offset:010d} 00000 n \n" for offset in offsets)
        size = len(objects) + 1
        end = f"trailer\n<< /Size {size} /Root 1 0 R >>\nstartxref\n{len(out)}\n%%EOF\n"
        return out + f"xref\n0 {size}\n0000000000 65535 f \n{table}{end}".encode()

    return build
