"""The document store as a Dagster resource."""

import math
from typing import TYPE_CHECKING

import dagster as dg

from rageval_dagster.resources.settings import RunSettings

if TYPE_CHECKING:
    from rageval_dagster.corpus.store import ChromaStore


class DocumentStore(dg.ConfigurableResource):
    """Opens the Chroma of the settings freshly: a process that queried before would answer from its old index."""

    settings: dg.ResourceDependency[RunSettings]

    def open(self, patience_s: float = math.inf) -> "ChromaStore":
        from rageval_dagster.corpus.store import open_store

        return open_store(self.settings.read(), patience_s)
