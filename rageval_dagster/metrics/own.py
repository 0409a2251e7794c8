"""Metrics of the user's own: declared with `@metric`, named in the settings or installed as entry points."""

import json
import math
import re
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from numbers import Real
from typing import Any, get_args

from rageval_dagster.errors import SettingsError, class_and_place
from rageval_dagster.functions import load_object
from rageval_dagster.metrics.interface import Metric, MetricOptions, Need, Rows, Tools, Unanswerable
from rageval_dagster.records import Outcome, OutcomeStatus, Result
from rageval_dagster.settings import Settings

GROUP = "rageval_dagster.metrics"
"""The entry point group: what an installed package names there is a metric of every client."""

ID_LENGTH = 100
VERSION_LENGTH = 128
"""What the history has room for, in characters."""

Value = Outcome | float | None
"""What a user's function gives for a result: a number in [0, 1] (or true, false), None for undefined, an Outcome."""

Function = Callable[[Sequence[Result], Tools], Sequence[Value]]

_ID = re.compile(r"[a-z][a-z0-9_]*\.[a-z][a-z0-9_]*")


def metric(
    id: str,
    *,
    version: str,
    description: str,
    needs: Collection[Need] = (),
    unanswerable: Unanswerable = "if_answered",
    edge_cases: str = "",
    source: str = "own",
    higher_is_better: bool = True,
    good_value: float | None = None,
) -> Callable[[Function], Metric]:
    """Makes a metric of a function that takes a batch of results and the tools, and gives one value a result.

    A number in [0, 1] (or True, False) is a score, None is undefined, an `Outcome` stands as it is (its detail takes
    what JSON does). Anything else is an error for that result; an exception, or a wrong number of values, for all of
    them. The function only gets results that the metric applies to: `needs={"answer"}` means that each has an answer,
    and so on.

    `version` is the user's to change, whenever the number for the same result may change: scores that are stored under
    a version are not computed again. (A metric that needs the embedder has the model in its version by itself.)
    Mistakes in the declaration are said when the metric is loaded.
    """

    def declared(function: Function) -> Metric:
        def score(results: Sequence[Result], tools: Tools) -> Rows:
            barred = made.barred(results, tools)
            # The batch itself where all of it applies: what the tools keep for a batch is then kept.
            applicable = results if not any(barred) else [r for r, out in zip(results, barred, strict=True) if not out]
            values = _values(id, function(applicable, tools), len(applicable)) if applicable else []
            remaining = iter(values)
            return [{made.name: None if out else next(remaining)} for out in barred]

        made = Metric(
            id=id,
            version=version,
            score=score,
            needs=frozenset(needs),
            unanswerable=unanswerable,
            description=description,
            edge_cases=edge_cases,
            source=source,
            higher_is_better=higher_is_better,
            good_value=good_value,
        )
        return made

    return declared


def installed_metrics(options: MetricOptions, built_in: Collection[str]) -> list[Metric]:
    """The metrics that installed packages offer; `built_in` are the families that they may not join.

    Raises:
        SettingsError: one cannot be loaded, or is not declared as it must be.
    """
    found: list[Metric] = []
    for point in _offered(tuple(sys.path)):
        package = f" of the package {point.dist.name}" if point.dist is not None else ""
        where = f"the entry point {point.name} = {point.value}{package}"
        try:
            loaded = point.load()
        except (Exception, SystemExit) as error:  # noqa: BLE001  (whatever the user's module does when it is imported)
            raise SettingsError(
                f"{where} cannot be loaded ({class_and_place(error)}): mend or uninstall the package"
            ) from None
        found += _metrics(where, loaded, options, built_in)
    return found


@lru_cache(maxsize=1)
def _offered(_path: tuple[str, ...]) -> list[EntryPoint]:
    """What the packages on the path offer: finding it out reads a file of each package."""
    return sorted(entry_points(group=GROUP), key=lambda point: (point.name, point.value))


def named_metrics(settings: Settings, options: MetricOptions, built_in: Collection[str]) -> list[Metric]:
    """The metrics that the setting `metrics` names as package.module:name.

    Raises:
        SettingsError: one cannot be loaded, or is not declared as it must be.
    """
    found: list[Metric] = []
    for name in dict.fromkeys(name for name in settings.metrics if is_own(name)):
        try:
            loaded = load_object(name, settings.path("."), "metric", lambda value: value is not None)
        except SettingsError as error:
            raise SettingsError(f"metrics: {error}") from None
        found += _metrics(f"metrics: {name}", loaded, options, built_in)
    return found


def is_own(entry: str) -> bool:
    """Whether an entry of the setting `metrics` names the user's own; all others are patterns of ids."""
    return ":" in entry


def _values(metric_id: str, given: Iterable[Any], count: int) -> list[Outcome]:
    values = list(given)
    if len(values) != count:
        return [Outcome.error(f"{metric_id} gave {len(values)} values for {count} results")] * count
    return [_outcome(metric_id, value) for value in values]


def _outcome(metric_id: str, value: Any) -> Outcome:
    if isinstance(value, Outcome):
        return _usable(metric_id, value)
    if value is None:
        return Outcome.undefined(f"{metric_id} has no value")
    if getattr(value, "ndim", None) == 0:  # a scalar of numpy or torch
        value = value.item()
    if not isinstance(value, Real):
        return Outcome.error(f"{metric_id} gave {type(value).__name__}, not a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    # Written so that NaN fails it too.
    if not 0.0 <= number <= 1.0:
        return Outcome.error(f"{metric_id} gave {number:g}, not a number from 0 to 1")
    return Outcome.scored(number)


def _usable(metric_id: str, outcome: Outcome) -> Outcome:
    """The outcome in plain Python values, or an error where the history could not hold or count it."""
    if outcome.status not in get_args(OutcomeStatus):
        return Outcome.error(f"{metric_id} gave an outcome that is none of {', '.join(get_args(OutcomeStatus))}")
    if outcome.reason is not None and not isinstance(outcome.reason, str):
        return Outcome.error(f"{metric_id} gave {type(outcome.reason).__name__} as a reason, not a text")
    try:
        detail = None if outcome.detail is None else json.loads(json.dumps(dict(outcome.detail), allow_nan=False))
    except (TypeError, ValueError, RecursionError):
        return Outcome.error(f"{metric_id} gave a detail that is no JSON object")
    return replace(outcome, value=None if outcome.value is None else float(outcome.value), detail=detail)


def _metrics(where: str, loaded: Any, options: MetricOptions, built_in: Collection[str]) -> list[Metric]:
    """What was loaded as a list: it is a metric, several of them, or a function that makes these of the options."""
    if callable(loaded):
        try:
            loaded = loaded(options)
        except (Exception, SystemExit) as error:  # noqa: BLE001  (whatever the user's function does)
            raise SettingsError(
                f"{where} fails with {class_and_place(error)} when it is given the metric options; a function that "
                "scores results is made a metric by @metric"
            ) from None
    several = [loaded] if isinstance(loaded, Metric) else loaded
    if not isinstance(several, list | tuple) or not all(isinstance(each, Metric) for each in several):
        raise SettingsError(f"{where} is {type(loaded).__name__}; it takes a Metric, or a list of them")
    return [_checked(where, each, options, built_in) for each in several]


def _checked(where: str, own: Metric, options: MetricOptions, built_in: Collection[str]) -> Metric:
    def refuse(field: str, takes: str, value: Any) -> None:
        raise SettingsError(f"{where}: the {field} of the metric {own.id!r} takes {takes}, not {value!r}")

    if not isinstance(own.id, str) or not _ID.fullmatch(own.id) or len(own.id) > ID_LENGTH:
        takes = f"family.name, each of a-z, 0-9 and _ after a letter, {ID_LENGTH} characters at most"
        refuse("id", takes, own.id)
    if own.family in built_in:
        refuse("id", "a family of your own", own.family)
    for field in ("version", "description"):
        if not isinstance(getattr(own, field), str) or not getattr(own, field).strip():
            refuse(field, "a text", getattr(own, field))
    for field in ("edge_cases", "source"):
        if not isinstance(getattr(own, field), str):
            refuse(field, "a text", getattr(own, field))
    if not isinstance(own.needs, frozenset) or own.needs - set(get_args(Need)):
        refuse("needs", f"a frozenset of {', '.join(get_args(Need))}", own.needs)
    if own.unanswerable not in get_args(Unanswerable):
        refuse("unanswerable", ", ".join(get_args(Unanswerable)), own.unanswerable)
    if own.good_value is not None and not (isinstance(own.good_value, Real) and 0.0 <= own.good_value <= 1.0):
        refuse("good value", "a number from 0 to 1", own.good_value)
    model = options.embedder_version
    if "embedder" in own.needs and model is not None and model not in own.version:
        own = replace(own, version=f"{own.version};model={model}")
    if len(own.version) > VERSION_LENGTH:
        refuse("version", f"at most {VERSION_LENGTH} characters, the embedding model's version among them", own.version)
    return own
