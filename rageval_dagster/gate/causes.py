"""What changed between two evaluations, of corpus, index, dataset, system and judge, and what questions suffer from."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from rageval_dagster.gate.comparison import Pair
from rageval_dagster.identity import digest
from rageval_dagster.records import Item, Result
from rageval_dagster.storage import benchmark as benchmark_storage
from rageval_dagster.storage import clients as client_storage
from rageval_dagster.storage import corpus as corpus_storage
from rageval_dagster.storage import scores as score_storage
from rageval_dagster.storage.caches import models_asked
from rageval_dagster.storage.comparisons import Change
from rageval_dagster.storage.corpus import DocumentChange, ManifestEntry
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.evaluations import Evaluation, has_changed_silently
from rageval_dagster.text import named, plural

UNVERSIONED = "it declares no version, and may have changed"
LOST_EVIDENCE = "evidence"
"""What a change is called by which so many questions lost their evidence, or so many documents are gone, that the run
cannot pass."""
GONE = "gone"
"""What it is called where fewer did or are: it is told, and decides nothing."""
EDITED = "edited"
"""What it is called where documents are all there, and an edit took the evidence of hardly any question."""
CHANGED_ANSWERS = "changed_answers"
"""By which the answers became quite other ones, while no judge model reads them: the run cannot pass."""
MOST_LOST = 0.2
"""Of the questions that had evidence, or of the documents: where as many or more are lost, what is left tells too
little."""
LOSSES = (LOST_EVIDENCE, GONE)
HARDLY_ANY = 0.05
"""Of the questions that had evidence; be it one."""
MOST_METRICS = 5
MOST_DOCUMENTS = 3
"""So many documents are named, where questions lost their evidence."""
UNRETURNED = ("index", "system")
"""The changes that name documents which no longer come back."""
MOST_UNRETURNED = 100
"""So many documents are kept that the system no longer returns."""
MOSTLY = 0.5
"""Of a store's passages; with fewer that belong to no document, what is gone are documents."""

LEFT_DOCUMENTS = "its quote is no longer in the documents"


@dataclass(frozen=True)
class GoneItem:
    """A question that the later evaluation does not ask, or judges otherwise, and why."""

    item: Item
    why: str


def gone_items(db: Database, before: Evaluation, now: Evaluation) -> list[GoneItem]:
    """The questions of the earlier evaluation, as far as they are kept, that the later one does not share."""
    if before.dataset_id == now.dataset_id:
        return []
    asked = {(item.item_id, item.grading_key) for item in benchmark_storage.remaining_items(db, now.dataset_id)}
    known = {item_id for item_id, _ in asked}
    candidates = benchmark_storage.list_candidates(db, now.client_id)
    retired = {each.item.item_id for each in candidates if each.item is not None and each.status == "retired"}

    def why(item: Item) -> str:
        if item.item_id in known:
            return "its evidence or its expected answer changed"
        return LEFT_DOCUMENTS if item.item_id in retired else "it made room for others, or was removed"

    earlier = benchmark_storage.remaining_items(db, before.dataset_id)
    return [GoneItem(item, why(item)) for item in earlier if (item.item_id, item.grading_key) not in asked]


def lost_evidence(db: Database, baseline: Evaluation, good: Evaluation, now: Evaluation) -> Change | None:
    """Which documents are gone, and how many questions lost their evidence; None where nothing was lost.

    Such questions leave the means, so that a lost document would look as if nothing had happened. Questions that are
    still asked had it in the baseline; those that were retired since, and may have been replaced, had it in the last
    good evaluation. Documents that no question is about count since then, too.
    """
    _, lacking = _by_evidence(db, now)
    retired = {each.item.item_id for each in gone_items(db, good, now) if each.why == LEFT_DOCUMENTS}
    missing = _removed_documents(db, good, now)
    if not lacking and not retired and not missing:  # as on most nights, which need not read the others' scores
        return None
    # Where the store mostly names no documents, a passage that was edited may have got another id.
    unnamed = corpus_storage.unnamed_share(db, now.client_id) > MOSTLY
    missing = set[str]() if unnamed else missing
    had, _ = _by_evidence(db, good)
    accepted = had if good.id == baseline.id else _by_evidence(db, baseline)[0]
    lost = (accepted & lacking) | (had & retired)
    had = had | lost
    if not lost and not missing:
        return None
    items = [item for each in (baseline, good) for item in benchmark_storage.remaining_items(db, each.dataset_id)]
    needed = [set(item.document_ids) for item in items if item.item_id in lost]
    documents = set[str]().union(*needed)
    gone = corpus_storage.absent_documents(db, now.client_id, documents)
    asked_about = gone - corpus_storage.moved_documents(db, now.client_id, gone).keys()
    # Of a question about several documents, one of which is gone, the others may be as they were.
    edited = sorted(set[str]().union(*(each for each in needed if asked_about.isdisjoint(each))))
    removed = [*sorted(asked_about), *sorted(missing - asked_about)]
    why = _what_became_of(len(removed), len(edited), unnamed)
    of = f"{len(lost)} of {plural(len(had), 'question')}" if lost else "no question"
    said = f"{why}; {of} lost {'their' if len(lost) > 1 else 'its'} evidence"
    before = corpus_storage.document_count(db, now.client_id) + len(missing)
    decides = len(lost) >= max(MOST_LOST * len(had), 2) or len(missing) >= max(MOST_LOST * before, 2)
    is_edit = not removed and len(lost) <= max(HARDLY_ANY * len(had), 1)
    shown = tuple([*removed, *edited][:MOST_DOCUMENTS])
    what = LOST_EVIDENCE if decides else EDITED if is_edit else GONE
    return Change(what, said, worse=len(lost) or None, documents=shown)


def _removed_documents(db: Database, good: Evaluation, now: Evaluation) -> set[str]:
    """The documents of which scans since the last good evaluation found every passage to be removed."""
    changed = documents_between(db, good, now)
    return {document_id for document_id, change in changed.items() if change.what == "removed"}


def documents_between(db: Database, before: Evaluation, now: Evaluation) -> dict[str, DocumentChange]:
    """How documents changed between two evaluations, by document id; none where all are as they were, whatever came and
    went in between."""
    if before.versions.corpus == now.versions.corpus:
        return {}
    return corpus_storage.documents_changed(db, now.client_id, before.started_at, now.started_at)


def _what_became_of(removed: int, edited: int, unnamed: bool) -> str:
    """`12 documents are gone, 8 that held evidence were edited or cut`: only those that questions are about."""
    if unnamed and removed:
        count = removed + edited
        return f"{plural(count, 'passage')} {'was' if count == 1 else 'were'} removed or edited"
    was_edited = f"that held evidence {'was' if edited == 1 else 'were'} edited or cut"
    if not removed:
        return f"{plural(edited, 'document')} {was_edited}"
    gone = f"{plural(removed, 'document')} {'is' if removed == 1 else 'are'} gone"
    return gone + (f", {edited} {was_edited}" if edited else "")


def detail_of(changes: Iterable[Change], what: str) -> str | None:
    """The clause in which one of the changes says what happened; None where that did not."""
    return next((each.detail for each in changes if each.what == what), None)


def gone_in(changes: Iterable[Change]) -> Change | None:
    """What was lost, be it so little that it decides nothing; None where nothing was."""
    return next((each for each in changes if each.what in LOSSES), None)


def documents_told(db: Database, evaluation: Evaluation, changes: Iterable[Change]) -> dict[str, str]:
    """What people call the documents that changes name, by id."""
    ids = [document_id for change in changes for document_id in change.documents]
    return corpus_storage.document_names(db, evaluation.client_id, ids)


def _by_evidence(db: Database, evaluation: Evaluation) -> tuple[set[str], set[str]]:
    """The items that could be scored for retrieval, and those for which that was undefined at every level."""
    versions = {each.metric_id: each.metric_version for each in score_storage.load_summaries(db, evaluation.id)}
    ranked = {name: versions[name] for name in ("retrieval.mrr", "retrieval.document_mrr") if name in versions}
    outcomes = score_storage.load_scores(db, evaluation.id, ranked).values()
    scored = {item_id for each in outcomes for item_id, found in each.items() if found.status == "scored"}
    undefined = {item_id for each in outcomes for item_id, found in each.items() if found.status == "undefined"}
    failed = {item_id for each in outcomes for item_id, found in each.items() if found.status == "error"}
    return scored, undefined - scored - failed


def changes(db: Database, pair: Pair) -> list[Change]:
    """Which of the five versions changed from the earlier evaluation to the later one, with counts.

    The index is named where vectors changed that no change of the corpus accounts for: re-embedded.
    """
    before, now = pair.before, pair.now
    found: list[Change] = []
    counts = corpus_storage.changes_between(db, now.client_id, before.started_at, now.started_at)
    if before.versions.corpus != now.versions.corpus:
        kinds = {kind: counts[kind] for kind in ("added", "changed", "removed") if counts.get(kind)}
        said = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
        found.append(Change("corpus", f"{said or 'other'} {'chunk' if sum(kinds.values()) == 1 else 'chunks'}"))
    if counts.get("reembedded") and before.versions.index != now.versions.index:
        found.append(Change("index", _reembedded(db, now.client_id, counts)))
    elif before.versions.corpus == now.versions.corpus and before.versions.index != now.versions.index:
        found.append(Change("index", "re-embedded"))
    if before.versions.dataset != now.versions.dataset:
        shared = len(pair.shared)
        detail = (
            f"{plural(shared, 'shared question')}, {pair.now_count - shared} new, {pair.before_count - shared} gone"
        )
        found.append(Change("dataset", detail))
    if system := _system(before, now):
        found.append(Change("system", system))
    if judged := _judges(db, pair):
        found.append(Change("judge", judged))
    return [replace(change, since=before.id) for change in found]


def _reembedded(db: Database, client_id: str, counts: Mapping[str, int]) -> str:
    """How many chunks have another vector: of several times at most their sum, since the same may be among them."""
    if counts["reembeddings"] == 1:
        return f"re-embedded {plural(counts['reembedded'], 'chunk')}"
    chunks = client_storage.get_client(db, client_id).chunk_count
    most = min(counts["reembedded"], chunks or counts["reembedded"])
    return f"re-embedded up to {plural(most, 'chunk')}, {counts['reembeddings']} times"


def blamed(
    db: Database, pair: Pair, found: Sequence[Change], worse: Iterable[str], better: Iterable[str] = ()
) -> list[Change]:
    """The changes with how many of the items that got worse, or better, are laid to each, the most blamed first.

    An item is laid to the corpus where its evidence's chunks differ, or a passage was retrieved that was not there
    before; to the index where the same passages rank otherwise; to the system where it retrieved the same and answered
    otherwise, or where the corpus and the index are the same; to the judge where nothing but the score changed. Of
    changes that did not happen none is blamed.

    A change of the index or the system names the documents that came back before as evidence for one of its items, and
    now come back for no question: those of most items first.
    """
    worse = set(worse)
    moved = worse | set(better)
    if not moved or not found:
        return list(found)
    before, now = pair.results(db)
    present = {change.what for change in found}
    counts: dict[bool, Counter[str]] = {True: Counter(), False: Counter()}
    moved = sorted(item_id for item_id in moved if item_id in before and item_id in now)
    keys = {digest(hit.chunk_id) for item_id in moved for hit in now[item_id].hits}
    found_now = corpus_storage.manifest_lookup(db, pair.now.client_id, keys).values()
    entries = {entry.chunk_id: entry for entry in found_now}
    # What failed tonight may bring back what it did.
    results = (before[item_id] if result.error and item_id in before else result for item_id, result in now.items())
    returned = {hit.document_id for result in results for hit in result.hits}
    unreturned: dict[str, Counter[str]] = defaultdict(Counter)
    for item_id in moved:
        cause = _cause(before[item_id], now[item_id], present, entries, pair.before.started_at)
        counts[item_id in worse][cause or ""] += 1
        if item_id in worse and cause in UNRETURNED:
            came_back = {hit.document_id for hit in before[item_id].hits}
            unreturned[cause].update(came_back.intersection(pair.shared[item_id].document_ids) - returned)
    told = [
        replace(
            change,
            worse=counts[True][change.what],
            better=counts[False][change.what],
            documents=tuple(document for document, _ in unreturned[change.what].most_common(MOST_UNRETURNED)),
        )
        for change in found
    ]
    return sorted(told, key=lambda change: -(change.worse or 0))


def _cause(
    before: Result, now: Result, present: set[str], entries: Mapping[str, ManifestEntry], since: datetime
) -> str | None:
    ranking, ranking_now = ([hit.chunk_id for hit in result.hits] for result in (before, now))
    if ranking != ranking_now or before.relevant_chunks != now.relevant_chunks:
        if "corpus" in present and _is_of_corpus(before, now, entries, since):
            return "corpus"
        causes = ("index", "system", "corpus")
    elif before.answer != now.answer or before.error != now.error:
        causes = ("system", "corpus", "index")
    else:
        causes = ("judge", "system")
    return next((cause for cause in causes if cause in present), None)


def _is_of_corpus(before: Result, now: Result, entries: Mapping[str, ManifestEntry], since: datetime) -> bool:
    """Whether the evidence stands in other chunks, or a passage came back whose text was not there before."""
    if before.relevant_chunks != now.relevant_chunks:
        return True
    earlier = {hit.chunk_id: hit.text for hit in before.hits}
    for hit in now.hits:
        if hit.chunk_id in earlier and earlier[hit.chunk_id] != hit.text:
            return True
        entry = entries.get(hit.chunk_id)
        if hit.chunk_id not in earlier and entry is not None and entry.first_seen > since:
            return True
    return False


def _system(before: Evaluation, now: Evaluation) -> str | None:
    if before.answered_nothing or now.answered_nothing:
        return None  # its responses may declare the version
    if before.versions.system != now.versions.system:
        if has_changed_silently(before.versions.system, now.versions.system):
            return f"its version is still {now.system_declared}, but it returned other passages or answers"
        if before.system_declared == now.system_declared:
            return "its settings"
        if before.of_recorded_answers or now.of_recorded_answers:
            return "different recorded answers"
        return f"version {before.system_declared or 'not declared'} -> {now.system_declared or 'not declared'}"
    if now.system_declared is None or before.system_declared is None:
        return UNVERSIONED
    return None


def _judges(db: Database, pair: Pair) -> str | None:
    """The metrics of another version; first the judge's model then and now, where it is another and both were asked."""
    other = sorted(name for name, scores in pair.scores.items() if scores.judge_changed)
    if not other:
        return None
    metrics = named(other, MOST_METRICS)
    then, now = (
        ", ".join(models_asked(db, each.client_id, each.dagster_run_id, "judge")) for each in (pair.before, pair.now)
    )
    return f"model {then} -> {now}: {metrics}" if then and now and then != now else metrics
