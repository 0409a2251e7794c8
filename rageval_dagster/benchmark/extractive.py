"""The keyless question generator: questions by rule about sentences of a chunk, their answers spans of that chunk."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath

from rageval_dagster.benchmark import english
from rageval_dagster.benchmark.questions import Asked, ask, tidy
from rageval_dagster.benchmark.sentences import Sentence, eligible, is_english, sentences, words
from rageval_dagster.identity import digest
from rageval_dagster.records import Candidate, Chunk, Evidence, Item, Progress

GENERATOR = "extractive/1"

BLANK = "____"
MAX_ANSWER_CHARACTERS = 200


def generate(chunks: Sequence[Chunk], seed: int, progress: Progress | None = None) -> list[Candidate]:
    """One candidate a chunk, in the chunks' order: a question with its answer and quote, or why there is none.

    English sentences are turned into wh-questions by rule; where no rule applies, a known-item question names what the
    sentence is about (Azzopardi et al. 2007). Other languages get a cloze question: the sentence with the answer blanked
    out (Lee et al. 2019). Never raises for any text.

    The quote is an exact substring of the chunk; the answer is one too, but for line breaks, which become blanks.
    A candidate's `chunk_key` is the chunk's `content_key`: the same text of a document has the same candidate, whatever its id.

    Failure reasons: `too_little_prose`, `no_complete_sentence`, `no_question`.
    """
    found: list[Candidate] = []
    for number, chunk in enumerate(chunks):
        item, reason = _write(chunk, seed)
        found.append(
            Candidate(
                chunk_key=chunk.content_key,
                generator=f"{GENERATOR} seed {seed}",
                attempt=0,
                status="new" if item else "failed",
                item=item,
                reasons=() if item else (reason,),
            )
        )
        if progress:
            progress(number + 1, len(chunks))
    return found


@dataclass(frozen=True)
class _Draft:
    question: str
    answer: str
    sentence: Sentence
    category: str
    preference: int


def _write(chunk: Chunk, seed: int) -> tuple[Item | None, str]:
    if not eligible(chunk.text):
        return None, "too_little_prose"
    prose = sentences(chunk.text)
    if not prose:
        return None, "no_complete_sentence"
    if is_english(" ".join(sentence.text for sentence in prose)):
        drafts = list(_wh_questions(chunk, prose)) or list(_known_items(chunk, prose))
    else:
        drafts = list(_clozes(prose))
    if not drafts:
        return None, "no_question"
    draft = min(drafts, key=lambda d: (d.preference, digest(str(seed), chunk.text_hash, d.question)))
    evidence = Evidence(chunk.document_id, chunk.page, draft.sentence.quote)
    item = Item(draft.question, (draft.answer,), (evidence,), draft.category, origin="extractive")
    return item, ""


def _wh_questions(chunk: Chunk, prose: Sequence[Sentence]) -> Iterator[_Draft]:
    for sentence in prose:
        topic = topic_of(chunk.document_id, sentence.heading)
        for asked in ask(sentence.text, topic, sentence.previous):
            question = _in_context(asked, topic)
            answer = sentence.text[asked.start : asked.end]
            if question is None or len(answer) > MAX_ANSWER_CHARACTERS or _gives_away(question, answer):
                continue
            yield _Draft(question, answer, sentence, _category(asked, answer), 0)


def _known_items(chunk: Chunk, prose: Sequence[Sentence]) -> Iterator[_Draft]:
    """ "What does X say about a and b?", answered by the whole sentence."""
    for sentence in prose:
        topic = topic_of(chunk.document_id, sentence.heading)
        terms = _terms(sentence.text, topic)
        if topic is None or len(terms) < 2 or len(sentence.text) > MAX_ANSWER_CHARACTERS:
            continue
        question = f"Regarding {topic}, what is said about {terms[0]} and {terms[1]}?"
        yield _Draft(question, sentence.text, sentence, "factual_lookup", 1)


def _clozes(prose: Sequence[Sentence]) -> Iterator[_Draft]:
    for sentence in prose:
        for match in re.finditer(r"[^\W_]{4,}|\d+", sentence.text):
            cut = f"{sentence.text[: match.start()]}{BLANK}{sentence.text[match.end() :]}"
            yield _Draft(tidy(cut), match.group(), sentence, "factual_lookup", 1)


def _terms(text: str, topic: str | None) -> list[str]:
    """The two longest content words of a sentence that the topic does not name, in the order of the sentence."""
    known = {word[:5] for word in words(topic or "")}
    candidates = [
        word for word in dict.fromkeys(words(text)) if word not in english.STOPWORDS and word[:5] not in known
    ]
    longest = sorted(candidates, key=lambda word: (-len(word), word))[:2]
    return [word for word in candidates if word in longest]


def _in_context(asked: Asked, topic: str | None) -> str | None:
    """The question with its topic named, None if it would hang in the air."""
    if topic is None:
        return None if asked.common else asked.question
    if _names(asked.question, topic):
        return asked.question
    question = asked.question[0].lower() + asked.question[1:]
    return f"Regarding {topic}, {question}"


def _names(question: str, topic: str) -> bool:
    stems = {word[:5] for word in words(question)}
    named = [word[:5] for word in words(re.sub(r"\(.*?\)", "", topic)) if word not in english.STOPWORDS]
    return bool(named) and sum(word in stems for word in named) / len(named) >= 0.5


def _gives_away(question: str, answer: str) -> bool:
    """Whether the question already holds the words of its answer."""
    asked = set(words(question))
    content = [word for word in words(answer) if word not in english.STOPWORDS]
    return not content or sum(word in asked for word in content) / len(content) > 0.5


def _category(asked: Asked, answer: str) -> str:
    if (
        asked.kind == "when"
        or re.search(r"\b(1[0-9]|20)\d\d\b", answer)
        or any(m in answer.split() for m in english.MONTHS)
    ):
        return "temporal"
    if asked.kind in {"who", "where"} or re.match(r"(The |the )?[A-Z]", answer):
        return "entity_specific"
    return "factual_lookup"


@lru_cache(maxsize=4096)
def topic_of(document_id: str, heading: str | None) -> str | None:
    """What a sentence is about: its document's name if that reads as a name, else the heading above the sentence.

    A heading that holds the document's name says more and wins: 'The "assert" statement' over `assert`.
    """
    name = re.sub(r"[\s_-]+", " ", PurePosixPath(document_id.replace("\\", "/")).stem).strip()
    readable = (
        re.search(r"[^\W\d_]{3}", name)
        and not re.fullmatch(r"[0-9a-f]{8,}", name.replace(" ", ""))
        and sum(character.isdigit() for character in name) <= 0.3 * len(name)
        and len(name.split()) <= 8
    )
    heading = tidy(heading) if heading else None
    if not readable:
        return heading
    if heading and name.lower() in heading.lower():
        return heading
    return name
