"""The `citation` family: whether citations point at what was retrieved and supports them (seeds 004, 002)."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple

from rageval_dagster.llm.client import ChatRequest
from rageval_dagster.llm.prompts import Prompt, fenced, load_prompt
from rageval_dagster.metrics.citation_marks import WIDEST_RANGE, Citation
from rageval_dagster.metrics.cited_answers import (
    NO_CLAIMS,
    CitedResult,
    JudgedCitation,
    Sentence,
    citation_accuracy,
    citation_recall,
    read_citations,
)
from rageval_dagster.metrics.embedding import cosine_blocks, stacked
from rageval_dagster.metrics.interface import EMPTY_ANSWER, Judge, Metric, MetricOptions, Rows, Score, Tools
from rageval_dagster.metrics.judge_model import (
    BLOCK,
    ROUNDS,
    Verdict,
    ask_verdicts,
    fences,
    judge_request,
    judged_version,
    shown_question,
    verdict_schema,
)
from rageval_dagster.records import Outcome, Result

if TYPE_CHECKING:
    import numpy as np

VERSION = "2"

_SCHEMA = verdict_schema("supported")

_FORMS = (
    "Citations are [n] (the n-th context, counted from 1; also [1, 2], [1-3] and full-width brackets), [doc], "
    "[doc:page], (source: doc), and those that the system returned separately (read as ids, else as numbers). A name "
    "in brackets is a citation if it is the id of a retrieved document or chunk, or looks like a file, an address or "
    "name:page. If the id is a path, its last part is enough, in upper or lower case, with or without extension. "
    "Code and other brackets ([sic], [x], footnotes, images, links with another text) are not citations. [doc] cites "
    "every context of the document, [doc:page] those on that page and those whose page is not known. A number "
    f"beyond the contexts, a range that runs backwards, or a range of more than {WIDEST_RANGE} cites nothing that was "
    "retrieved."
)
_PLACES = (
    "A citation belongs to the sentence that it is in or follows. A citation that was returned separately, or is in a "
    "list of sources, belongs to the whole answer. It counts for every claim if no claim has a citation of its own."
)
_CLAIMS = (
    "A claim is a declarative sentence, list item or table row. Questions, headings, lead-ins that end with a colon, "
    "pleasantries, code and lists of sources are not claims. No claims, or a decline: undefined."
)


def metrics(options: MetricOptions) -> list[Metric]:
    """The family's metrics. The model's version and the threshold are part of those that compare texts.

    Raises:
        SettingsError: a prompt of the user's own cannot be used.
    """
    threshold = options.citation_threshold
    supported = partial(
        Metric,
        version=f"{VERSION};model={options.embedder_version or 'none'};threshold={threshold}",
        score=_support_score(threshold),
        needs=frozenset({"answer", "contexts", "embedder"}),
        unanswerable="if_answered",
        of_claims=True,
        source="seed 004",
    )
    return [
        supported(
            id="citation.accuracy",
            description="Share of the citations that are correct: a cited context was retrieved, and its cosine with "
            f"the sentence (the best window counts) is at least {threshold:g}.",
            edge_cases="No citations, or a decline: undefined. A citation of something that was not retrieved is "
            f"wrong. {_FORMS} {_PLACES} A citation of the whole answer is correct if it supports any claim. It does "
            "not count if the text has the same citation.",
            good_value=0.95,
        ),
        Metric(
            id="citation.coverage",
            version=VERSION,
            score=lambda results, tools: [{"coverage": _coverage(each)} for each in read_citations(results, tools)],
            needs=frozenset({"answer", "hits"}),
            unanswerable="if_answered",
            of_claims=True,
            description="Share of the answer's claims that have a citation, correct or not.",
            edge_cases=f"{_CLAIMS} {_PLACES} See citation.accuracy for what a citation is.",
            source="seed 004",
            good_value=options.min_citation_coverage,
        ),
        supported(
            id="citation.recall",
            description="Share of the answer's claims that have a correct citation.",
            edge_cases=f"{_CLAIMS} {_PLACES} See citation.accuracy for what a citation is and when it is correct.",
        ),
        *_judged_metrics(options),
    ]


def _judged_metrics(options: MetricOptions) -> list[Metric]:
    """Those by a judge model: its version, and that of the prompt, are part of theirs."""
    prompt = load_prompt("citation_support", options.prompts_dir)
    judged = partial(
        Metric,
        version=judged_version(options, VERSION, prompt),
        needs=frozenset({"answer", "contexts", "judge"}),
        unanswerable="if_answered",
        of_claims=True,
        asks=frozenset({"support of citations"}),
        source="seed 004",
    )
    verdicts = (
        "Each case (a statement and the contexts cited for it) gets exactly one verdict, matched by number (up to "
        f"{BLOCK} per request). Missing and contradictory verdicts are requested again. If any remain after {ROUNDS} "
        "rounds, the result is an error."
    )
    return [
        judged(
            id="citation.accuracy_judged",
            judged=partial(_accuracy_judged, prompt),
            description="Share of the citations that are correct: a cited context was retrieved, and the judge finds "
            "that the cited contexts support the sentence.",
            edge_cases="Same as citation.accuracy, but with the judge instead of the cosine. If a sentence has several "
            "citations, each must support a part of the sentence and contradict no part. A citation of the whole "
            f"answer must support a part of the answer's claims. {verdicts} The judge is not asked about contexts "
            "that are blank or were not retrieved.",
            good_value=0.95,
        ),
        judged(
            id="citation.recall_judged",
            judged=partial(_recall_judged, prompt),
            description="Share of the answer's claims that have a correct citation, according to the judge.",
            edge_cases="Same as citation.recall, but with the judge instead of the cosine (see "
            "citation.accuracy_judged). If only the whole answer has citations, the cited contexts together must "
            f"support the claim. {verdicts}",
        ),
    ]


def _coverage(cited: CitedResult) -> Outcome:
    if cited.is_empty:
        return EMPTY_ANSWER
    if not cited.claims:
        return NO_CLAIMS
    with_citation = sum(bool(cited.citations_of(claim)) for claim in cited.claims)
    detail = {"claims": len(cited.claims), "cited": with_citation}
    return Outcome.scored(with_citation / len(cited.claims), detail)


def _support_score(threshold: float) -> Score:
    def score(results: Sequence[Result], tools: Tools) -> Rows:
        answers = read_citations(results, tools)
        vectors = tools.embed(
            text
            for cited in answers
            if cited.cited_places
            for text in (*(cited.contexts[place] for place in cited.cited_places), *_texts(cited.judged_sentences))
        )
        compared = [_Compared(cited, vectors, threshold) for cited in answers]
        return [{"accuracy": each.accuracy(), "recall": each.recall()} for each in compared]

    return score


def _texts(sentences: Iterable[Sentence]) -> list[str]:
    return [sentence.text for sentence in sentences]


class _Compared:
    """The verdicts on the citations of one result by cosines."""

    def __init__(self, cited: CitedResult, vectors: Mapping[str, "np.ndarray"], threshold: float) -> None:
        self._cited = cited
        self._supporting: dict[int, set[int]] = {}
        places = cited.cited_places
        if places:
            sentences = cited.judged_sentences
            table = _supports(_texts(sentences), [cited.contexts[place] for place in places], vectors, threshold)
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


# --- by a judge model -------------------------------------------------------------------------------------------------


async def _accuracy_judged(prompt: Prompt, result: Result, judge: Judge) -> Outcome:
    cases = _Cases(CitedResult(result))
    verdicts = await _verdicts(cases, prompt, result, judge)
    return citation_accuracy(cases.cited, partial(_verdict_on, cases, verdicts))


async def _recall_judged(prompt: Prompt, result: Result, judge: Judge) -> Outcome:
    cases = _Cases(CitedResult(result))
    # Without claims there is nothing to say, and with some the request is the one that accuracy sends.
    verdicts = await _verdicts(cases, prompt, result, judge) if cases.cited.claims else {}

    def is_cited_correctly(claim: Sentence) -> bool:
        return any(case in verdicts and verdicts[case].holds for case in cases.of_claim(claim))

    return citation_recall(cases.cited, is_cited_correctly)


class _Case(NamedTuple):
    """A statement and the contexts cited for it, by their places from 0.

    `asked` is how much of it they are to support: `all`, a `part`, or of the `whole` answer, anything.
    """

    statement: str
    places: tuple[int, ...]
    asked: Literal["all", "part", "whole"]


class _Cases:
    """What is to be asked about the citations of a result: each case once, by its number."""

    def __init__(self, cited: CitedResult) -> None:
        self.cited = cited
        self._with_words = frozenset(cited.cited_places)
        self._cites_several = {each.start: self._are_several(each.citations) for each in cited.sentences}
        self._apart_are_several = self._are_several(cited.apart)
        cases = [self.of(sentences, citation) for _, sentences, citation in cited.placed_citations()]
        cases += [case for claim in cited.claims for case in self.of_claim(claim)]
        distinct = dict.fromkeys(case for case in cases if case is not None)
        self.numbered = dict(enumerate(distinct, start=1))

    def of(self, sentences: Sequence[Sentence], citation: Citation) -> _Case | None:
        """The case of a citation of one sentence, or of all of them; None where there is nothing to read."""
        places = self._said(citation.contexts)
        if not sentences or not places:
            return None
        if len(sentences) > 1:
            return _Case("", places, "whole")
        [sentence] = sentences
        several = self._cites_several[sentence.start] if sentence.citations else self._apart_are_several
        return _Case(sentence.text, places, "part" if several else "all")

    def of_claim(self, claim: Sentence) -> list[_Case]:
        """The cases one of which has to hold for the claim to be cited correctly."""
        if claim.citations:
            return [case for citation in claim.citations if (case := self.of([claim], citation)) is not None]
        together = self._said({place for citation in self.cited.citations_of(claim) for place in citation.contexts})
        return [_Case(claim.text, together, "all")] if together else []

    def _said(self, places: Iterable[int]) -> tuple[int, ...]:
        """Those of the places whose contexts have words, in order."""
        return tuple(sorted(self._with_words.intersection(places)))

    def _are_several(self, citations: Iterable[Citation]) -> bool:
        """Whether they cite different contexts, so that each may support another part of a sentence."""
        return len({self._said(citation.contexts) for citation in citations} - {()}) > 1


async def _verdicts(cases: _Cases, prompt: Prompt, result: Result, judge: Judge) -> Mapping[_Case, Verdict]:
    material = {
        "question": shown_question(result),
        "answer": fenced("answer", result.answer_text),
    }

    def request(numbers: Sequence[int]) -> ChatRequest:
        asked = {number: cases.numbered[number] for number in numbers}
        places = sorted({place for case in asked.values() for place in case.places})
        return judge_request(
            prompt,
            _SCHEMA,
            **material,
            sources=fences("source", {place + 1: result.contexts[place] for place in places}),
            cases="\n\n".join(
                prompt.fill(
                    case.asked,
                    number=str(number),
                    sources=", ".join(str(place + 1) for place in case.places),
                    **({} if case.asked == "whole" else {"statement": fenced("statement", case.statement, number)}),
                )
                for number, case in asked.items()
            ),
        )

    found = await ask_verdicts(judge, list(cases.numbered), "supported", request)
    return {case: found[number] for number, case in cases.numbered.items()}


def _verdict_on(
    cases: _Cases, verdicts: Mapping[_Case, Verdict], sentences: Sequence[Sentence], citation: Citation
) -> JudgedCitation:
    if not citation.contexts:
        return JudgedCitation("not_retrieved")
    case = cases.of(sentences, citation)
    if case is None:
        return JudgedCitation("unsupported")
    return JudgedCitation("correct" if verdicts[case].holds else "unsupported", verdicts[case].reason)
