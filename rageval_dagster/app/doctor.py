"""Whether everything that is needed is set, fits, and answers; what to do where it does not."""

import socket
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, get_args
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from pydantic import SecretStr

from rageval_dagster.app import fleet
from rageval_dagster.errors import RagevalError, SettingsError
from rageval_dagster.network import is_loopback
from rageval_dagster.settings import (
    CallableDefinition,
    HttpDefinition,
    RecordedDefinition,
    Settings,
    SystemDefinition,
    load_settings,
)
from rageval_dagster.text import named, plural

if TYPE_CHECKING:
    from rageval_dagster.corpus.store import ChromaStore
    from rageval_dagster.llm.endpoints import Endpoint, Role
    from rageval_dagster.records import Hit, Item
    from rageval_dagster.storage.database import Database

_CONNECT_TIMEOUT_S = 3
_QUESTION = "What can I ask you about?"
"""For a system of clients that have no questions yet."""
_SHOWN_CHARACTERS = 60
_PORTS = {"http": 80, "https": 443}

P = ParamSpec("P")

Row = dict[str, str]
"""`check`, `ok` (yes, no, warning or not asked) and `finding`."""


def findings(test_webhook: bool = False, ask: bool = False, client: str | None = None) -> Iterator[Row]:
    """What is found of settings, schedule, databases, workers, document store, models and systems, one after the other.

    Each chat model is asked one small question, in which there is nothing of any document. A message is sent to each
    webhook only to test it. The user's own systems are asked only with `ask`: a question of a client's each. With
    `client`, only that client's systems are looked at.
    """
    try:
        settings = load_settings()
    except SettingsError as error:
        yield _row("settings", "no", str(error))
        return
    file = settings.source.config_file
    yield _row("settings", "yes", f"{file if file.exists() else f'no {file.name}'}; home {settings.home}")
    for strange in settings.source.unknown_variables():
        yield _row("settings", "warning", strange)
    yield _checked("schedule", _schedule, settings)
    yield _checked("Dagster's definitions", fleet.definitions)
    yield _checked("database", _database, settings)
    yield _checked("report folder", _report_folder, settings)
    for part in fleet.parts(settings):
        yield _row(*part)
    clients: list[str] = []
    found = _checked("document store", _documents, settings, clients)
    yield found
    everyone, own = [settings], dict[str, Settings]()
    for client_id in settings.source.client_names:
        try:
            own[client_id] = settings.for_client(client_id)
            everyone.append(own[client_id])
        except SettingsError as error:
            yield _row(f"client {client_id}", "no", str(error))
            continue
        if found["ok"] == "yes" and client_id not in clients:
            yield _row(f"client {client_id}", "warning", "has a table in rageval.toml and no documents in the store")
    if settings.source.client_names:
        fine, tables = len(everyone) - 1, len(settings.source.client_names)
        usable = "yes" if fine == tables else "no"
        yield _row("clients' tables", usable, f"{fine} of {plural(tables, 'table')} can be used")
    for name in dict.fromkeys(each.redact for each in everyone if each.redact):
        yield _checked("redaction", _redaction, name, settings)
    for folder in dict.fromkeys(each.prompts_dir for each in everyone if each.prompts_dir):
        yield _checked("prompts", _prompts, folder)
    yield from _embedding_models(everyone)
    yield from _rerankers(everyone)
    yield from _once(_chat_models(everyone))
    if client is None:
        yield from _systems(settings, own, clients, ask)
    elif client in own or (client in clients and client not in settings.source.client_names):
        yield from _systems(settings, own, [each for each in clients if each == client], ask, client)
    elif client not in settings.source.client_names:
        yield _row(f"client {client}", "no", "has neither documents nor a table in rageval.toml: rageval clients list")
    for url in dict.fromkeys(each.alert_webhook_url for each in everyone):
        yield _checked("alert webhook", _webhook, url, test_webhook)
    if settings.chroma_url is not None:
        secret = "the token" if settings.chroma_token or settings.chroma_headers else None
        yield from _unencrypted("document store", settings.chroma_url, secret)


def _schedule(settings: Settings) -> str:
    from rageval_dagster.automation.schedules import checked_cron

    return f"{checked_cron(settings)} UTC" + ("" if settings.enabled else "; off: EVALUATION_ENABLED is false")


def _database(settings: Settings) -> str:
    from rageval_dagster.storage.database import open_database

    settings.ensure_home()
    return repr(open_database(settings.database_url)).removeprefix("Database(").removesuffix(")")


def _report_folder(settings: Settings) -> str:
    from rageval_dagster.report.files import try_folder

    try_folder(settings.report_dir)
    return f"{settings.report_dir} can be written"


def _documents(settings: Settings, clients: list[str]) -> str:
    """What is found of the store; fills `clients`."""
    from rageval_dagster.corpus.inspection import check_there
    from rageval_dagster.corpus.store import open_store

    if settings.chroma_path is not None:
        check_there(settings)
    store = open_store(settings)
    clients += store.clients()
    left_out = len(store.left_out())
    rest = f"; {left_out} left out, see rageval clients list" if left_out else ""
    return f"{store.location}: {plural(len(clients), 'client')}{rest}"


def _redaction(name: str, settings: Settings) -> str:
    from rageval_dagster.redaction import load_redactor

    load_redactor(name, settings.path("."))
    return f"{name} can be loaded"


def _prompts(folder: Path) -> str:
    from rageval_dagster.llm.prompts import load_prompt, prompt_names

    names = prompt_names()
    own = [name for name in names if load_prompt(name, folder) != load_prompt(name)]
    return f"{folder}: {len(own)} of {plural(len(names), 'prompt')} replaced"


def _embedding_models(everyone: Iterable[Settings]) -> Iterator[Row]:
    """Each model once; one behind an endpoint, once for each endpoint and key that clients have for it."""
    distinct: dict[tuple[str, object], tuple[str, Settings]] = {}
    for settings in everyone:
        for check in ("embedding model", "metric embedding model"):
            name = getattr(settings, check.replace(" ", "_"))
            endpoint = (settings.openai_base_url, settings.openai_api_key) if name.startswith("openai:") else None
            distinct.setdefault((name, endpoint), (check, settings))
    for (name, _), (check, settings) in distinct.items():
        yield _checked(check, _embedding_model, name, settings)


def _embedding_model(name: str, settings: Settings) -> str:
    from rageval_dagster.embedding.models import load_embedder

    embedder = load_embedder(name, settings)
    return f"{embedder.name}: {embedder.encode(['a short text']).shape[1]} dimensions"


def _rerankers(everyone: Iterable[Settings]) -> Iterator[Row]:
    for name in dict.fromkeys(each.reranker for each in everyone if each.reranker):
        yield _checked("reranker", _reranker, name)


def _reranker(name: str) -> str:
    from rageval_dagster.embedding.models import Reranker

    Reranker(name).scores("a question", ["a short text"])
    return f"{name} can be loaded"


def _chat_models(everyone: Iterable[Settings]) -> Iterator[Row]:
    """What each role's models make of a small question; one that several clients use is asked once."""
    from rageval_dagster.llm.endpoints import Role, endpoint_of, same_model_warning

    asked: set[tuple[Role, Endpoint]] = set()
    for settings in everyone:
        for role in get_args(Role):
            check = f"{role} model"
            try:
                endpoint: Endpoint | None = endpoint_of(settings, role)
            except SettingsError as error:
                yield _row(check, "no", str(error))
                continue
            if endpoint is None or (role, endpoint) in asked:
                continue
            asked.add((role, endpoint))
            yield _chat_model(check, role, endpoint, settings)
            yield from _unencrypted(check, endpoint.base_url, "the API key" if endpoint.api_key else None)
        with suppress(SettingsError):
            if warning := same_model_warning(settings):
                yield _row("judge model", "warning", warning)


def _chat_model(check: str, role: "Role", endpoint: "Endpoint", settings: Settings) -> Row:
    """What is found of a model by asking it; one that replies otherwise than asked is only warned of."""
    from rageval_dagster.llm.probing import probe

    try:
        _reached(endpoint.base_url)
        probed = probe(settings, role)
    except RagevalError as error:
        return _row(check, "no", str(error))
    found = f"{endpoint.model} at {endpoint.host}: {probed.finding}"
    if endpoint.model not in settings.prices:
        found += "; what it costs is not counted: it has no price in rageval.toml ([prices])"
    return _row(check, "yes" if probed.in_json else "warning", found)


def _systems(
    settings: Settings, own: Mapping[str, Settings], stored: Sequence[str], ask: bool, client: str | None = None
) -> Iterator[Row]:
    """The systems that rageval.toml defines, each definition once; one that nobody uses yet is only warned of.

    A definition that only clients' tables make names them.

    Args:
        own: the settings of each client that has a table.
        stored: the clients that have documents.
        ask: whether each is asked a question.
        client: the only one whose systems are looked at, if any.
    """
    without_table = [client_id for client_id in stored if client_id not in settings.source.client_names]
    # Where each client has a table, a definition that all of them override is nobody's.
    shared = bool(without_table) or not settings.source.client_names
    distinct: dict[tuple[str, str], tuple[SystemDefinition, Settings]] = {}
    clients: dict[tuple[str, str], list[str]] = {}
    used: set[tuple[str, str]] = set()
    everyone: list[tuple[str | None, Settings]] = [(None, settings), *own.items()]
    if client is not None:
        everyone = [(client, own[client]) if client in own else (None, settings)]
    for client_id, each in everyone:
        for name, definition in each.systems.items():
            key = name, repr(definition)
            distinct.setdefault(key, (definition, each))
            if client_id is not None:
                clients.setdefault(key, []).append(client_id)
            if name in each.system and (shared or client_id is not None):
                used.add(key)
    for key, (definition, each) in distinct.items():
        check = f"system {key[0]}" + ("" if each is settings else f" of {named(clients[key], most=3)}")
        served = {client_id: own[client_id] for client_id in clients.get(key, ()) if client_id in stored}
        if each is settings:
            served |= dict.fromkeys(without_table, settings)
        # Of clients that all have their own definition it is nobody's: asked for none, it may well have no answer.
        row = _system(check, key[0], each, served, ask and bool(served or not stored))
        if row["ok"] == "no" and key not in used:
            row = _row(check, "warning", f"{row['finding']} (no client is evaluated with it so far)")
        yield row
        if isinstance(definition, HttpDefinition):
            secret = "what auth_env and headers_env name" if definition.auth_env or definition.headers_env else None
            yield from _unencrypted(check, definition.url, secret)


def _system(check: str, name: str, settings: Settings, served: Mapping[str, Settings], ask: bool) -> Row:
    """What is found of a system, which is asked a question only with `ask`; `served` are its clients with documents."""
    from rageval_dagster.rag.external import load_external

    definition = settings.systems[name]
    try:
        load_external(name, settings, "doctor")  # a secret that is not set, a function or file that is not there
        found = _reached(definition.url) if isinstance(definition, HttpDefinition) else "can be loaded"
        if isinstance(definition, RecordedDefinition):
            return _row(check, "yes", f"recorded: {found}")
        if not ask:
            return _row(check, "not asked", f"{definition.kind}: {found}; rageval doctor --ask asks it one question")
        return _asked(check, name, settings, definition, served)
    except RagevalError as error:
        return _row(check, "no", str(error))


def _asked(
    check: str,
    name: str,
    settings: Settings,
    definition: HttpDefinition | CallableDefinition,
    served: Mapping[str, Settings],
) -> Row:
    """What a system makes of a question of one of its clients', and whether it returns that client's chunks."""
    from rageval_dagster.corpus.store import open_store
    from rageval_dagster.evaluation.request import make_request
    from rageval_dagster.metrics.assessment import assess_answer
    from rageval_dagster.rag.external import load_external
    from rageval_dagster.rag.failures import remedy
    from rageval_dagster.rag.systems import load_system
    from rageval_dagster.storage.database import open_database

    db = open_database(settings.database_url)
    client_id, item = _question(db, served)
    own = served.get(client_id, settings)
    store = open_store(settings)
    if client_id in served:
        system = load_system(name, own, db, store, client_id, assess_answer)
    else:
        system = load_external(name, own, client_id)
    began = time.monotonic()
    [said] = system.retrieve([item], make_request(own, client_id, "doctor").depth)
    whose = "a question about nothing" if item.question == _QUESTION else f"a question of {client_id}"
    told = f"{definition.kind}: asked {whose}, it"
    if said.error is not None:
        what = remedy(said.error, name)
        return _row(check, "no", f"{told} failed: {said.error}" + (f" ({what})" if what else ""))
    answer = "" if said.answer is None or said.answer.answer is None else " ".join(said.answer.answer.text.split())
    shown = f'"{answer[:_SHOWN_CHARACTERS]}{"…" if len(answer) > _SHOWN_CHARACTERS else ""}"'
    ok, contexts = _contexts(db, store, client_id if client_id in served else None, said.hits)
    return _row(
        check,
        ok if answer else "warning",
        f"{told} answered in {time.monotonic() - began:.1f} s: {shown if answer else 'with no text'}; {contexts}",
    )


def _question(db: "Database", served: Mapping[str, Settings]) -> "tuple[str, Item]":
    """A question of the first of the clients that has any, else one about nothing for the first of them."""
    from rageval_dagster.records import Item
    from rageval_dagster.storage.benchmark import current_datasets, remaining_items

    for client_id in served:
        for dataset in current_datasets(db, client_id):
            for item in remaining_items(db, dataset.id):
                if item.answerable:
                    return client_id, item
    return next(iter(served), "doctor"), Item(_QUESTION)


def _contexts(
    db: "Database", store: "ChromaStore", client_id: str | None, hits: "tuple[Hit, ...] | None"
) -> tuple[str, str]:
    """Whether contexts are what an evaluation can use, and how many there are of whom."""
    from rageval_dagster.corpus.evidence import Resolution
    from rageval_dagster.corpus.matching import place_hits
    from rageval_dagster.storage.corpus import iter_manifest

    if hits is None:
        return "yes", "it returns no contexts (contexts is empty in its response table)"
    told = plural(len(hits), "context")
    if not hits or client_id is None:
        return ("yes", told) if hits else ("warning", told)
    [placed] = place_hits(db, store, client_id, [(Resolution(None, None), hits)])
    # What several other clients hold, and this one does not, is not in its store either.
    owners = Counter("unknown" if hit.owner == "shared" else hit.owner for hit in placed.hits or ())
    scanned = any(iter_manifest(db, client_id, page_size=1))
    unknown = "not in the store" if scanned else "unknown, as ids are before the first evaluation"
    whose = {"own": f"of {client_id}'s documents", "foreign": "of another client's", "unknown": unknown}
    found = f"{told}: " + ", ".join(f"{owners[owner]} {words}" for owner, words in whose.items() if owners[owner])
    if owners["foreign"]:
        return "no", f"{found}: a leak"
    if owners["own"] or not scanned:
        return "yes", found
    return "warning", f"{found}; see context of its response table"


def _webhook(url: SecretStr | None, test: bool) -> str:
    """What is found of a webhook; nothing is sent to it unless asked for.

    Raises:
        RagevalError: it is no address that may be used, or did not take the test message.
    """
    from rageval_dagster.telling.slack import note
    from rageval_dagster.telling.webhook import host_of, post

    if url is None:
        return "not set: nobody is notified of incidents; rageval status shows the open ones"
    host = host_of(url)
    if not test:
        return f"at {host}; --test-webhook sends a message to it"
    if trouble := post(url, note("rageval doctor: a test message; this webhook works")):
        raise RagevalError(f"{host} did not accept a test message ({trouble}): see RAGEVAL_ALERT_WEBHOOK_URL")
    return f"at {host}; it accepted a test message"


def _reached(url: str) -> str:
    """Who listens there.

    Raises:
        RagevalError: nobody does, or it is no address.
    """
    scheme, host, port = _address(url)
    if scheme in getproxies() and not proxy_bypass(host):
        return f"{host}:{port}, behind a proxy, so not tried"
    if trouble := _trouble(host, port):
        raise RagevalError(f"{host}:{port} accepts no connections ({trouble}); check that it runs, and its address")
    return f"a server listens at {host}:{port}"


def _address(url: str) -> tuple[str, str, int]:
    """Scheme, host and port of a URL; RagevalError where it is none (it may hold a password, and is not repeated)."""
    with suppress(ValueError):
        parts = urlsplit(url)
        if parts.scheme in _PORTS and parts.hostname:
            return parts.scheme, parts.hostname, parts.port or _PORTS[parts.scheme]
    raise RagevalError("its address is not http(s)://host:port/path")


@lru_cache(maxsize=256)
def _trouble(host: str, port: int) -> str | None:
    """Why nobody takes a connection there, tried once for all clients; None where somebody does."""
    try:
        with socket.create_connection((host, port), timeout=_CONNECT_TIMEOUT_S):
            return None
    except OSError as error:
        return error.strerror or type(error).__name__


def _unencrypted(check: str, url: str, secret: str | None) -> Iterator[Row]:
    with suppress(RagevalError):
        scheme, host, _ = _address(url)
        if scheme == "http" and not is_loopback(host):
            what = f"{secret} and all texts" if secret else "all texts"
            yield _row(check, "warning", f"{what} travel unencrypted to {host}: use https")


def _once(rows: Iterable[Row]) -> Iterator[Row]:
    seen: list[Row] = []
    for row in rows:
        if row not in seen:
            seen.append(row)
            yield row


def _checked(name: str, check: Callable[P, str], *args: P.args, **kwargs: P.kwargs) -> Row:
    try:
        return _row(name, "yes", check(*args, **kwargs))
    except RagevalError as error:
        return _row(name, "no", str(error))


def _row(check: str, ok: str, finding: str) -> Row:
    return {"check": check, "ok": ok, "finding": finding}
