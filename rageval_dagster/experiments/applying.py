"""From a configuration to the client's settings: as lines of rageval.toml, and written into it."""

import json
import os
import re
import shlex
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rageval_dagster.errors import SettingsError
from rageval_dagster.experiments.definition import CHUNK_OVERLAP, CHUNK_SIZE, CHUNKING, Configuration, Definition
from rageval_dagster.settings import Settings

_SETTING_OF = {
    "retriever": "system",
    "number_of_chunks": "k",
    "dense_share": "dense_share",
    "reranker": "reranker",
    "embedding_model": "embedding_model",
    "answer_model": "answer_model",
    "prompt": "prompts",
}
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_BOM = "\ufeff"
_BY_HAND = "change it yourself, with the lines that `rageval experiment apply` prints without --write"

Tables = dict[tuple[str, ...], dict[str, Any]]
"""Settings by the path of their table in rageval.toml."""


def settings_for(definition: Definition, settings: Settings, configuration: Configuration) -> Tables:
    """What rageval.toml has to say for a client's evaluations to run with a configuration."""
    client = ("clients", definition.client)
    own: dict[str, Any] = {}
    params: dict[str, Any] = {}
    for name, value in configuration.items():
        if definition.system and name != "number_of_chunks":
            params[name] = value
        elif name == "prompt":
            own["prompts"] = _relative(Path(str(value)), settings.source.config_file.parent)
        elif name in _SETTING_OF:
            own[_SETTING_OF[name]] = value
    tables: Tables = {client: own} if own else {}
    if params:
        tables[*client, "systems", definition.system, "params"] = params
    return tables


def command_for(definition: Definition, configuration: Configuration) -> str | None:
    """The command that cuts the documents as a configuration has them; None where they stay as they are."""
    cuts = any(name in configuration for name in CHUNKING)
    if not cuts and "embedding_model" not in configuration:
        return None
    path = "PATH" if definition.documents is None else shlex.quote(definition.documents)
    parts = [f"rageval ingest {path} --client {shlex.quote(definition.client)}"]
    if cuts:
        size = configuration.get("chunk_size", CHUNK_SIZE)
        overlap = configuration.get("chunk_overlap", CHUNK_OVERLAP) if size else 0
        parts.append(f"--chunk-size {size} --overlap {overlap}")
    if "embedding_model" in configuration:
        parts.append("--embed-again")
    return " ".join(parts)


def lines_of(tables: Tables) -> str:
    """The tables as TOML."""
    return "\n".join(
        line
        for path, values in tables.items()
        for line in [_header(path), *(f"{_key(name)} = {_value(value)}" for name, value in values.items()), ""]
    ).rstrip()


def write_into(file: Path, tables: Tables) -> None:
    """Sets the values in a rageval.toml, whose other lines and comments stay as they are; makes it where there is none.

    Raises:
        SettingsError: the file has them in a form that is not safe to change line by line, or cannot be written; it is
            left as it was.
    """
    here = file.resolve()  # a link stays one
    exists = here.exists()
    try:
        if exists and not here.stat().st_mode & 0o222:
            raise SettingsError(f"{file} is read-only: make it writable, or {_BY_HAND}")
        before = here.read_bytes().decode() if exists else ""
        wanted, text = tomllib.loads(before.removeprefix(_BOM).replace("\r\n", "\n")), before
        for path, values in tables.items():
            text = _with(text, path, values)
            _table_of(wanted, path).update(values)
        written = tomllib.loads(text.removeprefix(_BOM).replace("\r\n", "\n"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, TypeError):
        wanted, written, text = None, {}, ""
    except OSError as error:
        raise SettingsError(f"{file} cannot be read ({error.strerror})") from None
    if written != wanted:
        raise SettingsError(
            f"{file}: it has {_header(next(iter(tables)))} in a form that cannot be changed safely: {_BY_HAND}"
        )
    draft = here.with_name(f".{here.name}.{os.getpid()}")
    try:
        draft.write_bytes(text.encode())
        if exists:
            draft.chmod(here.stat().st_mode)
        draft.replace(here)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise SettingsError(f"{file} cannot be written ({error.strerror}): {_BY_HAND}") from None


def _table_of(tables: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    """The table of that path, made where there is none; raises TypeError where something else stands there."""
    for name in path:
        tables = tables.setdefault(name, {})
        if not isinstance(tables, dict):
            raise TypeError(name)
    return tables


def _with(text: str, path: tuple[str, ...], values: Mapping[str, Any]) -> str:
    """The text with the values in the table of that path, which is added at the end where there is none."""
    newline = "\r\n" if "\r\n" in text else "\n"
    # Not splitlines: TOML has a line end after `\n` only, and comments may hold the others.
    lines = text.removesuffix("\n").replace("\r\n", "\n").removesuffix("\r").split("\n") if text else []
    start = next((row for row, line in enumerate(lines) if _path_of(line.removeprefix(_BOM)) == path), None)
    if start is None and (row := _inline_row(lines, path)) is not None:
        inline = {**tomllib.loads(lines[row])[path[-1]], **values}
        said = ", ".join(f"{_key(name)} = {_value(value)}" for name, value in inline.items())
        lines[row] = f"{_key(path[-1])} = {{ {said} }}{_comment_of(lines[row])}"
        return newline.join([*lines, ""])
    if start is None:
        gap = [""] if lines and lines[-1].strip() else []
        return newline.join([*lines, *gap, *lines_of({path: dict(values)}).split("\n"), ""])
    end = _end_of(lines, start)
    for name, value in values.items():
        row = _row_of(lines, name, start, end)
        said = f"{_key(name)} = {_value(value)}"
        if row is None:
            lines.insert(start + 1, said)
            end += 1
        else:
            lines[row] = said + _comment_of(lines[row])
    return newline.join([*lines, ""])


def _end_of(lines: Sequence[str], start: int) -> int:
    return next((row for row in range(start + 1, len(lines)) if lines[row].lstrip().startswith("[")), len(lines))


def _row_of(lines: Sequence[str], name: str, start: int, end: int) -> int | None:
    """The row that sets a name in the table whose header is at `start`."""
    assignment = re.compile(rf"\s*(?:{re.escape(name)}|\"{re.escape(name)}\"|'{re.escape(name)}')\s*=")
    return next((row for row in range(start + 1, end) if assignment.match(lines[row])), None)


def _inline_row(lines: Sequence[str], path: tuple[str, ...]) -> int | None:
    """The row that has the table of that path between braces, as `params = { k = 3 }`; None where there is none."""
    parent = next((row for row, line in enumerate(lines) if _path_of(line.removeprefix(_BOM)) == path[:-1]), None)
    row = None if parent is None else _row_of(lines, path[-1], parent, _end_of(lines, parent))
    try:
        [(_, found)] = tomllib.loads("" if row is None else lines[row]).items()
    except (tomllib.TOMLDecodeError, ValueError):
        return None
    is_plain = isinstance(found, dict) and all(isinstance(each, str | int | float) for each in found.values())
    return row if is_plain else None


def _comment_of(line: str) -> str:
    """The comment at the end of a line that sets one value, with the blanks before it."""
    for found in re.finditer(r"\s*#", line):
        try:
            tomllib.loads(line[: found.start()])
        except tomllib.TOMLDecodeError:
            continue  # it stands in a text
        return line[found.start() :]
    return ""


def _path_of(line: str) -> tuple[str, ...] | None:
    """The path that a line is the header of; None where it is none."""
    if not line.lstrip().startswith("[") or line.lstrip().startswith("[["):
        return None
    try:
        found: Any = tomllib.loads(line)
    except tomllib.TOMLDecodeError:
        return None
    path: list[str] = []
    while found:
        [(name, found)] = found.items()
        path.append(name)
    return tuple(path)


def _header(path: tuple[str, ...]) -> str:
    return f"[{'.'.join(map(_key, path))}]"


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else json.dumps(name, ensure_ascii=False)


def _value(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _relative(path: Path, folder: Path) -> str:
    return str(path.relative_to(folder)) if path.is_relative_to(folder) else str(path)
