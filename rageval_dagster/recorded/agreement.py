"""Metrics, other judges and plain comparisons of strings against the human labels of recorded answers."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from rageval_dagster.errors import DatasetError
from rageval_dagster.metrics.interface import Metric
from rageval_dagster.metrics.lexical import squad_tokens
from rageval_dagster.records import Interval, Outcome
from rageval_dagster.statistics.agreement import accuracy, auroc, held_out, kappa, kendall, spearman
from rageval_dagster.text import finite_number

if TYPE_CHECKING:
    from rageval_dagster.recorded.formats import Output

Kind = Literal["metric", "judge", "baseline"]

Choice = Literal["given", "yes or no", "cross-validated"]
"""Where a threshold comes from: the user, a metric that only says 0 or 1, or the other questions."""

YES_OR_NO_THRESHOLD = 0.5

_YES = frozenset({"yes", "true", "1"})
_NO = frozenset({"no", "false", "0"})
_LISTED = 5


@dataclass(frozen=True)
class Agreement:
    """How well one metric or judge agrees with the labels, on the answers that it scored.

    `threshold` is the least value taken as good (the greatest, where lower is better), `chosen` where it comes from; of
    a cross-validated one it is the mean. Each number is None where it is not defined: without a good label there are
    only rank correlations, and these only for labels that are all numbers. AUROC and rank correlations are those of
    1 - value where lower is better.
    """

    name: str
    kind: Kind
    n_scored: int
    n_undefined: int
    n_error: int
    higher_is_better: bool = True
    threshold: float | None = None
    chosen: Choice | None = None
    accuracy: Interval | None = None
    kappa: float | None = None
    auroc: Interval | None = None
    spearman: float | None = None
    kendall: float | None = None


@dataclass(frozen=True)
class LabelledOutputs:
    """Outputs that people labelled. `good` says for each whether its label is the good one; None without one.

    `grades` are the labels as numbers, None where one is not; `clusters` the questions.
    """

    outputs: "Sequence[Output]"
    clusters: Sequence[str]
    good: Sequence[bool] | None
    grades: Sequence[float] | None

    @property
    def label_counts(self) -> dict[str, int]:
        return _label_counts(self.outputs)


def labelled(outputs: "Sequence[Output]", positive: str | None = None) -> tuple[LabelledOutputs, int]:
    """The outputs that have a label, and how many have none; `positive` is the good one.

    Raises:
        DatasetError: none has a label, `positive` is none of them, or it is not said and the labels are no numbers.
    """
    known = [output for output in outputs if output.label is not None]
    counts = _label_counts(known)
    spoken = ", ".join(f"{label!r} ({count})" for label, count in list(counts.items())[:_LISTED])
    spoken += ", ..." if len(counts) > _LISTED else ""
    if not known:
        raise DatasetError("no answer has a label: there is nothing to agree with")
    grades = [finite_number(str(output.label)) for output in known]
    graded = [grade for grade in grades if grade is not None]
    if positive is None and len(graded) < len(known):
        raise DatasetError(f"say which label is the good one with --positive; the labels are {spoken}")
    if positive is not None and positive not in counts:
        raise DatasetError(f"--positive {positive!r} is none of the labels, which are {spoken}")
    return (
        LabelledOutputs(
            outputs=known,
            clusters=[output.result.item.question or output.id for output in known],
            good=None if positive is None else [output.label == positive for output in known],
            grades=graded if len(graded) == len(known) else None,
        ),
        len(outputs) - len(known),
    )


def metric_agreement(
    metric: Metric, outcomes: Mapping[str, Outcome], known: LabelledOutputs, threshold: float | None = None
) -> Agreement:
    """A metric's agreement; `outcomes` by the outputs' ids, `threshold` (in the metric's own unit) if it is given."""
    column = [outcomes[output.id] for output in known.outputs]
    return _agreement(metric.id, "metric", column, known, metric.higher_is_better, threshold)


def judge_agreements(known: LabelledOutputs, positive: str) -> list[Agreement]:
    """The agreement of each other judge whose verdicts stand in the file.

    A verdict is good if it is the good label, yes, true or 1; bad if it is another label, no, false or 0; anything else
    is undefined.
    """
    labels = known.label_counts
    bad = _NO | {label.casefold() for label in labels if label != positive}
    good = {positive.casefold()} | (_YES - bad)

    def outcome(verdict: str | None) -> Outcome:
        if verdict is None:
            return Outcome.undefined("no verdict")
        folded = verdict.strip().casefold()
        if folded in good or folded in bad:
            return Outcome.scored(float(folded in good))
        return Outcome.undefined("neither yes nor no")

    names = dict.fromkeys(name for output in known.outputs for name in output.others)
    return [
        _agreement(name, "judge", [outcome(output.others.get(name)) for output in known.outputs], known)
        for name in names
    ]


def baselines(known: LabelledOutputs) -> list[Agreement]:
    """What needs no metric: always the commoner label, and strings compared as SQuAD normalises them."""
    good = known.good or []
    commoner = float(2 * sum(good) >= len(good))
    columns = {
        "always the commoner label": [Outcome.scored(commoner) for _ in known.outputs],
        "a reference stands in the answer": _strings(known, lambda reference, answer: reference in answer),
        "a reference equals the answer": _strings(known, lambda reference, answer: reference == answer),
    }
    return [_agreement(name, "baseline", column, known) for name, column in columns.items()]


def _strings(known: LabelledOutputs, agree: Callable[[str, str], bool]) -> list[Outcome]:
    def outcome(output: "Output") -> Outcome:
        answer, references = output.result.answer, output.result.item.answers
        if answer is None or not references:
            return Outcome.undefined("there is no answer, or no reference")
        said = " ".join(squad_tokens(answer.text))
        expected = [reference for text in references if (reference := " ".join(squad_tokens(text)))]
        return Outcome.scored(float(any(agree(reference, said) for reference in expected)))

    return [outcome(output) for output in known.outputs]


def _agreement(
    name: str,
    kind: Kind,
    column: Sequence[Outcome],
    known: LabelledOutputs,
    higher_is_better: bool = True,
    threshold: float | None = None,
) -> Agreement:
    counts = Counter(outcome.status for outcome in column)
    places = [place for place, outcome in enumerate(column) if outcome.value is not None]
    # Turned so that higher is better, and with it the threshold.
    values = [_turned(outcome.value, higher_is_better) for outcome in column if outcome.value is not None]
    clusters = [known.clusters[place] for place in places]
    found = Agreement(name, kind, counts["scored"], counts["undefined"], counts["error"], higher_is_better)
    if known.grades is not None:
        grades = [known.grades[place] for place in places]
        found = replace(found, spearman=spearman(values, grades), kendall=kendall(values, grades))
    if known.good is None:
        return found
    good = [known.good[place] for place in places]
    found = replace(found, auroc=auroc(values, good, clusters))
    verdicts = _verdicts(values, good, clusters, None if threshold is None else _turned(threshold, higher_is_better))
    if verdicts is None:
        return found
    said, limit, chosen = verdicts
    return replace(
        found,
        threshold=_turned(limit, higher_is_better),
        chosen=chosen,
        accuracy=accuracy(said, good, clusters),
        kappa=kappa(said, good),
    )


def _verdicts(
    values: Sequence[float], good: Sequence[bool], clusters: Sequence[str], threshold: float | None
) -> tuple[Sequence[bool], float, Choice] | None:
    """Which values are taken as good, the threshold (of several their mean), and where it comes from.

    None where there are no values, or no other questions to choose a threshold on.
    """
    if not values:
        return None
    if threshold is not None:
        return [value >= threshold for value in values], threshold, "given"
    if set(values) <= {0.0, 1.0}:
        return [value >= YES_OR_NO_THRESHOLD for value in values], YES_OR_NO_THRESHOLD, "yes or no"
    held = held_out(values, good, clusters)
    return None if held is None else (held.said, held.threshold, "cross-validated")


def _turned(value: float, higher_is_better: bool) -> float:
    return value if higher_is_better else 1.0 - value


def _label_counts(outputs: "Sequence[Output]") -> dict[str, int]:
    return dict(Counter(str(output.label) for output in outputs).most_common())
