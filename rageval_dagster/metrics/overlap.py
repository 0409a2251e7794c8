"""The `overlap` family: token overlap between answer, reference and contexts, without a model (seed 001)."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial

from rageval_dagster.metrics.interface import NO_EVIDENCE, Metric, MetricOptions, Rows, Score, Tools, scored
from rageval_dagster.metrics.lexical import best_of, plain_squad_tokens, squad_tokens
from rageval_dagster.metrics.support import VERSION as SUPPORT_VERSION
from rageval_dagster.metrics.support import support
from rageval_dagster.records import Outcome, Result
from rageval_dagster.text import normalised

VERSION = "1"
FAITHFULNESS_VERSION = "2"
COMPAT_VERSION = f"{VERSION};compat"
"""The version of what is computed as unitxt does: other numbers than ours."""

_CACHED_TEXTS = 4_096
_CACHED_LENGTH = 10_000
"""Characters of the longest text whose tokens are kept: chunks come back for many questions, long texts do not."""

_NO_ANSWER_TOKENS = Outcome.undefined("the answer has no words")
_NO_REFERENCE_TOKENS = Outcome.undefined("the reference has no words")
_NO_CONTEXTS = Outcome.undefined("no contexts")

Tokens = Mapping[str, int]
"""How often each token stands in a text."""


def metrics(options: MetricOptions) -> list[Metric]:
    compat = options.overlap_compat
    declare = partial(
        Metric,
        version=COMPAT_VERSION if compat else VERSION,
        score=_compat_score if compat else _own_score,
        unanswerable="undefined",
        source="unitxt 1.26.10, as ai4rag uses it (seed 001)" if compat else "seed 001",
    )
    tokens = "Tokens are SQuAD's. A token found n times in one text and m times in the other counts min(n, m) times"
    marks = "Citation marks such as [1] count as words of the answer (overlap.support ignores them)."
    documents = "Documents are those of the first k chunks, in the order retrieved, with one entry per chunk. "
    evidence = "No correct document known, or the corpus has none of them: undefined."
    return [
        declare(
            id="overlap.faithfulness",
            version=COMPAT_VERSION if compat else FAITHFULNESS_VERSION,
            of_claims=not compat,
            needs=frozenset({"answer", "contexts"}),
            unanswerable="if_answered",
            description=(
                "Share of the answer's tokens that the best single context has."
                if compat
                else "Share of the answer's tokens that are in the joined contexts."
            ),
            edge_cases=(
                f"{tokens}. {marks} An answer without tokens: 0. No contexts: undefined, where unitxt fails."
                if compat
                else f"{tokens}, so repeating a word of the contexts gains nothing. {marks} An answer without tokens: "
                "undefined. A decline: undefined. No contexts: 0."
            ),
        ),
        declare(
            id="overlap.answer_correctness",
            needs=frozenset({"answer", "reference"}),
            description="Share of the reference's tokens that are in the answer.",
            edge_cases=(
                f"{tokens}. Of several references, the best counts. An answer without tokens: 0. "
                + ("A reference without tokens: 0." if compat else "No reference with tokens: undefined.")
            ),
        ),
        declare(
            id="overlap.context_correctness",
            needs=frozenset({"hits", "evidence"}),
            description=(
                "1 / rank of the first correct document, 0 if there is none."
                if compat
                else "Share of the correct documents that were retrieved."
            ),
            edge_cases=(
                f"{documents}Nothing retrieved: 0. {evidence}"
                if compat
                else f"Documents are those of the first k chunks; each counts once. Nothing retrieved: 0. {evidence}"
            ),
        ),
        declare(
            id="overlap.context_mrr",
            version=VERSION,
            needs=frozenset({"hits", "evidence"}),
            description="1 / rank of the first correct document, or 0 if there is none, as unitxt computes it.",
            edge_cases=f"{documents}retrieval.document_mrr ranks each document once. Nothing retrieved: 0. {evidence}",
            source="unitxt 1.26.10, as ai4rag uses it (seed 001)",
        ),
        declare(
            id="overlap.support",
            version=SUPPORT_VERSION,
            of_claims=True,
            needs=frozenset({"answer", "contexts"}),
            unanswerable="if_answered",
            description="How far the contexts support the answer: the weighted share of its words that are in the "
            "contexts. Stop words weigh .3, names and numbers 2, other words 1. A word loses an eighth of its weight "
            "for each neighbour that is in the contexts, but not near the word in the same order. Each number or "
            "negation that no context has, and each word whose opposite is in the contexts (popular, unpopular), "
            "halves the score of its sentence.",
            edge_cases="An answer without words, or a decline: undefined. No contexts: 0. Citations and list numbers "
            "do not count. Adding a context lowers the score only if that context has the opposite of a word in the "
            "answer.",
            source="own",
        ),
    ]


def _family_score(compat: bool) -> Score:
    def tokens_of(text: str) -> Tokens:
        return Counter(plain_squad_tokens(text) if compat else squad_tokens(normalised(text)))

    def score(results: Sequence[Result], _tools: Tools) -> Rows:
        kept = lru_cache(maxsize=_CACHED_TEXTS)(tokens_of)

        def counted(text: str) -> Tokens:
            return kept(text) if len(text) <= _CACHED_LENGTH else tokens_of(text)

        return [_outcomes(result, counted, compat) for result in results]

    return score


def _outcomes(result: Result, tokens_of: Callable[[str], Tokens], compat: bool) -> dict[str, Outcome]:
    row: dict[str, Outcome] = {}
    if result.answer is not None:
        answer = tokens_of(result.answer.text)
        contexts = map(tokens_of, result.contexts)
        references = map(tokens_of, result.item.answers)
        if compat:
            row["faithfulness"] = best_of((_share(answer, context) for context in contexts), _NO_CONTEXTS)
            row["answer_correctness"] = best_of((_share(text, answer) for text in references), _NO_REFERENCE_TOKENS)
        else:
            row["faithfulness"] = _NO_ANSWER_TOKENS
            if answer:
                row["faithfulness"] = scored(_common(answer, contexts) / sum(answer.values()))
            shares = (_share(text, answer) for text in references if text)
            row["answer_correctness"] = best_of(shares, _NO_REFERENCE_TOKENS)
        value = support(result.answer.text, result.contexts)
        row["support"] = _NO_ANSWER_TOKENS if value is None else scored(value)
    documents = [hit.document_id for hit in sorted(result.hits, key=lambda hit: hit.rank)[: result.k]]
    correct = result.relevant_documents
    row["context_mrr"] = row["context_correctness"] = NO_EVIDENCE
    if correct:
        first = next((rank for rank, document in enumerate(documents, start=1) if document in correct), math.inf)
        row["context_mrr"] = scored(1 / first)
        share = len(correct.intersection(documents)) / len(correct)
        row["context_correctness"] = row["context_mrr"] if compat else scored(share)
    return row


def _share(part: Tokens, whole: Tokens) -> float:
    """The share of the one text's tokens that the other has; 0 where it has no tokens."""
    return _common(part, (whole,)) / max(sum(part.values()), 1)


def _common(tokens: Tokens, texts: Iterable[Tokens]) -> int:
    """How many of the tokens stand in the texts, taken together."""
    found: Counter[str] = Counter()
    for text in texts:
        fewer, more = (tokens, text) if len(tokens) < len(text) else (text, tokens)
        for token in fewer:
            if token in more:
                found[token] += text[token]
    return sum(min(count, tokens[token]) for token, count in found.items())


_own_score = _family_score(compat=False)
_compat_score = _family_score(compat=True)
