"""Prompts as versioned files, and the fence around text that is material and never an instruction."""

import difflib
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from itertools import count
from pathlib import Path
from string import Template

from rageval_dagster.errors import SettingsError
from rageval_dagster.identity import digest

_SECTION = re.compile(r"^\[([a-z ]+)\]\n", re.MULTILINE)

_FENCING = "tags with codes"
"""How material is fenced. Part of every prompt's version, since a user's own prompt is shown with it too."""
_CODE_DIGITS = 20


@dataclass(frozen=True)
class Prompt:
    """A prompt file: its sections by name (`[system]`, `[user]`, ...), with `$name` where values go.

    `version` is the digest of the file and of how material is fenced, so that what an edited prompt produced is told
    apart.
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
            meant = f"did you mean {near[0]}.txt?" if near else f"known: {', '.join(known)}"
            raise SettingsError(f"prompts: {file} is called as no prompt is; {meant}")


def _parsed(text: str) -> Prompt:
    parts = _SECTION.split(text)
    return Prompt(
        {title: body.strip() for title, body in zip(parts[1::2], parts[2::2], strict=True)}, digest(text, _FENCING)
    )


def fenced(tag: str, text: str, number: int | None = None) -> str:
    """The text, letter by letter, between `<tag-CODE>` and `</tag-CODE>`: digits that the text does not have.

    Nothing is escaped, so what a model quotes is what stands in the text. Instead a hash of the text draws the code,
    and draws again until no longer run of its digits stands in the text, however they are written there and whatever
    stands between them. So no text holds the tag that ends it, nor one that looks nearly like it. Each has such a tag,
    and the same one every time: what the cache has of a request is found again.

    The hash has no secret key. An author who computes the code of a text has written that text already: with the code
    in it, the text has another. A key would only hide the codes of other texts, whose tags end nothing here, and where
    it is another one (a new machine on the same database), no cached reply would be found.
    """
    name = f"{tag}-{_absent_code(text)}"
    opening = name if number is None else f'{name} number="{number}"'
    return f"<{opening}>\n{text}\n</{name}>"


def _absent_code(text: str) -> str:
    written = _digits(text)
    # Of a text's own runs of this length there are less than a hundredth of all that are possible.
    run = min(len(str(len(written))) + 2, _CODE_DIGITS)
    starts = range(_CODE_DIGITS - run + 1)
    drawn = (int(digest("fence", str(draw), text), 16) % 10**_CODE_DIGITS for draw in count())
    codes = (f"{number:0{_CODE_DIGITS}}" for number in drawn)
    return next(code for code in codes if not any(code[start : start + run] in written for start in starts))


def _digits(text: str) -> str:
    """All digits of a text in a row, whatever script, width or circle they are in."""
    values = (unicodedata.digit(character, None) for character in unicodedata.normalize("NFKC", text))
    return "".join(str(value) for value in values if value is not None)
