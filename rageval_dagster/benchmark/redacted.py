"""Items of the user's files as they may be stored: their texts redacted."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rageval_dagster.benchmark.formats.rows import ReadReport, without_repetition
from rageval_dagster.records import Item
from rageval_dagster.redaction import Redactor

_NO_TEXTS = ("name", "kind")
"""Fields of a check that say what it is."""


def redacted_item(item: Item, redactor: Redactor) -> Item:
    """The item with question, answers, quotes, history, principal and checks redacted; ids and category stay.

    Raises:
        RedactionError: the user's own redaction failed.
    """
    if redactor.version is None:
        return item
    return replace(
        item,
        question=redactor.redact(item.question),
        answers=tuple(redactor.redact(answer) for answer in item.answers),
        evidence=tuple(
            replace(each, quote=None if each.quote is None else redactor.redact(each.quote)) for each in item.evidence
        ),
        history=tuple({**turn, "content": redactor.redact(turn["content"])} for turn in item.history),
        principal=_redacted(item.principal, redactor),
        checks=tuple(
            {key: value if key in _NO_TEXTS else _redacted(value, redactor) for key, value in check.items()}
            for check in item.checks
        ),
    )


def redacted_report(report: ReadReport, file: str, redactor: Redactor) -> ReadReport:
    """What was read of a file, redacted; rows that became alike are refused but for the first."""
    if redactor.version is None:
        return report
    refused = list(report.refused)
    redacted = [(number, item, redacted_item(item, redactor)) for number, item in report.rows]
    return replace(
        report,
        rows=without_repetition([(number, item) for number, _, item in redacted], file, refused),
        refused=refused,
        chunk_ids={
            after.item_id: report.chunk_ids[before.item_id]
            for _, before, after in redacted
            if before.item_id in report.chunk_ids
        },
    )


def _redacted(value: Any, redactor: Redactor) -> Any:
    """A JSON value with every text in it redacted; the names of fields stay."""
    if isinstance(value, str):
        return redactor.redact(value)
    if isinstance(value, Mapping):
        return {key: _redacted(part, redactor) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_redacted(part, redactor) for part in value]
    return value
