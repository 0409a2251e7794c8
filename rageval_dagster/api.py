"""What `rageval serve` serves: seed 004's REST endpoints, which start the runs of the command line, and the reports."""

import json
import logging
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Concatenate, Literal

from fastapi import APIRouter, Depends, FastAPI, HTTPException, Query, Request
from fastapi.exception_handlers import http_exception_handler
from fastapi.exceptions import RequestValidationError
from fastapi.security import HTTPBearer
from fastapi_offline import FastAPIOffline
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr
from pydantic_core import PydanticCustomError
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rageval_dagster.app.datasets import generate_dataset
from rageval_dagster.app.evaluate import Plan, evaluate_clients
from rageval_dagster.app.fleet import waiting_runs
from rageval_dagster.app.worker import P, Result, WorkerDiedError, in_worker
from rageval_dagster.corpus.store import open_store
from rageval_dagster.errors import DatabaseError, RagevalError, SettingsError, place
from rageval_dagster.evaluation.leaks import passages_of_others
from rageval_dagster.network import TooDeepError, parsed_json
from rageval_dagster.report.labelling import LabelPages
from rageval_dagster.report.page import served_page
from rageval_dagster.report.prometheus import CONTENT_TYPE, FleetMetrics
from rageval_dagster.report.serving import TOO_MANY, ReportPages, Token, html
from rageval_dagster.settings import Settings, load_settings
from rageval_dagster.storage import benchmark as benchmark_storage
from rageval_dagster.storage import clients as client_storage
from rageval_dagster.storage import evaluations as evaluation_storage
from rageval_dagster.storage.benchmark import Dataset
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.labels import CorrectedFigures, load_corrected
from rageval_dagster.storage.leases import held_leases
from rageval_dagster.storage.results import failure_reasons
from rageval_dagster.storage.scores import means
from rageval_dagster.telling.alarms import failed_questions
from rageval_dagster.telling.words import capitalised
from rageval_dagster.text import CONTROL, showable

PREFIX = "/api/v1/evaluation"
METRICS = "/metrics"
_DIGITS = 6
_MOST_REASONS = 3
_MOST_TROUBLES = 10
_MB = 1_000_000
_PACKAGE = Path(__file__).parent
_LONGEST_LENGTH = 18
"""Digits of a Content-Length: more than that is no number that Python would take without complaint."""
_FAITHFULNESS = "claims.faithfulness"

logger = logging.getLogger(__name__)


def _printable(name: str) -> str:
    if CONTROL.search(name):
        raise PydanticCustomError("control_character", "A name has no control characters")
    return name


def _number(value: object) -> object:
    """`7.0` is an integer in JSON; `true` and `"7"` are none, though pydantic takes them for 1 and 7."""
    if isinstance(value, bool | str):
        raise PydanticCustomError("int_type", "Input should be a valid integer")
    return value


_Id = Annotated[int, Field(ge=1, le=2**31 - 1)]
_Limit = Annotated[int, Field(ge=1, le=1000)]
_Offset = Annotated[int, Field(ge=0, le=2**31 - 1)]
_Name = Annotated[
    str,
    Field(min_length=1, max_length=200, json_schema_extra={"pattern": r"^[^\x00-\x1f\x7f-\x9f]+$"}),
    AfterValidator(_printable),
]


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
    """Whose datasets to list, how many at most, and after how many of them to begin."""

    model_config = ConfigDict(extra="forbid")

    client_id: _Name | None = None
    limit: _Limit = 1000
    offset: _Offset = 0


class RunsQuery(BaseModel):
    """Which evaluations to list, how many at most, and after how many of them to begin."""

    model_config = ConfigDict(extra="forbid")

    dataset_id: _Id | None = None
    limit: _Limit = 50
    offset: _Offset = 0


class DatasetResponse(BaseModel):
    """A dataset without its questions."""

    dataset_id: int
    name: str
    client_id: str
    qa_count: int
    created_at: datetime


class RunRequest(BaseModel):
    """Which dataset to evaluate, at which cutoff; without one, at that of the client's settings."""

    model_config = ConfigDict(extra="forbid")

    dataset_id: Annotated[_Id, BeforeValidator(_number)]
    k: Annotated[int, Field(ge=1, le=1000), BeforeValidator(_number)] | None = None


class CorrectedResponse(BaseModel):
    """The mean that people would give, by their labels of some answers, with its 95 % interval."""

    mean: float | None
    low: float | None
    high: float | None
    labels: int


class RunResponse(BaseModel):
    """An evaluation; a number is null where nothing could be scored, `faithfulness` where no model judged.

    `corrected_faithfulness` is null where people's labels do not suffice: the judge is not calibrated. Numbers have six
    digits. `status` is failed where the system failed on every question; `error` says on how many it failed and why, or
    that it returned passages of other clients; null where nothing is wrong.
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
    corrected_faithfulness: CorrectedResponse | None


class Said(BaseModel):
    """Why a request was not done."""

    detail: str


class Trouble(BaseModel):
    """What is wrong with a part of a request; `loc` says with which."""

    loc: list[str | int]
    msg: str
    type: str


class Refused(BaseModel):
    """Everything that is wrong with a request, or the first ten of it."""

    detail: list[Trouble]


_RESPONSES: dict[int | str, dict[str, Any]] = {
    401: {"model": Said, "description": "Wrong or no bearer token"},
    429: {"model": Said, "description": "Too many wrong tokens from this address; Retry-After has the seconds"},
    413: {"model": Said, "description": "The body is too large"},
    422: {"model": Refused, "description": "The request is not as described"},
    500: {"model": Said, "description": "Something unexpected; the log says where"},
    503: {"model": Said, "description": "It could not be done"},
}
_UNKNOWN: dict[int | str, dict[str, Any]] = {404: {"model": Said, "description": "No such client or dataset"}}
_OF_WORK: dict[int | str, dict[str, Any]] = {
    400: {"model": Said, "description": "The body is no text, or a number in it too long"},
    409: {"model": Said, "description": "The client is being worked on"},
}


class _Guard:
    """Lets a request through to the endpoints once its token is right, and its body short and flat enough.

    In this order, and before the framework sees it, which reads and parses a body first: of a request without the
    token nothing is read at all, and of one that is too large no more than the limit. An address that gave many wrong
    tokens waits, also with the right one. The pages for people go by their
    sessions; whatever fails in them or in an endpoint, no traceback is shown or logged.
    """

    def __init__(self, app: ASGIApp, token: Token, most_bytes: int) -> None:
        self._app = app
        self._token = token
        self._most_bytes = most_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        has_begun = False

        async def sending(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            if _is_page(scope["path"]):
                refusal = None
                await self._app(scope, receive, sending)
            else:
                refusal = await self._handled(scope, receive, sending)
        except Exception as error:  # noqa: BLE001  (whatever it is: its words may be of documents)
            logger.error("%s %s: %s", scope["method"], showable(scope["path"]), _class_and_place(error))  # noqa: TRY400
            refusal = _refused(scope["path"], 500, "something unexpected happened: the log of rageval serve says where")
        if refusal is not None and not has_begun:
            await refusal(scope, receive, send)

    async def _handled(self, scope: Scope, receive: Receive, send: Send) -> Response | None:
        """None once the endpoints have answered, else what to answer in their place."""
        headers = dict(scope["headers"])
        address = scope["client"][0] if scope.get("client") else ""
        scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
        given = given.strip() if scheme.lower() == b"bearer" else b""
        if given and (seconds := self._token.must_wait_s(address)):
            again = {"Retry-After": str(seconds), "Connection": "close"}
            return _said(429, TOO_MANY.format(seconds=seconds), again)
        if not given or not self._token.is_right(given, address):
            return _said(
                401,
                "give the token: Authorization: Bearer <RAGEVAL_SERVE_TOKEN>",
                {"WWW-Authenticate": "Bearer", "Connection": "close"},
            )
        too_large = _said(
            413,
            f"the body is larger than {self._most_bytes // _MB} MB (RAGEVAL_SERVE_MAX_BODY_MB)",
            {"Connection": "close"},
        )
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or len(length) > _LONGEST_LENGTH or int(length) > self._most_bytes:
            return too_large
        body = bytearray()
        more = True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            body += message.get("body", b"")
            if len(body) > self._most_bytes:
                return too_large
            more = message.get("more_body", False)
        try:
            parsed_json(bytes(body))
        except TooDeepError as error:
            return _said(422, [{"loc": ["body"], "msg": f"The body is {error}", "type": "too_deep"}])
        except ValueError:
            pass  # the framework says what is wrong, where a body is wanted at all
        given_on = False

        async def whole() -> Message:
            nonlocal given_on
            if given_on:
                return await receive()
            given_on = True
            return {"type": "http.request", "body": bytes(body), "more_body": False}

        await self._app(scope, whole, send)
        return None


def _class_and_place(error: Exception) -> str:
    """Where this package was: between it and the endpoint there is the framework's machinery."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _PACKAGE in Path(frame.filename).parents]
    return f"{type(error).__name__} at {place(frames[-1].filename, frames[-1].lineno)}"


def _said(status: int, detail: Any, headers: dict[str, str] | None = None) -> Response:
    """In ASCII: a name that is asked for may hold half of a surrogate pair."""
    return Response(json.dumps({"detail": detail}), status, headers, "application/json")


def _is_page(path: str) -> bool:
    """Whether people look at what stands there, not programs."""
    return not path.startswith(PREFIX) and path != METRICS


def _refused(path: str, status: int, why: str) -> Response:
    return html(served_page(capitalised(why)), status) if _is_page(path) else _said(status, why)


def make_app(settings: Settings, db: Database, token: SecretStr, clock: Callable[[], float] = time.time) -> FastAPI:
    """The endpoints, each behind the bearer token, a page that describes them at /docs, and the reports behind a login.

    `clock` gives the time in seconds, by which sessions end, and who gave many wrong tokens may try again.
    """
    bearer = HTTPBearer(auto_error=False, description="RAGEVAL_SERVE_TOKEN")  # for /docs: the guard looks at it
    routes = APIRouter(prefix=PREFIX, dependencies=[Depends(bearer)], responses=_RESPONSES)

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
        found = benchmark_storage.list_datasets(db, asked.client_id, asked.limit, asked.offset)
        return [_dataset(each) for each in found]

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
        done = _done(evaluate_clients, [dataset.client_id], Plan([dataset.id], [system], request.k or 0))
        newest = done.found[-1]
        if done.answered_nothing and not newest.leaked:
            raise HTTPException(503, showable(failed_questions(newest.report.evaluation, newest.failures) or ""))
        return _runs(db, [newest.report.evaluation])[0]

    @routes.get("/runs", tags=["evaluations"], summary="List the evaluations", responses=_UNKNOWN)
    def runs(asked: Annotated[RunsQuery, Query()]) -> list[RunResponse]:
        """Lists the complete evaluations, newest first."""
        if asked.dataset_id is not None:
            with _or_unknown():
                benchmark_storage.get_dataset(db, asked.dataset_id)
        found = evaluation_storage.list_evaluations(
            db, dataset_id=asked.dataset_id, status="complete", limit=asked.limit, offset=asked.offset
        )
        return _runs(db, found)

    numbers = FleetMetrics(db, settings.metrics_per_client)

    def metrics(_: Request) -> Response:
        return Response(numbers.text(waiting_runs(settings)), media_type=CONTENT_TYPE)

    # FastAPI's own page takes its scripts from a public server.
    app = FastAPIOffline(
        title="rageval",
        description="Datasets and evaluations of RAG systems. A request that starts one answers when it is done.",
        redoc_url=None,
        redirect_slashes=False,  # to an address with the host: behind a proxy, another one than people open
    )
    app.include_router(routes)
    app.router.routes.append(Route(METRICS, metrics))
    given = Token(token, clock)
    reports = ReportPages(settings, db, given, clock)
    app.router.routes.extend([*reports.routes(), *LabelPages(db, reports).routes()])
    app.add_middleware(_Guard, token=given, most_bytes=settings.serve_max_body_mb * _MB)

    @app.exception_handler(RequestValidationError)
    def refused(_: Request, error: RequestValidationError) -> Response:
        # Without what was sent: it would come back whole, once for each thing that is wrong with it.
        troubles = error.errors()[:_MOST_TROUBLES]
        return _said(422, [{name: each[name] for name in Trouble.model_fields} for each in troubles])

    @app.exception_handler(StarletteHTTPException)
    async def missing(request: Request, error: StarletteHTTPException) -> Response:
        if _is_page(request.url.path):
            return _refused(request.url.path, error.status_code, "there is no such page")
        return await http_exception_handler(request, error)

    @app.exception_handler(DatabaseError)
    def away(request: Request, error: DatabaseError) -> Response:
        return _refused(request.url.path, 503, str(error))

    return app


@contextmanager
def _or_unknown() -> Iterator[None]:
    """Where there is no such client or dataset, that is the answer; that the database is away is another one."""
    try:
        yield
    except DatabaseError:
        raise
    except RagevalError as error:
        raise HTTPException(404, str(error)) from None


def _check_free(db: Database, client_id: str) -> None:
    for lease in held_leases(db):
        if lease.client_id == client_id and not lease.is_dead:
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


def _runs(db: Database, evaluations: list[evaluation_storage.Evaluation]) -> list[RunResponse]:
    ids = [each.id for each in evaluations]
    faithfulness, corrected = means(db, _FAITHFULNESS, ids), load_corrected(db, _FAITHFULNESS, ids)
    reasons = failure_reasons(db, [each.id for each in evaluations if each.error_count])
    return [
        RunResponse(
            run_id=each.id,
            dataset_id=each.dataset_id,
            precision_at_k=_rounded(each.headline.get(f"precision_at_{each.k}")),
            recall_at_k=_rounded(each.headline.get(f"recall_at_{each.k}")),
            mrr=_rounded(each.headline.get("mrr")),
            faithfulness=_rounded(faithfulness.get(each.id)),
            k=each.k,
            created_at=each.finished_at or each.started_at,
            status="failed" if each.answered_nothing else "complete",
            error=_error(each, reasons[each.id]),
            corrected_faithfulness=_corrected(corrected.get(each.id)),
        )
        for each in evaluations
    ]


def _corrected(found: CorrectedFigures | None) -> CorrectedResponse | None:
    if found is None:
        return None
    mean, low, high = map(_rounded, (found.corrected_mean, found.corrected_low, found.corrected_high))
    return CorrectedResponse(mean=mean, low=low, high=high, labels=found.labels)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, _DIGITS)


def _error(evaluation: evaluation_storage.Evaluation, reasons: Counter[str]) -> str | None:
    """On how many questions the system failed, with the commonest reasons; passages of other clients."""
    if evaluation.foreign_chunks:
        return f"LEAK: the system returned {passages_of_others(evaluation.foreign_chunks)}"
    if not evaluation.error_count:
        return None
    said = "; ".join(f"{reason} ({count})" for reason, count in reasons.most_common(_MOST_REASONS))
    failed = f"the system failed on {evaluation.error_count} of {evaluation.item_count} questions"
    return f"{failed}: {said}" if said else failed
