"""Processes of their own, which may be killed, and the statements that a process sends to its databases."""

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event

KILLED = -signal.SIGKILL
WRITES = ("INSERT", "UPDATE", "DELETE")


def exit_code_of(target: Callable[..., object], *arguments: object) -> int | None:
    """Runs a function in a new process: no fork, which of other threads would keep only their locks."""
    process = multiprocessing.get_context("spawn").Process(target=target, args=arguments)
    process.start()
    process.join()
    return process.exitcode


def die_at(number: int | None, beginnings: tuple[str, ...] = WRITES) -> Callable[[], int]:
    """From now on this process kills itself before its statement of this number among those that begin so.

    The function that is returned tells how many there were.
    """
    done = 0

    def count(_connection: Any, _cursor: Any, statement: str, *_: object) -> None:
        nonlocal done
        done += statement.strip().startswith(beginnings)
        if done == number:
            os.kill(os.getpid(), signal.SIGKILL)

    event.listen(sa.Engine, "before_cursor_execute", count)
    return lambda: done


@contextmanager
def sent_statements() -> Iterator[list[str]]:
    """What this process sends to any database while the block lasts."""
    sent: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_: object) -> None:
        sent.append(statement)

    event.listen(sa.Engine, "before_cursor_execute", note)
    try:
        yield sent
    finally:
        event.remove(sa.Engine, "before_cursor_execute", note)
