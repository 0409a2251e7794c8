"""Renewing generated datasets: chunks are drawn, questions written about them, those that pass the rules frozen."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from itertools import islice
from math import ceil
from typing import TYPE_CHECKING, Any

from rageval_dagster.benchmark.coverage import difficulty_stats, note_corpus, with_difficulty
from rageval_dagster.benchmark.critics import UNSEEN, was_turned_down
from rageval_dagster.benchmark.drafts import NOT_UNDERSTOOD
from rageval_dagster.benchmark.due import (
    BenchmarkSpec,
    Renewal,
    current_dataset,
    planned_size,
    renewal_due,
    size_stats,
    specs_of,
)
from rageval_dagster.benchmark.generators import Generator
from rageval_dagster.benchmark.mix import MODEL_FAILED, QuestionKind, Task, kind_of, plan, within
from rageval_dagster.benchmark.related import Related
from rageval_dagster.benchmark.review import is_settled
from rageval_dagster.benchmark.rotation import items_of, may_be_drawn, panel_of, renewed, revived
from rageval_dagster.benchmark.rules import RuleResult, merged
from rageval_dagster.benchmark.sampling import draw_sample
from rageval_dagster.corpus.evidence import resolve
from rageval_dagster.errors import DatasetError
from rageval_dagster.identity import digest
from rageval_dagster.languages import language_name, language_shares, language_warnings
from rageval_dagster.records import Candidate, Chunk, Item, Progress
from rageval_dagster.storage import benchmark as benchmark_storage
from rageval_dagster.storage import clients as client_storage
from rageval_dagster.storage import corpus as corpus_storage
from rageval_dagster.storage.benchmark import Dataset, Sample
from rageval_dagster.storage.database import Database
from rageval_dagster.text import plural

if TYPE_CHECKING:
    from rageval_dagster.corpus.store import ChromaStore
    from rageval_dagster.embedding.models import Embedder

DEFAULT_STRATEGY = "random"

SPARE = 1.2
"""So many times the wanted number of pairs are written, since the rules will reject some."""

SAMPLE_SHARE, SAMPLE_SHARE_BY_RULE = 5, 20
"""So many times the wanted number of chunks are drawn, since some give no question; by rule most of a manual's."""

WRITE_BATCH = 32
"""Chunks asked about between two writes: a kill loses at most this many."""

MODEL_BATCH = 512
"""The same for a model, of whose replies a kill loses none: they are kept as they come. It is asked about as many as
are likely to be needed, all at once, since the last ones of a batch leave it half idle."""

LEAST_YIELD = 0.25
"""Chunks that give a question, of those asked about: never taken to be fewer."""

FRUITLESS = 50
"""After so many chunks in a row of which a model made no question, it is asked about no more of them in this run."""

COMPARED_CHUNKS = 50_000
"""So many chunks are looked through for sentences that stand in several documents: what is in many is in these."""

COMPARED_AT_A_TIME = 1000

MOST_REASONS = 4
"""Reasons why drafts were turned down that a message names."""

BY_RULE = {
    "no_question": "define nothing that can be asked about without a model",
    "too_little_prose": "have too little prose",
    "no_complete_sentence": "have no complete sentence",
    "stands_elsewhere": "have only sentences that are in other documents, too",
}
"""What passages are like that the rules write no question about, by the reason they give."""

RETIRED = "its quote is gone from its document"


@dataclass(frozen=True)
class StageReport:
    """What a stage of the renewal did; numbers and ids only."""

    reason: str
    counts: Mapping[str, Any] = field(default_factory=dict)
    rules: Sequence[RuleResult] = ()
    made: str | None = None

    def metadata(self) -> dict[str, Any]:
        return {"reason": self.reason, **self.counts}


def renew_sample(
    db: Database, store: "ChromaStore", client_id: str, spec: BenchmarkSpec, now: datetime | None = None
) -> StageReport:
    """Draws the chunks to write questions about, for each dataset of which a renewal is due.

    Where only the documents changed, every item's quote still stands and the dataset lacks no question, it stays as it
    is; items that a person has verified stay also without their quote.

    Raises:
        DatasetError: the client has no chunks, or a size was asked for that may be meant for any of several datasets.
    """
    return _of_each(db, client_id, spec, lambda each: _draw(db, store, client_id, each, now))


def _of_each(
    db: Database, client_id: str, spec: BenchmarkSpec, stage: Callable[[BenchmarkSpec], StageReport]
) -> StageReport:
    """What a stage did for each dataset that is meant, together; of several each by its name."""
    reports = {each.name: stage(each) for each in specs_of(db, client_id, spec)}
    if len(reports) == 1:
        return next(iter(reports.values()))
    made = [report.made for report in reports.values() if report.made]
    return StageReport(
        "; ".join(f"{name}: {report.reason}" for name, report in reports.items()),
        {f"{name}/{key}": value for name, report in reports.items() for key, value in report.counts.items()},
        merged(rule for report in reports.values() for rule in report.rules),
        "; ".join(made) or None,
    )


def _draw(db: Database, store: "ChromaStore", client_id: str, spec: BenchmarkSpec, now: datetime | None) -> StageReport:
    renewal = renewal_due(db, client_id, spec, now)
    dataset = current_dataset(db, client_id, spec)
    if renewal is None:
        if dataset is not None and spec.exact:
            benchmark_storage.save_stats(db, dataset.id, {**dataset.stats, **size_stats(spec, dataset)})
        return StageReport(_kept(dataset))
    client = client_storage.get_client(db, client_id)
    if (
        dataset is not None
        and renewal.extent == "repair"
        and dataset.qa_count >= renewal.size
        and not panel_of(db, store, client_id, dataset, spec, renewal).retiring
    ):
        # Unchanged, it also fits the present corpus.
        benchmark_storage.save_stats(db, dataset.id, {**dataset.stats, "corpus_version": client.corpus_version})
        return StageReport("the documents changed, and no question has to be replaced")
    strategy = _strategy(spec, dataset)
    entries = [entry for page in corpus_storage.iter_manifest(db, client_id) for entry in page]
    if not entries:
        raise DatasetError(f"client {client_id!r} has no chunks with text: ingest documents first")
    documents = {entry.chunk_key: entry.document_id for entry in entries}
    spent = _spent(db, client_id, spec, renewal)
    keys = draw_sample(
        entries,
        size=renewal.size,
        strategy=strategy,
        seed=spec.seed,
        vectors=lambda drawn: store.vectors(client_id, [entry.chunk_id for entry in drawn]),
        spare=renewal.size * ((SAMPLE_SHARE if spec.shares else SAMPLE_SHARE_BY_RULE) - 1) + len(spent),
    )
    if dataset is not None and renewal.extent != "draw" and strategy != "recent":
        # What the dataset asks least about comes first, so that with time it asks about all documents.
        items = benchmark_storage.dataset_items(db, dataset.id)
        touched = Counter(document_id for item in items for document_id in item.document_ids)
        turns: dict[str, int] = {}
        for key in keys:
            turns[key] = touched[documents[key]]
            touched[documents[key]] += key not in spent
        keys.sort(key=turns.__getitem__)
    sample = Sample(
        sample_id=_sample_id(db, client_id, spec, renewal, dataset),
        client_id=client_id,
        corpus_version=client.corpus_version or "",
        strategy=strategy,
        seed=spec.seed,
        size=renewal.size,
        chunk_keys=tuple(keys),
    )
    benchmark_storage.save_sample(db, sample)
    languages = _languages(_sampled_chunks(db, store, sample), spec)
    return StageReport(
        renewal.reason,
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


def _strategy(spec: BenchmarkSpec, dataset: Dataset | None) -> str:
    return spec.strategy or (dataset.stats.get("strategy") if dataset else None) or DEFAULT_STRATEGY


def _sample_id(db: Database, client_id: str, spec: BenchmarkSpec, renewal: Renewal, dataset: Dataset | None) -> str:
    """The same in all stages of a renewal."""
    version = client_storage.get_client(db, client_id).corpus_version or ""
    return digest(client_id, spec.name, version, _strategy(spec, dataset), str(spec.seed), str(renewal.size))[:32]


def _used(db: Database, client_id: str, spec: BenchmarkSpec, renewal: Renewal) -> frozenset[str]:
    """The ids of the items that the dataset has, or had before they made room; none where all are drawn anew."""
    if renewal.extent == "draw":
        return frozenset()
    return frozenset(benchmark_storage.used_items(db, client_id, spec.name))


def _spent(db: Database, client_id: str, spec: BenchmarkSpec, renewal: Renewal) -> set[str]:
    """The chunks that have given all their questions: so many more are drawn, so that there are some to ask about."""
    if renewal.extent == "draw":
        return set()
    used = _used(db, client_id, spec, renewal)
    candidates = benchmark_storage.list_candidates(db, client_id, generator=spec.generator)
    return {each.chunk_key for each in candidates} - {each.chunk_key for each in candidates if _is_usable(each, used)}


def renew_candidates(
    db: Database,
    store: "ChromaStore",
    client_id: str,
    spec: BenchmarkSpec,
    generator: Generator,
    progress: Progress | None = None,
    now: datetime | None = None,
) -> StageReport:
    """Writes questions about the sampled chunks, in their order, until there are enough; each batch is stored.

    A chunk whose text was asked about before by the same generator is not asked about again: the question that it gave
    counts in its place, unless the dataset had it before.

    Raises:
        LanguageModelError: the generator's model refuses, or does not answer (BudgetReachedError: its budget is spent);
            the batches before are stored, and what it said since is in its cache.
    """
    return _of_each(db, client_id, spec, lambda each: _write(db, store, client_id, each, generator, progress, now))


def _write(
    db: Database,
    store: "ChromaStore",
    client_id: str,
    spec: BenchmarkSpec,
    generator: Generator,
    progress: Progress | None,
    now: datetime | None,
) -> StageReport:
    renewal = renewal_due(db, client_id, spec, now)
    dataset = current_dataset(db, client_id, spec)
    if renewal is None:
        return StageReport(_kept(dataset))
    generator = generator.in_styles(spec.styles)
    chunks = _sampled_chunks(db, store, _sample_of(db, client_id, spec, renewal, dataset))
    asked: dict[str, list[Candidate]] = {}
    for candidate in benchmark_storage.list_candidates(
        db, client_id, chunk_keys=[chunk.content_key for chunk in chunks], generator=generator.name
    ):
        asked.setdefault(candidate.chunk_key, []).append(candidate)
    # What failed because the model did is asked again; what failed because of the text would fail again. Who asks for a
    # new benchmark may have mended a model whose replies nobody understood.
    again = (MODEL_FAILED, NOT_UNDERSTOOD) if spec.always else (MODEL_FAILED,)
    outdated = _outdated(db, client_id, spec)
    known = {
        key: found
        for key, found in asked.items()
        if key not in outdated and not any(_failed_with(candidate, again) for candidate in found)
    }
    panel = panel_of(db, store, client_id, dataset, spec, renewal, chunks)
    remaining = panel.remaining()
    lacking = max(renewal.size, len(panel.staying)) - len(remaining)
    wanted = round(lacking * SPARE) + 1 if lacking else 0
    related = Related(chunks, spec.language, spec.seed, lambda: _corpus(db, store, client_id))
    in_the_way = panel.not_drawn(renewal) | _used(db, client_id, spec, renewal)
    # What there is too much of for other shares stands for nothing of which there is too little.
    reshaped = spec.shares if dataset is not None and spec.shares != dataset.stats.get("shares") else None
    gave_question = sum(any(map(may_be_drawn, found)) for found in known.values())
    usable: list[Candidate] = []
    written: list[Candidate] = []
    place = done = fruitless = 0
    while place < len(chunks) and _passages(usable) < wanted and not (spec.shares and fruitless >= FRUITLESS):
        tasks: list[Task] = []
        # In the order of the strategy, so that what it puts first is asked about, whatever is known of the rest.
        while place < len(chunks) and len(tasks) < _batch_size(
            spec, wanted - _passages(usable), gave_question, len(known) + done
        ):
            key = chunks[place].content_key
            if key in known:
                usable += [each for each in known[key] if _is_usable(each, in_the_way)]
                if reshaped is not None:
                    fitting = within([each.item for each in usable if each.item], wanted, reshaped)
                    usable = [usable[each] for each in fitting]
            else:
                # What was rejected before the model failed stays as it is.
                attempt = next((each.attempt for each in asked.get(key, ()) if _failed_with(each, again)), 0)
                tasks.append(Task(chunks[place], attempt=attempt))
            place += 1
        tasks = _planned(tasks, [*remaining, *items_of(usable)], spec, related)
        # By rule every chunk may be asked about, in many small batches.
        expected = wanted if spec.shares is not None else done + len(tasks) + len(chunks) - place
        found = generator.generate(tasks, related, _counted_from(done, len(tasks), expected, progress)) if tasks else []
        benchmark_storage.save_candidates(db, client_id, found)
        good = [candidate for candidate in found if _is_usable(candidate, in_the_way)]
        done, written, usable = done + len(tasks), [*written, *found], [*usable, *good]
        gave_question += _passages(good)
        fruitless = 0 if good else fruitless + len(tasks)
    return StageReport(
        renewal.reason,
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


def shortage(db: Database, dataset: Dataset) -> str | None:
    """Why a generated dataset has fewer questions than it was to have; None where it has as many, or was imported."""
    # What others wrote, or an earlier version, says nothing of the passages.
    if dataset.kind != "generated" or "passages" not in dataset.stats or dataset.qa_count >= planned_size(dataset):
        return None
    drafts = _turned_down(db, dataset.client_id, dataset.stats["generator"])
    reasons = ", or ".join(
        # Drafts of passages that changed since are among those of rules.
        BY_RULE.get(reason, f"{reason} {count}")
        for reason, count in _commonest(drafts)
    )
    left = dataset.stats["passages_left"]
    why = f"the next renewal tries {left} more" if left else "every passage was tried: add documents"
    if not left and BY_RULE.keys() & _reasons(drafts).keys():
        why += ", use a model, or import questions"
    gave = f"{plural(dataset.stats['passages'], 'passage')} gave {dataset.qa_count}"
    said = [
        f"{gave} of the {planned_size(dataset)} questions wanted",
        f"the others most often {reasons}" if reasons else "",
        why,
    ]
    return "; ".join(filter(None, said))


def _commonest(drafts: Iterable[Candidate]) -> list[tuple[str, int]]:
    """The commonest reasons, and how many drafts have each."""
    return Counter(_reasons(drafts)).most_common(MOST_REASONS)


def _turned_down(db: Database, client_id: str, generator: str | None) -> list[Candidate]:
    """The drafts of a generator, or of any, that became no question."""
    found = benchmark_storage.list_candidates(db, client_id, generator=generator)
    return [each for each in found if each.status in ("failed", "rejected")]


def _outdated(db: Database, client_id: str, spec: BenchmarkSpec) -> set[str]:
    """The passages of which rules asked nothing since other documents had their sentences, and of which that may not be
    so any more: the corpus has changed."""
    changed = corpus_storage.last_change(db, client_id) if spec.shares is None else None
    if changed is None:
        return set()
    return benchmark_storage.failed_before(db, client_id, spec.generator, changed, "stands_elsewhere")


def _failed_with(candidate: Candidate, reasons: tuple[str, ...]) -> bool:
    return any(reason.startswith(reasons) for reason in candidate.reasons)


def _is_usable(candidate: Candidate, in_the_way: Collection[str]) -> bool:
    """Whether a candidate is likely to become a new item: the rules did not keep it out, nor did its quote go."""
    return candidate.status in ("new", "accepted") and may_be_drawn(candidate, in_the_way)


def _passages(candidates: Iterable[Candidate]) -> int:
    """Of how many chunks candidates are: a question about another one tells more."""
    return len({each.chunk_key for each in candidates})


def _batch_size(spec: BenchmarkSpec, lacking: int, gave_question: int, asked: int) -> int:
    """About how many chunks to ask, so that the questions lacking come of them as often as of those before."""
    if spec.shares is None:
        return WRITE_BATCH if lacking > 0 else 0
    share = max(gave_question / asked, LEAST_YIELD) if asked else 1.0
    return min(ceil(max(lacking, 0) / min(share, 1.0)), MODEL_BATCH)


def _planned(tasks: Sequence[Task], items: Iterable[Item], spec: BenchmarkSpec, related: Related) -> list[Task]:
    """The tasks with the kinds of questions that are lacking beside the items that there are."""
    if spec.shares is None:
        return list(tasks)
    have: Counter[QuestionKind] = Counter(kind_of(item) for item in items)
    kinds = plan([task.chunk for task in tasks], have, spec.shares, related)
    return [replace(task, kind=kind) for task, kind in zip(tasks, kinds, strict=True)]


def _counted_from(before: int, size: int, expected: int, progress: Progress | None) -> Progress | None:
    """Progress of a batch of chunks as that of all of them, of which there are as many as expected, or more."""
    if progress is None:
        return None
    return lambda done, _: progress(before + done, max(before + size, expected))


def no_question(db: Database, client_id: str, generator: str | None = None) -> str:
    """Why a generator, or any of them, has written no question: the number of drafts of passages that the corpus has
    now, and their commonest reasons."""
    present = {entry.content_key for page in corpus_storage.iter_manifest(db, client_id) for entry in page}
    drafts = [each for each in _turned_down(db, client_id, generator) if each.chunk_key in present]
    named = "; ".join(
        f"{count} {BY_RULE[reason]}" if reason in BY_RULE else f"{reason} {count}"
        for reason, count in _commonest(drafts)
    )
    return f"of {len(drafts)} drafts none became a question" + (f" ({named})" if named else "")


def _reasons(candidates: Iterable[Candidate]) -> dict[str, int]:
    """How many candidates have each reason; what stands in brackets behind it does not tell reasons apart."""
    counts = Counter(
        reason.partition(" ")[0] for candidate in candidates for reason in candidate.reasons if reason != UNSEEN
    )
    return dict(sorted(counts.items()))


def renew_dataset(
    db: Database,
    store: "ChromaStore",
    client_id: str,
    spec: BenchmarkSpec,
    embedder: "Embedder",
    now: datetime | None = None,
) -> StageReport:
    """Judges the candidates by the quality rules and freezes those that pass as a dataset version.

    Items whose quote still stands stay, but those that make room where the dataset is renewed for its age; those whose
    quote is gone retire with that reason. Where nothing is left, there is no new dataset: what the client had before,
    and its imported ones, can still be evaluated.

    Of all the client's current datasets it is noted what the corpus, as it is now, lacks of them, and how much of it
    they touch.
    """
    moment = now or datetime.now(UTC)
    report = _of_each(db, client_id, spec, lambda each: _freeze(db, store, client_id, each, embedder, moment))
    note_corpus(db, store, client_id, benchmark_storage.current_datasets(db, client_id))
    return replace(report, counts={**_counts(db, client_id, spec), **report.counts})


def _freeze(
    db: Database,
    store: "ChromaStore",
    client_id: str,
    spec: BenchmarkSpec,
    embedder: "Embedder",
    now: datetime,
) -> StageReport:
    from rageval_dagster.benchmark.validation import validate

    renewal = renewal_due(db, client_id, spec, now)
    dataset = current_dataset(db, client_id, spec)
    if renewal is None:
        rules = [RuleResult.from_row(row) for row in dataset.stats.get("rules", ())] if dataset else []
        return StageReport(_kept(dataset), {}, rules)
    sample = _sample_of(db, client_id, spec, renewal, dataset)
    chunks = _sampled_chunks(db, store, sample)
    panel = panel_of(db, store, client_id, dataset, spec, renewal, chunks)
    retired = [replace(candidate, status="retired", reasons=(RETIRED,)) for candidate in panel.retiring]
    benchmark_storage.save_candidates(db, client_id, retired)
    order = {chunk.content_key: position for position, chunk in enumerate(chunks)}
    written = benchmark_storage.list_candidates(db, client_id, chunk_keys=list(order), generator=spec.generator)
    in_the_way = panel.not_drawn(renewal)
    drawn = revived(db, store, client_id, [each for each in written if may_be_drawn(each, in_the_way)])
    used = _used(db, client_id, spec, renewal)
    passages = {each.chunk_key for each in written if not _failed_with(each, (MODEL_FAILED,))}
    if len(passages) < len(chunks):
        # What made room comes back only when there is nothing else to ask about.
        drawn = [each for each in drawn if each.item is None or each.item.item_id not in used]
    drawn.sort(
        # Of several questions about one passage those after the first only fill up.
        key=lambda each: (each.item is not None and each.item.item_id in used, each.attempt, order[each.chunk_key])
    )
    refused = [
        candidate.item
        for candidate in benchmark_storage.list_candidates(db, client_id)
        if candidate.item and is_settled(candidate)
    ]
    texts = _texts_of_evidence(db, store, client_id, drawn)
    texts.update((chunk.content_key, chunk.text) for chunk in chunks)
    kept_ids = {candidate.candidate_id for candidate in panel.standing}
    report = validate(
        [*panel.standing, *drawn], texts, embedder, staying=kept_ids, verified=panel.verified, refused=refused
    )
    measured = with_difficulty(store, client_id, report.accepted, embedder)
    benchmark_storage.save_candidates(db, client_id, [*measured, *report.rejected])
    staying = len(panel.verified) + sum(candidate.candidate_id in kept_ids for candidate in report.accepted)
    items = renewed(report.items, staying, panel, renewal.size, spec.shares)
    if not items:
        rules = [replace(rule, blocking=False) for rule in report.rule_results]
        return StageReport(f"{renewal.reason}; {no_question(db, client_id, spec.generator)}", {}, rules)
    renewed_at = dataset.renewed_at if dataset is not None and renewal.extent == "repair" else now
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
            **size_stats(spec, dataset),
            "planned": renewal.size,
            "passages": len(passages),
            "passages_left": len(chunks) - len(passages),
            "renewed_at": renewed_at.isoformat(),
            "generator": spec.generator,
            "shares": spec.shares,
            "styles_asked": spec.styles if spec.styled else None,
            "rejected": dict(Counter(report.rejections) + Counter(_reasons(filter(was_turned_down, written)))),
            "categories": dict(sorted(Counter(item.category for item in items).items())),
            "unanswerable": sum(not item.answerable for item in items),
            **difficulty_stats(measured),
            "rules": [asdict(result) for result in report.rule_results],
        },
    )
    stayed = {item.item_id for item in items} & panel.present
    gone = {item.item_id for item in items_of(panel.retiring)}
    changes = {
        "stayed": len(stayed),
        "new": len(items) - len(stayed),
        "retired": len(gone),
        "made_room": len(panel.present - stayed - gone),
    }
    made = f"dataset {saved.id}: {plural(len(items), 'question')}, {len(items) - len(stayed)} of them new"
    return StageReport(renewal.reason, changes, report.rule_results, made)


def _kept(dataset: Dataset | None) -> str:
    if dataset is None:
        return "this run writes no questions"
    return f"dataset {dataset.id} is recent: kept"


def _counts(db: Database, client_id: str, spec: BenchmarkSpec) -> dict[str, Any]:
    """The one generated dataset that is meant in numbers, and the coverage of all that the client has now."""
    counts: dict[str, Any] = {}
    names = [each.name for each in specs_of(db, client_id, spec)]
    for dataset in benchmark_storage.current_datasets(db, client_id):
        if [dataset.name] == names:
            counts |= {
                "dataset_id": dataset.id,
                "dataset_version": dataset.dataset_version,
                "questions": dataset.qa_count,
                "categories": dataset.stats.get("categories", {}),
                "unanswerable": dataset.stats.get("unanswerable", 0),
                "rejected_by_rule": dataset.stats.get("rejected", {}),
                **dataset.coverage.metadata(),
                "flagged": list(dataset.flagged),
            }
        else:
            counts |= {**dataset.coverage.metadata(f"{dataset.name}/"), f"{dataset.name}/flagged": len(dataset.flagged)}
    return counts


def _texts_of_evidence(
    db: Database, store: "ChromaStore", client_id: str, candidates: Sequence[Candidate]
) -> dict[str, str]:
    """The texts of the chunks that hold the quotes of questions over several documents: the sample may lack some."""
    items = [each.item for each in candidates if each.item and len(each.item.evidence) > 1]
    found = resolve(items, db, store, client_id).values()
    ids = {chunk_id for each in found for chunk_ids in each.of_each.values() for chunk_id in chunk_ids}
    return {chunk.content_key: chunk.text for chunk in store.get(client_id, sorted(ids))}


def _sample_of(db: Database, client_id: str, spec: BenchmarkSpec, renewal: Renewal, dataset: Dataset | None) -> Sample:
    sample = benchmark_storage.get_sample(db, client_id, _sample_id(db, client_id, spec, renewal, dataset))
    if sample is None:
        raise DatasetError(
            f"client {client_id!r} has no sample of its current chunks yet: materialize chunk_sample first, or run "
            "`rageval evaluate --client NAME`"
        )
    return sample


def _sampled_chunks(db: Database, store: "ChromaStore", sample: Sample) -> list[Chunk]:
    """The chunks of a sample that the store still has, in the order drawn."""
    entries = corpus_storage.manifest_lookup(db, sample.client_id, sample.chunk_keys)
    ids = [entries[key].chunk_id for key in sample.chunk_keys if key in entries]
    chunks = {chunk.id: chunk for chunk in store.get(sample.client_id, ids)}
    return [chunks[chunk_id] for chunk_id in ids if chunk_id in chunks]


def _corpus(db: Database, store: "ChromaStore", client_id: str) -> Iterator[Chunk]:
    """The corpus as last scanned, up to `COMPARED_CHUNKS` of it."""
    pages = corpus_storage.iter_manifest(db, client_id, page_size=COMPARED_AT_A_TIME)
    for page in islice(pages, COMPARED_CHUNKS // COMPARED_AT_A_TIME):
        yield from store.get(client_id, [entry.chunk_id for entry in page])


def _languages(chunks: Sequence[Chunk], spec: BenchmarkSpec) -> dict[str, float]:
    return language_shares((chunk.text for chunk in chunks), spec.language)
