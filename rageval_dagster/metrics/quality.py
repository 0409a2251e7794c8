"""The `quality` family: heuristics on an answer that need no model (seed 000)."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

from rageval_dagster.languages import asks_for_list, declines_version, detect, is_fallback
from rageval_dagster.metrics.citation_marks import without_code
from rageval_dagster.metrics.cited_answers import CitedResult, read_citations
from rageval_dagster.metrics.interface import Metric, MetricOptions, Rows, Tools, gave_answer, scored
from rageval_dagster.records import Outcome, Result

VERSION = "1"
LIST_VERSION = "2"
REFUSAL_VERSION = "2"

SHORT_LIST = 12
"""Words up to which an answer of two things joined by `and` is a list."""

# No bullets: "**Norway**", "-5 degrees", "1.5 million", "U.S.".
_LIST_LINE = re.compile(
    r"^[ \t>]*(?:[-*+–—][ \t]+|(?:[•‣◦▪·|]|\(?(?:\d{1,3}(?:[.)](?!\d)|、)|[a-zA-Z]\)))[ \t]*|\(?[a-zA-Z]\.[ \t]+)\S",
    re.MULTILINE,
)
_INLINE_NUMBER = re.compile(r"(?<!\w)\(?(?:\d{1,2}|[a-h])\)\s")
_SEPARATOR = re.compile(r"[,;؛،]\s|[，；、،]")
_AND = re.compile(r"\s(?:and|or|und|oder|ou|y|oraz|lub|и|или|و|और)\s|和|及|以及|と|&", re.IGNORECASE)
_AND_IN = {
    language: re.compile(rf"\s(?:{words})\s", re.IGNORECASE)
    for languages, words in {"nl": "en|of", "fr": "et", "es it": "e|o", "pt": "e", "pl hr sr bs sl ca": "i"}.items()
    for language in languages.split()
}
"""What is `and` or `or` in these languages, and another word in others: the English "of", the Spanish "en"."""
_SENTENCE_END = re.compile(r"[.!?。！？।](?:\s|$)")


def metrics(options: MetricOptions) -> list[Metric]:
    minimum, required = options.minimum_retrieval_score, options.citation_required
    phrases = f"phrases={declines_version()[:8]}"
    wanted = f"minimum={'none' if minimum is None else minimum}"

    def score(results: Sequence[Result], tools: Tools) -> Rows:
        cited = read_citations(results, tools)
        return [_outcomes(*each, minimum, required) for each in zip(results, cited, strict=True)]

    declare = partial(
        Metric,
        version=VERSION,
        score=score,
        needs=frozenset({"answer"}),
        unanswerable="if_answered",
        source="seed 000",
    )
    of_contexts = partial(declare, needs=frozenset({"answer", "hits"}), unanswerable="undefined")
    return [
        declare(
            id="quality.answered",
            description="1 if the answer is not empty, else 0.",
            edge_cases="Only whitespace counts as empty. A decline does not; quality.no_fallback_phrase detects it.",
        ),
        of_contexts(
            id="quality.has_context",
            description="1 if the system had at least one context for the answer, else 0.",
            edge_cases="Blank contexts do not count; contexts with unknown text do.",
        ),
        declare(
            id="quality.has_citation",
            description="1 if the answer has a citation, correct or not, else 0.",
            edge_cases="The citation is in the text, in any form that citation.accuracy knows, or returned separately.",
        ),
        declare(
            id="quality.no_fallback_phrase",
            version=f"{VERSION};{phrases}",
            description="0 if the answer is a decline or reports a failure ('Unable to generate ...', 'An error "
            "occurred ...'), else 1.",
            edge_cases="An answer is a decline if the system says so, if it has one of the client's decline_phrases, "
            "or if its first 300 characters have a built-in phrase (ten languages) and no sentence cites a source. A "
            "failure is recognised by the beginning of the answer. Empty answer: 1.",
        ),
        of_contexts(
            id="quality.retrieval_score_above_minimum",
            version=f"{VERSION};{wanted}",
            description="1 if the best retrieval score of the contexts reaches the set minimum "
            "(RAGEVAL_MINIMUM_RETRIEVAL_SCORE), else 0.",
            edge_cases="Only the best score counts, so poor contexts next to a good one do no harm. No minimum "
            "set, or no score other than 0: undefined. (If a system returns no scores, they count as 0.)",
        ),
        declare(
            id="quality.list_formatted",
            version=LIST_VERSION,
            description="For questions that ask for a list: 1 if the answer is a list, else 0.",
            edge_cases="The wording shows whether a question asks for a list ('List all', 'What are the', 'Which ... "
            "are'; in 12 languages). Other questions: undefined. A list has bullets, numbers, table rows, three lines, "
            f"or three parts separated by commas or semicolons. In answers of at most {SHORT_LIST} words, two parts "
            "joined by 'and' in the language of question and answer are enough. Empty answer: 0.",
        ),
        declare(
            id="quality.passed",
            version=f"{LIST_VERSION};{phrases};{wanted};citation_required={str(required).lower()}",
            unanswerable="scored",
            description="1 if the answer passes every check of this family that applies, else 0"
            + ("." if required else "; has_citation does not count (RAG__CITATION_REQUIRED is false)."),
            edge_cases="Undefined checks do not count. On an unanswerable question, only refusal_correct counts. The "
            "detail names the checks that failed.",
        ),
        Metric(
            id="quality.refusal_correct",
            version=REFUSAL_VERSION,
            score=lambda results, _tools: [{"refusal_correct": _refusal(result)} for result in results],
            needs=frozenset({"answer"}),
            unanswerable="scored",
            description="1 if the system answered an answerable question (rightly or wrongly) or declined an "
            "unanswerable question, else 0. The score does not say whether an answer is right.",
            edge_cases="An empty answer counts as declined. No answer requested: undefined. A question without "
            "answers and evidence that nobody marked as answerable or unanswerable: undefined.",
            source="own",
        ),
    ]


@dataclass(frozen=True)
class Checks:
    """The checks on one answer; None where one does not apply."""

    answered: bool
    has_context: bool | None
    has_citation: bool
    no_fallback_phrase: bool
    retrieval_score_above_minimum: bool | None
    list_formatted: bool | None

    def failed(self, citation_required: bool) -> list[str]:
        """The names of those that apply and were not passed."""
        return [
            name
            for name, passed in vars(self).items()
            if passed is False and (citation_required or name != "has_citation")
        ]


def check(result: Result, cited: CitedResult, minimum: float | None) -> Checks:
    """All the checks of a result that has an answer; `cited` are that answer's citations."""
    answer, text = result.answer, result.answer_text
    return Checks(
        answered=bool(text.strip()),
        has_context=_has_context(result) if result.tells_contexts else None,
        has_citation=cited.has_citations,
        no_fallback_phrase=answer is None or not (answer.declined or is_fallback(text)),
        retrieval_score_above_minimum=_reaches(result, minimum),
        list_formatted=is_list(text, result.item.question) if _asks_for_list(result.item.question) else None,
    )


_asks_for_list = lru_cache(maxsize=4096)(asks_for_list)


def _has_context(result: Result) -> bool:
    unknown = any(not hit.text for hit in result.hits[: len(result.contexts)])
    return unknown or any(text.strip() for text in result.contexts)


def _reaches(result: Result, minimum: float | None) -> bool | None:
    if minimum is None or not result.tells_contexts:
        return None
    scores = [hit.score for hit in result.hits[: len(result.contexts)] if math.isfinite(hit.score)]
    return max(scores) >= minimum if any(scores) else None


def is_list(text: str, question: str = "") -> bool:
    """Whether a text lists things: by lines, numbers, or within a sentence.

    Words that are `and` in some languages only count where that is the language of question and text together.
    """
    text = without_code(text).strip()
    if _LIST_LINE.search(text) or len(text.splitlines()) - text.splitlines().count("") >= 3:
        return True
    if len(_INLINE_NUMBER.findall(text)) >= 2:
        return True
    for sentence in _SENTENCE_END.split(text):
        separators = len(_SEPARATOR.findall(sentence))
        if separators >= 2 or (separators == 1 and _joins(sentence, question)):
            return True
    return len(text.split()) <= SHORT_LIST and _joins(text, question)


def _joins(text: str, question: str) -> bool:
    """Whether two things are joined by `and` or `or`."""
    if _AND.search(text):
        return True
    if not any(words.search(text) for words in _AND_IN.values()):
        return False
    words = _AND_IN.get(detect(f"{question} {text}") or "")
    return words is not None and words.search(text) is not None


_NOT_APPLICABLE = {
    "retrieval_score_above_minimum": Outcome.undefined("no retrieval score or no minimum is known"),
    "list_formatted": Outcome.undefined("the question does not ask for a list"),
}
_NOBODY_KNOWS = Outcome.undefined("nobody said whether it can be answered")


def _outcomes(
    result: Result, cited: CitedResult, minimum: float | None, citation_required: bool
) -> dict[str, Outcome | None]:
    checks = check(result, cited, minimum)
    row: dict[str, Outcome | None] = {
        name: _NOT_APPLICABLE.get(name) if passed is None else scored(float(passed))
        for name, passed in vars(checks).items()
    }
    if result.item.answerable:
        failed = checks.failed(citation_required)
        row["passed"] = Outcome.scored(float(not failed), {"failed": failed}) if failed else scored(1.0)
    else:
        row["passed"] = _refusal(result)
    return row


def _refusal(result: Result) -> Outcome:
    item = result.item
    if item.answerable and not item.answers and not item.evidence:
        return _NOBODY_KNOWS
    return scored(float(gave_answer(result.answer) == item.answerable))
