"""A process that has imported all there is, and evaluates in forks of itself: they start at once, and can be killed.

As a program it reads a line of JSON for each run from its standard input, and prints the fork's number and its end.
"""

import json
import os
import subprocess
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.processes import die_at

ROOT = Path(__file__).parents[2]

FAILED = 2
"""The exit status of a run that failed and said why."""


class WarmProcess:
    """Starts one evaluation at a time."""

    def __init__(self, program: "subprocess.Popen[str]") -> None:
        self._program = program

    def start(
        self, folder: Path, environment: Mapping[str, str], client: str, trigger: str, die_at: int | None = None
    ) -> int:
        """The number of the process that evaluates a client as the sensor's runs do; its output goes to `run.log`.

        It kills itself before the statement of this number that writes to a database. One that lives on leaves the
        number of them in `writes`.
        """
        run = {
            "folder": str(folder),
            "environment": dict(environment),
            "client": client,
            "trigger": trigger,
            "die_at": die_at,
        }
        assert self._program.stdin is not None
        self._program.stdin.write(json.dumps(run) + "\n")
        self._program.stdin.flush()
        return int(self._line())

    def wait(self) -> int:
        """The exit status, or minus the number of the signal that ended it."""
        return int(self._line())

    def _line(self) -> str:
        assert self._program.stdout is not None
        return self._program.stdout.readline()


@contextmanager
def warm_process() -> Iterator[WarmProcess]:
    command = [sys.executable, "-m", "tests.pipeline.warm_process"]
    program = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert program.stdout is not None
        assert program.stdout.readline() == "ready\n"
        yield WarmProcess(program)
    finally:
        assert program.stdin is not None
        program.stdin.close()
        program.wait(timeout=60)


def main() -> None:
    """Reads runs until its input ends."""
    import alembic.command
    import chromadb
    import great_expectations
    import openai

    from rageval_dagster import definitions
    from rageval_dagster.automation import launch

    assert all((alembic.command, chromadb, great_expectations, openai, definitions, launch))
    print("ready", flush=True)
    for line in sys.stdin:
        number = os.fork()
        if number == 0:
            os._exit(_evaluate(json.loads(line)))
        print(number, flush=True)
        _, status = os.waitpid(number, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _evaluate(run: dict[str, Any]) -> int:
    from rageval_dagster.automation.launch import launch
    from rageval_dagster.definitions import defs
    from rageval_dagster.settings import load_settings

    writes = die_at(run["die_at"])
    try:
        os.chdir(run["folder"])
        os.environ.clear()
        os.environ.update(run["environment"])
        log = os.open("run.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(log, 1)
        os.dup2(log, 2)
        launched = launch(defs, load_settings(), run["client"], run["trigger"], {"only_if_changed": True}, print)
    except BaseException:  # noqa: BLE001 - a fork must not go on as its parent
        traceback.print_exc()
        return 1
    Path("writes").write_text(str(writes()), encoding="utf-8")
    if launched.failure is not None:
        print(launched.failure, file=sys.stderr, flush=True)
    return 0 if launched.failure is None else FAILED


if __name__ == "__main__":
    main()
