"""What labels make of a judge, in words: for `rageval labels show` and the page where people label."""

from rageval_dagster.labels.estimates import Estimate
from rageval_dagster.telling.words import number, signed
from rageval_dagster.text import plural


def what_comes_of(found: Estimate) -> list[str]:
    """The judge's mean, the corrected one, and how far judge and people agree, a line each."""
    corrected = found.corrected
    lines = [f"the judge's mean   {number(corrected.judge)}"]
    if corrected.mean is None:
        lines.append(f"not calibrated: {corrected.lacking}")
    else:
        between = f"95 %: {number(corrected.low)} to {number(corrected.high)}"
        lines.append(f"corrected mean     {number(corrected.mean)} ({between}, {plural(corrected.labels, 'label')})")
        bias = corrected.bias or 0.0
        by = number(abs(bias))
        is_off = by != number(0.0)
        lines.append(
            f"the judge {'over' if bias > 0.0 else 'under'}rates by {by}" if is_off else "the judge is not off"
        )
        lines.append(f"labels alone would be {corrected.gain or 1.0:.2f} times as wide")
    if found.agreement is not None:
        beyond = "" if found.kappa is None else f", kappa {signed(found.kappa)}"
        lines.append(f"judge and people agree on {found.agreement:.0%} of the answers{beyond}")
    if found.between is not None:
        lines.append(f"two people agree with kappa {signed(found.between)}, which bounds what a judge can reach")
    if found.unsure:
        lines.append(f"of {plural(found.unsure, 'answer')} people could not say anything")
    return lines
