"""What the gate found of an evaluation, built once from its judgement.

In a long sentence for the terminal, and in a short one for above a page's tables.
"""

import math
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from rageval_dagster.evaluation.summary import ANSWERED_WHEN_DUE, EvaluationReport, is_by_model
from rageval_dagster.evaluation.verdict import (
    NO_THRESHOLDS,
    NOTHING_SCORED,
    Thresholds,
    against_good_values,
    is_scored,
    too_many_errors,
)
from rageval_dagster.gate.causes import CHANGED_ANSWERS, EDITED, LOSSES, LOST_EVIDENCE, UNVERSIONED, detail_of, gone_in
from rageval_dagster.gate.decision import Judged
from rageval_dagster.gate.drift import JUDGE_DRIFT
from rageval_dagster.gate.held import SURE_BY
from rageval_dagster.gate.spec import at_level, seen_from
from rageval_dagster.storage.comparisons import Change, Judgement, MetricComparison, since_when
from rageval_dagster.storage.comparisons import Verdict as StoredVerdict
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.evaluations import evaluations_by_id
from rageval_dagster.storage.scores import Summary
from rageval_dagster.telling.words import VERSIONS, capitalised, date, metric_name, number, signed
from rageval_dagster.text import plural

Tone = Literal["worse", "failed", "unclear", "first", "same", "better", "unmeasured"]

TONES: dict[Tone, str] = {
    "worse": "regressed",
    "failed": "system failed",
    "unclear": "unclear",
    "same": "passed",
    "better": "passed, better",
    "first": "first run",
    "unmeasured": "not measured",
}
"""What became of an evaluation, in a word, worst first; what can tell nothing comes last."""

FEW_QUESTIONS, LARGE_DROP = 30, 0.25
"""Where fewer questions reliably show only drops above that, a run that passed is not said to be as good as before."""
NOT_JUDGED = "too little could be scored to say how good it is"
HEADLINE_METRICS = 5
"""The numbers that stand first wherever people read of an evaluation."""
OF_ANSWERS = (
    "claims.faithfulness",
    "judge.faithfulness",
    "judge.overall",
    "claims.answer_correctness",
    "overlap.answer_correctness",
    ANSWERED_WHEN_DUE,
)
"""How faithful and right answers are, the most telling first."""
MOST_NAMED = 2
"""Metrics that a short sentence names; the others stand in the table below it."""


@dataclass(frozen=True)
class Verdict:
    """What the gate found of an evaluation.

    `scores` is what those questions say that could be scored, `rows` the metrics that it rests on, those that moved
    most first. `failed` is whether the system failed on more questions than allowed. `baseline_at` is when the baseline
    ran, None where that is not kept; `seen_at` is when its scores were first seen to be worse, or unclear, since the
    last good one.
    """

    judged: Judged
    scores: Tone
    rows: Sequence[MetricComparison]
    failed: bool
    baseline_at: datetime | None
    seen_at: datetime

    @property
    def lost_evidence(self) -> str | None:
        """That so much was lost, of evidence or documents, that it is no pass, as a clause; None where it was not."""
        return detail_of(self.judged.judgement.changes, LOST_EVIDENCE)

    @property
    def gone(self) -> str | None:
        """That documents are gone, and questions lost their evidence, be they few; None where nothing was lost."""
        change = gone_in(self.judged.judgement.changes)
        return None if change is None else change.detail

    @property
    def begins_with_gone(self) -> bool:
        """Whether its sentence begins with what was lost: where that is why it is unclear, and of a pass."""
        return self.gone is not None and (
            self.scores in ("same", "better") or (self.scores == "unclear" and self.lost_evidence is not None)
        )

    @property
    def judge_drift(self) -> str | None:
        """That the judge changed, as a clause; None where it did not, as far as is known."""
        return detail_of(self.judged.judgement.changes, JUDGE_DRIFT)

    @property
    def may_be_the_judge(self) -> bool:
        """Whether it is unclear because the judge changed."""
        return self.scores == "unclear" and self.judge_drift is not None and all(map(_by_judge, self.rows))

    @property
    def answers_unread(self) -> bool:
        """Whether it is unclear because the answers changed much, and no judge model reads them."""
        return self.scores == "unclear" and any(not row.gated for row in self.rows)

    @property
    def worse_answers(self) -> list[MetricComparison]:
        """The metrics of answers that surely got worse outside the gate, while the gate passed; the most first."""
        if self.scores not in ("same", "better"):
            return []
        rows = [row for row in self.judged.comparisons if row.metric_id in OF_ANSWERS and row.decision == "regressed"]
        return sorted((row for row in rows if not row.gated), key=lambda row: -abs(row.difference or 0.0))

    @property
    def confirmed_failing(self) -> int:
        """How many questions newly fail, also when they were asked again: that is no chance."""
        judgement = self.judged.judgement
        return len(judgement.newly_failing) if judgement.asked_again else 0

    @property
    def can_prove(self) -> bool:
        """Whether these questions could prove a drop in each metric of the gate."""
        return bool(self.judged.gated) and all(row.smallest_drop is not None for row in self.judged.gated)

    @property
    def provable(self) -> float:
        """The smallest drop that these questions could prove in each metric of the gate, where any."""
        return max((row.smallest_drop for row in self.judged.gated if row.smallest_drop is not None), default=0.0)

    @property
    def shows_large_drops_only(self) -> bool:
        """Whether it passed, and says how large a drop so few questions reliably show instead of how good it is."""
        few = max((row.n_shared for row in self.judged.gated), default=0) < FEW_QUESTIONS
        return self.scores == "same" and self.gone is None and self.can_prove and few and self.provable > LARGE_DROP

    @property
    def tone(self) -> Tone:
        is_down = self.failed and (self.scores != "worse" or self.judged.evaluation.answered_nothing)
        return "failed" if is_down else self.scores

    @property
    def gravity(self) -> tuple[bool, int, int]:
        """Where it stands among others, the gravest first: leaks, then by tone, then by most questions."""
        evaluation = self.judged.evaluation
        return not evaluation.foreign_chunks, list(TONES).index(self.tone), -evaluation.item_count


def verdict_of(db: Database, judged: Judged, max_error_share: float) -> Verdict:
    """The verdict on an evaluation that was at the gate."""
    evaluation, judgement = judged.evaluation, judged.judgement
    scores: Tone = "same"
    rows = judged.gated
    unclear = [row for row in judged.gated if row.decision == "unclear"]
    better = [row for row in judged.gated if row.better]
    if judgement.verdict is None or (judgement.verdict == "failed" and judgement.baseline_id is None):
        scores, rows = "unmeasured", []
    elif judgement.verdict == "first":
        scores, rows = "first", []
    elif judged.regressed:
        scores, rows = "worse", judged.regressed
    elif unclear or judgement.verdict == "unclear":
        is_lost = detail_of(judgement.changes, LOST_EVIDENCE) is not None
        scores, rows = "unclear", unclear or ([] if is_lost else judged.changed_answers)
    elif better:
        scores, rows = "better", better
    baseline = evaluations_by_id(db, filter(None, [judgement.baseline_id])).get(judgement.baseline_id or 0)
    found: dict[Tone, StoredVerdict] = {"worse": "regressed", "unclear": "unclear"}
    seen_at = since_when(db, evaluation, found[scores]) if scores in found else None
    return Verdict(
        judged=judged,
        scores=scores,
        rows=sorted(rows, key=lambda row: -abs(row.difference or 0.0)),
        failed=too_many_errors(evaluation.error_count, evaluation.item_count, max_error_share),
        baseline_at=None if baseline is None else baseline.started_at,
        seen_at=seen_at or evaluation.started_at,
    )


def headline_metrics(summaries: Mapping[str, Summary], watched: Iterable[str], k: int) -> list[Summary]:
    """The five that stand first: the watched ones, then how faithful and right the answers are, then the rest.

    Args:
        summaries: an evaluation's metrics by id; those without a mean are passed over.
        watched: the ids of the gate's metrics and of those that the client set a good value for, in this order.
    """
    wanted = (
        *watched,
        *OF_ANSWERS,
        f"retrieval.recall_at_{k}",
        f"retrieval.precision_at_{k}",
        "overlap.faithfulness",
        "citation.accuracy",
    )
    found = [each for name in dict.fromkeys(wanted) if (each := summaries.get(name)) and each.mean is not None]
    # Where each question has one passage, recall is the hit rate once more.
    hits, recall = (summaries.get(f"retrieval.{name}_at_{k}") for name in ("hit_rate", "recall"))
    again = hits is not None and recall is not None and (hits.mean, hits.n_scored) == (recall.mean, recall.n_scored)
    return [each for each in found if not (again and each is recall)][:HEADLINE_METRICS]


def headline(found: Verdict, levels: Mapping[str, Summary]) -> str:
    """In a short sentence: metrics by name, and the day; then what changed.

    Args:
        levels: the metrics that a first run is told by.
    """
    rows = _compared(found)
    moved = ", ".join(f"{metric_name(row.metric_id)} {_from_to(row)}" for row in rows[:MOST_NAMED])
    moved += f" and {len(rows) - MOST_NAMED} more" if len(rows) > MOST_NAMED else ""
    said = _in_short(found, levels, moved)
    if found.scores not in ("unmeasured", "first"):
        joined = ":" if found.scores == "same" and not found.gone else ";"
        if found.gone and not found.begins_with_gone:
            said += f"; {found.gone}"
        told = ", ".join(what_changed(told_as_changes(found.judged.judgement.changes))) or (
            "" if found.gone else "nothing changed"
        )
        said += f"{joined} {told}" if told else ""
    return f"{capitalised(_with_alarms(found, said))}."


def in_short(found: Verdict, levels: Mapping[str, Summary]) -> str:
    """The same without the numbers and what changed, which stand in lines of their own below it."""
    verb = "got better" if found.scores == "better" else "got worse"
    said = _in_short(found, levels, f"{_names(_compared(found))} {verb}")
    return f"{capitalised(_with_alarms(found, said))}."


def told_as_changes(changes: Iterable[Change]) -> list[Change]:
    """What changed but for what stands apart: what was lost, and that no judge model reads the other answers."""
    return [each for each in changes if each.what not in (*LOSSES, CHANGED_ANSWERS)]


def _by_judge(row: MetricComparison) -> bool:
    return is_by_model(row.metric_id)


def _compared(found: Verdict) -> list[MetricComparison]:
    """The rows that it rests on and that say from where to where a metric moved; if unclear, only those that fell."""
    known = [row for row in found.rows if row.baseline_mean is not None and row.mean is not None]
    return known if found.scores != "unclear" else [row for row in known if (row.fall or 0.0) > 0.0]


def _in_short(found: Verdict, levels: Mapping[str, Summary], moved: str) -> str:
    outside = f"; outside the gate, {_names(found.worse_answers)} got worse" if found.worse_answers else ""
    return f"{_by_the_gate(found, levels, moved)}{_turned(found)}{outside}"


def _turned(found: Verdict) -> str:
    """Which questions decided that it got worse, or that a pass hides: `; 19 questions newly fail, 2 newly pass`."""
    by_questions = any(SURE_BY["confirmed"] in (row.remark or "") for row in found.rows)
    if not found.confirmed_failing or not (found.scores in ("same", "better") or by_questions):
        return ""
    passing = len(found.judged.judgement.newly_passing)
    verb = "fails" if found.confirmed_failing == 1 else "fail"
    better = f", {passing} newly {'passes' if passing == 1 else 'pass'}" if passing else ""
    return f"; {plural(found.confirmed_failing, 'question')} newly {verb}{better}"


def _names(rows: Sequence[MetricComparison]) -> str:
    """`MRR and hit rate@5 and 2 more`."""
    names = [metric_name(row.metric_id) for row in rows]
    names[MOST_NAMED:] = [f"{len(names) - MOST_NAMED} more"] if len(names) > MOST_NAMED else []
    return " and ".join(names)


def _by_the_gate(found: Verdict, levels: Mapping[str, Summary], moved: str) -> str:
    judgement, evaluation = found.judged.judgement, found.judged.evaluation
    at = found.baseline_at
    day = f"run {judgement.baseline_id}" if at is None else date(at, evaluation.started_at)
    since = f"since {date(found.seen_at, found.baseline_at)} against {_baseline(found)}"
    match found.scores:
        case "unmeasured":
            return NOT_JUDGED
        case "first":
            begun = "first run" if judgement.baseline_id is None else "accepted as the baseline"
            return f"{begun}: {_levels(levels)}; later runs are compared with it"
        case "worse":
            return f"regressed {since}: {moved}"
        case "unclear" if found.lost_evidence is not None:
            return f"unclear {since}: {found.lost_evidence}"
        case "unclear" if found.may_be_the_judge:
            return f"unclear {since}: {moved or metric_name(found.rows[0].metric_id)}, which may be the judge's doing"
        case "unclear" if found.answers_unread:
            return f"unclear {since}: {moved}, and no judge model says whether the answers are still right"
        case "unclear" if not _compared(found):
            return f"unclear {since}: {metric_name(found.rows[0].metric_id)}: {found.rows[0].remark}"
        case "unclear":
            if any(row.suspected for row in found.rows):
                return f"unclear {since}: {moved}, strongly suspected"
            if failing := found.confirmed_failing:
                fail = f"{plural(failing, 'question')} newly {'fails' if failing == 1 else 'fail'}"
                return f"unclear {since}: {moved}; {fail}, too few to call it a drop"
            return f"unclear {since}: {moved}, which may be chance"
        case "better":
            but = "" if found.gone is None else f", but {found.gone}"
            return f"passed, and better since {day}: {moved}{but}"
        case _ if found.gone is not None:
            return f"passed: no clear drop since {day}, but {found.gone}"
        case _ if not found.can_prove:
            return f"passed: no clear drop since {day}, but too few questions to be sure"
        case _ if found.shows_large_drops_only:
            asked = plural(evaluation.item_count, "question")
            seen = number(seen_from(found.provable))
            return f"passed: no clear drop since {day}, but {asked} can reliably show only one of {seen} or more"
        case _:
            return f"passed: as good as on {day}"


def _baseline(found: Verdict) -> str:
    """`the baseline of 3 May 2026`."""
    if found.baseline_at is None:
        return f"run {found.judged.judgement.baseline_id}"
    return f"the baseline of {date(found.baseline_at, found.seen_at)}"


def sentence(found: Verdict) -> str:
    """In a long one: metrics by id, intervals, and what would settle it.

    `regressed against run 3: retrieval.mrr 0.820 -> 0.610 (-0.210 [...]); since run 14 the index changed (...)`.
    """
    judged, judgement, rows = found.judged, found.judged.judgement, found.rows
    if found.scores == "unmeasured":
        return _with_alarms(found, NOT_JUDGED)
    if found.scores == "first":
        return _with_alarms(found, "the baseline: later runs are compared with it")
    against = f"against run {judgement.baseline_id}"
    moved = ", ".join(map(movement, rows))
    if found.scores == "worse":
        said = "; ".join(filter(None, [f"regressed {against}: {moved}", found.gone]))
    elif found.scores == "unclear":
        seen = [row.smallest_drop for row in rows if row.smallest_drop is not None]
        by_chance = seen and not (found.may_be_the_judge or found.answers_unread)
        chance = "" if found.confirmed_failing else "it may be chance: "
        sure = f"{chance}a drop of {number(seen_from(max(seen)))} would be certain" if by_chance else ""
        said = f"unclear {against}: {'; '.join(filter(None, [found.gone, moved, sure, what_settles(found)]))}"
    elif not rows:
        said = f"passed {against}: the gate's metrics were not measured"
    else:
        remarks = [f"{row.metric_id}: {row.remark} ({row.difference:+z.3f})" for row in judged.gated if row.remark]
        said = f"passed {against}" + (f" ({', '.join(remarks)})" if remarks else "")
        said += f", but {found.gone}" if found.gone else ""
    better = [row for row in judged.gated if row.better]
    if better and found.scores != "worse":  # else a later fall back to where the baseline was would be none
        accept = f"rageval runs accept {judged.evaluation.id}"
        said += f"; better: {', '.join(map(movement, better))}: to hold later runs against this one, {accept}"
    if changes := told_as_changes(judgement.changes):
        since = next((change.since for change in changes if change.since is not None), None)
        why = "" if judgement.baseline_id in (None, since) else ", the last good one,"
        said += f"; {'' if since is None else f'since run {since}{why} '}{', '.join(what_changed(changes, worse=True))}"
    return _with_alarms(found, said)


def _with_alarms(found: Verdict, said: str) -> str:
    """First of all that the system leaked, or failed on many questions: then it did not pass, whatever it scored."""
    evaluation = found.judged.evaluation
    if found.failed:
        failed = failed_on("the system", evaluation.error_count, evaluation.item_count)
        is_silent = evaluation.answered_nothing
        said = f"{failed}: nothing could be measured" if is_silent else f"{failed}; for the others: {said}"
    return f"leak, so not passed; by its scores alone: {said}" if evaluation.foreign_chunks else said


def failed_on(system: str, failed: int, of: int) -> str:
    """`assistant failed on 3 of 200 questions`."""
    return f"{system} failed on {failed:,} of {plural(of, 'question')}"


def what_changed(changes: Sequence[Change], worse: bool = False) -> list[str]:
    """`the documents changed (3 changed chunks)` for each of the five that did.

    Args:
        worse: say how many questions got worse by it, too.
    """
    said = []
    for change in changes:
        if change.what in (*LOSSES, EDITED, JUDGE_DRIFT, CHANGED_ANSWERS):
            said.append(change.detail)
            continue
        moved = f"{questions_moved(change)} because of it" if worse and change.worse else ""
        absent = f"{plural(len(change.documents), 'document')} no longer returned" if change.documents else ""
        unsure = "the system may have changed"
        what = unsure if change.detail == UNVERSIONED else f"{VERSIONS.get(change.what, change.what)} changed"
        detail = "it declares no version" if change.detail == UNVERSIONED else change.detail
        said.append(f"{what} ({'; '.join(filter(None, [detail, moved, absent]))})")
    return said


def questions_moved(change: Change) -> str:
    """`3 questions got worse`, `3 questions got worse and 2 better`."""
    better = f" and {change.better} better" if change.better else ""
    return f"{plural(change.worse or 0, 'question')} got worse{better}"


def newly_failing(failing: int, asked_again: bool, passing: int = 0) -> str:
    """`3 questions newly failing, 2 newly passing, also when asked again`."""
    how = "also when asked again" if asked_again else "in recorded answers: the system cannot be asked again"
    better = f", {passing} newly passing" if passing else ""
    return f"{plural(failing, 'question')} newly failing{better}, {how}"


def newly_turned(judgement: Judgement) -> str:
    """The same of an evaluation."""
    return newly_failing(len(judgement.newly_failing), judgement.asked_again, len(judgement.newly_passing))


def movement(row: MetricComparison) -> str:
    """`retrieval.mrr 0.820 -> 0.610 (-0.210 [-0.280, -0.140], 180 shared questions)`."""
    if row.difference is None or row.baseline_mean is None or row.mean is None:
        return f"{row.metric_id}: {row.remark}"
    remark = f"; {row.remark}" if row.remark else ""
    return (
        f"{row.metric_id} {row.baseline_mean:.3f} -> {row.mean:.3f} ({row.difference:+z.3f} [{row.ci_low:+z.3f}, "
        f"{row.ci_high:+z.3f}], {plural(row.n_shared, 'shared question')}{remark})"
    )


def _in_words(row: MetricComparison) -> str:
    """`MRR .82 to .61 (−.21, 95 %: −.28 to −.14, 180 shared questions)`."""
    moved = metric_name(row.metric_id)
    if row.difference is None or row.baseline_mean is None or row.ci_low is None or row.ci_high is None:
        return f"{moved}: {row.remark}"
    between = f"95 %: {signed(row.ci_low)} to {signed(row.ci_high)}"
    remark = f"; {row.remark}" if row.remark else ""
    shared = plural(row.n_shared, "shared question")
    return f"{moved} {_from_to(row)} ({signed(row.difference)}, {between}, {shared}{remark})"


def _from_to(row: MetricComparison) -> str:
    """`.91 to .82`, with a third digit where two would show no difference."""
    digits = 2 if f"{row.baseline_mean:.2f}" != f"{row.mean:.2f}" else 3
    return f"{number(row.baseline_mean, digits)} to {number(row.mean, digits)}"


def _levels(levels: Mapping[str, Summary]) -> str:
    known = {name: each for name, each in levels.items() if each.mean is not None}
    # What the gate looks at; the others stand below the sentence.
    first = {name: each for name, each in known.items() if name == "mrr" or name.startswith("hit_rate")}
    said = [f"{metric_name(each.metric_id)} {number(each.mean)}" for each in (first or known).values()]
    return ", ".join(said) or "nothing could be scored"


def what_settles(found: Verdict) -> str:
    """What would settle an unclear verdict."""
    accept = f"rageval runs accept {found.judged.evaluation.id}"
    if found.lost_evidence is not None:
        return f"if that was intended: {accept}; if not, restore the documents"
    if found.may_be_the_judge:
        client = shlex.quote(found.judged.evaluation.client_id)
        return f"label answers of this run too (rageval labels queue --client {client}), or to start from it: {accept}"
    if found.answers_unread:
        compare = f"rageval runs compare {found.judged.judgement.baseline_id} {found.judged.evaluation.id}"
        return f"read the answers: {compare}; if they are right: {accept}; if not, mend the system"
    if all(row.difference is None for row in found.rows):
        return f"to start from this run: {accept}"
    if not _compared(found):
        return "more questions"
    if found.confirmed_failing:
        compare = f"rageval runs compare {found.judged.judgement.baseline_id} {found.judged.evaluation.id}"
        return f"look at the questions that newly fail: {compare}; more questions would settle it"
    if any(row.suspected for row in found.rows):
        return "the next nights will tell, or a single run of your own: rageval evaluate --gate"
    return "the next nights will tell, or more questions"


def resolution(smallest: float | None, questions: int) -> str:
    """Which drops these questions show in 80 of 100 cases: `50 questions reliably show a drop of .22 or more`."""
    asked = plural(questions, "question")
    if smallest is None:
        return f"{asked} can miss a drop of any size: too few, or about too few documents"
    return f"{asked} reliably show a drop of {number(seen_from(smallest))} or more"


@dataclass(frozen=True)
class MoreQuestions:
    """That more questions are needed to see a drop of `effect`: from `least` to `most`, both None where none can tell.

    `target` is the size up to which a generated dataset grows by itself.
    """

    effect: float
    target: int
    least: int | None
    most: int | None


def more_questions(gated: Sequence[MetricComparison], effect: float, target: int, asked: int) -> MoreQuestions | None:
    """Where the shared questions are too few to see a drop of `effect` in some metric of the gate, how many would do.

    The smallest drop to be seen is made of what varies between runs, which shrinks with the root of the number of
    questions, and of what one question more weighs, which shrinks with the number itself: the need lies in between,
    if the new questions are spread over documents as these are, and as many of them are shared. So it is more than the
    `asked` ones, which do not do.
    """
    drops = [row.smallest_drop for row in gated if row.difference is not None]
    known = [drop / effect for drop in drops if drop is not None]
    if len(known) < len(drops):
        return MoreQuestions(effect, target, None, None)
    worst = max(known, default=0.0)
    if worst <= 1.0:
        return None
    least, most = (10 * math.ceil(asked * times / 10) for times in (worst, worst**2))
    return MoreQuestions(effect, target, least, most)


def good_values_told(report: EvaluationReport, own: Thresholds = NO_THRESHOLDS) -> str:
    """One sentence: which metrics reach their good values and which do not, and whose numbers these are.

    Where the interval reaches across the good value, the sample is too small to tell, and that is what it says.
    """
    evaluation = report.evaluation
    versioned = evaluation.system_declared is not None or evaluation.answered_nothing
    note = "" if versioned else " (unversioned, may have changed unnoticed)"
    whose = evaluation.system + (", a built-in reference system" if evaluation.system_reference else note)
    if not is_scored(report):
        return f"{whose}: {NOTHING_SCORED}"
    held = against_good_values(report, own)
    below = ", ".join(str(each) for each in held if each.surely == "below")
    unclear = ", ".join(each.name for each in held if each.surely == "unclear")
    said = [f"below the good value: {below}"] if below else []
    said += [f"may be above or below its good value: {unclear}"] if unclear else []
    reached = "every headline metric reaches its good value" if held else "no metric with a good value was run"
    return f"{whose}: {'; '.join(said) or reached}"


@dataclass(frozen=True)
class GateFinding:
    """What the gate found of one metric: a sentence for each evaluation."""

    passed: bool
    regressed: bool
    said: Sequence[str]


def finding_of(judged: Sequence[Judged], pattern: str, judge: str | None) -> GateFinding:
    """What was found of the metric that the gate knows by this id.

    Unclear is no pass, and neither is a metric that the newest evaluation should have measured and did not. It passes
    where there is nothing to compare: for want of a `judge` (a model's name), or of an earlier run.
    """
    from rageval_dagster.metrics.registry import matching_ids

    said: list[str] = []
    passed, is_regressed = True, False
    for each in judged:
        name = f"{each.evaluation.dataset_name}/{each.evaluation.system}"
        gated = {row.metric_id: row for row in each.gated}
        levels = (pattern, at_level(pattern, "document"))
        known = {found for one in levels for found in matching_ids(one, gated, each.evaluation.k)}
        for row in (gated[metric_id] for metric_id in sorted(known)):
            accepted = each.judgement.verdict == "first"
            regressed = row.decision == "regressed"
            passed &= row.decision == "passed" or accepted
            is_regressed |= regressed and not accepted
            word = "regressed, and accepted since" if regressed and accepted else row.decision
            said.append(f"{word}: {name}: {_in_words(row)}")
            if row.difference is not None and not regressed:
                said[-1] += f"; {resolution(row.smallest_drop, row.n_shared)}"
    if said:
        return GateFinding(passed, is_regressed, said)
    if judge is None and is_by_model(pattern):
        silence = "not measured: there is no judge model"
    elif judged and all(each.judgement.verdict == "first" for each in judged):
        silence = "not compared: this is the baseline that later runs are compared with"
    else:
        return GateFinding(False, False, ["not measured: the newest evaluation has no score for it"])
    return GateFinding(True, False, [silence])
