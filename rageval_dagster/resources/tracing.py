"""Spans of runs for OpenTelemetry: one a run, and in it one a stage, with names and numbers and no text of anybody.

They are made only where OTEL_EXPORTER_OTLP_ENDPOINT names a collector and the extra `otel` is installed.
"""

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import dagster as dg

ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
EXPORTER = "opentelemetry.exporter.otlp.proto.http"
FLUSH_MS = 5_000
"""How long a run waits at its end for a collector that does not take its spans."""

_CLIENT = "rageval.client"
_runs: dict[str, tuple[Any, Any, str]] = {}
"""By a run's id what makes spans, its own span, and its client."""

logger = logging.getLogger(__name__)


def is_on() -> bool:
    """Whether somebody wants spans, and they can be sent."""
    return any(os.environ.get(name) for name in ENDPOINTS) and _is_installed()


def _is_installed() -> bool:
    try:
        return find_spec(EXPORTER) is not None
    except ModuleNotFoundError:  # of a parent
        return False


@contextmanager
def run_span(run: dg.DagsterRun, client_id: str) -> Iterator[None]:
    """The span of a client's run lasts as long as the block; at its end it is sent, with those of the run's stages."""
    provider = _provider() if is_on() else None
    if provider is None:
        yield
        return
    tracer = provider.get_tracer("rageval_dagster")
    span = tracer.start_span(
        run.job_name,
        attributes={
            _CLIENT: client_id,
            "rageval.trigger": run.tags.get("rageval/trigger", ""),
            "dagster.run_id": run.run_id,
        },
    )
    _runs[run.run_id] = tracer, span, client_id
    try:
        yield
    finally:
        del _runs[run.run_id]
        span.end()
        provider.force_flush(FLUSH_MS)
        provider.shutdown()


@contextmanager
def stage_span(run_id: str, stage: str) -> Iterator[Callable[[Mapping[str, Any] | None], None]]:
    """The span of a stage, within that of its run. It gives what takes the stage's metadata: the numbers are told.

    Where it fails, the class of the error is told, never its message.
    """
    if run_id not in _runs:
        yield lambda _: None
        return
    tracer, run, client_id = _runs[run_id]
    from opentelemetry.trace import Status, StatusCode, set_span_in_context

    span = tracer.start_span(stage, set_span_in_context(run), attributes={_CLIENT: client_id})
    try:
        yield lambda metadata: span.set_attributes(_numbers(metadata or {}))
    except Exception as error:
        for failed in (span, run):
            failed.set_status(Status(StatusCode.ERROR, type(error).__name__))
        raise
    finally:
        span.end()


def _numbers(metadata: Mapping[str, Any]) -> dict[str, int | float]:
    """The counts among a step's metadata; those of an evaluation are named by its dataset and system."""
    values = {name: getattr(value, "value", value) for name, value in metadata.items()}
    return {
        f"rageval.{name}": value
        for name, value in values.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }


def _provider() -> Any:
    """What makes spans and sends them; None where OpenTelemetry refuses a variable: no run fails for its spans."""
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # pyright: ignore[reportMissingImports]
            OTLPSpanExporter,
        )
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        named = {} if os.environ.get("OTEL_SERVICE_NAME") else {"service.name": "rageval"}
        provider = TracerProvider(resource=Resource.create(named))
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(timeout=FLUSH_MS / 1000)))
    except Exception as error:  # noqa: BLE001 - it has errors of many kinds
        logger.warning("no spans are sent (%s: %s): look at the variables OTEL_*", type(error).__name__, error)
        return None
    return provider
