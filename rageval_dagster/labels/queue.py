"""Which answers people are asked about: drawn at random within strata, so that their labels speak for all.

A stratum is what an evaluation had that no earlier draw knew, by what the judge said of it. An answer stays in its
stratum for ever, and each draw takes a random part of those not drawn yet, so that all that were drawn of a stratum are
a random part of it, whatever was drawn when.
"""

import math
import random
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from statistics import pvariance

from rageval_dagster.labels.answers import LabelledAnswers, labelled_answers
from rageval_dagster.labels.estimates import MOST_UNKNOWN
from rageval_dagster.storage import labels as label_storage
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.evaluations import Evaluation
from rageval_dagster.storage.labels import Queued

LEAST_DRAWN = 3
"""Of each stratum at least so many are drawn: without a label a stratum says nothing."""
LEAST_OF_STRATUM = 10
"""What the judge said divides only so many answers or more."""
_BOUNDS = ((1 / 3, "low"), (2 / 3, "middle"))


def draw(db: Database, evaluation: Evaluation, metric_id: str | None = None, size: int = 60) -> LabelledAnswers:
    """Draws up to `size` answers more of an evaluation for people to label; those still waiting count among them.

    Most are drawn where labels differ most (Neyman 1934), as far as is known. Doing it again draws nothing more, unless
    drawn ones were deleted meanwhile.

    Raises RagevalError as `labelled_answers` does.
    """
    answers = labelled_answers(db, evaluation, metric_id)
    queue = {**_new_strata(answers), **answers.queue}
    shares = _shares(answers, queue, size - len(answers.waiting))
    place = label_storage.last_place(db, evaluation.client_id, answers.summary.metric_id)
    chosen: list[str] = []
    for stratum, count in sorted(shares.items()):
        free = sorted(name for name, each in queue.items() if each.stratum == stratum and _is_free(name, each, answers))
        chosen += random.Random(f"{stratum} {place}").sample(free, count)  # noqa: S311
    random.Random(f"{evaluation.id} {place}").shuffle(chosen)  # noqa: S311
    for result_id in chosen:
        place += 1
        queue[result_id] = replace(queue[result_id], place=place)
    changed = {name: each for name, each in queue.items() if answers.queue.get(name) != each}
    label_storage.save_queue(db, evaluation.client_id, answers.summary.metric_id, changed)
    return replace(answers, queue=queue)


def of_whole_draws(names: Iterable[str], queue: Mapping[str, Queued]) -> set[str]:
    """Those of the answers that stand, with others of them, for nearly all that their draw was made from.

    What a wavering judge liked best it likes less when asked again, and what it liked least more: answers of one such
    stratum say nothing of the judge.
    """
    drawn = [name for name in names if name in queue]
    known = {queue[name].stratum for name in drawn}
    sizes, lacking = Counter[str](), Counter[str]()
    for each in queue.values():
        sizes[_draw_of(each)] += 1
        lacking[_draw_of(each)] += each.stratum not in known
    whole = {name for name, size in sizes.items() if lacking[name] <= MOST_UNKNOWN * size}
    return {name for name in drawn if _draw_of(queue[name]) in whole}


def _draw_of(queued: Queued) -> str:
    return queued.stratum.partition(" ")[0]


def _new_strata(answers: LabelledAnswers) -> dict[str, Queued]:
    """Of the answers that no draw knows, by what the judge said of them; small strata are put together."""
    groups: dict[str, list[str]] = {}
    for result_id, score in answers.judge.items():
        if result_id not in answers.queue:
            groups.setdefault(next((name for bound, name in _BOUNDS if score < bound), "high"), []).append(result_id)
    small = [name for name, members in groups.items() if len(members) < LEAST_OF_STRATUM]
    named = {name: "rest" if len(small) > 1 and name in small else name for name in groups}
    return {
        result_id: Queued(f"{answers.evaluation.id} {named[name]}", None)
        for name, members in groups.items()
        for result_id in members
    }


def _shares(answers: LabelledAnswers, queue: Mapping[str, Queued], size: int) -> dict[str, int]:
    """{stratum: how many to draw of it now}."""
    members: dict[str, list[str]] = {}
    for name, each in queue.items():
        members.setdefault(each.stratum, []).append(name)
    drawn = {stratum: sum(queue[name].place is not None for name in names) for stratum, names in members.items()}
    free = {stratum: sum(_is_free(name, queue[name], answers) for name in names) for stratum, names in members.items()}
    wanted = {stratum: len(names) * _spread(answers, names) for stratum, names in members.items()}
    shares = dict.fromkeys(members, 0)
    for _ in range(max(0, min(size, sum(free.values())))):
        open_ = [stratum for stratum in members if shares[stratum] < free[stratum]]
        # First those that say nothing yet, then where one more lowers the variance most.
        lacking = [stratum for stratum in open_ if drawn[stratum] + shares[stratum] < LEAST_DRAWN]
        best = max(lacking or open_, key=lambda each: (wanted[each] ** 2 / _pairs(drawn[each] + shares[each]), each))
        shares[best] += 1
    return shares


def _is_free(result_id: str, queued: Queued, answers: LabelledAnswers) -> bool:
    """Whether an answer can still be drawn."""
    return queued.place is None and result_id not in answers.deleted


def _pairs(drawn: int) -> float:
    """By n (n + 1) the variance of a mean falls with one more."""
    return max(drawn, 0.5) * (drawn + 1.0)


def _spread(answers: LabelledAnswers, names: list[str]) -> float:
    """The standard deviation of labels in a stratum: with few, as if one more were right and one wrong."""
    known = [answers.values[name] for name in names if name in answers.values]
    return math.sqrt(pvariance([*known, 0.0, 1.0]))
