"""The keyless question generator: questions by rule about chunks, their answers exact spans of them."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from rageval_dagster.benchmark.by_rule.clozes import KINDS, clozes
from rageval_dagster.benchmark.by_rule.english import (
    SUBJECT_QUESTIONS,
    known_item,
    names_subject,
    stands_alone,
    subject_of,
)
from rageval_dagster.benchmark.by_rule.facts import CorpusFacts, read_corpus, wording
from rageval_dagster.benchmark.by_rule.prose import READ_CHARACTERS, Sentence, eligible, prose
from rageval_dagster.benchmark.rules import Pair, broken_rules, measure
from rageval_dagster.benchmark.wording import CLEAN, noise_kind
from rageval_dagster.identity import digest
from rageval_dagster.records import Candidate, Chunk, Evidence, Item

REVISION = 7
"""Of the rules: other ones make other candidates of the same chunks."""

MAX_ANSWER_CHARACTERS = 300


def generator_name(seed: int, language: str | None = None) -> str:
    return f"extractive/{REVISION} seed {seed}" + (f" language {language}" if language else "")


def generate(
    chunks: Sequence[Chunk],
    seed: int,
    chunks_per_document: Mapping[str, int] | None = None,
    language: str | None = None,
    facts: CorpusFacts | None = None,
) -> list[Candidate]:
    """One candidate a chunk, in the chunks' order: a question with its answer and quote, or why there is none.

    A question repeats no more of the chunk's words than it takes to single the chunk out:

    - A chunk that is the only one about its subject is asked about by the subject alone, in everyday words.
    - Of others, a known-item question names what a sentence mentions and few chunks do (Azzopardi et al. 2007), and
      the subject, unless no chunk has any.
    - In other languages, and where the language is not known, a sentence becomes a cloze (`by_rule.clozes`).

    No sentence is asked about that stands in several documents. Categories: `factual_lookup`, `entity_specific`, and
    `temporal` where a year is asked about or blanked out; never `multi_hop`.

    Every question meets the pair rules of `benchmark.rules`. Never raises, for any text. The quote is an exact
    substring of the chunk; the answer is one too, but for line breaks, which become blanks. A candidate's `chunk_key`
    is the chunk's `content_key`: the same text of a document has the same candidate, whatever its id.

    Failure reasons: `too_little_prose`, `no_complete_sentence`, `stands_elsewhere`, `no_question`.

    Args:
        seed: another seed, other questions.
        chunks_per_document: how many chunks the corpus has of each document; without it, `chunks` are the corpus.
        language: of all chunks; without it, each one's is detected.
        facts: what the corpus tells of the chunks; without it, `chunks` are the corpus.
    """
    facts = facts or read_corpus(chunks, chunks, language)
    sources = [_Source.read(chunk, language, facts) for chunk in chunks]
    sizes = chunks_per_document or Counter(chunk.document_id for chunk in chunks)
    subjects = Counter(source.subject for source in sources)
    found: list[Candidate] = []
    nameless = not any(subjects)
    for chunk, source in zip(chunks, sources, strict=True):
        alone = subjects[source.subject] == 1 and sizes.get(chunk.document_id, 1) <= 1
        item, reason = _write(source, seed, alone, nameless)
        found.append(
            Candidate(
                chunk_key=chunk.content_key,
                generator=generator_name(seed, language),
                attempt=0,
                status="new" if item else "failed",
                item=item,
                reasons=() if item else (reason,),
            )
        )
    return found


@dataclass(frozen=True)
class _Source:
    """A chunk as it is read: its complete sentences, those of them that no other document has, and their subject."""

    chunk: Chunk
    language: str | None
    sentences: Sequence[Sentence]
    own: Sequence[Sentence]
    title: str | None
    facts: CorpusFacts

    @classmethod
    def read(cls, chunk: Chunk, language: str | None, facts: CorpusFacts) -> "_Source":
        language, sentences = prose(chunk, language)
        own = [sentence for sentence in sentences if wording(sentence.text) not in facts.repeated]
        chunk = replace(chunk, text=chunk.text[:READ_CHARACTERS])
        return cls(chunk, language, sentences, own, facts.titles.get(chunk.document_id), facts)

    @property
    def subject(self) -> str | None:
        """What the whole chunk is about."""
        return self.subject_under(None) or (self.subject_under(self.own[0].heading) if self.own else None)

    def subject_under(self, heading: str | None) -> str | None:
        # The id of a chunk without a document names nothing.
        document_id = self.chunk.document_id if self.chunk.has_document else ""
        return subject_of(document_id, heading, self.title, heading in self.facts.shared_headings)

    def draft(self, question: str, answer: str, quote: str, category: str) -> Item:
        evidence = Evidence(self.chunk.document_id, self.chunk.page, quote)
        return Item(question, (answer,), (evidence,), category, origin="extractive")


def _write(source: _Source, seed: int, alone: bool, nameless: bool) -> tuple[Item | None, str]:
    """The first draft that meets the rules, or why there is none."""
    if not eligible(source.chunk.text):
        return None, "too_little_prose"
    if not source.own:
        return None, "stands_elsewhere" if source.sentences else "no_complete_sentence"
    # No question about it would meet the rules, and there may be thousands.
    if noise_kind(source.chunk.text) != CLEAN:
        return None, "no_question"
    for drafts in _kinds_of_drafts(source, alone, nameless):
        for item in sorted(drafts, key=lambda draft: digest(str(seed), source.chunk.text_hash, draft.question)):
            if not broken_rules(measure(Pair(item.item_id, item, "generated", source.chunk.text))):
                return item, ""
    return None, "no_question"


def _kinds_of_drafts(source: _Source, alone: bool, nameless: bool) -> Iterator[list[Item]]:
    """Drafts kind by kind, the preferred kind first."""
    if source.language == "en":
        if alone:
            yield _subject_questions(source)
        yield _known_items(source, nameless)
        return
    of_sentences = [(sentence, clozes(sentence.text, source.language)) for sentence in source.own]
    for kind in range(KINDS):
        yield [
            source.draft(cloze.question, cloze.answer, sentence.quote, cloze.category)
            for sentence, kinds in of_sentences
            for cloze in kinds[kind]
        ]


def _subject_questions(source: _Source) -> list[Item]:
    """Answered by the first sentence that names the subject, or opens the document."""
    subject = source.subject
    if subject is None:
        return []
    whole = [sentence for sentence in source.own if stands_alone(sentence.text)]
    # The beginning of a document speaks of its subject, named or not.
    opening = whole[:1] if not source.chunk.position else []
    answering = [sentence for sentence in whole if names_subject(sentence.text, subject)] + opening
    category = "entity_specific" if subject[0].isupper() and not subject.isupper() else "factual_lookup"
    return [
        source.draft(question.format(subject=subject), sentence.text, sentence.quote, category)
        for sentence in answering[:1]
        if len(sentence.text) <= MAX_ANSWER_CHARACTERS
        for question in SUBJECT_QUESTIONS
    ]


def _known_items(source: _Source, nameless: bool) -> list[Item]:
    """Answered by the whole sentence; where no chunk has a subject (`nameless`), asked for by rare words alone."""
    drafts: list[Item] = []
    for sentence in source.own:
        subject = source.subject_under(sentence.heading)
        if not (subject or nameless) or len(sentence.text) > MAX_ANSWER_CHARACTERS or not stands_alone(sentence.text):
            continue
        if asked := known_item(sentence.text, subject, source.facts.chunks_with):
            drafts.append(source.draft(asked[0], sentence.text, sentence.quote, asked[1]))
    return drafts
