"""Renewing a generated dataset: when one is due, which items stay, and from which chunks new ones are written."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from math import ceil
from statistics import median
from typing import TYPE_CHECKING, Any

from rageval_dagster.benchmark.critics import UNSEEN, was_turned_down
from rageval_dagster.benchmark.drafts import NOT_UNDERSTOOD
from rageval_dagster.benchmark.generators import MODEL_FAILED, Generator, Task, generator_name, shares_of
from rageval_dagster.benchmark.mix import Kind, Shares, chosen, kind_of, plan, within
from rageval_dagster.benchmark.related import Related
from rageval_dagster.benchmark.review import is_settled
from rageval_dagster.benchmark.rules import RuleResult
from rageval_dagster.benchmark.sampling import STRATEGIES, draw_sample
from rageval_dagster.benchmark.wording import normalise_whitespace
from rageval_dagster.corpus.evidence import resolve
from rageval_dagster.errors import DatasetError, EmbeddingError, SettingsError
from rageval_dagster.identity import digest
from rageval_dagster.languages import language_name, language_shares, language_warnings
from rageval_dagster.records import Candidate, Chunk, Item, Progress
from rageval_dagster.settings import Settings
from rageval_dagster.storage import benchmark as benchmark_storage
from rageval_dagster.storage import clients as client_storage
from rageval_dagster.storage import corpus as corpus_storage
from rageval_dagster.storage.benchmark import Dataset, Sample
from rageval_dagster.storage.database import Database

if TYPE_CHECKING:
    from rageval_dagster.corpus.store import ChromaStore
    from rageval_dagster.embedding.models import Embedder

DEFAULT_NAME = "synthetic"
DEFAULT_STRATEGY = "random"

SPARE = 1.2
"""So many times the wanted number of pairs are written, since the rules will reject some."""

SAMPLE_SHARE = 5
"""So many times the wanted number of chunks are drawn, since some give no question."""

WRITE_BATCH = 32
"""Chunks asked about between two writes: a kill loses at most this many."""

MODEL_BATCH = 512
"""The same for a model, of whose replies a kill loses none: they are kept as they come. It is asked about as many as
are likely to be needed, all at once, since the last ones of a batch leave it half idle."""

LEAST_YIELD = 0.25
"""Chunks that give a question, of those asked about: never taken to be fewer."""

FRUITLESS = 50
"""After so many chunks in a row of which a model made no question, it is asked about no more of them in this run."""

DIFFICULTY_DEPTH = 50

MOST_REASONS = 4
"""Reasons why drafts were turned down that a message names."""

RETIRED = "its quote is gone from its document"


@dataclass(frozen=True)
class BenchmarkSpec:
    """What the generated dataset should be."""

    name: str
    size: int
    strategy: str | None
    generator: str
    max_age_days: float
    automatic: bool
    always: bool = False
    seed: int = 0
    language: str | None = None
    embedding_models: tuple[str, ...] = ()
    shares: Shares | None = None
    """Of the kinds of questions; None where the generator asks what it can."""

    @classmethod
    def from_settings(
        cls, settings: Settings, name: str = "", size: int = 0, strategy: str = "", always: bool = False
    ) -> "BenchmarkSpec":
        """The settings' spec, with what was named for this run.

        Raises:
            SettingsError: an unknown strategy, or shares of questions that are together more than 1.
        """
        if strategy and strategy not in STRATEGIES:
            raise SettingsError(f"the sampling strategy takes {', '.join(STRATEGIES)}, not {strategy!r}")
        return cls(
            name=name or DEFAULT_NAME,
            size=size or settings.sample_size,
            strategy=strategy or None,
            generator=generator_name(settings, cls.seed),
            max_age_days=settings.dataset_max_age_days,
            automatic=settings.auto_generate_datasets,
            always=always,
            language=settings.language,
            embedding_models=(settings.embedding_model, settings.metric_embedding_model),
            shares=shares_of(settings),
        )


@dataclass(frozen=True)
class StageReport:
    """What a stage of the renewal did; numbers and ids only."""

    reason: str
    counts: Mapping[str, Any] = field(default_factory=dict)
    rules: Sequence[RuleResult] = ()

    def metadata(self) -> dict[str, Any]:
        return {"reason": self.reason, **self.counts}


def renew_sample(
    db: Database, store: "ChromaStore", client_id: str, spec: BenchmarkSpec, now: datetime | None = None
) -> StageReport:
    """Draws the chunks to write questions about, if a renewal is due.

    Where only the documents changed and every item's quote still stands, the dataset stays as it is; items that a
    person has verified stay also without their quote.
    """
    due = renewal_due(db, client_id, spec, now)
    dataset = _current(db, client_id, spec)
    if due is None:
        return StageReport(_kept(dataset))
    if dataset is not None and due == _DOCUMENTS_CHANGED:
        _, gone = _standing(db, store, client_id, dataset)
        if all(item.human_verified for item in gone):
            # Unchanged, it also fits the present corpus.
            version = client_storage.get_client(db, client_id).corpus_version
            stats = {**dataset.stats, "corpus_version": version, "flagged": _flagged(gone)}
            benchmark_storage.save_stats(db, dataset.id, stats)
            return StageReport("the documents changed, and no question has to be replaced")
    client = client_storage.get_client(db, client_id)
    strategy = spec.strategy or (dataset.stats.get("strategy") if dataset else None) or DEFAULT_STRATEGY
    entries = [entry for page in corpus_storage.iter_manifest(db, client_id) for entry in page]
    if not entries:
        raise DatasetError(f"client {client_id!r} has no chunks with text: ingest documents first")
    keys = draw_sample(
        entries,
        size=spec.size * SAMPLE_SHARE,
        strategy=strategy,
        seed=spec.seed,
        vectors=lambda drawn: store.vectors(client_id, [entry.chunk_id for entry in drawn]),
    )
    version = client.corpus_version or ""
    sample = Sample(
        sample_id=digest(client_id, version, strategy, str(spec.seed), str(spec.size))[:32],
        client_id=client_id,
        corpus_version=version,
        strategy=strategy,
        seed=spec.seed,
        size=spec.size,
        chunk_keys=tuple(keys),
    )
    benchmark_storage.save_sample(db, sample)
    documents = {entry.chunk_key: entry.document_id for entry in entries}
    languages = _languages(_sampled_chunks(db, store, client_id), spec)
    return StageReport(
        due,
        {
            "sample_id": sample.sample_id,
            "strategy": strategy,
            "chunks_drawn": len(keys),
            "documents_touched": len({documents[key] for key in keys}),
            "documents": len(set(documents.values())),
            "languages": {language_name(code): share for code, share in languages.items()},
            "warnings": language_warnings(spec.embedding_models, languages),
        },
    )


def renew_candidates(
    db: Database,
    store: "ChromaStore",
    client_id: str,
    spec: BenchmarkSpec,
    generator: Generator,
    progress: Progress | None = None,
) -> StageReport:
    """Writes questions about the sampled chunks, in their order, until there are enough; each batch is stored.

    A chunk whose text was asked about before by the same generator is not asked about again.

    Raises:
        LanguageModelError: the generator's model refuses, or does not answer (BudgetReachedError: its budget is spent);
            the batches before are stored, and what it said since is in its cache.
    """
    due = renewal_due(db, client_id, spec)
    if due is None:
        return StageReport(_kept(_current(db, client_id, spec)))
    chunks = _sampled_chunks(db, store, client_id)
    asked: dict[str, list[Candidate]] = {}
    for candidate in benchmark_storage.list_candidates(
        db, client_id, chunk_keys=[chunk.content_key for chunk in chunks], generator=generator.name
    ):
        asked.setdefault(candidate.chunk_key, []).append(candidate)
    # What failed because the model did is asked again; what failed because of the text would fail again. Who asks for a
    # new benchmark may have mended a model whose replies nobody understood.
    again = (MODEL_FAILED, NOT_UNDERSTOOD) if spec.always else (MODEL_FAILED,)
    known = {
        key: found for key, found in asked.items() if not any(_failed_with(candidate, again) for candidate in found)
    }
    missing = [
        Task(chunk, attempt=_first_to_write(asked.get(chunk.content_key, ()), again))
        for chunk in chunks
        if chunk.content_key not in known
    ]
    wanted = _wanted(db, store, client_id, spec, due)
    dataset = _current(db, client_id, spec)
    verified_ids = {item.item_id for item in _verified(db, dataset)}
    related = Related(chunks, spec.language, spec.seed)
    usable = [each for found in known.values() for each in found if _may_be_drawn(each, verified_ids)]
    if dataset is not None and spec.shares is not None and spec.shares != dataset.stats.get("shares"):
        # What there is too much of for them stands for nothing of which there is too little.
        usable = [usable[place] for place in within([each.item for each in usable if each.item], wanted, spec.shares)]
    written: list[Candidate] = []
    done = fruitless = 0
    while missing and len(usable) < wanted and not (spec.shares and fruitless >= FRUITLESS):
        size = _batch_size(spec, wanted - len(usable), len(usable), len(known) + done)
        batch, missing = _planned(missing[:size], usable, spec, related), missing[size:]
        told = _counted_from(done, len(batch), wanted, progress)
        found = generator.generate(batch, related, told)
        benchmark_storage.save_candidates(db, client_id, found)
        good = [candidate for candidate in found if _may_be_drawn(candidate, verified_ids)]
        done, written, usable = done + len(batch), [*written, *found], [*usable, *good]
        fruitless = 0 if good else fruitless + len(batch)
    return StageReport(
        due,
        {
            "generator": generator.name,
            "written": len(written),
            "failed": sum(candidate.status == "failed" for candidate in written),
            "rejected": sum(candidate.status == "rejected" for candidate in written),
            "reasons": _reasons(written),
            "reused": len(known),
            "usable": len(usable),
            "kinds": dict(sorted(Counter(kind_of(each.item) for each in usable if each.item).items())),
        },
    )


def _failed_with(candidate: Candidate, reasons: tuple[str, ...]) -> bool:
    return any(reason.startswith(reasons) for reason in candidate.reasons)


def _first_to_write(candidates: Sequence[Candidate], again: tuple[str, ...]) -> int:
    """The attempt at which a chunk is asked about again: what was rejected before the model failed stays as it is."""
    return next((candidate.attempt for candidate in candidates if _failed_with(candidate, again)), 0)


def _batch_size(spec: BenchmarkSpec, lacking: int, usable: int, asked: int) -> int:
    """About how many chunks to ask, so that the questions lacking come of them as often as of those before."""
    if spec.shares is None:
        return WRITE_BATCH
    share = max(usable / asked, LEAST_YIELD) if asked else 1.0
    return min(ceil(lacking / min(share, 1.0)), MODEL_BATCH)


def _planned(tasks: Sequence[Task], usable: Sequence[Candidate], spec: BenchmarkSpec, related: Related) -> list[Task]:
    """The tasks with the kinds of questions that are lacking."""
    if spec.shares is None:
        return list(tasks)
    have: Counter[Kind] = Counter(kind_of(candidate.item) for candidate in usable if candidate.item)
    kinds = plan([task.chunk for task in tasks], have, spec.shares, related)
    return [replace(task, kind=kind) for task, kind in zip(tasks, kinds, strict=True)]


def _counted_from(before: int, size: int, wanted: int, progress: Progress | None) -> Progress | None:
    """Progress of a batch of chunks as that of all of them, of which there are as many as questions, or more."""
    if progress is None:
        return None
    return lambda done, _: progress(before + done, max(before + size, wanted))


def no_question(db: Database, client_id: str, generator: str | None = None) -> str:
    """Why a generator, or any of them, has written no question: the number of drafts, and their commonest reasons."""
    candidates = benchmark_storage.list_candidates(db, client_id, generator=generator)
    drafts = [each for each in candidates if each.status in ("failed", "rejected")]
    reasons = Counter(_reasons(drafts)).most_common(MOST_REASONS)
    named = ", ".join(f"{reason} {count}" for reason, count in reasons)
    return f"of {len(drafts)} drafts none became a question" + (f" ({named})" if named else "")


def _reasons(candidates: Iterable[Candidate]) -> dict[str, int]:
    """How many candidates have each reason; what stands in brackets behind it does not tell reasons apart."""
    counts = Counter(
        reason.partition(" ")[0] for candidate in candidates for reason in candidate.reasons if reason != UNSEEN
    )
    return dict(sorted(counts.items()))


def renew_dataset(
    db: Database, store: "ChromaStore", client_id: str, spec: BenchmarkSpec, embedder: "Embedder"
) -> StageReport:
    """Judges the candidates by the quality rules and freezes those that pass as a dataset version.

    Items whose quote still stands stay; those whose quote is gone retire with that reason. Where nothing is left, there
    is no new dataset: what the client had before, and its imported ones, can still be evaluated.
    """
    from rageval_dagster.benchmark.validation import validate

    due = renewal_due(db, client_id, spec)
    dataset = _current(db, client_id, spec)
    if due is None:
        rules = [_rule_from_row(row) for row in dataset.stats.get("rules", ())] if dataset else []
        return StageReport(_kept(dataset), _counts(dataset), rules)
    sample = _latest_sample(db, client_id)
    chunks = _sampled_chunks(db, store, client_id)
    verified = _verified(db, dataset)
    verified_ids = {item.item_id for item in verified}
    kept, flagged = _kept_candidates(db, store, client_id, dataset, spec, due)
    order = {chunk.content_key: position for position, chunk in enumerate(chunks)}
    kept_ids = {candidate.candidate_id for candidate in kept}
    written = benchmark_storage.list_candidates(db, client_id, chunk_keys=list(order), generator=spec.generator)
    drawn = [
        candidate
        for candidate in written
        if _may_be_drawn(candidate, verified_ids) and candidate.candidate_id not in kept_ids
    ]
    drawn = _revived(db, store, client_id, drawn)
    drawn.sort(key=lambda candidate: (order[candidate.chunk_key], candidate.attempt))
    refused = [
        candidate.item
        for candidate in benchmark_storage.list_candidates(db, client_id)
        if candidate.item and is_settled(candidate)
    ]
    texts = _texts_of_evidence(db, store, client_id, drawn)
    texts.update((chunk.content_key, chunk.text) for chunk in chunks)
    report = validate([*kept, *drawn], texts, embedder, staying=kept_ids, verified=verified, refused=refused)
    measured = _with_difficulty(store, client_id, report.accepted, embedder)
    benchmark_storage.save_candidates(db, client_id, [*measured, *report.rejected])
    items = report.items[: max(spec.size, len(verified))]
    if spec.shares is not None:
        staying = len(verified) + sum(candidate.candidate_id in kept_ids for candidate in report.accepted)
        items = chosen(report.items, spec.size, staying, spec.shares)
    if not items:
        rules = [replace(rule, blocking=False) for rule in report.rule_results]
        return StageReport(f"{due}; {no_question(db, client_id, spec.generator)}", {}, rules)
    saved = benchmark_storage.save_dataset(
        db,
        client_id,
        spec.name,
        "generated",
        items,
        created_by=spec.generator,
        corpus_version=sample.corpus_version,
        valid=report.valid,
        rule_failures=report.rule_failures,
        stats={
            "corpus_version": sample.corpus_version,
            "sample_id": sample.sample_id,
            "strategy": sample.strategy,
            "languages": _languages(chunks, spec),
            "sample_size": spec.size,
            "replaces_items_of": _first_drawn(dataset, due),
            "generator": spec.generator,
            "shares": spec.shares,
            "rejected": dict(Counter(report.rejections) + Counter(_reasons(filter(was_turned_down, written)))),
            "categories": dict(sorted(Counter(item.category for item in items).items())),
            "unanswerable": sum(not item.answerable for item in items),
            "documents_touched": len({document for item in items for document in item.document_ids}),
            "documents": client_storage.get_client(db, client_id).document_count,
            "median_difficulty": _median([candidate.difficulty for candidate in measured]),
            "flagged": flagged,
            "rules": [asdict(result) for result in report.rule_results],
        },
    )
    return StageReport(due, _counts(saved), report.rule_results)


_DOCUMENTS_CHANGED = "the documents changed"


def renewal_due(db: Database, client_id: str, spec: BenchmarkSpec, now: datetime | None = None) -> str | None:
    """Why a renewal is due, None if the current dataset will do."""
    dataset = _current(db, client_id, spec)
    if spec.always:
        return "asked for"
    if not spec.automatic:
        return None
    if dataset is None:
        return "there is no dataset yet"
    if spec.size != dataset.stats.get("sample_size"):
        return f"{spec.size} questions are wanted, {dataset.stats.get('sample_size')} were before"
    if spec.strategy not in (None, dataset.stats.get("strategy")):
        return f"the strategy is {spec.strategy} now"
    if spec.generator != dataset.stats.get("generator"):
        return "the question generator changed"
    if spec.shares != dataset.stats.get("shares"):
        return "other shares of multi-hop and unanswerable questions are wanted"
    # Before the documents: where they change every day, new questions are still drawn from all of them now and then.
    if (now or datetime.now(UTC)) - _drawn_at(db, dataset) > timedelta(days=spec.max_age_days):
        return f"the dataset is older than {spec.max_age_days:g} days"
    if client_storage.get_client(db, client_id).corpus_version != dataset.stats.get("corpus_version"):
        return _DOCUMENTS_CHANGED
    return None


def _drawn_at(db: Database, dataset: Dataset) -> datetime:
    """When the dataset was last drawn as a whole; replacing items whose quote is gone does not make it younger."""
    first = dataset.stats.get("replaces_items_of")
    return dataset.checked_at if first is None else benchmark_storage.get_dataset(db, first).checked_at


def _current(db: Database, client_id: str, spec: BenchmarkSpec) -> Dataset | None:
    found = [dataset for dataset in benchmark_storage.current_datasets(db, client_id) if dataset.name == spec.name]
    if not found:
        return None
    if found[0].kind == "imported":
        raise DatasetError(f"{spec.name!r} is the name of an imported dataset of {client_id!r}: choose another --name")
    return found[0]


def _kept(dataset: Dataset | None) -> str:
    if dataset is None:
        return "no dataset is generated (EVALUATION_AUTO_GENERATE_DATASETS is false)"
    return f"dataset {dataset.id} is recent: kept"


def _counts(dataset: Dataset | None) -> dict[str, Any]:
    if dataset is None:
        return {}
    stats = dataset.stats
    return {
        "dataset_id": dataset.id,
        "dataset_version": dataset.dataset_version,
        "questions": dataset.qa_count,
        "categories": stats.get("categories", {}),
        "unanswerable": stats.get("unanswerable", 0),
        "rejected_by_rule": stats.get("rejected", {}),
        "documents_touched": stats.get("documents_touched", 0),
        "documents": stats.get("documents", 0),
        "flagged": list(stats.get("flagged", ())),
    }


def _verified(db: Database, dataset: Dataset | None) -> list[Item]:
    """The items that a person has verified: they survive every renewal."""
    items = [] if dataset is None else benchmark_storage.dataset_items(db, dataset.id)
    return [item for item in items if item.human_verified]


def _flagged(gone: Sequence[Item]) -> dict[str, list[str]]:
    """Why verified items cannot be scored for now, by item id."""
    return {item.item_id: [RETIRED] for item in gone if item.human_verified}


def _may_be_drawn(candidate: Candidate, verified_ids: Collection[str]) -> bool:
    """Whether a candidate may become an item of a dataset that has the verified ones anyway."""
    return (
        candidate.item is not None
        and candidate.item.item_id not in verified_ids
        and not is_settled(candidate)
        and not was_turned_down(candidate)
    )


def _standing(
    db: Database, store: "ChromaStore", client_id: str, dataset: Dataset
) -> tuple[frozenset[str], list[Item]]:
    """The ids of the items whose quotes all stand, and the items whose quote is gone."""
    items = benchmark_storage.dataset_items(db, dataset.id)
    resolutions = resolve(items, db, store, client_id)
    gone = [item for item in items if item.evidence and resolutions[item.item_id].unresolved]
    return frozenset(item.item_id for item in items) - {item.item_id for item in gone}, gone


def _wanted(db: Database, store: "ChromaStore", client_id: str, spec: BenchmarkSpec, due: str) -> int:
    """How many usable candidates are needed: spare ones for the rules to reject, fewer where items stay."""
    dataset = _current(db, client_id, spec)
    verified = _verified(db, dataset)
    staying = 0
    if dataset is not None and due == _DOCUMENTS_CHANGED:
        standing, _ = _standing(db, store, client_id, dataset)
        staying = len(standing - {item.item_id for item in verified})
    return round(max(spec.size - len(verified) - staying, 0) * SPARE) + 1 + staying


def _kept_candidates(
    db: Database, store: "ChromaStore", client_id: str, dataset: Dataset | None, spec: BenchmarkSpec, due: str
) -> tuple[list[Candidate], dict[str, list[str]]]:
    """The candidates of the items that stay, and the verified items whose quote is gone.

    Other items whose quote is gone retire. Of those that no person has verified all stay where only the documents
    changed, else none: a dataset that is due for another reason is drawn anew.
    """
    if dataset is None:
        return [], {}
    standing, gone = _standing(db, store, client_id, dataset)
    gone_ids = {item.item_id for item in gone if not item.human_verified}
    verified_ids = {item.item_id for item in _verified(db, dataset)}
    candidates = [
        candidate
        for candidate in benchmark_storage.list_candidates(db, client_id, generator=spec.generator)
        if _may_be_drawn(candidate, verified_ids)
    ]
    retired = [
        replace(candidate, status="retired", reasons=(RETIRED,))
        for candidate in candidates
        if candidate.item and candidate.item.item_id in gone_ids
    ]
    benchmark_storage.save_candidates(db, client_id, retired)
    kept = [candidate for candidate in candidates if candidate.item and candidate.item.item_id in standing]
    return kept if due == _DOCUMENTS_CHANGED else [], _flagged(gone)


def _revived(db: Database, store: "ChromaStore", client_id: str, candidates: Sequence[Candidate]) -> list[Candidate]:
    """The candidates without the retired ones, unless their quotes are back: those are candidates again."""
    retired = [candidate.item for candidate in candidates if candidate.status == "retired" and candidate.item]
    resolutions = resolve(retired, db, store, client_id) if retired else {}
    back = {item_id for item_id, resolution in resolutions.items() if not resolution.unresolved}
    return [
        replace(candidate, status="new", reasons=()) if candidate.status == "retired" else candidate
        for candidate in candidates
        if candidate.status != "retired" or (candidate.item and candidate.item.item_id in back)
    ]


def _texts_of_evidence(
    db: Database, store: "ChromaStore", client_id: str, candidates: Sequence[Candidate]
) -> dict[str, str]:
    """The texts of the chunks that hold the quotes of questions over several documents: the sample may lack some."""
    items = [each.item for each in candidates if each.item and len(each.item.evidence) > 1]
    found = resolve(items, db, store, client_id).values()
    ids = {chunk_id for each in found for chunk_ids in each.of_each.values() for chunk_id in chunk_ids}
    return {chunk.content_key: chunk.text for chunk in store.get(client_id, sorted(ids))}


def _first_drawn(dataset: Dataset | None, due: str) -> int | None:
    """The id of the dataset whose items only make room for some others, None where all are drawn anew."""
    if dataset is None or due != _DOCUMENTS_CHANGED:
        return None
    return dataset.stats.get("replaces_items_of") or dataset.id


def _latest_sample(db: Database, client_id: str) -> Sample:
    sample = benchmark_storage.latest_sample(db, client_id)
    if sample is None:
        raise DatasetError(f"client {client_id!r} has no sample of chunks yet: materialize chunk_sample first")
    return sample


def _sampled_chunks(db: Database, store: "ChromaStore", client_id: str) -> list[Chunk]:
    """The chunks of the latest sample that the store still has, in the order drawn."""
    keys = _latest_sample(db, client_id).chunk_keys
    entries = corpus_storage.manifest_lookup(db, client_id, keys)
    ids = [entries[key].chunk_id for key in keys if key in entries]
    chunks = {chunk.id: chunk for chunk in store.get(client_id, ids)}
    return [chunks[chunk_id] for chunk_id in ids if chunk_id in chunks]


def _languages(chunks: Sequence[Chunk], spec: BenchmarkSpec) -> dict[str, float]:
    return language_shares((chunk.text for chunk in chunks), spec.language)


def _with_difficulty(
    store: "ChromaStore", client_id: str, accepted: Sequence[Candidate], embedder: "Embedder"
) -> list[Candidate]:
    """Candidates with their round-trip rank, where the store's vectors are the embedder's."""
    from rageval_dagster.corpus.compatibility import check_embedder

    new = [each for each in accepted if each.difficulty is None and each.item and each.item.evidence]
    if not new:
        return list(accepted)
    try:
        check_embedder(store, client_id, embedder)
    except EmbeddingError:
        return list(accepted)
    vectors = embedder.encode([candidate.item.question for candidate in new if candidate.item])
    ranks: dict[str, int] = {}
    for candidate, hits in zip(new, store.query(client_id, vectors, DIFFICULTY_DEPTH), strict=True):
        for hit in hits:
            if candidate.item and candidate.item.evidence[0].quote and hit.text and _holds(hit.text, candidate.item):
                ranks[candidate.candidate_id] = hit.rank
                break
    return [
        replace(candidate, difficulty=ranks.get(candidate.candidate_id, candidate.difficulty)) for candidate in accepted
    ]


def _holds(text: str, item: Item) -> bool:
    quote = item.evidence[0].quote or ""
    return normalise_whitespace(quote) in normalise_whitespace(text)


def _median(values: Sequence[int | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(median(known)) if known else None


def _rule_from_row(row: Mapping[str, Any]) -> RuleResult:
    return RuleResult(
        **{**row, "failed_ids": tuple(row.get("failed_ids", ())), "rejected_ids": tuple(row.get("rejected_ids", ()))}
    )
