"""Scoring what was recorded: answers and contexts from a file or from memory, without a document store or history."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

from rageval_dagster.benchmark.importing import redacted_item
from rageval_dagster.errors import DatasetError, SettingsError
from rageval_dagster.evaluation.breakdown import GROUPINGS
from rageval_dagster.evaluation.summary import mean_ceiling
from rageval_dagster.llm.client import ChatClient
from rageval_dagster.metrics.interface import Metric, MetricOptions, Tools
from rageval_dagster.metrics.registry import SHORT_NAMES, chosen_metrics, compute_scores, options_of
from rageval_dagster.recorded.formats import EVALUATION_DATA, Output, OutputOptions, outputs_of
from rageval_dagster.records import Outcome, Progress, Result
from rageval_dagster.redaction import Redactor, load_redactor
from rageval_dagster.settings import Settings, load_settings
from rageval_dagster.statistics.summaries import Summary, breakdown, summarise

if TYPE_CHECKING:
    from rageval_dagster.storage.database import Database

BATCH = 256
"""Outputs scored at once: what a family holds in memory of a batch is let go after it."""

FILES_CLIENT = "(files)"
"""Whose the judge's verdicts on recorded answers are, where no client is named. No Chroma collection has this name."""


class Scored(NamedTuple):
    """Outputs, the metrics they were scored by, and {metric id: {output id: outcome}}."""

    outputs: Sequence[Output]
    metrics: Sequence[Metric]
    outcomes: Mapping[str, Mapping[str, Outcome]]


_STORE_ONLY = "retrieval.foreign_hits"
_NO_STORE = Outcome.undefined("only the document store knows whose chunks they are")


def score(
    items: Iterable[Any], metrics: Sequence[str] | None = None, *, k: int = 5, model: str | None = None
) -> dict[str, Any]:
    """Scores recorded answers.

        score([{"question": "Where is it?", "answer": "In Rome.", "contexts": ["It is in Rome."]}], ["overlap.*"])

    Args:
        items: rows of any of these shapes: an item's own fields with `answer` and `contexts`; `EvaluationData`, as
            mappings or objects; seed 000's (`reference_answer`); a judged one (`label`); or RAGAS's.
        metrics: ids or patterns such as `lexical.*`; `faithfulness`, `answer_correctness` and `context_correctness`
            stand for those of the overlap family. None: those that the settings choose, by default all. Those that ask
            a judge model run where RAGEVAL_JUDGE_MODEL is set.
        k: the cutoff of the retrieval metrics, at least 1.
        model: the metrics' embedding model, else that of the settings. It is loaded only if a metric needs it.

    Returns:
        `{"scores": {metric: {mean, ci_low, ci_high, n, n_scored, n_undefined, n_error, ...}}, "question_scores":
        {metric: {id: value or None}}, "outcomes": {metric: {id: {status, reason}}}}`: values in [0, 1] with 95 %
        intervals, and why an item has no value (as `result_shape`). A row's id is its own, else `q0`, `q1`, ...

    Raises:
        DatasetError: a row is of no known shape or a field of it is wrong; there is none, or `k` is no cutoff.
        SettingsError: a pattern chooses no metric, or only such as need a judge model, and none is set.
        EmbeddingError: the embedding model cannot be loaded.
        LanguageModelError: the judge's endpoint refuses or does not answer, or its budget is spent.
    """
    return shape_of(*scored(items, metrics, k=k, model=model))


def scored(
    items: Iterable[Any],
    metrics: Sequence[str] | None = None,
    *,
    k: int = 5,
    model: str | None = None,
    judge_model: str | None = None,
) -> Scored:
    """As `score`, before its shape is made. Items may be outputs that were read from a file.

    `judge_model` stands in for RAGEVAL_JUDGE_MODEL.
    """
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise DatasetError(f"the cutoff k is a whole number of at least 1, not {k!r}")
    if isinstance(metrics, str):
        metrics = [metrics]
    settings = load_settings()
    if judge_model is not None:
        settings = settings.model_copy(update={"judge_model": judge_model}).bound(settings.source)
    chosen, tools = metrics_and_tools(settings, metrics, k, model)
    items = list(items)
    outputs = [replace(each, result=replace(each.result, k=k)) for each in items if isinstance(each, Output)]
    if len(outputs) < len(items):
        report = outputs_of(map(_row, items), OutputOptions(k=k, decline_phrases=settings.decline_phrases))
        if report.refused:
            more = f" (and {len(report.refused) - 1} more rows)" if len(report.refused) > 1 else ""
            raise DatasetError(f"{report.refused[0]}{more}")
        outputs = report.rows
    if not outputs:
        raise DatasetError("there are no items to score")
    redacted = redacted_outputs(outputs, settings)
    return Scored(redacted, chosen, score_outputs(redacted, chosen, tools))


def metrics_and_tools(
    settings: Settings,
    patterns: Sequence[str] | None,
    k: int,
    model: str | None = None,
    client_id: str | None = None,
    make_home: bool = False,
) -> tuple[list[Metric], Tools]:
    """The metrics that patterns choose (None: the settings), with the embedder and the judge that they need, if any.

    The embedding model is not loaded yet. Without a judge model the metrics that need one are left out, and so are they
    where nobody chose any metric: what has to be paid for is asked for by name. Verdicts are kept for the client in the
    history database, if there is one, or `make_home` says that one is to be made.

    Raises:
        SettingsError: a pattern chooses no metric, or only such as need a judge model, and there is none.
        EmbeddingError: a model is needed that there is not.
    """
    patterns = None if patterns is None else [SHORT_NAMES.get(pattern, pattern) for pattern in patterns]
    options = options_of(settings, k)
    for pattern in patterns or ():
        if options.judge_version is None and all(
            "judge" in metric.needs for metric in chosen_metrics(settings, options, [pattern])
        ):
            why = "llm is forbidden" if settings.llm == "forbidden" else "RAGEVAL_JUDGE_MODEL is not set"
            raise SettingsError(f"metrics: {pattern!r} needs a judge model, and {why}")
    if patterns is None and settings.metrics == ("*",):
        patterns = [metric.id for metric in chosen_metrics(settings, options) if "judge" not in metric.needs]
    needs = set().union(*(metric.needs for metric in _runnable(settings, options, patterns)))
    embedder = judge = None
    if "embedder" in needs:
        from rageval_dagster.embedding.models import load_embedder

        embedder = load_embedder(model or settings.metric_embedding_model, settings)
    if "judge" in needs:
        db = _history(settings, make_home)
        judge = ChatClient(settings, "judge", db, client_id or FILES_CLIENT, new_run_id())
    return _runnable(settings, options_of(settings, k, embedder), patterns), Tools(embedder, judge)


def new_run_id() -> str:
    """What the model calls of one command are recorded under."""
    return f"command:{uuid4().hex}"


def _runnable(settings: Settings, options: MetricOptions, patterns: Sequence[str] | None) -> list[Metric]:
    chosen = chosen_metrics(settings, options, patterns)
    return [metric for metric in chosen if options.judge_version is not None or "judge" not in metric.needs]


def _history(settings: Settings, make_home: bool) -> "Database | None":
    """The history database, if this is a project or is to be one."""
    if make_home:
        settings.ensure_home()
    if settings.database_url_setting is None and not settings.home.is_dir():
        return None
    from rageval_dagster.storage.database import open_database

    return open_database(settings.database_url)


def score_outputs(
    outputs: Sequence[Output], metrics: Sequence[Metric], tools: Tools, progress: Progress | None = None
) -> Mapping[str, Mapping[str, Outcome]]:
    """Each metric's outcome for each output, {metric id: {output id: outcome}}, computed in batches.

    Between batches only scores and the vectors of `tools` stay (each distinct text is embedded once). Whose chunks came
    back is not known without the document store: `retrieval.foreign_hits` is undefined.
    """
    scores: dict[str, dict[str, Outcome]] = {metric.id: {} for metric in metrics}
    for start in range(0, len(outputs), BATCH):
        batch = outputs[start : start + BATCH]
        found = compute_scores(metrics, [output.result for output in batch], tools)
        for metric_id, column in found.items():
            for output, outcome in zip(batch, column, strict=True):
                unknown = metric_id == _STORE_ONLY and outcome.status == "scored"
                scores[metric_id][output.id] = _NO_STORE if unknown else outcome
        if progress is not None:
            progress(start + len(batch), len(outputs))
    return scores


def redacted_outputs(outputs: Sequence[Output], settings: Settings) -> Sequence[Output]:
    """The outputs as an evaluation would hold them: questions, references, contexts and answers redacted.

    Raises:
        RedactionError: the user's own redaction failed.
        SettingsError: it cannot be loaded.
    """
    redactor = load_redactor(settings.redact, settings.path("."))
    if redactor.version is None:
        return outputs
    return [replace(output, result=_redacted(output.result, redactor)) for output in outputs]


def _redacted(result: Result, redactor: Redactor) -> Result:
    answer = result.answer
    return replace(
        result,
        item=redacted_item(result.item, redactor),
        hits=tuple(replace(hit, text=redactor.redact(hit.text)) for hit in result.hits),
        contexts=tuple(map(redactor.redact, result.contexts)),
        answer=None if answer is None else replace(answer, text=redactor.redact(answer.text)),
    )


def shape_of(
    outputs: Sequence[Output], metrics: Sequence[Metric], scores: Mapping[str, Mapping[str, Outcome]]
) -> dict[str, Any]:
    """The scores in the shape of results; outputs of one document, or of one question, are no independent ones."""
    results = {output.id: output.result for output in outputs}
    ceilings = {metric.id: mean_ceiling(metric, scores[metric.id], results) for metric in metrics}
    return result_shape(
        scores,
        clusters={output.id: _cluster(output) for output in outputs},
        ceilings={metric_id: ceiling for metric_id, ceiling in ceilings.items() if ceiling is not None},
    )


def result_shape(
    outcomes: Mapping[str, Mapping[str, Outcome]],
    clusters: Mapping[str, Hashable] | None = None,
    ceilings: Mapping[str, float] | None = None,
) -> dict[str, Any]:
    """What {metric: {question: outcome}} comes to, of dicts, strings, numbers in [0, 1], counts and None.

    - `scores`: {metric: {mean, ci_low, ci_high, n, n_scored, n_undefined, n_error, min, max, worst_low, worst_high}};
      mean, interval (95 %) and range are None where nothing was scored.
    - `question_scores`: {metric: {question: value}}; None where the question was not scored, never 0.
    - `outcomes`: {metric: {question: {status, reason}}} of just those, with status `undefined` or `error`; metrics that
      scored every question are left out.
    - `details`: {metric: {question: detail}} of what stands behind a value, such as each declared check's own result;
      metrics and questions without any are left out.

    `clusters` maps questions to clusters for the intervals, `ceilings` metrics to the best mean that their questions
    allow, both as in `summarise`.
    """
    ceilings = ceilings or {}
    unscored = {
        metric: {
            item: {"status": outcome.status, "reason": outcome.reason}
            for item, outcome in column.items()
            if outcome.value is None
        }
        for metric, column in outcomes.items()
    }
    details = {
        metric: {item: dict(outcome.detail) for item, outcome in column.items() if outcome.detail is not None}
        for metric, column in outcomes.items()
    }
    return {
        "scores": {
            metric: asdict(summarise(column, clusters, ceiling=ceilings.get(metric)))
            for metric, column in outcomes.items()
        },
        "question_scores": {
            metric: {item: outcome.value for item, outcome in column.items()} for metric, column in outcomes.items()
        },
        "outcomes": {metric: found for metric, found in unscored.items() if found},
        "details": {metric: found for metric, found in details.items() if found},
    }


def broken_down(
    outputs: Sequence[Output], scores: Mapping[str, Mapping[str, Outcome]], by: str
) -> dict[str, dict[str, Summary]]:
    """The summaries by `category` or `document`, {group: {metric id: summary}}, of metrics that have values there.

    An output with evidence in several documents counts in each of them, one with none in no group.
    """
    groups = {output.id: GROUPINGS[by](output.result.item) for output in outputs}
    clusters = {output.id: _cluster(output) for output in outputs}
    found: dict[str, dict[str, Summary]] = {}
    for metric_id, column in scores.items():
        for group, summary in breakdown(column, groups, clusters).items():
            if summary.n_scored or summary.n_error:
                found.setdefault(group, {})[metric_id] = summary
    return dict(sorted(found.items()))


def _cluster(output: Output) -> str:
    item = output.result.item
    return item.cluster() if item.evidence else item.question or output.id


def _row(item: Any) -> Mapping[str, Any]:
    """A mapping with lists, as a file would hold it."""
    if isinstance(item, Mapping):
        return {str(name): _with_lists(value) for name, value in item.items()}
    return {name: _with_lists(getattr(item, name)) for name in EVALUATION_DATA if hasattr(item, name)}


def _with_lists(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _with_lists(entry) for name, entry in value.items()}
    return [_with_lists(entry) for entry in value] if isinstance(value, list | tuple) else value
