"""What people would say of all answers of an evaluation, from their labels of a few and a judge's scores of all."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from rageval_dagster.errors import RagevalError
from rageval_dagster.labels.answers import LabelledAnswers, labelled_answers
from rageval_dagster.statistics import Corrected, corrected_difference, corrected_mean
from rageval_dagster.statistics.agreement import kappa
from rageval_dagster.storage import labels as label_storage
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.evaluations import Evaluation
from rageval_dagster.storage.labels import CorrectedFigures

MOST_UNKNOWN = 0.1
"""Of the answers, as many may be of strata without a label: they widen the interval as if all were right, or wrong."""
RIGHT = 0.5


@dataclass(frozen=True)
class Estimate:
    """The mean of an evaluation of `client_id` by a metric, corrected by labels.

    `agreement` is how often the judge says what people do (both from .5 on right), and `kappa` the same beyond chance;
    of `people` who labelled the same answers `between` is the kappa of those two who share most. `unsure` are the
    answers of which people could not say anything.
    """

    client_id: str
    metric_id: str
    corrected: Corrected
    agreement: float | None
    kappa: float | None
    people: tuple[str, ...]
    between: float | None
    unsure: int


def estimates_of(db: Database, evaluations: Iterable[Evaluation]) -> dict[int, dict[str, Estimate]]:
    """{evaluation number: {metric id: estimate}} by the metrics by which people labelled any of its answers.

    Where nobody labelled anything, that is one query a client.
    """
    found: dict[int, dict[str, Estimate]] = {}
    labelled: dict[str, dict[str, int]] = {}
    for evaluation in evaluations:
        if evaluation.client_id not in labelled:
            labelled[evaluation.client_id] = label_storage.labelled_counts(db, evaluation.client_id)
        found[evaluation.id] = {}
        for metric_id in labelled[evaluation.client_id]:
            try:
                answers = labelled_answers(db, evaluation, metric_id)
            except RagevalError:  # it was not run, or scored nothing
                continue
            if answers.labels:
                found[evaluation.id][metric_id] = estimate(answers)
    return found


def keep_estimates(db: Database, evaluations: Iterable[Evaluation]) -> dict[int, dict[str, Estimate]]:
    """`estimates_of` evaluations, kept for the views of the history."""
    found = estimates_of(db, evaluations)
    for evaluation_id, estimates in found.items():
        figures = {
            metric_id: CorrectedFigures(
                each.corrected.mean, each.corrected.low, each.corrected.high, each.corrected.labels, each.agreement
            )
            for metric_id, each in estimates.items()
        }
        if figures:
            label_storage.save_corrected(db, evaluation_id, figures)
    return found


def estimate(answers: LabelledAnswers) -> Estimate:
    """The corrected mean of an evaluation, and how far judge and people agree."""
    said = {
        result_id: [each for each in labels if each.value is not None] for result_id, labels in answers.labels.items()
    }
    pairs = [
        (answers.judge[result_id] >= RIGHT, sum(each.value or 0.0 for each in labels) / len(labels) >= RIGHT)
        for result_id, labels in said.items()
        if labels
    ]
    judged, meant = [one for one, _ in pairs], [other for _, other in pairs]
    return Estimate(
        client_id=answers.evaluation.client_id,
        metric_id=answers.summary.metric_id,
        corrected=_corrected(answers),
        agreement=sum(one == other for one, other in pairs) / len(pairs) if pairs else None,
        kappa=kappa(judged, meant) if pairs else None,
        people=tuple(sorted({each.person for labels in said.values() for each in labels})),
        between=_between(answers),
        unsure=sum(not labels for labels in said.values()),
    )


def difference(before: LabelledAnswers, after: LabelledAnswers) -> Corrected:
    """By how much people's mean changed between two evaluations, over the questions that both scored, paired.

    An answer that is the very same in both has the same label, whether it is known or not; the others count where both
    were labelled.
    """
    old, new = ({item: result for result, item in each.items.items()} for each in (before, after))
    shared = old.keys() & new.keys()
    same = {item for item in shared if old[item] == new[item]}
    chances = {
        item: _chance(before, old[item]) * _chance(after, new[item])
        for item in shared - same
        if old[item] in before.values and new[item] in after.values
    }
    return corrected_difference(
        {item: before.values[old[item]] for item in chances},
        {item: before.judge[old[item]] for item in shared},
        {item: after.values[new[item]] for item in chances},
        {item: after.judge[new[item]] for item in shared},
        strata=dict.fromkeys(shared, "changed"),
        probabilities=chances,
        clusters={item: after.clusters[new[item]] for item in shared if new[item] in after.clusters},
        unchanged=same,
    )


def _corrected(answers: LabelledAnswers) -> Corrected:
    strata = {name: each.stratum for name, each in answers.queue.items()}
    labelled = {strata[name] for name in answers.values}
    unknown = [name for name in answers.judge if strata.get(name) not in labelled]
    share = len(unknown) / len(answers.judge)
    if not labelled or share > MOST_UNKNOWN:
        return corrected_mean(answers.values, answers.judge, strata=strata, clusters=answers.clusters)
    judge = {name: score for name, score in answers.judge.items() if name not in set(unknown)}
    found = corrected_mean(answers.values, judge, strata=strata, clusters=answers.clusters)
    if not unknown or found.mean is None or found.low is None or found.high is None:
        return found
    judged = sum(answers.judge.values()) / len(answers.judge)
    # Of what nobody labelled the mean is the judge's, the interval that of all wrong to all right.
    mean = (1.0 - share) * found.mean + sum(answers.judge[name] for name in unknown) / len(answers.judge)
    return replace(
        found,
        judge=judged,
        mean=mean,
        low=(1.0 - share) * found.low,
        high=(1.0 - share) * found.high + share,
        bias=judged - mean,
    )


def _chance(answers: LabelledAnswers, result_id: str) -> float:
    """With which chance an answer of its stratum was labelled."""
    stratum = answers.queue[result_id].stratum
    members = [name for name, each in answers.queue.items() if each.stratum == stratum]
    return sum(name in answers.values for name in members) / len(members)


def _between(answers: LabelledAnswers) -> float | None:
    """The kappa of the two people who labelled most answers in common; None where no two did."""
    said: dict[str, dict[str, bool]] = {}
    for result_id, labels in answers.labels.items():
        for each in labels:
            if each.value is not None:
                said.setdefault(each.person, {})[result_id] = each.value >= RIGHT
    people = sorted(said)
    pairs = [(one, other) for place, one in enumerate(people) for other in people[place + 1 :]]
    common = {(one, other): sorted(said[one].keys() & said[other].keys()) for one, other in pairs}
    best = max(common, key=lambda pair: len(common[pair]), default=None)
    if best is None or not common[best]:
        return None
    one, other = best
    return kappa([said[one][name] for name in common[best]], [said[other][name] for name in common[best]])
