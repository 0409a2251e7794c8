"""Client names, metadata fields and versions: the pure parts."""

import re
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rageval_dagster.corpus.fields import FieldNames, read_chunk, read_time, read_whole_number
from rageval_dagster.corpus.names import CLIENT_KEY, client_name, collection_name
from rageval_dagster.corpus.scanning import chunk_digest, vector_digest, version_of
from rageval_dagster.records import Chunk

NAMES = FieldNames("document_id", "added_at", "page")


@given(st.text(min_size=1, max_size=200))
def test_every_client_name_becomes_a_collection_name_that_chroma_takes(client_id: str) -> None:
    assert re.fullmatch(r"[a-zA-Z0-9][a-zA-Z0-9._-]{1,510}[a-zA-Z0-9]", collection_name(client_id))


@given(st.text(min_size=1, max_size=20), st.text(min_size=1, max_size=20))
def test_two_clients_never_share_a_collection(one: str, other: str) -> None:
    assert (collection_name(one) == collection_name(other)) == (one == other)


def test_fit_names_stay_and_unfit_ones_are_read_back_from_the_metadata() -> None:
    assert collection_name("acme-docs.v2") == "acme-docs.v2"
    name = collection_name("Müller & Söhne")
    assert name.startswith("M-ller-S-hne-")
    assert client_name(name, {CLIENT_KEY: "Müller & Söhne"}) == "Müller & Söhne"
    assert client_name("theirs", None) == "theirs"


@pytest.mark.parametrize(
    ("metadata", "document"),
    [
        ({"document_id": "a.md", "source": "b"}, "a.md"),
        ({"document_id": 7}, "7"),
        ({"document_id": 7.0}, "7"),
        ({"document_id": 7.5}, "7.5"),
        ({"document_id": float("inf"), "source": " "}, "c1"),
        ({"document_id": ["a", "b"], "source": None}, "c1"),
        ({"document_id": "a\0b"}, "a\ufffdb"),
        ({"document_id": "", "source": "b"}, "b"),
        ({"document_id": True, "source": "b"}, "b"),
        ({"source": ["x"]}, "c1"),
        ({}, "c1"),
        (None, "c1"),
    ],
)
def test_the_document_comes_from_its_field_else_source_else_the_chunk(metadata: dict, document: str) -> None:
    assert read_chunk("c1", "text", metadata, NAMES).document_id == document


@pytest.mark.parametrize(
    ("metadata", "title"),
    [
        ({"document_id": "8f3c", "title": "  The   plums ", "file_name": "plums.md"}, "The plums"),
        ({"document_id": "8f3c", "file_name": "plums.md", "source": "/srv/plums.md"}, "plums.md"),
        ({"document_id": "8f3c", "title": True, "source": "/srv/plums.md"}, "/srv/plums.md"),
        ({"document_id": "plums.md", "title": "plums.md"}, None),
        ({"source": "/srv/plums.md"}, None),  # that is the document itself
    ],
)
def test_the_title_comes_from_what_people_call_the_document(metadata: dict, title: str | None) -> None:
    assert read_chunk("c1", "text", metadata, NAMES).title == title


@pytest.mark.parametrize(
    "value",
    [
        *("2024-05-01T12:00:00+00:00", "2024-05-01T14:00:00+02:00", "2024-05-01T12:00:00Z", "2024-05-01 12:00:00"),
        *(1714564800, 1714564800.0, "1714564800", 1714564800000, "1714564800000"),
    ],
)
def test_times_are_read_as_utc_whatever_they_were_written_as(value: object) -> None:
    assert read_time(value) == datetime(2024, 5, 1, 12, tzinfo=UTC)


@given(st.one_of(st.none(), st.booleans(), st.text(), st.floats(), st.integers(), st.lists(st.integers())))
def test_no_value_makes_reading_fail(value: object) -> None:
    chunk = read_chunk("c1", "text", {"added_at": value, "page": value, "position": value, "source": value}, NAMES)
    assert chunk.page is None or 0 <= chunk.page < 2**31
    assert chunk.added_at is None or chunk.added_at.tzinfo is UTC


@pytest.mark.parametrize(
    ("value", "number"), [(3, 3), (3.0, 3), ("3", 3), (3.5, None), (-1, None), (True, None), ("iv", None)]
)
def test_whole_numbers(value: object, number: int | None) -> None:
    assert read_whole_number(value) == number


CHUNKS = st.lists(
    st.builds(
        Chunk,
        id=st.text(max_size=3),
        text=st.text(max_size=5),
        document_id=st.text(max_size=3),
        page=st.none() | st.integers(0, 3),
    ),
    max_size=8,
)


@given(CHUNKS, CHUNKS, st.randoms())
def test_a_version_updated_by_difference_equals_one_from_scratch(before: list, after: list, random) -> None:
    digests = sum(map(chunk_digest, before))
    steps = [*(-chunk_digest(chunk) for chunk in before), *map(chunk_digest, after)]
    random.shuffle(steps)
    assert version_of(digests + sum(steps)) == version_of(sum(map(chunk_digest, after)))


def test_whatever_identifies_a_chunk_moves_its_digest() -> None:
    chunks = [
        Chunk("a", "text", "d"),
        Chunk("b", "text", "d"),
        Chunk("a", "texts", "d"),
        Chunk("a", "text", "e"),
        Chunk("a", "text", "d", page=1),
        Chunk("at", "ext", "d"),
    ]
    assert len({chunk_digest(chunk) for chunk in chunks}) == len(chunks)
    assert chunk_digest(chunks[0]) == chunk_digest(Chunk("a", "text", "d", position=4, added_at=datetime.now(UTC)))
    assert vector_digest("a", b"1234") != vector_digest("a", b"1235")
