"""`rageval serve`: the reports and the REST endpoints, on this machine only."""

import os
import secrets
import socket
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer
from pydantic import SecretStr

from rageval_dagster.app.opening import open_all
from rageval_dagster.cli.console import say
from rageval_dagster.errors import SettingsError, unwritable
from rageval_dagster.settings import Settings

HOST = "127.0.0.1"
TOKEN_FILE = "serve_token"  # noqa: S105  (its name)
SHORTEST_TOKEN = 16


def serve(
    port: Annotated[
        int | None, typer.Option(min=1, max=65_535, help="The port; default: RAGEVAL_SERVE_PORT, else 8000.")
    ] = None,
) -> None:
    """Serves reports and a labelling page for people, behind a login, and REST endpoints for programs.

    The login and the endpoints (as bearer token) take RAGEVAL_SERVE_TOKEN. If you set no token, the command makes one,
    keeps it in RAGEVAL_HOME, and names its file. /docs describes the endpoints. The server listens on 127.0.0.1: to
    reach it from elsewhere, put a proxy with TLS in front of it.
    """
    import uvicorn

    from rageval_dagster.api import make_app

    settings, db = open_all()
    token, place = _token(settings)
    port = settings.serve_port if port is None else port
    # h11 refuses headers that are too long; the parser that uvicorn would choose takes them without end.
    server = uvicorn.Server(uvicorn.Config(make_app(settings, db, token), log_level="warning", http="h11"))
    try:
        listening = socket.create_server((HOST, port))
    except OSError as error:
        raise SettingsError(
            f"port {port} cannot be used ({error.strerror}): choose another with RAGEVAL_SERVE_PORT"
        ) from None
    say(f"The reports: http://{HOST}:{port} (log in with {place}). The REST endpoints: http://{HOST}:{port}/docs")
    with suppress(KeyboardInterrupt):
        server.run(sockets=[listening])


def _token(settings: Settings) -> tuple[SecretStr, str]:
    """The token, made where there is none, and in words where it stands."""
    if settings.serve_token is not None:
        if len(settings.serve_token.get_secret_value()) < SHORTEST_TOKEN:
            raise SettingsError(
                f"RAGEVAL_SERVE_TOKEN takes at least {SHORTEST_TOKEN} characters, since programs may guess as often as "
                "they like: openssl rand -hex 32 makes one; without the variable, rageval serve makes one itself"
            )
        return settings.serve_token, "RAGEVAL_SERVE_TOKEN"
    path = settings.home / TOKEN_FILE
    try:
        if path.exists() and not _read(path):
            path.unlink()
        if not path.exists():
            handle, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{TOKEN_FILE}-")  # 0600
            with os.fdopen(handle, "w") as file:
                file.write(secrets.token_urlsafe(32) + "\n")
            try:
                os.link(draft, path)
            except FileExistsError:
                pass  # another process was first: its token holds for both
            except OSError:  # a file system without hard links
                Path(draft).replace(path)
            finally:
                Path(draft).unlink(missing_ok=True)
        return SecretStr(_read(path)), f"the token in {path}"
    except OSError as error:
        raise SettingsError(unwritable(f"the token {path} cannot be kept", error, "set RAGEVAL_SERVE_TOKEN")) from None


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except UnicodeDecodeError:
        raise SettingsError(f"the token {path} is not UTF-8: delete the file, and a new one is made") from None
