"""The reports served on loopback, and somebody who logs in to them."""

import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.cookies import Morsel, SimpleCookie
from pathlib import Path
from urllib.parse import quote

import httpx
import uvicorn
from pydantic import SecretStr

from rageval_dagster.api import make_app
from rageval_dagster.settings import load_settings
from rageval_dagster.storage.database import Database

TOKEN = "a-token-of-the-tests"


@dataclass
class Served:
    """A server of the reports in `folder`, whose clock stands still until it is set."""

    port: int
    folder: Path
    now: list[float] = field(default_factory=lambda: [1_000_000.0])

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def browser(self, **headers: str) -> httpx.Client:
        """Keeps cookies, and says of each form that a page of the server sent it, as browsers do."""
        return httpx.Client(base_url=self.origin, headers={"Origin": self.origin, **headers}, timeout=None)

    def logged_in(self) -> httpx.Client:
        client = self.browser()
        assert log_in(client).status_code == 303
        return client


def form_token(answer: httpx.Response) -> str:
    found = re.search(r'name="form" value="([^"]+)"', answer.text)
    assert found is not None
    return found.group(1)


def log_in(client: httpx.Client, token: str = TOKEN, after: str = "", **headers: str) -> httpx.Response:
    address = f"/login?next={quote(after)}" if after else "/login"
    form = {"token": token, "form": form_token(client.get(address))}
    return client.post(address, data=form, headers=headers)


def cookie(answer: httpx.Response, name: str) -> Morsel[str]:
    cookies: SimpleCookie = SimpleCookie()
    for header in answer.headers.get_list("set-cookie"):
        cookies.load(header)
    return cookies[name]


@contextmanager
def serving(db: Database, folder: Path, **variables: str) -> Iterator[Served]:
    """The real server, on loopback, as `rageval serve` runs it."""
    listening = socket.create_server(("127.0.0.1", 0))  # from here on, who comes too early waits
    served = Served(listening.getsockname()[1], folder / "reports")
    settings = load_settings({"RAGEVAL_HOME": str(folder), **variables}, env_file=folder / "none.env")
    app = make_app(settings, db, SecretStr(TOKEN), lambda: served.now[0])
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", http="h11"))
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    try:
        yield served
    finally:
        server.should_exit = True
        thread.join()
