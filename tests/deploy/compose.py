"""deploy/compose.yaml, read as Docker Compose reads it, and its services as processes of this machine.

A service keeps its command and its variables; hosts, ports, folders and databases become those of a test.
"""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
import yaml

from tests.loopback import free_port

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
PORTS = {"postgres": 5432, "redis": 6379, "chroma": 8000, "code-server": 4000, "webserver": 3000}
_VARIABLE = re.compile(r"\$\$|\$\{(\w+)(?::([-?])([^}]*))?\}")


def compose(variables: Mapping[str, str]) -> dict[str, Any]:
    """The file with its variables filled in; KeyError for one that is needed and not there."""

    def filled(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: filled(each) for key, each in value.items()}
        if isinstance(value, list):
            return [filled(each) for each in value]
        return _VARIABLE.sub(fill, value) if isinstance(value, str) else value

    def fill(found: re.Match[str]) -> str:
        name, kind, default = found.groups()
        if name is None:
            return "$"
        return variables.get(name) or (default if kind == "-" else variables[name])

    return filled(yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8")))


class Fleet:
    """The services of compose.yaml over a folder, started and killed one by one."""

    def __init__(self, folder: Path, history_url: str, dagster_url: str, variables: Mapping[str, str]) -> None:
        """The URLs are those of two databases of the test; `variables` stand in rageval.env."""
        self.folder = folder
        self.home, self.config = folder / "home", folder / "config"
        self.config.mkdir()
        given = {"POSTGRES_PASSWORD": "p", "REDIS_PASSWORD": "r3dis", "RAGEVAL_SERVE_TOKEN": "token-of-the-fleet"}
        self.services: dict[str, dict[str, Any]] = compose(given)["services"]
        self._databases = {"rageval": sa.make_url(history_url), "dagster": sa.make_url(dagster_url)}
        self._ports = {name: free_port() for name in PORTS}
        self._variables = dict(variables)
        self._running: list[subprocess.Popen[bytes]] = []
        workspace = yaml.safe_load((DEPLOY / "workspace.yaml").read_text(encoding="utf-8"))
        for target in workspace["load_from"]:
            server = target["grpc_server"]
            assert server["port"] == PORTS[server["host"]]
            server |= {"port": self._ports[server["host"]], "host": "127.0.0.1"}
        (folder / "workspace.yaml").write_text(yaml.safe_dump(workspace), encoding="utf-8")

    def port(self, service: str) -> int:
        return self._ports[service]

    def environment(self, service: str) -> dict[str, str]:
        """What the container would have, beside what every process here needs."""
        own = {name: self._here(value) for name, value in self.services[service].get("environment", {}).items()}
        kept = {name: os.environ[name] for name in ("HOME", "LANG", "TZ") if name in os.environ}
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        file = self._variables if "env_file" in self.services[service] else {}
        return {**kept, "PATH": path, "PYTHONPATH": str(ROOT), **file, **own}

    def start(self, service: str, command: list[str] | None = None) -> "subprocess.Popen[bytes]":
        """A service, or another command in its place."""
        said = self.services[service]
        words = [*said.get("entrypoint", []), *(said["command"] if command is None else command)]
        if said.get("image", "").startswith("rageval:"):
            words = [str(DEPLOY / "entrypoint.sh"), *words]
        words = [self._word(service, word) for word in words]
        if service == "redis":  # its image listens to other containers, on this port, and keeps its data there
            words += ["--port", str(self.port("redis")), "--dir", str(self._made("redis"))]
        with self.log(service).open("ab") as log:
            started = subprocess.Popen(
                words, cwd=self.config, env=self.environment(service), stdout=log, stderr=log, start_new_session=True
            )
        self._running.append(started)
        return started

    def log(self, service: str) -> Path:
        return self.folder / f"{service}.log"

    def kill(self, process: "subprocess.Popen[bytes]") -> None:
        """`kill -9` of a service with all its processes, as when its container is killed."""
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        self._running.remove(process)

    def stop(self) -> None:
        """All services, the last started first, as `docker compose down` does."""
        for process in reversed(self._running):
            process.terminate()
            try:
                process.wait(timeout=40)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def _word(self, service: str, word: str) -> str:
        if word == str(PORTS.get(service)):
            return str(self.port(service))
        if word == "/opt/rageval/deploy/workspace.yaml":
            return str(self.folder / "workspace.yaml")
        if word == "/data":
            return str(self._made(service))
        return "127.0.0.1" if word == "0.0.0.0" else self._here(word)

    def _made(self, service: str) -> Path:
        folder = self.folder / f"{service}-data"
        folder.mkdir(exist_ok=True)
        return folder

    def _here(self, text: str) -> str:
        if text.startswith("postgresql"):
            url = sa.make_url(text)
            there = self._databases[str(url.database)]
            assert (url.host, url.port) == ("postgres", PORTS["postgres"])
            return there.set(drivername=url.drivername).render_as_string(hide_password=False)
        for name, port in PORTS.items():
            text = re.sub(rf"\b{name}:{port}\b", f"127.0.0.1:{self.port(name)}", text)
        return text.replace("/var/lib/rageval", str(self.home))


@contextmanager
def running(fleet: Fleet) -> Iterator[Fleet]:
    try:
        yield fleet
    finally:
        fleet.stop()
