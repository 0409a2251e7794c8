"""The `claims` family: single facts of answer, reference and contexts, as a judge model finds and compares them.

After RAGAS (Es et al. 2023). What one metric asks and another one asks too is sent once: the claims of the answer are
found once for `faithfulness` and `answer_correctness`. The first four metrics ask at most five times about a result.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

from rageval_dagster.languages import sentences
from rageval_dagster.llm.client import ChatRequest, UnusableReplyError, together
from rageval_dagster.llm.messages import object_schema
from rageval_dagster.llm.prompts import Prompt, fenced, load_prompt
from rageval_dagster.llm.replies import read_list, read_object
from rageval_dagster.metrics.cited_answers import NO_CLAIMS
from rageval_dagster.metrics.embedding import best_cosines
from rageval_dagster.metrics.interface import (
    EMPTY_ANSWER,
    EMPTY_QUESTION,
    EMPTY_REFERENCE,
    Judge,
    Metric,
    MetricOptions,
    gave_answer,
)
from rageval_dagster.metrics.judge_model import (
    BLOCK,
    ROUNDS,
    Verdict,
    ask_verdicts,
    fences,
    judge_request,
    judged_version,
    numbered_texts,
    read_truth,
    shown_question,
    verdict_schema,
)
from rageval_dagster.metrics.lexical import squad_tokens, token_f1
from rageval_dagster.records import Outcome, Result
from rageval_dagster.storage.types import storable

VERSION = "1"

QUESTIONS = 3
"""Questions that are written anew from an answer."""

_STRINGS = {"type": "array", "items": {"type": "string"}}
_CLAIMS_SCHEMA = object_schema("claims", claims=_STRINGS)
_QUESTIONS_SCHEMA = object_schema("questions", evasive="boolean", questions=_STRINGS)
_VERDICT_SCHEMAS = {name: verdict_schema(name) for name in ("supported", "useful")}

_NO_REFERENCE_CLAIMS = Outcome.undefined("the reference answer has no claims")
_NOTHING_TO_JUDGE_BY = Outcome.undefined("there is neither a reference answer nor an answer to judge by")

_VERDICTS = (
    f"Each claim, statement or context gets exactly one verdict, matched by number (up to {BLOCK} per request). "
    f"Missing and contradictory verdicts are requested again. If any remain after {ROUNDS} rounds, the result is an "
    "error."
)
_CLAIMS = "Claims are the single facts that the judge finds in a text, given the question."


def metrics(options: MetricOptions) -> list[Metric]:
    """The family's metrics. The judge model and the prompts are part of their versions.

    Raises:
        SettingsError: a prompt of the user's own cannot be used.
    """
    statements, support, questions, usefulness, attribution = (
        load_prompt(f"claims_{name}", options.prompts_dir)
        for name in ("statements", "support", "questions", "usefulness", "attribution")
    )
    claims = _Claims(statements, support)
    embedder = options.embedder_version or "none"
    declare = partial(Metric, source="seed 003; Es et al. 2023")
    return [
        declare(
            id="claims.faithfulness",
            version=judged_version(options, VERSION, statements, support),
            judged=partial(_faithfulness, claims),
            asks=frozenset({"claims of answer", "answer by contexts"}),
            needs=frozenset({"answer", "contexts", "judge"}),
            unanswerable="if_answered",
            description="Share of the answer's claims that the contexts support, according to the judge.",
            edge_cases=f"No contexts: 0. Empty answer, or one without claims (a decline): undefined. {_CLAIMS} "
            f"{_VERDICTS}",
            good_value=0.9,
        ),
        declare(
            id="claims.answer_relevancy",
            version=f"{judged_version(options, VERSION, questions)};model={embedder}",
            judged=partial(_answer_relevancy, questions),
            needs=frozenset({"answer", "judge", "embedder"}),
            unanswerable="if_answered",
            description=f"Mean cosine between the question and {QUESTIONS} questions that the judge writes for the "
            "answer without seeing the question.",
            edge_cases="Empty answer, or one that the judge finds evasive: 0. No question text: undefined. For a "
            "question longer than the model's window, the best window counts. Negative cosines count as 0.",
            good_value=0.8,
        ),
        declare(
            id="claims.context_precision",
            version=judged_version(options, VERSION, usefulness),
            judged=partial(_context_precision, usefulness),
            needs=frozenset({"contexts", "judge"}),
            unanswerable="undefined",
            description="Average precision of the contexts in their order. A context is relevant if the judge finds "
            "it useful for the reference, or for the answer if there is no reference.",
            edge_cases="No contexts, or no useful context: 0. A blank context is not useful. Of several references, "
            "a context must be useful for only one. No reference, and no answer or a decline: undefined. "
            f"{_VERDICTS}",
        ),
        declare(
            id="claims.context_recall",
            version=judged_version(options, VERSION, attribution),
            judged=partial(_context_recall, attribution),
            needs=frozenset({"contexts", "reference", "judge"}),
            unanswerable="undefined",
            description="Share of the reference's statements that the contexts support, according to the judge. Of "
            "several references, the best counts.",
            edge_cases="The statements are the reference's sentences and list items. A segmenter cuts them, so no "
            "statement is left out or made up. A statement with several facts counts only if all of them are "
            f"supported. No contexts: 0. Empty reference: undefined. {_VERDICTS}",
        ),
        declare(
            id="claims.answer_correctness",
            version=judged_version(options, VERSION, statements, support),
            judged=partial(_answer_correctness, claims),
            asks=frozenset({"claims of answer", "claims of reference", "answer by reference", "reference by answer"}),
            needs=frozenset({"answer", "reference", "judge"}),
            unanswerable="undefined",
            description="F1 of the claims of the answer and the reference, from three counts by the judge: claims of "
            "the answer that the reference supports, claims of the answer that it does not support, and claims of the "
            "reference that the answer does not support.",
            edge_cases="Empty answer, or one without claims (a decline): 0. Empty reference, or one without claims: "
            "undefined. Of several references, the one with the best token F1 with the answer counts; in a tie, the "
            f"first. {_CLAIMS} {_VERDICTS}",
            source="seed 003; Es et al. 2023, without the similarity part",
        ),
    ]


async def _faithfulness(claims: "_Claims", result: Result, judge: Judge) -> Outcome:
    answer = result.answer_text
    if not answer.strip():
        return EMPTY_ANSWER
    found = await claims.of(answer, shown_question(result), judge)
    if not found:
        return NO_CLAIMS
    return _share("claim", found, await claims.supported(found, result.contexts, shown_question(result), judge))


async def _answer_relevancy(prompt: Prompt, result: Result, judge: Judge) -> Outcome:
    question, answer = result.item.question, result.answer_text
    if not question.strip():
        return EMPTY_QUESTION
    if not answer.strip():
        return Outcome.scored(0.0)
    request = judge_request(prompt, _QUESTIONS_SCHEMA, answer=fenced("answer", answer))
    questions = await judge.ask(request, read_questions)
    if not questions:
        return Outcome.scored(0.0, {"evasive": True})
    vectors = await judge.embed([question, *questions])
    cosines = [float(cosine) for cosine in best_cosines(questions, [question], vectors)]
    rows = [{"question": text, "cosine": cosine} for text, cosine in zip(questions, cosines, strict=True)]
    return Outcome.scored(min(1.0, sum(cosines) / len(cosines)), {"evasive": False, "questions": rows})


async def _context_precision(prompt: Prompt, result: Result, judge: Judge) -> Outcome:
    contexts = numbered_texts(result.contexts)
    if not contexts:
        return Outcome.scored(0.0)
    answers = tuple(dict.fromkeys(result.references)) or ((result.answer_text,) if gave_answer(result.answer) else ())
    if not answers:
        return _NOTHING_TO_JUDGE_BY
    material = {"question": shown_question(result), "answers": fences("answer", numbered_texts(answers))}
    found = await _verdicts(judge, prompt, "useful", "context", contexts, material)
    verdicts = [found.get(number, _BLANK) for number in range(1, len(result.contexts) + 1)]
    detail = {
        "by": "reference" if result.references else "answer",
        "useful": _held(verdicts),
        "contexts": [
            {"context": number, "useful": verdict.holds, "reason": verdict.reason}
            for number, verdict in enumerate(verdicts, start=1)
        ],
    }
    return Outcome.scored(average_precision([verdict.holds for verdict in verdicts]), detail)


async def _context_recall(prompt: Prompt, result: Result, judge: Judge) -> Outcome:
    references = list(dict.fromkeys(result.references))
    if not references:
        return EMPTY_REFERENCE
    contexts = numbered_texts(result.contexts)
    if not contexts:
        return Outcome.scored(0.0)
    of_references = [sentences(reference) for reference in references]
    statements = numbered_texts(list(dict.fromkeys(chain.from_iterable(of_references))))
    material = {
        "question": shown_question(result),
        "contexts": fences("context", contexts),
        "references": fences("reference", numbered_texts(references)),
    }
    found = await _verdicts(judge, prompt, "supported", "statement", statements, material)
    verdicts = {statement: found[number] for number, statement in statements.items()}
    outcomes = [
        _share("statement", of_reference, [verdicts[text] for text in of_reference]) for of_reference in of_references
    ]
    return max(outcomes, key=lambda outcome: outcome.value or 0.0)


async def _answer_correctness(claims: "_Claims", result: Result, judge: Judge) -> Outcome:
    answer, question = result.answer_text, shown_question(result)
    if not result.references:
        return EMPTY_REFERENCE
    if not answer.strip():
        return Outcome.scored(0.0)
    tokens = Counter(squad_tokens(answer))
    reference = max(result.references, key=lambda text: token_f1(tokens, Counter(squad_tokens(text))))
    said, expected = await together(claims.of(answer, question, judge), claims.of(reference, question, judge))
    if not expected:
        return _NO_REFERENCE_CLAIMS
    if not said:
        return Outcome.scored(0.0, {"correct": 0, "wrong": 0, "missing": len(expected)})
    of_answer, of_reference = await together(
        claims.supported(said, [reference], question, judge), claims.supported(expected, [answer], question, judge)
    )
    correct = _held(of_answer)
    wrong, missing = len(said) - correct, len(expected) - _held(of_reference)
    detail = {
        "correct": correct,
        "wrong": wrong,
        "missing": missing,
        "claims": _rows("claim", said, of_answer),
        "reference_claims": _rows("claim", expected, of_reference),
    }
    return Outcome.scored(2 * correct / (2 * correct + wrong + missing), detail)


@dataclass(frozen=True)
class _Claims:
    """Finds the claims of texts, and says which of them sources support."""

    statements: Prompt
    support: Prompt

    async def of(self, text: str, question: str, judge: Judge) -> Sequence[str]:
        material = {"question": question, "text": fenced("text", text)}
        return await judge.ask(judge_request(self.statements, _CLAIMS_SCHEMA, **material), read_claims)

    async def supported(
        self, claims: Sequence[str], sources: Sequence[str], question: str, judge: Judge
    ) -> list[Verdict]:
        """A verdict on each claim; without sources none is supported, and nothing is asked."""
        texts = numbered_texts(sources)
        if not texts:
            return [_NO_SOURCES] * len(claims)
        material = {"question": question, "sources": fences("source", texts)}
        return list(
            (await _verdicts(judge, self.support, "supported", "claim", numbered_texts(claims), material)).values()
        )


_NO_SOURCES = Verdict(False, "there are no contexts")
_BLANK = Verdict(False, "the context is blank")


def read_claims(text: str) -> list[str]:
    """The claims in a reply, each once; none where the text has none.

    Raises:
        UnusableReplyError: there is no list of claims, or something in it is no text.
    """
    rows = [row.get("claim") if isinstance(row, dict) else row for row in read_list(text, "claims")]
    claims = [" ".join(storable(row).split()) for row in rows if isinstance(row, str)]
    if len(claims) < len(rows):
        raise UnusableReplyError("a claim in the reply is no text")
    distinct: dict[str, str] = {}
    for claim in filter(None, claims):
        distinct.setdefault(claim.casefold(), claim)
    return list(distinct.values())


def read_questions(text: str) -> list[str]:
    """The questions in a reply; none where it calls the answer evasive.

    Raises:
        UnusableReplyError: it does not say whether the answer is evasive, or there are too few questions.
    """
    reply = read_object(text)
    evasive, questions = read_truth(reply.get("evasive"), "evasive"), reply.get("questions")
    if evasive is None:
        raise UnusableReplyError("the reply does not say whether the answer is evasive")
    if evasive:
        return []
    asked = [
        storable(each).strip()
        for each in (questions if isinstance(questions, list) else [])
        if isinstance(each, str) and each.strip()
    ]
    if len(asked) < QUESTIONS:
        raise UnusableReplyError(f"the reply holds {len(asked)} of {QUESTIONS} questions")
    return asked[:QUESTIONS]


def average_precision(relevant: Sequence[bool]) -> float:
    """The mean of the precision at the rank of each relevant one; 0 if none is."""
    found, total = 0, 0.0
    for rank, is_relevant in enumerate(relevant, start=1):
        found += is_relevant
        total += found / rank if is_relevant else 0.0
    return min(1.0, total / found) if found else 0.0


async def _verdicts(
    judge: Judge, prompt: Prompt, name: str, tag: str, things: Mapping[int, str], material: Mapping[str, str]
) -> Mapping[int, Verdict]:
    """A verdict on each of the numbered things, in their order; the prompt has them as `$claims` where `tag` is claim.

    `name` is what each verdict is called in the replies: `supported` or `useful`.
    """
    schema = _VERDICT_SCHEMAS[name]

    def request(numbers: Sequence[int]) -> ChatRequest:
        asked = {f"{tag}s": fences(tag, {number: things[number] for number in numbers})}
        return judge_request(prompt, schema, **material, **asked)

    return await ask_verdicts(judge, list(things), name, request)


def _share(what: str, texts: Sequence[str], verdicts: Sequence[Verdict]) -> Outcome:
    count = _held(verdicts)
    return Outcome.scored(count / len(texts), {"supported": count, f"{what}s": _rows(what, texts, verdicts)})


def _held(verdicts: Sequence[Verdict]) -> int:
    return sum(verdict.holds for verdict in verdicts)


def _rows(what: str, texts: Sequence[str], verdicts: Sequence[Verdict]) -> list[dict[str, Any]]:
    return [
        {what: text, "supported": verdict.holds, "reason": verdict.reason}
        for text, verdict in zip(texts, verdicts, strict=True)
    ]
