"""The keyless question generator: questions by rule, each about one passage, answered by a sentence of it."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rageval_dagster.benchmark.by_rule.facts import CorpusFacts, Passage, Read, read_corpus, wording
from rageval_dagster.benchmark.by_rule.prose import READ_CHARACTERS, Sentence, eligible, words
from rageval_dagster.benchmark.by_rule.terms import AGAIN, Term, content_words
from rageval_dagster.benchmark.by_rule.topics import SPOKEN, Topic, document_topic, section_topic, share_said
from rageval_dagster.benchmark.rules import Pair, broken_rules, measure
from rageval_dagster.benchmark.wording import CLEAN, noise_kind
from rageval_dagster.identity import digest
from rageval_dagster.languages import articles, fixed_questions, hangs, stop_words, verbs
from rageval_dagster.records import Candidate, Chunk, Evidence, Item
from rageval_dagster.text import is_character

REVISION = 9
"""Of the rules: other ones make other candidates of the same chunks."""

MAX_ANSWER_CHARACTERS = 300
MIN_NEW_WORDS, MIN_NEW_WORDS_OF_SECTION = 3, 5
"""An answer says at least so much that its question does not; what opens a section often does no more than open it."""
RARE = 2
"""What is asked about stands together in no more chunks: neighbours that overlap are two."""
MOST = 0.6
"""Terms that have so many of a topic's words are the topic."""
SHORT = 2
"""A document of no more chunks is about little else than its title: what it names by the way tells enough there."""
QUERIES = 8
"""One question of so many is put as people type into a search box."""


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

    The questions test whether the passage is found. There are few kinds (known-item questions, Azzopardi et al. 2007):

    - about a topic: that of a document of one passage, or of a section that begins in the passage;
    - about the subject of one sentence, where that is plain (`subjects`): an identifier, a name, or a noun that the
      passage says again;
    - in a document of no more than `SHORT` chunks, about an identifier or a name that the passage says again.

    What is asked about stands in no other passage, with the document's topic or section, which the question tells. One
    question of `QUERIES`, and each in a language without fixed sentences, is put as a search query.

    The expected answer is the sentence. No sentence is asked about that stands in several documents or points back at
    another one. Categories: `entity_specific` where a name is asked about, `temporal` where a year
    is, else `factual_lookup`; never `multi_hop`, which is left to a model.

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
    facts = facts or read_corpus(chunks, lambda: chunks, language)
    sizes = chunks_per_document or Counter(chunk.document_id for chunk in chunks)
    found: list[Candidate] = []
    for chunk in chunks:
        item, reason = _write(facts.passages[chunk.content_key], facts, seed, sizes.get(chunk.document_id, 1))
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
    """A passage with what its questions are made of: its sentences that can be asked about, its document's topic and
    number of chunks."""

    passage: Passage
    own: Sequence[Read]
    facts: CorpusFacts
    topic: Topic | None
    seed: int
    size: int

    @property
    def language(self) -> str | None:
        return self.passage.language

    def draw(self, what: str = "") -> str:
        return digest(str(self.seed), self.passage.chunk.text_hash, what)


def _write(passage: Passage, facts: CorpusFacts, seed: int, size: int) -> tuple[Item | None, str]:
    """The first draft that meets the rules, or why there is none; `size` is that of the document, in chunks."""
    text = passage.chunk.text[:READ_CHARACTERS]
    if not eligible(text):
        return None, "too_little_prose"
    own = [each for each in passage.sentences if wording(each[0].text) not in facts.repeated]
    if not own:
        return None, "stands_elsewhere" if passage.sentences else "no_complete_sentence"
    # No question about it would meet the rules, and there may be thousands.
    if noise_kind(text) != CLEAN:
        return None, "no_question"
    own = [
        each for each in own if len(each[0].text) <= MAX_ANSWER_CHARACTERS and not hangs(each[0].text, passage.language)
    ]
    source = _Source(passage, own, facts, document_topic(passage, facts), seed, size)
    for kind in (_topics, _subjects, _named):
        for item in sorted(kind(source), key=lambda draft: source.draw(draft.question)):
            if _tells_more(item, passage) and not broken_rules(measure(Pair(item.item_id, item, "generated", text))):
                return item, ""
    return None, "no_question"


def _tells_more(item: Item, passage: Passage, least: int = MIN_NEW_WORDS) -> bool:
    asked = set(content_words(item.question, passage.language))
    return len(set(content_words(item.answers[0], passage.language)) - asked) >= least


def _topics(source: _Source) -> Iterator[Item]:
    """What the only passage about a topic says of it first, or the section that begins in a passage."""
    asked, language, passage = fixed_questions(source.language), source.language, source.passage
    if asked is None:
        return
    document = source.topic
    if source.size == 1 and document and document.document_id:
        topic = document.text
        is_name = all(word[0].isupper() for word in topic.split() if word.casefold() not in stop_words(language))
        for sentence, *_ in source.own[:1]:
            if sentence == passage.sentences[0][0] and _is_defined(topic, sentence, language):
                category = "entity_specific" if is_name else "factual_lookup"
                yield _item(passage, sentence, asked.about.format(terms=topic), category)
                return
    for sentence, *_ in source.own:
        section = section_topic(sentence.heading, passage, source.facts) if sentence.opens else None
        if section and _opens_with(section, sentence, language):
            if document and not set(content_words(document.text, language)) <= set(content_words(section, language)):
                question = asked.in_context.format(terms=section, topic=document.text)
            else:
                question = asked.about.format(terms=section)
            item = _item(passage, sentence, question, "factual_lookup")
            if _tells_more(item, passage, MIN_NEW_WORDS_OF_SECTION):
                yield item


def _is_defined(topic: str, sentence: Sentence, language: str | None) -> bool:
    """Whether a sentence begins with a topic and a verb."""
    found, name = words(sentence.text), words(topic.partition(" (")[0])
    name = name[1:] if name[:1] and name[0] in articles(language) else name
    found = found[1:] if found[0] in articles(language) else found
    return bool(name) and found[: len(name)] == name and not verbs(language).isdisjoint(found[len(name) :][:1])


def _opens_with(topic: str, sentence: Sentence, language: str | None) -> bool:
    """Whether a sentence says what it says of a topic: half of its words are among the first."""
    first = content_words(sentence.text, language)[: len(set(content_words(topic, language))) + 1]
    return share_said(topic, first, language) >= SPOKEN


def _subjects(source: _Source) -> Iterator[Item]:
    """What sentences say of their subject."""
    text = " ".join(sentence.text for sentence, *_ in source.passage.sentences).casefold()
    for sentence, subject, found in source.own:
        # A noun that is said but once is most often no topic: "the simplest approach".
        if subject and (subject.kind != "noun" or text.count(subject.text.casefold()) >= AGAIN):
            item = _about(subject, sentence, _telling(found, source.passage), source)
            if item:
                yield item


def _named(source: _Source) -> Iterator[Item]:
    """What sentences of a short document say of an identifier or a name."""
    for sentence, _, found in source.own if source.size <= SHORT else ():
        telling = _telling(found, source.passage)
        drafts = (_about(term, sentence, telling, source) for term in telling if term.kind != "year")
        item = next(filter(None, drafts), None)
        if item:
            yield item


def _telling(found: Sequence[Term], passage: Passage) -> list[Term]:
    """What a sentence names that its passage names again, the most telling first."""
    again = [term for term in found if _times(term, passage) >= AGAIN]
    return sorted(again, key=lambda term: (term.kind == "year", term.kind == "name", -len(term.text)))


def _about(first: Term, sentence: Sentence, telling: Sequence[Term], source: _Source) -> Item | None:
    """What a sentence says of a term; where that stands in too many chunks, together with another."""
    section = section_topic(sentence.heading, source.passage, source.facts)
    topic = Topic(section, source.passage.chunk.document_id) if section else source.topic
    pairs = ([first, other] for other in telling if _differ(first, other, source.language))
    alone = (chosen for chosen in ([first], *pairs) if _is_alone(chosen, sentence, topic, source.facts))
    chosen = sorted(next(alone, ()), key=lambda term: term.start)
    question = _question(chosen, topic, source) if chosen else None
    return _item(source.passage, sentence, question, _category(chosen)) if question else None


def _differ(one: Term, other: Term, language: str | None) -> bool:
    return set(content_words(one.text, language)).isdisjoint(content_words(other.text, language))


def _is_whole_name(term: Term) -> bool:
    return term.kind == "name" and (" " in term.text or is_character(term.text[0]))


def _question(chosen: Sequence[Term], topic: Topic | None, source: _Source) -> str | None:
    """The question about terms of a topic; None where they say nothing that it does not, or too little without it."""
    asked, texts = fixed_questions(source.language), [term.text for term in chosen]
    if topic is None and not any(term.kind == "identifier" or _is_whole_name(term) for term in chosen):
        return None
    if topic and share_said(" ".join(texts), content_words(topic.text, source.language), source.language) >= MOST:
        return None
    query = " ".join([*([topic.text] if topic else []), *texts])
    # Two words would be too short for the rules.
    if asked is None or (int(source.draw()[:8], 16) % QUERIES == 0 and len(words(query)) > 2):
        return query
    terms = asked.joint.join(texts)
    return asked.in_context.format(terms=terms, topic=topic.text) if topic else asked.about.format(terms=terms)


def _times(term: Term, passage: Passage) -> int:
    """How often a passage says the words of a term, the least of them."""
    return min((passage.words.get(word, 0) for word in content_words(term.text, passage.language)), default=0)


def _is_alone(chosen: Sequence[Term], sentence: Sentence, topic: Topic | None, facts: CorpusFacts) -> bool:
    """Whether terms stand together only where their sentence does, or beside it, where chunks overlap; of a topic that
    one document has, in its chunks."""
    where = [facts.places.get(wording(term.text), frozenset()) for term in chosen]
    together = frozenset.intersection(*where)
    if topic and topic.document_id:
        together = frozenset(place for place in together if facts.documents[place] == topic.document_id)
    beside = {near for place in facts.places.get(wording(sentence.text), ()) for near in (place - 1, place, place + 1)}
    return 0 < len(together) <= RARE and together <= beside


def _category(chosen: Sequence[Term]) -> str:
    kinds = {term.kind for term in chosen}
    return "temporal" if "year" in kinds else "entity_specific" if "name" in kinds else "factual_lookup"


def _item(passage: Passage, sentence: Sentence, question: str, category: str) -> Item:
    evidence = Evidence(passage.chunk.document_id, passage.chunk.page, sentence.quote)
    return Item(question, (sentence.text,), (evidence,), category, origin="extractive")
