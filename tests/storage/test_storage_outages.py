"""A history database that goes away for a moment: what is read and written meanwhile waits, and is done once."""

import threading
import time
from collections.abc import Iterator

import pytest
import sqlalchemy as sa
from sqlalchemy import event

from rageval_dagster.errors import DatabaseError
from rageval_dagster.storage import clients, corpus, database
from rageval_dagster.storage.database import Database, open_database
from rageval_dagster.storage.leases import keep_lease
from tests.cut_proxy import CutProxy

AWAY_S = 2.0

pytestmark = pytest.mark.slow


@pytest.fixture
def proxy(backend: str, new_url: str) -> Iterator[CutProxy]:
    if backend == "sqlite":
        pytest.skip("a file has no server that could go away")
    url = sa.make_url(new_url)
    assert url.host is not None
    with CutProxy(url.host, url.port or {"postgresql": 5432, "mariadb": 3306}[backend]) as between:
        yield between


@pytest.fixture
def away(proxy: CutProxy, new_url: str) -> Iterator[Database]:
    """A database behind the proxy, with one client."""
    opened = open_database(sa.make_url(new_url).set(port=proxy.port).render_as_string(hide_password=False))
    clients.ensure_client(opened, "acme")
    yield opened
    opened.dispose()


def test_reads_and_writes_wait_until_it_is_back(proxy: CutProxy, away: Database) -> None:
    proxy.cut()
    back = threading.Timer(AWAY_S, proxy.restore)
    back.start()
    began = time.monotonic()
    assert clients.observe_probe(away, "acme", "10") == 1
    assert time.monotonic() - began > AWAY_S / 2
    back.join()
    proxy.cut()
    proxy.restore()
    assert clients.get_client(away, "acme").change_seq == 1


def test_a_transaction_that_breaks_off_is_done_again_as_a_whole(proxy: CutProxy, away: Database) -> None:
    breaks = [True]

    def cut_once(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        if breaks and statement.startswith("UPDATE"):
            breaks.pop()
            proxy.cut()
            threading.Timer(AWAY_S, proxy.restore).start()

    event.listen(away.engine, "before_cursor_execute", cut_once)
    assert clients.observe_probe(away, "acme", "10") == 1
    assert breaks == []
    assert clients.get_client(away, "acme").change_seq == 1


def test_the_lease_outlives_it(proxy: CutProxy, away: Database) -> None:
    with keep_lease(away, "acme", "run 1", ttl_s=4 * AWAY_S):
        proxy.cut()
        threading.Timer(AWAY_S, proxy.restore).start()
        corpus.delete_manifest(away, "acme", ["none"])
    assert clients.get_client(away, "acme").lease_holder is None


def test_one_that_stays_away_is_one_clear_line_and_waited_for_once(
    proxy: CutProxy, away: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    away.patience_s = AWAY_S
    proxy.cut()
    for patience in (AWAY_S, 0):
        began = time.monotonic()
        with pytest.raises(DatabaseError, match="check RAGEVAL_DATABASE_URL and that the database runs") as raised:
            clients.observe_probe(away, "acme", "10")
        assert "\n" not in str(raised.value)
        assert time.monotonic() - began >= patience
    proxy.restore()
    assert clients.observe_probe(away, "acme", "10") == 1


def test_one_that_never_was_is_not_waited_for(new_url: str, proxy: CutProxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "OUTAGE_S", 3600)  # longer than a test may take
    proxy.cut()
    with pytest.raises(DatabaseError, match="check RAGEVAL_DATABASE_URL"):
        open_database(sa.make_url(new_url).set(port=proxy.port).render_as_string(hide_password=False))
