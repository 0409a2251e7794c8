"""What a client's metrics share, as its settings say: the embedding model, and a judge where there is one."""

from typing import TYPE_CHECKING

from rageval_dagster.metrics.interface import Tools
from rageval_dagster.settings import Settings
from rageval_dagster.storage.database import Database

if TYPE_CHECKING:
    from rageval_dagster.embedding.cache import CachedEmbedder


def metric_embedder(settings: Settings, db: Database, client_id: str) -> "CachedEmbedder":
    """The embedding model of a client's metrics, with its cache; the model is loaded at the first new text."""
    from rageval_dagster.embedding.cache import CachedEmbedder
    from rageval_dagster.embedding.models import load_embedder

    return CachedEmbedder(load_embedder(settings.metric_embedding_model, settings), db, client_id)


def tools_of(settings: Settings, db: Database, client_id: str, run_id: str) -> Tools:
    """The tools of one run; `settings` are the client's."""
    from rageval_dagster.llm.client import ChatClient

    judge = None if settings.judge_model is None else ChatClient(settings, "judge", db, client_id, run_id)
    return Tools(metric_embedder(settings, db, client_id), judge)
