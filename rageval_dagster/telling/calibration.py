"""How far a judge, or a metric without one, can be trusted: what people's labels make of its scores."""

import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from rageval_dagster.evaluation.summary import Contradiction, is_by_model
from rageval_dagster.labels.estimates import Estimate
from rageval_dagster.statistics import Corrected
from rageval_dagster.telling.words import metric_name, number, signed
from rageval_dagster.text import named, plural

NOT_CALIBRATED = "not calibrated"
"""Of a judge that nobody's labels were held against."""
MOST_NAMED = 5


def scorer(metric_id: str) -> str:
    """What gives the scores that people's labels are held against: `judge`, or `metric` where no model is asked."""
    return "judge" if is_by_model(metric_id) else "metric"


def off_by(bias: float, metric_id: str) -> str:
    """`the judge overrates by .09`; `the metric is not off`."""
    by, whose = number(abs(bias)), f"the {scorer(metric_id)}"
    return f"{whose} is not off" if by == number(0.0) else f"{whose} {'over' if bias > 0 else 'under'}rates by {by}"


def not_calibrated(found: Estimate) -> str:
    """`not calibrated: label 3 more answers: rageval labels queue --client acme --metric judge.faithfulness`."""
    draw = f"rageval labels queue --client {shlex.quote(found.client_id)} --metric {found.metric_id}"
    return f"{NOT_CALIBRATED}: label {plural(found.corrected.needed or 1, 'more answer')}: {draw}"


def corrected_mean(corrected: Corrected) -> str:
    """`.82 (95 %: .75 to .89, 60 labels)`."""
    between = f"95 %: {number(corrected.low)} to {number(corrected.high)}"
    return f"{number(corrected.mean)} ({between}, {plural(corrected.labels, 'label')})"


def calibration(metric_id: str, found: Estimate | None) -> str | None:
    """`corrected .82 (95 %: .75 to .89, 60 labels); the judge overrates by .09, agrees with people on 87 %`.

    None for a metric that needs no judge and has no label.
    """
    if found is None:
        return NOT_CALIBRATED if is_by_model(metric_id) else None
    corrected = found.corrected
    if corrected.mean is None:
        return not_calibrated(found)
    agrees = "" if found.agreement is None else f", agrees with people on {found.agreement:.0%}".replace("%", " %")
    return f"corrected {corrected_mean(corrected)}; {off_by(corrected.bias or 0.0, metric_id)}{agrees}"


def self_agreement(found: Contradiction | None) -> str | None:
    """`the judge contradicts itself on 8 % of the answers (spread .05)`; None where it was asked once."""
    if found is None:
        return None
    return f"the judge contradicts itself on {100 * found.share:.0f} % of the answers (spread {number(found.spread)})"


def calibration_lines(metric_ids: Iterable[str], estimates: Mapping[str, Estimate]) -> list[str]:
    """A line for each metric that has labels, and one that names the judged ones that have none."""
    lines, without = [], []
    for metric_id in metric_ids:
        said = calibration(metric_id, estimates.get(metric_id))
        if said == NOT_CALIBRATED:
            without.append(metric_name(metric_id))
        elif said is not None:
            lines.append(f"{metric_name(metric_id)}: {said}")
    return [*lines, *([f"{NOT_CALIBRATED}: {named(without, MOST_NAMED)}"] if without else [])]


def what_comes_of(found: Estimate) -> list[str]:
    """The judge's (or metric's) mean, the corrected one, and how far it and people agree, a line each."""
    corrected, whose = found.corrected, scorer(found.metric_id)
    lines = [f"the {whose}'s mean".ljust(19) + number(corrected.judge)]
    if corrected.mean is None:
        lines.append(not_calibrated(found))
    else:
        lines.append(f"corrected mean     {corrected_mean(corrected)}")
        lines.append(off_by(corrected.bias or 0.0, found.metric_id))
        lines.append(f"the interval from labels alone would be {corrected.gain or 1.0:.2f} times as wide")
    if found.agreement is not None:
        beyond = "" if found.kappa is None else f", kappa {signed(found.kappa)}"
        lines.append(f"{whose} and people agree on {found.agreement:.0%} of the answers{beyond}")
    if found.between is not None:
        lines.append(f"two people agree with kappa {signed(found.between)}, which bounds what a {whose} can reach")
    if found.unsure:
        lines.append(f"people could not say anything about {plural(found.unsure, 'answer')}")
    return lines


def calibration_json(found: Estimate) -> dict[str, Any]:
    """The numbers, as `--json` prints them; those that labels do not suffice for are null."""
    corrected = found.corrected
    return {
        **{name: getattr(corrected, name) for name in ("mean", "low", "high", "labels", "bias")},
        "agreement": found.agreement,
        "kappa": found.kappa,
        "lacking": corrected.lacking,
        "needed": corrected.needed,
    }
