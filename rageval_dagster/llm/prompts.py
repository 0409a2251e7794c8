"""Prompts as versioned files, and the fence around text that is material and never an instruction."""

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path
from string import Template

from rageval_dagster.errors import SettingsError
from rageval_dagster.identity import digest

_SECTION = re.compile(r"^\[([a-z ]+)\]\n", re.MULTILINE)

_FENCES = "answer|citations|claim|context|history|passage|question|reference|source|statement|text".split("|")
"""The tags of the fences that stand beside each other: no material may open or close its neighbour's either."""
_HIDDEN = "[\u00ad\u200b-\u200f\u2060-\u2064\ufeff]*"
"""Characters that nobody sees, within a tag's name."""


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


@lru_cache
def load_prompt(name: str, own: Path | None = None) -> Prompt:
    """The prompt of `own`/`name`.txt where the user has one there, else of rageval_dagster/prompts/`name`.txt.

    Raises:
        SettingsError: the user's own prompt cannot be read, or lacks a section or a `$name` of the built-in one; or a
            file beside it is called as no prompt is.
    """
    built_in = _parsed(resources.files("rageval_dagster").joinpath("prompts", f"{name}.txt").read_text("utf-8"))
    if own is None:
        return built_in
    _check_names(own)
    file = own / f"{name}.txt"
    if not file.is_file():
        return built_in
    try:
        prompt = _parsed(file.read_text("utf-8-sig"))
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"prompts: {file} cannot be read ({type(error).__name__})") from None
    for section, text in built_in.sections.items():
        if section not in prompt.sections:
            raise SettingsError(f"prompts: {file} has no section [{section}]")
        used, known = (set(Template(each).get_identifiers()) for each in (prompt.sections[section], text))
        # A prompt that leaves the question or the contexts out asks about nothing.
        for difference, what in ((known - used, "lacks"), (used - known, "has an unknown")):
            if difference:
                raise SettingsError(f"prompts: {file} [{section}] {what} ${min(difference)}")
        if not Template(prompt.sections[section]).is_valid():
            raise SettingsError(f"prompts: {file} [{section}]: write $$ for a dollar sign")
    return prompt


def prompt_names() -> list[str]:
    """The names of all prompts, sorted."""
    files = resources.files("rageval_dagster").joinpath("prompts").iterdir()
    return sorted(file.name.removesuffix(".txt") for file in files if file.name.endswith(".txt"))


def _check_names(own: Path) -> None:
    """Refuses a folder that is not there, or that has a text file which no prompt would be read from."""
    if not own.is_dir():
        raise SettingsError(f"prompts: there is no folder {own}")
    known = prompt_names()
    for file in sorted(own.glob("*.txt")):
        if file.stem not in known and file.stem.lower() != "readme":
            near = difflib.get_close_matches(file.stem, known, n=1)
            meant = f"{near[0]}.txt is meant?" if near else f"known: {', '.join(known)}"
            raise SettingsError(f"prompts: {file} is called as no prompt is; {meant}")


def _parsed(text: str) -> Prompt:
    parts = _SECTION.split(text)
    return Prompt({title: body.strip() for title, body in zip(parts[1::2], parts[2::2], strict=True)}, digest(text))


def fenced(tag: str, text: str, number: int | None = None) -> str:
    """The text between `<tag>` and `</tag>`; these tags, and those of other fences, are escaped inside the text.

    So it can neither end there, nor look like other material of the prompt, whatever stands between bracket and name.
    """
    opening = tag if number is None else f'{tag} number="{number}"'
    return f"<{opening}>\n{_tags(tag).sub('&lt;', text)}\n</{tag}>"


@lru_cache
def _tags(tag: str) -> re.Pattern[str]:
    """The brackets, also wide ones, that open this fence's tags or those of others."""
    names = "|".join(_HIDDEN.join(map(re.escape, name)) for name in (tag, *_FENCES))
    return re.compile(rf"[<\ufe64\uff1c](?=[^\w<>]*(?:{names})\b)", re.IGNORECASE)
