"""`rageval serve`: the REST endpoints, on this machine only."""

from typing import Annotated

import typer

from rageval_dagster.app.opening import open_all
from rageval_dagster.cli.console import say
from rageval_dagster.errors import SettingsError

HOST = "127.0.0.1"


def serve(
    port: Annotated[
        int | None, typer.Option(min=1, max=65_535, help="The port; default: RAGEVAL_SERVE_PORT, else 8000.")
    ] = None,
) -> None:
    """Serves the REST endpoints that generate datasets and start evaluations, on 127.0.0.1, behind a bearer token.

    /docs describes them. To be reached from elsewhere, put a proxy with TLS before it.
    """
    import uvicorn

    from rageval_dagster.api import make_app

    settings, db = open_all()
    if settings.serve_token is None:
        raise SettingsError(
            "RAGEVAL_SERVE_TOKEN is not set: whoever has it may start evaluations, so choose a long one, for example "
            "with `openssl rand -hex 32`"
        )
    port = settings.serve_port if port is None else port
    say(f"http://{HOST}:{port}/docs (Ctrl-C ends it)")
    app = make_app(settings, db, settings.serve_token)
    # h11 refuses headers that are too long; the parser that uvicorn would choose takes them without end.
    uvicorn.run(app, host=HOST, port=port, log_level="warning", http="h11")
