"""SQuAD: its JSON of articles, paragraphs and questions, and the flat rows that the Hugging Face hub makes of it."""

from collections.abc import Mapping
from typing import Any

from rageval_dagster.benchmark.formats.rows import (
    Row,
    RowError,
    boolean_field,
    identifier,
    list_field,
    missing,
    nonblank,
    object_value,
    optional_text,
    question_field,
    string,
)
from rageval_dagster.identity import digest
from rageval_dagster.records import Evidence, Item
from rageval_dagster.text import segments

FIELDS = ("question", "answers", "context", "title", "is_impossible")


def questions_of(entry: Any) -> list[Any]:
    """A row for each question of an article, with its title and context; what is no article stays as it is."""
    paragraphs = entry.get("paragraphs") if isinstance(entry, dict) else None
    if not isinstance(paragraphs, list):
        return [entry]
    title = {"title": entry["title"]} if "title" in entry else {}
    rows: list[Any] = []
    for paragraph in paragraphs:
        if not isinstance(paragraph, dict) or not isinstance(paragraph.get("qas"), list):
            rows.append(paragraph)
            continue
        context = {"context": paragraph["context"]} if "context" in paragraph else {}
        rows += [{**title, **context, **each} if isinstance(each, dict) else each for each in paragraph["qas"]]
    return rows


def squad_item(row: Row) -> Item:
    """The item of a question: its document is the title, its quote the sentence of the context with the answer.

    A sentence, since a paragraph may be cut into several chunks of which one has the answer. Where the answer does not
    stand in the context word for word, the whole context is the quote. A context without a title is named by its hash:
    an import looks for its document. Without answers, a question is one that the documents cannot answer.

    Raises:
        RowError: naming the field that is wrong.
    """
    question = question_field(row, "question")
    answers = _answers(row)
    impossible = boolean_field(row, "is_impossible", default=not answers)
    if impossible != (not answers):
        said = "holds some" if impossible else "is empty"
        raise RowError("answers", f"{said}, but is_impossible is {str(impossible).lower()}")
    title, context = _title(row), optional_text(row, "context")
    if impossible:
        return Item(question, answerable=False)
    quote = None if context is None else _quote(context, answers)
    document_id = title or (context and f"context-{digest(context)[:16]}")
    evidence = (Evidence(document_id, None, quote),) if document_id else ()
    return Item(question, tuple(dict.fromkeys(text for text, _ in answers)), evidence)


def _title(row: Row) -> str | None:
    return None if row.get("title") in (None, "") else identifier(row["title"], "title")


def _answers(row: Row) -> list[tuple[str, int | None]]:
    """Each answer and where it starts in the context, if that is said.

    They are {text: [...], answer_start: [...]}, or a list of {text, answer_start}, or texts, or one text.
    """
    value = row.get("answers")
    if value is None:
        raise missing(row, "answers")
    if isinstance(value, str):
        return [(nonblank(value, "answers"), None)]
    if isinstance(value, dict):
        texts = list_field(value, "text") if value.get("text") is not None else None
        if texts is None:
            raise RowError("answers.text", "is missing")
        starts = list_field(value, "answer_start")
        starts = [*starts, *[None] * (len(texts) - len(starts))]
        return [_answer(text, starts[place], f"answers.text[{place}]") for place, text in enumerate(texts)]
    found = []
    for place, each in enumerate(list_field(row, "answers")):
        if isinstance(each, str):
            found.append(_answer(each, None, f"answers[{place}]"))
            continue
        answer: Mapping[str, Any] = object_value(each, f"answers[{place}]")
        found.append(_answer(answer.get("text"), answer.get("answer_start"), f"answers[{place}].text"))
    return found


def _answer(text: Any, start: Any, field: str) -> tuple[str, int | None]:
    known = isinstance(start, int) and not isinstance(start, bool) and start >= 0
    return nonblank(string(text, field), field), start if known else None


def _quote(context: str, answers: list[tuple[str, int | None]]) -> str:
    """The sentence of the context in which the first answer stands, else all of it."""
    text, start = answers[0]
    if start is None or not context.startswith(text, start):
        start = context.find(text)
    if start < 0:
        return context.strip()
    end, at, sentences = start + len(text), 0, []
    for piece in segments(context):
        if at < end and start < at + len(piece):
            sentences.append(context[at : at + len(piece)])
        at += len(piece)
    return "".join(sentences).strip()
