"""The caches: each client's own, and no older than asked."""

import json
from dataclasses import replace
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy.dialects import postgresql

from rageval_dagster.identity import digest
from rageval_dagster.storage import caches
from rageval_dagster.storage.caches import LlmCall
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.types import JsonText, storable, utc_now


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
    key, another = digest("request"), digest("another")
    caches.save_replies(db, "acme", [(key, "model", "old")])
    caches.save_replies(db, "acme", [(key, "model", "new \x00 🦜")])
    found = caches.load_replies(db, "acme", [key, another], max_age_days=30)
    assert {key: reply.response for key, reply in found.items()} == {key: "new \ufffd 🦜"}
    assert utc_now() - timedelta(minutes=5) < found[key].made_at <= utc_now()
    assert caches.load_replies(db, "acme", [key], max_age_days=0) == {}
    assert caches.load_replies(db, "other", [key], max_age_days=30) == {}


def test_what_calls_took_is_summed_up_by_client_run_and_role(db: Database) -> None:
    call = LlmCall("acme", "judge", "model", 100, 20, 0.5, 1.25, False, 2, None, "run")
    kept = replace(call, prompt_tokens=0, completion_tokens=0, cost_usd=0.0, latency_s=0.0, cache_hit=True, retries=0)
    failed = replace(call, role="answer", cost_usd=None, error="HTTP 500", run_id="later")
    caches.save_replies(db, "acme", [], [call, kept, failed])
    caches.save_replies(db, "other", [], [replace(call, client_id="other")])
    judged = caches.model_usage(db, "acme", "run", "judge")
    assert judged == caches.Usage(2, 1, 0, 2, 100, 20, 0.5, 0, 1.25)
    assert judged.metadata()["cost_usd"] == 0.5
    everything = caches.model_usage(db, since=utc_now() - timedelta(hours=1))
    assert (everything.requests, everything.errors, everything.unpriced, everything.cost_usd) == (4, 1, 1, 1.0)
    assert "cost_usd" not in everything.metadata()
    assert caches.model_usage(db, since=utc_now() + timedelta(hours=1)) == caches.Usage()


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
