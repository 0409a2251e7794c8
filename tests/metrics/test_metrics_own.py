"""Metrics of the user's own: how they are declared, found and chosen, and what a mistake in them is told."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from metric_samples import TinyEmbedder, make_result, unjudged

from rageval_dagster.errors import SettingsError
from rageval_dagster.metrics.interface import Metric, MetricOptions, Tools
from rageval_dagster.metrics.own import metric
from rageval_dagster.metrics.registry import compute_scores, declared_metrics, metrics_of
from rageval_dagster.records import Outcome
from rageval_dagster.settings import Settings, load_settings

MODULE = """
from rageval_dagster.metrics.own import metric

@metric(
    "acme.politeness",
    needs={"answer"},
    version="1",
    description="Whether the answer says thank you.",
    good_value=0.5,
)
def politeness(results, tools):
    return ["thank" in result.answer.text.lower() for result in results]
"""

ANSWERED = [make_result(answer="Thank you, Paris."), make_result(answer="Paris."), make_result()]


@pytest.fixture(autouse=True)
def _forget_modules() -> Iterator[None]:
    """What a test imports or puts on the path is its own."""
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if name.startswith("acme_"):
            del sys.modules[name]


def settings_of(folder: Path, entries: list[str], module: str = MODULE, name: str = "acme_metrics") -> Settings:
    (folder / f"{name}.py").write_text(module, encoding="utf-8")
    toml = folder / "rageval.toml"
    toml.write_text(f"[defaults]\nmetrics = {json.dumps(entries)}\n", encoding="utf-8")
    return load_settings({}, env_file=folder / "none.env", config_file=toml)


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, target: str, module: str = MODULE) -> None:
    """A package as pip leaves it: its module, and its metadata with the entry point."""
    (folder / "acme_plugin.py").write_text(module, encoding="utf-8")
    info = folder / "acme_plugin-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-plugin\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(f"[rageval_dagster.metrics]\nacme = {target}\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(folder))


def ids(settings: Settings, k: int = 5) -> list[str]:
    return [each.id for each in metrics_of(settings, k, TinyEmbedder())]


BUILT_IN = [each.id for each in unjudged(MetricOptions(5, TinyEmbedder.version))]


def scores(own: Metric, results=ANSWERED) -> list[Outcome]:
    return compute_scores([own], results, Tools())[own.id]


def declared(function, **changes) -> Metric:
    given = {"needs": {"answer"}, "version": "1", "description": "A test."} | changes
    return metric(given.pop("id", "acme.test"), **given)(function)


def test_the_built_in_metrics_and_the_users_own_run_together(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, ["acme_metrics:politeness"])
    assert ids(settings) == [*BUILT_IN, "acme.politeness"]
    own = metrics_of(settings, 5)[-1]
    assert [outcome.value for outcome in scores(own)] == [1.0, 0.0, None]
    assert (own.good_value, own.version, own.family) == (0.5, "1", "acme")


def test_patterns_choose_among_all_and_what_is_named_runs_beside_them(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, ["retrieval.mrr", "lexical.*_match", "acme_metrics:politeness"])
    matches = ["lexical.exact_match", "lexical.number_match", "lexical.answer_match"]
    assert ids(settings) == ["retrieval.mrr", *matches, "acme.politeness"]


@pytest.mark.parametrize("name", ["retrieval.precision_at_k", "retrieval.precision_at_7"])
def test_the_cutoff_is_named_or_left_as_k(tmp_path: Path, name: str) -> None:
    assert ids(settings_of(tmp_path, [name]), k=7) == ["retrieval.precision_at_7"]


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("retrieval.mmr", "did you mean retrieval.mrr"),
        ("retrieval.precision_at_3", "did you mean retrieval.precision_at_k"),
        ("zzz.*", "rageval metrics list"),
        ("Lexical.token_f1", "did you mean lexical.token_f1"),
    ],
)
def test_a_pattern_that_chooses_nothing_is_refused(tmp_path: Path, pattern: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said) as caught:
        ids(settings_of(tmp_path, [pattern]))
    assert str(caught.value).startswith(f"metrics: {pattern!r}")


def test_an_installed_package_offers_its_metrics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, "acme_plugin:politeness")
    settings = load_settings({}, env_file=tmp_path / "none.env")
    assert ids(settings) == [*BUILT_IN, "acme.politeness"]
    assert ids(settings.model_copy(update={"metrics": ("lexical.token_f1",)})) == ["lexical.token_f1"]


def test_an_installed_package_that_is_broken_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, "acme_plugin:rudeness")
    with pytest.raises(SettingsError, match="acme = acme_plugin:rudeness of the package acme-plugin cannot be loaded"):
        ids(load_settings({}, env_file=tmp_path / "none.env"))


@pytest.mark.parametrize(
    ("module", "found"),
    [
        ("several = [politeness]", ["acme.politeness"]),
        ("from dataclasses import replace\ndef several(options):\n"
         "    return [politeness, replace(politeness, id=f'acme.at_{options.k}')]", ["acme.politeness", "acme.at_5"]),
        ("def several(options):\n    return politeness", ["acme.politeness"]),
    ],
)  # fmt: skip
def test_one_name_may_give_several_metrics(tmp_path: Path, module: str, found: list[str]) -> None:
    assert ids(settings_of(tmp_path, ["acme.*", "acme_metrics:several"], MODULE + module)) == found


@pytest.mark.parametrize(
    ("entry", "module", "said"),
    [
        ("acme_metrics:rudeness", MODULE, "acme_metrics has no metric 'rudeness'"),
        ("acme_absent:politeness", MODULE, "there is no module 'acme_absent'"),
        ("acme_metrics:politeness", "1 / 0", r"importing .* fails with ZeroDivisionError at acme_metrics\.py:1$"),
        ("acme_metrics:politeness", "import sys\nsys.exit(0)", "importing acme_metrics fails with SystemExit"),
        ("acme_metrics:politeness", "import os\nos.stat(3.5)", r"fails with TypeError at acme_metrics\.py:2$"),
        ("acme_metrics:politeness", "x = 1\n\ndef f(:\n", r"fails with SyntaxError at acme_metrics\.py:3$"),
        ("acme_metrics:wrong", "wrong = 3", "is int; it takes a Metric"),
        ("acme_metrics:wrong", "def wrong(options): raise SystemExit", r"SystemExit at acme_metrics\.py:1 when"),
        ("acme_metrics:wrong", "def wrong(results, tools): ...", "fails with TypeError .* @metric"),
        ("acme_metrics:wrong", "def wrong(options): return None", "is NoneType; it takes a Metric"),
    ],
)
def test_what_cannot_be_loaded_is_one_clear_line(tmp_path: Path, entry: str, module: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said) as caught:
        ids(settings_of(tmp_path, [entry], module))
    assert str(caught.value).startswith(f"metrics: {entry}")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("id='politeness'", "id of the metric 'politeness' takes family.name"),
        ("id='acme.Politeness'", "takes family.name"),
        ("id='acme.' + 'x' * 96", "100 characters at most"),
        ("id='retrieval.politeness'", "takes a family of your own, not 'retrieval'"),
        ("id='claims.politeness'", "takes a family of your own"),
        ("version=''", "version of the metric 'acme.politeness' takes a text"),
        ("version='x' * 129", "at most 128 characters"),
        ("description=' '", "description"),
        ("needs=frozenset({'answers'})", "needs"),
        ("unanswerable='never'", "unanswerable"),
        ("good_value=70", "good value of the metric 'acme.politeness' takes a number from 0 to 1, not 70"),
    ],
)
def test_a_declaration_that_cannot_be_used_is_refused(tmp_path: Path, change: str, said: str) -> None:
    module = f"{MODULE}\nfrom dataclasses import replace\nwrong = replace(politeness, {change})"
    with pytest.raises(SettingsError, match=said):
        ids(settings_of(tmp_path, ["acme_metrics:wrong"], module))


def test_two_metrics_of_one_id_are_refused(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, ["acme_metrics:twice"], f"{MODULE}\ntwice = [politeness, politeness]")
    with pytest.raises(SettingsError, match=r"2 metrics 'acme\.politeness'"):
        ids(settings)


def test_the_version_is_the_users_and_holds_the_model_where_it_is_used(tmp_path: Path) -> None:
    module = MODULE.replace('needs={"answer"}', 'needs={"answer", "embedder"}')
    settings = settings_of(tmp_path, ["acme.*", "acme_metrics:politeness"], module)
    assert [each.version for each in metrics_of(settings, 5, TinyEmbedder())] == ["1;model=tiny@1"]
    assert metrics_of(settings, 5) == [], "without an embedder it is not run"
    assert declared_metrics(settings, MetricOptions(5))[-1].id == "acme.politeness"


def test_the_function_sees_only_what_the_metric_applies_to() -> None:
    seen = []

    def function(results, _tools):
        seen.extend(results)
        return [1.0 for _ in results]

    results = [*ANSWERED, make_result(answer="x", error="TimeoutError"), make_result(answer="x", answerable=False)]
    found = scores(declared(function, unanswerable="undefined"), results)
    assert seen == results[:2]
    assert [outcome.status for outcome in found] == ["scored", "scored", "undefined", "error", "undefined"]


@pytest.mark.parametrize(
    ("value", "status", "said"),
    [
        (True, "scored", 1.0),
        (0, "scored", 0.0),
        (0.25, "scored", 0.25),
        (np.float32(0.5), "scored", 0.5),
        (np.bool_(True), "scored", 1.0),
        (Outcome.undefined("no claims"), "undefined", "no claims"),
        (None, "undefined", "acme.test has no value"),
        (float("nan"), "error", "acme.test gave nan"),
        (float("inf"), "error", "acme.test gave inf"),
        (1.0001, "error", "acme.test gave 1.0001, not a number from 0 to 1"),
        (-1, "error", "acme.test gave -1"),
        ("0.5", "error", "acme.test gave str, not a number"),
        ([0.5], "error", "acme.test gave list"),
        (np.array([0.5]), "error", "acme.test gave ndarray"),
        (np.array(0.5), "scored", 0.5),
        pytest.param(10**400, "error", "acme.test gave inf", id="huge"),
        (Outcome.scored(0.5, {"share": 0.5}), "scored", 0.5),
        (Outcome("scored", np.float32(0.5)), "scored", 0.5),  # pyright: ignore[reportArgumentType]
        (Outcome.scored(0.5, {"share": np.float32(0.5)}), "error", "acme.test gave a detail that is no JSON object"),
        (Outcome.scored(0.5, {"share": float("nan")}), "error", "acme.test gave a detail"),
        (Outcome.scored(0.5, [0.5]), "error", "acme.test gave a detail"),  # pyright: ignore[reportArgumentType]
        (Outcome.error(5), "error", "acme.test gave int as a reason"),  # pyright: ignore[reportArgumentType]
        (Outcome("skipped"), "error", "acme.test gave an outcome that is none of"),  # pyright: ignore[reportArgumentType]
    ],
)
def test_what_a_function_gives_becomes_an_outcome(value: object, status: str, said: object) -> None:
    outcome = scores(declared(lambda results, _tools: [value for _ in results]))[0]
    assert outcome.status == status
    assert outcome.value == said if status == "scored" else str(said) in str(outcome.reason)
    assert outcome.value is None or type(outcome.value) is float


@pytest.mark.parametrize("given_values", [[], [0.5], [0.5] * 3, iter([0.5] * 5)])
def test_a_wrong_number_of_values_is_an_error_of_all(given_values: object) -> None:
    found = scores(declared(lambda _results, _tools: given_values))
    assert [outcome.status for outcome in found] == ["error", "error", "undefined"]
    assert "values for 2 results" in str(found[0].reason)


@pytest.mark.parametrize(
    "function",
    [lambda _results, _tools: 1 / 0, lambda _results, _tools: None, lambda: [], lambda _results, _tools: sys.exit(0)],
)
def test_a_function_that_fails_is_an_error_of_all_and_the_others_go_on(function: object) -> None:
    good = declared(lambda results, _tools: [0.5 for _ in results], id="acme.good")
    columns = compute_scores([declared(function), good], ANSWERED, Tools())
    assert [outcome.status for outcome in columns["acme.test"]] == ["error", "error", "undefined"]
    assert [outcome.value for outcome in columns["acme.good"]] == [0.5, 0.5, None]


FAILING = """
import json
from rageval_dagster.metrics.own import metric

@metric("acme.failing", needs={"answer"}, version="1", description="Fails.")
def failing(results, tools):
    return [%s for result in results]

def score_of(text):
    raise ValueError(text)
"""


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("1 / 0", "ZeroDivisionError at acme_metrics.py:7"),
        ("score_of(result.answer.text)", "ValueError at acme_metrics.py:10"),
        ("json.loads(result.answer.text)", "JSONDecodeError at acme_metrics.py:7"),
        ("tools.embed([result.answer.text])", "LookupError at acme_metrics.py:7"),
        ("__import__('ast').literal_eval(result.answer.text)", "SyntaxError at acme_metrics.py:7"),
        ("__import__('numpy').linalg.inv([[0.0]])", "LinAlgError at acme_metrics.py:7"),
    ],
)
def test_a_failing_function_is_told_by_class_and_line_without_its_message(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, expression: str, reason: str
) -> None:
    settings = settings_of(tmp_path, ["acme.*", "acme_metrics:failing"], FAILING % expression)
    found = compute_scores(metrics_of(settings, 5), ANSWERED, Tools())["acme.failing"]
    assert [outcome.reason for outcome in found[:2]] == [reason] * 2
    assert reason in caplog.text
    assert "Paris" not in caplog.text


@given(st.lists(st.one_of(st.none(), st.booleans(), st.floats(), st.integers(), st.text(), st.binary()), max_size=5))
def test_whatever_a_function_gives_every_result_has_one_outcome(values: list[object]) -> None:
    found = scores(declared(lambda _results, _tools: values), [make_result(answer="x")] * 3)
    assert len(found) == 3
    assert len(values) == 3 or {outcome.status for outcome in found} == {"error"}
