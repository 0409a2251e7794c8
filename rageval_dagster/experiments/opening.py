"""Opening an experiment: the definition is held against the client, its questions and metrics, and stored."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from rageval_dagster.corpus.evidence import names_pages, resolve
from rageval_dagster.corpus.store import open_store
from rageval_dagster.errors import DatasetError, SettingsError
from rageval_dagster.evaluation.changes import scan_client
from rageval_dagster.experiments.copies import Cut, cut_of, make_copies, writing_files
from rageval_dagster.experiments.definition import (
    Definition,
    Value,
    check_definition,
    definition_of,
    objective_of,
    parse_definition,
    settings_of,
    why_impossible,
    without_idle,
)
from rageval_dagster.experiments.trial import (
    can_be_scored,
    configuration_key,
    cutoff_of,
    experiment_items,
    metric_of,
    metric_tools,
    metrics_wanted,
    setup_of,
)
from rageval_dagster.identity import digest, digest_json
from rageval_dagster.metrics.interface import Metric
from rageval_dagster.rag.external import check_access
from rageval_dagster.records import Item
from rageval_dagster.settings import Settings
from rageval_dagster.storage.benchmark import Dataset, clusters_of, current_datasets
from rageval_dagster.storage.clients import ensure_client
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.experiments import Experiment, forget_failures, open_experiment
from rageval_dagster.storage.leases import WAIT_S, keep_lease, lease_holder
from rageval_dagster.storage.run_requests import freeze
from rageval_dagster.text import plural

MOST_COMBINATIONS = 100_000


@dataclass(frozen=True)
class Asked:
    """What an experiment is about, once all of it was checked."""

    definition: Definition
    settings: Settings
    objective: Metric
    objective_id: str
    datasets: list[Dataset]
    items: list[Item]
    left_out: int
    space: list[dict[str, Value]]
    cuts: list[Cut]
    corpus: str


def checked(db: Database, settings: Settings, tables: Mapping[str, Any], where: str) -> Asked:
    """Everything that can be wrong with an experiment is found before anything is asked or made.

    Args:
        tables: the definition as it was read.
        where: its file, for errors.

    Raises:
        SettingsError: of the first thing that is wrong its place, and what it takes.
        DatasetError: the client has no such dataset, or no question of them can be scored.
        StoreError: the document store does not know the client, or does not answer.
    """
    definition = parse_definition(tables, where)
    if definition.configurations > MOST_COMBINATIONS:
        raise SettingsError(
            f"{where} [parameters]: these are {definition.configurations:,} combinations, and an experiment takes at "
            f"most {MOST_COMBINATIONS:,}; name fewer values"
        )
    probe = open_store(settings).probe(definition.client)
    own = settings.for_client(definition.client)
    check_definition(definition, own, where)
    datasets = _datasets(db, definition, where)
    objective_id = objective_of(definition, own)
    objective = _check_metrics(db, definition, own, objective_id, where)
    known = list(experiment_items(db, [dataset.id for dataset in datasets]).values())
    items = [item for item in known if can_be_scored(objective, item)]
    if "evidence" in objective.needs and definition.documents is None:
        items = _with_evidence(db, own, definition.client, items)
    if not items:
        raise DatasetError(
            f"{where}: none of the {plural(len(known), 'question')} can be scored by {objective_id}; choose another "
            "objective, or datasets whose questions have what it needs (rageval metrics list)"
        )
    space = space_of(definition)
    for configuration in space:
        setup_of(definition, own, configuration)
    if definition.system:
        check_access(definition.system, setup_of(definition, own, space[0]).settings, definition.client)
    corpus = digest(probe) if definition.documents is None else _listed(Path(definition.documents))
    cuts = [] if definition.system else [cut_of(definition, own, configuration) for configuration in space]
    return Asked(
        definition=definition,
        settings=own,
        objective=objective,
        objective_id=objective_id,
        datasets=datasets,
        items=items,
        left_out=len(known) - len(items),
        space=space,
        cuts=[cut for cut in dict.fromkeys(cuts) if cut is not None],
        corpus=corpus,
    )


def opened(db: Database, settings: Settings, asked: Asked, opened_by: str) -> Experiment:
    """The experiment that goes on with what was checked, or begins; what failed before is asked again."""
    definition = asked.definition
    ensure_client(db, definition.client)
    stored = definition.model_dump(mode="json", exclude_defaults=True)
    content = {
        "definition": {name: value for name, value in stored.items() if name != "budget"},
        "objective": asked.objective_id,
        "datasets": [dataset.dataset_version for dataset in asked.datasets],
        "settings": settings.source.to_freeze(definition.client),
        "corpus": asked.corpus,
    }
    clusters = clusters_of(db, [dataset.id for dataset in asked.datasets])
    experiment = open_experiment(
        db,
        client_id=definition.client,
        content_key=digest_json(content),
        opened_by=opened_by,
        definition=stored,
        objective=asked.objective_id,
        higher_is_better=asked.objective.higher_is_better,
        dataset_ids=[dataset.id for dataset in asked.datasets],
        questions=[item.item_id for item in asked.items],
        clusters=[clusters[item.item_id][:16] for item in asked.items],
        corpus=asked.corpus,
    )
    freeze(db, settings, {definition.client: experiment.run_id}, {})
    if experiment.ended_at is None:
        forget_failures(db, experiment.number)
    return experiment


def prepare(
    db: Database,
    settings: Settings,
    experiment: Experiment,
    progress: Callable[[int, int, str], None] | None = None,
) -> dict[str, Any]:
    """Makes the copies that the experiment searches, and scans the client's own chunks where it searches those.

    Done once; what is there already is left as it is.

    Returns:
        Counts for people, and why copies failed.

    Raises:
        LeaseHeldError: the client's documents have to be scanned, and somebody works on it for longer than `WAIT_S`.
        StoreError: the document store does not answer.
        RagevalError: the experiment was deleted meanwhile, as with its client; no file of it stays.
    """
    definition, own = definition_of(experiment), settings_of(db, settings, experiment)
    cuts = [None if definition.system else cut_of(definition, own, each) for each in space_of(definition)]
    wanted = [cut for cut in dict.fromkeys(cuts) if cut is not None]
    with writing_files(own, db, experiment):
        if None in cuts:
            store = open_store(own)
            client = ensure_client(db, experiment.client_id)
            if client.corpus_version is None or client.probe != store.probe(experiment.client_id):
                holder = lease_holder(f"experiment {experiment.number}")
                with keep_lease(db, experiment.client_id, holder, wait_s=WAIT_S):
                    scan_client(db, store, experiment.client_id, own.system)
        failed = make_copies(own, db, experiment, definition.documents, wanted, progress)
    return {"copies": len(wanted) - len(failed), "failed": sorted(set(failed.values()))}


def space_of(definition: Definition) -> list[dict[str, Value]]:
    """Every configuration that is possible and differs from the others; what makes no difference is left out of it."""
    names = list(definition.parameters)
    found: dict[str, dict[str, Value]] = {}
    for values in product(*definition.parameters.values()):
        configuration = dict(zip(names, values, strict=True))
        if why_impossible(configuration) is None:
            configuration = without_idle(configuration)
            found.setdefault(configuration_key(configuration), configuration)
    return list(found.values())


def has_changed(settings: Settings, experiment: Experiment) -> bool:
    """Whether the documents that the experiment searches are others than when it was opened."""
    definition = definition_of(experiment)
    if definition.documents is not None:
        return False  # it has copies of them
    return digest(open_store(settings).probe(experiment.client_id)) != experiment.corpus


def _with_evidence(db: Database, settings: Settings, client_id: str, items: Sequence[Item]) -> list[Item]:
    """Those whose evidence the client's documents hold, as far as its last scan tells; without any scan all."""
    if ensure_client(db, client_id).corpus_version is None:
        return list(items)
    found = resolve(items, db, open_store(settings), client_id, names_pages(items))
    return [item for item in items if found[item.item_id].chunks or found[item.item_id].documents]


def _datasets(db: Database, definition: Definition, where: str) -> list[Dataset]:
    current = {dataset.name: dataset for dataset in current_datasets(db, definition.client)}
    if not current:
        raise DatasetError(
            f"client {definition.client!r} has no dataset to try configurations on: import one (rageval datasets "
            f"import FILE --client {definition.client}), or have one generated (rageval datasets generate)"
        )
    for name in definition.datasets:
        if name not in current:
            raise DatasetError(
                f"{where} [experiment] datasets: client {definition.client!r} has no dataset {name!r}; there are "
                f"{', '.join(sorted(current))}"
            )
    return sorted(
        (current[name] for name in dict.fromkeys(definition.datasets or current)), key=lambda dataset: dataset.id
    )


def _check_metrics(db: Database, definition: Definition, settings: Settings, objective_id: str, where: str) -> Metric:
    tools = metric_tools(settings, db, definition.client)
    found: dict[str, Metric] = {}
    for metric_id in metrics_wanted(definition, objective_id):
        place = "objective" if metric_id == objective_id else "require"
        try:
            found[metric_id] = metric_of(settings, metric_id, cutoff_of(metric_id) or settings.k, tools)
        except SettingsError as error:
            raise SettingsError(f"{where} [experiment] {place}: {error}") from None
    return found[objective_id]


def _listed(path: Path) -> str:
    """A hash of the files' names, sizes and times of change."""
    files = [path] if path.is_file() else sorted(each for each in path.rglob("*") if each.is_file())
    return digest_json([[str(each), (found := each.stat()).st_size, found.st_mtime_ns] for each in files])


def characters_of(path: Path) -> int:
    """About how many characters the documents at a path have: their bytes."""
    files: Sequence[Path] = [path] if path.is_file() else [each for each in path.rglob("*") if each.is_file()]
    return math.ceil(sum(each.stat().st_size for each in files))
