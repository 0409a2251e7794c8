"""The keyless question generator: questions by rule, each about one passage, answered by a sentence of it."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from math import log

from rageval_dagster.benchmark.by_rule.facts import CorpusFacts, Passage, read_corpus, wording
from rageval_dagster.benchmark.by_rule.prose import READ_CHARACTERS, Sentence, eligible
from rageval_dagster.benchmark.by_rule.terms import Term, content_words
from rageval_dagster.benchmark.by_rule.topics import SPOKEN, Topic, document_topic, section_topic, share_said
from rageval_dagster.benchmark.rules import Pair, broken_rules, measure
from rageval_dagster.benchmark.wording import CLEAN, noise_kind
from rageval_dagster.identity import digest
from rageval_dagster.languages import fixed_questions, hangs, stop_words
from rageval_dagster.records import Candidate, Chunk, Evidence, Item

REVISION = 8
"""Of the rules: other ones make other candidates of the same chunks."""

MAX_ANSWER_CHARACTERS = 300
MIN_NEW_WORDS = 3
"""An answer says at least so much that its question does not."""
RARE = 2
"""What is asked about stands together in no more chunks: neighbours that overlap are two."""
NAMES = 2
"""A question names so many of a sentence's identifiers, names and years at most."""
KEYWORDS = 3
"""A search query has so many words besides its topic, and one more where it needs it."""
BEST = 3
"""So many sentences of a passage, those that tell most, may become its query."""
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
    - about what one sentence names: identifiers and names that together stand in no more than `RARE` chunks;
    - a search query: the words of one sentence that tell most of its passage. In languages without fixed sentences,
      and where a sentence names nothing, it is all there is.

    Where the document has a topic, the question tells it.

    The expected answer is the sentence. No sentence is asked about that stands in several documents, points back at
    another one, or names nothing. Categories: `entity_specific` where a name is asked about, `temporal` where a year
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
        is_alone = sizes.get(chunk.document_id, 1) <= 1
        item, reason = _write(facts.passages[chunk.content_key], facts, seed, is_alone)
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


def _write(passage: Passage, facts: CorpusFacts, seed: int, is_alone: bool) -> tuple[Item | None, str]:
    """The first draft that meets the rules, or why there is none."""
    text = passage.chunk.text[:READ_CHARACTERS]
    if not eligible(text):
        return None, "too_little_prose"
    own = [(sentence, named) for sentence, named in passage.sentences if wording(sentence.text) not in facts.repeated]
    if not own:
        return None, "stands_elsewhere" if passage.sentences else "no_complete_sentence"
    # No question about it would meet the rules, and there may be thousands.
    if noise_kind(text) != CLEAN:
        return None, "no_question"
    own = [
        (sentence, named)
        for sentence, named in own
        if len(sentence.text) <= MAX_ANSWER_CHARACTERS and not hangs(sentence.text, passage.language)
    ]
    is_query = int(digest(str(seed), passage.chunk.text_hash)[:8], 16) % QUERIES == 0
    topic = document_topic(passage, facts)
    kinds = (partial(_topics, is_alone=is_alone), _named, _queries)
    for kind in kinds[::-1] if is_query else kinds:
        for item in sorted(
            kind(passage, own, facts, topic),
            key=lambda draft: digest(str(seed), passage.chunk.text_hash, draft.question),
        ):
            if _tells_more(item, passage) and not broken_rules(measure(Pair(item.item_id, item, "generated", text))):
                return item, ""
    return None, "no_question"


_Named = tuple[Sentence, Sequence[Term]]


def _tells_more(item: Item, passage: Passage) -> bool:
    asked = set(content_words(item.question, passage.language))
    return len(set(content_words(item.answers[0], passage.language)) - asked) >= MIN_NEW_WORDS


def _topics(
    passage: Passage, own: Sequence[_Named], facts: CorpusFacts, document: Topic | None, is_alone: bool
) -> Iterator[Item]:
    """What the only passage about a topic says of it, or the section that begins in a passage."""
    asked, language = fixed_questions(passage.language), passage.language
    if asked is None:
        return
    if is_alone and document and document.document_id and own:
        sentence = _opening(own, document.text, language)
        # "London Bridge" is somebody or something, "imaginary literals" are not.
        is_name = all(
            word[0].isupper() for word in document.text.split() if word.casefold() not in stop_words(language)
        )
        form = asked.topic[0 if is_name else -1]
        category = "entity_specific" if is_name else "factual_lookup"
        yield _item(passage, sentence, form.format(topic=document.text), category)
        return
    for sentence, _ in own:
        section = section_topic(sentence.heading, passage, facts) if sentence.opens else None
        if section and share_said(section, content_words(sentence.text, language), language) >= SPOKEN:
            if document and not set(content_words(document.text, language)) <= set(content_words(section, language)):
                question = asked.terms_of_topic.format(terms=section, topic=document.text)
            else:
                question = asked.topic[-1].format(topic=section)
            yield _item(passage, sentence, question, "factual_lookup")


def _opening(own: Sequence[_Named], topic: str, language: str | None) -> Sentence:
    """The first sentence that names a topic, or half of it; else the first."""
    for sentence, _ in own:
        if share_said(topic, content_words(sentence.text, language), language) >= SPOKEN:
            return sentence
    return own[0][0]


def _named(passage: Passage, own: Sequence[_Named], facts: CorpusFacts, topic: Topic | None) -> Iterator[Item]:
    """What a sentence says of the identifiers and names in it."""
    asked = fixed_questions(passage.language)
    if asked is None:
        return
    for sentence, found in own:
        ranked = [
            term for term in _new(found, topic, passage) if term.kind != "word" and facts.places.get(wording(term.text))
        ]
        ranked.sort(key=lambda term: (term.kind == "year", term.kind == "name", -len(term.text)))
        for most in range(NAMES, 0, -1):
            chosen = _telling(ranked, most, most, topic, facts)
            texts = asked.joint.join(term.text for term in chosen)
            question = asked.terms_of_topic.format(terms=texts, topic=topic.text) if topic else None
            item = _item(passage, sentence, question or asked.terms.format(terms=texts), _category(chosen))
            # A name that is said but once may stand there by the way.
            is_about = any(term.kind == "identifier" or _is_said_again(term, passage) for term in chosen)
            if is_about and _tells_more(item, passage):
                yield item
                break


def _queries(passage: Passage, own: Sequence[_Named], facts: CorpusFacts, of_document: Topic | None) -> Iterator[Item]:
    """The words of a sentence that tell most of its passage, often there and seldom in the corpus (tf-idf); of the
    sentences that tell most."""
    drafts: list[tuple[float, Item]] = []
    for sentence, found in own:
        section = section_topic(sentence.heading, passage, facts)
        topic = Topic(section, passage.chunk.document_id) if section else of_document
        weights: dict[Term, float] = {}
        for term in _new(found, topic, passage):
            places = facts.places.get(wording(term.text))
            times = min((passage.words.get(word, 1) for word in content_words(term.text, passage.language)), default=1)
            # A word that is said but once may stand there by the way.
            if places and (times >= passage.least or term.kind in ("identifier", "name")):
                weights[term] = times * log(1 + len(facts.documents) / len(places))
        ranked = sorted(weights, key=lambda term: (-weights[term], term.start))
        chosen = _telling(ranked, KEYWORDS, KEYWORDS + 1, topic, facts)
        # Common words alone say too little of a whole book.
        is_rare = any(term.kind != "word" or len(facts.places[wording(term.text)]) <= RARE for term in chosen)
        if len(chosen) >= (KEYWORDS - 1 if topic else KEYWORDS) and (section or is_rare):
            question = " ".join([*([topic.text] if topic else []), *(term.text for term in chosen)])
            score = sum(map(weights.__getitem__, chosen))
            drafts.append((score, _item(passage, sentence, question, _category(chosen))))
    yield from (item for _, item in sorted(drafts, key=lambda draft: -draft[0])[:BEST])


def _is_said_again(term: Term, passage: Passage) -> bool:
    said = content_words(term.text, passage.language)
    return term.kind == "name" and all(passage.words.get(word, 0) >= passage.least for word in said)


def _category(chosen: Sequence[Term]) -> str:
    kinds = {term.kind for term in chosen}
    return "temporal" if "year" in kinds else "entity_specific" if "name" in kinds else "factual_lookup"


def _new(found: Sequence[Term], topic: Topic | None, passage: Passage) -> list[Term]:
    """The terms of a sentence that say something beside the topic and each other."""
    known = set(content_words(topic.text, passage.language)) if topic else set()
    new: list[Term] = []
    for term in sorted(found, key=lambda term: -len(term.text)):
        said = content_words(term.text, passage.language)
        if not known.issuperset(said):
            known.update(said)
            new.append(term)
    return new


def _telling(ranked: Sequence[Term], wanted: int, most: int, topic: Topic | None, facts: CorpusFacts) -> list[Term]:
    """The first `wanted` terms, or up to `most`, that together stand in no more than `RARE` chunks, in their order in
    the sentence; none where there are no such. Of a topic that one document has, only its chunks count."""
    chosen: list[Term] = []
    left: set[int] = set()
    for term in ranked:
        places = facts.places[wording(term.text)]
        if topic and topic.document_id:
            places = {place for place in places if facts.documents[place] == topic.document_id}
        fewer = left & places if chosen else set(places)
        if len(chosen) < wanted or len(fewer) < len(left):
            chosen.append(term)
            left = fewer
        if len(chosen) == most or (len(chosen) >= wanted and len(left) <= RARE):
            break
    return sorted(chosen, key=lambda term: term.start) if 0 < len(left) <= RARE else []


def _item(passage: Passage, sentence: Sentence, question: str, category: str) -> Item:
    evidence = Evidence(passage.chunk.document_id, passage.chunk.page, sentence.quote)
    return Item(question, (sentence.text,), (evidence,), category, origin="extractive")
