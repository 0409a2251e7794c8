"""Embedding models, judges and question generators as Dagster resources."""

from typing import TYPE_CHECKING

import dagster as dg

from rageval_dagster.resources.database import HistoryDatabase
from rageval_dagster.resources.settings import RunSettings

if TYPE_CHECKING:
    from rageval_dagster.benchmark.generators import Generator
    from rageval_dagster.embedding.cache import CachedEmbedder
    from rageval_dagster.metrics.interface import Metric, Tools


class Embedding(dg.ConfigurableResource):
    """The metrics' embedding model, part of the judge; the retriever's is part of the system."""

    database: dg.ResourceDependency[HistoryDatabase]
    settings: dg.ResourceDependency[RunSettings]

    def for_metrics(self, client_id: str) -> "CachedEmbedder":
        from rageval_dagster.evaluation.scoring import metric_embedder

        return metric_embedder(self.settings.read().for_client(client_id), self.database.open(), client_id)


class Judging(dg.ConfigurableResource):
    """The metrics of a client, and what they ask: an embedding model, and a judge where RAGEVAL_JUDGE_MODEL is set."""

    database: dg.ResourceDependency[HistoryDatabase]
    settings: dg.ResourceDependency[RunSettings]
    embedding: dg.ResourceDependency[Embedding]

    def metrics(self, client_id: str, k: int) -> "list[Metric]":
        """The metrics of a client at a cutoff."""
        from rageval_dagster.metrics.registry import metrics_of

        return metrics_of(self.settings.read().for_client(client_id), k, self.embedding.for_metrics(client_id))

    def tools(self, client_id: str, run_id: str, afresh: bool = False) -> "Tools":
        """What a run's metrics share; `afresh`: their judge is asked whatever it said before."""
        from rageval_dagster.evaluation.scoring import tools_of

        settings = self.settings.read().for_client(client_id)
        settings = settings.without_caches() if afresh else settings
        return tools_of(settings, self.database.open(), client_id, run_id)


class QuestionGenerator(dg.ConfigurableResource):
    """Writes questions: with a language model where RAGEVAL_GENERATOR_MODEL names one, else without any."""

    database: dg.ResourceDependency[HistoryDatabase]
    settings: dg.ResourceDependency[RunSettings]

    def open(self, client_id: str, run_id: str) -> "Generator":
        from rageval_dagster.benchmark.due import BenchmarkSpec
        from rageval_dagster.benchmark.generators import load_generator

        return load_generator(
            self.settings.read().for_client(client_id), self.database.open(), client_id, BenchmarkSpec.seed, run_id
        )

    def usage(self, client_id: str, run_id: str) -> dict[str, int | float]:
        """What the run's model calls took for questions; empty where no model writes them."""
        from rageval_dagster.storage.caches import model_usage

        found = model_usage(self.database.open(), client_id, run_id, "generator")
        return found.metadata() if found.requests else {}
