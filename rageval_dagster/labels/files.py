"""Labels in files: what people are asked about, as a table to fill in, and what they filled in."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rageval_dagster.benchmark.exporting import written_whole
from rageval_dagster.benchmark.formats import Refusal
from rageval_dagster.benchmark.formats.rows import (
    Row,
    RowError,
    json_lines,
    optional_text,
    text_field,
    write_json_lines,
)
from rageval_dagster.benchmark.formats.table import read_table, write_table
from rageval_dagster.evaluation.breakdown import texts_deleted
from rageval_dagster.labels.answers import LabelledAnswers
from rageval_dagster.labels.meaning import what_is_good
from rageval_dagster.records import Result
from rageval_dagster.storage import labels as label_storage
from rageval_dagster.storage import results as result_storage
from rageval_dagster.storage import scores as score_storage
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.labels import Label
from rageval_dagster.storage.tables import PERSON_LENGTH
from rageval_dagster.text import finite_number

COLUMNS = ("result_id", "metric", "question", "expected", "answer", "contexts", "good", "value", "note", "person")
CANNOT_SAY = "cannot say"


@dataclass(frozen=True)
class LabelImport:
    """How many labels were stored, how many rows had none, and which were refused."""

    saved: int
    blank: int
    refused: list[Refusal]


def write_labels(db: Database, answers: LabelledAnswers, path: Path, force: bool = False) -> int:
    """Writes the answers that were drawn, and still have their texts, to a CSV or (by its name) JSON Lines file.

    The labels that they have are in it.

    The judge's score is left out, so that it sways nobody; `good` says what a good answer is. In CSV the contexts are
    one text, each under its number. Returns the number of rows.

    Raises:
        TextsDeletedError: the texts of all of them were deleted.
        DatasetError: the file is there already or cannot be written.
    """
    results = dict(result_storage.load_results(db, answers.evaluation.id).values())
    kept = [name for name in answers.drawn if name in results and not results[name].texts_deleted]
    if answers.drawn and not kept:
        raise texts_deleted(answers.evaluation.id, "answers")
    order = sorted(kept, key=lambda name: (name in answers.labels, answers.queue[name].place))
    rows = [row for name in order for row in _rows(name, results[name], answers)]
    with written_whole(path, force) as draft:
        if path.suffix == ".jsonl":
            write_json_lines(draft, rows)
        else:
            write_table(draft, COLUMNS, [{**row, "contexts": _numbered(row["contexts"])} for row in rows])
    return len(rows)


def read_labels(db: Database, client_id: str, path: Path, person: str | None = None) -> LabelImport:
    """Stores the labels of a CSV or JSON Lines file; the same file can be read again.

    A value is a number from 0 to 1 or `cannot say`; a row without one is passed over. A row is refused, and the rest
    goes on, for another value, for an answer or a metric that the client does not have, for an answer whose texts were
    deleted (a note may quote them), and where nobody says whose label it is.

    Args:
        person: who labelled the rows that do not say so.

    Raises DatasetError for a file that cannot be read, or that lacks a column.
    """
    needed = (*COLUMNS[:2], "value")
    is_json = path.suffix == ".jsonl"
    rows = json_lines(path) if is_json else read_table(path, {}, needed, COLUMNS.__contains__, "export it again").rows
    read: list[tuple[int, Label]] = []
    blank, refused = 0, []
    for number, row in rows:
        try:
            label = label_of(row, person)
        except RowError as error:
            refused.append(Refusal(path.name, number, error.field, error.reason))
            continue
        if label is None:
            blank += 1
        else:
            read.append((number, label))
    known = result_storage.known_results(db, client_id, [label.result_id for _, label in read])
    deleted = result_storage.deleted_answers(db, client_id, known)
    metrics = score_storage.metrics_of_client(db, client_id)
    saved: dict[tuple[str, str, str], Label] = {}
    for number, label in read:
        if label.result_id not in known:
            refused.append(Refusal(path.name, number, "result_id", "is not an answer of this client"))
        elif label.result_id in deleted:
            refused.append(
                Refusal(path.name, number, "result_id", "is an answer that was deleted: it can no longer be labelled")
            )
        elif label.metric_id not in metrics:
            refused.append(Refusal(path.name, number, "metric", "is not one that this client's answers were scored by"))
        else:
            saved[label.result_id, label.metric_id, label.person] = label
    label_storage.save_labels(db, client_id, list(saved.values()))
    return LabelImport(len(saved), blank, sorted(refused, key=lambda each: each.row))


def _rows(result_id: str, result: Result, answers: LabelledAnswers) -> Iterator[dict[str, Any]]:
    row = {
        "result_id": result_id,
        "metric": answers.summary.metric_id,
        "question": result.item.question,
        "expected": "\n".join(result.item.answers),
        "answer": result.answer_text,
        "contexts": list(result.contexts),
        "good": what_is_good(answers.summary.metric_id),
    }
    labels: Sequence[Label | None] = answers.labels.get(result_id) or [None]
    for each in labels:
        said = "" if each is None else CANNOT_SAY if each.value is None else f"{each.value:g}"
        yield {**row, "value": said, "note": (each and each.note) or "", "person": each.person if each else ""}


def _numbered(contexts: Sequence[str]) -> str:
    return "\n\n".join(f"[{number}] {text}" for number, text in enumerate(contexts, start=1))


def label_of(row: Row | RowError, person: str | None) -> Label | None:
    """The label that a row of `COLUMNS` holds, by `person` where it names none; None where it has no value.

    Raises:
        RowError: of the first field that is wrong, what it takes.
    """
    if isinstance(row, RowError):
        raise row
    said = row.get("value")
    if said is None or not str(said).strip():
        return None
    text = str(said).strip().casefold()
    value = None if text == CANNOT_SAY else finite_number(text)
    if isinstance(said, bool) or (value is None and text != CANNOT_SAY) or not 0.0 <= (value or 0.0) <= 1.0:
        raise RowError("value", f"takes a number from 0 to 1, or: {CANNOT_SAY}")
    who = person_of(optional_text(row, "person") or person or "")
    return Label(text_field(row, "result_id"), text_field(row, "metric"), who, value, optional_text(row, "note"))


def person_of(name: str) -> str:
    """A person's name as it is stored: one person, also where a cell has a space too many.

    Raises:
        RowError: it is empty, too long, or has what cannot be printed.
    """
    who = name.strip()
    if not who:
        raise RowError("person", "is missing: say who labelled with --person")
    if len(who) > PERSON_LENGTH:
        raise RowError("person", f"is longer than {PERSON_LENGTH} characters")
    if not who.isprintable():
        raise RowError("person", "has a control character")
    return who
