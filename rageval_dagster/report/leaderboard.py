"""Several systems on the same questions: who stands where by one metric, and who is really ahead of whom."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from rageval_dagster.statistics.comparisons import compare
from rageval_dagster.storage import benchmark as benchmark_storage
from rageval_dagster.storage import scores as score_storage
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.evaluations import Evaluation
from rageval_dagster.storage.scores import Summary
from rageval_dagster.storage.views import hard_for_every_system
from rageval_dagster.telling.words import metric_name, number

OBJECTIVE = "overlap.faithfulness"
"""Where no metric of the gate was measured, seed 001's: what is made up is worse than what is incomplete."""

ALPHA = 0.05


@dataclass(frozen=True)
class Place:
    """A system on the leaderboard: its `rank` from 1, which systems with the same mean share, and by `ahead_of` those
    that it beats by more than chance, on shared questions."""

    rank: int
    evaluation: Evaluation
    summary: Summary
    ahead_of: Sequence[str]


@dataclass(frozen=True)
class Leaderboard:
    """The systems evaluated on one dataset, best first; `sentence` says who leads, and whether that is sure.

    `hard` are the ids of questions whose evidence none of them has in the first place, hardest first.
    """

    dataset_name: str
    metric_id: str
    places: Sequence[Place]
    sentence: str
    hard: Sequence[str]

    @property
    def of_different_questions(self) -> tuple[int, int] | None:
        """The fewest and the most questions that a mean is of; None where all are of as many."""
        counts = [place.summary.n_scored for place in self.places]
        return None if min(counts) == max(counts) else (min(counts), max(counts))


def leaderboards(db: Database, evaluations: Sequence[Evaluation], *objectives: str) -> list[Leaderboard]:
    """One for each dataset that several of these evaluations, of one client, asked the same questions of.

    They are ranked by the first of the `objectives`, metrics by id, by which several of them were measured.
    Every two systems are compared question by question; the p values are corrected for all pairs of a dataset
    (Benjamini-Hochberg).
    """
    by_dataset: dict[int, list[Evaluation]] = {}
    for evaluation in evaluations:
        by_dataset.setdefault(evaluation.dataset_id, []).append(evaluation)
    boards = []
    for several in by_dataset.values():
        found = (_leaderboard(db, several, objective) for objective in objectives if len(several) > 1)
        boards.append(next((board for board in found if board is not None), None))
    return [board for board in boards if board is not None]


def _leaderboard(db: Database, evaluations: Sequence[Evaluation], objective: str) -> Leaderboard | None:
    summaries: dict[str, Summary] = {}
    scores: dict[str, Mapping[str, float | None]] = {}
    by_system = {evaluation.system: evaluation for evaluation in evaluations}
    for system, evaluation in by_system.items():
        summary = next((s for s in score_storage.load_summaries(db, evaluation.id) if s.metric_id == objective), None)
        if summary is None or summary.mean is None:
            continue
        column = score_storage.load_scores(db, evaluation.id, {objective: summary.metric_version}).get(objective, {})
        summaries[system] = summary
        scores[system] = {item_id: outcome.value for item_id, outcome in column.items()}
    if len(summaries) < 2:
        return None
    from scipy.stats import false_discovery_control

    sign = 1.0 if next(iter(summaries.values())).higher_is_better else -1.0
    order = sorted(summaries, key=lambda system: (-sign * (summaries[system].mean or 0.0), system))
    clusters = benchmark_storage.clusters_of(db, [evaluations[0].dataset_id])
    pairs = list(combinations(order, 2))
    compared = [compare(scores[worse], scores[better], clusters) for better, worse in pairs]
    adjusted = false_discovery_control([1.0 if each.p_value is None else each.p_value for each in compared])
    surely = {
        pair
        for pair, each, p in zip(pairs, compared, adjusted, strict=True)
        # Versions that differ are not compared: another judge scored them.
        if p <= ALPHA
        and sign * (each.difference or 0.0) > 0
        and summaries[pair[0]].metric_version == summaries[pair[1]].metric_version
    }
    means = [summaries[system].mean for system in order]
    places = [
        Place(
            1 + means.index(summaries[system].mean),
            by_system[system],
            summaries[system],
            [other for other in order if (system, other) in surely],
        )
        for system in order
    ]
    hard = hard_for_every_system(db, evaluations[0].client_id, evaluations[0].dataset_id)
    return Leaderboard(
        evaluations[0].dataset_name,
        objective,
        places,
        _sentence(objective, places),
        [row["item_id"] for row in hard],
    )


def _sentence(objective: str, places: Sequence[Place]) -> str:
    best = [place for place in places if place.rank == 1]
    others = [place.evaluation.system for place in places[len(best) :]]
    by = f"by {metric_name(objective)} ({number(best[0].summary.mean)})"
    leads, lead = f"{best[0].evaluation.system} leads {by}", "its lead"
    if len(best) > 1:
        leads, lead = f"{_listed(place.evaluation.system for place in best)} share the first place {by}", "their lead"
    sure = [other for other in others if all(other in place.ahead_of for place in best)]
    unsure = [other for other in others if other not in sure]
    if not unsure:
        return f"{leads}{f', really ahead of {_listed(sure)}' if sure else ''}."
    return f"{leads}{f', ahead of {_listed(sure)}' if sure else ''}; {lead} over {_listed(unsure)} may be chance."


def _listed(systems: Iterable[str]) -> str:
    return " and ".join(systems)
