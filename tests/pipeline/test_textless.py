"""What fails unexpectedly tells Dagster its class and place, never the words of its message."""

from collections.abc import Sequence

import dagster as dg
import pytest

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


def test_a_failing_sensor_leaves_no_text(loaded: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ValueError(CANARY)

    monkeypatch.setattr("rageval_dagster.corpus.watching.probe_clients", broken)
    with dg.DagsterInstance.get() as instance, pytest.raises(Exception, match="unexpected ValueError") as raised:
        tick(instance)
    assert CANARY not in str(raised.value)
    assert raised.value.__suppress_context__
