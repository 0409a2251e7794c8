"""The user's own RAG systems, as rageval.toml defines them."""

from rageval_dagster.rag.system import RagSystem
from rageval_dagster.settings import Settings


def load_external(name: str, settings: Settings, client_id: str) -> RagSystem:
    """The system that the client's settings define under this name."""
    raise NotImplementedError
