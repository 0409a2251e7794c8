"""docs/metrics.md: as the metrics declare themselves, and its example works as it stands."""

import re
import sys
from pathlib import Path

import pytest

from rageval_dagster.metrics.interface import MetricOptions
from rageval_dagster.metrics.registry import Tools, all_metrics, compute_scores, metrics_of
from rageval_dagster.records import Answer, Item, Result
from rageval_dagster.settings import load_settings
from scripts.metrics_docs import PAGE, built_in_page

TEXT = (Path(__file__).parents[2] / PAGE).read_text(encoding="utf-8")


def test_the_page_is_not_stale() -> None:
    assert built_in_page() == TEXT, "make docs writes it anew"


def test_every_metric_has_a_section_whatever_its_cutoff() -> None:
    sections = re.findall(r"^### (\S+)$", TEXT, flags=re.MULTILINE)
    ids = [metric.id for metric in all_metrics(MetricOptions(7, "model"))]
    assert [name.replace("_at_k", "_at_7") for name in sections] == ids


def test_the_example_of_an_own_metric_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [module] = re.findall(r"```python\n(.*?)```", TEXT, flags=re.DOTALL)
    toml = re.findall(r"```toml\n(.*?)```", TEXT, flags=re.DOTALL)[0]
    (tmp_path / "acme_metrics.py").write_text(module, encoding="utf-8")
    (tmp_path / "rageval.toml").write_text(toml, encoding="utf-8")
    monkeypatch.setattr(sys, "path", list(sys.path))
    settings = load_settings({}, tmp_path / "none.env", tmp_path / "rageval.toml")
    try:
        metrics = metrics_of(settings, 5)
        own = metrics[-1]
        thanked = Result(Item("Who?"), None, None, (), 5, answer=Answer("Thank you!"))
        assert own.id == "acme.politeness"
        assert {metric.family for metric in metrics} == {"retrieval", "overlap", "acme"}
        assert compute_scores([own], [thanked], Tools())[own.id][0].value == 1.0
    finally:
        sys.modules.pop("acme_metrics", None)
