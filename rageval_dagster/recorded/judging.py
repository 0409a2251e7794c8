"""Recorded answers as a judge model scores them: each dimension with its reasons, in the shape of seed 002's output."""

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rageval_dagster.errors import SettingsError
from rageval_dagster.evaluation.forecast import Calls, work_of
from rageval_dagster.identity import digest_json
from rageval_dagster.llm.client import ChatClient, ChatRequest
from rageval_dagster.llm.contexts import estimated_tokens
from rageval_dagster.llm.endpoints import endpoint_of
from rageval_dagster.metrics import judge
from rageval_dagster.metrics.interface import Metric, Tools
from rageval_dagster.metrics.judge_model import judge_scores, unasked
from rageval_dagster.metrics.registry import options_of
from rageval_dagster.recorded.formats import Output
from rageval_dagster.recorded.scoring import shape_of
from rageval_dagster.records import Outcome, Progress
from rageval_dagster.settings import JudgeWeights, Settings
from rageval_dagster.storage.database import Database

_PARTS = {"metadata", "results", "summary"}


@dataclass(frozen=True)
class Judgement:
    """What a judge says of recorded answers: {metric id: {output id: outcome}}, and each metric's summary by name."""

    outputs: Sequence[Output]
    outcomes: Mapping[str, Mapping[str, Outcome]]
    summaries: Mapping[str, Mapping[str, Any]]

    def any_of(self, count: str) -> bool:
        """Whether a count (`n_scored`, `n_error`) of any metric is above 0."""
        return any(summary[count] for summary in self.summaries.values())


def judge_settings(settings: Settings, model: str | None = None) -> Settings:
    """The settings with another judge model, if one is named.

    Raises:
        SettingsError: there is no judge model, it has no endpoint or (where its cost is limited) no price, or the
            settings forbid language models.
    """
    if settings.llm == "forbidden":
        raise SettingsError("llm is forbidden here, so no judge model is asked")
    if model is not None:
        settings = settings.model_copy(update={"judge_model": model}).bound(settings.source)
    if endpoint_of(settings, "judge") is None:
        raise SettingsError("there is no judge model: name one with --model, or set RAGEVAL_JUDGE_MODEL")
    return settings


def judge_outputs(outputs: Sequence[Output], client: ChatClient, progress: Progress | None = None) -> Judgement:
    """Judges each output in every dimension, and overall.

    Raises:
        LanguageModelError: the endpoint refuses or does not answer any more, or the budget is spent; what was said
            until then is in the client's cache.
    """
    metrics = judge.metrics(options_of(client.settings, client.settings.k))
    columns = judge_scores(metrics, [output.result for output in outputs], Tools(judge=client), progress)
    outcomes = {
        metric_id: dict(zip((output.id for output in outputs), column, strict=True))
        for metric_id, column in columns.items()
    }
    return Judgement(outputs, outcomes, shape_of(outputs, metrics, outcomes)["scores"])


def judge_forecast(db: Database, settings: Settings, client_id: str, outputs: Sequence[Output]) -> dict[str, Any]:
    """What judging outputs would take, in the shape of `evaluation.forecast`; nothing is asked.

    The requests are made as they would be sent, each once. What is cached already is not looked up, and counted.
    """
    metrics = [each for each in judge.metrics(options_of(settings, settings.k)) if each.name in judge.DIMENSIONS]
    requests = asyncio.run(_requests(metrics, outputs, settings.judged_answer_tokens))
    tokens = sum(estimated_tokens(f"{request.system or ''}{request.user}") for request in requests)
    sent = tokens / len(requests) if requests else None
    count = settings.judge_repeats * len(requests)
    calls = Calls(count, count)
    judging = work_of(db, settings, client_id, "judge", calls, settings.k, sent)
    return {
        "client": client_id,
        "answers": len(outputs),
        "judge calls": count,
        "tokens": judging["tokens"] if judging else 0,
        "cost_usd": judging["cost_usd"] if judging else 0.0,
        "seconds": judging["seconds"] if judging else 0.0,
        "models": [judging] if judging else [],
    }


class _AskedError(Exception):
    """Ends a metric where it would wait for the judge."""


class _Noted:
    """A judge that notes what it is asked, once each, and says nothing."""

    def __init__(self) -> None:
        self.requests: dict[str, ChatRequest] = {}

    async def ask(self, request: ChatRequest, read: Callable[[str], Any]) -> Any:
        self.requests[digest_json(request.identity)] = request
        raise _AskedError

    async def embed(self, texts: Iterable[str]) -> Any:
        raise _AskedError


async def _requests(metrics: Sequence[Metric], outputs: Sequence[Output], most_tokens: int) -> list[ChatRequest]:
    """What metrics of one request a result would ask."""
    noted = _Noted()
    for output in outputs:
        for metric in metrics:
            if metric.judged is not None and unasked(metric, output.result, most_tokens) is None:
                with suppress(_AskedError):
                    await metric.judged(output.result, noted)
    return list(noted.requests.values())


def file_shape(judgement: Judgement, file: Path, client: ChatClient) -> dict[str, Any]:
    """Seed 002's output: `metadata`, `results` by output id, and `summary` by dimension.

    A mean, minimum or maximum of nothing is None. Correctness is left out where nothing has a reference.
    """
    has_reference = any(output.result.item.answers for output in judgement.outputs)
    names = [name for name in (*judge.DIMENSIONS, judge.OVERALL) if has_reference or name != "correctness"]
    weights = client.settings.judge_weights
    return {
        "metadata": {
            "test_results_file": str(file),
            "evaluator_model": client.endpoint.model,
            "total_tests": len(judgement.outputs),
        },
        "results": {output.id: _result_shape(output, judgement, weights) for output in judgement.outputs},
        "summary": {name: _summary_shape(judgement.summaries[f"judge.{name}"]) for name in names},
    }


def answer_shape(outcomes: Mapping[str, Outcome], weights: JudgeWeights, has_reference: bool) -> dict[str, Any]:
    """`evaluations` by dimension, `overall_score` and `weights_used` of one answer, from its outcomes by name.

    The weights are those that count for this answer, before they are normalised. Correctness is left out without a
    reference; another dimension that does not apply stands there without a score, and weighs nothing.
    """
    names = [name for name in judge.DIMENSIONS if has_reference or name != "correctness"]
    return {
        "evaluations": {name: dimension_shape(name, outcomes[name]) for name in names},
        "overall_score": outcomes[judge.OVERALL].value,
        "weights_used": {
            name: weight
            for name, weight in judge.positive_weights(weights).items()
            if name in names and outcomes[name].status != "undefined"
        },
    }


def dimension_shape(name: str, outcome: Outcome) -> dict[str, Any]:
    """`score`, `reasoning` and the dimension's list; without a score also `undefined` or `error`: why there is none."""
    detail = outcome.detail or {}
    list_name = judge.DIMENSIONS[name]
    shape = {
        "score": outcome.value,
        "reasoning": detail.get("reasoning", ""),
        list_name: list(detail.get(list_name, ())),
    }
    return shape if outcome.value is not None else shape | {outcome.status: outcome.reason}


def may_be_replaced(path: Path) -> bool:
    """Whether nothing is lost where a judge's output is written to this path: there is none, or an earlier output."""
    if not path.exists():
        return True
    if not path.is_file():  # a pipe would have to be waited for
        return False
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(found, dict) and set(found) == _PARTS


def _result_shape(output: Output, judgement: Judgement, weights: JudgeWeights) -> dict[str, Any]:
    item, answer = output.result.item, output.result.answer
    outcomes = {name: judgement.outcomes[f"judge.{name}"][output.id] for name in (*judge.DIMENSIONS, judge.OVERALL)}
    return {
        "query": item.question if item.question.strip() else output.query_id,
        "answer": None if answer is None else answer.text,
        **answer_shape(outcomes, weights, has_reference=bool(item.answers)),
    }


def _summary_shape(summary: Mapping[str, Any]) -> dict[str, Any]:
    counts = {"count": "n_scored", "undefined": "n_undefined", "errors": "n_error"}
    return {name: summary[counts.get(name, name)] for name in ("mean", "min", "max", *counts)}
