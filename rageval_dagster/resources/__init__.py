"""Dagster resources: what the assets talk to, each thin over the plain Python below."""

from rageval_dagster.resources.database import HistoryDatabase
from rageval_dagster.resources.lease import ClientLease
from rageval_dagster.resources.models import Embedding, Judging, QuestionGenerator
from rageval_dagster.resources.plan import EvaluationPlan
from rageval_dagster.resources.settings import RunSettings
from rageval_dagster.resources.store import DocumentStore
from rageval_dagster.resources.systems import RagSystems

PREFIX = "rageval_"
"""Of the names of resources, jobs, schedules and sensors, so that they can stand beside those of other projects."""

__all__ = [
    "PREFIX",
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
