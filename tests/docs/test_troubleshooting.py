"""docs/troubleshooting.md: short, and its messages and commands are those of the program."""

import re
import shlex

import pytest
import typer
from typer import core

from rageval_dagster.cli.app import app
from tests.docs.pages import ROOT, text_of
from tests.docs.pages import commands as typed_commands

PAGE = "docs/troubleshooting.md"
TEXT = text_of(PAGE)
MOST_WORDS = 3_000

GAP = "…"
"""What stands for a part of a message that varies."""

PROGRAM = "\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "rageval_dagster").rglob("*.py")))
# A message that is written over several lines is one.
SAID = re.sub(r'"\s*\n\s*f?"', "", PROGRAM) + text_of("Makefile")


def messages() -> list[str]:
    """What the lines `Message:` quote, and the first column of each table of reasons."""
    quoting = re.findall(r"^Messages?: (.+?)\n\n", TEXT, flags=re.MULTILINE | re.DOTALL)
    for table in re.findall(r"^\| reason \|.*\n\|.*\n((?:\|.*\n)+)", TEXT, flags=re.MULTILINE):
        quoting += [row.split("|")[1] for row in table.splitlines()]
    return re.findall("`([^`]+)`", "\n".join(quoting))


def commands() -> list[str]:
    """The page's commands, those within its sentences too."""
    said = re.findall("`(rageval [^`]+)`", re.sub(r"```.*?```", "", TEXT, flags=re.DOTALL))
    return sorted({*typed_commands(PAGE), *said})


def test_the_page_is_short() -> None:
    assert len(TEXT.split()) <= MOST_WORDS


@pytest.mark.parametrize("message", messages())
def test_every_message_is_one_of_the_program(message: str) -> None:
    parts = [re.escape(part) for part in message.split(GAP) if part.strip()]
    assert re.search(r"[^\n]{0,160}?".join(parts), SAID)


@pytest.mark.parametrize("line", commands())
def test_every_command_is_one_with_these_options(line: str) -> None:
    _, *words = shlex.split(line)
    command = typer.main.get_command(app)
    while isinstance(command, core.TyperGroup) and words:
        command = command.commands[words.pop(0)]
    options = {option for parameter in command.params for option in parameter.opts}
    assert {word for word in words if word.startswith("-")} <= options
