"""Reviewing a generated dataset: its questions in a spreadsheet, and what a person decided about each of them."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rageval_dagster.benchmark.coverage import note_corpus
from rageval_dagster.benchmark.critics import OBJECTIONS
from rageval_dagster.benchmark.exporting import written_whole
from rageval_dagster.benchmark.formats import Refusal
from rageval_dagster.benchmark.formats.items import native_item
from rageval_dagster.benchmark.formats.rows import Row, RowError, json_value
from rageval_dagster.benchmark.formats.table import read_table, write_table
from rageval_dagster.benchmark.importing import redacted_item
from rageval_dagster.benchmark.rules import RULES
from rageval_dagster.benchmark.validation import validate_items
from rageval_dagster.corpus.evidence import resolve
from rageval_dagster.errors import DatasetError
from rageval_dagster.records import Candidate, CandidateStatus, Item
from rageval_dagster.storage import benchmark as benchmark_storage
from rageval_dagster.storage.benchmark import Dataset
from rageval_dagster.storage.corpus import document_names, manifest_lookup
from rageval_dagster.storage.database import Database

if TYPE_CHECKING:
    from rageval_dagster.corpus.store import ChromaStore

REJECTED = "rejected_by_reviewer"
EDITED = "edited_by_reviewer"

_EDITABLE = ("question", "answer", "document_id", "quote", "category", "answerable")
COLUMNS = ("item_id", "decision", *_EDITABLE, "title", "status", "reasons")

DECISIONS = ("accept", "edit", "reject")


@dataclass(frozen=True)
class ReviewReport:
    """What came of a review: the dataset as it is now, how many rows were decided how, and those refused."""

    dataset: Dataset
    decided: Mapping[str, int]
    unreviewed: int
    refused: list[Refusal]


@dataclass
class _Decisions:
    """Row number and what becomes of its item, by the item's id; None where it is rejected."""

    rows: dict[str, tuple[int, str, Item | None]] = field(default_factory=dict)
    unreviewed: int = 0
    refused: list[Refusal] = field(default_factory=list)


def is_settled(candidate: Candidate) -> bool:
    """Whether a person rejected the candidate, or wrote something else in its place: it never comes back."""
    return not {REJECTED, EDITED}.isdisjoint(candidate.reasons)


def write_review(db: Database, client_id: str, path: Path, dataset_id: int | None = None, force: bool = False) -> int:
    """Writes a client's generated dataset, and what rules and critics kept out of it, to a CSV file to review.

    Returns the number of rows. Several answers or pieces of evidence stand in their cells as a JSON list. `reasons`
    says why an item was kept out, or flagged.

    Raises:
        DatasetError: there is no such dataset, or the file is there already or cannot be written.
    """
    dataset = _to_review(db, client_id, dataset_id)
    items = benchmark_storage.dataset_items(db, dataset.id)
    found: dict[str, tuple[Item, str, Sequence[str]]] = {
        item.item_id: (item, "reviewed" if item.human_verified else "accepted", dataset.flagged.get(item.item_id, ()))
        for item in items
    }
    for candidate in _rejected(db, client_id, dataset):
        if candidate.item:
            found.setdefault(candidate.item.item_id, (candidate.item, candidate.status, candidate.reasons))
    documents = (document_id for item, *_ in found.values() for document_id in item.document_ids)
    names = document_names(db, client_id, documents)
    rows = [_row(*each, names) for each in found.values()]
    with written_whole(path, force) as draft:
        write_table(draft, COLUMNS, rows)
    return len(rows)


def read_review(
    db: Database, store: "ChromaStore", client_id: str, path: Path, dataset_id: int | None = None
) -> ReviewReport:
    """Takes the decisions of a reviewed file over into a new version of the dataset.

    Accepted and edited items become human-verified, edited ones have the origin `human`; rejected ones leave the
    dataset. A row without a decision stays as it is. The same file can be read again.

    A row is refused, and the rest goes on: where something was changed but the decision is not `edit`, where it is and
    nothing was changed, or where the corpus does not hold the evidence.

    Raises:
        DatasetError: there is no such dataset, or the file cannot be read or is no review.
        StoreError: the store does not answer or does not know the client.
    """
    dataset = _to_review(db, client_id, dataset_id)
    items = {item.item_id: item for item in benchmark_storage.dataset_items(db, dataset.id)}
    candidates: dict[str, list[Candidate]] = {}
    for candidate in benchmark_storage.list_candidates(db, client_id):
        if candidate.item:
            candidates.setdefault(candidate.item.item_id, []).append(candidate)
    known = {item_id: own[0].item for item_id, own in candidates.items() if own[0].item} | items
    decisions = _read_decisions(path, known)
    redactor = store.redactor(client_id)
    for item_id, (number, decision, item) in decisions.rows.items():
        decisions.rows[item_id] = number, decision, item and redacted_item(item, redactor)
    _refuse_without_evidence(decisions, db, store, client_id, path)
    if decisions.rows:
        benchmark_storage.save_candidates(db, client_id, list(_judged(decisions, candidates)))
        saved = _save(db, dataset, _reviewed(items.values(), decisions))
        note_corpus(db, store, client_id, [saved])
        dataset = benchmark_storage.get_dataset(db, saved.id)
    return ReviewReport(
        dataset,
        {name: sum(decision == name for _, decision, _ in decisions.rows.values()) for name in DECISIONS},
        decisions.unreviewed,
        decisions.refused,
    )


def _to_review(db: Database, client_id: str, dataset_id: int | None) -> Dataset:
    """The version that is current of the client's generated dataset, by the id of any version."""
    generated = [each for each in benchmark_storage.current_datasets(db, client_id) if each.kind == "generated"]
    if dataset_id is not None:
        asked = benchmark_storage.get_dataset(db, dataset_id)
        generated = [each for each in generated if (each.client_id, each.name) == (asked.client_id, asked.name)]
        if not generated:
            raise DatasetError(f"dataset {dataset_id} is not a generated dataset of client {client_id!r}")
    if not generated:
        raise DatasetError(
            f"client {client_id!r} has no generated dataset to review: rageval datasets generate --client NAME"
        )
    if len(generated) > 1:
        listed = ", ".join(f"{each.id} {each.name!r}" for each in generated)
        raise DatasetError(f"client {client_id!r} has several generated datasets: name one with --dataset ({listed})")
    return generated[0]


def _rejected(db: Database, client_id: str, dataset: Dataset) -> list[Candidate]:
    """The candidates from the dataset's sample that rules or critics kept out, and no person has judged."""
    sample = benchmark_storage.get_sample(db, client_id, dataset.stats.get("sample_id", ""))
    if sample is None:
        return []
    keys = {entry.content_key for entry in manifest_lookup(db, client_id, sample.chunk_keys).values()}
    found = benchmark_storage.list_candidates(db, client_id, chunk_keys=keys, generator=dataset.stats.get("generator"))
    return [candidate for candidate in found if candidate.status == "rejected" and not is_settled(candidate)]


# --- rows ------------------------------------------------------------------------------------------------------------


def _row(item: Item, status: str, reasons: Sequence[str], names: Mapping[str, str]) -> dict[str, str]:
    """A question as it stands in the file; `names` is what people call the documents, by id."""
    titles = [names[evidence.document_id] for evidence in item.evidence]
    told = {"title": "; ".join(dict.fromkeys(titles)), "status": status, "reasons": "; ".join(map(_in_words, reasons))}
    return {"item_id": item.item_id, **_cells(item), **told}


def _in_words(reason: str) -> str:
    """Why a question was kept out or flagged: the rule's or objection's name, what was found, and what it says."""
    said = OBJECTIONS | {rule.id: rule.description for rule in RULES}
    why = said.get(reason.partition(" ")[0])
    return f"{reason}: {why}" if why else reason


def _cells(item: Item) -> dict[str, str]:
    """What the file says of an item and a reviewer may change."""
    return {
        "question": item.question,
        "answer": _joined(item.answers),
        "document_id": _joined([evidence.document_id for evidence in item.evidence]),
        "quote": _joined([evidence.quote or "" for evidence in item.evidence]),
        "category": item.category,
        "answerable": str(item.answerable).lower(),
    }


def _joined(values: Sequence[str]) -> str:
    """One text as it is, several as a JSON list."""
    if len(values) == 1 and not values[0].startswith("["):
        return values[0]
    return json.dumps(list(values), ensure_ascii=False) if values else ""


def _split(cell: str, name: str) -> list[str]:
    if cell.startswith("["):
        value = json_value(cell, name)
        if isinstance(value, list) and all(isinstance(text, str) for text in value):
            return value
        raise RowError(name, "starts with [ but is not a JSON list of texts")
    return [cell] if cell.strip() else []


def _read_decisions(path: Path, known: Mapping[str, Item]) -> _Decisions:
    advice = "write the file to review again, with --out"
    table = read_table(path, {}, COLUMNS[: 2 + len(_EDITABLE)], COLUMNS.__contains__, advice)
    decisions = _Decisions()
    for number, row in table.rows:
        try:
            _decide(number, row, known, decisions)
        except RowError as error:
            decisions.refused.append(Refusal(path.name, number, error.field, error.reason))
    return decisions


def _decide(number: int, row: Row | RowError, known: Mapping[str, Item], decisions: _Decisions) -> None:
    if isinstance(row, RowError):
        raise row
    item_id, decision = row["item_id"].strip(), row["decision"].strip().casefold()
    if decision and decision not in DECISIONS:
        raise RowError("decision", f"takes {', '.join(DECISIONS)}, or nothing")
    item = known.get(item_id)
    if decision and item is None:
        raise RowError("item_id", "names no question of this dataset, nor a candidate for it")
    if item_id in decisions.rows:
        raise RowError("item_id", f"was already decided, in row {decisions.rows[item_id][0]}")
    after = None if item is None else _decided(item, row, decision)
    if decision:
        decisions.rows[item_id] = number, decision, after
    else:
        decisions.unreviewed += 1


def _decided(item: Item, row: Row, decision: str) -> Item | None:
    """What a row makes of its item; None if it is rejected, or nothing was decided."""
    cells = _cells(item)
    changed = [name for name in _EDITABLE if not _same(row[name], cells[name])]
    if decision == "edit":
        if not changed:
            raise RowError("decision", "says edit, but nothing was changed: say accept")
        return _edited(item, row, changed)
    if changed and decision != "reject":
        raise RowError(changed[0], f"was changed, but the decision is {decision or 'empty'}: say edit")
    return replace(item, human_verified=True) if decision == "accept" else None


def _same(cell: str, written: str) -> bool:
    """Whether a cell is as it was written; spreadsheets have their own line breaks, and write TRUE."""
    return cell.splitlines() == written.splitlines() or cell.casefold() == written.casefold() in ("true", "false")


def _edited(item: Item, row: Row, changed: Sequence[str]) -> Item:
    native_row = {**item.to_dict(), "origin": "human", "human_verified": True}
    native_row |= {name: row[name] for name in ("question", "category") if name in changed}
    if "answer" in changed:
        native_row["answers"] = _split(row["answer"], "answer")
    if "document_id" in changed or "quote" in changed:
        native_row["evidence"] = _edited_evidence(item, row)
    if "answerable" in changed:
        native_row["answerable"] = {"true": True, "false": False}.get(row["answerable"].strip().casefold())
        if native_row["answerable"] is None:
            raise RowError("answerable", "takes true or false")
    return native_item(native_row)


def _edited_evidence(item: Item, row: Row) -> list[dict[str, Any]]:
    documents, quotes = _split(row["document_id"], "document_id"), _split(row["quote"], "quote")
    quotes = quotes or [""] * len(documents)
    if len(quotes) != len(documents):
        raise RowError("quote", f"there are {len(quotes)}, and {len(documents)} documents")
    pages = {evidence.document_id: evidence.page for evidence in item.evidence}
    return [
        {"document_id": document, "page": pages.get(document), "quote": quote or None}
        for document, quote in zip(documents, quotes, strict=True)
    ]


# --- what becomes of it ----------------------------------------------------------------------------------------------


def _refuse_without_evidence(
    decisions: _Decisions, db: Database, store: "ChromaStore", client_id: str, path: Path
) -> None:
    kept = {item_id: (number, item) for item_id, (number, _, item) in decisions.rows.items() if item is not None}
    resolutions = resolve([item for _, item in kept.values()], db, store, client_id)
    for item_id, (number, item) in kept.items():
        unresolved = resolutions[item.item_id].unresolved
        if unresolved:
            del decisions.rows[item_id]
            field = "quote" if unresolved[0].quote else "document_id"
            reason = "is not in its document" if unresolved[0].quote else "is not a document of the corpus"
            decisions.refused.append(Refusal(path.name, number, field, reason))
    decisions.refused.sort(key=lambda refusal: refusal.row)


def _judged(decisions: _Decisions, candidates: Mapping[str, Sequence[Candidate]]) -> Iterable[Candidate]:
    """The candidates of the items decided about: what is rejected, or written otherwise, is never asked again."""
    verdicts: dict[str, tuple[CandidateStatus, tuple[str, ...]]] = {
        "accept": ("accepted", ()),
        "edit": ("rejected", (EDITED,)),
        "reject": ("rejected", (REJECTED,)),
    }
    for item_id, (_, decision, _) in decisions.rows.items():
        status, reasons = verdicts[decision]
        yield from (replace(each, status=status, reasons=reasons) for each in candidates.get(item_id, ()))


def _reviewed(items: Iterable[Item], decisions: _Decisions) -> list[Item]:
    """The dataset's items after the review, in their order, then the candidates that the reviewer let in."""
    after = {item.item_id: item for item in items} | {each: item for each, (_, _, item) in decisions.rows.items()}
    distinct: dict[str, Item] = {}
    for item in filter(None, after.values()):
        # An edited item may now be what another one is.
        if item.item_id not in distinct or item.human_verified:
            distinct[item.item_id] = item
    return list(distinct.values())


def _save(db: Database, base: Dataset, items: Sequence[Item]) -> Dataset:
    judged = validate_items(items)
    stats = {name: value for name, value in base.stats.items() if name != "seen"}
    return benchmark_storage.save_dataset(
        db,
        base.client_id,
        base.name,
        "generated",
        items,
        created_by=f"review of dataset {base.id}",
        corpus_version=base.corpus_version,
        valid=judged.valid,
        rule_failures=judged.rule_failures,
        stats={
            **stats,
            # A review does not make the dataset younger.
            "renewed_at": base.renewed_at.isoformat(),
            "categories": dict(sorted(Counter(item.category for item in items).items())),
            "rules": [asdict(result) for result in judged.rule_results],
        },
    )
