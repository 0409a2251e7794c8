"""Embedding models and question generators as Dagster resources."""

from typing import TYPE_CHECKING

import dagster as dg

from rageval_dagster.resources.database import HistoryDatabase
from rageval_dagster.settings import load_settings

if TYPE_CHECKING:
    from rageval_dagster.benchmark.generators import Generator
    from rageval_dagster.embedding.cache import CachedEmbedder
    from rageval_dagster.metrics.interface import Metric


class Embedding(dg.ConfigurableResource):
    """The two embedding models: the retriever's, part of the system, and the metrics', part of the judge."""

    database: dg.ResourceDependency[HistoryDatabase]

    def for_retrieval(self, client_id: str) -> "CachedEmbedder":
        return self._cached(load_settings().for_client(client_id).embedding_model, client_id)

    def for_metrics(self, client_id: str) -> "CachedEmbedder":
        return self._cached(load_settings().for_client(client_id).metric_embedding_model, client_id)

    def metrics(self, client_id: str, k: int) -> "list[Metric]":
        """The metrics of a client at a cutoff."""
        from rageval_dagster.metrics.registry import metrics_of

        return metrics_of(load_settings().for_client(client_id), k, self.for_metrics(client_id))

    def _cached(self, model: str, client_id: str) -> "CachedEmbedder":
        from rageval_dagster.embedding.cache import CachedEmbedder
        from rageval_dagster.embedding.models import load_embedder

        return CachedEmbedder(
            load_embedder(model, load_settings().for_client(client_id)), self.database.open(), client_id
        )


class QuestionGenerator(dg.ConfigurableResource):
    """Writes questions: with a language model where RAGEVAL_GENERATOR_MODEL names one, else without any."""

    database: dg.ResourceDependency[HistoryDatabase]

    def open(self, client_id: str) -> "Generator":
        from rageval_dagster.benchmark.generators import load_generator
        from rageval_dagster.benchmark.renewal import BenchmarkSpec

        return load_generator(
            load_settings().for_client(client_id), self.database.open(), client_id, BenchmarkSpec.seed
        )
