"""Client names and the collections that stand for them."""

import re
from collections.abc import Mapping
from typing import Any

from rageval_dagster.identity import digest

CLIENT_KEY = "rageval_client"
"""Collection metadata: the client's own name."""

MADE_BY_US = {"made_by": "rageval"}
"""Metadata of every collection that this project makes."""

SHARED_COLLECTION = "documents"
"""Made where all clients share one collection and there is none yet."""

_FIT_FOR_CHROMA = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._-]{1,510}[a-zA-Z0-9]")
_SLUG_LENGTH = 40


def collection_name(client_id: str) -> str:
    """The client's name where Chroma takes it (3-512 of [a-zA-Z0-9._-]), else a slug of it with a hash."""
    if _FIT_FOR_CHROMA.fullmatch(client_id):
        return client_id
    slug = re.sub(r"[^a-zA-Z0-9]+", "-", client_id)[:_SLUG_LENGTH].strip("-")
    return f"{slug or 'client'}-{digest(client_id)[:12]}"


def is_made_by_us(metadata: Mapping[str, Any]) -> bool:
    return MADE_BY_US.items() <= metadata.items()


def client_name(collection: str, metadata: Mapping[str, Any] | None) -> str:
    """The client that a collection belongs to: the name kept in its metadata, else the collection's own."""
    own = (metadata or {}).get(CLIENT_KEY)
    return own if isinstance(own, str) and own else collection
