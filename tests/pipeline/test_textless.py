"""What fails unexpectedly tells Dagster its class and place, never the words of its message."""

from collections.abc import Sequence

import dagster as dg
import pytest

from rageval_dagster.resources.textless import textless_errors
from tests.pipeline.looks import tick
from tests.pipeline.small_project import CANARY, Project, holding


def test_an_unexpected_failure_leaves_no_text_in_dagster(loaded: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(chunks: Sequence[object], *_: object, **__: object) -> None:
        try:
            int(str(chunks))
        except ValueError as error:
            raise KeyError(str(chunks)) from error

    monkeypatch.setattr("rageval_dagster.benchmark.by_rule.generator.generate", broken)
    launched = loaded.evaluate("acme", "command:one")
    assert launched.failed_step == "synthetic_qa"
    assert "unexpected KeyError at " in (launched.message or "")
    assert "broken" in (launched.message or "")
    assert holding(CANARY, loaded.settings.dagster_home) == []


def test_a_failing_scan_and_a_failing_sensor_leave_no_text(loaded: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ValueError(CANARY)

    monkeypatch.setattr("rageval_dagster.evaluation.changes.scan_corpus", broken)
    assert CANARY not in (loaded.evaluate("acme", "command:one").message or "")
    assert holding(CANARY, loaded.settings.dagster_home) == []
    monkeypatch.setattr("rageval_dagster.corpus.watching.look_around", broken)
    with dg.DagsterInstance.get() as instance, pytest.raises(Exception, match="unexpected ValueError") as raised:
        tick(instance)
    assert CANARY not in str(raised.value)
    assert raised.value.__suppress_context__


def test_who_opts_in_gets_the_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGEVAL_TEXT_IN_DAGSTER", "true")
    with pytest.raises(ValueError, match="the text"), textless_errors():
        raise ValueError("the text")
