"""What one evaluation was asked to do: which datasets, which systems, how deep, and what triggered it."""

from collections.abc import Sequence
from dataclasses import dataclass

from rageval_dagster.benchmark.by_rule.generator import without_revision
from rageval_dagster.benchmark.renewal import no_question
from rageval_dagster.errors import DatasetError, SettingsError
from rageval_dagster.settings import BUILT_IN_SYSTEMS, Settings
from rageval_dagster.storage import benchmark as benchmark_storage
from rageval_dagster.storage.benchmark import Dataset
from rageval_dagster.storage.clients import evaluated_systems
from rageval_dagster.storage.database import Database

MINIMUM_DEPTH = 10


@dataclass(frozen=True)
class EvaluationRequest:
    """One evaluation of one client, as a schedule, a sensor, a person in the UI or the command line asks for it.

    No dataset ids: every current dataset of the client. `trigger` is part of the evaluation's identity.
    """

    client_id: str
    trigger: str
    k: int
    systems: tuple[str, ...] = ("dense",)
    dataset_ids: tuple[int, ...] = ()

    @property
    def depth(self) -> int:
        """How many results a system is asked for: the cutoff, but at least 10, so that nDCG@10 always exists."""
        return max(self.k, MINIMUM_DEPTH)


def chosen_datasets(db: Database, request: EvaluationRequest) -> list[Dataset]:
    """The datasets an evaluation is about, oldest first.

    Raises:
        DatasetError: if a named one does not exist or belongs to another client, or the client has none.
    """
    if not request.dataset_ids:
        datasets = benchmark_storage.current_datasets(db, request.client_id)
        if not datasets:
            lacking = f"client {request.client_id!r} has no dataset to evaluate"
            drafts = benchmark_storage.list_candidates(db, request.client_id)
            if drafts:
                by_model = "name a model that writes them: RAGEVAL_GENERATOR_MODEL"
                if not all(without_revision(each.generator) for each in drafts):
                    by_model = "let another RAGEVAL_GENERATOR_MODEL write them, or none: then rules do"
                raise DatasetError(f"{lacking}: {no_question(db, request.client_id)}; import questions, or {by_model}")
            raise DatasetError(
                f"{lacking}: generate one (rageval datasets generate --client NAME), import one, or set "
                "EVALUATION_AUTO_GENERATE_DATASETS=true"
            )
        return sorted(datasets, key=lambda dataset: dataset.id)
    named = [benchmark_storage.get_dataset(db, dataset_id) for dataset_id in request.dataset_ids]
    for dataset in named:
        if dataset.client_id != request.client_id:
            raise DatasetError(
                f"dataset {dataset.id} belongs to client {dataset.client_id!r}, not to {request.client_id!r}"
            )
    return named


def check_metrics(settings: Settings, k: int) -> None:
    """Refuses metrics that cannot be had, and good values or a gate for what is no metric, before anything is asked.

    Raises:
        SettingsError: naming what is wrong, and the metric that may be meant.
    """
    from rageval_dagster.metrics.registry import (
        chosen_metrics,
        declared_metrics,
        matching_ids,
        nearest_id,
        options_of,
    )

    options = options_of(settings, k)
    chosen_metrics(settings, options)
    known = declared_metrics(settings, options)
    for pattern in settings.gate:
        if not matching_ids(pattern, (metric.id for metric in known), k):
            raise SettingsError(f"gate: {pattern!r} is not a metric at k = {k}{nearest_id(pattern, known, k)}")
    strange = sorted(set(settings.thresholds) - {metric.id for metric in known})
    if strange:
        raise SettingsError(
            f"thresholds: there is no metric {strange[0]!r} at k = {k}{nearest_id(strange[0], known, k)}"
        )


def undefined_systems(db: Database, settings: Settings, client_id: str) -> list[str]:
    """The client's own systems that its last runs evaluated and that its `settings` neither define nor replace.

    Settings that name a system replace it. Those that name none are, as a rule, not the ones of the last runs: a
    command in another folder does not find rageval.toml.
    """
    if "system" in settings.model_fields_set:
        return []
    known = {*BUILT_IN_SYSTEMS, *settings.systems}
    return [name for name in evaluated_systems(db, client_id) if name not in known]


def check_systems(db: Database, settings: Settings, client_id: str, named: Sequence[str]) -> None:
    """Refuses to evaluate a built-in system instead of the client's own, unless somebody `named` what to evaluate.

    Raises:
        SettingsError: which system is not defined, which settings file was read, and what to do.
    """
    lost = [] if named else undefined_systems(db, settings, client_id)
    if lost:
        file = settings.source.config_file
        read = f"{file} does not define it" if file.is_file() else f"there is no settings file {file}"
        default = settings.system[0]
        raise SettingsError(
            f"the last runs of client {client_id!r} evaluated its own system {lost[0]!r}, and {read}: go to the folder "
            f"of the rageval.toml that defines it, or set RAGEVAL_CONFIG to that file; to evaluate {default} instead, "
            f"name it: --system {default}, or system = {default!r} under [defaults] in "
            "rageval.toml"
        )


def make_request(
    settings: Settings,
    client_id: str,
    trigger: str,
    k: int | None = None,
    systems: Sequence[str] = (),
    dataset_ids: Sequence[int] = (),
) -> EvaluationRequest:
    """A request with the settings' defaults where nothing was named.

    Raises:
        SettingsError: the client's settings say of metrics what cannot be, see `check_metrics`.
    """
    check_metrics(settings, k or settings.k)
    return EvaluationRequest(
        client_id=client_id,
        trigger=trigger,
        k=k or settings.k,
        systems=tuple(dict.fromkeys(systems)) or settings.system,
        dataset_ids=tuple(dict.fromkeys(dataset_ids)),
    )
