"""The `citation` family: whether citations point at what was retrieved and supports them (seeds 004, 002)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from rageval_dagster.metrics import citation_judged
from rageval_dagster.metrics.citation_marks import WIDEST_RANGE, Citation
from rageval_dagster.metrics.cited_results import (
    EMPTY,
    NO_CLAIMS,
    CitedResult,
    JudgedCitation,
    citation_accuracy,
    citation_recall,
    read_citations,
)
from rageval_dagster.metrics.claim_sentences import Sentence
from rageval_dagster.metrics.cosines import cosine_blocks, stacked
from rageval_dagster.metrics.interface import Columns, Metric, MetricOptions, Score, Tools
from rageval_dagster.records import Outcome, Result

if TYPE_CHECKING:
    import numpy as np

VERSION = "1"

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
        *citation_judged.metrics(options),
    ]


def _score_coverage(results: Sequence[Result], tools: Tools) -> Columns:
    return {"coverage": [_coverage(cited) for cited in read_citations(results, tools)]}


def _coverage(cited: CitedResult) -> Outcome:
    if cited.is_empty:
        return EMPTY
    if not cited.claims:
        return NO_CLAIMS
    with_citation = sum(bool(cited.citations_of(claim)) for claim in cited.claims)
    detail = {"claims": len(cited.claims), "cited": with_citation}
    return Outcome.scored(with_citation / len(cited.claims), detail)


def _support_score(threshold: float) -> Score:
    def score(results: Sequence[Result], tools: Tools) -> Columns:
        answers = read_citations(results, tools)
        vectors = tools.embed(text for cited in answers for text in _to_embed(cited))
        compared = [_Compared(cited, vectors, threshold) for cited in answers]
        return {
            "accuracy": [each.accuracy() for each in compared],
            "recall": [each.recall() for each in compared],
        }

    return score


def _to_embed(cited: CitedResult) -> Iterator[str]:
    if places := cited.cited_places:
        yield from (cited.contexts[place] for place in places)
        yield from (sentence.text for sentence in cited.judged_sentences)


class _Compared:
    """The verdicts on the citations of one result by cosines."""

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
        return citation_accuracy(self._cited, self._judged)

    def recall(self) -> Outcome:
        return citation_recall(
            self._cited,
            lambda claim: any(
                self._judged([claim], citation).verdict == "correct" for citation in self._cited.citations_of(claim)
            ),
        )

    def _judged(self, sentences: Iterable[Sentence], citation: Citation) -> JudgedCitation:
        if not citation.contexts:
            return JudgedCitation("not_retrieved")
        supporting = (self._supporting.get(sentence.start) for sentence in sentences)
        found = any(each is not None and not each.isdisjoint(citation.contexts) for each in supporting)
        return JudgedCitation("correct" if found else "unsupported")


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
