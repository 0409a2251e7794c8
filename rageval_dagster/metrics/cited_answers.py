"""An answer with its citations: which sentences cite, which are claims, and what verdicts on citations come to."""

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Literal, NamedTuple, get_args

from rageval_dagster.languages import detect, is_pleasantry
from rageval_dagster.metrics.citation_marks import SOURCE_WORDS, Citation, Mark, Retrieved, without_code
from rageval_dagster.metrics.interface import EMPTY_ANSWER, Tools
from rageval_dagster.records import Outcome, Result
from rageval_dagster.text import says_something, segments

MOST_VERDICTS = 100
"""Citations whose verdicts are kept one by one."""

NO_CLAIMS = Outcome.undefined("the answer has no claims")
_NO_CITATIONS = Outcome.undefined("the answer has no citations")

WRAPPED = 40
"""Characters from which on a line that ends within a sentence goes on in the next line."""

_STOPS = ".!?…。！？।॥؟۔።｡"
_QUESTION_MARKS = ("?", "？", "؟")
_COLONS = (":", "：")
_EMPHASIS = "*_ \t"

_LINE = re.compile(r"[^\n\r]+")
_WORD = re.compile(r"[^\W_]")
_STOP = re.compile(f"[{_STOPS}]")
_AFTER_A_STOP = " \t\n" + _STOPS + "\"'”’»」』)]}*_|"
_FULL_STOP_WITHIN = re.compile(r"\.\s")
_ENGLISH = re.compile(r"\b(?:the|and) ", re.IGNORECASE)
_BEFORE_A_STOP = re.compile(rf"\s+(?=[,;:、，{_STOPS}])")

_LIST_MARKER = re.compile(
    r"[ \t]*(?:(?:[-*+•‣◦▪·–—](?:[ \t]{1,8}\[[ xX]\])?|\(?(?:\d{1,3}|[a-zA-Z])[.)])[ \t]+|\d{1,3}、)"
)
_QUOTE_MARKER = re.compile(r"[ \t]*(?:>[ \t]*)+")
_HEADING = re.compile(r"#{1,6}[ \t]|(?:\*\*[^*]{1,200}[^*.!?]\*\*|__[^_]{1,200}[^_.!?]__)[ \t]*$")
_UNDERLINE = re.compile(r"={3,}|-{3,}")
_TABLE_RULE = re.compile(r"[|][|:\- \t]*")
_SOURCE_LABEL = re.compile(rf"[\W_]{{0,10}}(?:{SOURCE_WORDS})[*_ \t]{{0,5}}(?:[:：]|$)", re.IGNORECASE)
_NAMES_A_FILE = re.compile(r"https?://|\.[A-Za-z]{2,5}(?![\w.])")


class Sentence(NamedTuple):
    """One sentence of an answer: its place there, its text without citations, and what it cites."""

    start: int
    end: int
    text: str
    is_claim: bool
    citations: Sequence[Citation]


_BlockKind = Literal["claims", "other", "sources"]


class _Block(NamedTuple):
    """A paragraph, a list item, a row of a table; `kind` says whether its sentences may be claims."""

    start: int
    end: int
    kind: _BlockKind


def read_answer(text: str, retrieved: Retrieved) -> tuple[list[Sentence], list[Citation]]:
    """The sentences of an answer with the citations in each, and the citations that belong to no single sentence.

    A claim is a declarative sentence: no question, heading, lead-in (it ends with a colon), pleasantry, code, header of
    a table, or entry of a list of sources. List items and rows of a table are read sentence by sentence, too.

    A citation belongs to the sentence that it stands in or after (also on the next line), and to the next one where it
    begins a line, or where the words right after it go on in lower case (`[2] says ...`). Those in lists of sources
    (`Sources: [1], [2]`, in a line or behind a sentence; `[1] handbook.pdf`) belong to the answer as a whole.
    """
    text = without_code(text)
    marks = list(retrieved.marks(text))
    plain = _blanked(text, marks)
    blocks = list(_blocks(plain, marks))
    places: list[tuple[int, int, int]] = []
    language: str | None = None
    for number, block in enumerate(blocks):
        if block.kind == "sources":
            continue
        piece = plain[block.start : block.end]
        if not _STOP.search(piece.rstrip(_AFTER_A_STOP)):
            places.append((block.start, block.end, number))
            continue
        # The language decides which abbreviations end with a full stop.
        if language is None and _FULL_STOP_WITHIN.search(piece):
            # Telling a language takes ten times as long as all the rest, and most answers are English.
            is_english = plain.isascii() and _ENGLISH.search(plain)
            language = "en" if is_english else detect(plain) or "en"
        at = block.start
        for sentence in segments(piece.replace("\n", " ").replace("\r", " "), language or "en"):
            places.append((at, at + len(sentence), number))
            at += len(sentence)
    places = [_trimmed(plain, place) for place in places if says_something(plain[place[0] : place[1]])]
    cited, of_the_whole = _assigned(plain, marks, blocks, places)
    sentences: list[Sentence] = []
    for place, citations in zip(places, cited, strict=True):
        if _lists_sources(plain[place[0] : place[1]]):
            of_the_whole += citations
        else:
            sentences.append(_sentence(plain, place, blocks[place[2]].kind, citations))
    return sentences, of_the_whole


def _lists_sources(sentence: str) -> bool:
    """Whether a sentence without its citations is but a list of sources: `Sources:`, `Source: handbook.pdf`."""
    label = _SOURCE_LABEL.match(sentence)
    return label is not None and (not _WORD.search(sentence, label.end()) or _NAMES_A_FILE.search(sentence) is not None)


def _blanked(text: str, marks: Iterable[Mark]) -> str:
    """The text with spaces in place of its citations, as long as before."""
    kept: list[str] = []
    done = 0
    for mark in marks:
        kept += [text[done : mark.start], " " * (mark.end - mark.start)]
        done = mark.end
    kept.append(text[done:])
    return "".join(kept)


def _trimmed(text: str, place: tuple[int, int, int]) -> tuple[int, int, int]:
    piece = text[place[0] : place[1]]
    return place[0] + len(piece) - len(piece.lstrip()), place[0] + len(piece.rstrip()), place[2]


def _sentence(text: str, place: tuple[int, int, int], kind: _BlockKind, citations: Sequence[Citation]) -> Sentence:
    start, end, _ = place
    words = " ".join(text[start:end].replace("**", "").split())
    if words[0] == "|":
        words = ", ".join(filter(None, (cell.strip() for cell in words.split("|"))))
    if citations:
        words = _BEFORE_A_STOP.sub("", words)
    bare = words.rstrip(_EMPHASIS)
    is_claim = (
        kind == "claims"
        and not bare.endswith(_QUESTION_MARKS)
        and not bare.endswith(_COLONS)
        and (bool(citations) or not is_pleasantry(bare))
    )
    return Sentence(start, end, words, is_claim, citations)


def _assigned(
    text: str, marks: Sequence[Mark], blocks: Sequence[_Block], places: Sequence[tuple[int, int, int]]
) -> tuple[list[list[Citation]], list[Citation]]:
    """The citations of each sentence, and those of none."""
    cited: list[list[Citation]] = [[] for _ in places]
    of_the_whole: list[Citation] = []
    if not marks:
        return cited, of_the_whole
    starts = [place[0] for place in places]
    block_starts = [block.start for block in blocks]
    for mark in marks:
        number = bisect_right(block_starts, mark.start) - 1
        within = number >= 0 and mark.start < blocks[number].end
        if within and blocks[number].kind == "sources":
            of_the_whole += mark.citations
            continue
        before = bisect_right(starts, mark.start) - 1
        after = before + 1 if within and before + 1 < len(places) and places[before + 1][2] == number else None
        if before >= 0 and (not within or places[before][2] == number):
            goes_on = after is not None and mark.start >= places[before][1] and text[places[after][0]].islower()
            cited[after if after is not None and goes_on else before] += mark.citations
        elif after is not None:
            cited[after] += mark.citations
        elif before >= 0:
            cited[before] += mark.citations
        else:
            of_the_whole += mark.citations
    return cited, of_the_whole


def _blocks(text: str, marks: Sequence[Mark]) -> Iterator[_Block]:
    """The blocks of a text whose citations are blank; a line of citations alone is in none."""
    citing = [mark.start for mark in marks]
    pending: _Block | None = None
    among_sources = False
    for line in _LINE.finditer(text):
        start = line.start()
        if quoted := _QUOTE_MARKER.match(text, start, line.end()):
            start = quoted.end()
        if marker := _LIST_MARKER.match(text, start, line.end()):
            start = marker.end()
        block = _Block(start, line.end(), "claims")
        body = text[block.start : block.end].strip()
        if not body:
            continue
        first = bisect_left(citing, line.start())
        cites = first < len(citing) and citing[first] < line.end()
        cites_first = cites and not _WORD.search(text, block.start, max(block.start, citing[first]))
        label = _SOURCE_LABEL.match(body)
        names_file = _NAMES_A_FILE.search(body) is not None
        if label is not None:
            among_sources = not cites and not _WORD.search(body, label.end())
        else:
            among_sources = among_sources and (cites_first or names_file or block.start > line.start())
        if label or among_sources or (cites_first and names_file and not body.endswith(tuple(_STOPS))):
            block = block._replace(kind="sources")
        elif _HEADING.match(body):
            block = block._replace(kind="other")
        elif pending is not None and pending.kind == "claims":
            directly_below = text[pending.end : line.start()] in ("\n", "\r\n")
            is_rule = _TABLE_RULE.fullmatch(body) if text[pending.start] == "|" else _UNDERLINE.fullmatch(body)
            if directly_below and is_rule and not text[: pending.end].endswith(tuple(_STOPS)):
                pending = pending._replace(kind="other")
            elif directly_below and block.start == line.start() and _goes_on(text, pending, body):
                pending = pending._replace(end=block.end)
                continue
        if pending is not None:
            yield pending
        pending = block
    if pending is not None:
        yield pending


def _goes_on(text: str, block: _Block, next_line: str) -> bool:
    """Whether a block's last line ends within a sentence that the next line goes on with."""
    last_line = text[max(text.rfind("\n", block.start, block.end) + 1, block.start) : block.end]
    return (
        len(last_line) >= WRAPPED
        and not last_line.endswith((*_STOPS, *_COLONS, " ", '"', "”"))
        and not next_line.startswith("|")
        and text[block.start] != "|"
    )


class CitedResult:
    """A result's answer with its citations: those of its sentences, and those of the answer as a whole."""

    def __init__(self, result: Result) -> None:
        retrieved = Retrieved.of(result)
        self.sentences, of_the_whole = read_answer(result.answer_text, retrieved)
        self.is_empty = not result.answer_text.strip()
        self.contexts = result.contexts
        self.claims = [sentence for sentence in self.sentences if sentence.is_claim]
        self.of_sentences = [citation for sentence in self.sentences for citation in sentence.citations]
        given = retrieved.given(() if result.answer is None else result.answer.citations)
        self.apart = list(dict.fromkeys((*of_the_whole, *given)))
        self._apart_hold_for_claims = bool(self.apart) and not any(claim.citations for claim in self.claims)

    @property
    def has_citations(self) -> bool:
        return bool(self.of_sentences or self.apart)

    @property
    def of_the_whole(self) -> list[Citation]:
        """The citations given apart that do not repeat those of a sentence."""
        if not self.apart or not self.of_sentences:
            return self.apart
        places = {place for citation in self.of_sentences for place in citation.contexts}
        names = {citation.name for citation in self.of_sentences}
        return [
            citation
            for citation in self.apart
            if not (places.issuperset(citation.contexts) if citation.contexts else citation.name in names)
        ]

    def citations_of(self, claim: Sentence) -> Sequence[Citation]:
        """A claim's own; where no claim has any, those of the whole answer."""
        return self.apart if self._apart_hold_for_claims else claim.citations

    def placed_citations(self) -> Iterator[tuple[int | None, Sequence[Sentence], Citation]]:
        """Each citation with the sentences that it may support: its own, by its number from 1, or else all claims."""
        for number, sentence in enumerate(self.sentences, start=1):
            for citation in sentence.citations:
                yield number, [sentence], citation
        for citation in self.of_the_whole:
            yield None, self.claims or self.sentences, citation

    @cached_property
    def judged_sentences(self) -> list[Sentence]:
        """The sentences that contexts are compared with."""
        return [
            sentence
            for sentence in self.sentences
            if sentence.citations or (self.apart and (sentence.is_claim or not self.claims))
        ]

    @cached_property
    def cited_places(self) -> list[int]:
        """The contexts cited that have words, by their places from 0, in order."""
        places = {place for citation in (*self.of_sentences, *self.apart) for place in citation.contexts}
        return sorted(place for place in places if self.contexts[place].strip())


def read_citations(results: Sequence[Result], tools: Tools) -> list[CitedResult]:
    """Each result's answer with its citations, read once a batch."""
    return tools.once(results, read_citations, lambda: [CitedResult(result) for result in results])


CitationVerdict = Literal["correct", "unsupported", "not_retrieved"]


class JudgedCitation(NamedTuple):
    """A citation's verdict, and the reason where a model gave one."""

    verdict: CitationVerdict
    reason: str | None = None


def citation_accuracy(cited: CitedResult, judged: Callable[[Sequence[Sentence], Citation], JudgedCitation]) -> Outcome:
    """The share of correct citations, where `judged` tells which support any of the sentences."""
    if cited.is_empty:
        return EMPTY_ANSWER
    if not cited.has_citations:
        return _NO_CITATIONS
    verdicts = [
        (number, citation, judged(sentences, citation)) for number, sentences, citation in cited.placed_citations()
    ]
    counts = Counter(found.verdict for *_, found in verdicts)
    detail = {
        "citations": len(verdicts),
        **{verdict: counts[verdict] for verdict in get_args(CitationVerdict)},
        "verdicts": [
            {
                "sentence": number,
                "contexts": [place + 1 for place in citation.contexts],
                "verdict": found.verdict,
                **({} if found.reason is None else {"reason": found.reason}),
            }
            for number, citation, found in verdicts[:MOST_VERDICTS]
        ],
    }
    return Outcome.scored(counts["correct"] / len(verdicts), detail)


def citation_recall(cited: CitedResult, is_cited_correctly: Callable[[Sentence], bool]) -> Outcome:
    """The share of claims that have a correct citation."""
    if cited.is_empty:
        return EMPTY_ANSWER
    if not cited.claims:
        return NO_CLAIMS
    correct = sum(map(is_cited_correctly, cited.claims))
    return Outcome.scored(correct / len(cited.claims), {"claims": len(cited.claims), "correctly_cited": correct})
