"""What makes a text unfit as source, answer or question: boilerplate and extraction noise."""

import re
import unicodedata
from itertools import pairwise

from rageval_dagster.benchmark.words import tokens
from rageval_dagster.text import is_character, is_mark, normalise_whitespace

CLEAN = "clean"
_URL = re.compile(r"(?:https?://|www\.)[^\s)>\]]+", re.IGNORECASE)
# Tried at the start of a run of dots only: a megabyte of dots is no reason to take minutes.
_DOT_LEADER = re.compile(r"(?<!\.)(?<!\.\s)(?:\.\s?){4,}+\s*+(?:\d+|[ivxlc]+)\b")
_CHARACTER_CODE = re.compile(r"\(cid:\d+\)")
_LICENCE = re.compile(
    r"permission is hereby granted, free of charge|redistributions of source code must retain"
    r"|redistribution and use in source and binary forms|without warranties or conditions of any kind"
    r"|the software is provided [\"“'`]*as is|in no event shall the (?:authors?|copyright)"
    r"|gnu (?:lesser |affero )?general public license as published|unless required by applicable law or agreed to",
    re.IGNORECASE,
)
_SITE_FURNITURE = re.compile(
    r"skip to (?:main )?content|all rights reserved|cookie (?:policy|settings|preferences)|accept (?:all )?cookies"
    r"|privacy policy|terms of (?:use|service)|sign in|log in|subscribe to (?:our|the) newsletter|back to top"
    r"|toggle navigation|share on (?:facebook|twitter|linkedin)",
    re.IGNORECASE,
)
_RULING = re.compile(r"[-=+*~#^_.|:]{3,}|\|")
_LONG_ENOUGH_TO_COUNT = 30
"""Shares of characters say nothing about shorter texts."""


def noise_kind(text: str) -> str:
    """What makes a text unfit as source, answer or question, or `CLEAN`.

    One of `empty` (no letter or digit), `damaged` (broken characters, letters pulled apart), `symbols` (more
    punctuation than words), `links`, `contents` (a table of contents), `licence`, `site` (navigation, cookie and
    rights notices), `repetition`.
    """
    solid = "".join(_RULING.sub(" ", text).split())  # The lines of a drawn table are no text.
    if not any(character.isalnum() for character in solid):
        return "empty"
    if _is_damaged(text, solid):
        return "damaged"
    if len(_DOT_LEADER.findall(text)) >= 3:
        return "contents"
    if _LICENCE.search(normalise_whitespace(text)):
        return "licence"
    if len(solid) < _LONG_ENOUGH_TO_COUNT:
        return CLEAN
    if sum(map(len, _URL.findall(text))) > 0.6 * len(solid):
        return "links"
    if sum(map(_is_wordlike, solid)) < 0.6 * len(solid):
        return "symbols"
    if len(_SITE_FURNITURE.findall(text)) >= 3:
        return "site"
    words = tokens(text)
    if sum(map(is_character, words)) > 0.5 * len(words):
        # There are some thousand characters and far more words: two in a row repeat as seldom as words do.
        words = list(map("".join, pairwise(words)))
    if len(words) >= 30 and len(set(words)) < 0.15 * len(words):
        return "repetition"
    return CLEAN


def _is_wordlike(character: str) -> bool:
    # The underscore belongs to identifiers.
    return character.isalnum() or character == "_" or is_mark(character)


def _is_damaged(text: str, solid: str) -> bool:
    broken = sum(
        character == "\ufffd" or (unicodedata.category(character) in {"Cc", "Co", "Cs"} and not character.isspace())
        for character in text
    )
    if broken * 50 > len(solid) or len(_CHARACTER_CODE.findall(text)) >= 3:
        return True
    words = text.split()
    single = sum(len(word) == 1 and word.isascii() and word.isalpha() for word in words)
    return len(words) >= 12 and single > 0.5 * len(words)
