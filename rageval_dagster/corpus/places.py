"""Which collections of a store, or which values of its client field, are clients, and which are not and why."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from rageval_dagster.corpus.backends import Backend
from rageval_dagster.corpus.chroma_internals import Collection, FieldValue
from rageval_dagster.corpus.fields import read_name
from rageval_dagster.corpus.names import client_name, collection_name, is_made_by_us, unfit_name
from rageval_dagster.errors import SettingsError, StoreError
from rageval_dagster.settings import Settings


@dataclass(frozen=True)
class Place:
    """Where a client's chunks are: a whole collection, or those of it whose client field has one of `values`."""

    collection: Collection
    values: tuple[FieldValue, ...] = ()


@dataclass(frozen=True)
class Survey:
    """Where every client's chunks are, and (name, reason) of what looks like a client and is none.

    `refused` are those of them that no setting leaves out: they would be clients under another name.
    `shared` is the collection that several clients share, if there is one; `named_chunks` is how many of its chunks
    say whose they are.
    """

    places: Mapping[str, Place]
    left_out: Sequence[tuple[str, str]]
    refused: Sequence[tuple[str, str]]
    shared: Collection | None
    named_chunks: int


def survey(settings: Settings, backend: Backend) -> Survey:
    """Finds the clients.

    Without a client field each collection is one: under the name that a table of rageval.toml gives it, else the
    one it was made for, else its own. With it, each value in the shared collection is one; a collection that a table
    names is a client of its own beside them.

    Raises:
        SettingsError: rageval.toml names a shared collection, and there is no client field.
        StoreError: with a client field, it is not clear which collection is the shared one.
    """
    collections = backend.collections()
    tables = settings.source.collections()
    shared = _shared(settings, collections, tables, backend.location)
    values = backend.values(shared, settings.client_field) if shared and settings.client_field else []
    places: dict[str, Place] = {}
    left_out: list[tuple[str, str]] = []
    refused: list[tuple[str, str]] = []
    for name, client_id, place in [*_collections(collections, tables, shared), *_values(shared, values)]:
        chosen_out = _chosen_out(settings, name, client_id, place, tables)
        unfit = _unfit(client_id, place, places)
        if chosen_out is not None:
            left_out.append((name, chosen_out))
        elif unfit is not None:
            refused.append((name, unfit))
        else:
            places[client_id] = place
    named_chunks = sum(value.chunks for value in values if read_name(value.value) is not None)
    return Survey(places, sorted(left_out + refused), sorted(refused), shared, named_chunks)


def certain_place(settings: Settings, backend: Backend, client_id: str) -> Place | None:
    """Where `survey` finds a client for which we made a collection of its own, from a look at that one alone.

    None where there is no such collection, where settings have a say, and where all are as easily looked at.
    """
    name = collection_name(client_id)
    if settings.client_field is not None or settings.collection is not None or unfit_name(client_id) is not None:
        return None
    tables = settings.source.collections()
    if name in tables or client_id in tables.values() or left_out_by_pattern(settings, name, client_id) is not None:
        return None
    found = backend.collection(name)
    made = found is not None and is_made_by_us(found.metadata) and client_name(name, found.metadata) == client_id
    return Place(found) if found is not None and made else None


def left_out_by_pattern(settings: Settings, *names: str) -> str | None:
    """Which setting leaves out a client that goes by these names, None if it stays."""
    excluding = next((pattern for pattern in settings.exclude for name in names if fnmatchcase(name, pattern)), None)
    if excluding is not None:
        return f"exclude has {excluding!r}"
    included = any(fnmatchcase(name, pattern) for pattern in settings.include for name in names)
    return None if included else f"include has only {', '.join(map(repr, settings.include)) or '[]'}"


def _shared(
    settings: Settings, collections: Sequence[Collection], tables: Mapping[str, str], location: str
) -> Collection | None:
    """The collection that clients share; None where there is no client field, or no collection yet."""
    if settings.client_field is None:
        if settings.collection is not None:
            raise SettingsError(
                f"rageval.toml [defaults] names the collection {settings.collection!r} for all clients: that requires "
                "client_field, which tells them apart in it; include = [NAME] chooses among collections"
            )
        return None
    if settings.collection is not None:
        named = [collection for collection in collections if collection.name == settings.collection]
        if collections and not named:
            raise StoreError(
                f"rageval.toml [defaults] names the collection {settings.collection!r}, which {location} does not have"
            )
        return next(iter(named), None)
    candidates = [collection for collection in collections if collection.name not in tables] or collections
    if len(candidates) > 1:
        raise StoreError(
            f"RAGEVAL_CLIENT_FIELD needs a store with one collection, and {location} has {len(candidates)}: "
            "name the one that the clients share in rageval.toml (collection in [defaults]), or unset it for one "
            "client per collection"
        )
    return next(iter(candidates), None)


def _collections(
    collections: Sequence[Collection], tables: Mapping[str, str], shared: Collection | None
) -> Iterator[tuple[str, str, Place]]:
    """(own name, client, place) of every collection but the shared one; what is certain comes first."""

    def doubt(collection: Collection) -> tuple[bool, bool, bool, str]:
        own_name = collection_name(client_name(collection.name, collection.metadata))
        named, ours = collection.name in tables, is_made_by_us(collection.metadata)
        return not named, not ours, collection.name != own_name, collection.name

    for collection in sorted(collections, key=doubt):
        if collection != shared:
            client_id = tables.get(collection.name) or client_name(collection.name, collection.metadata)
            yield collection.name, client_id, Place(collection)


def _values(shared: Collection | None, values: Sequence[FieldValue]) -> Iterator[tuple[str, str, Place]]:
    """(client, client, place) of every client of the shared collection, whatever types its name was written with."""
    by_client: dict[str, list[FieldValue]] = {}
    for value in values:
        client_id = read_name(value.value)
        if client_id is not None:
            by_client.setdefault(client_id, []).append(value)
    for client_id, own in sorted(by_client.items()):
        if shared is not None:
            # Text first: what is added goes there.
            own.sort(key=lambda value: (not isinstance(value.value, str), type(value.value).__name__))
            yield client_id, client_id, Place(shared, tuple(own))


def _chosen_out(settings: Settings, name: str, client_id: str, place: Place, tables: Mapping[str, str]) -> str | None:
    """Which setting says that this is no client, None if none does."""
    if not place.values and place.collection.name in tables:
        return None
    if settings.client_field is not None and not place.values:
        return "it is not the collection that the clients share"
    return left_out_by_pattern(settings, name, client_id)


def _unfit(client_id: str, place: Place, places: Mapping[str, Place]) -> str | None:
    """Why this cannot be a client, None if it can."""
    # Chroma compares 7.5 with whole numbers as if it were 7: the client would get another's chunks.
    if any(isinstance(value.value, float) and not value.value.is_integer() for value in place.values):
        return "a number with a fraction is not a name"
    if client_id in places:
        return f"client {client_id!r} is the collection {places[client_id].collection.name!r}"
    return unfit_name(client_id)
