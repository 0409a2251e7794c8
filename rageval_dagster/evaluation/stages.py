"""The evaluations of a request, one for each system and dataset: opening them, and doing a stage for each."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from rageval_dagster.benchmark.validation import require_valid
from rageval_dagster.evaluation.request import EvaluationRequest, chosen_datasets
from rageval_dagster.identity import digest
from rageval_dagster.rag.system import RagSystem
from rageval_dagster.records import Progress
from rageval_dagster.storage import benchmark as benchmark_storage
from rageval_dagster.storage import clients as client_storage
from rageval_dagster.storage import evaluations as evaluation_storage
from rageval_dagster.storage.caches import model_usage
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.evaluations import Evaluation, Versions
from rageval_dagster.text import plural

SystemLoader = Callable[[str], RagSystem]
BATCH = 64
"""Items between two writes: a kill loses at most this many."""


@dataclass(frozen=True)
class StageReport:
    """What a stage did for one evaluation: outcomes in all, of them reused from earlier work, and failed; and how many
    of the others came at a later attempt only."""

    total: int
    reused: int
    errors: int
    later: int = 0

    @property
    def coverage(self) -> float:
        """The share of outcomes that are no errors."""
        return 1.0 if self.total == 0 else 1 - self.errors / self.total


def offset_progress(progress: Progress | None, before: int, total: int) -> Progress | None:
    """Progress of a part, after so many."""
    return None if progress is None else lambda done, _: progress(before + done, total)


def open_evaluations(
    db: Database, request: EvaluationRequest, load: SystemLoader, dagster_run_id: str | None
) -> list[Evaluation]:
    """Opens (or resumes, after a crash) every evaluation of a request.

    What an earlier attempt under this trigger left unfinished and this request does not open (its dataset was renewed
    since) has failed: it is not finished with the questions that it happens to have.

    Raises:
        UnvalidatedBenchmarkError: if a dataset failed a blocking rule.
        DatasetError: if a dataset is unknown, or there is none.
    """
    client = client_storage.get_client(db, request.client_id)
    datasets = chosen_datasets(db, request)
    for dataset in datasets:
        require_valid(dataset)
    opened = []
    for dataset in datasets:
        items = benchmark_storage.dataset_items(db, dataset.id)
        for name in request.systems:
            system = load(name)
            # Each time another one: what a system says to it counts, whatever it said to it before.
            probe = items[int(digest(request.trigger), 16) % len(items)]
            declared = system.declared_version(probe, request.depth)
            told = digest(system.version, str(request.depth))
            silent = evaluation_storage.known_silent_changes(db, request.client_id, system.name, told)
            opened.append(
                evaluation_storage.open_evaluation(
                    db,
                    client_id=request.client_id,
                    dataset_id=dataset.id,
                    system=system.name,
                    trigger=request.trigger,
                    k=request.k,
                    depth=request.depth,
                    versions=Versions(
                        corpus=client.corpus_version,
                        index=client.index_version,
                        dataset=dataset.dataset_version,
                        system=evaluation_storage.after_silent_changes(told, silent),
                        judge=None,
                    ),
                    dagster_run_id=dagster_run_id,
                    item_ids=[item.item_id for item in items],
                    system_reference=system.reference,
                    system_declared=declared,
                )
            )
    wanted = {evaluation.id for evaluation in opened}
    for evaluation in evaluation_storage.evaluations_of_trigger(db, request.client_id, request.trigger):
        if evaluation.id not in wanted and evaluation.status == "running":
            evaluation_storage.finish_evaluation(
                db, evaluation.id, "failed", headline={}, duration_s=None, error_count=evaluation.error_count
            )
    return opened


def evaluations_of(db: Database, request: EvaluationRequest) -> list[Evaluation]:
    """The evaluations a later stage works on: this trigger's, or, where a stage is run alone, the newest trigger's.

    Failed ones are left out; oldest first.
    """
    found = evaluation_storage.evaluations_of_trigger(db, request.client_id, request.trigger)
    found = found or evaluation_storage.evaluations_of_trigger(db, request.client_id)
    return [evaluation for evaluation in found if evaluation.status != "failed"]


def each_evaluation(
    db: Database,
    evaluations: Sequence[Evaluation],
    run_id: str,
    work: Callable[[Evaluation], StageReport],
    warn: Callable[[str], None] = lambda _: None,
) -> dict[str, int | float]:
    """Does one stage for every evaluation and gives its counts, named by dataset and system.

    What the run's model calls took for an evaluation is added to its cost, also where the stage fails.
    """
    counts: dict[str, int | float] = {}
    for evaluation in evaluations:
        before = model_usage(db, evaluation.client_id, run_id)
        try:
            report = work(evaluation)
        finally:
            usage = model_usage(db, evaluation.client_id, run_id) - before
            if usage.cost_usd:
                evaluation_storage.add_cost(db, evaluation.id, usage.cost_usd)
        if report.later:
            warn(f"{evaluation.system} answered {plural(report.later, 'question')} at a later attempt only")
        found = asdict(report) | {"coverage": report.coverage} | (usage.metadata() if usage.requests else {})
        counts |= {f"{evaluation.dataset_name}/{evaluation.system}/{name}": value for name, value in found.items()}
    return counts
