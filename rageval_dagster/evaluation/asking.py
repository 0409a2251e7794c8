"""The stages in which a system is asked: every question is retrieved and answered, and stored by content."""

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import ceil
from typing import Any

from rageval_dagster.benchmark.wording import content_tokens
from rageval_dagster.corpus.evidence import Resolution, names_pages, resolve
from rageval_dagster.corpus.matching import MATCHING_REVISION, Placed, Stray, place_hits, stray_owners
from rageval_dagster.corpus.store import ChromaStore
from rageval_dagster.errors import BudgetReachedError
from rageval_dagster.evaluation.stages import BATCH, StageReport, offset_progress
from rageval_dagster.identity import digest, digest_json
from rageval_dagster.rag.system import AnswerOutcome, RagSystem, Retrieval
from rageval_dagster.records import UNKEPT, Answer, Hit, Item, Progress, Result
from rageval_dagster.storage import benchmark as benchmark_storage
from rageval_dagster.storage import results as result_storage
from rageval_dagster.storage.database import Database, in_batches
from rageval_dagster.storage.evaluations import (
    Evaluation,
    after_silent_changes,
    known_silent_changes,
    silent_changes,
    update_evaluation,
)
from rageval_dagster.storage.results import RESULT, RETRIEVAL, ResultRecord, RetrievalRecord

OTHER_WORDS = 0.25
"""Of the words of the shorter of two answers, so few are in both that they say something else."""
LOOKED_AT, LOOKED_AT_SHARE = 5, 0.05
"""So many questions, and such a share of them, are asked again although the system's version is the same."""


def run_retrieval(
    db: Database,
    store: ChromaStore,
    system: RagSystem,
    evaluation: Evaluation,
    progress: Progress | None = None,
) -> StageReport:
    """Asks the system every question that has no equal retrieval yet, in batches, and stores hits with their ranks.

    A retrieval is reused where question, system, corpus and index are the same; one that failed or leaked never is, and
    none of a system that declares no version. A system of another make may change without another version, so some
    questions are asked again each time. Where what comes back is not what did, its version stands for nothing: it gets
    another one here, and all are asked. A system that answers at once has its answers stored here too.
    """
    evaluation = _as_known(db, evaluation)
    items = {item.item_id: item for item in benchmark_storage.dataset_items(db, evaluation.dataset_id)}
    pending = [row.item_id for row in result_storage.run_items(db, evaluation.id) if row.retrieval_id is None]
    by_page = names_pages(items.values())
    open_items = {item_id: items[item_id] for item_id in pending if item_id in items}
    keys = _retrieval_keys(system, evaluation, open_items.values(), by_page)
    stored = result_storage.reusable(db, evaluation.client_id, filter(None, keys.values()))
    known = {item_id: stored[key] for item_id, key in keys.items() if key in stored}
    looked = _looked_at(db, system, evaluation, open_items, known)

    def ask_these(item_ids: Iterable[str]) -> list[_Said]:
        batches = in_batches(item_ids, BATCH)
        asked = ([items[item_id] for item_id in batch] for batch in batches)
        return [each for batch in asked for each in _ask(db, store, system, evaluation, batch, by_page)]

    said = ask_these(looked)
    told = [each for each in said if each.is_of(evaluation)]
    failed = sum(each.record.error is not None for each in said)
    if _is_changed(evaluation, told, looked, ask_these):
        evaluation = _changed_silently(db, evaluation)
        keys = _retrieval_keys(system, evaluation, open_items.values(), by_page)
        known = {}
    elif len(told) < len(said) or 2 * failed > len(said):
        known = {}  # it is being replaced, or what failed may have failed for all
    reused = {item_id: (known[item_id], keys[item_id]) for item_id in known if item_id not in looked}
    result_storage.link(db, evaluation.id, RETRIEVAL, reused)
    _save(db, system, evaluation, said, keys)
    missing = [item_id for item_id in keys if item_id not in looked and item_id not in reused]
    asked = [items[item_id] for item_id in missing]
    resolutions = resolve(asked, db, store, evaluation.client_id, by_page) if asked else {}
    for batch in in_batches(missing, BATCH):
        found = _ask(db, store, system, evaluation, [items[item_id] for item_id in batch], by_page, resolutions)
        _save(db, system, evaluation, found, keys)
        said += found
        if progress is not None:
            progress(len(said), len(looked) + len(missing))
    return StageReport(
        total=len(items),
        reused=len(items) - len(said),
        errors=sum(each.record.error is not None for each in said),
        later=sum(each.retrieval.error is None and each.retrieval.attempts > 1 for each in said),
    )


@dataclass(frozen=True)
class _Said:
    """What a system said to a question: as it said it, and as it is stored."""

    item: Item
    retrieval: Retrieval
    answer: AnswerOutcome | None
    record: RetrievalRecord

    def is_of(self, evaluation: Evaluation) -> bool:
        """Whether the version that answered is the evaluation's: else the system is being replaced meanwhile."""
        return self.retrieval.version in (None, evaluation.system_declared)

    @property
    def leaks(self) -> bool:
        owners = [hit.owner for hit in self.record.hits or ()]
        return "foreign" in (*owners, None if self.answer is None else self.answer.owner)


@dataclass(frozen=True)
class _Before:
    """What a question brought back before: the ids of the chunks, and the answer, if it is kept."""

    chunks: Sequence[str]
    answer: Answer | None


def _looked_at(
    db: Database, system: RagSystem, evaluation: Evaluation, items: Mapping[str, Item], known: Mapping[str, str]
) -> dict[str, _Before]:
    """{item id: what it brought back before} of the questions that are asked although they have an equal retrieval:
    what the system was asked for its version, and others, each time other ones.

    Args:
        known: the retrieval ids of the items that have one.
    """
    if not system.answers_at_once or evaluation.system_declared is None or system.recorded:
        return {}
    client_id = evaluation.client_id
    count = max(LOOKED_AT, ceil(LOOKED_AT_SHARE * len(known)))

    def order(item_id: str) -> tuple[bool, str]:
        return not system.was_asked(items[item_id], evaluation.depth), digest(evaluation.trigger, item_id)

    drawn = sorted(known, key=order)[:count]
    chunks = result_storage.returned_chunks(db, client_id, [known[item_id] for item_id in drawn])
    versions = _answer_versions(system, evaluation)
    answered = {item_id: digest(known[item_id], *versions, items[item_id].grading_key) for item_id in drawn}
    results = result_storage.reusable(db, client_id, answered.values())
    answers = result_storage.answers_of(db, client_id, results.values())
    return {
        item_id: _Before(chunks[known[item_id]], answers.get(results.get(answered[item_id], ""))) for item_id in drawn
    }


def _is_changed(
    evaluation: Evaluation,
    said: Sequence[_Said],
    before: Mapping[str, _Before],
    ask_again: Callable[[Iterable[str]], list[_Said]],
) -> bool:
    """Whether a system that told the same version leaks, brings back other passages among the first k, also when it is
    asked again, or gives quite other answers to most questions."""
    k, told = evaluation.k, [each for each in said if each.record.error is None]

    def differ(found: Iterable[_Said]) -> list[str]:
        hits = {each.item.item_id: each.record.hits or () for each in found if each.record.error is None}
        return [each for each in hits if {hit.chunk_id for hit in hits[each][:k]} != set(before[each].chunks[:k])]

    if any(each.leaks for each in told) or differ(ask_again(differ(told))):
        return True
    answers = [(before[each.item.item_id].answer, each.answer and each.answer.answer) for each in told]
    compared = [_is_other(then, now) for then, now in answers if then is not None and now is not None]
    return sum(compared) > max(1, len(compared) / 2)


def _is_other(before: Answer, now: Answer) -> bool:
    """Whether of two answers one declines, or says nothing, or they share hardly a word that carries meaning.

    A model that puts the same in other words shares more.
    """
    if before.declined or now.declined or not (before.text.strip() and now.text.strip()):
        return before.declined != now.declined or bool(before.text.strip()) != bool(now.text.strip())
    then, today = set(content_tokens(before.text)), set(content_tokens(now.text))
    return len(then & today) < OTHER_WORDS * min(len(then), len(today))


def _as_known(db: Database, evaluation: Evaluation) -> Evaluation:
    """The evaluation with the silent changes of its system that another one has found since it was opened."""
    told, count = silent_changes(evaluation.versions.system or "")
    known = known_silent_changes(db, evaluation.client_id, evaluation.system, told)
    return evaluation if known <= count else _with_silent_changes(db, evaluation, known)


def _changed_silently(db: Database, evaluation: Evaluation) -> Evaluation:
    """The evaluation with another version of its system than the one that it told."""
    _, count = silent_changes(evaluation.versions.system or "")
    return _with_silent_changes(db, evaluation, count + 1)


def _with_silent_changes(db: Database, evaluation: Evaluation, count: int) -> Evaluation:
    told, _ = silent_changes(evaluation.versions.system or "")
    version = after_silent_changes(told, count)
    update_evaluation(db, evaluation.id, system_version=version)
    return replace(evaluation, versions=replace(evaluation.versions, system=version))


def _ask(
    db: Database,
    store: ChromaStore,
    system: RagSystem,
    evaluation: Evaluation,
    items: Sequence[Item],
    by_page: bool,
    resolutions: Mapping[str, Resolution] | None = None,
) -> list[_Said]:
    """Asks questions; nothing is stored. `resolutions` are of the evidence of these, and perhaps others, if known."""
    if not items:
        return []
    client_id = evaluation.client_id
    resolutions = resolve(items, db, store, client_id, by_page) if resolutions is None else resolutions
    retrievals = system.retrieve(items, evaluation.depth)
    found = [(resolutions[item.item_id], each.hits) for item, each in zip(items, retrievals, strict=True)]
    placed = placed_hits(db, store, system, client_id, found)
    answers = with_owners(db, store, client_id, [each.answer for each in retrievals])
    return [
        _Said(item, retrieval, answer, _retrieval_record(client_id, item.item_id, retrieval, place))
        for item, retrieval, answer, place in zip(items, retrievals, answers, placed, strict=True)
    ]


def _save(
    db: Database, system: RagSystem, evaluation: Evaluation, said: Sequence[_Said], keys: Mapping[str, str | None]
) -> None:
    """Stores what was said, with the keys under which it may be reused.

    What answered under another version, because the system was replaced meanwhile, stands for nobody's; and a leak is
    to be seen again, or gone.
    """
    if not said:
        return
    own = {
        each.item.item_id: keys[each.item.item_id] if each.is_of(evaluation) and not each.leaks else None
        for each in said
    }
    result_storage.save_retrievals(db, evaluation.id, [(each.record, own[each.item.item_id]) for each in said])
    if not system.answers_at_once:
        return
    versions = _answer_versions(system, evaluation)
    results = []
    for each in said:
        key = own[each.item.item_id]
        answer_key = key and digest(each.record.retrieval_id, *versions, each.item.grading_key)
        results.append((result_record(each.item, each.record, each.answer, None), answer_key))
    result_storage.save_results(db, evaluation.id, results)


@dataclass(frozen=True)
class Asked:
    """What one question came to when it was asked.

    `latency_s` is None where the answer is one of before, or was not measured alone.
    `tokens` as of `AnswerOutcome`.
    """

    result: Result
    latency_s: float | None
    tokens: tuple[int, int] | None


def ask_once(
    db: Database,
    store: ChromaStore,
    system: RagSystem,
    client_id: str,
    items: Sequence[Item],
    k: int,
    depth: int,
    resolutions: Mapping[str, Resolution],
) -> list[Asked]:
    """Retrieves and answers each item's question once; nothing is stored.

    Args:
        resolutions: of each item's evidence in the store's chunks, by item id.

    Raises:
        LanguageModelError: as `RagSystem.answer`.
    """
    started = time.monotonic()
    retrievals = system.retrieve(items, depth)
    retrieved_s = time.monotonic() - started
    found = [(resolutions[item.item_id], retrieval.hits) for item, retrieval in zip(items, retrievals, strict=True)]
    placed = placed_hits(db, store, system, client_id, found)
    # Where the system answered when it was asked, it saw all that it returned.
    seen = None if system.answers_at_once else k
    contexts = [[hit.text for hit in (place.hits or ())[:seen]] for place in placed]
    said = (
        with_owners(db, store, client_id, [each.answer for each in retrievals])
        if system.answers_at_once
        else system.answer(items, contexts)
    )
    asked: list[Asked] = []
    for item, place, answer, retrieval in zip(items, placed, said, retrievals, strict=True):
        hits: tuple[Hit, ...] = tuple(place.hits or ())
        chunks, documents = place.resolution.chunks, place.resolution.documents
        owner = "own" if answer is None else answer.owner
        # What was made from another client's words is nobody's to judge.
        own = all(each not in UNKEPT for each in (owner, *(hit.owner for hit in hits)))
        latency_s = answer and answer.latency_s
        if not system.answers_at_once and latency_s is not None:
            is_new = answer is not None and answer.made_at is None
            latency_s = retrieved_s / len(items) + latency_s if is_new else None
        result = Result(
            item=item,
            relevant_chunks=None if chunks is None else frozenset(chunks),
            relevant_documents=None if documents is None else frozenset(documents),
            hits=hits,
            k=k,
            answer=answer.answer if answer is not None and own else None,
            contexts=tuple(hit.text for hit in hits[:seen]),
            error=retrieval.error or (answer and answer.error),
            tells_contexts=place.hits is not None,
            answer_owner=owner,
        )
        asked.append(Asked(result, latency_s, None if answer is None else answer.tokens))
    return asked


def placed_hits(
    db: Database,
    store: ChromaStore,
    system: RagSystem,
    client_id: str,
    found: Sequence[tuple[Resolution, tuple[Hit, ...] | None]],
) -> list[Placed]:
    """What came back for each question with what is relevant for it: a system of another make's hits are matched."""
    if system.answers_at_once:
        return place_hits(db, store, client_id, found)
    return [Placed(hits, resolution) for resolution, hits in found]


def with_owners(
    db: Database, store: ChromaStore, client_id: str, outcomes: Sequence[AnswerOutcome | None]
) -> list[AnswerOutcome | None]:
    """The outcomes with whose words the answers hold."""
    strays = stray_owners(db, store, client_id, map(_said, outcomes))
    found = (strays.get(_said(each), Stray("own")) for each in outcomes)
    return [
        each and replace(each, owner=stray.owner, holders=stray.holders)
        for each, stray in zip(outcomes, found, strict=True)
    ]


def _said(outcome: AnswerOutcome | None) -> str:
    """All words of an answer; none without one."""
    answer = outcome and outcome.answer
    return "\n".join([answer.text, *answer.citations]) if answer else ""


def _retrieval_keys(
    system: RagSystem, evaluation: Evaluation, items: Collection[Item], by_page: bool
) -> dict[str, str | None]:
    """The key under which each item's retrieval may be reused; None where the system declares no version."""
    if evaluation.system_declared is None:
        return {item.item_id: None for item in items}
    versions = [
        system.retrieval_version,
        evaluation.versions.corpus,
        evaluation.versions.index,
        str(evaluation.depth),
        *([f"matching {MATCHING_REVISION}"] if system.answers_at_once else []),
        *([f"silent change {silent}"] if (silent := silent_changes(evaluation.versions.system or "")[1]) else []),
    ]
    # What is relevant for a question depends on whether pages count; that of all others is reused either way.
    pages = {
        item.item_id: ["pages"] if by_page and any(each.is_page for each in item.evidence) else [] for item in items
    }
    return {item_id: digest(item_id, *versions, *each) for item_id, each in pages.items()}


def _content(hit: Hit) -> dict[str, Any]:
    """What a hit is known by: without the holders where there are none, as before they were kept."""
    return {name: value for name, value in asdict(hit).items() if name != "holders" or value}


def _retrieval_record(client_id: str, item_id: str, retrieval: Retrieval, placed: Placed) -> RetrievalRecord:
    chunks, documents = (
        None if ids is None else sorted(ids) for ids in (placed.resolution.chunks, placed.resolution.documents)
    )
    content = {
        "client": client_id,
        "item": item_id,
        "chunks": chunks,
        "documents": documents,
        "hits": None if placed.hits is None else [_content(hit) for hit in placed.hits],
        "error": retrieval.error,
    }
    hits = None if placed.hits is None else list(placed.hits)
    return RetrievalRecord(digest_json(content), item_id, chunks, documents, hits, retrieval.error)


def run_answers(
    db: Database,
    open_store: Callable[[], ChromaStore],
    system: RagSystem,
    evaluation: Evaluation,
    max_age_days: float | None = None,
    progress: Progress | None = None,
) -> StageReport:
    """Answers every retrieved question that has no equal answer yet, or where `max_age_days` is given none so recent.

    The age is that of built-in answers, whose model may drift; a system that declares its version answers for itself.
    A question whose retrieval failed gets a result with that error: nothing is dropped.
    """
    items = {item.item_id: item for item in benchmark_storage.dataset_items(db, evaluation.dataset_id)}
    retrieved = {
        row.item_id: row.retrieval_id
        for row in result_storage.run_items(db, evaluation.id)
        if row.retrieval_id is not None and row.result_id is None
    }
    keys: dict[str, str | None] = dict.fromkeys(retrieved)
    if evaluation.system_declared is not None:
        versions = _answer_versions(system, evaluation)
        keys |= {item_id: digest(each, *versions, items[item_id].grading_key) for item_id, each in retrieved.items()}
    # Where the system answered when it was asked, it saw all that it returned.
    seen, age = (None, None) if system.answers_at_once else (evaluation.k, max_age_days)
    reused = result_storage.reuse(db, evaluation, RESULT, keys, age)
    missing = [item_id for item_id in keys if item_id not in reused]
    retrievals = result_storage.load_retrievals(db, evaluation.id, missing) if missing else {}
    done = 0
    for batch in in_batches(missing, BATCH):
        answerable = [item_id for item_id in batch if retrievals[item_id].error is None]
        contexts = [[hit.text for hit in (retrievals[item_id].hits or ())[:seen]] for item_id in answerable]
        asked = [items[item_id] for item_id in answerable]
        try:
            answers = system.answer(asked, contexts, offset_progress(progress, done, len(missing)))
        except BudgetReachedError as error:
            left = f"{len(missing) - done} of {len(missing)} questions of this evaluation have no answer"
            raise BudgetReachedError(f"{error}; {left}") from None
        if system.answers_at_once:
            answers = with_owners(db, open_store(), evaluation.client_id, answers)
        outcomes = dict(zip(answerable, answers, strict=True))
        records = [
            (result_record(items[item_id], retrievals[item_id], outcomes.get(item_id), seen), keys[item_id])
            for item_id in batch
        ]
        result_storage.save_results(db, evaluation.id, records)
        done += len(batch)
        if progress is not None:
            progress(done, len(missing))
    errors = result_storage.failed_count(db, evaluation.id)
    return StageReport(total=len(items), reused=len(items) - len(missing), errors=errors)


def _answer_versions(system: RagSystem, evaluation: Evaluation) -> list[str | None]:
    """What the key of an answer has beside its retrieval and what the item is judged by.

    A system that answers at once has one version for all it does, which the evaluation knows: it is not asked for it.
    Its answer is made from all that it returned, whatever the cutoff.
    """
    return [evaluation.versions.system] if system.answers_at_once else [system.answer_version, str(evaluation.k)]


def result_record(item: Item, retrieval: RetrievalRecord, outcome: AnswerOutcome | None, k: int | None) -> ResultRecord:
    """The result of a retrieval and its answer, from its first `k` hits or (None) all of them.

    An answer that holds another client's words, or was made from them, is not kept.
    """
    hits = retrieval.hits or []
    if outcome is None or outcome.owner in UNKEPT or any(hit.owner in UNKEPT for hit in hits):
        outcome = AnswerOutcome() if outcome is None else AnswerOutcome(owner=outcome.owner, holders=outcome.holders)
    answer, error, context_count = outcome.answer, retrieval.error or outcome.error, len(hits[:k])
    content = {
        "retrieval": retrieval.retrieval_id,
        "grading_key": item.grading_key,
        "answer": None if answer is None else [answer.text, answer.declined, *answer.citations],
        **({} if outcome.owner == "own" else {"answer_owner": outcome.owner}),
        **({"answer_holders": list(outcome.holders)} if outcome.holders else {}),
        "contexts": context_count,
        "error": error,
    }
    return ResultRecord(
        result_id=digest_json(content),
        item_id=retrieval.item_id,
        retrieval_id=retrieval.retrieval_id,
        answer=answer,
        context_count=context_count,
        error=error,
        latency_s=outcome.latency_s,
        made_at=outcome.made_at,
        answer_owner=outcome.owner,
        answer_holders=outcome.holders,
    )
