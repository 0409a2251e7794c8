"""The errors a user can meet: each is one clear line that says what is wrong, where, and what to do."""

import errno
import shutil
import sys
import traceback
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from types import FrameType, TracebackType


class RagevalError(Exception):
    """Base of every expected error; the command line prints its message without a traceback.

    `exit_code` is what the `rageval` command ends with (2: bad usage, or it could not be done or finished).
    """

    exit_code = 2


class SettingsError(RagevalError):
    """A setting has a value it cannot take; the message names the variable and what it takes."""


class StoreError(RagevalError):
    """The document store cannot be reached, or does not hold what was asked for."""


class StoreAwayError(StoreError):
    """The document store's server does not answer just now; what was going on can be done again."""


class EmbeddingError(RagevalError):
    """An embedding model is missing, damaged, or does not fit the vectors of the store."""


class DatabaseError(RagevalError):
    """The history database cannot be reached or is not ours to use."""


class DatabaseAwayError(DatabaseError):
    """The history database stopped answering in the middle; what was going on can be done again."""


class InterruptedRunError(RagevalError):
    """Somebody stopped a command in the middle of a run."""


class LeaseHeldError(RagevalError):
    """Another run is working on this client just now."""


class DatasetError(RagevalError):
    """A benchmark file or dataset cannot be used; the message names file, row and field."""


class UnvalidatedBenchmarkError(RagevalError):
    """A benchmark failed a blocking rule and may not be evaluated."""


class TextsDeletedError(RagevalError):
    """What was asked for needs texts that were deleted because their retention was over; its numbers stay."""


class LanguageModelError(RagevalError):
    """A language model endpoint refused, failed for good, or answered unusably."""


class BudgetReachedError(LanguageModelError):
    """What models may cost is spent: what they said is kept, and what is missing can be asked another time."""


class RedactionError(RagevalError):
    """The user's own redaction failed: the text that it should have redacted is neither stored nor sent."""


class IngestError(RagevalError):
    """There are no documents to load at a path, or none that can be read."""


_NO_ROOM = 2**20
MAKE_ROOM = "the disk is full; make room there, then run again"


def is_disk_full(error: BaseException | None, folder: Path | None = None) -> bool:
    """Whether an error, or one that led to it, is that a disk is full, or what a user may have of it.

    SQLite has no better words than `disk I/O error` where its log finds no room: those count if `folder` has none.
    """
    words = ["disk is full", "No space left on device"]
    if folder is not None and folder.exists() and shutil.disk_usage(folder).free < _NO_ROOM:
        words.append("disk I/O error")
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            return True
        if any(each in str(error) for each in words):
            return True
        error = error.__cause__ or error.__context__
    return False


def unwritable(what: str, error: OSError, instead: str) -> str:
    """`the report r.html cannot be written (why): what to do`: make room where the disk is full, else `instead`."""
    if is_disk_full(error):
        return f"{what}: {MAKE_ROOM}"
    return f"{what} ({error.strerror}): {instead}"


class Translating(AbstractContextManager[None]):
    """Raises what `translate` makes of an exception in its place, where it makes anything of it.

    A generator with `@contextmanager` would keep the first one in the traceback of the second, with words that may be
    secret.
    """

    def __init__(self, translate: Callable[[BaseException], RagevalError | None]) -> None:
        self._translate = translate

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        instead = None if error is None else self._translate(error)
        if instead is not None:
            del error
            raise instead from None


def class_and_place(error: BaseException) -> str:
    """`ValueError at acme_metrics.py:12`: what the user's own code raised and where, never the message.

    The message may hold texts. The place is the innermost line in the module that we called or imported, or in one
    beside it, whatever library that called in turn; the innermost line of all where there is no such module.
    """
    name = type(error).__name__
    if isinstance(error, SyntaxError) and str(error.filename).endswith(".py"):
        return f"{name} at {place(str(error.filename), error.lineno)}"
    frames = list(traceback.walk_tb(error.__traceback__))
    if not frames:
        return name
    folder = next((Path(_file(frame)).parent for frame, _ in frames if not _is_between(frame)), None)
    own = [(frame, line) for frame, line in frames if not _is_between(frame) and Path(_file(frame)).parent == folder]
    frame, line = (own or frames)[-1]
    return f"{name} at {place(_file(frame), line)}"


def place(file: str, line: int | None) -> str:
    """`acme_metrics.py:12`: of the path only the name."""
    return f"{Path(file).name}:{line}"


def _file(frame: FrameType) -> str:
    return frame.f_code.co_filename


def _is_between(frame: FrameType) -> bool:
    """Whether it is this package's or the standard library's, such as the machinery of imports."""
    package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
    return package == __name__.partition(".")[0] or package in sys.stdlib_module_names
