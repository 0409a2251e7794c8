"""Which clients there are, which one of them is meant, and which are evaluated."""

import difflib
import re
from collections.abc import Sequence

from rageval_dagster.app.opening import Tell, open_all
from rageval_dagster.corpus.store import open_store
from rageval_dagster.errors import DatabaseError, RagevalError, SettingsError, StoreError
from rageval_dagster.settings import Settings
from rageval_dagster.storage.clients import list_clients
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.forgetting import left_alone

_ALIKE = 0.8
"""As alike as a name with one slip in five letters."""


def require_client(settings: Settings, client: str, tell: Tell) -> None:
    """Refuses a client that has no table of its own and that neither history nor document store know.

    Where one of these cannot be asked, that is told, and the client passes.

    Raises:
        SettingsError: there is no such client; it names the one that may be meant.
    """
    if client in settings.source.client_names:
        return
    try:
        known = _known_clients(settings, open_all()[1], client)
    except (StoreError, DatabaseError) as error:
        tell(f"cannot tell whether there is a client {client!r}: {error}")
        return
    if client not in known:
        near = difflib.get_close_matches(client, sorted(known), n=1)
        meant = f" (did you mean {near[0]!r}?)" if near else ""
        raise SettingsError(f"there is no client {client!r}{meant}; `rageval clients list` lists the clients")


def meant_instead(settings: Settings, db: Database, client: str) -> str | None:
    """The known client that a new one's name is like; None where the client is known, or its name like no other.

    Names that differ in their numbers only, or in a last part as short as a country's, are a row of customers, and no
    slip: tenant-de, tenant-es.
    """
    known = _known_clients(settings, db, client)
    if client in known:
        return None
    same = sorted(name for name in known if _spelt(name) == _spelt(client))
    others = sorted(name for name in known if _row_of(name) != _row_of(client))
    return next(iter(same or difflib.get_close_matches(client, others, n=1, cutoff=_ALIKE)), None)


def _known_clients(settings: Settings, db: Database, client: str) -> set[str]:
    """The clients that settings, history and document store know; what knows `client` is the last that is asked."""
    known = set(settings.source.client_names)
    if client not in known:
        known.update(each.client_id for each in list_clients(db))
    if client not in known:
        known.update(open_store(settings).clients())
    return known


def _spelt(name: str) -> str:
    """A name without its case and punctuation."""
    return re.sub(r"[\W_]+", "", name).casefold()


def _row_of(name: str) -> str:
    """What the names of a row of customers have in common."""
    parts = [part for part in re.split(r"[\W\d_]+", name.casefold()) if part]
    return "".join(parts[:-1] if len(parts) > 1 and len(parts[-1]) <= 2 else parts)


def chosen_clients(settings: Settings, db: Database, named: Sequence[str], tell: Tell) -> list[str]:
    """The named clients, or (without any) all that the document store knows but forgotten ones.

    Tables of rageval.toml that may be meant for them, and are of nobody whom the store knows, are told.

    Raises:
        RagevalError: an unknown client, a store without any.
    """
    store = open_store(settings)
    for client in named:
        store.probe(client)  # says so where the store does not know the client
    known = store.clients()
    tables = settings.source.client_names
    for name in [name for name in tables if name not in known]:
        near = difflib.get_close_matches(name, [each for each in known if each not in tables], n=1)
        if not named or (near and near[0] in named):
            meant = f"; did you mean {near[0]}?" if near else ""
            tell(f"rageval.toml has a table for {name}, which the document store does not know{meant}")
    if named:
        return list(named)
    forgotten = left_alone(db, known)
    clients = [name for name in known if name not in forgotten]
    if not clients:
        raise RagevalError(
            f"the document store has no clients yet{' except forgotten ones' if forgotten else ''}: load documents "
            "with rageval ingest PATH --client NAME"
        )
    return clients
