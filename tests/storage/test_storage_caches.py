"""The caches: each client's own, and no older than asked."""

import json

import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy.dialects import postgresql

from rageval_dagster.identity import digest
from rageval_dagster.storage import caches
from rageval_dagster.storage.caches import LlmCall
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.tables import llm_calls
from rageval_dagster.storage.types import JsonText, storable


def test_vectors_come_back_bit_by_bit_for_their_client_and_model_only(db: Database) -> None:
    vectors = {digest(str(n)): bytes(range(256)) * 6 for n in range(1500)}
    caches.save_vectors(db, "acme", "model/" + "x" * 1000, vectors)
    caches.save_vectors(db, "acme", "model/" + "x" * 1000, {digest("0"): b"other"})
    assert caches.load_vectors(db, "acme", "model/" + "x" * 1000, [*vectors, digest("none")]) == vectors
    assert caches.load_vectors(db, "acme", "model/" + "x" * 999, vectors) == {}
    assert caches.load_vectors(db, "other", "model/" + "x" * 1000, vectors) == {}
    caches.save_vectors(db, "acme", "model", {})
    assert caches.load_vectors(db, "acme", "model", []) == {}


def test_a_response_is_kept_for_its_client_and_its_age(db: Database) -> None:
    caches.llm_put(db, "acme", digest("request"), "model", "old")
    caches.llm_put(db, "acme", digest("request"), "model", "new \x00 🦜")
    assert caches.llm_get(db, "acme", digest("request"), max_age_days=30) == "new \ufffd 🦜"
    assert caches.llm_get(db, "acme", digest("request"), max_age_days=0) is None
    assert caches.llm_get(db, "other", digest("request"), max_age_days=30) is None
    assert caches.llm_get(db, "acme", digest("another"), max_age_days=30) is None


def test_every_call_is_recorded(db: Database) -> None:
    call = LlmCall("acme", "judge", "model", 100, 20, 0.0015, 1.25, False, 2, None, "run")
    caches.record_calls(db, [call, call])
    caches.record_calls(db, [])
    with db.connect() as connection:
        rows = connection.execute(sa.select(llm_calls.c.prompt_tokens, llm_calls.c.cost_usd)).all()
    assert [tuple(row) for row in rows] == [(100, 0.0015)] * 2


@given(st.text(st.characters(exclude_categories=())))
def test_what_is_stored_has_nothing_a_database_refuses_and_the_rest_is_kept(text: str) -> None:
    stored = storable(text)
    stored.encode()
    assert "\x00" not in stored
    assert len(stored) == len(text)
    assert all(kept == given or kept == "\ufffd" for kept, given in zip(stored, text, strict=True))


_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=())),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(_JSON)
def test_json_comes_back_as_it_was(value: object) -> None:
    dialect = postgresql.dialect()
    stored = JsonText().process_bind_param(value, dialect)
    if stored is None:
        assert value is None
        return
    stored.encode()
    assert "\x00" not in stored
    assert joined(JsonText().process_result_value(stored, dialect)) == joined(value)


def joined(value: object) -> str:
    """The value's text; two surrogates side by side are one character to JSON."""
    return (
        json.dumps(value, sort_keys=True, ensure_ascii=False)
        .encode("utf-16", "surrogatepass")
        .decode("utf-16", "replace")
    )
