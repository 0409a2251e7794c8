"""The REST endpoints of `rageval serve`: seed 004's, which start the same Dagster runs as the command line."""

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Annotated, Any, Concatenate, Literal

from fastapi import APIRouter, Depends, FastAPI, HTTPException, Query
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from fastapi_offline import FastAPIOffline
from pydantic import BaseModel, ConfigDict, Field, SecretStr

from rageval_dagster.app.datasets import generate_dataset
from rageval_dagster.app.evaluate import Plan, evaluate
from rageval_dagster.app.worker import P, Result, WorkerDiedError, in_worker
from rageval_dagster.corpus.store import open_store
from rageval_dagster.errors import DatabaseError, RagevalError, SettingsError
from rageval_dagster.evaluation.leaks import passages_of_others
from rageval_dagster.evaluation.summary import failures
from rageval_dagster.settings import Settings, load_settings
from rageval_dagster.storage import benchmark as benchmark_storage
from rageval_dagster.storage import clients as client_storage
from rageval_dagster.storage import evaluations as evaluation_storage
from rageval_dagster.storage.benchmark import Dataset
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.leases import died, held_leases
from rageval_dagster.storage.scores import load_summaries
from rageval_dagster.storage.types import utc_now
from rageval_dagster.telling.alarms import failed_questions
from rageval_dagster.text import showable

PREFIX = "/api/v1/evaluation"
_DIGITS = 6
_MOST_REASONS = 3

_Id = Annotated[int, Field(ge=1, le=2**31 - 1)]
_Name = Annotated[str, Field(min_length=1, max_length=200)]


class GenerateRequest(BaseModel):
    """What to generate a dataset from, and how large.

    Without a size or a strategy, a dataset of that name keeps its own, and a new one has those of the settings.
    """

    model_config = ConfigDict(extra="forbid")

    client_id: _Name
    name: _Name = "synthetic"
    sample_size: Annotated[int, Field(ge=1, le=100_000)] | None = None
    chunk_sample_strategy: Literal["random", "diverse", "recent"] | None = None


class DatasetsQuery(BaseModel):
    """Whose datasets to list."""

    model_config = ConfigDict(extra="forbid")

    client_id: _Name | None = None


class RunsQuery(BaseModel):
    """Which evaluations to list, and how many at most."""

    model_config = ConfigDict(extra="forbid")

    dataset_id: _Id | None = None
    limit: Annotated[int, Field(ge=1, le=1000)] = 50


class DatasetResponse(BaseModel):
    """A dataset without its questions."""

    dataset_id: int
    name: str
    client_id: str
    qa_count: int
    created_at: datetime


class RunRequest(BaseModel):
    """Which dataset to evaluate, at which cutoff."""

    model_config = ConfigDict(extra="forbid")

    dataset_id: _Id
    k: Annotated[int, Field(ge=1, le=1000)] = 5


class RunResponse(BaseModel):
    """An evaluation; a number is null where nothing could be scored, `faithfulness` where no model judged.

    Numbers have six digits. `status` is failed where the system failed on every question; `error` says on how many it
    failed and why, or that it returned passages of other clients; null where nothing is wrong.
    """

    run_id: int
    dataset_id: int
    precision_at_k: float | None
    recall_at_k: float | None
    mrr: float | None
    faithfulness: float | None
    k: int
    created_at: datetime
    status: Literal["complete", "failed"]
    error: str | None


class Said(BaseModel):
    """Why a request was not done."""

    detail: str


_RESPONSES: dict[int | str, dict[str, Any]] = {401: {"model": Said, "description": "Wrong or no bearer token"}}
_UNKNOWN: dict[int | str, dict[str, Any]] = {404: {"model": Said, "description": "No such client or dataset"}}
_OF_WORK: dict[int | str, dict[str, Any]] = {
    400: {"model": Said, "description": "The body is no text"},
    409: {"model": Said, "description": "The client is being worked on"},
    503: {"model": Said, "description": "It could not be done"},
}


def make_app(settings: Settings, db: Database, token: SecretStr) -> FastAPI:
    """The endpoints, each behind the bearer token, and a page that describes them at /docs."""
    bearer = HTTPBearer(auto_error=False, description="RAGEVAL_SERVE_TOKEN")

    def authorised(given: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)]) -> None:
        wanted = token.get_secret_value().encode()
        if given is None or not secrets.compare_digest(given.credentials.encode(), wanted):
            raise HTTPException(
                401, "give the token: Authorization: Bearer <RAGEVAL_SERVE_TOKEN>", {"WWW-Authenticate": "Bearer"}
            )

    routes = APIRouter(prefix=PREFIX, dependencies=[Depends(authorised)], responses=_RESPONSES)

    @routes.post("/generate", tags=["datasets"], summary="Generate a dataset", responses=_UNKNOWN | _OF_WORK)
    def generate(request: GenerateRequest) -> DatasetResponse:
        """Generates a dataset from a client's documents."""
        with _or_unknown():  # by its documents: it may not have been evaluated before
            open_store(settings).probe(request.client_id)
        _check_free(db, request.client_id)
        size, strategy = request.sample_size or 0, request.chunk_sample_strategy or ""
        return _dataset(_done(generate_dataset, request.client_id, request.name, size, strategy))

    @routes.get("/datasets", tags=["datasets"], summary="List the datasets", responses=_UNKNOWN)
    def datasets(asked: Annotated[DatasetsQuery, Query()]) -> list[DatasetResponse]:
        """Lists the datasets, or those of one client."""
        if asked.client_id is not None:
            with _or_unknown():
                client_storage.get_client(db, asked.client_id)
        return [_dataset(each) for each in benchmark_storage.list_datasets(db, asked.client_id)]

    @routes.post("/runs", tags=["evaluations"], summary="Evaluate a dataset", responses=_UNKNOWN | _OF_WORK)
    def run(request: RunRequest) -> RunResponse:
        """Evaluates the first of a client's systems on a dataset."""
        with _or_unknown():
            dataset = benchmark_storage.get_dataset(db, request.dataset_id)
        _check_free(db, dataset.client_id)
        try:
            system = load_settings().for_client(dataset.client_id).system[0]  # what the worker will read
        except SettingsError as error:
            raise HTTPException(503, f"rageval: {showable(str(error))}") from None
        done = _done(evaluate, dataset.client_id, Plan([dataset.id], [system], request.k))
        newest = done.found[-1]
        if done.answered_nothing and not newest.leaked:
            raise HTTPException(503, showable(failed_questions(newest.report.evaluation, newest.failures) or ""))
        return _run(db, newest.report.evaluation)

    @routes.get("/runs", tags=["evaluations"], summary="List the evaluations", responses=_UNKNOWN)
    def runs(asked: Annotated[RunsQuery, Query()]) -> list[RunResponse]:
        """Lists the complete evaluations, newest first."""
        if asked.dataset_id is not None:
            with _or_unknown():
                benchmark_storage.get_dataset(db, asked.dataset_id)
        found = evaluation_storage.list_evaluations(
            db, dataset_id=asked.dataset_id, status="complete", limit=asked.limit
        )
        return [_run(db, each) for each in found]

    # FastAPI's own page takes its scripts from a public server.
    app = FastAPIOffline(
        title="rageval",
        description="Datasets and evaluations of RAG systems. A request that starts one answers when it is done.",
        redoc_url=None,
    )
    app.include_router(routes)
    return app


@contextmanager
def _or_unknown() -> Iterator[None]:
    """Where there is no such client or dataset, that is the answer; that the database is away is another one."""
    try:
        yield
    except DatabaseError as error:
        raise HTTPException(503, str(error)) from None
    except RagevalError as error:
        raise HTTPException(404, str(error)) from None


def _check_free(db: Database, client_id: str) -> None:
    now = utc_now()
    for lease in held_leases(db):
        if lease.client_id == client_id and lease.expires_at > now and not died(lease.holder):
            raise HTTPException(409, f"client {client_id!r} is being worked on: try again when that is done")


def _done(use_case: Callable[Concatenate[Settings, Database, P], Result], *args: P.args, **kwargs: P.kwargs) -> Result:
    """What a use case gives, done by a process of its own, whose memory is given back."""
    try:
        return in_worker(use_case, *args, **kwargs)
    except WorkerDiedError as error:
        raise HTTPException(503, str(error)) from None
    except RagevalError as error:
        raise HTTPException(503, f"rageval: {showable(str(error))}") from None


def _dataset(dataset: Dataset) -> DatasetResponse:
    return DatasetResponse(
        dataset_id=dataset.id,
        name=dataset.name,
        client_id=dataset.client_id,
        qa_count=dataset.qa_count,
        created_at=dataset.created_at,
    )


def _run(db: Database, evaluation: evaluation_storage.Evaluation) -> RunResponse:
    faithfulness = next((s for s in load_summaries(db, evaluation.id) if s.metric_id == "claims.faithfulness"), None)
    return RunResponse(
        run_id=evaluation.id,
        dataset_id=evaluation.dataset_id,
        precision_at_k=_rounded(evaluation.headline.get(f"precision_at_{evaluation.k}")),
        recall_at_k=_rounded(evaluation.headline.get(f"recall_at_{evaluation.k}")),
        mrr=_rounded(evaluation.headline.get("mrr")),
        faithfulness=None if faithfulness is None else _rounded(faithfulness.mean),
        k=evaluation.k,
        created_at=evaluation.finished_at or evaluation.started_at,
        status="failed" if evaluation.answered_nothing else "complete",
        error=_error(db, evaluation),
    )


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, _DIGITS)


def _error(db: Database, evaluation: evaluation_storage.Evaluation) -> str | None:
    """On how many questions the system failed, with the commonest reasons; passages of other clients."""
    if evaluation.foreign_chunks:
        return f"LEAK: the system returned {passages_of_others(evaluation.foreign_chunks)}"
    if not evaluation.error_count:
        return None
    reasons = failures(db, evaluation).most_common(_MOST_REASONS)
    said = "; ".join(f"{reason} ({count})" for reason, count in reasons)
    failed = f"the system failed on {evaluation.error_count} of {evaluation.item_count} questions"
    return f"{failed}: {said}" if said else failed
