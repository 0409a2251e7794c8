"""The keyless question generator: questions by rule about sentences of a chunk, their answers spans of that chunk."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from pathlib import PurePosixPath

from rageval_dagster.benchmark import clozes, english
from rageval_dagster.benchmark.questions import Asked, ask, is_balanced, is_statement, tidy
from rageval_dagster.benchmark.repeated import wording
from rageval_dagster.benchmark.rules import RULES, Pair, measure
from rageval_dagster.benchmark.sentences import Sentence, eligible, is_english, without_number, words
from rageval_dagster.benchmark.surroundings import READ_CHARACTERS, Surroundings, look_around, prose, spaced
from rageval_dagster.benchmark.wording import CLEAN, english_rules_hold, noise_kind
from rageval_dagster.identity import digest
from rageval_dagster.records import Candidate, Chunk, Evidence, Item, Progress

REVISION = 5

TOPIC_QUESTIONS = (
    "Who or what is {topic}, and what makes it special?",
    "What is {topic}, and what does someone need to know about it?",
)
"""Questions about a whole subject in everyday words. Chosen on clapnq, by how well they rank nine retrieval systems as
the human questions do (benchmarks/synthetic_vs_human.py)."""

MAX_ANSWER_CHARACTERS = 300
MIN_DEFINITION_WORDS = {"the": 3, "a": 5, "an": 5}
MAX_DEFINITION_WORDS = 12
MAX_NAME_SHARE = 0.05

_NAME = re.compile(r"[A-Z][\w.-]{2,}(?: (?:of |the |and )?[A-Z][\w.-]+)*")
_HANGING = re.compile(
    r"(?:you(?:['’]\w+)?|we(?:['’]\w+)?|i"
    r"|th(?:is|ese|ose|at|ey|eir|en|us)|its?|he|his|she|her|such|here|there|see|otherwise|also|note|hence|however"
    r"|and|but|or|for example|in (?:addition|that case)"
    r"|(?:new|changed) in version|another|additionally|instead|then|thus|therefore|similarly"
    r"|like|unlike|as|except"
    r"|likewise|alternatively|furthermore|further|moreover|finally|lastly|please|so|either|notice)\b"
    r"|(?:[\w-]+,? ){1,3}(?:it|they|he|she)\b"
    r"|.*\b(?:this(?! (?:library|module|package|project|tool)\b)|th(?:ese|ose)|above|below|following|such(?! as))\b",
    re.IGNORECASE,
)
"""A sentence that says little without the one before it: how it starts, or that it points there."""

_TERM = re.compile(r"`+([^`\s][^`]{0,38}[^`\s])`+|\w+(?:[-'’.]\w+)*|[^\w\s]")
_EMPHASIS = re.compile(r"(?<!\w)_([^_]+)_(?!\w)")
_NO_NOUN = re.compile(r".*(?:ly|ing|ed|able|ible|ful|ous|less)")
_NO_TERMS = english.NUMBER_WORDS | english.words(
    "case certain default different else every example false first incomplete instead lastly need new null order"
    " possible second sure true various way whatever whichever"
)
MIN_TERM_LETTERS = 6
RARE = 2
"""In more chunks of the corpus than this a word tells none of them: what is asked about must hold a rarer one."""

_NO_TOPICS = english.NUMBER_WORDS | english.words(
    "about abstract api appendix argument arguments author authors background bug bugs caveats changelog chapter"
    " command commands compatibility conclusion configuration conforming contents contributing contribution"
    " copyright credits description detail details development diagnostics doc docs document documentation documents"
    " download environment error errors example examples exit faq features file files general getting guide help"
    " history home how http index info information install installation introduction issues items known legacy"
    " licence license main manual menu more motivation name names navigation news next note notes options other"
    " overview own page pages parameter parameters part preface previous purpose quick readme reference references"
    " related remarks requirements restrictions return returns scope search section see settings setup start started"
    " status step steps summary support synopsis syntax table testing tips title tutorial untitled usage use using"
    " value values version welcome what why your"
)
"""Names of files and headings that many documents have: they tell nobody what a passage is about."""
_IDENTIFIER = re.compile(r".*(?:\w[_./]\w|[a-z][A-Z]|\d|\(\))")
_LANGUAGE_ENDING = re.compile(
    r"(?<=[^.])\.(?:ar|cs|da|de|el|en|es|fi|fr|hu|it|ja|ko|nl|pl|pt|ru|sv|tr|uk|zh)(?:[-_]\w{2,4})?$"
)
"""Of names such as "choosing.en.html"."""

_POINTING = frozenset({"this", "these", "that", "those"})
MAX_TOPIC_WORDS = 8

_PAIR_RULES = tuple(rule for rule in RULES if rule.scope == "pair")


def generator_name(seed: int, language: str | None = None) -> str:
    return f"extractive/{REVISION} seed {seed}" + (f" language {language}" if language else "")


def generate(
    chunks: Sequence[Chunk],
    seed: int,
    chunks_per_document: Mapping[str, int] | None = None,
    progress: Progress | None = None,
    language: str | None = None,
    around: Surroundings | None = None,
) -> list[Candidate]:
    """One candidate a chunk, in the chunks' order: a question with its answer and quote, or why there is none.

    A question repeats no more of the chunk's words than it takes to single the chunk out:

    - A chunk that is the only one about its topic is asked about by the topic alone, in everyday words.
    - Of others, English sentences are turned into wh-questions by rule, the topic named where the sentence does not;
      where one asks about a thing that another document defines, the definition takes the thing's place (`multi_hop`).
    - Where no rule applies, a known-item question names what a sentence is about (Azzopardi et al. 2007).
    - Other languages, and prose whose language is not known, get a cloze question (`benchmark.clozes`).

    - Of English only statements are asked about, and of any language no sentence that stands in several documents.

    Every question meets the pair rules of `benchmark.rules`. Never raises, for any text. The quote is an exact
    substring of the chunk; the answer is one too, but for line breaks, which become blanks. A candidate's `chunk_key`
    is the chunk's `content_key`: the same text of a document has the same candidate, whatever its id.

    Failure reasons: `too_little_prose`, `no_complete_sentence`, `stands_elsewhere`, `no_question`.

    Args:
        chunks: what to ask about. Multi-hop questions connect these only.
        seed: another seed, other questions.
        chunks_per_document: how many chunks the corpus has of each document; without it, `chunks` are the corpus.
        language: of all chunks; without it, each one's is detected.
        around: what the corpus tells of the chunks; without it, `chunks` are the corpus.
    """
    around = around or look_around(chunks, chunks, language)
    sources = [_Source.read(chunk, language, around) for chunk in chunks]
    sizes = chunks_per_document or Counter(chunk.document_id for chunk in chunks)
    topics = Counter(source.topic for source in sources)
    definitions = _definitions(sources)
    found: list[Candidate] = []
    for number, (chunk, source) in enumerate(zip(chunks, sources, strict=True)):
        alone = topics[source.topic] == 1 and sizes.get(source.chunk.document_id, 1) <= 1
        item, reason = _write(source, seed, alone, definitions, around.held_by)
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
        if progress:
            progress(number + 1, len(sources))
    return found


@dataclass(frozen=True)
class _Source:
    """A chunk as it is read: its complete sentences, its topic, and what the English rules can ask of each sentence.

    `english` is whether they hold for it, `language` its language as far as that is known, `repeats` whether it has
    sentences, but none that stands in its document alone, `title` its document's, `shared` the headings of several.
    """

    chunk: Chunk
    prose: tuple[Sentence, ...]
    topic: str | None
    asked: tuple[tuple[Sentence, Asked], ...]
    english: bool
    language: str | None
    repeats: bool
    title: str | None
    shared: frozenset[str]

    def topic_at(self, sentence: Sentence) -> str | None:
        """What a sentence of the chunk is about."""
        return _topic(self.chunk, sentence.heading, self.title, self.shared)

    @classmethod
    def read(cls, chunk: Chunk, language: str | None, around: Surroundings) -> "_Source":
        language, sentences = prose(chunk, language)
        title, shared = around.titles.get(chunk.document_id), around.shared_headings
        chunk = replace(chunk, text=chunk.text[:READ_CHARACTERS])
        is_read = english_rules_hold(language) and is_english(" ".join(sentence.text for sentence in sentences))
        if is_read or language == "en":
            sentences = [sentence for sentence in sentences if is_statement(sentence.text)]
        own = tuple(sentence for sentence in sentences if wording(sentence.text) not in around.repeated)
        topic = (_topic(chunk, None, title, shared) or _topic(chunk, own[0].heading, title, shared)) if own else None
        asked = [
            (sentence, question)
            for sentence in (own if is_read else ())
            for question in ask(sentence.text, _topic(chunk, sentence.heading, title, shared), sentence.previous)
        ]
        return cls(chunk, own, topic, tuple(asked), is_read, language, bool(sentences) and not own, title, shared)


@dataclass(frozen=True)
class _Draft:
    question: str
    answer: str
    quotes: tuple[tuple[Chunk, str], ...]
    category: str


@dataclass(frozen=True)
class _Definition:
    """What a document says a named thing is: "the largest city of Kenya"."""

    chunk: Chunk
    quote: str
    phrase: str


def _write(
    source: _Source, seed: int, alone: bool, definitions: Mapping[str, _Definition], held_by: Mapping[str, int]
) -> tuple[Item | None, str]:
    if not eligible(source.chunk.text):
        return None, "too_little_prose"
    if source.repeats:
        return None, "stands_elsewhere"
    if not source.prose:
        return None, "no_complete_sentence"
    # No question about it would meet the rules, and there may be thousands.
    if noise_kind(source.chunk.text) != CLEAN:
        return None, "no_question"
    for drafts in _kinds_of_drafts(source, alone, definitions, held_by):
        for draft in sorted(drafts, key=lambda d: digest(str(seed), source.chunk.text_hash, d.question)):
            item = _item(draft)
            if _meets_the_rules(item, source.chunk, draft):
                return item, ""
    return None, "no_question"


def _kinds_of_drafts(
    source: _Source, alone: bool, definitions: Mapping[str, _Definition], held_by: Mapping[str, int]
) -> Iterator[Iterable[_Draft]]:
    """Drafts kind by kind, the preferred kind first."""
    if not source.english:
        yield from _clozes(source)
        return
    if alone:
        yield _topic_questions(source)
    yield _multi_hop_questions(source, definitions)
    yield _wh_questions(source)
    yield _known_items(source, held_by)


def _item(draft: _Draft) -> Item:
    evidence = tuple(Evidence(chunk.document_id, chunk.page, quote) for chunk, quote in draft.quotes)
    return Item(draft.question, (draft.answer,), evidence, draft.category, origin="extractive")


def _meets_the_rules(item: Item, chunk: Chunk, draft: _Draft) -> bool:
    others = [" ".join(source.text.split()) for source, _ in draft.quotes]
    values = measure(Pair(item.item_id, item, "generated", chunk.text, others))
    return all(rule.holds(values[rule.column]) for rule in _PAIR_RULES if rule.column in values)


def _topic_questions(source: _Source) -> Iterator[_Draft]:
    """Asked about the topic as a whole: answered by its definition if the chunk has one, else by the first sentence."""
    topic = source.topic
    if topic is None:
        return
    defining = [(s, a) for s, a in source.asked if a.defines and _names(a.question, topic)]
    if defining:
        sentence, asked = defining[0]
        answer = sentence.text[asked.start : asked.end]
    else:
        whole = [s for s in source.prose if not _HANGING.match(s.text)]
        # The beginning of a document speaks of its subject, named or not.
        openings = whole[:1] if not source.chunk.position else []
        sentence = next(iter([s for s in whole if _names(s.text, topic)] + openings), None)
        if sentence is None:
            return
        answer = sentence.text
    if len(answer) <= MAX_ANSWER_CHARACTERS:
        for question in TOPIC_QUESTIONS:
            named = question.format(topic=topic)
            category = "entity_specific" if topic[0].isupper() and not topic.isupper() else "factual_lookup"
            yield _Draft(named, answer, ((source.chunk, sentence.quote),), category)


def _wh_questions(source: _Source) -> Iterator[_Draft]:
    for sentence, asked in source.asked:
        question = _in_context(asked, source.topic_at(sentence))
        answer = sentence.text[asked.start : asked.end]
        if question is not None and len(answer) <= MAX_ANSWER_CHARACTERS and not _gives_away(question, answer):
            yield _Draft(question, answer, ((source.chunk, sentence.quote),), _category(asked, answer))


def _multi_hop_questions(source: _Source, definitions: Mapping[str, _Definition]) -> Iterator[_Draft]:
    """ "When was Nairobi founded?" with what another document says of Nairobi in its place."""
    for sentence, asked in source.asked:
        for name in _NAME.findall(asked.question):
            definition = definitions.get(name)
            if definition is None or definition.chunk.document_id == source.chunk.document_id or asked.common:
                continue
            # As a word of its own: not the name within "pure-Python" or "Python 3.8".
            alone = rf"(?<![\w-]){re.escape(name)}(?![\w-]|'s| [\dA-Z(])"
            question = re.sub(alone, lambda _, said=definition: said.phrase, asked.question)
            answer = sentence.text[asked.start : asked.end]
            if name not in question and not _gives_away(question, answer):
                quotes = ((source.chunk, sentence.quote), (definition.chunk, definition.quote))
                yield _Draft(question, answer, quotes, "multi_hop")


def _definitions(sources: Sequence[_Source]) -> dict[str, _Definition]:
    """Names that a document says what they are, each by its first definition that tells it apart.

    That is one with "the", or a long one with "a"; and of a name in at most `MAX_NAME_SHARE` of the chunks.
    """
    found: dict[str, _Definition] = {}
    most = max(2, MAX_NAME_SHARE * len(sources))
    for source in sources:
        for sentence, asked in source.asked:
            phrase = sentence.text[asked.start : asked.end]
            article, _, rest = phrase.partition(" ")
            if (
                asked.defines
                and article in MIN_DEFINITION_WORDS
                and MIN_DEFINITION_WORDS[article] <= len(rest.split()) <= MAX_DEFINITION_WORDS
                and _NAME.fullmatch(asked.subject)
                and asked.subject in sentence.quote
                and asked.subject not in phrase
                and sum(asked.subject in other.chunk.text for other in sources) <= most
            ):
                found.setdefault(asked.subject, _Definition(source.chunk, sentence.quote, f"the {tidy(rest)}"))
    return found


def _known_items(source: _Source, held_by: Mapping[str, int]) -> Iterator[_Draft]:
    """ "What is said about a and b?", answered by the whole sentence, where a or b tells it from other passages."""
    for sentence in source.prose:
        topic = source.topic_at(sentence)
        terms = _terms(sentence.text, topic)
        terms = [term for term in terms if any(held_by.get(word, 0) <= RARE for word in spaced(term))][:2]
        if topic is None or not terms or len(sentence.text) > MAX_ANSWER_CHARACTERS or _HANGING.match(sentence.text):
            continue
        named = " and ".join(sorted(terms, key=sentence.text.find))
        question = f"Regarding {topic}, what is said about {named}?"
        yield _Draft(question, sentence.text, ((source.chunk, sentence.quote),), "factual_lookup")


def _clozes(source: _Source) -> Iterator[list[_Draft]]:
    """Kind by kind, the most telling answers first."""
    of_sentences = [(sentence, clozes.clozes(sentence.text, source.language)) for sentence in source.prose]
    for kind in range(clozes.KINDS):
        yield [
            _Draft(cloze.question, cloze.answer, ((source.chunk, sentence.quote),), cloze.category)
            for sentence, kinds in of_sentences
            for cloze in kinds[kind]
        ]


def _terms(text: str, topic: str | None) -> list[str]:
    """The things that a sentence speaks of and the topic does not name, the longest first.

    Only what somebody would ask about: code, identifiers, names, and the phrase that the sentence starts with.
    """
    known = {word[:5] for word in words(topic or "")}
    runs: list[list[str]] = [[]]
    several: list[str] = []
    matches = list(_TERM.finditer(_EMPHASIS.sub(r"\1", text)))
    opening = " ".join(match.group() for match in matches if match.group()[0].isalnum())
    lowered = ["", *(match.group().lower() for match in matches), ""]
    for match, before, after in zip(matches, lowered, lowered[2:], strict=False):
        word, code = match.group(), match.group(1)
        if code:
            runs.append([])
            is_known = known.issuperset(part[:5] for part in words(code))
            several += [] if is_known or code in _NO_TERMS or not is_balanced(code) else [code]
        elif (
            not _is_torn(match) and word.lower()[:5] not in known and _may_be_noun(word, before, after, bool(runs[-1]))
        ):
            runs[-1].append(word)
        # "TFTP net | booting" is one thing.
        elif runs[-1] and word.lower().endswith("ing") and word.lower() not in english.PREPOSITIONS:
            runs[-1] = []
        elif runs[-1]:
            runs.append([])
    several += [" ".join(run) for run in runs if _is_specific(run, opening)]
    longest = sorted(dict.fromkeys(several), key=lambda phrase: (-len(phrase), phrase))
    return [term for term in longest if len(term) >= MIN_TERM_LETTERS]


def _is_torn(match: re.Match[str]) -> bool:
    """Whether a word is a piece of a path, an option or another name: "perl" in "git-add--interactive.perl"."""
    before, after = match.string[: match.start()], match.string[match.end() :]
    return (
        re.search(r"[\w$@/.\\=~+*<-]$", before) is not None or re.match(r"[@/\\=~+*]|[-<(\[:.]+\w", after) is not None
    )


def _is_specific(run: Sequence[str], opening: str) -> bool:
    """Whether words that may be nouns name something: an identifier, a name, or what the sentence is about."""
    if not 1 <= len(run) <= 3 or (len(run) > 1 and english.is_verb_form(run[-1].lower())):
        return False  # "where replacements exist"
    if any(_IDENTIFIER.match(a) and english.third_to_base(b) for a, b in pairwise(run)):
        return False  # "dpkg-source packs"
    opens = re.match(rf"(?:(?:the|an?) )?{re.escape(' '.join(run))}\b", opening, re.IGNORECASE) is not None
    is_name = any(word[0].isupper() for word in (run[1:] if opens else run))
    return is_name or any(map(_IDENTIFIER.match, run)) or (opens and len(run) > 1)


def _may_be_noun(word: str, before: str, after: str, goes_on: bool) -> bool:
    """Whether a word may be a noun or stand before one.

    What may be a verb too is one after an article or a preposition, and where it ends a phrase that `goes_on`.
    """
    low = word.lower()
    ends_phrase = goes_on and (not after[:1].isalnum() or after in english.AUXILIARIES | {"and", "or", "of"})
    is_placed = ends_phrase or before in english.DETERMINERS | english.PREPOSITIONS - {"to"}
    return (
        word[0].isalpha()
        and not {"'", "’"} & set(word)
        and low not in english.STOPWORDS | _NO_TERMS
        and not _NO_NOUN.fullmatch(low)
        and (is_placed or not english.is_verb_form(low))
    )


def _in_context(asked: Asked, topic: str | None) -> str | None:
    """The question with its topic named, None if it would hang in the air."""
    if topic is None:
        return None if asked.common else asked.question
    if _names(asked.question, topic):
        return asked.question
    return f"Regarding {topic}, {asked.question[0].lower()}{asked.question[1:]}"


def _names(text: str, topic: str) -> bool:
    """Whether a text holds at least half of the topic's words (what stands in brackets aside)."""
    stems = {word[:5] for word in words(text)}
    named = [word[:5] for word in words(re.sub(r"\(.*?\)", "", topic)) if word not in english.STOPWORDS]
    return bool(named) and sum(word in stems for word in named) / len(named) >= 0.5


def _gives_away(question: str, answer: str) -> bool:
    """Whether the question already holds most words of its answer."""
    asked = set(words(question))
    content = [word for word in words(answer) if word not in english.STOPWORDS]
    return not content or sum(word in asked for word in content) / len(content) > 0.5


def _category(asked: Asked, answer: str) -> str:
    if asked.kind == "when" or re.search(r"\b(1\d|20)\d\d\b", answer) or english.MONTHS & set(answer.split()):
        return "temporal"
    if asked.kind in {"who", "where"} or re.match(r"(The |the )?[A-Z]", answer):
        return "entity_specific"
    return "factual_lookup"


def _topic(chunk: Chunk, heading: str | None, title: str | None, shared: frozenset[str]) -> str | None:
    """What a sentence of the chunk is about; the id of a chunk without a document names nothing."""
    return topic_of(chunk.document_id if chunk.has_document else "", heading, title, heading in shared)


@lru_cache(maxsize=4096)
def topic_of(document_id: str, heading: str | None, title: str | None = None, is_shared: bool = False) -> str | None:
    """What a sentence is about: the heading above it where that is telling, else its document's title, name or folder.

    A heading of one word ("Scope"), or one that several documents have (`is_shared`), is a part of a subject, and the
    subject only where nothing else names it.
    """
    path = PurePosixPath(document_id.replace("\\", "/"))
    name, folder = (
        re.sub(r"[\s_-]+", " ", part).strip() for part in (_LANGUAGE_ENDING.sub("", path.stem), path.parent.name)
    )
    section, title = _plain(heading or ""), _plain(title or "")
    content = [word for word in words(section) if word not in english.STOPWORDS | _NO_TOPICS]
    by_rank = [
        section if (len(content) > 1 and not is_shared) or name.lower() in section.lower().split() else "",
        title,
        name if _is_readable(name) else "",
        section,
        folder if _is_readable(folder) else "",
    ]
    return next((each for each in by_rank if _tells(each)), None)


def _plain(heading: str) -> str:
    """A heading without its number, as it reads within a sentence."""
    topic = tidy(without_number(heading))
    first, _, rest = topic.partition(" ")
    return f"{first.lower()} {rest}" if rest and first.lower() in english.DETERMINERS else topic


def _is_readable(name: str) -> bool:
    """Whether a file's or folder's name reads as a name, not as a number or a hash."""
    return (
        re.search(r"[^\W\d_]{2}", name) is not None
        and not re.fullmatch(r"[0-9a-f]{8,}", name.replace(" ", ""))
        and sum(character.isdigit() for character in name) <= 0.3 * len(name)
    )


def _tells(topic: str) -> bool:
    """Whether a topic tells one document from another: no "README", no "Chapter 3", no question, no sentence."""
    found = words(topic)
    telling = [word for word in found if word not in english.STOPWORDS | _NO_TOPICS and not word.isdigit()]
    return (
        bool(telling)
        and _POINTING.isdisjoint(found)
        and len(topic.split()) <= MAX_TOPIC_WORDS
        and not topic.endswith(("?", "!", ".", "()"))
    )
