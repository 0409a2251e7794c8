"""The configurations that a search may choose from."""

import json
import math
import random
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from rageval_dagster.errors import SettingsError

LARGEST = 1000
"""Of a larger space a seeded sample of so many configurations is searched."""
_ABSENT = object()
_SHORT = 16
"""So many characters are shown of each end of a long value."""

Configuration = dict[str, Any]
Space = Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Any]]
"""The values of each parameter, of which every combination is meant, or a list of configurations."""


@dataclass(frozen=True)
class Configurations:
    """All of a space: `levels` has a row for each configuration, the number of its value of each parameter.

    `sizes` is how many values each parameter has. Those of an `ordered` one are numbers, in ascending order.
    """

    all: list[Configuration]
    levels: list[tuple[int, ...]]
    sizes: tuple[int, ...]
    ordered: tuple[bool, ...]


def configurations_of(space: Space, seed: int) -> Configurations:
    """The space's configurations in its own order, at most `LARGEST`.

    A parameter that some of a list's configurations lack has their lack as one more value.

    Raises SettingsError for an empty space, a parameter without values, and values or configurations given twice.
    """
    if isinstance(space, Mapping):
        found = _combinations(space, seed)
    else:
        if isinstance(space, str) or not isinstance(space, Sequence) or not all(isinstance(e, Mapping) for e in space):
            raise SettingsError(
                "the space is the values of each parameter, as in {'k': [3, 5]}, or a list of configurations, as in "
                f"[{{'k': 3}}, {{'k': 5}}], not {space!r:.60}"
            )
        found = [dict(each) for each in space]
        if len(found) > LARGEST:
            found = [found[place] for place in sorted(random.Random(seed).sample(range(len(found)), LARGEST))]  # noqa: S311
    if not found:
        raise SettingsError("the space holds no configuration; give each parameter at least one value")
    names = list(dict.fromkeys(name for each in found for name in each))
    columns = [_levels([each.get(name, _ABSENT) for each in found]) for name in names]
    levels = list(zip(*(column for column, _, _ in columns), strict=True)) if names else [()] * len(found)
    if len(set(levels)) < len(levels):
        twice = next(each for row, each in zip(levels, found, strict=True) if levels.count(row) > 1)
        raise SettingsError(f"the space holds the configuration {twice!r} twice; leave one of them out")
    return Configurations(
        found, levels, tuple(size for _, size, _ in columns), tuple(ordered for _, _, ordered in columns)
    )


def _combinations(space: Mapping[str, Sequence[Any]], seed: int) -> list[Configuration]:
    for name, values in space.items():
        if isinstance(values, str) or not isinstance(values, Sequence) or not values:
            raise SettingsError(f"the parameter {name} needs a list of at least one value, not {values!r}")
        for place, value in enumerate(values):
            if any(_equal(value, other) for other in values[:place]):
                raise SettingsError(f"the parameter {name} has the value {value!r} twice; leave one of them out")
    if not space:
        return []
    total = math.prod(len(values) for values in space.values())
    if total <= LARGEST:
        return [dict(zip(space, values, strict=True)) for values in product(*space.values())]
    found = []
    for number in _sample(total, seed):
        left, chosen = number, {}
        for name, values in space.items():
            left, place = divmod(left, len(values))
            chosen[name] = values[place]
        found.append(chosen)
    return found


def _sample(total: int, seed: int) -> list[int]:
    """`LARGEST` different numbers below `total`, in ascending order."""
    drawing = random.Random(seed)  # noqa: S311
    if total <= sys.maxsize:
        return sorted(drawing.sample(range(total), LARGEST))
    found = set[int]()
    while len(found) < LARGEST:
        found.add(drawing.randrange(total))
    return sorted(found)


def _levels(values: Sequence[Any]) -> tuple[list[int], int, bool]:
    """The number of each value among the distinct ones, how many these are, and whether they are ordered numbers."""
    distinct: list[Any] = []
    for value in values:
        if not any(_equal(value, other) for other in distinct):
            distinct.append(value)
    ordered = all(isinstance(value, int | float) and not isinstance(value, bool) for value in distinct)
    if ordered:
        distinct.sort()
    numbers = [next(n for n, other in enumerate(distinct) if _equal(value, other)) for value in values]
    return numbers, len(distinct), ordered


def _equal(one: Any, other: Any) -> bool:
    """1 and True are two values, and so are 1 and 1.0."""
    if one is other or type(one) is not type(other):
        return one is other
    try:
        return bool(one == other)
    except ValueError:  # arrays
        return repr(one) == repr(other)


def named(configuration: Mapping[str, Any]) -> str:
    """`chunk_size = 400, retriever = "bm25"`: a configuration in a line."""
    values = {name: json.dumps(value, ensure_ascii=False, default=str) for name, value in configuration.items()}
    return ", ".join(f"{name} = {value}" for name, value in values.items())


def with_short_values(configuration: Mapping[str, Any]) -> Configuration:
    """The same with the middle of long texts left out, such as of prompts and paths: for lists, and for Dagster."""
    return {
        name: f"{value[:_SHORT]}…{value[-_SHORT:]}" if isinstance(value, str) and len(value) > 2 * _SHORT else value
        for name, value in configuration.items()
    }
