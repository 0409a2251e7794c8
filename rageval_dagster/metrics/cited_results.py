"""A result's answer with its citations, and what verdicts on them come to, whoever gave these."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Literal, NamedTuple, get_args

from rageval_dagster.metrics.citation_marks import Citation, Retrieved
from rageval_dagster.metrics.claim_sentences import Sentence, read_answer
from rageval_dagster.metrics.interface import Tools
from rageval_dagster.records import Answer, Outcome, Result

MOST_VERDICTS = 100
"""Citations whose verdicts are kept one by one."""

EMPTY = Outcome.undefined("the answer is empty")
NO_CLAIMS = Outcome.undefined("the answer has no claims")
_NO_CITATIONS = Outcome.undefined("the answer has no citations")


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
        return EMPTY
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
        return EMPTY
    if not cited.claims:
        return NO_CLAIMS
    correct = sum(map(is_cited_correctly, cited.claims))
    return Outcome.scored(correct / len(cited.claims), {"claims": len(cited.claims), "correctly_cited": correct})
