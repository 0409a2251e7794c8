"""Where an experiment stands: its search replayed from the stored scores, and what comes next.

Nothing but scores is kept of the search, so whoever was killed at whatever moment, the next one goes on from here.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rageval_dagster.experiments.bets import surely_below
from rageval_dagster.experiments.definition import Definition, definition_of, settings_of
from rageval_dagster.experiments.opening import has_changed, space_of
from rageval_dagster.experiments.planning import Batch, Plan, SearchResult
from rageval_dagster.experiments.trial import budget_spent, configuration_key, cost_limit, metrics_wanted
from rageval_dagster.records import Interval
from rageval_dagster.settings import Settings
from rageval_dagster.statistics.intervals import mean_interval
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.experiments import (
    Experiment,
    QuestionResult,
    end_experiment,
    get_experiment,
    load_results,
    spent_usd,
)
from rageval_dagster.text import plural

HARDLY_MORE = 1.1
"""Costs and latencies up to so many times the least one are as good as it: they vary from one time to the next."""


@dataclass(frozen=True)
class Measured:
    """What a configuration came to on all questions that it was asked, held-out ones too.

    Intervals are of 95 % and do not account for having been chosen among many. Cost and tokens are of one answer, as if
    nothing came from a cache; latency in seconds. Each is None where it is not known.
    """

    n: int
    failed: int
    scores: Mapping[str, Interval]
    question_scores: Mapping[str, Mapping[str, float | None]]
    cost_usd: float | None
    tokens: float | None
    latency_s: float | None


@dataclass(frozen=True)
class Standing:
    """An experiment as its stored scores have it. No `batches` are left where the search is done.

    `recommended` is the number of the cheapest within the tolerance of the best; None where nothing is known.
    """

    experiment: Experiment
    definition: Definition
    found: SearchResult
    batches: Sequence[Batch]
    measured: Mapping[int, Measured]
    recommended: int | None

    @property
    def evaluations(self) -> int:
        """Questions asked so far."""
        return self.found.evaluations

    @property
    def most(self) -> int:
        """Questions that can be asked at most."""
        everything = len(space_of(self.definition)) * len(self.experiment.questions)
        return min(self.definition.budget.answers, everything)


def standing(db: Database, experiment: Experiment) -> Standing:
    """Replays an experiment; what is not asked yet of its present round stands in `batches`."""
    definition = definition_of(experiment)
    plan = Plan(
        space_of(definition),
        list(experiment.questions),
        list(experiment.clusters),
        budget=definition.budget.answers,
        tolerance=definition.tolerance,
        direction="higher" if experiment.higher_is_better else "lower",
        seed=definition.seed,
    )
    stored = load_results(db, experiment.number)
    asked: dict[int, list[QuestionResult]] = {}
    batches: list[Batch] = []
    while (batches := plan.next()) and (done := [batch for batch in batches if _is_done(batch, stored)]):
        for batch in done:
            results = [stored[configuration_key(batch.configuration), question] for question in batch.questions]
            plan.tell(batch, [result.score for result in results])
            asked.setdefault(batch.number, []).extend(results)
            why = _why_out(definition, experiment, asked[batch.number])
            if why is not None:
                plan.exclude(batch.number, why)
        if len(done) < len(batches):
            batches = plan.next()
            break
    found = plan.result()
    clusters = dict(zip(experiment.questions, experiment.clusters, strict=True))
    measured = {
        number: _measured(metrics_wanted(definition, experiment.objective), results, clusters)
        for number, results in asked.items()
    }
    recommended = _recommended(found, measured, definition.tolerance, experiment.higher_is_better)
    return Standing(experiment, definition, found, batches, measured, recommended)


def batches_of(db: Database, experiment: Experiment, configuration: int | None) -> list[Batch]:
    """What is to be asked now of a configuration, by its number, or (None) of all; nothing of what has ended."""
    if experiment.ended_at is not None:
        return []
    batches = standing(db, experiment).batches
    return [batch for batch in batches if configuration in (None, batch.number)]


def advance(db: Database, settings: Settings, experiment: Experiment) -> Standing:
    """As `standing`; an experiment that is over, or cannot go on, is ended, and then has no batches left."""
    now = standing(db, experiment)
    if experiment.ended_at is not None:
        return Standing(experiment, now.definition, now.found, [], now.measured, now.recommended)
    if not now.batches:
        why = None if now.found.best is not None else _nothing_left(now)
        end_experiment(db, experiment.number, why)
    elif (why := _why_over(db, settings, now)) is not None:
        end_experiment(db, experiment.number, why)
    else:
        return now
    ended = get_experiment(db, experiment.number)
    return Standing(ended, now.definition, now.found, [], now.measured, now.recommended)


def _why_over(db: Database, settings: Settings, now: Standing) -> str | None:
    own = settings_of(db, settings, now.experiment)
    limit = cost_limit(now.definition, own)
    if limit is not None and (spent := spent_usd(db, now.experiment)) >= limit:
        return budget_spent(limit, spent)
    if has_changed(settings, now.experiment):
        return "the client's documents changed since it began; run it again to start from scratch"
    return None


def _nothing_left(now: Standing) -> str:
    reasons = Counter(trial.left_because for trial in now.found.trials if trial.left_because)
    told = "; ".join(reason for reason, _ in reasons.most_common(3))
    return f"no configuration is left: {told}" if told else "no configuration could be asked anything"


def _is_done(batch: Batch, stored: Mapping[tuple[str, str], QuestionResult]) -> bool:
    key = configuration_key(batch.configuration)
    return all((key, question) in stored for question in batch.questions)


def _why_out(definition: Definition, experiment: Experiment, results: Sequence[QuestionResult]) -> str | None:
    """Why a configuration is taken out by what it came to so far; None while it may stay."""
    leaks = sum(result.leaked for result in results)
    if leaks:
        return f"returned passages of another client on {plural(leaks, 'question')}"
    errors = Counter(result.error for result in results if result.error is not None)
    if sum(errors.values()) == len(results):
        return f"failed on every question: {errors.most_common(1)[0][0]}"
    clusters = dict(zip(experiment.questions, experiment.clusters, strict=True))
    for metric_id, limit in definition.require.items():
        # What failed has no value; what the metric does not apply to does not count.
        values = {
            result.item_id: 0.0 if result.error is not None else result.scores.get(metric_id) for result in results
        }
        known = {item_id: value for item_id, value in values.items() if value is not None}
        if surely_below(list(known.values()), [clusters[item_id] for item_id in known], limit):
            return f"{metric_id} is surely below {limit:g}"
    return None


def _measured(metric_ids: Sequence[str], results: Sequence[QuestionResult], clusters: Mapping[str, str]) -> Measured:
    question_scores = {
        metric_id: {result.item_id: result.scores.get(metric_id) for result in results} for metric_id in metric_ids
    }
    scores: dict[str, Interval] = {}
    for metric_id, values in question_scores.items():
        known = {item_id: value for item_id, value in values.items() if value is not None}
        if known:
            scores[metric_id] = mean_interval(list(known.values()), [clusters[item_id] for item_id in known])
    return Measured(
        n=len(results),
        failed=sum(result.error is not None for result in results),
        scores=scores,
        question_scores=question_scores,
        cost_usd=_mean(result.cost_usd for result in results),
        tokens=_mean(result.tokens for result in results),
        latency_s=_mean(result.latency_s for result in results),
    )


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _recommended(
    found: SearchResult, measured: Mapping[int, Measured], tolerance: float, higher_is_better: bool
) -> int | None:
    """The number of the cheapest of those within the tolerance of the best, of these the fastest, of these the best.

    One that is only not surely worse may be much worse: it is not preferred for being cheap.
    """
    if found.best is None:
        return None
    trials = {configuration_key(trial.configuration): trial for trial in found.trials}
    tied = [trials[configuration_key(configuration)] for configuration in found.tied]
    sign = 1 if higher_is_better else -1
    least = sign * (tied[0].worth or 0.0) - tolerance
    near = [trial.number for trial in tied if trial is tied[0] or sign * (trial.worth or 0.0) >= least]
    cheap = _least(near, {number: measured[number].cost_usd for number in near})
    return _least(cheap, {number: measured[number].latency_s for number in cheap})[0]


def _least(numbers: Sequence[int], values: Mapping[int, float | None]) -> list[int]:
    """Those whose value is hardly more than the least; all where no value is known."""
    known = [value for value in values.values() if value is not None]
    if not known:
        return list(numbers)
    limit = HARDLY_MORE * min(known)
    return [number for number in numbers if (value := values[number]) is not None and value <= limit]
