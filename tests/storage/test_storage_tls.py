"""A database on another machine is spoken to by TLS; one on this machine as before."""

import ssl
from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import event

from rageval_dagster.errors import SettingsError
from rageval_dagster.storage.database import open_database

POSTGRES, MYSQL = "postgresql+psycopg://me:s3cret", "mysql+pymysql://me:s3cret"


class Connecting(Exception):
    """Raised in place of a connection, with what the driver would have been given."""


@pytest.fixture
def _caught(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("PGSSLMODE", raising=False)

    def catch(_dialect: Any, _record: Any, _arguments: Any, parameters: dict[str, Any]) -> None:
        raise Connecting(parameters)

    event.listen(sa.Engine, "do_connect", catch)
    yield
    event.remove(sa.Engine, "do_connect", catch)


def given(url: str) -> dict[str, Any]:
    with pytest.raises(Connecting) as caught:
        open_database(url)
    return caught.value.args[0]


@pytest.mark.usefixtures("_caught")
@pytest.mark.parametrize(
    ("rest", "mode"),
    [
        ("@db.example.org/history", "require"),
        ("@10.0.0.7:5432/history?options=-csearch_path%3Drageval", "require"),
        ("@[2001:db8::7]/history", "require"),
        ("@/history?host=127.0.0.1,db.example.org", "require"),
        ("@/history?host=127.0.0.1&host=db.example.org:5432", "require"),
        ("@localhost/history?hostaddr=10.0.0.7", "require"),
        ("@db.example.org/history?sslmode=require", "require"),
        ("@db.example.org/history?sslmode=verify-full&sslrootcert=system", "verify-full"),
        # Without a host: a socket, of which libpq ignores the mode, or what PGHOST names.
        ("@/history", "require"),
        ("@127.0.0.1/history", None),
        ("@127.8.8.8/history", None),
        ("@[::1]/history", None),
        ("@localhost/history", None),
        ("@localhost/history?sslmode=disable", "disable"),
        ("@/history?host=/var/run/postgresql", None),
    ],
)
def test_postgresql_off_this_machine_needs_tls(rest: str, mode: str | None) -> None:
    assert given(POSTGRES + rest).get("sslmode") == mode


@pytest.mark.usefixtures("_caught")
@pytest.mark.parametrize("mode", ["disable", "allow", "prefer"])
def test_a_mode_that_may_do_without_tls_is_refused(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingsError, match=f"sslmode={mode}, and db.example.org is another machine") as caught:
        open_database(f"{POSTGRES}@db.example.org/history?sslmode={mode}")
    assert "s3cret" not in str(caught.value)
    monkeypatch.setenv("PGSSLMODE", mode)
    with pytest.raises(SettingsError, match=f"sslmode={mode}"):
        open_database(f"{POSTGRES}@db.example.org/history")


@pytest.mark.usefixtures("_caught")
def test_a_stronger_mode_of_the_environment_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGSSLMODE", "verify-full")
    assert given(f"{POSTGRES}@db.example.org/history")["sslmode"] == "verify-full"


@pytest.mark.usefixtures("_caught")
def test_mariadb_off_this_machine_needs_tls() -> None:
    assert isinstance(given(f"{MYSQL}@db.example.org/history")["ssl"], ssl.SSLContext)
    for local in ("@127.0.0.1/history", "@/history", "@localhost/history", "@/history?unix_socket=/run/mysqld.sock"):
        assert "ssl" not in given(MYSQL + local)
    named = given(f"{MYSQL}@db.example.org/history?ssl_ca=/etc/ca.pem")
    assert named["ssl"] == {"ca": "/etc/ca.pem"}
    with pytest.raises(SettingsError, match=r"ssl_disabled, and .* is another machine"):
        open_database(f"{MYSQL}@db.example.org/history?ssl_disabled=true")
