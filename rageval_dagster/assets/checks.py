"""Asset checks: whether the benchmark is sound, whether anything is missing, and whether quality is good enough."""

from collections.abc import Sequence

import dagster as dg

from rageval_dagster.assets.evaluation_checks import EvaluationCheck, Newest, evaluation_check
from rageval_dagster.assets.gate_checks import gate_checks
from rageval_dagster.assets.partitions import clients_partitions
from rageval_dagster.benchmark.rules import RULES, RuleResult
from rageval_dagster.records import Owner
from rageval_dagster.settings import load_settings
from rageval_dagster.storage.evaluations import Evaluation
from rageval_dagster.telling.links import ReportLinks
from rageval_dagster.text import plural

MAX_IDS = 50
FRESH = "fresh"
RULES_CHECK = "quality_rules"
BROKEN = "broken"
"""The entry of the rules' check that names those that do not hold, the blocking ones first."""


def rules_check_spec(asset: str) -> dg.AssetCheckSpec:
    """One check for all quality rules: a blocking one that does not hold stops the run."""
    return dg.AssetCheckSpec(
        RULES_CHECK,
        asset=asset,
        description="The benchmark follows the quality rules; the table gives the result of each. A blocking rule "
        "that does not hold is an error and stops the run, any other rule is a warning.",
        blocking=True,
        partitions_def=clients_partitions,
    )


def rules_result(results: Sequence[RuleResult]) -> dg.AssetCheckResult:
    """What came of every rule, with the ids of the offenders; one that nothing was held to holds, with 0 checked."""
    known = {result.rule_id: result for result in results}
    rules = [
        (rule, known.get(rule.id, RuleResult(rule.id, success=True, blocking=rule.blocking, checked=0)))
        for rule in RULES
    ]
    broken = sorted((found for _, found in rules if not found.success), key=lambda found: not found.blocking)
    names = ", ".join(found.rule_id.replace("_", " ") for found in broken)
    records = [
        dg.TableRecord(
            {
                "rule": found.rule_id,
                "holds": "yes" if found.success else "no",
                "if not": "error" if found.blocking else "warning",
                "result": found.sentence,
                "what it requires": rule.description,
            }
        )
        for rule, found in rules
    ]
    return dg.AssetCheckResult(
        check_name=RULES_CHECK,
        passed=not broken,
        severity=dg.AssetCheckSeverity.ERROR if any(each.blocking for each in broken) else dg.AssetCheckSeverity.WARN,
        description=f"Of {len(rules)} rules, {len(broken)} do not hold: {names}." if broken else "All rules hold.",
        metadata={
            **({BROKEN: dg.MetadataValue.json([found.rule_id for found in broken])} if broken else {}),
            "rules": dg.MetadataValue.table(records),
            **_ids_by_rule("offender_ids", {found.rule_id: found.failed_ids for _, found in rules}),
            **_ids_by_rule("kept_out_ids", {found.rule_id: found.rejected_ids for _, found in rules}),
        },
    )


def what_blocked(evaluation: dg.AssetCheckEvaluation) -> str:
    """What a blocking check that did not pass found broken: of the benchmark's rules the first one, else the check."""
    broken = evaluation.metadata.get(BROKEN)
    rules = broken.value if isinstance(broken, dg.JsonMetadataValue) else None
    return str(rules[0]) if isinstance(rules, list) else evaluation.check_name


def _ids_by_rule(label: str, ids: dict[str, tuple[str, ...]]) -> dict[str, dg.MetadataValue]:
    some = {rule: list(found[:MAX_IDS]) for rule, found in ids.items() if found}
    return {label: dg.MetadataValue.json(some)} if some else {}


def _ids(**ids: Sequence[str]) -> dict[str, dg.MetadataValue]:
    # No counts beside them: Dagster plots a check's numbers over time, those of all clients in one line.
    return {label: dg.MetadataValue.json(list(some[:MAX_IDS])) for label, some in ids.items() if some}


@evaluation_check()
def complete(newest: Newest) -> dg.AssetCheckResult:
    """Every question has an outcome of every metric. None was dropped on the way."""
    from rageval_dagster.evaluation.verdict import completeness

    finding = completeness(newest.reports)
    return dg.AssetCheckResult(passed=finding.passed, description=finding.said, metadata=finding.metadata)


@evaluation_check()
def few_errors(newest: Newest) -> dg.AssetCheckResult:
    """No metric failed on more questions than allowed: 5 %, unless your settings say otherwise."""
    from rageval_dagster.evaluation.verdict import error_share

    finding = error_share(newest.reports, newest.settings.max_error_share)
    return dg.AssetCheckResult(passed=finding.passed, description=finding.said, metadata=finding.metadata)


@evaluation_check()
def good_values(newest: Newest) -> dg.AssetCheckResult:
    """The main metrics, your own, and those with a threshold reach their good values.

    This warns of low quality. Whether it got worse is for the checks of regressions.
    """
    from rageval_dagster.evaluation.verdict import thresholds

    finding = thresholds(newest.reports, newest.settings.thresholds)
    return dg.AssetCheckResult(
        passed=finding.passed,
        severity=dg.AssetCheckSeverity.WARN,
        description=finding.said,
        metadata=finding.metadata,
    )


@evaluation_check()
def no_foreign_chunks(newest: Newest) -> dg.AssetCheckResult:
    """No system returned a passage of another client."""
    # It blocks nothing: what comes after it only shows the numbers, and the leak before them.
    return _strays(newest, "foreign", dg.AssetCheckSeverity.ERROR)


@evaluation_check()
def no_unknown_chunks(newest: Newest) -> dg.AssetCheckResult:
    """Every passage that a system returned is in the document store. None is out of date or made up."""
    return _strays(newest, "unknown", dg.AssetCheckSeverity.WARN)


def _strays(newest: Newest, owner: Owner, severity: dg.AssetCheckSeverity) -> dg.AssetCheckResult:
    from rageval_dagster.evaluation.leaks import stray_chunks
    from rageval_dagster.storage.evaluations import evaluations_of_trigger

    latest = [each for each in evaluations_of_trigger(newest.db, newest.client_id) if each.status != "failed"]
    found = stray_chunks(newest.db, latest, owner)
    chunks, questions = ({getattr(each, name) for each in found} for name in ("chunk_id", "item_id"))
    said = "Every passage that was returned is in the document store."
    if owner == "foreign":
        said = _leaks(newest, latest) or "No passage of another client was returned."
    elif found:
        missing = f"{plural(len(chunks), 'passage')} that the document store does not have"
        said = f"{missing}, returned for {plural(len(questions), 'question')}."
    return dg.AssetCheckResult(
        passed=not found,
        severity=severity,
        description=said,
        metadata=_ids(chunk_ids=sorted(chunks), question_ids=sorted(questions)),
    )


def _leaks(newest: Newest, evaluations: Sequence[Evaluation]) -> str | None:
    from rageval_dagster.telling.alarms import leak_alarm

    alarms = [leak_alarm(newest.db, each) for each in evaluations]
    return " ".join(f"{each.sentence} {each.command}" for each in alarms if each is not None) or None


@evaluation_check(FRESH)
def fresh(newest: Newest) -> dg.AssetCheckResult:
    """The newest complete evaluation is recent: at most 36 hours old, unless your settings say otherwise."""
    # Made by each run; where no run comes, the alert sensor reports it.
    from rageval_dagster.gate.incidents import freshness
    from rageval_dagster.storage.types import utc_now

    found = freshness(newest.db, load_settings(), newest.client_id, utc_now())
    return dg.AssetCheckResult(passed=found.fresh, description=found.said)


CHECKS: Sequence[EvaluationCheck] = (
    *(complete, few_errors, good_values, no_foreign_chunks, no_unknown_chunks, fresh),
    *gate_checks(),
)
"""Of each client's newest evaluations, made by the step that sums them up."""


def evaluation_results(newest: Newest) -> list[dg.AssetCheckResult]:
    """The outcome of every check; one that fails links to the client's report."""
    url = ReportLinks(load_settings().report_base_url).client(newest.client_id)
    link = {} if url is None else {"report": dg.MetadataValue.url(url)}
    found = [(each, each.body(newest)) for each in CHECKS]
    return [
        result._replace(
            check_name=each.spec.name, metadata={**({} if result.passed else link), **(result.metadata or {})}
        )
        for each, result in found
    ]
