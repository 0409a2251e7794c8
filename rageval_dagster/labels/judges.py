"""Judges side by side on the answers that people labelled, so that a new one is measured before it takes over."""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean

from rageval_dagster.errors import RagevalError
from rageval_dagster.evaluation.forecast import Calls, judge_calls_of, work_of
from rageval_dagster.evaluation.scoring import metric_embedder, tools_of
from rageval_dagster.identity import digest
from rageval_dagster.labels.answers import DEFAULT_METRICS
from rageval_dagster.labels.estimates import RIGHT
from rageval_dagster.metrics.interface import Metric
from rageval_dagster.metrics.registry import compute_scores, metrics_of
from rageval_dagster.records import Progress
from rageval_dagster.settings import Settings
from rageval_dagster.statistics.agreement import kappa
from rageval_dagster.storage import labels as label_storage
from rageval_dagster.storage import results as result_storage
from rageval_dagster.storage import scores as score_storage
from rageval_dagster.storage.caches import judges_used
from rageval_dagster.storage.database import Database

BATCH = 32
"""Answers judged between two writes: a kill loses at most this many."""


@dataclass(frozen=True)
class JudgeRow:
    """A judge on the labelled answers that it scored, `answers` of them.

    `models` are those that it asked, as far as is known. `bias` is by how much its mean is above people's on these
    answers; `agreement` how often it says what they do (both from .5 on right), `kappa` the same beyond chance.
    `cost_usd` is what a hundred answers cost; None where that is not known. `is_current`: the settings name it now.
    """

    version: str
    models: tuple[str, ...]
    answers: int
    agreement: float
    kappa: float | None
    bias: float
    cost_usd: float | None
    is_current: bool


@dataclass(frozen=True)
class Labelled:
    """A client's labelled answers by a metric: what people say on average of each, by result id, and every judge's
    scores of them by version. `metric` is that of the settings now; None where they have no judge for it."""

    client_id: str
    metric_id: str
    people: Mapping[str, float]
    scores: Mapping[str, Mapping[str, float]]
    metric: Metric | None

    @property
    def unscored(self) -> list[str]:
        """The answers that the judge of the settings did not score."""
        known = {} if self.metric is None else self.scores.get(self.metric.version, {})
        return sorted(self.people.keys() - known.keys())


def labelled(db: Database, settings: Settings, client_id: str, metric_id: str | None = None) -> Labelled:
    """The client's labelled answers; where no metric is named, by the first of `DEFAULT_METRICS` that has labels.

    `settings` are the client's.

    Raises:
        RagevalError: nobody labelled an answer by the metric.
    """
    counts = label_storage.labelled_counts(db, client_id)
    name = metric_id or next((each for each in DEFAULT_METRICS if each in counts), DEFAULT_METRICS[-1])
    said = label_storage.load_labels(db, client_id, name, label_storage.labelled_results(db, client_id, name))
    values = {
        result_id: [each.value for each in labels if each.value is not None] for result_id, labels in said.items()
    }
    if not values:
        raise RagevalError(f"nobody has labelled an answer for {name}: rageval labels queue --client {client_id}")
    metrics = {each.id: each for each in metrics_of(settings, settings.k, metric_embedder(settings, db, client_id))}
    metric = metrics.get(name)
    return Labelled(
        client_id,
        name,
        {result_id: fmean(each) for result_id, each in values.items()},
        score_storage.values_by_version(db, client_id, name, values),
        metric if metric is not None and metric.judged is not None else None,
    )


def judges_of(db: Database, settings: Settings, answers: Labelled) -> list[JudgeRow]:
    """Every judge that scored labelled answers, the one that agrees best with people first."""
    runs = score_storage.runs_by_version(db, answers.client_id, answers.metric_id)
    used = judges_used(
        db,
        answers.client_id,
        {version: {*runs.get(version, ()), _run_id(version)} for version in answers.scores},
    )
    now = None if answers.metric is None else answers.metric.version
    calls = settings.judge_repeats * judge_calls_of([answers.metric]) if answers.metric is not None else 0
    rows: list[JudgeRow] = []
    for version, scores in answers.scores.items():
        said = {name: (score, answers.people[name]) for name, score in scores.items()}
        right = [(score >= RIGHT, value >= RIGHT) for score, value in said.values()]
        cost, models = used[version].cost_usd, used[version].models
        if not models and version == now and settings.judge_model is not None:
            models = (settings.judge_model,)
        rows.append(
            JudgeRow(
                version=version,
                models=models,
                answers=len(said),
                agreement=fmean(one == other for one, other in right),
                kappa=kappa([one for one, _ in right], [other for _, other in right]),
                bias=fmean(score - value for score, value in said.values()),
                cost_usd=None if cost is None or not calls else 100 * calls * cost,
                is_current=version == now,
            )
        )
    return sorted(rows, key=lambda row: (-row.agreement, abs(row.bias), row.version))


def scoring_forecast(db: Database, settings: Settings, answers: Labelled) -> dict[str, object]:
    """What scoring the rest by the judge of the settings takes at the most, in the shape of `evaluation.forecast`."""
    count = settings.judge_repeats * judge_calls_of([_judged(answers)]) * len(answers.unscored)
    work = work_of(db, settings, answers.client_id, "judge", Calls(count, count), settings.k)
    return {
        "client": answers.client_id,
        "answers": len(answers.unscored),
        "judge calls": count,
        "tokens": work["tokens"] if work else 0,
        "cost_usd": work["cost_usd"] if work else 0.0,
        "seconds": work["seconds"] if work else 0.0,
        "models": [work] if work else [],
    }


def score_labelled(db: Database, settings: Settings, answers: Labelled, progress: Progress | None = None) -> None:
    """Scores the labelled answers that the judge of the settings did not score; what is scored is kept if it fails.

    Answers whose texts were deleted stay unscored. No evaluation's own scores change.

    Raises:
        RagevalError: the settings have no judge for the metric.
        LanguageModelError: the judge cannot be asked, or its budget is spent.
    """
    metric = _judged(answers)
    tools = tools_of(settings, db, answers.client_id, _run_id(metric.version))
    wanted = set(answers.unscored)
    newest = label_storage.labelled_results(db, answers.client_id, answers.metric_id)
    done = 0
    for evaluation_id in sorted({newest[result_id] for result_id in wanted}):
        results = dict(result_storage.load_results(db, evaluation_id).values())
        ids = [
            result_id
            for result_id, result in results.items()
            if result_id in wanted and newest[result_id] == evaluation_id and not result.texts_deleted
        ]
        for start in range(0, len(ids), BATCH):
            batch = ids[start : start + BATCH]
            outcomes = compute_scores([metric], [results[result_id] for result_id in batch], tools)[metric.id]
            rows = [(name, metric.id, metric.version, out) for name, out in zip(batch, outcomes, strict=True)]
            score_storage.save_rescored(db, answers.client_id, rows)
            done += len(batch)
            if progress is not None:
                progress(done, len(wanted))


def _judged(answers: Labelled) -> Metric:
    if answers.metric is None:
        raise RagevalError(f"no model judges {answers.metric_id} with these settings: set RAGEVAL_JUDGE_MODEL")
    return answers.metric


def _run_id(version: str) -> str:
    """What the calls of scoring labelled answers by a version are recorded under."""
    return f"labels:{digest(version)[:32]}"
