"""Incidents in words: what each kind is called, why one was opened, and how it ended."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from rageval_dagster.evaluation.leaks import passages_of_others
from rageval_dagster.rag.failures import in_words
from rageval_dagster.storage.comparisons import Change
from rageval_dagster.storage.incidents import Incident
from rageval_dagster.telling.verdicts import failed_on, what_changed
from rageval_dagster.telling.words import capitalised, metric_name, minute, one_line
from rageval_dagster.text import named, plural

MOST_METRICS = 3

Write = Callable[[str], str]
"""How a name, which others chose, is written where the reason is shown."""


def reason(incident: Incident, write: Write = one_line) -> str:
    """Why it was opened: names, numbers and classes of errors; no text of documents, and no error's own message."""
    details = incident.details
    match incident.kind:
        case "regression":
            return _against_baseline(details, write)
        case "leak":
            return f"{passages_of_others(details['chunks'])} in evaluation {incident.evaluation_id}"
        case "errors":
            return f"{_failed(details, write)}, evaluation {incident.evaluation_id}"
        case "benchmark":
            return broken_rules(details["rules"], write)
        case "lost_evidence":
            return details["lost"]
        case "judge_drift":
            return details["drift"]
        case "changed_answers":
            return details["answers"]
        case "failed_run":
            step = f"at step {write(details['step'])}" if "step" in details else "before its first step"
            why = [write(details[name]) for name in ("error", "check") if name in details]
            why += ["its process died"] if details.get("died") else []
            because = f" ({', '.join(why)})" if why else ""
            return f"{step}{because}, Dagster run {write(incident.run_id or '')}"
        case "stale":
            last = details["last_evaluated"]
            never = "yet" if last == "never" else f"since {moment(last)}"
            return f"no complete evaluation {never}; one is expected every {details['fresh_hours']:g} h"


_DOING = {
    "corpus_version": "scanning the documents",
    "chunk_sample": "choosing passages to ask about",
    "synthetic_qa": "writing questions",
    "validated_benchmark": "checking the questions",
    "retrieval_runs": "retrieving passages",
    "generated_answers": "generating answers",
    "metric_scores": "scoring the answers",
    "evaluation_runs": "summing up",
    "evaluation_report": "writing the report",
}
_WHY = {
    "SettingsError": "a setting is wrong",
    "StoreError": "the document store could not be read",
    "StoreAwayError": "the document store did not answer",
    "EmbeddingError": "the documents' vectors do not fit the embedding model, or it is missing; its log says more",
    "DatabaseError": "the history database could not be used",
    "DatabaseAwayError": "the history database did not answer",
    "InterruptedRunError": "somebody stopped it",
    "LeaseHeldError": "another run was working on this client",
    "DatasetError": "a dataset could not be used",
    "LanguageModelError": "a language model refused, or gave no usable reply",
    "BudgetReachedError": "the budget for language models is spent",
    "RedactionError": "the redaction of texts failed",
}


def plain_reason(incident: Incident) -> str:
    """Why it was opened, in sentences for a page: without ids of runs, and without names of errors or steps.

    Of a regression what changed: its numbers stand beside it.
    """
    details = incident.details
    match incident.kind:
        case "regression":
            said = ", ".join(what_changed([Change(**change) for change in details["changes"]]))
            return f"{capitalised(said or 'nothing that has a version changed')}."
        case "leak":
            return f"It returned {passages_of_others(details['chunks'])}."
        case "errors":
            if details["metrics"]:
                return f"{capitalised(_failed(details, metric_name))}."
            why = f": {in_words(kind)}" if (kind := details.get("reason")) else ""
            return f"{failed_on('The system', details['failed'], details['questions'])}{why}."
        case "failed_run":
            doing = _DOING.get(details["step"], "running") if "step" in details else None
            said = f"The last run failed while {doing}" if doing else "The last run failed before its first step"
            why = "its process died" if details.get("died") else _WHY.get(details.get("error", ""))
            if "check" in details:
                why = f"the check of {details['check'].replace('_', ' ')} did not pass"
            return f"{said}: {why}." if why else f"{said}. Its log says why."
        case "benchmark":
            return f"Rules that do not hold: {broken_rules(details['rules'], lambda rule: rule.replace('_', ' '))}."
        case "lost_evidence":
            return f"{details['lost']}."
        case "judge_drift" | "changed_answers" | "stale":
            return f"{capitalised(reason(incident))}."


def broken_rules(failures: Mapping[str, int], write: Write = one_line) -> str:
    """The rules that a benchmark breaks, with how many items, and what follows."""
    rules = [f"{write(rule)} ({count})" for rule, count in sorted(failures.items()) if count]
    return f"{', '.join(rules) or 'no item is left'}; it is not evaluated until that is fixed"


def moment(at: str) -> str:
    """`2026-11-24 18:22 UTC`, of a time as ISO 8601 has it."""
    return f"{minute(datetime.fromisoformat(at))} UTC"


def mean(value: float | None) -> str:
    """A mean, with three digits."""
    return "?" if value is None else f"{value:.3f}"


def _failed(details: Mapping[str, Any], write: Write) -> str:
    if not details["metrics"]:
        why = f", mostly {write(mostly)}" if (mostly := details.get("reason")) else ""
        return f"{failed_on('the system', details['failed'], details['questions'])}{why}"
    worst = sorted(details["metrics"].items(), key=lambda entry: (-entry[1], entry[0]))
    erring = named([f"{write(metric)} on {count}" for metric, count in worst], MOST_METRICS)
    return f"of {plural(details['questions'], 'question')} these could not be scored: {erring}"


def _against_baseline(details: Mapping[str, Any], write: Write) -> str:
    numbers = [f"{_signed(details['difference'])} over {plural(details['n_shared'], 'shared question')}"]
    if details["ci_low"] is not None and details["ci_high"] is not None:
        numbers.append(f"interval {_signed(details['ci_low'])} to {_signed(details['ci_high'])}")
    others = details["other_metrics"]
    also = f"; also dropped: {named(list(map(write, others)), MOST_METRICS)}" if others else ""
    return f"{mean(details['baseline_mean'])} → {mean(details['mean'])} ({', '.join(numbers)}){also}"


def _signed(value: float | None) -> str:
    return "?" if value is None else f"{value:+z.3f}"
