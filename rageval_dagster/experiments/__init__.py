"""Which configuration of a RAG system is best, of many, on questions that cost money. No Dagster, no database needed.

from rageval_dagster.experiments import search

result = search({"chunk_size": [512, 1024], "k": [3, 5, 7]}, scores_of, question_ids, budget=400)
print(result.best, result.estimate, result.winner)
"""

from typing import TYPE_CHECKING, Any

from rageval_dagster.experiments.bets import surely_below
from rageval_dagster.experiments.planning import Batch, Plan, SearchResult, Trial, search

if TYPE_CHECKING:
    from rageval_dagster.experiments.patterns import Experiment, MetricType, Parameter, Pattern, SearchSpace

__all__ = [
    "Batch",
    "Experiment",
    "MetricType",
    "Parameter",
    "Pattern",
    "Plan",
    "SearchResult",
    "SearchSpace",
    "Trial",
    "search",
    "surely_below",
]


def __getattr__(name: str) -> Any:
    """The names of ai4rag, which need a database and a document store, are imported when they are asked for."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from rageval_dagster.experiments import patterns

    return getattr(patterns, name)
