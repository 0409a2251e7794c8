"""What the gate found, in words and numbers for people: a sentence for each evaluation, and metadata of its run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rageval_dagster.evaluation.summary import is_by_model
from rageval_dagster.gate.judging import Judged
from rageval_dagster.gate.spec import at_level, seen_from
from rageval_dagster.storage.comparisons import TOLERATED, Change, MetricComparison

MOST_IDS = 50


def gate_metadata(judged: Sequence[Judged], effect: float) -> dict[str, Any]:
    """For each evaluation its sentence, and of each metric of the gate the difference, as numbers that are plotted."""
    several = len({each.evaluation.system for each in judged}) > 1
    metadata: dict[str, Any] = {}
    for each in judged:
        name = each.evaluation.dataset_name + (f"/{each.evaluation.system}" if several else "")
        metadata[f"{name}/gate"] = sentence(each, effect)
        for row in each.gated:
            if row.difference is not None:
                metadata[f"{name}/{row.metric_id}/against_baseline"] = row.difference
    return metadata


def sentence(judged: Judged, effect: float) -> str:
    """`regressed against run 3: retrieval.mrr .820 -> .610 (-.210, p .0004); since run 14 changed: index (...)`.

    `effect` is the drop that the gate wants to see.
    """
    judgement = judged.judgement
    if judged.evaluation.answered_nothing:
        return "the system failed on every question: there is nothing to compare"
    if judgement.verdict is None:
        return "too little could be scored to be compared with"
    if judgement.verdict == "first":
        return "the baseline that later runs are compared with"
    against = f"against run {judgement.baseline_id}"
    changed = f"; {changed_since(judgement.changes)}" if judgement.changes else ""
    if not judged.gated:
        return f"the gate's metrics were not measured{changed}"
    if judgement.verdict == "regressed":
        return f"regressed {against}: {', '.join(map(movement, judged.regressed))}{changed}"
    told = ", ".join(f"{row.metric_id}: {_seen(row)}" for row in judged.gated)
    better = [row for row in judged.gated if row.decision == "improved"]
    if better:  # else a later fall back to where the baseline was would be none
        moved = ", ".join(map(movement, better))
        changed += f"; better: {moved}: to hold later runs against this one, rageval runs accept {judged.evaluation.id}"
    fallen = [row for row in judged.gated if row.is_unclear]
    if fallen:
        moved = ", ".join(map(movement, fallen))
        dark = "".join(f"; {row.metric_id}: {_seen(row)}" for row in judged.gated if row.decision == "not_comparable")
        chance = "as one look it would be a fall, as one of many it may be chance"
        return f"unclear {against}: {moved}: {chance}{dark}{changed}"
    if judgement.verdict == "too_few":
        wanted = f"; the gate wants {effect:g}: RAGEVAL_GATE_EFFECT"
        missed = (
            wanted if any(row.smallest_drop is not None and row.smallest_drop > effect for row in judged.gated) else ""
        )
        return f"too little to tell whether it got worse {against} ({told}{missed}){changed}"
    return f"no regression {against} ({told}){changed}"


@dataclass(frozen=True)
class GateFinding:
    """What the gate found of one metric: a sentence for each evaluation, and its numbers by name."""

    passed: bool
    said: Sequence[str]
    metadata: Mapping[str, Any]


def finding_of(judged: Sequence[Judged], pattern: str, effect: float, judge: str | None) -> GateFinding:
    """What was found of the metric that the gate knows by this id.

    It passes where nothing was proven: not measured (for want of a `judge`, a model's name, for example), or too few
    questions to see a drop of `effect`. Then what is said begins with that, so that nobody takes it for good news.
    """
    from rageval_dagster.metrics.registry import matching_ids

    said: list[str] = []
    metadata: dict[str, Any] = {}
    passed = True
    for each in judged:
        name = f"{each.evaluation.dataset_name}/{each.evaluation.system}"
        gated = {row.metric_id: row for row in each.gated}
        levels = (pattern, at_level(pattern, "document"))
        known = {found for one in levels for found in matching_ids(one, gated, each.evaluation.k)}
        for row in (gated[metric_id] for metric_id in sorted(known)):
            accepted = each.judgement.verdict == "first"
            passed &= row.decision != "regressed" or accepted
            drop = "" if row.decision == "not_comparable" else f"; {_drop(row.smallest_drop)}"
            said.append(f"{_outcome(row, effect, accepted)}: {name}: {movement(row)}{drop}")
            numbers = {
                "difference": row.difference,
                "corrected_p": row.adjusted_p,
                "smallest_drop_to_be_seen": row.smallest_drop,
                "shared_questions": row.n_shared,
                "baseline_run": row.baseline_id,
            }
            metadata |= {f"{name}/{key}": value for key, value in numbers.items() if value is not None}
    return GateFinding(passed, said or [_silence(judged, pattern, judge)], metadata)


def _outcome(row: MetricComparison, effect: float, accepted: bool) -> str:
    """What its comparison came to, in the words of the verdict on the whole evaluation."""
    if row.decision == "regressed":
        return "regressed, and accepted since" if accepted else "regressed"
    if row.decision == "not_comparable":
        return "not compared"
    if row.decision == "improved":
        return "better"
    if row.is_unclear:
        return "unclear, may be chance"
    if row.smallest_drop is None or row.smallest_drop > effect:
        return "too few questions to tell"
    return "no regression"


def _silence(judged: Sequence[Judged], pattern: str, judge: str | None) -> str:
    """Why nothing is known of a metric."""
    if judge is None and is_by_model(pattern):
        return "not measured: no judge (RAGEVAL_JUDGE_MODEL)"
    if judged and all(each.judgement.verdict == "first" for each in judged):
        return "not compared: this is the baseline that later runs are compared with"
    return "not measured: the newest evaluation has no score of it"


def movement(row: MetricComparison) -> str:
    """`retrieval.mrr 0.820 -> 0.610 (-0.210 [-0.280, -0.140], corrected p 0.0004, 180 questions)`."""
    if row.difference is None or row.baseline_mean is None or row.mean is None:
        return f"{row.metric_id}: {row.remark}"
    return (
        f"{row.metric_id} {row.baseline_mean:.3f} -> {row.mean:.3f} ({row.difference:+.3f} [{row.ci_low:+.3f}, "
        f"{row.ci_high:+.3f}], corrected p {row.adjusted_p:.2g}, {row.n_shared} questions)"
    )


def changed_since(changes: Sequence[Change]) -> str:
    """`changed since run 14: index (re-embedded 9 chunks; 31 questions suffer from it), corpus (3 changed chunks)`."""
    since = next((change.since for change in changes if change.since is not None), None)
    named = ", ".join(f"{change.what} ({change.detail}{_suffering(change.worse)})" for change in changes)
    return f"changed{'' if since is None else f' since run {since}'}: {named}"


def _suffering(worse: int | None) -> str:
    if not worse:
        return ""
    return f"; {worse} question{'s' if worse > 1 else ''} suffer{'' if worse > 1 else 's'} from it"


def _seen(row: MetricComparison) -> str:
    if row.decision == "not_comparable":
        return row.remark or "nothing"
    drop = _drop(row.smallest_drop)
    return f"{TOLERATED} ({row.difference:+.3f}), {drop}" if TOLERATED in (row.remark or "") else drop


def _drop(smallest: float | None) -> str:
    """Which drops the shared questions could have shown."""
    if smallest is None:
        return "no drop, however large, would have been seen: its questions are too few, or come from too few documents"
    return f"a drop of {seen_from(smallest):.2f} or more would have been seen"
