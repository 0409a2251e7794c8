"""What question generator and critics show a model of chunks, and how they read its replies."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from rageval_dagster.llm.messages import UnusableReplyError
from rageval_dagster.llm.prompts import fenced
from rageval_dagster.llm.replies import read_objects, without_thoughts
from rageval_dagster.records import Chunk

Fields = Mapping[str, str | bool | tuple[str, ...]]
"""What a reply says, by field: a text, a verdict, or several texts."""

_LABEL = re.compile(r"^[\s>#*_\-\d.)]*([^\W\d_][\w \-]{0,20}?)[*_\s]*[:：][*_]*\s*(.*)$")
_SEPARATORS = re.compile(r"[\s_-]+")
_PLACEHOLDER = re.compile(r"\[[^\]]*\]|<[^>]*>")
_QUOTATION_MARKS = {'"': '"', "“": "”", "„": "“", "«": "»", "「": "」", "`": "`", "'": "'", "‘": "’"}
_VERDICTS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def passages(chunks: Sequence[Chunk]) -> str:
    """Chunks as fenced material, numbered where there are several, with their document's id where it has one."""
    numbers = range(1, len(chunks) + 1) if len(chunks) > 1 else [None]
    return "\n\n".join(
        fenced(
            "passage", f"Document: {chunk.document_id}\n\n{chunk.text}" if chunk.has_document else chunk.text, number
        )
        for chunk, number in zip(chunks, numbers, strict=True)
    )


def read_fields(text: str, names: Mapping[str, str]) -> Fields:
    """The fields of a reply that it has: of its JSON object, else of labelled lines (`Q: ...`), with or without
    Markdown. Of several objects or answers the first counts.

    `names` are the fields by what models call them, in lower case and without spaces, hyphens and underscores.
    """
    objects = read_objects(text)
    found = _named(_innermost(objects[0], names), names) if objects else {}
    return found or _without_templates(_labelled(without_thoughts(text), names))


def read_verdict(fields: Fields, name: str) -> bool:
    """A field that is true or false.

    Raises:
        UnusableReplyError: it is neither, or not there.
    """
    verdict = _VERDICTS.get(str(fields.get(name, "")).strip(" .*").casefold())
    if verdict is None:
        raise UnusableReplyError(f"verdict_not_understood (no {name})")
    return verdict


def read_text(fields: Fields, name: str) -> str:
    """A field that is a text; empty where it is not there."""
    value = fields.get(name, "")
    return value if isinstance(value, str) else ""


def read_texts(fields: Fields, name: str) -> tuple[str, ...]:
    """A field that is a list of texts, or one text; empty where it is not there."""
    value = fields.get(name, ())
    return value if isinstance(value, tuple) else (read_text(fields, name),)


def says_none(text: str) -> bool:
    """Whether a reply is the single word NONE."""
    return without_thoughts(text).strip("*`\"'. ").upper() == "NONE"


def _innermost(value: Mapping[str, Any], names: Mapping[str, str]) -> Mapping[str, Any]:
    """The object itself, or that in it: some models wrap what was asked for, {"qa": {...}} or {"pairs": [{...}]}."""
    while not _named(value, names):
        inner: Any = next((entry for entry in value.values() if isinstance(entry, dict | list)), None)
        while isinstance(inner, list) and inner:
            inner = inner[0]
        if not isinstance(inner, dict):
            break
        value = inner
    return value


def _named(value: Mapping[str, Any], names: Mapping[str, str]) -> Fields:
    found: dict[str, str | bool | tuple[str, ...]] = {}
    for label, entry in value.items():
        name = names.get(_key(str(label)))
        if name and isinstance(entry, list):
            found.setdefault(name, tuple(each for each in entry if isinstance(each, str)))
        elif name and (entry is None or isinstance(entry, str | int | float)):
            text = "" if entry is None else str(entry)
            found.setdefault(name, entry if isinstance(entry, bool) else text)
    return _without_templates(found)


def _without_templates(fields: Fields) -> Fields:
    """The fields without the marks around their texts, and without those that only repeat what was to be filled in."""
    plain = {name: _plain(value) for name, value in fields.items()}
    return {name: value for name, value in plain.items() if value is not None}


def _plain(value: str | bool | tuple[str, ...]) -> str | bool | tuple[str, ...] | None:
    if isinstance(value, bool):
        return value
    texts = map(_unwrapped, (value,) if isinstance(value, str) else value)
    said = [text for text in texts if not _PLACEHOLDER.fullmatch(text)]
    if isinstance(value, tuple):
        return tuple(filter(None, said)) or None
    return said[0] if said else None


def _labelled(text: str, names: Mapping[str, str]) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    current: list[str] | None = None
    for line in text.splitlines():
        label = _LABEL.match(line)
        name = names.get(_key(label.group(1))) if label else None
        if label and name:
            if name in found:
                break
            current = found.setdefault(name, [label.group(2)])
        elif current is not None and not line.strip().startswith("```"):
            current.append(line)
    return {name: " ".join(" ".join(lines).split()) for name, lines in found.items()}


def _key(label: str) -> str:
    return _SEPARATORS.sub("", label.casefold())


def _unwrapped(value: str) -> str:
    """A text without the quotation marks or Markdown around it."""
    value = value.replace("\0", "").strip()
    while len(value) >= 2:
        is_quoted = value[-1] == _QUOTATION_MARKS.get(value[0]) and value[0] not in value[1:-1]
        if not is_quoted and not value[:2] == value[-2:] == "**":
            break
        width = 2 if value.startswith("**") else 1
        value = value[width:-width].strip()
    return value
