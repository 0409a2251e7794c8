"""What a sentence is about: the heading, title, file name or name that tells its document from others."""

import re
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import lru_cache

from rageval_dagster.benchmark.by_rule.facts import CorpusFacts, Passage, file_name
from rageval_dagster.benchmark.by_rule.prose import entry, without_number, words
from rageval_dagster.benchmark.by_rule.terms import content_words, in_lower_case
from rageval_dagster.languages import articles, leading, stop_words, verbs
from rageval_dagster.text import is_character

MAX_WORDS = 8
MAX_CHARACTERS = 80
MAX_DIGITS = 2
"""Of a chapter's number without a point behind it."""
_LABEL = re.compile(r"[A-ZÀ-ÖØ-Þ]{3,} (?:[A-ZÀ-ÖØ-Þ]{2,} ){0,3}(?=\w)")
MIN_TOPIC_WORDS = 2
"""That carry meaning, of a heading that shall tell by itself what stands under it."""
SPOKEN = 0.5
"""The share of a heading's words that its passage says, or of a file name's that its document says."""


@dataclass(frozen=True)
class Topic:
    """What a passage is about, and the document that alone has that topic, if one does."""

    text: str
    document_id: str | None


def section_topic(heading: str | None, passage: Passage, facts: CorpusFacts, within: Topic | None = None) -> str | None:
    """The heading, where it tells by itself what stands under it: it defines an option or identifier, or has two words
    or more that carry meaning and that the passage speaks of. A heading all in capitals tells nothing, nor does a
    message, a line of code or the way through a menu.

    No other section has it, or of a topic that one document has, no other section of that document.
    """
    if heading is None:
        return None
    if defined := entry(heading):
        return defined if facts.is_single(heading, within.document_id if within else None) else None
    if heading.isupper():
        return None
    label = _LABEL.match(heading)
    # "CULTURE Names of releases": what kind of a box it stands on is no part of a heading.
    if label and not any(label.group().strip() in sentence.text for sentence, *_ in passage.sentences):
        heading = heading[label.end() :]
    topic = _within_a_sentence(heading, passage)
    if not _tells(topic, passage.language) or len(set(content_words(topic, passage.language))) < MIN_TOPIC_WORDS:
        return None
    # A line of code or a comment begins in lower case, and the way through a menu is no topic: "File - Print".
    is_line = (topic == heading and topic[:1].islower()) or " - " in topic
    # A message with its placeholder, and what a command takes.
    is_line = is_line or _is_sentence(topic, passage.language) or re.search(r"[%|]| -\w", topic) is not None
    # "a directory or path" is a label in a list.
    opening, _, rest = topic.partition(" ")
    is_label = rest.islower() and opening in articles(passage.language) and topic not in _text(passage)
    is_line = is_line or is_label
    is_said = share_said(topic, passage.words, passage.language) >= SPOKEN
    return topic if is_said and not is_line and facts.is_single(heading) else None


def _is_sentence(topic: str, language: str | None) -> bool:
    """Whether a heading is one, such as a message: "The server is not running". "Common uses of salt", "the tin can"
    and "May 1997" are none."""
    plain, found = stop_words(language) & verbs(language), topic.split()
    return any(
        word in plain and before.casefold() not in articles(language) and after not in leading(language)
        for before, word, after in zip(found, found[1:], found[2:], strict=False)
    )


def document_topic(passage: Passage, facts: CorpusFacts) -> Topic | None:
    """The first that tells what the document is about: its title, its file's or folder's name, a name that it is full
    of; or a heading in the passage that few documents have."""
    return next(_document_topics(passage, facts), None)


def _document_topics(passage: Passage, facts: CorpusFacts) -> Iterator[Topic]:
    chunk, language = passage.chunk, passage.language
    title, documents = facts.titles.get(chunk.document_id, ("", 1))
    # A chunk that is all that is known of its document speaks for it.
    spoken = facts.spoken.get(chunk.document_id, frozenset()) if chunk.has_document else frozenset(passage.words)
    name = _within_a_sentence(title, passage)
    # What is all in capitals is more often a page's header, and one word may be anything: "Overview".
    is_long = " " in name or is_character(name[:1])
    is_title = (is_long and not name.isupper()) or share_said(name, spoken, None) >= SPOKEN
    is_telling = _tells(name, language) or (_is_phrase(name, language) and len(set(content_words(name, None))) > 1)
    if is_telling and documents <= facts.few and is_title:
        yield Topic(name, chunk.document_id if documents == 1 else None)
    if chunk.has_document:
        name = file_name(chunk.document_id)
        written = next((each for each in (name, name.replace("-", " ")) if each in spoken), None)
        if written and _is_readable(name) and _tells(written, language):
            yield Topic(_as_written(written, passage), chunk.document_id)
    if chunk.document_id in facts.names:
        yield Topic(facts.names[chunk.document_id], chunk.document_id)


def share_said(topic: str, said: Collection[str], language: str | None) -> float:
    """The share of a topic's words that are said."""
    meant = set(content_words(topic, language))
    return sum(word in said for word in meant) / len(meant) if meant else 0.0


def _within_a_sentence(heading: str, passage: Passage) -> str:
    """A heading as it reads within a sentence: without its number and quotation marks, in lower case where the passage
    has it so."""
    marks = r"[\"“”`*\[\]]|''" if " " in heading else "[`*]"
    topic = " ".join(re.sub(marks, "", without_number(heading)).split())
    topic = re.sub(r"^[\W_]+ ", "", topic)
    first, _, rest = topic.partition(" ")
    # "7 Miscellanea" of a list of contents, unlike "12 Angry Men", which the passage says.
    if len(first) <= MAX_DIGITS and first.isdigit() and rest and topic.casefold() not in _text(passage).casefold():
        topic = rest
        first, _, rest = topic.partition(" ")
    topic = f"{first.lower()} {rest}" if rest and first in {"A", "An", "The"} else topic
    if " " not in topic:
        return topic
    names = [term.text for *_, named in passage.sentences for term in named if term.kind == "name"]
    return in_lower_case(topic, _text(passage), passage.language, names)


def _as_written(name: str, passage: Passage) -> str:
    """A file's name, which mostly is in lower case, as the passage writes it within its sentences: "Urlaub"."""
    found = re.findall(rf"(?<=[\w,;] ){re.escape(name)}(?!\w)", _text(passage), re.IGNORECASE)
    return Counter(found).most_common(1)[0][0] if found else name


def _text(passage: Passage) -> str:
    return " ".join(sentence.text for sentence, *_ in passage.sentences)


def _is_readable(name: str) -> bool:
    """Whether a file's or folder's name reads as a name, not as a number or a hash."""
    return (
        re.search(r"[^\W\d_]{2}", name) is not None
        and not re.fullmatch(r"[0-9a-f]{8,}", name.replace(" ", ""))
        and sum(character.isdigit() for character in name) <= 0.3 * len(name)
    )


@lru_cache(maxsize=4096)
def _tells(topic: str, language: str | None) -> bool:
    """Whether a topic reads as one: no question, no sentence, no number."""
    opening = topic.split(" ", maxsplit=1)[0].casefold()
    is_opened = opening not in stop_words(language) or opening in articles(language)
    return is_opened and _is_phrase(topic, language)


def _is_phrase(topic: str, language: str | None) -> bool:
    return (
        any(not word.isdigit() for word in content_words(topic, language))
        and len(words(topic)) <= MAX_WORDS * (1 if " " in topic else 3)
        and len(topic) <= MAX_CHARACTERS
        and not re.search(r"\w\(|\b[A-Z\d]\.\d", topic)
        and not topic.endswith(("?", "!", ".", "()", ":", ",", "？", "。"))
        and topic.count("(") == topic.count(")")
    )
