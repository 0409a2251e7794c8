"""The quality rules of a benchmark: what each says, and the value of a question-answer pair that it looks at."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from rageval_dagster.benchmark.wording import (
    CLEAN,
    content_tokens,
    english_rules_hold,
    has_dangling_pronoun,
    is_yes_no,
    noise_kind,
    offers,
    refers_to_source,
    tokens,
    word_count,
)
from rageval_dagster.identity import canonical_json, digest
from rageval_dagster.languages import detect
from rageval_dagster.records import Item
from rageval_dagster.text import normalise_whitespace, plural

CATEGORIES = ("factual_lookup", "multi_hop", "entity_specific", "temporal")
"""The categories of seed 004; an imported dataset may bring its own."""

DatasetKind = Literal["generated", "imported"]
Value = str | float | bool | None


# Expectations of Great Expectations, by name.
_PRESENT = "ExpectColumnValuesToNotBeNull"
_ABSENT = "ExpectColumnValuesToBeNull"
_UNIQUE = "ExpectColumnValuesToBeUnique"
_IN_SET = "ExpectColumnValuesToBeInSet"
_BETWEEN = "ExpectColumnValuesToBeBetween"


@dataclass(frozen=True)
class Rule:
    """One rule: the Great Expectations expectation that the values have to meet which `measure` has under its id.

    `scope` is `pair` (one value for each pair) or `benchmark` (one for all). Whatever breaks a pair rule never gets
    into a generated benchmark; an imported one loses nothing, its offenders are flagged. `blocking` says that a
    generated benchmark that breaks the rule all the same may not be evaluated, `blocks_imported` the same of imported
    ones; breaking another rule is a warning. A value of None means that the rule cannot be applied, and meets every
    expectation but `ExpectColumnValuesToNotBeNull`.
    """

    id: str
    description: str
    expectation: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    scope: Literal["pair", "benchmark"] = "pair"
    blocking: bool = True
    blocks_imported: bool = False

    def blocks(self, kind: DatasetKind) -> bool:
        return self.blocking if kind == "generated" else self.blocks_imported

    def applies(self, values: Mapping[str, Value]) -> bool:
        """Whether there is anything to check in a row of values."""
        return self.expectation.endswith("Null") or values[self.id] is not None

    def holds(self, value: Value) -> bool:
        """Whether one value meets the expectation (uniqueness is a matter of several values, see `validation`)."""
        if self.expectation == _PRESENT:
            return value is not None
        if self.expectation == _ABSENT:
            return value is None
        if value is None or self.expectation == _UNIQUE:
            return True
        if self.expectation == _IN_SET:
            return value in self.arguments["value_set"]
        number = float(value)
        return self.arguments.get("min_value", number) <= number <= self.arguments.get("max_value", number)


@dataclass(frozen=True)
class RuleResult:
    """What came of one rule.

    `failed_ids` are the pairs of the benchmark that break it (for a benchmark rule: what is amiss, where it can be
    named), `rejected_ids` the candidates that it kept out. `checked` counts the pairs it could be applied to, kept out
    or not, `share` is the share of them that broke it (0 to 1).
    """

    rule_id: str
    success: bool
    blocking: bool
    checked: int
    failed_ids: tuple[str, ...] = ()
    rejected_ids: tuple[str, ...] = ()

    @property
    def share(self) -> float:
        return (len(self.failed_ids) + len(self.rejected_ids)) / self.checked if self.checked else 0.0

    @property
    def sentence(self) -> str:
        """What came of it, for a person: how many questions break it, and how many it kept out."""
        if _SCOPES[self.rule_id] == "benchmark":
            amiss = f": {', '.join(self.failed_ids)}" if self.failed_ids else ""
            return "It holds." if self.success else f"It does not hold{amiss}."
        if not self.checked:
            return "No question was checked in this run."
        asked = plural(self.checked, "question")
        if not self.failed_ids and not self.rejected_ids:
            return f"All {asked} follow this rule."
        said = [f"{len(self.failed_ids)} of {asked} in the benchmark break this rule."] if self.failed_ids else []
        said += [f"{len(self.rejected_ids)} of {asked} broke it and were kept out."] if self.rejected_ids else []
        return " ".join(said)

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> "RuleResult":
        """The inverse of `asdict`, of a row that was stored as JSON."""
        ids = {name: tuple(row.get(name, ())) for name in ("failed_ids", "rejected_ids")}
        return cls(**{**row, **ids})


def merged(results: Iterable[RuleResult]) -> list[RuleResult]:
    """What came of each rule for several benchmarks together."""
    found: dict[str, RuleResult] = {}
    for each in results:
        other = found.get(each.rule_id, RuleResult(each.rule_id, success=True, blocking=False, checked=0))
        found[each.rule_id] = RuleResult(
            each.rule_id,
            success=each.success and other.success,
            blocking=each.blocking or other.blocking,
            checked=each.checked + other.checked,
            failed_ids=(*other.failed_ids, *each.failed_ids),
            rejected_ids=(*other.rejected_ids, *each.rejected_ids),
        )
    return list(found.values())


_TRUE = {"value_set": [True]}

GROUNDED = 0.7
"""The share of an answer's words that has to be known."""

RULES: tuple[Rule, ...] = (
    Rule("question_present", "Every pair has a question.", _PRESENT, blocks_imported=True),
    Rule("question_unique", "No question is asked twice (case and punctuation aside).", _UNIQUE),
    Rule(
        "question_length",
        "A question has 3 to 60 words (five characters of Chinese, Japanese, Korean or Thai count as three).",
        _BETWEEN,
        {"min_value": 3, "max_value": 60},
    ),
    Rule("question_not_yes_no", "No question can be answered with yes or no.", _IN_SET, _TRUE),
    Rule(
        "question_self_contained",
        'A question can be understood without the passage: no "the text above", no pronoun without a noun.',
        _IN_SET,
        {"value_set": ["none"]},
    ),
    Rule(
        "question_not_copied",
        "A question does not copy its chunk, except lines there that ask it: the longest run of the chunk's words "
        "is at most 75 % of it.",
        _BETWEEN,
        {"max_value": 0.75},
    ),
    Rule(
        "question_keeps_answer",
        'A question does not give its answer away, unless among alternatives that it offers ("A or B").',
        _IN_SET,
        _TRUE,
    ),
    Rule("question_no_near_duplicate", "No question nearly repeats another (by embedding, or by its words).", _ABSENT),
    Rule("answer_present", "Every generated pair that is meant to be answerable has an answer.", _IN_SET, _TRUE),
    Rule("answer_length", "An answer has at most 100 words (counted as a question's).", _BETWEEN, {"max_value": 100}),
    Rule(
        "answer_grounded",
        "At least 70 % of an answer's words, and all its numbers, are in the chunk or quote that it comes from.",
        _BETWEEN,
        {"min_value": GROUNDED},
    ),
    Rule(
        "evidence_in_chunk",
        "Every generated pair that is meant to be answerable quotes its evidence word for word from its chunk.",
        _IN_SET,
        _TRUE,
    ),
    Rule(
        "category_known",
        f"The category of a generated pair is one of {', '.join(CATEGORIES)}.",
        _IN_SET,
        {"value_set": list(CATEGORIES)},
    ),
    Rule("multi_hop_evidence", "A multi_hop pair has evidence in two documents.", _BETWEEN, {"min_value": 2}),
    Rule(
        "no_noise",
        "Question, answer and source are text: no boilerplate, licence, table of contents or extraction noise.",
        _IN_SET,
        {"value_set": [CLEAN]},
    ),
    Rule(
        "benchmark_not_empty",
        "At least one pair is in the benchmark.",
        _BETWEEN,
        {"min_value": 1},
        scope="benchmark",
        blocks_imported=True,
    ),
    Rule(
        "rejected_share",
        "At most half of the generated pairs were rejected.",
        _BETWEEN,
        {"max_value": 0.5},
        scope="benchmark",
        blocking=False,
    ),
    Rule(
        "categories_covered",
        "Every known category has a pair, where a model wrote the questions.",
        _ABSENT,
        scope="benchmark",
        blocking=False,
    ),
)

_SCOPES = {rule.id: rule.scope for rule in RULES}

_ASKED = ("?", "?¶", "？", "؟")
SHORTEST_COPY = 5
"""Runs of fewer words are names and phrases that nobody can say otherwise."""


@dataclass(frozen=True)
class Pair:
    """A question-answer pair as the rules see it.

    `chunk_text` is the text of the chunk that it was generated from, None where the chunk is not known (it is gone,
    or the pair was imported). `corpus_texts` are the other chunks' texts, white space normalised, where the quotes of
    a multi-hop pair may stand. A pair that `stays` was judged beside its chunk before and its quotes still stand: new
    cuts around them change nothing about it, so nothing about its source is judged again.
    """

    id: str
    item: Item
    kind: DatasetKind
    chunk_text: str | None = None
    corpus_texts: Sequence[str] = ()
    stays: bool = False


def measure(pair: Pair) -> dict[str, Value]:
    """The value of a pair that each pair rule looks at, by the rule's id, but those that need the other pairs."""
    item = pair.item
    quotes = [evidence.quote for evidence in item.evidence if evidence.quote]
    # The language of the pair's source tells it more surely than the question.
    language = detect(pair.chunk_text or "") or detect(" ".join(quotes)) or detect(item.question)
    question_tokens = tokens(item.question)
    answers = [answer for answer in item.answers if answer.strip()] if item.answerable else []
    sources = [] if pair.stays else [*quotes, *([] if pair.chunk_text is None else [pair.chunk_text])]
    source_tokens = [tokens(source) for source in sources]
    known = {token for source in source_tokens for token in source}
    generated, key = pair.kind == "generated", question_key(item)
    return {
        "question_present": key,
        "question_unique": key,
        "question_length": word_count(question_tokens),
        "question_not_yes_no": not is_yes_no(item.question, answers, language),
        "question_self_contained": _reference(item, language),
        "question_not_copied": _copied_share(question_tokens, map(tokens, map(_without_questions, sources)))
        if sources
        else None,
        "question_keeps_answer": not any(gives_away(item.question, answer, language) for answer in answers),
        "answer_present": bool(answers) if generated and item.answerable else None,
        "answer_length": max(word_count(tokens(answer)) for answer in answers) if answers else None,
        # Other wordings of a generated answer are grounded before they are taken.
        "answer_grounded": max(share_known(answer, known, language) for answer in answers[: 1 if generated else None])
        if answers and sources
        else None,
        "evidence_in_chunk": _evidence_stands(pair) if generated and item.answerable and not pair.stays else None,
        "category_known": item.category if generated else None,
        "multi_hop_evidence": len(item.document_ids) if item.category == "multi_hop" else None,
        "no_noise": _noise(item.question, answers, sources),
    }


def broken_rules(values: Mapping[str, Value]) -> dict[str, str]:
    """The pair rules that a pair breaks by itself, each with its reason: the rule's id, and what was found."""
    return {
        rule.id: f"{rule.id} ({f'{value:.2f}' if isinstance(value, float) else str(value).lower()})"
        for rule in RULES
        if rule.scope == "pair" and rule.id in values and not rule.holds(value := values[rule.id])
    }


def question_key(item: Item) -> str | None:
    """What two pairs with one question have in common; None without a question.

    A question asked after another conversation, or by somebody else, is another question.
    """
    if not item.question.strip():
        return None
    words = tokens(item.question) or [normalise_whitespace(item.question)]
    return digest(
        " ".join(words), canonical_json([dict(turn) for turn in item.history]), canonical_json(item.principal)
    )


def benchmark_values(accepted: Iterable[Item], rejected: int, kind: DatasetKind) -> dict[str, Value]:
    """The values that the benchmark rules look at."""
    items = list(accepted)
    judged = len(items) + rejected
    missing = [category for category in CATEGORIES if category not in {item.category for item in items}]
    # A generator by rule asks what it can: nobody could make it cover more.
    has_choice = kind == "generated" and any(item.origin == "llm" for item in items)
    return {
        "benchmark_not_empty": len(items),
        "rejected_share": rejected / judged if kind == "generated" and judged else None,
        "categories_covered": ",".join(missing) if has_choice and missing else None,
    }


def _reference(item: Item, language: str | None) -> str:
    if refers_to_source(item.question):
        return "source"
    # What was said before may tell what a pronoun stands for.
    if not item.history and english_rules_hold(language) and has_dangling_pronoun(item.question):
        return "pronoun"
    return "none"


def gives_away(question: str, answer: str, language: str | None) -> bool:
    """Whether the question contains the answer, other than as one of the alternatives that it offers."""
    said = tokens(answer)
    is_said = bool(said) and longest_common_run(tokens(question), said) == len(said)
    return is_said and not offers(question, answer, language)


def _without_questions(source: str) -> str:
    """The lines of a source but those that are a question, as the headings of a list of frequent ones are."""
    return "\n".join(line for line in source.split("\n") if not line.rstrip().endswith(_ASKED))


def _copied_share(question: Sequence[str], sources: Iterable[Sequence[str]]) -> float:
    longest = max((longest_common_run(question, source) for source in sources), default=0)
    return longest / len(question) if longest >= SHORTEST_COPY else 0.0


def longest_common_run(left: Sequence[str], right: Sequence[str]) -> int:
    """The number of tokens in the longest run that both sequences share."""
    places: dict[str, list[int]] = {}
    for place, token in enumerate(right):
        places.setdefault(token, []).append(place)
    longest = 0
    runs: dict[int, int] = {}
    for token in left:
        runs = {place: runs.get(place - 1, 0) + 1 for place in places.get(token, ())}
        longest = max(longest, *runs.values(), 0)
    return longest


def share_known(answer: str, known: set[str], language: str | None = None) -> float:
    """The share of an answer's content words that are known; 0 where one of its numbers is not."""
    words = content_tokens(answer, language)
    unknown = [word for word in words if word not in known]
    if not words or any(character.isdigit() for word in unknown for character in word):
        return 0.0
    return 1 - len(unknown) / len(words)


def _evidence_stands(pair: Pair) -> bool:
    """Whether all evidence has quotes, one of them from the pair's own chunk, the others at least from the corpus."""
    quotes = [normalise_whitespace(evidence.quote) for evidence in pair.item.evidence if evidence.quote]
    if pair.chunk_text is None or not quotes or len(quotes) != len(pair.item.evidence) or not all(quotes):
        return False
    own = normalise_whitespace(pair.chunk_text)
    elsewhere = [quote for quote in quotes if quote not in own]
    return len(elsewhere) < len(quotes) and all(any(quote in text for text in pair.corpus_texts) for quote in elsewhere)


def _noise(question: str, answers: Sequence[str], sources: Sequence[str]) -> str:
    """The first kind of noise found; of several answers one clean one is enough."""
    kinds = [noise_kind(question), *map(noise_kind, sources)]
    answer_kinds = [noise_kind(answer) for answer in answers]
    if answer_kinds and CLEAN not in answer_kinds:
        kinds.append(answer_kinds[0])
    return next((kind for kind in kinds if kind != CLEAN), CLEAN)
