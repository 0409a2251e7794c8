"""Validating a benchmark: rejecting pairs that break a rule, then confirming with Great Expectations what is left."""

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rageval_dagster.benchmark.duplicates import find_near_duplicates
from rageval_dagster.benchmark.rules import (
    RULES,
    DatasetKind,
    Pair,
    Rule,
    RuleResult,
    Value,
    benchmark_values,
    broken_rules,
    measure,
    question_key,
)
from rageval_dagster.errors import UnvalidatedBenchmarkError
from rageval_dagster.records import Candidate, Item
from rageval_dagster.text import normalise_whitespace

if TYPE_CHECKING:
    from rageval_dagster.embedding.models import Embedder
    from rageval_dagster.storage.benchmark import Dataset

_PAIR_RULES = tuple(rule for rule in RULES if rule.scope == "pair")
_BENCHMARK_RULES = tuple(rule for rule in RULES if rule.scope == "benchmark")
_ID = "pair_id"


@dataclass(frozen=True)
class ValidationReport:
    """What validation made of a benchmark.

    `items` are the items that make up the dataset, in the order given. Of a generated benchmark `accepted` are their
    candidates and `rejected` the others that were judged, with reasons (rule id, and in brackets what was found); of
    an imported one nothing is rejected, and `flagged` names for each offender (item id) the rules that it breaks.
    """

    items: list[Item]
    rule_results: list[RuleResult]
    accepted: list[Candidate]
    rejected: list[Candidate]
    flagged: dict[str, tuple[str, ...]]

    @property
    def valid(self) -> bool:
        """Whether the benchmark may be evaluated: no blocking rule is broken."""
        return not any(result.blocking and not result.success for result in self.rule_results)

    @property
    def rule_failures(self) -> dict[str, int]:
        """The rules that the benchmark breaks, blocking or not, with the number of offenders (at least 1)."""
        return {result.rule_id: max(1, len(result.failed_ids)) for result in self.rule_results if not result.success}

    @property
    def rejections(self) -> dict[str, int]:
        """How many candidates each rule kept out; one candidate may break several."""
        return {result.rule_id: len(result.rejected_ids) for result in self.rule_results if result.rejected_ids}


def validate(
    candidates: Sequence[Candidate],
    chunk_texts: Mapping[str, str],
    embedder: "Embedder | None" = None,
    staying: Collection[str] = (),
    verified: Sequence[Item] = (),
    refused: Sequence[Item] = (),
) -> ValidationReport:
    """Judges generated pairs: those that break a rule are rejected, the others confirmed by Great Expectations.

    How they were judged before does not matter, but for those that stay. Of questions that repeat each other the first
    one stays. Failed and retired candidates are left alone.

    Args:
        chunk_texts: texts by chunk key. A pair whose chunk is missing is rejected; the quotes of a multi-hop pair from
            other documents are looked for in all of them.
        embedder: finds near-duplicate questions by meaning; without one they are found by their words.
        staying: ids of candidates that were accepted before and whose quotes still stand; they need no chunk.
        verified: items that a person has verified: they come first, and no rule is held against them.
        refused: items that a person refused. Their questions are not asked again, nor are those of verified ones.
    """
    judged = [candidate for candidate in candidates if candidate.item and candidate.status not in ("failed", "retired")]
    corpus_texts = [normalise_whitespace(text) for text in chunk_texts.values()]
    pairs = [
        Pair(id, each.item, "generated", chunk_texts.get(each.chunk_key), corpus_texts, stays=id in staying)
        for each in judged
        if each.item and (id := each.candidate_id)
    ]
    columns = {pair.id: measure(pair) for pair in pairs}
    reasons = {pair.id: broken_rules(columns[pair.id]) for pair in pairs}
    # A question counts as repeated only where the other pair stays: so the rest is judged before.
    asked_before = [Pair(item.item_id, item, "generated") for item in (*verified, *refused)]
    asked_columns: dict[str, dict[str, Value]] = {
        pair.id: {"question_unique": question_key(pair.item)} for pair in asked_before
    }
    _add_repetitions(
        [*asked_before, *(pair for pair in pairs if not reasons[pair.id])],
        asked_columns | columns,
        {pair.id: {} for pair in asked_before} | reasons,
        embedder,
    )
    accepted: list[Candidate] = []
    rejected: list[Candidate] = []
    for candidate in judged:
        if broken := tuple(reasons[candidate.candidate_id].values()):
            rejected.append(replace(candidate, status="rejected", reasons=broken))
        else:
            accepted.append(replace(candidate, status="accepted", reasons=()))
    items = [*verified, *(candidate.item for candidate in accepted if candidate.item)]
    offenders = _expect({each.candidate_id: columns[each.candidate_id] for each in accepted}, _PAIR_RULES)
    kept_out = {rule.id: tuple(pair for pair in reasons if rule.id in reasons[pair]) for rule in _PAIR_RULES}
    results = _pair_results("generated", list(columns.values()), offenders, kept_out)
    results += _benchmark_results("generated", items, len(rejected))
    return ValidationReport(items, results, accepted, rejected, flagged={})


def validate_items(items: Sequence[Item]) -> ValidationReport:
    """Judges an imported benchmark: nothing is dropped, whatever breaks a rule is flagged.

    Rules about the source look at the quotes where there are any; rules about generation are not applied.
    """
    pairs = [Pair(item.item_id, item, "imported") for item in items]
    columns = {pair.id: measure(pair) for pair in pairs}
    _add_repetitions(pairs, columns, {pair.id: {} for pair in pairs}, None)
    offenders = _expect(columns, _PAIR_RULES)
    results = _pair_results("imported", list(columns.values()), offenders, kept_out={})
    results += _benchmark_results("imported", items, rejected=0)
    flagged = {pair.id: tuple(result.rule_id for result in results if pair.id in result.failed_ids) for pair in pairs}
    flagged = {pair: rules for pair, rules in flagged.items() if rules}
    return ValidationReport(list(items), results, accepted=[], rejected=[], flagged=flagged)


def require_valid(dataset: "Dataset") -> None:
    """Refuses a dataset that failed a blocking rule when it was validated.

    Raises:
        UnvalidatedBenchmarkError: naming the dataset and the rules.
    """
    if dataset.valid:
        return
    kind: DatasetKind = "imported" if dataset.kind == "imported" else "generated"
    blocking = [rule.id for rule in RULES if rule.blocks(kind) and rule.id in dataset.rule_failures]
    failures = ", ".join(f"{rule} ({dataset.rule_failures[rule]})" for rule in blocking) or "a blocking rule"
    remedy = "generate a new one (rageval datasets generate)" if kind == "generated" else "import a corrected one"
    raise UnvalidatedBenchmarkError(f"dataset {dataset.id} cannot be evaluated: it failed {failures}; {remedy}")


def _add_repetitions(
    pairs: Sequence[Pair],
    columns: Mapping[str, dict[str, Value]],
    reasons: Mapping[str, dict[str, str]],
    embedder: "Embedder | None",
) -> None:
    """Fills in what needs the other pairs: exact and near repetitions of a pair earlier in the sequence."""
    first_with: dict[Value, str] = {}
    distinct: list[Pair] = []
    for pair in pairs:
        columns[pair.id]["question_no_near_duplicate"] = None
        key = columns[pair.id]["question_unique"]
        first = first_with.setdefault(key, pair.id)
        if first == pair.id:
            distinct.append(pair)
        elif key is not None:
            reasons[pair.id]["question_unique"] = f"question_unique (repeats {first})"
    # Questions with a history are told apart by it, which their words alone do not show.
    comparable = [pair for pair in distinct if pair.item.question.strip() and not pair.item.history]
    similar = find_near_duplicates([pair.item.question for pair in comparable], embedder)
    for pair, earlier in zip(comparable, similar, strict=True):
        if earlier is not None:
            columns[pair.id]["question_no_near_duplicate"] = comparable[earlier].id
            reasons[pair.id]["question_no_near_duplicate"] = f"question_no_near_duplicate (of {comparable[earlier].id})"


def _pair_results(
    kind: DatasetKind,
    rows: Sequence[Mapping[str, Value]],
    offenders: Mapping[str, tuple[str, ...]],
    kept_out: Mapping[str, tuple[str, ...]],
) -> list[RuleResult]:
    return [
        RuleResult(
            rule.id,
            success=not offenders[rule.id],
            blocking=rule.blocks(kind),
            checked=sum(rule.applies(row) for row in rows),
            failed_ids=offenders[rule.id],
            rejected_ids=kept_out.get(rule.id, ()),
        )
        for rule in _PAIR_RULES
    ]


def _benchmark_results(kind: DatasetKind, items: Sequence[Item], rejected: int) -> list[RuleResult]:
    values = benchmark_values(items, rejected, kind)
    offenders = _expect({"benchmark": values}, _BENCHMARK_RULES)
    return [
        RuleResult(
            rule.id,
            success=not offenders[rule.id],
            blocking=rule.blocks(kind),
            checked=len(items) + rejected,
            failed_ids=tuple(named.split(","))
            if offenders[rule.id] and isinstance(named := values[rule.id], str)
            else (),
        )
        for rule in _BENCHMARK_RULES
    ]


def _expect(rows: Mapping[str, Mapping[str, Value]], rules: Sequence[Rule]) -> dict[str, tuple[str, ...]]:
    """Has Great Expectations check each rule on its column, and returns the ids of the rows that break it.

    The frame holds ids, counts, shares and hashes, never a text: nothing of a document can end up in what Great
    Expectations logs or raises.
    """
    # Read when the library is imported: nothing calls home.
    os.environ["GX_ANALYTICS_ENABLED"] = "False"
    import great_expectations as gx
    import great_expectations.expectations as gxe
    import pandas as pd
    from great_expectations.data_context.types.base import ProgressBarsConfig

    ids = list(rows)
    frame = pd.DataFrame({_ID: pd.Series(ids, dtype=object)})
    for rule in rules:
        kind = "float64" if rule.expectation.endswith("Between") else object
        frame[rule.id] = pd.Series([rows[row][rule.id] for row in ids], dtype=kind)
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    asset = context.data_sources.add_pandas("benchmark").add_dataframe_asset("pairs")
    batch = asset.add_batch_definition_whole_dataframe("all").get_batch({"dataframe": frame})
    suite = gx.ExpectationSuite(
        name="rules",
        expectations=[
            getattr(gxe, rule.expectation)(column=rule.id, meta={"rule": rule.id}, **rule.arguments) for rule in rules
        ],
    )
    outcome = batch.validate(suite, result_format={"result_format": "COMPLETE", "unexpected_index_column_names": [_ID]})
    offenders: dict[str, tuple[str, ...]] = {}
    for result in outcome.results:
        configuration = result.expectation_config
        rule_id = configuration.meta["rule"] if configuration and configuration.meta else "without a name"
        listed = result.result.get("unexpected_index_list")
        if listed is None and not result.success:
            raise RuntimeError(f"Great Expectations could not check the rule {rule_id}")
        offenders[rule_id] = tuple(entry[_ID] for entry in listed or ())
    return offenders
