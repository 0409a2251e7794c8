"""What came of an experiment: as one shape for people and programs, and as files, one a configuration."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rageval_dagster.experiments.copies import folder_of
from rageval_dagster.experiments.definition import Value
from rageval_dagster.experiments.spaces import named
from rageval_dagster.experiments.standing import Measured, Standing
from rageval_dagster.experiments.trial import configuration_key
from rageval_dagster.metrics.registry import SHORT_NAMES
from rageval_dagster.records import Interval
from rageval_dagster.settings import Settings
from rageval_dagster.statistics.intervals import mean_interval
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.experiments import spent_usd

_SHORT = {metric_id: name for name, metric_id in SHORT_NAMES.items()}
NO_WINNER = "No clear winner"


def summary_of(db: Database, now: Standing) -> dict[str, Any]:
    """An experiment's result: what is recommended, what is as good, and every configuration that was asked anything.

    Costs are of one answer in US dollars as if nothing came from a cache, latency in seconds. `held_out` is the mean on
    held-out questions, which only finalists were asked, with an interval that holds for all finalists at once.
    """
    experiment, found = now.experiment, now.found
    numbers = {trial.number: trial for trial in found.trials}
    as_good = set(map(configuration_key, found.tied))
    tied = [trial.number for trial in found.trials if configuration_key(trial.configuration) in as_good]
    rows = [
        {
            "number": number,
            "configuration": dict(trial.configuration),
            "questions": now.measured[number].n,
            "failed": now.measured[number].failed,
            "mean": trial.mean,
            "held_out": _interval(trial.held_out),
            "as_good": number in tied,
            "recommended": number == now.recommended,
            "left_because": trial.left_because,
            "scores": _scores(now.measured[number]),
            "cost_usd": now.measured[number].cost_usd,
            "tokens": now.measured[number].tokens,
            "latency_s": now.measured[number].latency_s,
        }
        for number, trial in numbers.items()
    ]
    sign = -1 if experiment.higher_is_better else 1
    rows.sort(key=lambda row: (not row["recommended"], not row["as_good"], sign * row["mean"], row["number"]))
    return {
        "experiment": experiment.number,
        "client": experiment.client_id,
        "status": experiment.status,
        "ended_why": experiment.ended_why,
        "objective": experiment.objective,
        "higher_is_better": experiment.higher_is_better,
        "questions": len(experiment.questions),
        "evaluations": now.evaluations,
        "budget": now.definition.budget.model_dump(exclude_none=True),
        "spent_usd": spent_usd(db, experiment),
        "recommended": None if now.recommended is None else dict(numbers[now.recommended].configuration),
        "best": None if found.best is None else dict(found.best),
        "winner": found.winner,
        "estimate": _interval(found.estimate),
        "effects": effects_of(now),
        "configurations": rows,
    }


def write_results(settings: Settings, db: Database, now: Standing) -> Path:
    """Writes `experiment.json`, and a file for each configuration with its scores by question; gives the folder."""
    experiment = now.experiment
    folder = folder_of(settings, experiment.client_id, experiment.number) / "results"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    summary = summary_of(db, now)
    for row in summary["configurations"]:
        name = f"configuration-{row['number']}"
        row["file"] = f"{name}.json"
        measured = now.measured[row["number"]]
        pattern = {
            "name": name,
            "configuration": row["configuration"],
            "recommended": row["recommended"],
            "scores": {_SHORT.get(metric_id, metric_id): score for metric_id, score in row["scores"].items()},
            "question_scores": {
                _SHORT.get(metric_id, metric_id): dict(values) for metric_id, values in measured.question_scores.items()
            },
        }
        _write(folder / row["file"], pattern)
    _write(folder / "experiment.json", summary)
    return folder


def effects_of(now: Standing) -> list[dict[str, Any]]:
    """What each parameter does: the objective's mean by value, with 95 % intervals, the parameter of most effect first.

    Of each question it is the mean over the configurations with that value, of questions that were asked under every
    value; those that were taken out for failing or leaking do not count. Other parameters vary along.
    """
    kept = [trial for trial in now.found.trials if trial.worth is not None]
    clusters = dict(zip(now.experiment.questions, now.experiment.clusters, strict=True))
    worst = 0.0 if now.experiment.higher_is_better else 1.0
    found: list[dict[str, Any]] = []
    for name in now.definition.parameters:
        # 1 and true are two values.
        by_value: dict[tuple[type, Value], dict[str, list[float]]] = {}
        counts: Counter[tuple[type, Value]] = Counter()
        for trial in kept:
            if name not in trial.configuration:
                continue
            value = type(trial.configuration[name]), trial.configuration[name]
            counts[value] += 1
            scores = now.measured[trial.number].question_scores[now.experiment.objective]
            for item_id, score in scores.items():
                by_value.setdefault(value, {}).setdefault(item_id, []).append(worst if score is None else score)
        shared = set.intersection(*(set(each) for each in by_value.values())) if len(by_value) > 1 else set[str]()
        if not shared:
            continue
        questions = [item_id for item_id in now.experiment.questions if item_id in shared]
        rows = []
        for value, by_item in by_value.items():
            means = [sum(by_item[item_id]) / len(by_item[item_id]) for item_id in questions]
            interval = mean_interval(means, [clusters[item_id] for item_id in questions])
            rows.append({"value": value[1], "configurations": counts[value], **asdict(interval)})
        spread = max(row["mean"] for row in rows) - min(row["mean"] for row in rows)
        found.append({"parameter": name, "spread": spread, "questions": len(questions), "values": rows})
    return sorted(found, key=lambda each: -each["spread"])


def verdict(summary: Mapping[str, Any]) -> str:
    """What an experiment found, in one sentence."""
    if summary["recommended"] is None:
        return "No configuration could be recommended."
    others = sum(row["as_good"] for row in summary["configurations"]) - 1
    chosen = named(summary["recommended"])
    if summary["winner"]:
        return f"{chosen} is surely better than every other configuration that was tried."
    if others:
        which = "1 other is" if others == 1 else f"{others} others are"
        return f"{NO_WINNER}: {which} as good, as far as can be told. Recommended, by cost and then speed: {chosen}."
    rest = (
        "All others seem worse, but that is not sure." if len(summary["configurations"]) > 1 else "No other was tried."
    )
    return f"Recommended: {chosen}. {rest}"


def _scores(measured: Measured) -> dict[str, dict[str, float]]:
    return {
        metric_id: {"mean": found.mean, "ci_low": found.low, "ci_high": found.high}
        for metric_id, found in measured.scores.items()
    }


def _interval(found: Interval | None) -> dict[str, float] | None:
    return None if found is None else asdict(found)


def _write(path: Path, value: Any) -> None:
    draft = path.with_name(f".{path.name}")
    draft.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    draft.replace(path)
