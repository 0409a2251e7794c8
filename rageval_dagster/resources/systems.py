"""The RAG systems under test as a Dagster resource."""

from typing import TYPE_CHECKING

import dagster as dg

from rageval_dagster.resources.database import HistoryDatabase
from rageval_dagster.resources.settings import RunSettings
from rageval_dagster.resources.store import DocumentStore

if TYPE_CHECKING:
    from rageval_dagster.evaluation.stages import SystemLoader


class RagSystems(dg.ConfigurableResource):
    """Loads a system by its name for one client; within a run each is loaded once."""

    database: dg.ResourceDependency[HistoryDatabase]
    store: dg.ResourceDependency[DocumentStore]
    settings: dg.ResourceDependency[RunSettings]

    def answers_max_age_days(self, client_id: str) -> float | None:
        """How long a model's answers are reused, since hosted models drift; None: the answerer without a model."""
        settings = self.settings.read().for_client(client_id)
        return settings.llm_cache_max_age_days if settings.answer_model else None

    def loader(self, client_id: str, run_id: str, afresh: bool = False) -> "SystemLoader":
        """Loads the client's systems; their model calls are recorded under the run.

        `afresh`: their models are asked whatever they said before.
        """
        from functools import lru_cache

        from rageval_dagster.metrics.assessment import assess_answer
        from rageval_dagster.rag.systems import load_system

        db, store, settings = self.database.open(), self.store.open(), self.settings.read().for_client(client_id)
        settings = settings.without_caches() if afresh else settings
        return lru_cache(maxsize=None)(
            lambda name: load_system(name, settings, db, store, client_id, assess_answer, run_id)
        )
