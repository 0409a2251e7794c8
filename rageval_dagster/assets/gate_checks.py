"""Asset checks of the gate: one for each metric that it looks at, and one for questions that newly fail."""

import dagster as dg

from rageval_dagster.assets.step import Step, client_check
from rageval_dagster.gate.spec import DEFAULT_GATE, GateSpec
from rageval_dagster.resources import RunSettings
from rageval_dagster.settings import load_settings


def gate_checks() -> list[dg.AssetChecksDefinition]:
    """The gate's checks: of the default metrics, and of those that any client's settings name."""
    settings = load_settings()
    named = [*settings.gate, *(name for client in settings.source.client_names for name in _gate_of(client))]
    checks = {_name(metric): metric for metric in (*named, *DEFAULT_GATE)}
    return [*(_regression_check(name, metric) for name, metric in sorted(checks.items())), no_newly_failing]


def _name(metric: str) -> str:
    return f"no_regression_in_{''.join(each if each.isalnum() else '_' for each in metric)}"


def _gate_of(client_id: str) -> tuple[str, ...]:
    from rageval_dagster.errors import SettingsError

    try:
        return load_settings().for_client(client_id).gate
    except SettingsError:
        return ()  # its own run says what is wrong


def _regression_check(name: str, metric: str) -> dg.AssetChecksDefinition:
    @client_check(
        name,
        f"Fails where {metric} has surely fallen by more than the tolerance since the baseline. It also "
        "passes where it was not measured or where the fall is unclear, and says so.",
    )
    def check(step: Step, settings: RunSettings) -> dg.AssetCheckResult:
        from rageval_dagster.gate.decision import judged_newest
        from rageval_dagster.telling.verdicts import finding_of

        own = settings.read().for_client(step.client_id)
        finding = finding_of(judged_newest(step.db, step.client_id), metric, own.judge_model)
        is_error = GateSpec.from_settings(own).severity == "error"
        return dg.AssetCheckResult(
            passed=finding.passed,
            severity=dg.AssetCheckSeverity.ERROR if is_error else dg.AssetCheckSeverity.WARN,
            description="; ".join(finding.said),
            metadata=finding.metadata,
        )

    return check


@client_check()
def no_newly_failing(step: Step) -> dg.AssetCheckResult:
    """No question that was right in the baseline is wrong now, and wrong again when it is asked again."""
    from rageval_dagster.gate.decision import judged_newest

    judged = judged_newest(step.db, step.client_id)
    failing = {
        f"{each.evaluation.dataset_name}/{each.evaluation.system}": list(each.judgement.newly_failing)
        for each in judged
        if each.judgement.newly_failing
    }
    return dg.AssetCheckResult(
        passed=not failing,
        severity=dg.AssetCheckSeverity.WARN,
        metadata={
            "questions": sum(map(len, failing.values())),
            "question_ids": dg.MetadataValue.json(failing),
        },
    )
