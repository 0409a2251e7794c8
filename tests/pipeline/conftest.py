"""A project whose models are an endpoint of the test; the command, and a Chroma server, as other folders have them."""

from collections.abc import Iterator

import pytest

from tests.cli.conftest import run
from tests.corpus.conftest import chroma_server
from tests.llm.scripted_model import scripted_model
from tests.llm.scripted_server import ScriptedServer
from tests.pipeline.services import with_endpoint
from tests.pipeline.small_project import Project, documents

__all__ = ["chroma_server", "run"]


@pytest.fixture
def served(project: Project, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    """A project with one client, whose embeddings and answers come from an endpoint."""
    with ScriptedServer(scripted_model) as server:
        ready = with_endpoint(project, server, monkeypatch)
        ready.ingest("acme", documents("lighthouse", count=4))
        yield ready
