"""Workers, broker, Dagster's definitions and storage: working there, and whether each is as it should be."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pydantic import SecretStr

from rageval_dagster.errors import RagevalError, SettingsError
from rageval_dagster.network import is_loopback
from rageval_dagster.settings import BROKER_VARIABLE, DAGSTER_DATABASE_VARIABLE, Settings
from rageval_dagster.text import plural

if TYPE_CHECKING:
    from sqlalchemy import Engine

_TIMEOUT_S = 3

OF_EVERY_RUN = (
    *("rageval_dagster.definitions", "chromadb", "scipy.stats"),
    *(f"rageval_dagster.evaluation.{name}" for name in ("changes", "stages", "asking", "scoring")),
    *("rageval_dagster.rag.systems", "rageval_dagster.rag.extractive", "rageval_dagster.gate.decision"),
    *("rageval_dagster.telling.run_page", "rageval_dagster.report.files", "rageval_dagster.telling.webhook"),
)
"""What a run of an unchanged night imports; neither torch nor great_expectations."""

Part = tuple[str, str, str]
"""What is looked at; yes, no or warning; and the finding."""


def work(settings: Settings, processes: int, max_runs: int, max_memory_mb: int) -> None:
    """Works on runs until it is stopped; see `automation.worker.work`."""
    from rageval_dagster.automation import worker

    for module in OF_EVERY_RUN:  # before the processes are forked: each has it from the start
        import_module(module)
    worker.work(settings, processes, max_runs, max_memory_mb)


def waiting_runs(settings: Settings) -> dict[str, int] | None:
    """How many of Dagster's runs have not ended, by status; None where its storage does not answer."""
    from rageval_dagster.automation.home import instance_runs

    url = settings.dagster_database_url
    try:
        return instance_runs(settings) if url is None else _server_runs(url)
    except Exception:  # noqa: BLE001 - each of Dagster's storages has its own
        return None


def definitions() -> str:
    """What Dagster loads of this project, in numbers.

    Raises:
        RagevalError: it cannot load it; of another error than ours, its class and first line.
    """
    from rageval_dagster.automation.home import loaded

    try:
        from rageval_dagster.definitions import defs

        return loaded(defs)
    except RagevalError:
        raise
    except Exception as error:  # noqa: BLE001 - Dagster's own, and any of importing
        said = next(iter(str(error).strip().splitlines()), "")
        raise RagevalError(
            f"Dagster cannot load rageval_dagster.definitions ({type(error).__name__}: {said}): dagster definitions "
            "validate -m rageval_dagster.definitions says where"
        ) from None


def _server_runs(url: SecretStr) -> dict[str, int]:
    """As `instance_runs`, of a server; asked directly: for one that is away Dagster waits longer than a scrape."""
    from rageval_dagster.automation.dagster_internals import unfinished_runs

    engine = _engine(url)
    try:
        return unfinished_runs(engine)
    finally:
        engine.dispose()


def parts(settings: Settings) -> Iterator[Part]:
    """What is found of launcher, Dagster's storage, broker and workers, one after the other; nothing on one machine.

    Workers are not looked for where the broker does not work.
    """
    import yaml

    from rageval_dagster.automation.home import differences, missing_packages, prepare_dagster_home

    if settings.launcher == "default" and settings.dagster_database_url is None:
        return
    if missing := missing_packages(settings):
        yield "launcher", "no", missing
        return
    file = prepare_dagster_home(settings) / "dagster.yaml"
    written: Mapping[str, Any] = {}
    try:
        differing = differences(file, settings)
        written = yaml.safe_load(file.read_text(encoding="utf-8")) or {}
    except SettingsError as error:
        yield "launcher", "no", str(error)
    else:
        if differing:
            names = " and ".join(differing)
            told = f"{file} does not match {names}: delete it, and it is written again, or change it"
            yield "launcher", "no", told
        else:
            yield "launcher", "yes", f"{settings.launcher}, as {file} says"
    yield from _of_this_machine_alone(settings, written)
    if settings.dagster_database_url is not None:
        storage = _storage(settings.dagster_database_url)
        if storage[1] == "yes" and "postgres" in (written.get("storage") or {}):
            found = f"{storage[2]}; {file} names Dagster's own class, which opens a connection for each statement"
            found += ": delete it, and it is written again with one that keeps connections open"
            storage = (storage[0], "warning", found)
        yield storage
    if settings.launcher == "celery" and settings.broker_url is not None:
        broker = _broker(settings.broker_url)
        yield broker
        if broker[1] == "yes":
            yield _workers(settings.broker_url, written)


def _of_this_machine_alone(settings: Settings, dagster_yaml: Mapping[str, Any]) -> Iterator[Part]:
    """What is a file or folder here, which runs on other machines do not see; with a broker here, all may be here."""
    if settings.launcher == "default":
        return
    broker = settings.broker_url
    host = None if broker is None else urlsplit(broker.get_secret_value()).hostname
    here = settings.launcher == "celery" and is_loopback(host or "localhost")
    kept = {
        "shared history": ("SQLite", "RAGEVAL_DATABASE_URL to a database in PostgreSQL or MariaDB"),
        "shared documents": ("an embedded Chroma", "RAGEVAL_CHROMA_URL to a Chroma server"),
        "shared reports": ("RAGEVAL_HOME/reports", "RAGEVAL_REPORT_DIR to a folder or URL that all machines share"),
        "Dagster's storage": ("SQLite", f"{DAGSTER_DATABASE_VARIABLE} to a database in PostgreSQL"),
    }
    if not settings.database_url.get_secret_value().startswith("sqlite"):
        del kept["shared history"]
    if settings.chroma_url is not None:
        del kept["shared documents"]
    if settings.report_dir_setting is not None:
        del kept["shared reports"]
    if settings.dagster_database_url is not None or not {"storage", "run_storage"}.isdisjoint(dagster_yaml):
        del kept["Dagster's storage"]
    for part, (what, todo) in kept.items():
        found = f"{what} on this machine: runs on another machine do not see it; set {todo}"
        yield part, "warning" if here else "no", f"{found}, unless all workers run here" if here else found


def _storage(url: SecretStr) -> Part:
    import sqlalchemy as sa
    from sqlalchemy.exc import SQLAlchemyError

    part, where = "Dagster's storage", _place(url)
    engine = _engine(url)
    try:
        with engine.connect() as connection:
            connection.execute(sa.text("SELECT 1"))
    except SQLAlchemyError as error:
        why = " ".join(str(getattr(error, "orig", None) or type(error).__name__).split())
        return part, "no", f"{where} cannot be used ({why}): check that it runs, and {DAGSTER_DATABASE_VARIABLE}"
    finally:
        engine.dispose()
    return part, "yes", f"{where} answers"


def _engine(url: SecretStr) -> "Engine":
    import sqlalchemy as sa

    return sa.create_engine(url.get_secret_value(), connect_args={"connect_timeout": _TIMEOUT_S})


def _broker(url: SecretStr) -> Part:
    from kombu.connection import Connection

    part, where = "broker", _place(url)
    try:
        # With TLS where the server has none, Redis' client would wait for ever.
        limits = {"socket_timeout": _TIMEOUT_S, "socket_connect_timeout": _TIMEOUT_S}
        with Connection(url.get_secret_value(), connect_timeout=_TIMEOUT_S, transport_options=limits) as connection:
            connection.ensure_connection(max_retries=1, timeout=_TIMEOUT_S)
            # Redis refuses a wrong password with the first command.
            connection.default_channel.close()
    except Exception as error:  # noqa: BLE001 - each of the broker's libraries has its own
        why = getattr(error.__cause__, "strerror", None) or " ".join(str(error).split()).rstrip(".")
        return part, "no", f"{where} cannot be used ({why}): check that it runs, and {BROKER_VARIABLE}"
    return part, "yes", f"{where} answers"


def _workers(url: SecretStr, dagster_yaml: Mapping[str, Any]) -> Part:
    from celery import Celery

    with Celery(broker=url.get_secret_value()) as app:
        answered = app.control.inspect(timeout=_TIMEOUT_S).stats() or {}
    processes = [stats["pool"]["max-concurrency"] for name, stats in answered.items() if name.startswith("rageval-")]
    if not processes:
        return "workers", "no", "no worker answers: start rageval worker, with the same settings"
    found = f"{plural(len(processes), 'worker')} for {plural(sum(processes), 'run')} at once"
    runs = ((dagster_yaml.get("concurrency") or {}).get("runs") or {}).get("max_concurrent_runs")
    if isinstance(runs, int) and runs > sum(processes):
        more = f"{found}, and max_concurrent_runs in dagster.yaml is {runs}: runs that wait too long there fail"
        return "workers", "warning", f"{more}; start more workers, or lower it"
    return "workers", "yes", found


def _place(url: SecretStr) -> str:
    """Where a server is, without its user and password."""
    parts = urlsplit(url.get_secret_value())
    try:
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        port = ""
    return f"{parts.scheme.partition('+')[0]} at {parts.hostname or 'localhost'}{port}"
