"""Documents that may not leave: where models are forbidden for a client, no endpoint ever hears of it."""

import json
from pathlib import Path

import pytest

from rageval_dagster.embedding.models import load_embedder
from rageval_dagster.errors import EmbeddingError, LanguageModelError
from rageval_dagster.evaluation.summary import reports_of
from rageval_dagster.llm.client import ChatClient
from tests.llm.scripted_server import ScriptedServer
from tests.pipeline.small_project import Project, documents


def configure(url: str, client_table: str) -> None:
    Path("rageval.toml").write_text(
        f"""
[defaults]
system = "bm25"
openai_base_url = "{url}"
generator_model = "writer"
answer_model = "speaker"
llm_max_attempts = 1

[clients.secret]
{client_table}
""",
        encoding="utf-8",
    )


def written(body: dict[str, object]) -> str:
    """Questions for the generator, about whatever; anything is an answer."""
    return json.dumps(
        {"question": "What was founded there?", "answer": "x", "quote": "x", "category": "factual_lookup"}
    )


@pytest.mark.slow
def test_no_request_is_about_a_client_without_models(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVALUATION_DEFAULT_SAMPLE_SIZE", "2")
    with ScriptedServer(written) as server:
        configure(server.base_url, 'llm = "forbidden"')
        for client, topic in (("secret", "castle"), ("open", "lighthouse")):
            project.ingest(client, documents(topic, count=3))
        assert project.evaluate("secret", "command:one").message is None
        assert server.requests == []
        [report] = reports_of(project.database(), "secret", "command:one")
        assert report.evaluation.item_count == 2
        project.evaluate("open", "command:one")
        assert server.requests
        assert not [request for request in server.requests if "castle" in request.text]
        assert [request for request in server.requests if "lighthouse" in request.text]


def test_nothing_is_made_that_could_ask_a_model(project: Project) -> None:
    configure("http://127.0.0.1:9/v1", 'llm = "forbidden"')
    settings = project.settings.for_client("secret")
    assert (settings.generator_model, settings.answer_model) == (None, None)
    # Should a model stand there all the same.
    settings = settings.model_copy(update={"answer_model": "speaker"})
    with pytest.raises(LanguageModelError, match="client 'secret': llm is forbidden"):
        ChatClient(settings, "answer", project.database(), "secret")
    with pytest.raises(EmbeddingError, match="llm is forbidden here"):
        load_embedder("openai:vectors", settings)
