"""`rageval init`: looks at a document store, says what it found, and writes a `rageval.toml` that works as it is."""

import os
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rageval_dagster.cli.console import cell, percent, print_json, print_table, progress_bar
from rageval_dagster.errors import EmbeddingError, SettingsError, unwritable
from rageval_dagster.settings import Settings, describe, load_settings
from rageval_dagster.text import plural

if TYPE_CHECKING:
    from rageval_dagster.corpus.inspection import CollectionReport, FieldUse, Finding, Lengths, StoreReport, Texts
    from rageval_dagster.embedding.models import Embedder

_SHOWN = 20
"""Collections in the printed table, of clients and of others."""


def init(
    chroma: Annotated[
        str | None, typer.Option(help="http(s)://HOST:PORT of a Chroma server, or the folder of an embedded one.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing rageval.toml.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was found as JSON.")] = False,
) -> None:
    """Inspects a document store without changing it, says what it found, and writes rageval.toml."""
    from rageval_dagster.cli.starter import starter
    from rageval_dagster.corpus.inspection import inspect_store

    settings = load_settings()
    target = settings.source.config_file
    if target.exists() and not force:
        raise SettingsError(f"{target} is there already; --force replaces it, rageval config show says what it sets")
    settings = _with_store(settings, chroma)
    embedder, problem = _embedder(settings)
    with progress_bar("looking at the store") as progress:
        report = inspect_store(settings, embedder, problem, progress)
    text, defaults, single = starter(report, settings)
    written = _write(target, text)
    notes = [*_warnings(report), *_overruled(settings, written, defaults)]
    if as_json:
        collections = [asdict(collection) for collection in report.collections]
        for collection in collections:
            del collection["sample"]
        print_json(
            {
                "location": report.location,
                "clients": [client.client_id for client in report.clients],
                "collections": collections,
                "settings": {"defaults": defaults, "clients": single},
                "notes": notes,
                "file": str(target),
            }
        )
        return
    _print_report(report)
    for note in notes:
        print(f"\nNote: {note}")
    print(f"\nWritten: {target}. Next:")
    for command in _next_commands(report):
        print(f"  {command}")


def _with_store(settings: Settings, chroma: str | None) -> Settings:
    if chroma is None:
        return settings
    is_url = chroma.lower().startswith(("http://", "https://"))
    # Not resolved: a link such as `current` may be meant to be followed each time.
    folder = os.path.normpath(Path(chroma).expanduser().absolute())
    place = {"chroma_url": chroma, "chroma_path": None} if is_url else {"chroma_url": None, "chroma_path": folder}
    return settings.model_copy(update=place)


def _embedder(settings: Settings) -> tuple["Embedder | None", str | None]:
    """The embedding model that is set, or why there is none; a model behind an endpoint is asked nothing."""
    from rageval_dagster.embedding.models import TransformerEmbedder, load_embedder

    try:
        embedder = load_embedder(settings.embedding_model, settings)
        if isinstance(embedder, TransformerEmbedder) and embedder.dimension:
            return embedder, None
    except EmbeddingError as error:
        return None, str(error)
    return embedder, None


def _write(target: Path, text: str) -> Settings:
    """Writes the file whole or not at all, and gives the settings as they are with it."""
    draft = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        draft.write_text(text, encoding="utf-8")
        settings = load_settings(config_file=draft)
        draft.replace(target)
    except OSError as error:
        raise SettingsError(unwritable(f"{target} cannot be written", error, "run in a folder that can be")) from None
    finally:
        draft.unlink(missing_ok=True)
    return settings


def _overruled(inspected: Settings, written: Settings, defaults: dict[str, Any]) -> list[str]:
    """What of the file another setting wins over."""
    notes = []
    if (written.chroma_url, written.embedded_chroma_path) != (inspected.chroma_url, inspected.embedded_chroma_path):
        notes.append(
            "RAGEVAL_CHROMA_URL or RAGEVAL_CHROMA_PATH, in the environment or .env, names another store than this one, "
            "and wins over the file: unset it"
        )
    names = {field.alias or name: name for name, field in Settings.model_fields.items()}
    for setting in describe(written, None):
        if names[setting.name] in defaults and setting.source in ("environment", ".env"):
            where = "the environment" if setting.source == "environment" else setting.source
            notes.append(f"{setting.name} is set in {where}, which wins over {names[setting.name]} in the file")
    return notes


def _warnings(report: "StoreReport") -> list[str]:
    from rageval_dagster.languages import language_warning

    notes = []
    if not report.clients:
        notes.append("no collection looks like a client; the file leaves none out, so that nothing is missed")
    if report.model_problem is not None:
        notes.append(report.model_problem)
    if warning := language_warning(report.model, report.languages):
        notes.append(warning)
    if report.shared is None:
        notes += [
            f"{cell(client.name)} looks shared: {cell(client.shared_by.name)!r} tells {client.shared_by.clients} "
            "clients apart in it; client_field with collection evaluates them, each on its own"
            for client in report.clients
            if client.shared_by is not None
        ]
    return notes


def _next_commands(report: "StoreReport") -> list[str]:
    commands = ["rageval doctor", "rageval clients list"]
    if report.clients:
        shared_by = report.shared and report.shared.shared_by
        named = shlex.quote(cell(shared_by.largest if shared_by else report.clients[0].client_id))
        commands += [f"rageval evaluate --client {named} --dry-run", f"rageval evaluate --client {named}"]
    return commands


def _print_report(report: "StoreReport") -> None:
    from rageval_dagster.corpus.inspection import CLOSER_LOOKS

    clients = report.clients
    others = sorted((one for one in report.collections if one.not_a_client), key=lambda one: one.name)
    held = "; it was read from a copy" if report.is_foreign else ""
    found = f"{len(clients)} look like clients"
    if report.shared is not None and report.shared.shared_by is not None:
        found = f"one is shared by {report.shared.shared_by.clients} clients"
    print(f"Chroma at {cell(report.location)}: {plural(len(report.collections), 'collection')}, {found}{held}\n")
    rows = [_row(collection) for collection in (*clients[:_SHOWN], *others[:_SHOWN])]
    print_table(rows, list(rows[0]), "")
    hidden = len(report.collections) - len(rows)
    if hidden:
        print(f"... and {hidden} more; --json lists all")
    closely = [client for client in clients if client.texts is not None]
    if len(clients) > len(closely):
        print(f"\nThe {CLOSER_LOOKS} largest clients were looked at closely, of the others a few chunks.")
    for client in closely:
        whole = "all" if client.read == client.chunks else f"{client.read} (evenly spread)"
        print(f"\n{cell(client.name)}: {whole} of {plural(client.chunks, 'chunk')} read")
        for label, line in _lines(report, client):
            print(f"  {label:12} {line}")


def _row(collection: "CollectionReport") -> dict[str, Any]:
    return {
        "collection": collection.name,
        "chunks": collection.chunks,
        "dimensions": collection.vectors.dimension,
        "distance": collection.vectors.space,
        "document": collection.document.name if collection.document else None,
        "added": collection.time.name if collection.time else None,
        "page": collection.page.name if collection.page else None,
        "a client?": f"no: {collection.not_a_client}" if collection.not_a_client else "yes",
    }


def _lines(report: "StoreReport", client: "CollectionReport") -> Iterable[tuple[str, str]]:
    """(label, sentence) of what a close look found."""
    yield "documents", _documents(client)
    yield "added", _use(client.time) or "no field says when; the time when a chunk was first seen stands in"
    yield "page", _use(client.page) or "no field names it"
    if client.shared_by is not None:
        shared = client.shared_by
        yield (
            "clients",
            f"{cell(shared.name)} tells {shared.clients} apart{_mixed(shared.types)}; {percent(shared.without)} of the "
            "chunks lack it and are nobody's",
        )
    yield "vectors", _vectors(report, client)
    if client.without_text:
        yield "no text", f"{percent(client.without_text / client.read)} of the chunks; they are left out"
    if client.texts is not None:
        yield from _text_lines(report, client.texts)


def _documents(client: "CollectionReport") -> str:
    counted = plural(client.documents, "document") + ("" if client.read == client.chunks else " in those read")
    if client.without_document == 1:
        return (
            "no field names them: each chunk stands for itself, so that scores by document are those by chunk, and "
            "nothing keeps one long document from getting most of the questions"
        )
    named = _use(client.document) or "`source`, which is read where no other field is set"
    missing = (
        f"; {percent(client.without_document)} of the chunks name none, each stands for itself"
        if client.without_document
        else ""
    )
    return f"{named}: {counted}{missing}"


def _use(use: "FieldUse | None") -> str | None:
    return None if use is None else f"{cell(use.name)} in {percent(use.share)} of the chunks{_mixed(use.types)}"


def _mixed(types: Mapping[str, float]) -> str:
    if len(types) < 2:
        return ""
    return f" (mixed types: {', '.join(f'{kind} {percent(share)}' for kind, share in types.items())})"


def _vectors(report: "StoreReport", client: "CollectionReport") -> str:
    vectors = client.vectors
    said = f"{vectors.dimension} dimensions, {vectors.space} distance"
    if vectors.made_by_model is None:
        why = "a model behind an endpoint is asked nothing here" if report.endpoint_model else "the model is not there"
        return f"{said}; not compared with {cell(report.model)} ({why})"
    if vectors.made_by_model:
        return f"{said}, made by {cell(report.model)}"
    return (
        f"{said}, not from {cell(report.model)}: {vectors.problem}; the built-in dense retriever is off, a system of "
        "your own is not affected"
    )


def _text_lines(report: "StoreReport", texts: "Texts") -> Iterable[tuple[str, str]]:
    from rageval_dagster.languages.profiles import NAMES

    told = [f"{NAMES.get(code, code) or 'not told'} {percent(share)}" for code, share in texts.languages.items()]
    yield "languages", ", ".join(told)
    yield "characters", _length(texts.characters)
    if texts.tokens is not None and texts.too_long is not None:
        cut = f"{percent(texts.too_long)} exceed the {texts.window} that {cell(report.model)} reads"
        yield "tokens", f"{_length(texts.tokens)}; {cut}"
    elsewhere = f", {percent(texts.in_other_documents)} in another document" if texts.in_other_documents else ""
    yield (
        "duplicates",
        f"{percent(texts.duplicates.share)} repeat another chunk{elsewhere}{_examples(texts.duplicates)}",
    )
    yield (
        "boilerplate",
        f"{percent(texts.boilerplate.share)} are mostly lines that many chunks have{_examples(texts.boilerplate)}",
    )
    kinds = ", ".join(f"{kind} {percent(share)}" for kind, share in texts.noise_kinds.items())
    yield "noise", f"{percent(texts.noise.share)} are spoilt{f': {kinds}' if kinds else ''}{_examples(texts.noise)}"


def _length(lengths: "Lengths") -> str:
    return f"median {lengths.median:,}, 95 % up to {lengths.p95:,}, longest {lengths.longest:,}"


def _examples(finding: "Finding") -> str:
    return f"; such as {', '.join(map(cell, finding.examples))}" if finding.examples else ""
