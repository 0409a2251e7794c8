"""Dagster resources: what the assets talk to, each thin over the plain Python below."""

from rageval_dagster.resources.database import HistoryDatabase
from rageval_dagster.resources.lease import ClientLease
from rageval_dagster.resources.models import Embedding, Judging, QuestionGenerator
from rageval_dagster.resources.plan import EvaluationPlan
from rageval_dagster.resources.settings import RunSettings
from rageval_dagster.resources.store import DocumentStore
from rageval_dagster.resources.systems import RagSystems

__all__ = [
    "ClientLease",
    "DocumentStore",
    "Embedding",
    "EvaluationPlan",
    "HistoryDatabase",
    "Judging",
    "QuestionGenerator",
    "RagSystems",
    "RunSettings",
]
