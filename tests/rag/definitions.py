"""Systems as a rageval.toml defines them, written for a test, and what they say."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rageval_dagster.rag.external import load_external
from rageval_dagster.rag.system import RagSystem, Retrieval
from rageval_dagster.records import Item
from rageval_dagster.settings import Settings, load_settings

NAME = "theirs"


def define(
    folder: Path, variables: Mapping[str, str] | None = None, settings: Mapping[str, Any] | None = None, **fields: Any
) -> Settings:
    """The settings by a rageval.toml in `folder` that defines one system by `fields`."""
    file = folder / "rageval.toml"
    lines = [f"{name} = {_toml(value)}" for name, value in (settings or {}).items()]
    system = [f"{name} = {_toml(value)}" for name, value in fields.items()]
    file.write_text("\n".join(["[defaults]", *lines, f"[defaults.systems.{NAME}]", *system]), encoding="utf-8")
    return load_settings(dict(variables or {}), folder / "no.env", file)


def load(
    folder: Path, variables: Mapping[str, str] | None = None, settings: Mapping[str, Any] | None = None, **fields: Any
) -> RagSystem:
    """The one system of such a rageval.toml, as it serves the client acme."""
    return load_external(NAME, define(folder, variables, settings, **fields), "acme")


def said(retrieval: Retrieval) -> str | None:
    """The answer's text, or the error."""
    return retrieval.error or (retrieval.answer and retrieval.answer.answer and retrieval.answer.answer.text)


def ask(system: RagSystem, *asked: Item | str) -> list[str | None]:
    """What the system says to each item or question."""
    items = [Item(each) if isinstance(each, str) else each for each in asked]
    return [said(retrieval) for retrieval in system.retrieve(items, 10)]


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(name)} = {_toml(entry)}" for name, entry in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value)
