"""The keyless question generator: questions by rule, each about one passage, answered by a sentence of it."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from rageval_dagster.benchmark.by_rule.facts import RARE, SHORT, CorpusFacts, Passage, Read, read_corpus, wording
from rageval_dagster.benchmark.by_rule.prose import (
    READ_CHARACTERS,
    Sentence,
    eligible,
    entry,
    is_question,
    without_number,
    words,
)
from rageval_dagster.benchmark.by_rule.subjects import noun_phrases
from rageval_dagster.benchmark.by_rule.terms import AGAIN, CAPITALISED, MIN_LETTERS, STEM, Term, content_words
from rageval_dagster.benchmark.by_rule.topics import (
    MIN_TOPIC_WORDS,
    SPOKEN,
    Topic,
    document_topic,
    section_topic,
    share_said,
)
from rageval_dagster.benchmark.rules import Pair, broken_rules, measure
from rageval_dagster.benchmark.wording import CLEAN, noise_kind
from rageval_dagster.identity import digest
from rageval_dagster.languages import (
    articles,
    asked_articles,
    fixed_questions,
    hangs,
    leading,
    pronouns,
    stop_words,
    verbs,
)
from rageval_dagster.records import Candidate, Chunk, Evidence, Item
from rageval_dagster.text import is_character

REVISION = 24
"""Of the rules: other ones make other candidates of the same chunks."""

MAX_ANSWER_CHARACTERS = 300
MIN_NEW_WORDS, MIN_NEW_WORDS_OF_SUBJECT, MIN_NEW_WORDS_OF_SECTION = 3, 4, 5
"""An answer says at least so much that its question does not: more of a name or noun ("ICMPv6 is defined in RFC 4443"),
or of what a list defines ("serverName: The name of the server"), and of what opens a section, which often does no more
than open it."""
MAX_WORDS_TO_VERB = 10
"""From a title on: other names and abbreviations stand between them."""
MIN_ASKED_WORDS = 2
"""That carry meaning, of a question that a heading asks."""
MOST = 0.6
"""A term that has so many of a topic's words is the topic."""
MAX_QUESTIONS = 3
"""Of one passage."""
PAGE = 8
"""A document of no more chunks is a page: under its title it opens as a section does."""
BOOK = 100
"""The title of a document of so many chunks tells little of each. Where it is not needed, it only leads away from the
passage: of 72 questions about Kerberos' manuals, the reference system found .54 without any title, .36 with all."""
MAX_TERMS = 2
"""Of a search query, beside its topic."""
_CLAUSE_ENDS = re.compile(r"[,;:.]|\b(?:that|which|who|whose|what|how|where|when|if|whether|to|que|qui|che|dat)\b")
_BEFORE_QUESTION = re.compile(r"^(?:[-–—•]|\d{1,2}\b|Q(?=[:.]))[\s.:)]+(?=\W*[A-ZÀ-Þ])")
_PARTS = re.compile(r"[,;:–—]")
_AND = re.compile(r"\b(?:and|or|und|et)\b")
_LISTED_BEFORE = re.compile(r"[^\W\d_a-zß-ÿ][\w.]*\)? ?(?:,|,? (?:and|or|und|oder|et|ou|e|o|y|en)) (?:the )?$")
_LISTED_AFTER = re.compile(r"(?: \([^()]*\))? ?(?:,|,? (?:and|or|und|oder|et|ou|e|o|y|en)) [^\W\d_a-zß-ÿ]")
_NAME_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
SPREAD = 3
"""Chunks that have a word of what is asked about only by the way."""
COMMON, COMMON_SHARE = 10, 0.05
"""Words that stand in more chunks, and in a larger share of them, tell too little to be typed."""


def generator_name(seed: int, language: str | None = None) -> str:
    return f"extractive/{REVISION} seed {seed}" + (f" language {language}" if language else "")


def without_revision(name: str) -> str | None:
    """What of a name that `generator_name` gave says how the rules are asked; None of other generators."""
    match = re.fullmatch(r"extractive/\d+ (seed .*)", name)
    return match[1] if match else None


def generate(
    chunks: Sequence[Chunk],
    seed: int,
    chunks_per_document: Mapping[str, int] | None = None,
    language: str | None = None,
    facts: CorpusFacts | None = None,
) -> list[Candidate]:
    """The candidates of each chunk, in the chunks' order: a question with its answer and quote, of headings that stand
    in one chunk up to `MAX_QUESTIONS`, or one that says why there is none.

    The questions test whether the passage is found. There are few kinds (known-item questions, Azzopardi et al. 2007):

    - a question that a heading asks itself, as in a list of frequent ones;
    - about the title of a document, which its first sentence defines;
    - about an option or identifier that a list defines, or a section that begins in the passage and tells of its
      heading, as far as the words show;
    - in a corpus of articles, about the subject of one sentence, where that is plain (`subjects`): an identifier, or a
      name or noun that the passage says again;
    - else, in a document of no more than `SHORT` chunks of such a corpus, about a name or identifier that one sentence
      mentions; or a search query: its topic, with one to three whole names, identifiers, years or nouns of one
      sentence, of which the passage goes on to tell. Where no topic is known, the subject is among them.

    What is asked about stands in no other passage, with the document's topic or section. The question tells that; the
    title of a long document only where it is needed, or the heading is short. In a language without fixed sentences all
    are put as search queries.

    The expected answer is the sentence with what follows it in its paragraph, and the list after that; of what opens a
    section, with the rest of it; all up to a length. No sentence is asked about that stands in several documents,
    points back at another one than its heading, or only leads up to a list that is too long, and of a document that
    lists what changed from version to version only what its headings ask. Categories: `entity_specific` where a name
    is asked about, `temporal` where a year is, else `factual_lookup`; never `multi_hop`, which is left to a model.

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
        items, reason = _write(facts.passages[chunk.content_key], facts, seed, sizes.get(chunk.document_id, 1))
        found += [
            Candidate(
                chunk_key=chunk.content_key,
                generator=generator_name(seed, language),
                attempt=attempt,
                status="new" if item else "failed",
                item=item,
                reasons=() if item else (reason,),
            )
            for attempt, item in enumerate(items or [None])
        ]
    return found


@dataclass(frozen=True)
class _Source:
    """A passage with what its questions are made of: its sentences that can be asked about, those that can as the first
    under their headings, its document's topic and number of chunks."""

    passage: Passage
    own: Sequence[Read]
    opening: Sequence[Read]
    facts: CorpusFacts
    topic: Topic | None
    seed: int
    size: int

    @property
    def language(self) -> str | None:
        return self.passage.language

    @property
    def is_book(self) -> bool:
        return self.size >= BOOK

    @cached_property
    def said(self) -> Mapping[str, int]:
        """How often the passage has each word, in lower case."""
        return Counter(word for sentence, *_ in self.passage.sentences for word in words(sentence.text))

    def is_alike(self, sentence: Sentence) -> bool:
        """Whether many documents say the same of themselves."""
        return wording(sentence.text) in self.facts.alike

    def draw(self, what: str = "") -> str:
        return digest(str(self.seed), self.passage.chunk.text_hash, what)


def _write(passage: Passage, facts: CorpusFacts, seed: int, size: int) -> tuple[list[Item], str]:
    """The first draft that meets the rules, or of headings the first of each of some; or why there is none. `size` is
    that of the document, in chunks."""
    text = passage.chunk.text[:READ_CHARACTERS]
    if not eligible(text):
        return [], "too_little_prose"
    own = [each for each in passage.sentences if wording(each[0].text) not in facts.repeated]
    if not own:
        return [], "stands_elsewhere" if passage.sentences else "no_complete_sentence"
    # No question about it would meet the rules, and there may be thousands.
    if noise_kind(text) != CLEAN:
        return [], "no_question"
    own = [each for each in own if len(each[0].text) <= MAX_ANSWER_CHARACTERS]
    opening = [each for each in own if each[0].opens and _is_below(each[0], passage.language)]
    own = [each for each in own if not hangs(each[0].text, passage.language)]
    source = _Source(passage, own, opening, facts, document_topic(passage, facts), seed, size)
    kinds = [_asked, _documents]
    if passage.chunk.document_id not in facts.of_changes:
        # In manuals readers called two of five questions about what sentences name bad.
        kinds += [_sections, _subjects, _mentions] if facts.is_of_articles else [_sections]
    for kind in kinds:
        found: dict[str | None, Item] = {}
        for draft in sorted(kind(source), key=lambda draft: source.draw(draft.question)):
            said = _said_by(draft, passage)
            # Of a heading what is said under it tells nothing of the others.
            about = said.heading if kind in (_asked, _sections) else None
            if about not in found and (item := _as_told(draft, said, passage, text, kind)):
                found[about] = item
        if found:
            return list(found.values())[:MAX_QUESTIONS], ""
    return [], "no_question"


def _as_told(draft: Item, said: Sentence, passage: Passage, text: str, kind: Callable) -> Item | None:
    """A draft with as much in its answer as meets the rules; None where that tells too little."""
    # What answers a heading may begin by saying it again.
    if kind is not _asked and not (_tells_more(draft, passage) and _is_sound(draft, text)):
        return None
    # A paragraph goes on to tell of other things than one sentence of it.
    more = () if kind in (_subjects, _mentions) else _with_more(draft, said, passage.language)
    told = [each for each in (draft, *more) if _is_sound(each, text)][-1:]
    if not told or len(told[0].evidence[0].quote or "") <= said.announces:
        return None
    return told[0] if _tells_more(told[0], passage) else None


def _is_sound(item: Item, text: str) -> bool:
    return not broken_rules(measure(Pair(item.item_id, item, "generated", text)))


def _said_by(item: Item, passage: Passage) -> Sentence:
    """The sentence that answers an item."""
    return next(sentence for sentence, *_ in passage.sentences if sentence.quote == item.evidence[0].quote)


def _with_more(item: Item, said: Sentence, language: str | None) -> Iterator[Item]:
    """The item with more and more of its paragraph and section in its answer: one sentence often says only what the
    next ones tell more of. No answer ends with what points at something below."""
    length = len(said.quote)
    for quote in said.more:
        added, length = quote[length:].rpartition("\n\n")[2], len(quote)
        if hangs(added, language, below=True):
            continue
        evidence = replace(item.evidence[0], quote=quote)
        yield replace(item, answers=(" ".join(quote.split()),), evidence=(evidence,))


def _is_below(sentence: Sentence, language: str | None) -> bool:
    """Whether the first sentence under a heading can be understood with that alone."""
    is_plain = not hangs(sentence.text, language)
    return is_plain or (_is_of_heading(sentence, language) and not hangs(sentence.text, language, below=True))


def _is_of_heading(sentence: Sentence, language: str | None) -> bool:
    """Whether what a sentence points back at is its heading: an option or identifier, or what it names again ("This
    conflict ..." under "Content conflicts")."""
    heading = sentence.heading or ""
    first, *following = words(sentence.text)
    named = content_words(heading, language)
    is_named = first in pronouns(language) and not set(named).isdisjoint(
        content_words(" ".join(following[:2]), language)
    )
    return entry(heading) is not None or is_named


def _is_cut(sentence: Sentence, source: "_Source") -> bool:
    """Whether a passage ends with a sentence that the next one repeats: what more is said stands there."""
    is_last = source.passage.chunk.text.rstrip().endswith(sentence.quote)
    return is_last and len(source.facts.places.get(wording(sentence.text), ())) > 1


def _tells_more(item: Item, passage: Passage, least: int = MIN_NEW_WORDS) -> bool:
    return len(_new_words(item.question, item.answers[0], passage.language)) >= least


def _new_words(asked: str, told: str, language: str | None) -> set[str]:
    return set(content_words(told, language)) - set(content_words(asked, language))


def _asked(source: _Source) -> Iterator[Item]:
    """A heading that is a question itself, as in a list of frequent ones, and what is said first under it."""
    for sentence, *_ in source.passage.sentences:
        heading = sentence.heading or ""
        # "There is ..." points at what is asked.
        is_plain = sentence.is_section or not hangs(sentence.text, source.language)
        is_own = is_plain and wording(sentence.text) not in source.facts.repeated
        if sentence.opens and is_own and is_question(heading) and source.facts.is_single(heading):
            question = _BEFORE_QUESTION.sub("", without_number(heading)).strip()
            question = question.rstrip(question[-1]) + question[-1]
            # "... find the file?" goes on from what stands above it.
            is_told = len(set(content_words(question, source.language))) >= MIN_ASKED_WORDS and question[0] not in ".…"
            said = content_words(sentence.text, source.language)
            # What takes longer to come to its point answers it later.
            is_said = sentence.is_section or share_said(question, said, source.language) >= SPOKEN
            if is_told and is_said:
                yield _item(source.passage, sentence, question, "factual_lookup")


def _documents(source: _Source) -> Iterator[Item]:
    """What a document, or a passage of a short one, says first, where that defines its title."""
    asked, language, document = fixed_questions(source.language), source.language, source.topic
    # A chunk of its own may hold the title.
    may_define = source.size <= SHORT or source.passage.chunk.position in (0, 1)
    if asked and may_define and document and document.document_id:
        topic = document.text
        is_name = all(word[0].isupper() for word in topic.split() if word.casefold() not in stop_words(language))
        is_own = " " in topic or source.facts.is_single(topic)
        for sentence, *_ in source.own[:1]:
            is_first = sentence == source.passage.sentences[0][0] and not source.is_alike(sentence)
            if is_own and is_first and _is_defined(topic, sentence, language):
                category = "entity_specific" if is_name else "factual_lookup"
                question = asked.about.format(terms=_as_asked(topic, sentence, language))
                yield _put(source, sentence, _without_article(topic, language), question, category)


def _is_defined(topic: str, sentence: Sentence, language: str | None, is_strict: bool = False) -> bool:
    """Whether a sentence begins with a topic and a verb, or with a topic, other names of it, and "is a"; the latter
    alone where that is asked for."""
    found, name = (words(re.sub(r"\([^()]*\)", "", text)) for text in (sentence.text, topic))
    without = articles(language)
    found, name = (each[1:] if each[:1] and each[0] in without else each for each in (found, name))
    rest = found[len(name) :][:MAX_WORDS_TO_VERB]
    verb = next((place for place, word in enumerate(rest) if word in verbs(language)), None)
    is_said = (verb == 0 and not is_strict) or (verb is not None and not without.isdisjoint(rest[verb + 1 : verb + 2]))
    return bool(name) and found[: len(name)] == name and is_said


def _sections(source: _Source) -> Iterator[Item]:
    """What a section that begins in a passage says first of its heading, or a list of what it defines."""
    asked, language, document = fixed_questions(source.language), source.language, source.topic
    if asked is None:
        return
    named = set(content_words(document.text, language)) if document else set()
    for sentence, said_of, _ in source.opening:
        section = section_topic(sentence.heading, source.passage, source.facts, document)
        held = set(content_words(section or "", language))
        is_defined = entry(section or "") is not None
        # Of a title any sentence says something: one that does not define it is as good as others elsewhere.
        is_title = held == named and not is_defined and source.size > PAGE
        if not section or is_title or source.is_alike(sentence) or _is_cut(sentence, source):
            continue
        if is_defined and source.facts.has_own_page(section, source.passage.chunk.document_id):
            continue
        is_pointed_at = words(sentence.text)[0] in pronouns(language) and _is_of_heading(sentence, language)
        is_several = sentence.more and not is_defined
        if not (
            sentence.is_section or is_several or is_pointed_at or _opens_with(section, sentence, said_of, language)
        ):
            continue
        if not (is_defined or is_pointed_at or _is_said(section, sentence, language)):
            continue
        # Every program has its own "--help".
        is_option = section.startswith("--")
        if is_option and not document:
            continue
        parts = " ".join(_NAME_PART.findall(section))
        least = MIN_NEW_WORDS_OF_SUBJECT if is_defined else MIN_NEW_WORDS_OF_SECTION
        if len(_new_words(f"{section} {parts}", sentence.told, language)) < least:
            continue
        # Many programs have a "--force", and many chapters a "Cluster setup".
        is_long = not is_option and (is_defined or len(held) > MIN_TOPIC_WORDS)
        is_enough = not document or named <= held or (source.is_book and is_long and source.facts.is_single(section))
        question = asked.about if is_enough else asked.in_context
        terms = _as_asked(section, sentence, language)
        question = question.format(terms=terms, topic=document.text if document else "")
        context = "" if is_enough or not document else f"{_without_article(document.text, language)} "
        query = f"{context}{_without_article(section, language)}"
        yield _put(source, sentence, query, question, "factual_lookup")


def _put(source: _Source, sentence: Sentence, query: str, question: str, category: str, is_query: bool = False) -> Item:
    """A question; or for every other one, and where asked for, what people type who look for the passage, unless that
    is too short, or a copy."""
    if " " in query and (is_query or int(source.draw(question), 16) % 2):
        typed = _item(source.passage, sentence, query, category)
        if _is_sound(typed, source.passage.chunk.text):
            return typed
    return _item(source.passage, sentence, question, category)


def _is_said(heading: str, sentence: Sentence, language: str | None) -> bool:
    """Whether what a sentence goes on to tell is of its heading: one says every word of it, several half of them.

    Of those that say less, readers called a fifth bad.
    """
    said = set(content_words(sentence.told, language))
    meant, first = content_words(heading, language), content_words(sentence.text, language)
    # "Relative entry": "Absolute entry needs ..."
    if len(meant) > 1 and meant[0] not in first and first[1 : len(meant)] == meant[1:]:
        return False
    # "files" by "file".
    found = sum(any(each.startswith(word) or word.startswith(each) for each in said) for word in meant)
    return found >= len(meant) * (SPOKEN if sentence.more else 1)


def _opens_with(topic: str, sentence: Sentence, said_of: Term | None, language: str | None) -> bool:
    """Whether a sentence says what it says of a topic: more than half of its words are among the first.

    Of what it defines, a list says it at once, unless it plainly says something of something else.
    """
    if entry(topic):
        is_of_it = said_of is None or share_said(topic, content_words(said_of.text, language), language) >= SPOKEN
        return is_of_it and not _leads_up(topic, sentence, language)
    first = content_words(sentence.text, language)[: len(set(content_words(topic, language))) + 1]
    return share_said(topic, first, language) > SPOKEN


def _leads_up(name: str, sentence: Sentence, language: str | None) -> bool:
    """Whether a sentence has its verb behind something that has no part of a name: most often it leads up to what the
    next one says of it. What defines a name is no full sentence ("A list of ..."), or opens with a verb."""
    last = name.rpartition(".")[2].removesuffix("()") or name
    if last.casefold() in sentence.text.casefold():
        return False
    opening = _CLAUSE_ENDS.split(sentence.text, maxsplit=1)[0].casefold()
    if opening.partition(" ")[0] not in articles(language):  # "Reads and writes ..."
        opening = _AND.split(opening, maxsplit=1)[0]
    found = re.search(rf"\b(?:{'|'.join(verbs(language))}|\w+n[’'])\b", opening) if verbs(language) else None
    parts = [part[:STEM].casefold() for part in _NAME_PART.findall(last) if len(part) >= MIN_LETTERS - 1]
    return found is not None and found.start() > 0 and not any(part in opening[: found.start()] for part in parts)


def _subjects(source: _Source) -> Iterator[Item]:
    """What sentences say of their subject."""
    text = " ".join(sentence.text for sentence, *_ in source.passage.sentences).casefold()
    # Of a name, too, a longer document says much by the way.
    telling = {"noun", "name"} if source.size > SHORT else {"noun"}
    for sentence, subject, _ in source.own:
        if subject is None or (subject.kind == "identifier" and source.is_alike(sentence)):
            continue
        if source.facts.has_own_section(subject.text, source.passage.chunk.document_id):
            continue
        topic = _topic(sentence, source)
        if source.is_book and topic == source.topic:
            # Its title says too little of what does not tell by itself what it is.
            if subject.kind != "identifier":
                continue
            topic = None if _is_alone([subject], sentence, None, source.facts) else topic
        # Of whom one tells by a bare name, most sentences tell a scene.
        is_bare = subject.kind == "name" and subject.text.isalpha() and subject.text.istitle()
        if is_bare and not _is_defined(subject.text, sentence, source.language, is_strict=True):
            continue
        if (
            text.count(subject.text.casefold()) >= _least(subject, source)
            and (subject.kind not in telling or _opens_paragraph(sentence, source.passage))
            and _is_alone([subject], sentence, topic, source.facts)
            and (question := _question(subject, sentence, topic, source))
        ):
            item = _item(source.passage, sentence, question, _category([subject]))
            if subject.kind not in telling or _tells_more(item, source.passage, MIN_NEW_WORDS_OF_SUBJECT):
                yield item


def _opens_paragraph(sentence: Sentence, passage: Passage) -> bool:
    """Whether a sentence is the first of its paragraph, which most often tells what that is about."""
    before = passage.chunk.text[: passage.chunk.text.find(sentence.quote)].rstrip(" ")
    return not before or before.endswith("\n\n") or before.rstrip("\n").endswith(sentence.heading or "\n")


def _least(subject: Term, source: _Source) -> int:
    """How often a passage says what it may be asked about. What is said but once is most often no topic, such as "the
    simplest approach"; an identifier is one by itself, and under its title a name in a document of no more than
    `SHORT` chunks."""
    is_identifier = subject.kind == "identifier" and " " not in subject.text
    is_titled = source.topic is not None and source.size <= SHORT
    return 1 if is_identifier or (subject.kind == "name" and is_titled) else AGAIN


def _mentions(source: _Source) -> Iterator[Item]:
    """What one sentence of a short document names: asked about, or else put as people type who look for a page, with
    its topic, in its order."""
    asked = fixed_questions(source.language)
    # Names by the way are many in a longer document.
    for read in source.own if source.size <= SHORT else ():
        sentence, subject, _ = read
        topic = _topic(sentence, source)
        chosen = _search_terms(read, topic, source)
        pins = [term for term in chosen if _is_pin(term)]
        alone = next((term for term in pins if _is_alone([term], sentence, topic, source.facts)), None)
        # What is named once, and is no subject, is named by the way.
        is_pinned = any(term == subject or _is_named_again(term, source) for term in pins)
        is_dated = is_pinned and any(term.kind == "year" for term in chosen)
        if asked and topic and alone and not is_dated:
            question = _question(alone, sentence, topic, source)
            # "What should I know about" promises more than a name by the way; a query may be too short, or a copy.
            is_about_it = subject is not None and alone.text in subject.text
            if question and is_about_it:
                yield _item(source.passage, sentence, question, _category([alone]))
            elif question:
                query = _as_query([alone], topic, source.language)
                yield _put(source, sentence, query, question, _category([alone]), is_query=True)
            continue
        # Where no topic is known, the subject stands for it; where those hardly show, what the passage says again.
        is_about = topic is not None or (len(chosen) > 1 and (subject in chosen or not leading(source.language)))
        is_told = is_about and (is_pinned or not leading(source.language))
        if chosen and is_told and _is_alone(chosen, sentence, topic, source.facts):
            telling = sorted(chosen, key=lambda term: term.start)
            yield _item(source.passage, sentence, _as_query(telling, topic, source.language), _category(telling))


def _as_query(telling: Sequence[Term], topic: Topic | None, language: str | None) -> str:
    """What is typed: the topic without its article, and what is looked for."""
    text = [_without_article(topic.text, language)] if topic else []
    return " ".join([*text, *(term.text for term in telling)])


def _without_article(text: str, language: str | None) -> str:
    opening, _, rest = text.partition(" ")
    return rest if opening.casefold() in articles(language) and rest else text


def _topic(sentence: Sentence, source: _Source) -> Topic | None:
    """A sentence's section, else its document's topic."""
    section = section_topic(sentence.heading, source.passage, source.facts)
    return Topic(section, source.passage.chunk.document_id) if section else source.topic


def _search_terms(read: Read, topic: Topic | None, source: _Source) -> list[Term]:
    """What a sentence is about: its subject, whole names, a year beside them, and what its passage says again; as much
    as leaves something for the answer to say."""
    sentence, subject, found = read
    subjects = [subject] if subject and _is_said_again(subject, source.passage) else []
    whole = [
        term
        for term in found
        if _is_pin(term) and _is_rare(term, source.facts) and not _is_by_the_way(term, sentence, source)
    ]
    # Of several, what the passage says again is no mention by the way.
    whole.sort(key=lambda term: not _is_said_again(term, source.passage))
    years = [term for term in found if term.kind == "year"]
    told = [*subjects, *whole, *(years[:1] if subjects or whole else [])]
    chosen: list[Term] = []
    said = set(content_words(topic.text, source.language)) if topic else set()
    unsaid = set(content_words(sentence.text, source.language)) - said
    for term in [*told, *_plain(sentence, source)]:
        stems = set(content_words(term.text, source.language))
        is_said = any(each.startswith(other) or other.startswith(each) for each in stems for other in said)
        is_elsewhere = source.facts.has_own_section(term.text, source.passage.chunk.document_id)
        if (
            stems
            and not (is_said or is_elsewhere)
            and len(unsaid - stems) >= MIN_NEW_WORDS
            and len(chosen) < MAX_TERMS + (topic is None)
        ):
            chosen.append(term)
            said |= stems
            unsaid -= stems
    return chosen


def _plain(sentence: Sentence, source: _Source) -> list[Term]:
    """The nouns of a sentence, as far as they show, that its passage says again; those of several words first, then
    the rarest of the corpus."""
    found = [
        term
        for term in noun_phrases(sentence.text, source.language)
        if not _is_common(term, source.facts) and _is_noun(term, source) and _is_said_again(term, source.passage)
    ]
    return sorted(found, key=lambda term: (" " not in term.text, _chunks_with(term, source.facts)))


def _is_noun(term: Term, source: _Source) -> bool:
    """Whether a word plainly is a noun, or ends with one: in German by its capital. Where that does not show, any word
    may be."""
    if source.language == "de":
        return term.start > 0 and term.text[0].isupper()
    head = term.text.split()[-1].lower()
    return not leading(source.language) or (len(head) >= MIN_LETTERS and head in source.facts.nouns[source.language])


def _is_by_the_way(term: Term, sentence: Sentence, source: _Source) -> bool:
    """Whether a name is one of several in a row, or the noun behind it is what is named: "the Ann Lee bridge"."""
    before, after = sentence.text[: term.start], sentence.text[term.start + len(term.text) :]
    following = re.match(r" ([^\W\d_]+)", after)
    is_of_noun = following is not None and following[1] in source.facts.nouns.get(source.language, ())
    is_listed = source.language not in CAPITALISED and (_LISTED_BEFORE.search(before) or _LISTED_AFTER.match(after))
    return is_of_noun or bool(is_listed)


def _is_said_again(term: Term, passage: Passage) -> bool:
    return sum(sentence.text.casefold().count(term.text.casefold()) for sentence, *_ in passage.sentences) >= AGAIN


def _is_named_again(term: Term, source: _Source) -> bool:
    """Whether a passage has the last word of a name, by which it goes on to call what it stands for, again."""
    return any(source.said[last] >= AGAIN for last in words(term.text)[-1:])


def _is_common(term: Term, facts: CorpusFacts) -> bool:
    if is_character(term.text[0]):
        return len(facts.places.get(wording(term.text), ())) > COMMON
    return _chunks_with(term, facts) > max(COMMON, COMMON_SHARE * len(facts.documents))


def _is_rare(term: Term, facts: CorpusFacts) -> bool:
    """Whether few chunks have some word of a term; of what many have, such as a country's name, many tell something."""
    return _chunks_with(term, facts) <= SPREAD


def _chunks_with(term: Term, facts: CorpusFacts) -> int:
    """In how many chunks the rarest word of a term stands."""
    return min((facts.chunks_with.get(word, 0) for word in words(term.text)), default=0)


def _is_pin(term: Term) -> bool:
    """Whether a term tells by itself what it stands for: an identifier, or a name of several words."""
    return term.kind == "identifier" or _is_whole_name(term)


def _is_whole_name(term: Term) -> bool:
    return term.kind == "name" and (" " in term.text or is_character(term.text[0]))


def _as_asked(heading: str, sentence: Sentence, language: str | None) -> str:
    """A heading as a question has it: as its sentence opens with it, or else, if it has several words, in quotation
    marks, so that it needs no grammar. In English it reads well without, unless it has parts."""
    asked = fixed_questions(language)
    opening, _, rest = heading.partition(" ")
    plain = rest if language != "en" and rest and opening.casefold() in asked_articles(language) else heading
    opened = _as_opened(plain, sentence, language)
    is_plain = language == "en" and not _PARTS.search(heading)
    if asked is None or opened != plain or " " not in heading or entry(heading) or is_plain:
        return opened if plain == heading or opened != plain else heading
    return asked.quoted(heading)


def _as_opened(terms: str, sentence: Sentence, language: str | None) -> str:
    """What is asked about as its sentence opens with it, if it does: with its article, or its ending."""
    if entry(terms) is not None:
        return terms
    opening, _, rest = sentence.text.partition(" ")
    pattern = rf"\W*{re.escape(terms.casefold())}(\w{{0,2}})(?!\w)\W*(\w*)"
    article = asked_articles(language).get(opening.casefold())
    said = re.match(pattern, (rest if article else sentence.text).casefold())
    # "The pprint module": of something else.
    if said is None or said.group(2) not in stop_words(language) | verbs(language) | {""}:
        return terms
    return f"{article} {terms}{said.group(1)}" if article else f"{terms}{said.group(1)}"


def _question(term: Term, sentence: Sentence, topic: Topic | None, source: _Source) -> str | None:
    """The question about a term of a topic; None where it says nothing that the topic does not, or too little without
    one."""
    asked = fixed_questions(source.language)
    if topic is None and not _is_pin(term):
        return None
    if topic and share_said(term.text, content_words(topic.text, source.language), source.language) >= MOST:
        return None
    if asked is None:
        return _as_query([term], topic, source.language)
    terms = _as_opened(term.text, sentence, source.language)
    return asked.in_context.format(terms=terms, topic=topic.text) if topic else asked.about.format(terms=terms)


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
