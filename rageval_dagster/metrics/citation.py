"""The `citation` family: whether citations point at what was retrieved and supports them (seeds 004, 002)."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Literal, get_args

from rageval_dagster.metrics.citation_marks import WIDEST_RANGE, Citation, Retrieved
from rageval_dagster.metrics.claim_sentences import Sentence, read_answer
from rageval_dagster.metrics.cosines import cosine_blocks, stacked
from rageval_dagster.metrics.interface import Columns, Metric, MetricOptions, Score, Tools
from rageval_dagster.records import Answer, Outcome, Result

if TYPE_CHECKING:
    import numpy as np

VERSION = "1"

MOST_VERDICTS = 100
"""Citations whose verdicts are kept one by one."""

_EMPTY = Outcome.undefined("the answer is empty")
_NO_CITATIONS = Outcome.undefined("the answer has no citations")
_NO_CLAIMS = Outcome.undefined("the answer has no claims")

_FORMS = (
    "Citations are [n] (the n-th context, from 1; also [1, 2], [1-3] and full-width brackets), [doc], [doc:page], "
    "(source: doc), and what the system gave apart from the text (ids, else numbers). A name in brackets is a citation "
    "if it is the id of a retrieved document or chunk (or the last part of one that is a path, with or without its "
    "extension, in any case), or looks like a file, an address or name:page; other brackets ([sic], [x], footnotes, "
    "images, links by another text) and code are none. [doc] cites every context of the document, [doc:page] those on "
    "that page and those whose page is not known. A number beyond the contexts, or a range that runs backwards or over "
    f"more than {WIDEST_RANGE}, cites nothing that was retrieved."
)
_PLACES = (
    "A citation belongs to the sentence that it stands in or after. One given apart, or in a list of sources, is of "
    "the whole answer: of every claim where no claim has its own."
)
_CLAIMS = (
    "A claim is a declarative sentence, list item or table row: no question, heading, lead-in that ends with a colon, "
    "pleasantry, code, or entry of a list of sources. No claims: undefined."
)


def metrics(options: MetricOptions) -> list[Metric]:
    """The family's metrics. The model's version and the threshold are part of those that compare texts."""
    threshold = options.citation_threshold
    supported = partial(
        Metric,
        version=f"{VERSION};model={options.embedder_version or 'none'};threshold={threshold}",
        score=_support_score(threshold),
        needs=frozenset({"answer", "contexts", "embedder"}),
        unanswerable="if_answered",
        source="seed 004",
    )
    return [
        supported(
            id="citation.accuracy",
            description="Share of the citations that are correct: a cited context was retrieved, and its cosine with "
            f"the sentence (of the best window) is at least {threshold:g}.",
            edge_cases=f"No citations: undefined. A citation of what was never retrieved is wrong. {_FORMS} {_PLACES} "
            "One of the whole answer is correct if it supports any claim, and does not count where the text cites the "
            "same.",
            good_value=0.95,
        ),
        Metric(
            id="citation.coverage",
            version=VERSION,
            score=_score_coverage,
            needs=frozenset({"answer", "hits"}),
            unanswerable="if_answered",
            description="Share of the answer's claims that have a citation, correct or not.",
            edge_cases=f"{_CLAIMS} {_PLACES} What a citation is: see citation.accuracy.",
            source="seed 004",
            good_value=options.min_citation_coverage,
        ),
        supported(
            id="citation.recall",
            description="Share of the answer's claims that have a correct citation.",
            edge_cases=f"{_CLAIMS} {_PLACES} What a citation is, and when it is correct: see citation.accuracy.",
        ),
    ]


class CitedResult:
    """A result's answer with its citations: those of its sentences, and those of the answer as a whole."""

    def __init__(self, result: Result) -> None:
        retrieved = Retrieved.of(result)
        answer = result.answer or Answer("")
        read = read_answer(answer.text, retrieved)
        self.is_empty = not answer.text.strip()
        self.contexts = result.contexts
        self.sentences = read.sentences
        self.claims = [sentence for sentence in read.sentences if sentence.is_claim]
        self.of_sentences = [citation for sentence in read.sentences for citation in sentence.citations]
        self.apart = list(dict.fromkeys((*read.of_the_whole, *retrieved.given(answer.citations))))
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

    @cached_property
    def judged_sentences(self) -> list[Sentence]:
        """The sentences that contexts are compared with."""
        return [
            sentence for sentence in self.sentences if sentence.citations or (self.apart and self._is_cited(sentence))
        ]

    def _is_cited(self, sentence: Sentence) -> bool:
        """Whether the citations of the whole answer are compared with a sentence: a claim, or any if there is none."""
        return sentence.is_claim or not self.claims

    @cached_property
    def cited_places(self) -> list[int]:
        """The contexts cited that have words, by their places from 0, in order."""
        places = {place for citation in (*self.of_sentences, *self.apart) for place in citation.contexts}
        return sorted(place for place in places if self.contexts[place].strip())


def read_citations(results: Sequence[Result], tools: Tools) -> list[CitedResult]:
    """Each result's answer with its citations, read once a batch."""
    return tools.once(results, read_citations, lambda: [CitedResult(result) for result in results])


def _score_coverage(results: Sequence[Result], tools: Tools) -> Columns:
    return {"coverage": [_coverage(cited) for cited in read_citations(results, tools)]}


def _coverage(cited: CitedResult) -> Outcome:
    if cited.is_empty:
        return _EMPTY
    if not cited.claims:
        return _NO_CLAIMS
    with_citation = sum(bool(cited.citations_of(claim)) for claim in cited.claims)
    detail = {"claims": len(cited.claims), "cited": with_citation}
    return Outcome.scored(with_citation / len(cited.claims), detail)


def _support_score(threshold: float) -> Score:
    def score(results: Sequence[Result], tools: Tools) -> Columns:
        answers = read_citations(results, tools)
        vectors = tools.embed(text for cited in answers for text in _to_embed(cited))
        judged = [_Judged(cited, vectors, threshold) for cited in answers]
        return {
            "accuracy": [each.accuracy() for each in judged],
            "recall": [each.recall() for each in judged],
        }

    return score


def _to_embed(cited: CitedResult) -> Iterator[str]:
    if places := cited.cited_places:
        yield from (cited.contexts[place] for place in places)
        yield from (sentence.text for sentence in cited.judged_sentences)


_Verdict = Literal["correct", "unsupported", "not_retrieved"]


class _Judged:
    """The verdicts on the citations of one result."""

    def __init__(self, cited: CitedResult, vectors: Mapping[str, "np.ndarray"], threshold: float) -> None:
        self._cited = cited
        self._supporting: dict[int, set[int]] = {}
        places = cited.cited_places
        if places:
            sentences = cited.judged_sentences
            texts = [sentence.text for sentence in sentences]
            table = _supports(texts, [cited.contexts[place] for place in places], vectors, threshold)
            for row, column in zip(*(indices.tolist() for indices in table.nonzero()), strict=True):
                self._supporting.setdefault(sentences[row].start, set()).add(places[column])

    def accuracy(self) -> Outcome:
        cited = self._cited
        if cited.is_empty:
            return _EMPTY
        if not cited.has_citations:
            return _NO_CITATIONS
        verdicts = [
            (number, citation, self._verdict(citation, [sentence]))
            for number, sentence in enumerate(cited.sentences, start=1)
            for citation in sentence.citations
        ]
        verdicts += [
            (None, citation, self._verdict(citation, cited.claims or cited.sentences))
            for citation in cited.of_the_whole
        ]
        counts = Counter(verdict for *_, verdict in verdicts)
        detail = {
            "citations": len(verdicts),
            **{verdict: counts[verdict] for verdict in get_args(_Verdict)},
            "verdicts": [
                {"sentence": number, "contexts": [place + 1 for place in citation.contexts], "verdict": verdict}
                for number, citation, verdict in verdicts[:MOST_VERDICTS]
            ],
        }
        return Outcome.scored(counts["correct"] / len(verdicts), detail)

    def recall(self) -> Outcome:
        cited = self._cited
        if cited.is_empty:
            return _EMPTY
        if not cited.claims:
            return _NO_CLAIMS
        correct = sum(
            any(self._verdict(citation, [claim]) == "correct" for citation in cited.citations_of(claim))
            for claim in cited.claims
        )
        return Outcome.scored(correct / len(cited.claims), {"claims": len(cited.claims), "correctly_cited": correct})

    def _verdict(self, citation: Citation, sentences: Iterable[Sentence]) -> _Verdict:
        """On a citation that is of any of these sentences."""
        if not citation.contexts:
            return "not_retrieved"
        supporting = (self._supporting.get(sentence.start) for sentence in sentences)
        found = any(each is not None and not each.isdisjoint(citation.contexts) for each in supporting)
        return "correct" if found else "unsupported"


def _supports(
    sentences: Sequence[str], contexts: Sequence[str], vectors: Mapping[str, "np.ndarray"], threshold: float
) -> "np.ndarray":
    """Whether any window of a sentence and one of a context are alike enough, [sentences, contexts]."""
    import numpy as np

    if not sentences:
        return np.zeros((0, len(contexts)), dtype=bool)
    rows, row_starts = stacked(sentences, vectors)
    columns, column_starts = stacked(contexts, vectors)
    found = [
        np.logical_or.reduceat(block.clip(0.0, 1.0) >= threshold, column_starts, axis=1)
        for block in cosine_blocks(rows, columns)
    ]
    return np.logical_or.reduceat(np.concatenate(found), row_starts, axis=0)
