"""The `rageval.toml` that `rageval init` writes: what was found in the store, as settings with comments."""

import json
from collections import Counter
from collections.abc import Callable, Iterable
from glob import escape
from typing import Any

from rageval_dagster.cli.console import cell, percent
from rageval_dagster.corpus.fields import DEFAULT_DOCUMENT_FIELD
from rageval_dagster.corpus.inspection import CollectionReport, StoreReport
from rageval_dagster.settings import Settings

HEAD = """\
# Settings of rageval, written by `rageval init` from what it found in the document store.
# From the strongest to the weakest: a client's own table, the environment, .env, [defaults], the built-in default;
# `rageval config show` says which value holds and where it comes from. Secrets never stand here: name the variable
# that holds one (auth_env = "ASSISTANT_TOKEN"). Lines that begin with # and no space are examples to take in.
"""

SYSTEMS = """\
# Your own RAG system is evaluated once it is defined here and named above: system = "assistant", or a list of names.
# In url and request, {question}, {k}, {history}, {principal} and {client} are filled in; the fields of response say
# where an answer, its contexts and their parts stand (JMESPath).
#[defaults.systems.assistant]
#kind = "http"
#url = "https://rag.example.com/ask"
#auth_env = "ASSISTANT_TOKEN"
#request = { question = "{question}", top_k = "{k}" }
#response = { answer = "answer", contexts = "contexts", context = { text = "text", id = "id", document_id = "source" } }

# A Python function, in a module beside this file or installed.
#[defaults.systems.function]
#kind = "callable"
#function = "my_package.rag:answer"

# What a system said, recorded in a file of JSON Lines.
#[defaults.systems.recorded]
#kind = "recorded"
#file = "answers.jsonl"
"""

MORE = """\
# How much is asked, and when (UTC).
#sample_size = 50
#k = 5
#schedule = "0 2 * * *"

# What may be kept and sent: personal data is taken out before anything is stored or sent ("pii", or a function of
# yours); "forbidden" keeps these documents from every language model; texts and scores are kept for so many days.
#redact = "pii"
#llm = "forbidden"
#retention_days_text = 90
#retention_days_scores = 730
"""

_FIELDS: list[tuple[str, str, Callable[[CollectionReport], Any], str]] = [
    ("document_field", "names a chunk's document", lambda report: report.document, DEFAULT_DOCUMENT_FIELD),
    ("added_at_field", "says when a chunk was added", lambda report: report.time, "added_at"),
    ("page_field", "is a chunk's page", lambda report: report.page, "page"),
]


def starter(report: StoreReport, settings: Settings) -> tuple[str, dict[str, Any], dict[str, dict[str, Any]]]:
    """The file's text, the settings in its [defaults], and those of single clients (client -> settings)."""
    clients = report.clients or list(report.collections)
    defaults: dict[str, Any] = {}
    single: dict[str, dict[str, Any]] = {client.client_id: {} for client in clients}
    lines = [HEAD, "[defaults]"]
    lines += _store_lines(settings, defaults)
    lines += _client_lines(report, defaults)
    for name, meaning, use, built_in in _FIELDS:
        lines += _field_lines(name, meaning, use, built_in, clients, defaults, single)
    lines += _system_lines(report, clients, defaults, single)
    lines += [MORE, SYSTEMS]
    own = {client: table for client, table in single.items() if table}
    for client, table in own.items():
        lines += [f"[clients.{quoted(client)}]", *_assignments(table), ""]
    example = next((client.client_id for client in clients if client.client_id not in own), "another")
    lines += [
        "# What holds for one client alone: any setting but those of the store.",
        f"#[clients.{quoted('acme' if report.shared else example)}]",
        "#sample_size = 100",
        '#system = ["dense", "bm25"]',
        '#thresholds = { "retrieval.mrr" = 0.8 }',
    ]
    return "\n".join(lines) + "\n", defaults, own


def quoted(value: Any) -> str:
    """A value as TOML has it; strings with everything escaped that an editor would not show."""
    if isinstance(value, list):
        return f"[{', '.join(map(quoted, value))}]"
    return "".join(_escaped(character) for character in json.dumps(value, ensure_ascii=False))


def _store_lines(settings: Settings, defaults: dict[str, Any]) -> list[str]:
    if settings.chroma_url is not None:
        place = {"chroma_url": settings.chroma_url}
        comment = (
            "# Where the documents are; a token stands in the variable RAGEVAL_CHROMA_TOKEN. They are never written to"
        )
    else:
        place = {"chroma_path": str(settings.embedded_chroma_path)}
        comment = "# Where the documents are. They are never written to"
    built_in = {name: field.default for name, field in Settings.model_fields.items()}
    for name in ("chroma_tenant", "chroma_database"):
        if getattr(settings, name) != built_in[name]:
            place[name] = getattr(settings, name)
    defaults |= place
    return [f"{comment} but by `rageval ingest`.", *_assignments(place), ""]


def _client_lines(report: StoreReport, defaults: dict[str, Any]) -> list[str]:
    shared = report.shared
    if shared is not None and shared.shared_by is not None:
        place = {"client_field": shared.shared_by.name, "collection": shared.name}
        defaults |= place
        return [
            f"# {shared.shared_by.clients} clients share one collection, told apart by a metadata field; chunks that "
            f"lack it ({percent(shared.shared_by.without)}) are nobody's.",
            *_assignments(place),
            "",
        ]
    left_out = [collection for collection in report.collections if collection.not_a_client] if report.clients else []
    defaults["include"] = ["*"]
    lines = [
        "# Which collections are clients: patterns of their names. Each collection is one client.",
        'include = ["*"]',
    ]
    if left_out:
        defaults["exclude"] = [escape(collection.name) for collection in left_out]
        lines.append("exclude = [")
        lines += [
            f"    {quoted(escape(collection.name))},  # {cell(collection.not_a_client)}" for collection in left_out
        ]
        lines.append("]")
    return [*lines, ""]


def _field_lines(
    name: str,
    meaning: str,
    use: Callable[[CollectionReport], Any],
    built_in: str,
    clients: Iterable[CollectionReport],
    defaults: dict[str, Any],
    single: dict[str, dict[str, Any]],
) -> list[str]:
    """The field that most clients have in [defaults], another one in a client's own table."""
    found = {client.client_id: use(client) for client in clients}
    votes = Counter(field.name for field in found.values() if field is not None)
    if not votes:
        return [f"# No metadata field was found that {meaning}.", f"#{name} = {quoted(built_in)}", ""]
    [(common, number)] = votes.most_common(1)
    defaults[name] = common
    for client_id, field in found.items():
        if field is not None and field.name != common:
            single[client_id][name] = field.name
    shares = [field.share for field in found.values() if field is not None and field.name == common]
    where = f"{percent(sum(shares) / number)} of the chunks looked at" + (
        f", in {number} of {len(found)} collections" if len(found) > 1 else ""
    )
    return [f"# The metadata field that {meaning} ({where}).", *_assignments({name: common}), ""]


def _system_lines(
    report: StoreReport,
    clients: Iterable[CollectionReport],
    defaults: dict[str, Any],
    single: dict[str, dict[str, Any]],
) -> list[str]:
    """Dense retrieval where the model that is set made the vectors, else bm25."""
    known = {
        client.client_id: client.vectors.made_by_model for client in clients if client.vectors.made_by_model is not None
    }
    strange = [client_id for client_id, fits in known.items() if not fits]
    off = report.model_problem is not None or 2 * len(strange) > len(known)
    defaults["system"] = "bm25" if off else "dense"
    lines = [
        "# What is evaluated: a built-in reference system (dense, bm25 or hybrid) until you name your own. It says how",
        "# well these documents can be searched, not how good your system is.",
    ]
    if off:
        lines += [
            f"# The stored vectors are not from {cell(report.model)}: dense and hybrid need the model that made them",
            "# (embedding_model). A system of your own needs none.",
        ]
    else:
        for client_id in strange:
            single[client_id]["system"] = "bm25"
    languages = {code: share for code, share in report.languages.items() if code}
    told = ", ".join(f"{code} {percent(share)}" for code, share in languages.items())
    return [
        *lines,
        *_assignments({"system": defaults["system"]}),
        '#embedding_model = "sentence-transformers/all-MiniLM-L6-v2"',
        "",
        "# Languages are told chunk by chunk" + (f" (found: {told})" if told else "") + "; a setting makes all one.",
        f"#language = {quoted(next(iter(languages), 'en'))}",
        "",
    ]


def _assignments(table: dict[str, Any]) -> list[str]:
    return [f"{name} = {quoted(value)}" for name, value in table.items()]


def _escaped(character: str) -> str:
    if character.isprintable():
        return character
    return f"\\u{ord(character):04X}" if ord(character) < 0x10000 else f"\\U{ord(character):08X}"
