"""Prompts as versioned files, and the fence around text that is material and never an instruction."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from string import Template

from rageval_dagster.identity import digest

_SECTION = re.compile(r"^\[([a-z ]+)\]\n", re.MULTILINE)


@dataclass(frozen=True)
class Prompt:
    """A prompt file: its sections by name (`[system]`, `[user]`, ...), with `$name` where values go.

    `version` is the digest of the file, so that whatever an edited prompt produced is told apart.
    """

    sections: Mapping[str, str]
    version: str

    def fill(self, section: str, **values: str) -> str:
        """The section with its values in place; a `$` inside a value means nothing."""
        return Template(self.sections[section]).substitute(values)


def load_prompt(name: str) -> Prompt:
    """The prompt of rageval_dagster/prompts/`name`.txt."""
    text = resources.files("rageval_dagster").joinpath("prompts", f"{name}.txt").read_text(encoding="utf-8")
    parts = _SECTION.split(text)
    return Prompt({title: body.strip() for title, body in zip(parts[1::2], parts[2::2], strict=True)}, digest(text))


def fenced(tag: str, text: str, number: int | None = None) -> str:
    """The text between `<tag>` and `</tag>`; the same tags inside the text are escaped, so that it cannot end there."""
    inside = re.sub(rf"<(?=\s*/?\s*{re.escape(tag)}\b)", "&lt;", text, flags=re.IGNORECASE)
    opening = tag if number is None else f'{tag} number="{number}"'
    return f"<{opening}>\n{inside}\n</{tag}>"
