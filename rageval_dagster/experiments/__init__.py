"""Which configuration of a RAG system is best, of many, on questions that cost money. No Dagster, no database needed.

from rageval_dagster.experiments import search

result = search({"chunk_size": [512, 1024], "k": [3, 5, 7]}, scores_of, question_ids, budget=400)
print(result.best, result.estimate, result.winner)
"""

from rageval_dagster.experiments.bets import surely_below
from rageval_dagster.experiments.planning import Batch, Plan, SearchResult, Trial, search

__all__ = ["Batch", "Plan", "SearchResult", "Trial", "search", "surely_below"]
