"""What all commands share: settings and database, tables and JSON on standard output, progress on standard error."""

import json
import shlex
import shutil
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from rageval_dagster.errors import RagevalError
from rageval_dagster.records import Pace
from rageval_dagster.text import showable

if TYPE_CHECKING:
    from rageval_dagster.benchmark.formats.rows import Refusal
    from rageval_dagster.llm.client import ChatClient

GATE_FAILED = 1
"""Exit code: a gate failed."""

UNCLEAR = 3
"""Exit code: a gate cannot tell."""

DONE_IN_PART = 4
"""Exit code: done, but part of the input (rows, files, clients) was refused or failed."""


MAX_LISTED = 20

MAX_SHOWN = 60
"""Characters of what is going on that a line of progress shows."""

MIN_CUT = 12
"""Characters that are left of a table's cells at least."""

LINE_EVERY_S = 10.0
"""Seconds between two lines of progress, where no bar can be drawn."""

WIDTH = 80
"""Characters that every terminal shows on a line."""

SCORE_COLUMNS = ("metric", "mean", "low", "high", "n", "scored", "undefined", "errors")


def say_new_client(client: str, meant: str | None, rest: str = "") -> None:
    """That a client was made although another may be meant, and how it is undone; nothing where none may be.

    Args:
        rest: what that leaves.
    """
    if meant is not None:
        name = shlex.quote(client)
        say(f"{cell(client)} is a new client; if {cell(meant)} is meant: rageval forget --client {name}{rest}")


def print_json(value: Any) -> None:
    print(dumped(value, indent=2))


def print_json_lines(values: Iterable[Any]) -> None:
    """One JSON value a line: a single one reads as plain JSON, several as JSON Lines."""
    for value in values:
        print(dumped(value))


def print_table(
    rows: Sequence[Mapping[str, Any]], columns: Sequence[str], empty: str, less: Sequence[str] = ()
) -> None:
    """Aligned columns that stay readable in a pipe; `empty` is said where there is no row.

    Args:
        less: columns that a terminal too narrow for all goes without, the first one first. Where that does not do, the
            first of `columns` is cut.
    """
    from rich.cells import cell_len

    if not rows:
        print(empty)
        return
    cells = {name: [name, *(cell(row.get(name)) for row in rows)] for name in columns}
    places = shutil.get_terminal_size((0, 0)).columns if less else 0  # 0: no terminal

    def excess() -> int:
        return sum(max(map(cell_len, column)) + 2 for column in cells.values()) - 2 - places if places else 0

    left_out = [name for name in less if excess() > 0 and cells.pop(name, None)]
    if (over := excess()) > 0:
        widest = max(MIN_CUT, max(map(cell_len, cells[columns[0]])) - over)
        cells[columns[0]] = [fitting(text, widest) for text in cells[columns[0]]]
    numeric = [all(_is_number(row.get(name)) for row in rows) for name in cells]
    for line in aligned(list(zip(*cells.values(), strict=True)), numeric):
        print(line)
    if left_out:
        say(f"too narrow for {', '.join(left_out)}: a wider terminal or --json has them")


def aligned(lines: Sequence[Sequence[str]], right: Sequence[bool]) -> Iterator[str]:
    """The cells of each line in columns, two spaces apart; a character that a terminal shows wide takes two places.

    Args:
        right: for each column whether it is aligned to the right, as numbers are.
    """
    from rich.cells import cell_len

    widths = [max(map(cell_len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        padded = (
            " " * (width - cell_len(text)) + text if is_right else text + " " * (width - cell_len(text))
            for text, width, is_right in zip(line, widths, right, strict=True)
        )
        yield "  ".join(padded).rstrip()


def fitting(text: str, places: int = WIDTH) -> str:
    """Text that a terminal can show, cut to so many places."""
    from rich.cells import cell_len, set_cell_size

    line = cell(text)
    return line if cell_len(line) <= places else f"{set_cell_size(line, places - 3).rstrip()}..."


def score_rows(scores: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A row of a table a metric, of {metric id: mean, interval and counts by name}."""
    names = ("mean", "ci_low", "ci_high", "n", "n_scored", "n_undefined", "n_error")
    return [
        dict(zip(SCORE_COLUMNS, (metric_id, *(score[name] for name in names)), strict=True))
        for metric_id, score in scores.items()
    ]


class Bar(Protocol):
    """Takes (done, total), and what is going on if that is to be shown."""

    def __call__(self, done: int, total: int, now: str = "", /) -> None: ...


@contextmanager
def progress_bar(what: str) -> Iterator[Bar]:
    """A progress bar on standard error; where that is no terminal, a line now and then."""
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        yield _progress_lines(what)
        return
    columns = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()]
    with Progress(*columns, console=console) as bar:
        task = bar.add_task(what, total=None)

        def update(done: int, total: int, now: str = "") -> None:
            doing = f"{what}: {cell(now)[:MAX_SHOWN]}" if now else what
            bar.update(task, completed=done, total=total, description=escape(doing))

        yield update


def _progress_lines(what: str) -> Bar:
    """Says how many are done, how fast, and how long the rest takes so, at most every LINE_EVERY_S."""
    started = told = time.monotonic()
    pace = Pace()

    def tell(done: int, total: int, now: str = "") -> None:
        nonlocal told
        time_now = time.monotonic()
        if time_now - told >= LINE_EVERY_S:
            told = time_now
            doing = f", {cell(now)[:MAX_SHOWN]}" if now else ""
            say(f"{what}: {done}/{total} ({pace.describe(done, total, time_now - started)}){doing}")

    return tell


def say(line: str) -> None:
    """A line of progress or advice, on standard error."""
    print(showable(line), file=sys.stderr, flush=True)


def say_usage(chat: "ChatClient | None") -> None:
    """What a command's model calls took, on standard error; nothing where they are not recorded."""
    if chat is None or chat.db is None:
        return
    from rageval_dagster.storage.caches import model_usage

    usage = model_usage(chat.db, chat.client_id, chat.run_id)
    price = f" (no price: name {chat.endpoint.model!r} under [prices])" if usage.unpriced else ""
    say(f"{cell(chat.endpoint.model)}: {usage.described() or 'was not asked'}{price}")


def percent(share: float) -> str:
    if 0 < share < 0.001:
        return "under 0.1 %"
    return f"{100 * share:.1f}".removesuffix(".0") + " %"


def listed_patterns(text: str | None) -> list[str] | None:
    """The patterns of --metrics, which commas separate; None where it was not given."""
    return None if text is None else [pattern.strip() for pattern in text.split(",") if pattern.strip()]


def say_refused(refused: "Sequence[Refusal]") -> None:
    """The rows that were refused, on standard error: the first ones, and how many more there are."""
    for refusal in refused[:MAX_LISTED]:
        say(f"refused: {cell(refusal)}")
    if len(refused) > MAX_LISTED:
        say(f"and {len(refused) - MAX_LISTED} more rows refused: --json lists them all")


def mapped_columns(choices: Iterable[str]) -> dict[str, str]:
    """The choices of --map: field -> column.

    Raises:
        RagevalError: one is not of the form FIELD=COLUMN, or names a field again.
    """
    columns: dict[str, str] = {}
    for choice in choices:
        field, equals, column = choice.partition("=")
        if not (field and equals and column):
            raise RagevalError(f"--map takes FIELD=COLUMN, as in --map question=Prompt, not {choice!r}")
        if field in columns:
            raise RagevalError(f"--map names the field {field!r} twice")
        columns[field] = column
    return columns


def dataset_number(text: str) -> int:
    """A dataset's number as it was typed.

    Raises:
        RagevalError: it is none.
    """
    if not (text.isascii() and text.isdecimal()):
        raise RagevalError(f"a dataset is named by its number, not {text!r}: `rageval datasets list` shows them")
    return int(text)


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def cell(value: Any) -> str:
    """A value as one piece of text that a terminal can show."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.3f}"
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M")
    return showable(str(value))


def dumped(value: Any, indent: int | None = None) -> str:
    """JSON that holds nothing a terminal obeys, escaped where plain JSON would let it stand."""
    text = json.dumps(value, indent=indent, ensure_ascii=False, default=_json_value)
    lines = (
        "".join(each if each == showable(each) else f"\\u{ord(each):04x}" for each in line)
        if line != showable(line)
        else line
        for line in text.split("\n")
    )
    return "\n".join(lines)


def _json_value(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, frozenset | set | tuple):
        return list(value)
    raise TypeError(f"{type(value).__name__} is no JSON value")
