"""Asset checks: whether the benchmark is sound, whether anything is missing, and whether quality is good enough."""

from collections.abc import Sequence

import dagster as dg

from rageval_dagster.assets.gate_checks import gate_checks
from rageval_dagster.assets.partitions import clients_partitions
from rageval_dagster.assets.step import Step, client_check
from rageval_dagster.benchmark.rules import RULES, RuleResult
from rageval_dagster.records import Owner
from rageval_dagster.resources import RunSettings
from rageval_dagster.storage.evaluations import Evaluation
from rageval_dagster.text import plural

MAX_IDS = 50
FRESH = "fresh"


def rule_check_specs(asset: str) -> list[dg.AssetCheckSpec]:
    """One check per quality rule; a blocking one stops the run."""
    return [
        dg.AssetCheckSpec(
            rule.id,
            asset=asset,
            description=rule.description,
            blocking=rule.blocking,
            partitions_def=clients_partitions,
        )
        for rule in RULES
    ]


def rule_results(results: Sequence[RuleResult]) -> list[dg.AssetCheckResult]:
    """The outcome of every rule, with the ids of the offenders; one that nothing was held to passes with 0 checked."""
    known = {result.rule_id: result for result in results}
    return [
        _check_result(known.get(rule.id, RuleResult(rule.id, success=True, blocking=rule.blocking, checked=0)))
        for rule in RULES
    ]


def _check_result(result: RuleResult) -> dg.AssetCheckResult:
    return dg.AssetCheckResult(
        check_name=result.rule_id,
        passed=result.success,
        severity=dg.AssetCheckSeverity.ERROR if result.blocking else dg.AssetCheckSeverity.WARN,
        description=result.sentence,
        metadata=_ids(offender_ids=result.failed_ids, kept_out_ids=result.rejected_ids),
    )


def _ids(**ids: Sequence[str]) -> dict[str, dg.MetadataValue]:
    # No counts beside them: Dagster plots a check's numbers over time, those of all clients in one line.
    return {label: dg.MetadataValue.json(list(some[:MAX_IDS])) for label, some in ids.items() if some}


@client_check()
def complete(step: Step) -> dg.AssetCheckResult:
    """Every question has an outcome of every metric. None was dropped on the way."""
    from rageval_dagster.evaluation.summary import reports_of
    from rageval_dagster.evaluation.verdict import completeness

    finding = completeness(reports_of(step.db, step.client_id))
    return dg.AssetCheckResult(passed=finding.passed, description=finding.said, metadata=finding.metadata)


@client_check()
def few_errors(step: Step, settings: RunSettings) -> dg.AssetCheckResult:
    """No metric failed on more questions than allowed: 5 %, unless your settings say otherwise."""
    from rageval_dagster.evaluation.summary import reports_of
    from rageval_dagster.evaluation.verdict import error_share

    own = settings.read().for_client(step.client_id)
    finding = error_share(reports_of(step.db, step.client_id), own.max_error_share)
    return dg.AssetCheckResult(passed=finding.passed, description=finding.said, metadata=finding.metadata)


@client_check()
def good_values(step: Step, settings: RunSettings) -> dg.AssetCheckResult:
    """The main metrics, your own, and those with a threshold reach their good values.

    This warns of low quality. Whether it got worse is for the checks of regressions.
    """
    from rageval_dagster.evaluation.summary import reports_of
    from rageval_dagster.evaluation.verdict import thresholds

    own = settings.read().for_client(step.client_id)
    finding = thresholds(reports_of(step.db, step.client_id), own.thresholds)
    return dg.AssetCheckResult(
        passed=finding.passed,
        severity=dg.AssetCheckSeverity.WARN,
        description=finding.said,
        metadata=finding.metadata,
    )


@client_check()
def no_foreign_chunks(step: Step) -> dg.AssetCheckResult:
    """No system returned a passage of another client."""
    # It blocks nothing: what comes after it only shows the numbers, and the leak before them.
    return _strays(step, "foreign", dg.AssetCheckSeverity.ERROR)


@client_check()
def no_unknown_chunks(step: Step) -> dg.AssetCheckResult:
    """Every passage that a system returned is in the document store. None is out of date or made up."""
    return _strays(step, "unknown", dg.AssetCheckSeverity.WARN)


def _strays(step: Step, owner: Owner, severity: dg.AssetCheckSeverity) -> dg.AssetCheckResult:
    from rageval_dagster.evaluation.leaks import stray_chunks
    from rageval_dagster.storage.evaluations import evaluations_of_trigger

    latest = [each for each in evaluations_of_trigger(step.db, step.client_id) if each.status != "failed"]
    found = stray_chunks(step.db, latest, owner)
    chunks, questions = ({getattr(each, name) for each in found} for name in ("chunk_id", "item_id"))
    said = "Every passage that was returned is in the document store."
    if owner == "foreign":
        said = _leaks(step, latest) or "No passage of another client was returned."
    elif found:
        missing = f"{plural(len(chunks), 'passage')} that the document store does not have"
        said = f"{missing}, returned for {plural(len(questions), 'question')}."
    return dg.AssetCheckResult(
        passed=not found,
        severity=severity,
        description=said,
        metadata=_ids(chunk_ids=sorted(chunks), question_ids=sorted(questions)),
    )


def _leaks(step: Step, evaluations: Sequence[Evaluation]) -> str | None:
    from rageval_dagster.telling.alarms import leak_alarm

    alarms = [leak_alarm(step.db, each) for each in evaluations]
    return " ".join(f"{each.sentence} {each.command}" for each in alarms if each is not None) or None


@client_check(FRESH)
def fresh(step: Step) -> dg.AssetCheckResult:
    """The newest complete evaluation is recent: at most 36 hours old, unless your settings say otherwise."""
    # Made by each run; where no run comes, the alert sensor reports it.
    from rageval_dagster.gate.incidents import freshness
    from rageval_dagster.settings import load_settings
    from rageval_dagster.storage.types import utc_now

    found = freshness(step.db, load_settings(), step.client_id, utc_now())
    return dg.AssetCheckResult(passed=found.fresh, description=found.said)


def asset_checks() -> list[dg.AssetChecksDefinition]:
    return [complete, few_errors, good_values, no_foreign_chunks, no_unknown_chunks, fresh, *gate_checks()]
