"""The judged part of the `citation` family: whether cited contexts support what cites them, as a judge model finds."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Literal, NamedTuple

from rageval_dagster.llm.client import ChatRequest
from rageval_dagster.llm.prompts import Prompt, fenced, load_prompt
from rageval_dagster.metrics.citation_marks import Citation
from rageval_dagster.metrics.cited_results import CitedResult, JudgedCitation, citation_accuracy, citation_recall
from rageval_dagster.metrics.claim_sentences import Sentence
from rageval_dagster.metrics.interface import Judge, Metric, MetricOptions
from rageval_dagster.metrics.judging import judged_version, shown_question
from rageval_dagster.metrics.verdicts import BLOCK, ROUNDS, Verdict, ask_verdicts, judge_request, verdict_schema
from rageval_dagster.records import Outcome, Result

VERSION = "1"

_SCHEMA = verdict_schema("supported")


def metrics(options: MetricOptions) -> list[Metric]:
    """The judged metrics of the family. The judge model and the prompt are part of their versions.

    Raises:
        SettingsError: a prompt of the user's own cannot be used.
    """
    prompt = load_prompt("citation_support", options.prompts_dir)
    judged = partial(
        Metric,
        version=judged_version(options, VERSION, prompt),
        needs=frozenset({"answer", "contexts", "judge"}),
        unanswerable="if_answered",
        asks=frozenset({"support of citations"}),
        source="seed 004",
    )
    verdicts = (
        f"All have exactly one verdict, by their numbers ({BLOCK} a request): missing and contradictory ones are asked "
        f"for again, and after {ROUNDS} rounds they are an error."
    )
    return [
        judged(
            id="citation.accuracy_judged",
            judged=partial(_accuracy, prompt),
            description="Share of the citations that are correct: a cited context was retrieved, and as the judge "
            "finds, the contexts cited support the sentence.",
            edge_cases="As citation.accuracy, but for the cosine. Of several citations in a sentence, each has to "
            "support a part of it and contradict none; so has one of the whole answer to support a part of what it "
            f"claims. {verdicts} What was never retrieved, or is blank, is not asked about.",
            good_value=0.95,
        ),
        judged(
            id="citation.recall_judged",
            judged=partial(_recall, prompt),
            description="Share of the answer's claims that have a correct citation, as the judge finds.",
            edge_cases="As citation.recall, but for the cosine; when a citation is correct: see "
            "citation.accuracy_judged. Where only the whole answer has citations, a claim is cited correctly if what "
            f"they cite supports it, taken together. {verdicts}",
        ),
    ]


async def _accuracy(prompt: Prompt, result: Result, judge: Judge) -> Outcome:
    cases = _Cases(CitedResult(result))
    verdicts = await _judged(cases, prompt, result, judge)
    return citation_accuracy(cases.cited, partial(_verdict_on, cases, verdicts))


async def _recall(prompt: Prompt, result: Result, judge: Judge) -> Outcome:
    cases = _Cases(CitedResult(result))
    # Without claims there is nothing to say, and with some the request is the one that accuracy sends.
    verdicts = await _judged(cases, prompt, result, judge) if cases.cited.claims else {}

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


async def _judged(cases: _Cases, prompt: Prompt, result: Result, judge: Judge) -> Mapping[_Case, Verdict]:
    material = {
        "question": shown_question(result),
        "answer": fenced("answer", "" if result.answer is None else result.answer.text),
    }

    def request(numbers: Sequence[int]) -> ChatRequest:
        asked = {number: cases.numbered[number] for number in numbers}
        places = sorted({place for case in asked.values() for place in case.places})
        return judge_request(
            prompt,
            _SCHEMA,
            **material,
            sources="\n\n".join(fenced("source", result.contexts[place], place + 1) for place in places),
            cases="\n\n".join(_shown(prompt, number, case) for number, case in asked.items()),
        )

    found = await ask_verdicts(judge, list(cases.numbered), "supported", request)
    return {case: found[number] for number, case in cases.numbered.items()}


def _shown(prompt: Prompt, number: int, case: _Case) -> str:
    sources = ", ".join(str(place + 1) for place in case.places)
    statement = {} if case.asked == "whole" else {"statement": fenced("statement", case.statement, number)}
    return prompt.fill(case.asked, number=str(number), sources=sources, **statement)


def _verdict_on(
    cases: _Cases, verdicts: Mapping[_Case, Verdict], sentences: Sequence[Sentence], citation: Citation
) -> JudgedCitation:
    if not citation.contexts:
        return JudgedCitation("not_retrieved")
    case = cases.of(sentences, citation)
    if case is None:
        return JudgedCitation("unsupported")
    return JudgedCitation("correct" if verdicts[case].holds else "unsupported", verdicts[case].reason)
