"""The `rageval.toml` that `rageval init` writes: what was found in the store, as settings with comments."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from glob import escape
from pathlib import Path
from typing import Any

from rageval_dagster.cli.console import cell, percent
from rageval_dagster.corpus.fields import DEFAULT_DOCUMENT_FIELD
from rageval_dagster.corpus.inspection import CollectionReport, FieldUse, StoreReport
from rageval_dagster.settings import Settings

_TEMPLATE = Path(__file__).with_suffix(".toml.jinja")

_FIELDS = [
    ("document_field", "names a chunk's document", "document", DEFAULT_DOCUMENT_FIELD),
    ("added_at_field", "says when a chunk was added", "time", "added_at"),
    ("page_field", "is a chunk's page", "page", "page"),
]


def starter(report: StoreReport, settings: Settings) -> tuple[str, dict[str, Any], dict[str, dict[str, Any]]]:
    """The file's text, the settings in its [defaults], and those of single clients (client -> settings)."""
    from jinja2 import Environment, StrictUndefined

    clients = report.clients or list(report.collections)
    single: dict[str, dict[str, Any]] = {client.client_id: {} for client in clients}
    store = _store(settings)
    shared, shared_by, left_out = {}, report.shared and report.shared.shared_by, []
    if report.shared is not None and shared_by is not None:
        shared = {"client_field": shared_by.name, "collection": report.shared.name}
    elif report.clients:
        left_out = [collection for collection in report.collections if collection.not_a_client]
    defaults = {**store, **(shared or {"include": ["*"]})}
    if left_out:
        defaults["exclude"] = [escape(collection.name) for collection in left_out]
    fields = [_field(*field, clients, single) for field in _FIELDS]
    for field in fields:
        defaults |= field["found"]
    defaults["system"] = _system(report, clients, single)
    own = {client: table for client, table in single.items() if table}
    languages = {code: share for code, share in report.languages.items() if code}
    # What it writes is TOML, and quoted as such.
    environment = Environment(undefined=StrictUndefined, trim_blocks=True, keep_trailing_newline=True)  # noqa: S701
    environment.filters |= {
        "assigned": _assigned,
        "cell": cell,
        "pattern": escape,
        "percent": percent,
        "quoted": quoted,
    }
    text = environment.from_string(_TEMPLATE.read_text(encoding="utf-8")).render(
        report=report,
        defaults=defaults,
        store=store,
        shared=shared,
        shared_by=shared_by,
        left_out=left_out,
        fields=fields,
        told=", ".join(f"{code} {percent(share)}" for code, share in languages.items()),
        language=next(iter(languages), "en"),
        single=own,
        example="acme"
        if report.shared
        else next((client.client_id for client in clients if client.client_id not in own), "another"),
    )
    return text, defaults, own


def quoted(value: Any) -> str:
    """A value as TOML has it; strings with everything escaped that an editor would not show."""
    if isinstance(value, list):
        return f"[{', '.join(map(quoted, value))}]"
    return "".join(_escaped(character) for character in json.dumps(value, ensure_ascii=False))


def _store(settings: Settings) -> dict[str, Any]:
    """Where the documents are."""
    if settings.chroma_url is not None:
        place = {"chroma_url": settings.chroma_url}
    else:
        place = {"chroma_path": str(settings.embedded_chroma_path)}
    for name in ("chroma_tenant", "chroma_database"):
        if getattr(settings, name) != Settings.model_fields[name].default:
            place[name] = getattr(settings, name)
    return place


def _field(
    name: str,
    meaning: str,
    role: str,
    built_in: str,
    clients: Iterable[CollectionReport],
    single: dict[str, dict[str, Any]],
) -> dict[str, Any]:
    """The field that most clients have, which holds for all; another one stands in a client's own table."""
    found: dict[str, FieldUse | None] = {client.client_id: getattr(client, role) for client in clients}
    votes = Counter(field.name for field in found.values() if field is not None)
    if not votes:
        return {"name": name, "meaning": meaning, "built_in": built_in, "found": {}}
    [(common, number)] = votes.most_common(1)
    share = 0.0
    for client_id, field in found.items():
        if field is not None and field.name == common:
            share += field.share
        elif field is not None:
            single[client_id][name] = field.name
    where = f"{percent(share / number)} of the chunks looked at"
    if len(found) > 1:
        where += f", in {number} of {len(found)} collections"
    return {"meaning": meaning, "where": where, "found": {name: common}}


def _system(report: StoreReport, clients: Iterable[CollectionReport], single: dict[str, dict[str, Any]]) -> str:
    """Dense retrieval where the model that is set made the vectors, else bm25."""
    known = {
        client.client_id: client.vectors.made_by_model for client in clients if client.vectors.made_by_model is not None
    }
    strange = [client_id for client_id, fits in known.items() if not fits]
    if report.model_problem is not None or 2 * len(strange) > len(known):
        return "bm25"
    for client_id in strange:
        single[client_id]["system"] = "bm25"
    return "dense"


def _assigned(table: Mapping[str, Any]) -> str:
    return "\n".join(f"{name} = {quoted(value)}" for name, value in table.items())


def _escaped(character: str) -> str:
    if character.isprintable():
        return character
    return f"\\u{ord(character):04X}" if ord(character) < 0x10000 else f"\\U{ord(character):08X}"
