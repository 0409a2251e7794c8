"""The keyless question generator: questions by rule, each about one passage, answered by a sentence of it."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rageval_dagster.benchmark.by_rule.facts import RARE, CorpusFacts, Passage, Read, read_corpus, wording
from rageval_dagster.benchmark.by_rule.prose import READ_CHARACTERS, Sentence, eligible, entry, words
from rageval_dagster.benchmark.by_rule.subjects import is_verb_or_adverb, noun_phrases
from rageval_dagster.benchmark.by_rule.terms import AGAIN, MIN_LETTERS, Term, content_words
from rageval_dagster.benchmark.by_rule.topics import SPOKEN, Topic, document_topic, section_topic, share_said
from rageval_dagster.benchmark.rules import Pair, broken_rules, measure
from rageval_dagster.benchmark.wording import CLEAN, noise_kind
from rageval_dagster.identity import digest
from rageval_dagster.languages import articles, fixed_questions, hangs, leading, stop_words, verbs
from rageval_dagster.records import Candidate, Chunk, Evidence, Item
from rageval_dagster.text import is_character

REVISION = 13
"""Of the rules: other ones make other candidates of the same chunks."""

MAX_ANSWER_CHARACTERS = 300
MIN_NEW_WORDS, MIN_NEW_WORDS_OF_SECTION = 3, 5
"""An answer says at least so much that its question does not; what opens a section often does no more than open it."""
MAX_WORDS_TO_VERB = 10
"""From a title on: other names and abbreviations stand between them."""
MOST = 0.6
"""Terms that have so many of a topic's words are the topic."""
SHORT = 2
"""A document of no more chunks is about little else than its title: what it names by the way tells enough there."""
PAGE = 4
"""Search queries ask about documents of no more chunks: in longer ones words that are rare by chance mislead."""
MAX_NAMES, MIN_QUERY_WORDS, MAX_QUERY_WORDS = 2, 3, 5
"""Of a search query, beside its topic."""
COMMON, COMMON_SHARE = 10, 0.05
"""Words that stand in more chunks, and in a larger share of them, tell too little to be typed."""


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

    - about the title of a document, which its first sentence defines;
    - about an option or identifier that a list defines, or a section that begins in the passage;
    - about the subject of one sentence, where that is plain (`subjects`): an identifier, or a name or noun that the
      passage says again;
    - else a search query: the document's topic or section, with names and words of one sentence.

    What is asked about stands in no other passage, with the document's topic or section, which the question tells. In
    a language without fixed sentences all are put as search queries.

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
    for kind in (_documents, _sections, _subjects, _queries):
        for item in sorted(kind(source), key=lambda draft: source.draw(draft.question)):
            if _tells_more(item, passage) and not broken_rules(measure(Pair(item.item_id, item, "generated", text))):
                return item, ""
    return None, "no_question"


def _tells_more(item: Item, passage: Passage, least: int = MIN_NEW_WORDS) -> bool:
    asked = set(content_words(item.question, passage.language))
    return len(set(content_words(item.answers[0], passage.language)) - asked) >= least


def _documents(source: _Source) -> Iterator[Item]:
    """What a document, or a passage of a short one, says first, where that defines its title."""
    asked, language, document = fixed_questions(source.language), source.language, source.topic
    # A chunk of its own may hold the title.
    may_define = source.size <= SHORT or source.passage.chunk.position in (0, 1)
    if asked and may_define and document and document.document_id:
        topic = document.text
        is_name = all(word[0].isupper() for word in topic.split() if word.casefold() not in stop_words(language))
        for sentence, *_ in source.own[:1]:
            if sentence == source.passage.sentences[0][0] and _is_defined(topic, sentence, language):
                category = "entity_specific" if is_name else "factual_lookup"
                yield _item(source.passage, sentence, asked.about.format(terms=topic), category)


def _is_defined(topic: str, sentence: Sentence, language: str | None) -> bool:
    """Whether a sentence begins with a topic and a verb, or with a topic, other names of it, and "is a"."""
    found, name = (words(re.sub(r"\([^()]*\)", "", text)) for text in (sentence.text, topic))
    without = articles(language)
    found, name = (each[1:] if each[:1] and each[0] in without else each for each in (found, name))
    rest = found[len(name) :][:MAX_WORDS_TO_VERB]
    verb = next((place for place, word in enumerate(rest) if word in verbs(language)), None)
    is_said = verb == 0 or (verb is not None and not without.isdisjoint(rest[verb + 1 : verb + 2]))
    return bool(name) and found[: len(name)] == name and is_said


def _sections(source: _Source) -> Iterator[Item]:
    """What a section that begins in a passage says first of its heading, or a list of what it defines."""
    asked, language, document = fixed_questions(source.language), source.language, source.topic
    if asked is None:
        return
    named = set(content_words(document.text, language)) if document else set()
    for sentence, said_of, _ in source.own:
        section = section_topic(sentence.heading, source.passage, source.facts, document) if sentence.opens else None
        held = set(content_words(section or "", language))
        # Of a title any sentence says something: one that does not define it is as good as others elsewhere.
        is_title = held == named and not entry(section or "")
        if not section or is_title or not _opens_with(section, sentence, said_of, language):
            continue
        question = asked.about if not document or named <= held else asked.in_context
        question = question.format(terms=section, topic=document.text if document else "")
        item = _item(source.passage, sentence, question, "factual_lookup")
        if entry(section) or _tells_more(item, source.passage, MIN_NEW_WORDS_OF_SECTION):
            yield item


def _opens_with(topic: str, sentence: Sentence, said_of: Term | None, language: str | None) -> bool:
    """Whether a sentence says what it says of a topic: more than half of its words are among the first.

    Of what it defines, a list says it at once, unless it plainly says something of something else.
    """
    if entry(topic):
        return said_of is None or share_said(topic, content_words(said_of.text, language), language) >= SPOKEN
    first = content_words(sentence.text, language)[: len(set(content_words(topic, language))) + 1]
    return share_said(topic, first, language) > SPOKEN


def _subjects(source: _Source) -> Iterator[Item]:
    """What sentences say of their subject."""
    text = " ".join(sentence.text for sentence, *_ in source.passage.sentences).casefold()
    for sentence, subject, found in source.own:
        if subject and text.count(subject.text.casefold()) >= _least(subject, source):
            item = _about(subject, sentence, _telling(found, source.passage), source)
            if item:
                yield item


def _least(subject: Term, source: _Source) -> int:
    """How often a passage says what it may be asked about. What is said but once is most often no topic, such as "the
    simplest approach"; an identifier is one by itself, and under its title a name in a document of no more than
    `SHORT` chunks."""
    is_identifier = subject.kind == "identifier" and " " not in subject.text
    is_titled = source.topic is not None and source.size <= SHORT
    return 1 if is_identifier or (subject.kind == "name" and is_titled) else AGAIN


def _queries(source: _Source) -> Iterator[Item]:
    """What people type who look for a sentence of a page: its topic, and what tells the sentence from others, in its
    order. Where the topic is not known, the terms have to tell more."""
    for read in source.own:
        topic = _topic(read[0], source)
        chosen = _search_terms(read, topic, source)
        length = sum(len(words(term.text)) for term in chosen)
        # A longer document's title may be no more than "Introduction".
        said = share_said(topic.text, source.passage.words, source.language) if topic else 0
        is_titled, is_page = topic is not None and (source.size <= SHORT or said > 0), source.size <= PAGE
        is_about = (is_titled and is_page) or ((is_titled or is_page) and _tell_much(chosen, read[1], source))
        if length >= MIN_QUERY_WORDS * _weight(read[0]) and is_about and _is_particular(chosen, read, topic, source):
            telling = sorted(chosen, key=lambda term: term.start)
            yield _item(source.passage, read[0], _as_query(telling, topic, source.language), _category(telling))


def _is_particular(chosen: Sequence[Term], read: Read, topic: Topic | None, source: _Source) -> bool:
    """Whether one of the terms stands with its sentence alone: what the whole document is about is no help to find a
    sentence. Each has to where all are names, which may be named by the way; and single nouns alone may be any words
    where they do not show by themselves."""
    alone = [_is_alone([term], read[0], topic, source.facts) for term in chosen]
    is_plain = all(term.kind == "noun" and " " not in term.text and term != read[1] for term in chosen)
    if leading(source.language) and is_plain:
        return False
    return all(alone) if all(term.kind == "name" for term in chosen) else any(alone)


def _tell_much(chosen: Sequence[Term], subject: Term | None, source: _Source) -> bool:
    """Whether terms tell what is looked for where a topic does not: a noun with what stands before it, and the subject,
    an identifier, or in a page a whole name; where nouns do not show, what the passage says again."""
    if not leading(source.language):
        return any(_is_said_again(term, source.passage) for term in chosen)
    is_page = source.size <= PAGE
    is_pinned = any(
        term.kind == "identifier" or term == subject or (is_page and _is_whole_name(term)) for term in chosen
    )
    return is_pinned and any(term.kind == "identifier" or (term.kind == "noun" and " " in term.text) for term in chosen)


def _as_query(telling: Sequence[Term], topic: Topic | None, language: str | None) -> str:
    """What is typed: without the article that a topic opens with."""
    opening, _, rest = topic.text.partition(" ") if topic else ("", "", "")
    text = [rest if opening.casefold() in articles(language) and rest else topic.text] if topic else []
    return " ".join([*text, *(term.text for term in telling)])


def _topic(sentence: Sentence, source: _Source) -> Topic | None:
    """A sentence's section, else its document's topic."""
    section = section_topic(sentence.heading, source.passage, source.facts)
    return Topic(section, source.passage.chunk.document_id) if section else source.topic


def _search_terms(read: Read, topic: Topic | None, source: _Source) -> list[Term]:
    """A sentence's subject, names, a year and nouns, as many as leave something for the answer to say."""
    sentence, subject, found = read
    names = [term for term in found if term.kind != "year" and not _is_common(term, source.facts)][:MAX_NAMES]
    years = [term for term in found if term.kind == "year"][:1]
    told = [*([subject] if subject else []), *names, *years]
    most = MAX_QUERY_WORDS * _weight(sentence)
    chosen: list[Term] = []
    said = set(content_words(topic.text, source.language)) if topic else set()
    unsaid = set(content_words(sentence.text, source.language)) - said
    for term in [*told, *_plain(sentence, topic, source)]:
        stems = set(content_words(term.text, source.language))
        is_said = any(each.startswith(other) or other.startswith(each) for each in stems for other in said)
        length = sum(len(words(each.text)) for each in [*chosen, term])
        if stems and not is_said and len(unsaid - stems) >= MIN_NEW_WORDS and length <= most:
            chosen.append(term)
            said |= stems
            unsaid -= stems
    return chosen


def _weight(sentence: Sentence) -> int:
    """So many characters say what a word does, in scripts without spaces."""
    return 3 if is_character(sentence.text[0]) else 1


def _plain(sentence: Sentence, topic: Topic | None, source: _Source) -> list[Term]:
    """The nouns of a sentence, as far as they show, the most telling first: those of several words, the rarest of the
    corpus, and without a topic those that the passage says again."""
    found = [
        term
        for term in noun_phrases(sentence.text, source.language)
        if not _is_common(term, source.facts)
        and _is_noun(term, source)
        and not _may_be_idiom(term, sentence, source)
        and not is_verb_or_adverb(term.text, source.language)
    ]
    return sorted(
        found,
        key=lambda term: (
            topic is None and not _is_said_again(term, source.passage),
            " " not in term.text,
            _chunks_with(term, source.facts),
        ),
    )


def _is_noun(term: Term, source: _Source) -> bool:
    """Whether a word plainly is a noun, or ends with one: in German by its capital. Where that does not show, any word
    may be."""
    if source.language == "de":
        return term.start > 0 and term.text[0].isupper()
    head = term.text.split()[-1].lower()
    return not leading(source.language) or (len(head) >= MIN_LETTERS and head in source.facts.nouns[source.language])


def _may_be_idiom(term: Term, sentence: Sentence, source: _Source) -> bool:
    """Whether a noun that stands alone behind a preposition may be of an idiom, such as "in turn": the passage does
    not say it again."""
    before = "".join(sentence.text[: term.start].split()[-1:]).casefold()
    is_alone = bool(leading(source.language)) and " " not in term.text and before not in articles(source.language)
    return is_alone and not _is_said_again(term, source.passage)


def _is_said_again(term: Term, passage: Passage) -> bool:
    if not is_character(term.text[0]):
        return _times(term, passage) >= AGAIN
    return sum(sentence.text.count(term.text) for sentence, *_ in passage.sentences) >= AGAIN


def _is_common(term: Term, facts: CorpusFacts) -> bool:
    is_read = not is_character(term.text[0])
    return is_read and _chunks_with(term, facts) > max(COMMON, COMMON_SHARE * len(facts.documents))


def _chunks_with(term: Term, facts: CorpusFacts) -> int:
    """In how many chunks the rarest word of a term stands."""
    return min((facts.chunks_with.get(word, 0) for word in words(term.text)), default=0)


def _telling(found: Sequence[Term], passage: Passage) -> list[Term]:
    """What a sentence names that its passage names again, the most telling first."""
    again = [term for term in found if _times(term, passage) >= AGAIN]
    return sorted(again, key=lambda term: (term.kind == "year", term.kind == "name", -len(term.text)))


def _about(first: Term, sentence: Sentence, telling: Sequence[Term], source: _Source) -> Item | None:
    """What a sentence says of a term; where that stands in too many chunks, together with another."""
    topic = _topic(sentence, source)
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
    if asked is None:
        return _as_query(chosen, topic, source.language)
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
