"""Request templates: which `{placeholders}` a string may hold, and what becomes of them."""

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import quote

PLACEHOLDERS = ("question", "k", "history", "principal", "client")
OF_PRINCIPAL = "principal."
OF_PARAMETERS = "param."

_PART = re.compile(r"\{\{|\}\}|\{[^{}]*\}|[{}]|[^{}]+")


class _Placeholder(NamedTuple):
    name: str


def checked_template(template: Any) -> Any:
    """The template; ValueError for a placeholder that there is not, or a lone brace, at any depth."""
    if isinstance(template, str):
        _parts(template)
    elif isinstance(template, Mapping | list):
        for value in template.values() if isinstance(template, Mapping) else template:
            checked_template(value)
    return template


def named_parameters(template: Any) -> set[str]:
    """The names of the system's own parameters that a checked template has, at any depth."""
    if isinstance(template, str):
        names = {part.name for part in _parts(template) if isinstance(part, _Placeholder)}
        return {name.removeprefix(OF_PARAMETERS) for name in names if name.startswith(OF_PARAMETERS)}
    inner = template.values() if isinstance(template, Mapping) else template if isinstance(template, list) else ()
    return set[str]().union(*map(named_parameters, inner))


def fill(template: Any, values: Mapping[str, Any]) -> Any:
    """The template with its placeholders replaced by `values`, where those of the principal stand as `principal.NAME`,
    and the system's own parameters as `param.NAME`.

    A string that is nothing but a placeholder becomes the value itself. What has no value is left out of its object or
    list, and nothing is put for it in a longer string.
    """
    if isinstance(template, str):
        parts = _parts(template)
        alone = parts[0] if len(parts) == 1 else None
        return values.get(alone.name) if isinstance(alone, _Placeholder) else _joined(parts, values)
    if isinstance(template, Mapping):
        filled = {key: fill(value, values) for key, value in template.items()}
        return {key: value for key, value in filled.items() if value is not None}
    if isinstance(template, list):
        return [value for value in (fill(each, values) for each in template) if value is not None]
    return template


def fill_url(template: str, values: Mapping[str, Any]) -> str:
    """The URL with its placeholders replaced, percent-encoded.

    Raises:
        ValueError: a value cannot stand in a URL.
    """
    parts = _parts(template)
    named = {part.name for part in parts if isinstance(part, _Placeholder)}
    encoded = {name: quote(spoken(values.get(name)), safe="") for name in named}
    if not {".", ".."}.isdisjoint(encoded.values()):
        raise ValueError("a value that means another folder")
    return _joined(parts, encoded)


def spoken(value: Any) -> str:
    """A value inside a text: texts as they are, nothing for None, JSON for all else."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _joined(parts: "list[str | _Placeholder]", values: Mapping[str, Any]) -> str:
    return "".join(part if isinstance(part, str) else spoken(values.get(part.name)) for part in parts)


def _parts(text: str) -> "list[str | _Placeholder]":
    parts: list[str | _Placeholder] = []
    for part in _PART.findall(text):
        if part in ("{{", "}}"):
            parts.append(part[0])
        elif part in ("{", "}"):
            raise ValueError("placeholders such as {question}; a brace that is none is doubled: {{ or }}")
        elif part[0] == "{":
            parts.append(_placeholder(part[1:-1]))
        else:
            parts.append(part)
    return parts


def _placeholder(name: str) -> _Placeholder:
    if name not in PLACEHOLDERS and not any(name.startswith(of) and name != of for of in (OF_PRINCIPAL, OF_PARAMETERS)):
        names = (*PLACEHOLDERS, f"{OF_PRINCIPAL}NAME", f"{OF_PARAMETERS}NAME")
        known = ", ".join(f"{{{each}}}" for each in names)
        raise ValueError(
            f"the placeholders {known}, not {{{name[:40]}}}; a brace that is none is doubled: {{{{ or }}}}"
        )
    return _Placeholder(name)
