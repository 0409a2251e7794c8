"""Whether everything that is needed is set, fits, and answers; what to do where it does not."""

import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, get_args
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from pydantic import SecretStr

from rageval_dagster.errors import RagevalError, SettingsError
from rageval_dagster.network import is_loopback
from rageval_dagster.settings import HttpDefinition, Settings, SystemDefinition, load_settings
from rageval_dagster.text import named, plural

if TYPE_CHECKING:
    from rageval_dagster.llm.endpoints import Endpoint, Role

_CONNECT_TIMEOUT_S = 3
_PORTS = {"http": 80, "https": 443}

P = ParamSpec("P")

Row = dict[str, str]
"""`check`, `ok` (yes, no or warning) and `finding`."""


def findings(test_webhook: bool = False) -> Iterator[Row]:
    """What is found of settings, schedule, database, document store, models and systems, one after the other.

    Each chat model is asked one small question, in which there is nothing of any document. A message is sent to each
    webhook only to test it.
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
    yield _checked("database", _database, settings)
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
    yield from _once(_chat_models(everyone))
    without_table = any(client_id not in settings.source.client_names for client_id in clients)
    yield from _systems(settings, own, shared=without_table or not settings.source.client_names)
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


def _systems(settings: Settings, own: Mapping[str, Settings], shared: bool) -> Iterator[Row]:
    """The systems that rageval.toml defines, each definition once; one that nobody uses yet is only warned of.

    A definition that only clients' tables make names them.

    Args:
        own: the settings of each client that has a table.
        shared: whether a client may be evaluated with what holds for all: where each one has a table, a definition
            that all of them override is nobody's.
    """
    distinct: dict[tuple[str, str], tuple[SystemDefinition, Settings]] = {}
    clients: dict[tuple[str, str], list[str]] = {}
    used: set[tuple[str, str]] = set()
    everyone: list[tuple[str | None, Settings]] = [(None, settings), *own.items()]
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
        row = _checked(check, _system, key[0], each)
        if row["ok"] != "yes" and key not in used:
            row = _row(check, "warning", f"{row['finding']} (no client is evaluated with it so far)")
        yield row
        if isinstance(definition, HttpDefinition):
            secret = "what auth_env and headers_env name" if definition.auth_env or definition.headers_env else None
            yield from _unencrypted(check, definition.url, secret)


def _system(name: str, settings: Settings) -> str:
    """What is found of a system without asking it anything.

    Raises:
        SettingsError: a secret is not set, would travel unencrypted, or a function or file is not there.
        RagevalError: its host takes no connection.
    """
    from rageval_dagster.rag.external import load_external

    load_external(name, settings, "doctor")
    definition = settings.systems[name]
    if isinstance(definition, HttpDefinition):
        return (
            f"http: {_reached(definition.url)}; it was asked nothing, so its path and key are untested: "
            f"rageval evaluate --client NAME --system {name} asks it"
        )
    return f"{definition.kind}: can be loaded"


def _webhook(url: SecretStr | None, test: bool) -> str:
    """What is found of a webhook; nothing is sent to it unless asked for.

    Raises:
        RagevalError: it is no address that may be used, or did not take the test message.
    """
    from rageval_dagster.telling.slack import note
    from rageval_dagster.telling.webhook import host_of, post

    if url is None:
        return "not set: nobody is told of incidents; rageval status shows those that are open"
    host = host_of(url)
    if not test:
        return f"at {host}; --test-webhook sends a message to it"
    if trouble := post(url, note("rageval doctor: a test message; this webhook works")):
        raise RagevalError(f"{host} did not take a test message ({trouble}): see RAGEVAL_ALERT_WEBHOOK_URL")
    return f"at {host}; it took a test message"


def _reached(url: str) -> str:
    """Who listens there.

    Raises:
        RagevalError: nobody does, or it is no address.
    """
    scheme, host, port = _address(url)
    if scheme in getproxies() and not proxy_bypass(host):
        return f"{host}:{port}, behind a proxy, so not tried"
    if trouble := _trouble(host, port):
        raise RagevalError(f"{host}:{port} takes no connection ({trouble}); see that it runs, and its address")
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
            yield _row(check, "warning", f"{what} travel unencrypted to {host}: take https")


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
