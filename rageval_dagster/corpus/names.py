"""Client names, and the collections and partitions that stand for them."""

import re
from collections.abc import Mapping
from typing import Any

from rageval_dagster.errors import RagevalError
from rageval_dagster.identity import digest
from rageval_dagster.storage.clients import check_name
from rageval_dagster.storage.tables import CLIENT_ID_LENGTH

CLIENT_KEY = "rageval_client"
"""Collection metadata: the client's own name."""

MADE_BY_US = {"made_by": "rageval"}
"""Metadata of every collection that this project makes."""

SHARED_COLLECTION = "documents"
"""Made where all clients share one collection and there is none yet."""

_FIT_FOR_CHROMA = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._-]{1,510}[a-zA-Z0-9]")
_MADE_KEY = re.compile(r".*~[0-9a-f]{12}", re.DOTALL)
_SLUG_LENGTH = 40


def collection_name(client_id: str) -> str:
    """The client's name where Chroma takes it (3-512 of [a-zA-Z0-9._-]), else a slug of it with a hash."""
    return client_id if _FIT_FOR_CHROMA.fullmatch(client_id) else f"{_slug(client_id)}-{digest(client_id)[:12]}"


def partition_key(client_id: str) -> str:
    """The client's name where Dagster takes it as a partition, else a slug of it with `~` and a hash.

    Dagster reads three dots as a range. A name that looks like a made key gets one, too: no two clients share one.
    """
    fit = "..." not in client_id and client_id.isprintable() and not is_made_key(client_id)
    return client_id if fit else f"{_slug(client_id)}~{digest(client_id)[:12]}"


def is_made_key(key: str) -> bool:
    """Whether a partition key is none that a client's name is by itself."""
    return _MADE_KEY.fullmatch(key) is not None


def _slug(name: str) -> str:
    return re.sub(r"[^a-zA-Z0-9]+", "-", name)[:_SLUG_LENGTH].strip("-") or "client"


def unfit_name(client_id: str) -> str | None:
    """Why no client can have this name, None if one can."""
    try:
        check_name("client name", client_id, CLIENT_ID_LENGTH)
    except RagevalError as error:
        return str(error)
    return None


def is_made_by_us(metadata: Mapping[str, Any]) -> bool:
    return MADE_BY_US.items() <= metadata.items()


def client_name(collection: str, metadata: Mapping[str, Any] | None) -> str:
    """The client that a collection belongs to: the name kept in its metadata, else the collection's own."""
    own = (metadata or {}).get(CLIENT_KEY)
    return own if isinstance(own, str) and own else collection
