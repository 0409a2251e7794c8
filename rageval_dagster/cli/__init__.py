"""The `rageval` command: one file a group of commands; results on standard output, progress on standard error."""

import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from pathlib import Path

from rageval_dagster.cli.app import app
from rageval_dagster.errors import MAKE_ROOM, RagevalError, is_disk_full
from rageval_dagster.text import showable

_INTERRUPTED, _ENDED, _UNREAD = 128 + signal.SIGINT, 128 + signal.SIGTERM, 128 + signal.SIGPIPE


def main() -> None:
    """Runs the command; an expected error is one line on standard error and its exit code.

    SIGTERM stops a command as Ctrl-C does: leases are given back, and nothing is left half written.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a character that the terminal's encoding lacks ends no command
            stream.reconfigure(errors="backslashreplace")
    with _stopped_by() as came:
        try:
            app()
        except RagevalError as error:
            print(f"rageval: {showable(str(error))}", file=sys.stderr)
            sys.exit(_ENDED if came(signal.SIGTERM) else error.exit_code)
        except Exception as error:
            home = _home()
            if not is_disk_full(error, home):
                raise
            where = getattr(error, "filename", None) or home or "RAGEVAL_HOME"
            print(f"rageval: {where} cannot be written: {MAKE_ROOM}", file=sys.stderr)
            sys.exit(RagevalError.exit_code)
        except (KeyboardInterrupt, SystemExit) as ended:
            if _is_unread():
                sys.exit(_UNREAD)
            if isinstance(ended, SystemExit) and ended.code != _INTERRUPTED:  # what Typer makes of the first
                raise
            print("rageval: interrupted; run the command again", file=sys.stderr)
            sys.exit(_ENDED if came(signal.SIGTERM) else _INTERRUPTED)


def _is_unread() -> bool:
    """Whether nobody reads what is printed, as behind `| head`: no failed gate, for which 1 stands."""
    if sys.stdout is None:  # closed before
        return False
    if type(sys.stdout).__name__ == "PacifyFlushWrapper":  # which Typer puts there then, before it ends with 1
        return True
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return True
    return False


def _home() -> Path | None:
    from rageval_dagster.settings import load_settings

    with suppress(RagevalError):
        return load_settings().home
    return None


@contextmanager
def _stopped_by() -> Iterator[Callable[[signal.Signals], bool]]:
    """While it lasts SIGTERM is like Ctrl-C; what is given tells whether a signal came.

    Python writes down what came whoever handles it: Dagster has handlers of its own while it runs something.
    """
    came, written = socket.socketpair()
    with came, written:
        for each in (came, written):
            each.setblocking(False)
        before = signal.set_wakeup_fd(written.fileno(), warn_on_full_buffer=False)
        handler = signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            yield lambda number: number in _received(came)
        finally:
            signal.signal(signal.SIGTERM, handler)
            signal.set_wakeup_fd(before)


def _received(came: socket.socket) -> bytes:
    with suppress(BlockingIOError):
        return came.recv(1000, socket.MSG_PEEK)
    return b""
