"""The nights that a verdict stands on: a system's evaluations of a dataset's name since the reference."""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property

from rageval_dagster.gate.causes import LOST_EVIDENCE, detail_of
from rageval_dagster.gate.comparison import Scores, is_right
from rageval_dagster.storage import benchmark as benchmark_storage
from rageval_dagster.storage import results as result_storage
from rageval_dagster.storage import scores as score_storage
from rageval_dagster.storage.benchmark import Asked
from rageval_dagster.storage.comparisons import load_judgements
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.evaluations import Evaluation, evaluations_between
from rageval_dagster.storage.scores import Summary

LEAST_SHARED = 30
"""Questions that two nights need in common to speak for each other where a judge changed."""


@dataclass(frozen=True)
class History:
    """Evaluations of one system on versions of one dataset, the reference first, the one to judge last.

    `asked` are their questions by dataset and item id; `links` those of the evaluations through which the reference
    reaches the last one by at least thirty questions at a time, both included. `lacking` are the numbers of those in
    between that lacked so many documents that they could not pass: with fewer passages to find, a question that was
    asked there first looks easier than it is, and is held against the next time it is asked.
    """

    evaluations: Sequence[Evaluation]
    asked: Mapping[int, Mapping[str, Asked]]
    links: Sequence[Evaluation]
    lacking: Set[int]

    @cached_property
    def clusters(self) -> dict[str, str]:
        return {each.key: each.cluster for items in self.asked.values() for each in items.values()}

    @cached_property
    def linked_items(self) -> set[str]:
        """The ids of the questions that more than one of the links asks."""
        times: dict[str, int] = {}
        for dataset_id in {each.dataset_id for each in self.links}:
            for item_id in self.asked[dataset_id]:
                times[item_id] = times.get(item_id, 0) + 1
        alone = len({each.dataset_id for each in self.links}) == 1
        return {item_id for item_id, count in times.items() if count > 1 or alone}


def history_of(db: Database, reference: Evaluation, now: Evaluation) -> History:
    """The complete evaluations from the reference to this one, at its cutoff.

    None lie between those of two systems, or of two datasets' names.
    """
    alike = (reference.dataset_name, reference.system) == (now.dataset_name, now.system)
    between = [each for each in evaluations_between(db, reference, now) if each.k == now.k] if alike else []
    evaluations = [reference, *between, now]
    asked = benchmark_storage.questions_asked(db, sorted({each.dataset_id for each in evaluations}))
    judgements = load_judgements(db, [each.id for each in between])
    lacking = {id for id, each in judgements.items() if detail_of(each.changes, LOST_EVIDENCE) is not None}
    return History(evaluations, asked, _links(evaluations, asked), lacking)


def _links(evaluations: Sequence[Evaluation], asked: Mapping[int, Mapping[str, Asked]]) -> list[Evaluation]:
    keys = {dataset_id: {each.key for each in items.values()} for dataset_id, items in asked.items()}

    def share(one: Evaluation, other: Evaluation) -> bool:
        mine, theirs = keys.get(one.dataset_id, set()), keys.get(other.dataset_id, set())
        return len(mine & theirs) >= min(LEAST_SHARED, len(mine), len(theirs))

    last = len(evaluations) - 1
    found = [evaluations[last]]
    while last > 0:
        # The oldest that shares enough is the longest step back.
        last = next((older for older in range(last) if share(evaluations[older], found[-1])), -1)
        if last >= 0:
            found.append(evaluations[last])
    return found[::-1] if found[-1] is evaluations[0] else [evaluations[0], evaluations[-1]]


@dataclass(frozen=True)
class Measured:
    """A metric over a history: the evaluations that measured it by its present version, and their scores by question.

    The reference and the last one are always among them, be they without scores. `asked` are the last one's questions.
    """

    summary: Summary
    evaluations: Sequence[Evaluation]
    nights: Sequence[Mapping[str, float]]
    asked: Set[str]

    @cached_property
    def first(self) -> dict[str, tuple[int, bool]]:
        """Of each question the evaluation that scored it first, and whether it was right there."""
        found: dict[str, tuple[int, bool]] = {}
        for evaluation, night in zip(self.evaluations, self.nights, strict=True):
            for key, value in night.items():
                if key not in found:
                    found[key] = evaluation.id, is_right(self.summary, value)
        return found

    @cached_property
    def turned(self) -> dict[str, int]:
        """The questions that are wrong now and were right at first (-1), or the other way round (+1)."""
        now = {key: is_right(self.summary, value) for key, value in self.nights[-1].items()}
        return {key: 1 if right else -1 for key, right in now.items() if right != self.first[key][1]}

    @cached_property
    def left(self) -> list[float]:
        """Of each question that is not asked any more, by how much its last score was above its first (below 0: less).

        They may have left because of what made them fall.
        """
        gone: dict[str, list[float]] = {}
        for night in self.nights[:-1]:
            for key in night.keys() - self.asked:
                gone.setdefault(key, []).append(night[key])
        return [scores[-1] - scores[0] for scores in gone.values()]


def over_the_nights(db: Database, history: History, scores: Scores) -> Measured:
    """A metric over all nights, where it was measured or its answers were scored anew."""
    values = _night_scores(db, history, scores.summary)
    ends = (history.evaluations[0].id, history.evaluations[-1].id)
    evaluations = [each for each in history.evaluations if values.get(each.id) or each.id in ends]
    return _by_question(history, scores.summary, evaluations, [values.get(each.id, {}) for each in evaluations])


def of_both_ends(history: History, scores: Scores) -> Measured:
    """A metric on the reference and the last night alone."""
    ends = [history.evaluations[0], history.evaluations[-1]]
    known = [
        {item_id: value for item_id, value in values.items() if value is not None}
        for values in (scores.before, scores.now)
    ]
    return _by_question(history, scores.summary, ends, known)


def _by_question(
    history: History, summary: Summary, evaluations: Sequence[Evaluation], nights: Sequence[Mapping[str, float]]
) -> Measured:
    keyed: list[dict[str, float]] = []
    known: set[str] = set()
    for each, night in zip(evaluations, nights, strict=True):
        scored = {history.asked[each.dataset_id][item_id].key: value for item_id, value in night.items()}
        if each.id in history.lacking:
            scored = {key: value for key, value in scored.items() if key in known}
        known |= scored.keys()
        keyed.append(scored)
    asked = {each.key for each in history.asked[history.evaluations[-1].dataset_id].values()}
    return Measured(summary, evaluations, keyed, asked)


def _night_scores(db: Database, history: History, summary: Summary) -> dict[int, dict[str, float]]:
    """{evaluation number: {item id: score}} by the metric's present version; what is not kept yet is kept now."""
    ids = [each.id for each in history.evaluations]
    metric_id, version = summary.metric_id, summary.metric_version
    found = score_storage.load_night_scores(db, ids, metric_id, version)
    missing = [each for each in history.evaluations if each.id not in found]
    had = score_storage.metric_versions(db, [each.id for each in missing], metric_id)
    new = dict(_scored_anew(db, missing, history.links, had, metric_id, version))
    if new:
        score_storage.save_night_scores(
            db, history.evaluations[0].client_id, version, {(id, metric_id): values for id, values in new.items()}
        )
    return found | new


def _scored_anew(
    db: Database,
    missing: Sequence[Evaluation],
    links: Sequence[Evaluation],
    had: Mapping[int, str],
    metric_id: str,
    version: str,
) -> Iterator[tuple[int, dict[str, float]]]:
    linking = {each.id for each in links}
    for each in missing:
        if had.get(each.id) == version:
            outcomes = score_storage.load_scores(db, each.id, {metric_id: version})
        elif each.id in had and each.id in linking:
            results = {row.item_id: row.result_id for row in result_storage.run_items(db, each.id) if row.result_id}
            outcomes = score_storage.load_rescored(db, each.client_id, results, {metric_id: version})
        else:
            continue
        values = {item_id: out.value for item_id, out in outcomes.get(metric_id, {}).items() if out.value is not None}
        if values or had[each.id] == version:
            yield each.id, values
