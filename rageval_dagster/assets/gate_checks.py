"""Asset checks of the gate: one for each metric that it looks at, and one for questions that newly fail."""

import dagster as dg

from rageval_dagster.assets.evaluation_checks import EvaluationCheck, Newest, evaluation_check
from rageval_dagster.gate.spec import DEFAULT_GATE, GateSpec
from rageval_dagster.settings import load_settings
from rageval_dagster.telling.words import capitalised, metric_name


def gate_checks() -> list[EvaluationCheck]:
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


def _regression_check(name: str, metric: str) -> EvaluationCheck:
    @evaluation_check(
        name,
        f"{metric_name(metric)} is no worse than in the baseline. This fails as an error (or as a warning, by "
        "`gate_severity`) if the drop is certain and larger than the tolerance, and as a warning if that is unclear or "
        "could not be measured.",
    )
    def check(newest: Newest) -> dg.AssetCheckResult:
        from rageval_dagster.telling.verdicts import finding_of

        own = newest.settings
        finding = finding_of(newest.judged, metric, own.judge_model)
        is_error = finding.regressed and GateSpec.from_settings(own).severity == "error"
        return dg.AssetCheckResult(
            passed=finding.passed,
            severity=dg.AssetCheckSeverity.ERROR if is_error else dg.AssetCheckSeverity.WARN,
            description=capitalised("; ".join(finding.said)),
        )

    return check


@evaluation_check()
def no_newly_failing(newest: Newest) -> dg.AssetCheckResult:
    """No question that was right in the baseline is wrong now, also when asked again."""
    from rageval_dagster.telling.links import ReportLinks
    from rageval_dagster.telling.run_page import question_list
    from rageval_dagster.telling.verdicts import newly_turned

    links = ReportLinks(newest.settings.report_base_url)
    failing = {
        f"{each.evaluation.dataset_name}/{each.evaluation.system}": each
        for each in newest.judged
        if each.judgement.newly_failing
    }
    said = [f"{name}: {newly_turned(each.judgement)}." for name, each in failing.items()]
    return dg.AssetCheckResult(
        passed=not failing,
        severity=dg.AssetCheckSeverity.WARN,
        description=" ".join(said) or "No question newly fails.",
        metadata={
            name: dg.MetadataValue.md(question_list(each.evaluation, each.judgement.newly_failing, links))
            for name, each in failing.items()
        },
    )
