"""What all commands share: settings and database, tables and JSON on standard output, progress on standard error."""

import difflib
import json
import re
import shlex
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

from rageval_dagster.errors import DatabaseError, RagevalError, SettingsError, StoreError
from rageval_dagster.records import Pace, Progress
from rageval_dagster.settings import Settings, load_settings
from rageval_dagster.text import showable

if TYPE_CHECKING:
    from rageval_dagster.llm.client import ChatClient
    from rageval_dagster.storage.database import Database

GATE_FAILED = 1
"""Exit code: a gate failed."""

TOO_FEW = 3
"""Exit code: too few items to tell."""

DONE_IN_PART = 4
"""Exit code: done, but part of the input (rows, files, clients) was refused or failed."""


MAX_LISTED = 20

LINE_EVERY_S = 10.0
"""Seconds between two lines of progress, where no bar can be drawn."""

SCORE_COLUMNS = ("metric", "mean", "low", "high", "n", "scored", "undefined", "errors")


def open_all() -> tuple[Settings, "Database"]:
    """The settings and the history database they name."""
    from rageval_dagster.storage.database import open_database

    settings = load_settings()
    settings.ensure_home()
    return settings, open_database(settings.database_url)


def require_client(settings: Settings, client: str) -> None:
    """Refuses a client that has no table of its own and that neither history nor document store know.

    Where one of these cannot be asked, that is said, and the command goes on.

    Raises:
        SettingsError: there is no such client; it names the one that may be meant.
    """
    if client in settings.source.client_names:
        return
    try:
        known = _known_clients(settings, open_all()[1], client)
    except (StoreError, DatabaseError) as error:
        say(f"whether there is a client {client!r} cannot be told: {error}")
        return
    if client not in known:
        near = difflib.get_close_matches(client, sorted(known), n=1)
        meant = f" ({near[0]!r} is meant?)" if near else ""
        raise SettingsError(f"there is no client {client!r}{meant}; `rageval clients list` shows those there are")


def _known_clients(settings: Settings, db: "Database", client: str) -> set[str]:
    """The clients that settings, history and document store know; what knows `client` is the last that is asked."""
    from rageval_dagster.corpus.store import open_store
    from rageval_dagster.storage.clients import list_clients

    known = set(settings.source.client_names)
    if client not in known:
        known.update(each.client_id for each in list_clients(db))
    if client not in known:
        known.update(open_store(settings).clients())
    return known


_ALIKE = 0.8
"""As alike as a name with one slip in five letters."""


def meant_instead(settings: Settings, db: "Database", client: str) -> str | None:
    """The known client that a new one's name is like; None where the client is known, or its name like no other.

    Names that differ in their numbers only, or in a last part as short as a country's, are a row of customers, and no
    slip: tenant-de, tenant-es.
    """
    known = _known_clients(settings, db, client)
    if client in known:
        return None
    same = sorted(name for name in known if _spelt(name) == _spelt(client))
    others = sorted(name for name in known if _row_of(name) != _row_of(client))
    return next(iter(same or difflib.get_close_matches(client, others, n=1, cutoff=_ALIKE)), None)


def _spelt(name: str) -> str:
    """A name without its case and punctuation."""
    return re.sub(r"[\W_]+", "", name).casefold()


def _row_of(name: str) -> str:
    """What the names of a row of customers have in common."""
    parts = [part for part in re.split(r"[\W\d_]+", name.casefold()) if part]
    return "".join(parts[:-1] if len(parts) > 1 and len(parts[-1]) <= 2 else parts)


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


def print_table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], empty: str) -> None:
    """Aligned columns that stay readable in a pipe; `empty` is said where there is no row."""
    if not rows:
        print(empty)
        return
    cells = [[cell(row.get(column)) for column in columns] for row in rows]
    widths = [max(len(line[i]) for line in [list(columns), *cells]) for i in range(len(columns))]
    numeric = [all(_is_number(row.get(column)) for row in rows) for column in columns]
    for line in [list(columns), *cells]:
        padded = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, numeric, strict=True)
        ]
        print("  ".join(padded).rstrip())


def score_rows(scores: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A row of a table a metric, of {metric id: mean, interval and counts by name}."""
    names = ("mean", "ci_low", "ci_high", "n", "n_scored", "n_undefined", "n_error")
    return [
        dict(zip(SCORE_COLUMNS, (metric_id, *(score[name] for name in names)), strict=True))
        for metric_id, score in scores.items()
    ]


@contextmanager
def progress_bar(what: str) -> Iterator[Progress]:
    """A progress bar on standard error; where that is no terminal, a line now and then."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        yield _progress_lines(what)
        return
    columns = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()]
    with Progress(*columns, console=console) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _progress_lines(what: str) -> Progress:
    """Says how many are done, how fast, and how long the rest takes so, at most every LINE_EVERY_S."""
    started = told = time.monotonic()
    pace = Pace()

    def tell(done: int, total: int) -> None:
        nonlocal told
        now = time.monotonic()
        if now - told >= LINE_EVERY_S:
            told = now
            say(f"{what}: {done}/{total} ({pace.told(done, total, now - started)})")

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


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}" + ("" if count == 1 else "s")


def named(names: Sequence[str], most: int = 10) -> str:
    """The first of several names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(cell, names[:most])) + more


def percent(share: float) -> str:
    if 0 < share < 0.001:
        return "under 0.1 %"
    return f"{100 * share:.1f}".removesuffix(".0") + " %"


def listed_patterns(text: str | None) -> list[str] | None:
    """The patterns of --metrics, which commas separate; None where it was not given."""
    return None if text is None else [pattern.strip() for pattern in text.split(",") if pattern.strip()]


def say_refused(refused: Sequence[Any]) -> None:
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
    text = json.dumps(value, indent=indent, ensure_ascii=False, default=_plain)
    lines = (
        "".join(each if each == showable(each) else f"\\u{ord(each):04x}" for each in line)
        if line != showable(line)
        else line
        for line in text.split("\n")
    )
    return "\n".join(lines)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, frozenset | set | tuple):
        return list(value)
    raise TypeError(f"{type(value).__name__} is no JSON value")
