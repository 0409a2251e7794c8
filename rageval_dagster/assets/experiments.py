"""Experiment assets: copies of a client's documents in other chunkings, and the trials of configurations."""

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import dagster as dg
from pydantic import Field

from rageval_dagster.assets.partitions import EXPERIMENTS_PARTITIONS, OWNERS
from rageval_dagster.assets.step import SCHEMA, SECONDS_BETWEEN_LINES
from rageval_dagster.corpus.names import partition_key
from rageval_dagster.errors import DatabaseError, RagevalError
from rageval_dagster.resources import HistoryDatabase
from rageval_dagster.resources.textless import without_texts
from rageval_dagster.settings import load_settings
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.experiments import Experiment, get_experiment
from rageval_dagster.storage.leases import beating, database_now
from rageval_dagster.storage.tables import experiment_results
from rageval_dagster.telling.links import ReportLinks

experiments_partitions = dg.DynamicPartitionsDefinition(name=EXPERIMENTS_PARTITIONS)

EXPERIMENT_TAG = "rageval/experiment"
"""The number of the experiment that a run is of."""

ALIVE_TAG = "rageval/alive"
"""When a run's process last said, by the history database's clock, that it works; after a kill nobody does."""

_SCHEMA = dg.TableSchema([dg.TableColumn(each.name, str(each.type)) for each in experiment_results.columns])


def experiment_key(client_id: str, number: int, configuration: int | None = None) -> str:
    """The partition of an experiment, `3:acme`, or of one of its configurations, `3.17:acme`, tried at once."""
    what = str(number) if configuration is None else f"{number}.{configuration}"
    return f"{what}:{partition_key(client_id)}"


def keys_of_client(keys: Iterable[str], client_id: str) -> list[str]:
    """Those of the partitions of experiments that are a client's."""
    return [key for key in keys if key.partition(":")[2] == partition_key(client_id)]


class Trials(dg.Config):
    """How a run works; what it asks, the history knows by its partition."""

    until: float = Field(default=0.0, description="A Unix time after which no further batch is started; 0: no limit.")


@dg.asset(
    group_name="experiments",
    kinds={"chroma"},
    owners=OWNERS,
    partitions_def=experiments_partitions,
)
@without_texts
def experiment_copies(
    context: dg.AssetExecutionContext, rageval_database: HistoryDatabase
) -> dg.MaterializeResult[Any]:
    """A client's documents as the configurations of an experiment cut and embed them; deleted with its end."""
    from rageval_dagster.experiments.opening import prepare

    db = rageval_database.open()
    experiment = _experiment(db, context.partition_key)

    def progress(done: int, total: int, what: str) -> None:
        context.log.info(f"copies: {done}/{total} {what}".rstrip())

    with _alive(context, db, experiment):
        return dg.MaterializeResult(metadata=_shown(prepare(db, load_settings(), experiment, progress)))


@dg.asset(
    group_name="experiments",
    kinds={"sql"},
    owners=OWNERS,
    partitions_def=experiments_partitions,
    deps=[experiment_copies],
    metadata={SCHEMA: _SCHEMA},
    pool="llm",
)
@without_texts
def experiment_trials(
    context: dg.AssetExecutionContext, config: Trials, rageval_database: HistoryDatabase
) -> dg.MaterializeResult[Any]:
    """What a configuration comes to on the questions that it is asked next, or all of an experiment: scores by ids."""
    from rageval_dagster.experiments.spaces import named, with_short_values
    from rageval_dagster.experiments.standing import batches_of
    from rageval_dagster.experiments.trial import run_trial
    from rageval_dagster.report.experiment import so_far

    db = rageval_database.open()
    experiment = _experiment(db, context.partition_key)
    settings = load_settings()
    told = time.monotonic()
    with _alive(context, db, experiment):
        batches = batches_of(db, experiment, _configuration(context.partition_key))
        total, asked = sum(len(batch.questions) for batch in batches), 0
        report: Mapping[str, Any] = {}
        for batch in batches:
            if config.until and time.time() >= config.until:
                break
            now = get_experiment(db, experiment.number)
            report = run_trial(db, settings, now, batch.configuration, batch.questions)
            asked += len(batch.questions)
            if time.monotonic() - told >= SECONDS_BETWEEN_LINES:
                told = time.monotonic()
                context.log.info(f"answers of this round: {asked}/{total}")
        told_of = _shown(report if len(batches) == 1 else {"asked": asked})
        if len(batches) == 1:
            told_of = {"configuration": named(with_short_values(batches[0].configuration)), **told_of}
        pictures = {name: dg.MetadataValue.md(text) for name, text in so_far(db, experiment.number).items()}
    return dg.MaterializeResult(metadata={**told_of, **report_link(experiment.number), **pictures})


@contextmanager
def _alive(context: dg.AssetExecutionContext, db: Database, experiment: Experiment) -> Iterator[None]:
    """Says for the length of a block that the run's process works; runs of experiments take no client's lease."""

    def say() -> bool:
        with suppress(DatabaseError, dg.DagsterError):  # it may answer again
            # One that was launched by hand has no tag of its experiment yet.
            tags = {EXPERIMENT_TAG: str(experiment.number), ALIVE_TAG: database_now(db).isoformat()}
            context.instance.add_run_tags(context.run.run_id, tags)
        return True

    say()
    with beating("experiment", say):
        yield


def _experiment(db: Database, key: str) -> Experiment:
    """The experiment that a partition is of; another client's of the same number is not meant."""
    number = key.partition(":")[0].partition(".")[0]
    experiment = get_experiment(db, int(number)) if number.isdecimal() else None
    if experiment is None or not keys_of_client([key], experiment.client_id):
        raise RagevalError(f"no experiment has the partition {key!r}")
    return experiment


def report_link(number: int) -> dict[str, Any]:
    """Where `rageval serve` shows the experiment, from its beginning on; nothing where no address is set."""
    url = ReportLinks(load_settings().report_base_url).experiment(number)
    return {} if url is None else {"report": dg.MetadataValue.url(url)}


def _configuration(key: str) -> int | None:
    """The number of the configuration that a partition is of; None where it is of a whole experiment."""
    number = key.partition(":")[0].partition(".")[2]
    return int(number) if number.isdecimal() else None


def _shown(report: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in report.items() if value not in (None, [], {})}
