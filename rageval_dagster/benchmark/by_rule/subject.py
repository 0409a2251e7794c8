"""What a passage is about: its heading, or the title, the name or the folder of its document."""

import re
from functools import lru_cache
from pathlib import PurePosixPath

from rageval_dagster.benchmark.by_rule.prose import without_number, words
from rageval_dagster.benchmark.words import STOPWORDS

MAX_SUBJECT_WORDS = 8
MAX_SUBJECT_CHARACTERS = 200

_NO_SUBJECTS = frozenset(
    """
    abstract api appendix authors background changelog chapter commands configuration content contents contributing
    credits description details doc docs documentation example examples faq features file files getting guide help
    home http index info information installation introduction licence license manual menu name navigation news note
    notes options overview page parameters part preface readme reference references requirements section settings
    start started status summary support syntax synopsis table testing tips title usage use version welcome
    """.split()
)
"""Names of files and headings that many documents have: they tell nobody what a passage is about."""


@lru_cache(maxsize=4096)
def subject_of(document_id: str, heading: str | None, title: str | None = None, is_shared: bool = False) -> str | None:
    """What a sentence is about: the heading above it where that is telling, else its document's title, name or folder.

    A heading of one word ("Scope"), or one that several documents have (`is_shared`), is a part of a subject, and the
    subject only where nothing else names it.
    """
    path = PurePosixPath(document_id.replace("\\", "/"))
    name, folder = (" ".join(re.split(r"[\s_-]+", part)).strip() for part in (path.stem, path.parent.name))
    section, title = _plain(heading or ""), _plain(title or "")
    is_own = not is_shared and len([word for word in words(section) if word not in STOPWORDS | _NO_SUBJECTS]) > 1
    by_rank = [
        section if is_own or name.lower() in section.lower().split() else "",
        title,
        name if _is_readable(name) else "",
        section,
        folder if _is_readable(folder) else "",
    ]
    return next((each for each in by_rank if _tells(each)), None)


def _plain(heading: str) -> str:
    """A heading without its number and quotation marks, as it reads within a sentence."""
    subject = " ".join(re.sub(r"[\"“”`*]|''", "", without_number(heading)).split())
    first, _, rest = subject.partition(" ")
    return f"{first.lower()} {rest}" if rest and first in {"A", "An", "The"} else subject


def _is_readable(name: str) -> bool:
    """Whether a file's or folder's name reads as a name, not as a number or a hash."""
    return (
        re.search(r"[^\W\d_]{2}", name) is not None
        and not re.fullmatch(r"[0-9a-f]{8,}", name.replace(" ", ""))
        and sum(character.isdigit() for character in name) <= 0.3 * len(name)
    )


def _tells(subject: str) -> bool:
    """Whether a subject tells one document from another: no "README", no "Chapter 3", no question, no sentence."""
    telling = [word for word in words(subject) if word not in STOPWORDS | _NO_SUBJECTS and not word.isdigit()]
    return (
        bool(telling)
        and not re.match(r"(?:this|that|these|those)\b", subject, re.IGNORECASE)
        and len(subject.split()) <= MAX_SUBJECT_WORDS
        and len(subject) <= MAX_SUBJECT_CHARACTERS
        and not subject.endswith(("?", "!", ".", "()"))
    )
