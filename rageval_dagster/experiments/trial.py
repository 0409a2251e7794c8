"""A trial: some questions under one configuration, asked and scored by the code that runs use, and kept by content."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Any

from rageval_dagster.corpus.evidence import Resolution, names_pages, resolve
from rageval_dagster.corpus.store import ChromaStore, open_store
from rageval_dagster.errors import (
    BudgetReachedError,
    DatabaseError,
    LanguageModelError,
    RagevalError,
    SettingsError,
    StoreError,
)
from rageval_dagster.evaluation.asking import Asked, ask_once
from rageval_dagster.evaluation.request import MINIMUM_DEPTH
from rageval_dagster.evaluation.scoring import metric_embedder, tools_of
from rageval_dagster.experiments.copies import (
    Cut,
    copy_embedder,
    cut_of,
    open_copy,
)
from rageval_dagster.experiments.definition import (
    Configuration,
    Definition,
    built_in_retriever,
    definition_of,
    settings_of,
)
from rageval_dagster.identity import digest_json
from rageval_dagster.llm.budgets import cost_of
from rageval_dagster.metrics.assessment import assess_answer
from rageval_dagster.metrics.interface import Metric, Tools
from rageval_dagster.metrics.registry import chosen_metrics, compute_scores, generic_id, options_of
from rageval_dagster.rag.retrievers import Bm25Retriever, DenseRetriever, FusedRetriever, Retriever, dense_weights
from rageval_dagster.rag.system import RagSystem
from rageval_dagster.rag.systems import load_system, reranked
from rageval_dagster.records import Item, Result
from rageval_dagster.settings import Settings
from rageval_dagster.storage.benchmark import dataset_items
from rageval_dagster.storage.caches import model_usage
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.experiments import (
    Experiment,
    QuestionResult,
    end_experiment,
    load_results,
    save_results,
    spent_usd,
    while_known,
)

SHOWN = (
    *("overlap.faithfulness", "overlap.answer_correctness", "overlap.context_correctness"),
    *("retrieval.hit_rate_at_k", "retrieval.mrr"),
)
"""Metrics that every result has beside those that the definition names: they cost nothing."""


@dataclass(frozen=True)
class Setup:
    """What a configuration means: a system, the settings that it runs with, how many chunks it sees, and where."""

    system: str
    settings: Settings
    k: int
    cut: Cut | None


def setup_of(definition: Definition, settings: Settings, configuration: Configuration) -> Setup:
    """The client's `settings` with a configuration's values in place of its own.

    Raises:
        SettingsError: a model has no price, and cost is limited.
    """
    k = int(configuration.get("number_of_chunks", settings.k))
    update: dict[str, Any] = {"k": k, "llm_max_cost_usd": cost_limit(definition, settings)}
    if definition.system:
        own = settings.systems[definition.system]
        params = {name: value for name, value in configuration.items() if name != "number_of_chunks"}
        varied = own.model_copy(update={"params": {**getattr(own, "params", {}), **params}})
        update["systems"] = {**settings.systems, definition.system: varied}
    else:
        same = ("embedding_model", "dense_share", "reranker", "answer_model")
        names = {name: name for name in same} | {"prompt": "prompts"}
        update |= {setting: configuration[name] for name, setting in names.items() if name in configuration}
    system = definition.system or str(configuration.get("retriever", built_in_retriever(settings)))
    cut = None if definition.system else cut_of(definition, settings, configuration)
    return Setup(system, settings.model_copy(update=update).bound(settings.source), k, cut)


def cost_limit(definition: Definition, settings: Settings) -> float | None:
    """What an experiment's models may cost, in US dollars: as defined, and no more than any run of the client."""
    limits = (definition.budget.cost_usd, settings.llm_max_cost_usd)
    return min((limit for limit in limits if limit is not None), default=None)


def budget_spent(limit: float, spent: float) -> str:
    """Why an experiment ended."""
    return f"its budget of {limit:g} USD is spent ({spent:.4f} USD)"


def configuration_key(configuration: Configuration) -> str:
    """What a configuration's results are stored under."""
    return digest_json(dict(configuration))


def metrics_wanted(definition: Definition, objective: str) -> list[str]:
    """The ids of the metrics that a result has: `_at_k` stands for a configuration's own number of chunks."""
    return list(dict.fromkeys([objective, *definition.require, *SHOWN]))


def experiment_items(db: Database, dataset_ids: Sequence[int]) -> dict[str, Item]:
    """The questions of datasets by their ids, each once."""
    return {item.item_id: item for dataset_id in dataset_ids for item in dataset_items(db, dataset_id)}


@dataclass
class Laboratory:
    """What the trials of one experiment share in a process: stores, retrievers, evidence, metrics."""

    db: Database
    settings: Settings
    experiment: Experiment
    definition: Definition
    _retrievers: dict[tuple[object, ...], Retriever] = field(default_factory=dict)
    _corpora: dict[Cut | None, "_Corpus"] = field(default_factory=dict)

    @cached_property
    def items(self) -> dict[str, Item]:
        return experiment_items(self.db, self.experiment.dataset_ids)

    @cached_property
    def tools(self) -> Tools:
        run_id = self.experiment.run_id
        return tools_of(self._limited(self.settings, run_id), self.db, self.experiment.client_id, run_id)

    def _limited(self, settings: Settings, run_id: str) -> Settings:
        """The settings with what is left of the experiment's budget as the limit of what is recorded under `run_id`.

        Raises:
            BudgetReachedError: nothing is left.
        """
        limit = cost_limit(self.definition, self.settings)
        if limit is None:
            return settings
        spent = spent_usd(self.db, self.experiment)
        if spent >= limit:
            raise BudgetReachedError(budget_spent(limit, spent))
        own = model_usage(self.db, self.experiment.client_id, run_id).cost_usd
        return settings.model_copy(update={"llm_max_cost_usd": own + limit - spent})

    def run(self, configuration: Configuration, item_ids: Sequence[str]) -> list[QuestionResult]:
        """Asks those of the questions that have no result yet under the configuration, scores and keeps them.

        A configuration that cannot be set up, or whose system fails as a whole, fails on each of them.

        Raises:
            BudgetReachedError: what models may cost is spent.
            LanguageModelError: the judge's endpoint refuses, or cannot be reached.
            StoreError: the document store does not answer.
        """
        key = configuration_key(configuration)
        known = load_results(self.db, self.experiment.number)
        missing = [self.items[item_id] for item_id in item_ids if (key, item_id) not in known]
        if not missing:
            return []
        run_id = self.experiment.answers_run_id(key)
        try:
            setup = setup_of(self.definition, self.settings, configuration)
            setup = replace(setup, settings=self._limited(setup.settings, run_id))
            corpus = self._corpus(setup.cut)
            system = self._load(setup, corpus, run_id)
            asked = self._ask(setup, corpus, system, missing)
        except (BudgetReachedError, DatabaseError, StoreError):
            raise
        except RagevalError as error:
            results = [_failed(key, item, str(error)) for item in missing]
        else:
            results = self._scored(key, setup, missing, asked)
        save_results(self.db, self.experiment, results)
        return results

    def _ask(self, setup: Setup, corpus: "_Corpus", system: RagSystem, items: Sequence[Item]) -> list[Asked]:
        depth = max(setup.k, MINIMUM_DEPTH)
        client_id = self.experiment.client_id
        if system.answers_at_once:
            system.declared_version(items[0], depth)
        db = corpus.db if system.reference else self.db
        return ask_once(db, corpus.store, system, client_id, items, setup.k, depth, corpus.resolutions)

    def _scored(self, key: str, setup: Setup, items: Sequence[Item], asked: Sequence[Asked]) -> list[QuestionResult]:
        results = [each.result for each in asked]
        by_metric = score_results(self.definition, self.settings, self.experiment.objective, results, self.tools)
        return [
            QuestionResult(
                configuration_key=key,
                item_id=item.item_id,
                score=by_metric[self.experiment.objective][row],
                scores={name: values[row] for name, values in by_metric.items()},
                error=each.result.error,
                leaked="foreign" in (each.result.answer_owner, *(hit.owner for hit in each.result.hits)),
                latency_s=each.latency_s,
                cost_usd=_cost(setup, self.definition, each.tokens),
                tokens=None if each.tokens is None else sum(each.tokens),
            )
            for row, (item, each) in enumerate(zip(items, asked, strict=True))
        ]

    def _corpus(self, cut: Cut | None) -> "_Corpus":
        if cut not in self._corpora:
            if cut is None:
                store, db = open_store(self.settings), self.db
            else:
                store, db = open_copy(self.settings, self.experiment, cut)
            items = list(self.items.values())
            resolutions = resolve(items, db, store, self.experiment.client_id, names_pages(items))
            self._corpora[cut] = _Corpus(store, db, resolutions)
        return self._corpora[cut]

    def _load(self, setup: Setup, corpus: "_Corpus", run_id: str) -> RagSystem:
        client_id = self.experiment.client_id
        retriever = None if self.definition.system else self._retriever(setup, corpus)
        return load_system(
            setup.system, setup.settings, self.db, corpus.store, client_id, assess_answer, run_id, retriever
        )

    def _retriever(self, setup: Setup, corpus: "_Corpus") -> Retriever:
        """Made once for all configurations that retrieve alike: an index in memory takes a while."""
        model, client_id = setup.settings.embedding_model, self.experiment.client_id

        def made(name: str) -> Retriever:
            share = setup.settings.dense_share
            key = (name, setup.cut, *({"bm25": (), "dense": (model,)}.get(name, (model, share))))
            if key not in self._retrievers:
                if name == "hybrid":
                    found: Retriever = FusedRetriever([made("dense"), made("bm25")], dense_weights(share))
                elif name == "bm25":
                    found = Bm25Retriever(corpus.store, client_id)
                else:
                    embedder = copy_embedder(self.settings, self.db, client_id, Cut(None, None, model))
                    found = DenseRetriever(corpus.store, client_id, embedder)
                self._warm_up(found)
                self._retrievers[key] = found
            return self._retrievers[key]

        found = made(setup.system)
        if setup.settings.reranker:
            found = reranked(found, setup.settings)
            self._warm_up(found)
        return found

    def _warm_up(self, retriever: Retriever) -> None:
        """What it does at the first question only is nobody's latency."""
        retriever.search([next(iter(self.items.values())).question], 1)


@dataclass(frozen=True)
class _Corpus:
    store: ChromaStore
    db: Database
    resolutions: Mapping[str, Resolution]


def score_results(
    definition: Definition, settings: Settings, objective: str, results: Sequence[Result], tools: Tools
) -> dict[str, list[float | None]]:
    """{metric id as wanted: a value a result}; None where there is none, for whatever reason."""
    found: dict[str, list[float | None]] = {}
    by_cutoff: dict[int, list[str]] = {}
    own_k = results[0].k
    for metric_id in metrics_wanted(definition, objective):
        by_cutoff.setdefault(cutoff_of(metric_id) or own_k, []).append(metric_id)
    for cutoff, wanted in by_cutoff.items():
        here = [_at(result, cutoff) for result in results]
        metrics = [metric_of(settings, metric_id, cutoff, tools) for metric_id in wanted]
        outcomes = compute_scores(metrics, here, tools)
        for metric_id, metric in zip(wanted, metrics, strict=True):
            found[metric_id] = [outcome.value for outcome in outcomes[metric.id]]
    return found


def _at(result: Result, cutoff: int) -> Result:
    return result if result.k == cutoff else replace(result, k=cutoff)


def cutoff_of(metric_id: str) -> int | None:
    """The cutoff that an id names; None where it names none, or `k`."""
    _, at, number = metric_id.rpartition("_at_")
    return int(number) if at and number.isdecimal() else None


def metric_of(settings: Settings, metric_id: str, cutoff: int, tools: Tools) -> Metric:
    """The metric of that id at a cutoff, whatever the setting `metrics` chooses.

    Raises:
        SettingsError: there is none, or it needs a judge model, and there is none.
    """
    options = options_of(settings, cutoff, tools.embedder)
    wanted = generic_id(metric_id, cutoff)
    found = chosen_metrics(settings, options, [wanted])
    metric = next((each for each in found if generic_id(each.id, cutoff) == wanted), None)
    if metric is None:
        raise SettingsError(f"{metric_id!r} is a pattern, not a metric: name one (rageval metrics list shows them)")
    if "judge" in metric.needs and options.judge_version is None:
        raise SettingsError(f"{metric_id} needs a judge model: set RAGEVAL_JUDGE_MODEL, or choose another metric")
    return metric


def metric_tools(settings: Settings, db: Database, client_id: str) -> Tools:
    """Tools by which metrics are declared, before anything is asked."""
    return Tools(metric_embedder(settings, db, client_id))


def can_be_scored(metric: Metric, item: Item) -> bool:
    """Whether the metric can have a value on the item, whatever a system makes of it."""
    lacks = {
        "reference": not any(text.strip() for text in item.answers),
        "checks": not item.checks,
        "evidence": not item.evidence,
    }
    answerable = item.answerable or metric.unanswerable == "scored"
    return answerable and not any(lacks.get(need, False) for need in metric.needs)


def _cost(setup: Setup, definition: Definition, tokens: tuple[int, int] | None) -> float | None:
    """What an answer costs without a cache; None where that is not known."""
    if setup.settings.answer_model is None or definition.system:
        return None if definition.system else 0.0
    return None if tokens is None else cost_of(setup.settings, setup.settings.answer_model, *tokens)


def _failed(key: str, item: Item, why: str) -> QuestionResult:
    return QuestionResult(key, item.item_id, None, {}, why, False, None, None, None)


def run_trial(
    db: Database, settings: Settings, experiment: Experiment, configuration: Configuration, item_ids: Sequence[str]
) -> dict[str, Any]:
    """One batch of an experiment, see `Laboratory.run`; a spent budget, or a judge that fails, ends the experiment.

    Returns:
        Counts and the mean score, for people.

    Raises:
        StoreError: the document store does not answer.
        RagevalError: the experiment was deleted meanwhile, as with its client.
    """
    if experiment.ended_at is not None:
        return {"ended": experiment.ended_why or "it is finished"}
    try:
        with while_known(db, experiment):
            results = _laboratory(db, settings, experiment).run(configuration, item_ids)
    except LanguageModelError as error:
        why = str(error)
        limit = cost_limit(definition_of(experiment), settings_of(db, settings, experiment))
        if limit is not None and (spent := spent_usd(db, experiment)) >= limit:
            why = budget_spent(limit, spent)
        end_experiment(db, experiment.number, why)
        return {"ended": why}
    scores = [result.score for result in results if result.score is not None]
    return {
        "questions": len(item_ids),
        "asked": len(results),
        "failed": sum(result.error is not None for result in results),
        "leaked": sum(result.leaked for result in results),
        experiment.objective: sum(scores) / len(scores) if scores else None,
    }


_KEPT: dict[tuple[Database, int, datetime], Laboratory] = {}


def forget_laboratory() -> None:
    """Drops what the last experiment of this process kept: texts of its client, and the settings."""
    _KEPT.clear()


def _laboratory(db: Database, settings: Settings, experiment: Experiment) -> Laboratory:
    """Kept for the next batch of the same experiment, since an index in memory takes a while to make."""
    key = (db, experiment.number, experiment.opened_at)
    if key not in _KEPT:
        _KEPT.clear()
        own, definition = settings_of(db, settings, experiment), definition_of(experiment)
        # Each configuration has its own; by any of them it is known whether this process may ask the hub.
        tried = [] if definition.system else definition.parameters.get("reranker", [])
        own = own.model_copy(update={"reranker": next(filter(None, tried), own.reranker)})
        _KEPT[key] = Laboratory(db, own, experiment, definition)
    return _KEPT[key]
