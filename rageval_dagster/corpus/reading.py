"""Reading files in warm processes of their own, which may crash or be killed: a file costs its own documents at most.

A worker imports nothing heavy. It gets a file's name and answers with a message a document, as JSON: a process that a
hostile file took over cannot send code. It ends with the process that started it, however that ends.
"""

import json
import os
import resource
import select
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from rageval_dagster.corpus.readers import FILE_S, MEMORY_BYTES, TOO_LARGE, Document, ReadError, Section, read_documents
from rageval_dagster.corpus.splitting import ChunkSize, cut
from rageval_dagster.errors import class_and_place

TICK_S = 1.0
"""How long an ingestion waits before it tells which file it waits for, and looks at the worker's memory."""

_WORKERS = 2

_ROOT = Path(__file__).parents[2]
_START = f"import sys; sys.path.append(sys.argv.pop(1)); from {__name__} import main; main()"
"""Where this package is comes last: nothing beside it, or in the user's own folder, stands for a module of Python's."""


def read_files(
    paths: Sequence[Path], size: ChunkSize
) -> Generator[tuple[Path, Document | ReadError | None], None, None]:
    """What `read_documents` finds in each file, in order, with a section for each piece of that size.

    An error for the rest of a file where its reader died, was too slow or took too much memory. None now and then
    while a file is waited for.
    """
    coming = iter(paths)
    busy: deque[tuple[Path, _Worker]] = deque()
    with ExitStack() as workers:
        for path in paths[:_WORKERS]:
            busy.append((next(coming), workers.enter_context(_Worker(size))))
            busy[-1][1].ask(path)
        while busy:
            path, worker = busy.popleft()
            for found in worker.answers():
                yield path, found
            following = next(coming, None)
            if following is not None:
                if not worker.is_alive:
                    worker = workers.enter_context(_Worker(size))
                worker.ask(following)
                busy.append((following, worker))


class _Worker:
    """A process that reads one file at a time."""

    def __init__(self, size: ChunkSize) -> None:
        self._pipe, theirs = Pipe()
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603
                [
                    sys.executable,
                    "-P",
                    "-c",
                    _START,
                    *map(str, (_ROOT, theirs.fileno(), size.characters, size.overlap)),
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )
        self.is_alive = True

    def __enter__(self) -> "_Worker":
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def ask(self, path: Path) -> None:
        with suppress(OSError):  # it died: there will be no answer
            self._pipe.send_bytes(json.dumps(str(path)).encode())

    def answers(self) -> Iterator[Document | ReadError | None]:
        """What is in the file that it was asked for, as it comes; None after each tick without anything."""
        documents, waiting_since = 0, time.monotonic()
        while True:
            try:
                if self._pipe.poll(TICK_S):
                    message = json.loads(self._pipe.recv_bytes())
                    if message is None:
                        return
                    documents += "sections" in message
                    yield _found(message)
                    waiting_since = time.monotonic()
                    continue
            except (EOFError, OSError):
                with suppress(subprocess.TimeoutExpired):
                    self._process.wait(5)
                reason = f"its reader ended with {self.end()}, perhaps for lack of memory"
            else:
                if time.monotonic() - waiting_since > FILE_S:
                    reason = f"it took longer than {FILE_S} s"
                elif _resident_bytes(self._process.pid) > MEMORY_BYTES:
                    reason = TOO_LARGE
                else:
                    yield None
                    continue
                self.end()
            rest = f"the rest, after {documents} of its documents, " if documents else ""
            yield ReadError(f"{rest}cannot be read ({reason})")
            return

    def end(self) -> int:
        """Kills the process if it is still there; its exit code."""
        self.is_alive = False
        self._pipe.close()
        self._process.kill()
        return self._process.wait()


def _found(message: dict[str, Any]) -> Document | ReadError:
    if "error" in message:
        return ReadError(message["error"])
    sections = [Section(text, page) for text, page in message["sections"]]
    return Document(sections, message["id"], message["metadata"], left_out=message["left_out"])


def _resident_bytes(pid: int) -> int:
    """What a process has in memory, for systems that hold nobody to a limit; 0 where that cannot be found out."""
    with suppress(OSError, ValueError):
        shown = subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, check=False)  # noqa: S603, S607
        return 1024 * int(shown.stdout)
    return 0


def main() -> None:
    """A worker's life: file names come in, documents go out."""
    pipe, size = Connection(int(sys.argv[1])), ChunkSize(int(sys.argv[2]), int(sys.argv[3]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for who started this
    threading.Thread(target=_end_with_parent, args=[pipe.fileno()], daemon=True).start()
    for kind, most in ((resource.RLIMIT_AS, MEMORY_BYTES), (resource.RLIMIT_CORE, 0)):
        with suppress(ValueError, OSError):  # a system that has no such limit
            resource.setrlimit(kind, (most, most))
    with suppress(EOFError, OSError):
        while True:
            path = Path(json.loads(pipe.recv_bytes()))
            for message in _messages(path, size):
                # The system's own timer, for code that lets no thread of Python run: the parent may be gone.
                signal.setitimer(signal.ITIMER_PROF, 2 * FILE_S)
                pipe.send_bytes(json.dumps(message, ensure_ascii=False).encode("utf-8", "surrogatepass"))


def _messages(path: Path, size: ChunkSize) -> Iterator[dict[str, Any] | None]:
    try:
        for found in read_documents(path):
            if isinstance(found, ReadError):
                yield {"error": str(found)}
            else:
                sections = [(section.text, section.page) for section in cut(found, size)]
                rest = {"id": found.id, "metadata": found.metadata, "left_out": found.left_out}
                yield {"sections": sections, **rest}
    except ReadError as error:
        yield {"error": str(error)}
    except MemoryError:
        yield {"error": f"cannot be read ({TOO_LARGE})"}
    except Exception as error:  # noqa: BLE001 - whatever a hostile file brings about is its own refusal
        yield {"error": f"cannot be read ({class_and_place(error)})"}
    yield None


def _end_with_parent(pipe: int) -> None:
    closed = select.poll()
    closed.register(pipe, 0)  # no event but that the other end is gone
    closed.poll()
    os._exit(0)
