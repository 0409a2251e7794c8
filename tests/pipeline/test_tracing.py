"""The spans of a run, as a collector of OpenTelemetry gets them over HTTP."""

import threading
from collections.abc import Iterator
from typing import Any

import dagster as dg
import pytest

from rageval_dagster.resources import tracing
from tests.loopback import LoopbackServer, Quiet
from tests.pipeline.small_project import CANARY, Project, documents

pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="the extra otel is not installed")


class Collector(LoopbackServer):
    """Keeps the bodies that were sent to it."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.lock = threading.Lock()
        collector = self

        class Handler(Quiet):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                with collector.lock:
                    collector.bodies.append(body)
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

        super().__init__(Handler)

    def spans(self) -> list[Any]:
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        requests = [ExportTraceServiceRequest.FromString(body) for body in self.bodies]
        return [
            span
            for request in requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as found:
        yield found


def values_of(span: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in span.attributes}


@pytest.mark.slow
def test_a_run_is_a_span_with_one_a_stage_and_no_text(
    project: Project, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.ingest("acme", documents("lighthouse", count=3))
    assert project.evaluate("acme", "night 1").failure is None
    assert collector.bodies == [], "nobody asked for spans"
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.origin)
    launched = project.evaluate("acme", "night 2")
    assert launched.failure is None
    spans = {span.name: span for span in collector.spans()}
    run = spans.pop("rageval_evaluation")
    of_run = values_of(run)
    assert of_run["rageval.client"] == "acme"
    assert (of_run["rageval.trigger"], of_run["dagster.run_id"]) == ("night 2", launched.run_id)
    assert {"corpus_version", "retrieval_runs", "generated_answers", "metric_scores", "evaluation_runs"} <= spans.keys()
    assert {span.parent_span_id for span in spans.values()} == {run.span_id}
    assert values_of(spans["corpus_version"])["rageval.documents"] == 3
    assert values_of(spans["retrieval_runs"])["rageval.synthetic/dense/errors"] == 0
    sent = b"".join(collector.bodies)
    assert CANARY.encode() not in sent
    assert b"lighthouse of" not in sent


@pytest.mark.parametrize(
    "variable",
    [
        pytest.param(("OTEL_TRACES_SAMPLER", "always_off"), id="not sampled"),
        pytest.param(("OTEL_SDK_DISABLED", "true"), id="disabled"),
        pytest.param(("OTEL_BSP_MAX_QUEUE_SIZE", "1"), id="refused by OpenTelemetry"),
    ],
)
def test_no_variable_of_opentelemetry_fails_a_run(
    collector: Collector, monkeypatch: pytest.MonkeyPatch, variable: tuple[str, str]
) -> None:
    for name, value in (("OTEL_EXPORTER_OTLP_ENDPOINT", collector.origin), variable):
        monkeypatch.setenv(name, value)
    run = dg.DagsterRun("rageval_evaluation", run_id="00000000-0000-0000-0000-000000000001")
    with tracing.run_span(run, "acme"), tracing.stage_span(run.run_id, "corpus_version") as told:
        told({"documents": 3})
    assert collector.spans() == []
