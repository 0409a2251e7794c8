"""What the gate found, in words and numbers for people: a sentence for each evaluation, and metadata of its run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rageval_dagster.evaluation.summary import is_by_model
from rageval_dagster.gate.judging import Judged
from rageval_dagster.gate.spec import at_level, seen_from
from rageval_dagster.storage.comparisons import Change, MetricComparison
from rageval_dagster.text import plural

MOST_IDS = 50


def gate_metadata(judged: Sequence[Judged]) -> dict[str, Any]:
    """For each evaluation its sentence, and of each metric of the gate the difference, as numbers that are plotted."""
    several = len({each.evaluation.system for each in judged}) > 1
    metadata: dict[str, Any] = {}
    for each in judged:
        name = each.evaluation.dataset_name + (f"/{each.evaluation.system}" if several else "")
        metadata[f"{name}/gate"] = sentence(each)
        for row in each.gated:
            if row.difference is not None:
                metadata[f"{name}/{row.metric_id}/against_baseline"] = row.difference
    return metadata


def sentence(judged: Judged) -> str:
    """`regressed against run 3: retrieval.mrr .820 -> .610 (-.210 [...]); changed since run 14: index (...)`."""
    judgement = judged.judgement
    if judged.evaluation.answered_nothing:
        return "failed: the system failed on every question, so that there is nothing to compare"
    if judgement.verdict is None:
        return "not judged: too little could be scored to be compared with"
    if judgement.verdict == "first":
        return "the baseline that later runs are compared with"
    changed = f"; {changed_since(judgement.changes, judgement.baseline_id)}" if judgement.changes else ""
    if judgement.verdict == "failed":
        evaluation = judged.evaluation
        others = f"; of the others: {', '.join(map(movement, judged.gated))}" if judged.gated else ""
        failed = f"{evaluation.error_count} of {evaluation.item_count} questions"
        return f"failed: the system failed on {failed}{others}{changed}"
    if not judged.gated:
        return f"{judgement.verdict}: the gate's metrics were not measured{changed}"
    begun = f"{judgement.verdict} against run {judgement.baseline_id}"
    if judgement.verdict == "regressed":
        return f"{begun}: {', '.join(map(movement, judged.regressed))}{changed}"
    if judgement.verdict == "passed":
        said = f"{begun} ({', '.join(f'{row.metric_id}: {_seen(row)}' for row in judged.gated)})"
    else:
        fallen = [row for row in judged.gated if row.decision == "unclear"]
        said = f"{begun}: {', '.join(map(movement, fallen or judged.gated))}{_settled(judged, fallen)}"
    better = [row for row in judged.gated if row.better]
    if better:  # else a later fall back to where the baseline was would be none
        moved = ", ".join(map(movement, better))
        said += f"; better: {moved}: to hold later runs against this one, rageval runs accept {judged.evaluation.id}"
    return said + changed


def _settled(judged: Judged, unclear: Sequence[MetricComparison]) -> str:
    """What would settle what is unclear."""
    if not unclear:
        return ""
    if all(row.difference is None for row in unclear):
        return f"; to start from this run: rageval runs accept {judged.evaluation.id}"
    if any(row.suspected for row in unclear):
        return "; the next nights will tell, or one look of your own: rageval evaluate --gate"
    seen = [row.smallest_drop for row in unclear if row.smallest_drop is not None]
    surely = f"a fall of {seen_from(max(seen)):.2f} would be sure" if seen else "no fall would be sure"
    return f"; it may be chance: {surely}; the next nights or more questions will tell"


def newly_failing(count: int, asked_again: bool) -> str:
    """`3 questions newly failing, also when asked again`."""
    how = "also when asked again" if asked_again else "by recorded answers: nobody can be asked again"
    return f"{plural(count, 'question')} newly failing, {how}"


@dataclass(frozen=True)
class GateFinding:
    """What the gate found of one metric: a sentence for each evaluation, and its numbers by name."""

    passed: bool
    said: Sequence[str]
    metadata: Mapping[str, Any]


def finding_of(judged: Sequence[Judged], pattern: str, judge: str | None) -> GateFinding:
    """What was found of the metric that the gate knows by this id.

    It passes where nothing was proven: not measured (for want of a `judge`, a model's name, for example), or unclear.
    Then what is said begins with that, so that nobody takes it for good news.
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
            regressed = row.decision == "regressed"
            passed &= not regressed or accepted
            word = "regressed, and accepted since" if regressed and accepted else row.decision
            drop = "" if row.difference is None else f"; {_drop(row.smallest_drop)}"
            said.append(f"{word}: {name}: {movement(row)}{drop}")
            numbers = {
                "difference": row.difference,
                "smallest_drop_to_be_seen": row.smallest_drop,
                "shared_questions": row.n_shared,
                "baseline_run": row.baseline_id,
            }
            metadata |= {f"{name}/{key}": value for key, value in numbers.items() if value is not None}
    return GateFinding(passed, said or [_silence(judged, pattern, judge)], metadata)


def _silence(judged: Sequence[Judged], pattern: str, judge: str | None) -> str:
    """Why nothing is known of a metric."""
    if judge is None and is_by_model(pattern):
        return "not measured: no judge (RAGEVAL_JUDGE_MODEL)"
    if judged and all(each.judgement.verdict == "first" for each in judged):
        return "not compared: this is the baseline that later runs are compared with"
    return "not measured: the newest evaluation has no score of it"


def movement(row: MetricComparison) -> str:
    """`retrieval.mrr 0.820 -> 0.610 (-0.210 [-0.280, -0.140], 180 shared questions)`."""
    if row.difference is None or row.baseline_mean is None or row.mean is None:
        return f"{row.metric_id}: {row.remark}"
    remark = f"; {row.remark}" if row.remark else ""
    return (
        f"{row.metric_id} {row.baseline_mean:.3f} -> {row.mean:.3f} ({row.difference:+z.3f} [{row.ci_low:+z.3f}, "
        f"{row.ci_high:+z.3f}], {row.n_shared} shared questions{remark})"
    )


def changed_since(changes: Sequence[Change], baseline_id: int | None = None) -> str:
    """`changed since run 14: index (re-embedded 9 chunks; 31 questions suffer from it), corpus (3 changed chunks)`.

    Where that run is not the baseline, it is said why it is named.
    """
    since = next((change.since for change in changes if change.since is not None), None)
    named = ", ".join(f"{change.what} ({change.detail}{_suffering(change.worse)})" for change in changes)
    why = "" if baseline_id in (None, since) else ", the last that was good"
    return f"changed{'' if since is None else f' since run {since}{why}'}: {named}"


def _suffering(worse: int | None) -> str:
    if not worse:
        return ""
    return f"; {worse} question{'s' if worse > 1 else ''} suffer{'' if worse > 1 else 's'} from it"


def _seen(row: MetricComparison) -> str:
    if row.difference is None:
        return row.remark or "nothing"
    remark = f"{row.remark} ({row.difference:+z.3f}), " if row.remark else ""
    return f"{remark}{_drop(row.smallest_drop)}"


def _drop(smallest: float | None) -> str:
    """Which drops the shared questions could have shown."""
    if smallest is None:
        return "no drop, however large, would have been seen: its questions are too few, or come from too few documents"
    return f"a drop of {seen_from(smallest):.2f} or more would have been seen"
