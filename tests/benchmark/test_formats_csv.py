"""Tables of questions: logged ones with whatever is wrong with them, and files that spreadsheets open."""

import csv
import io
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from item_strategies import item_lists, texts

from rageval_dagster.benchmark.formats import ReadOptions, ReadReport, read_dataset, write_dataset
from rageval_dagster.errors import DatasetError
from rageval_dagster.records import Evidence, Item


def table(folder: Path, content: str | bytes) -> Path:
    path = folder / "questions.csv"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def read(folder: Path, content: str | bytes, **columns: str) -> ReadReport:
    return read_dataset(table(folder, content), "csv", ReadOptions(columns))


def places(report: ReadReport) -> list[tuple[int, str | None]]:
    return [(refusal.row, refusal.field) for refusal in report.refused]


def cells(values: list[str], delimiter: str = ";") -> bytes:
    buffer = io.StringIO()
    csv.writer(buffer, delimiter=delimiter, lineterminator="\r\n").writerow(values)
    return buffer.getvalue().encode("utf-8", "surrogateescape")


def test_a_thousand_logged_questions_with_some_bad_rows(tmp_path: Path) -> None:
    """Every bad row is named by row and column, whatever is wrong with it, and all others are there."""
    columns = ["Zeit", "Frage", "Antwort", "Seite", "Dokument", "Verlauf", "Team", "Gelesen"]

    def row(number: int, **changes: str) -> list[str]:
        history = json.dumps([{"role": "user", "content": f"Guten Tag, {number}"}])
        usual = dict(
            zip(columns, ["9:00", f"Frage {number}; wie?\nUnd wann?", "", "", "", history, "", ""], strict=True)
        )
        return list((usual | changes).values())

    good = row(500)[1], row(500)[5]
    bad: dict[int, tuple[bytes, str | None]] = {
        12: (cells(row(0, Frage="")), "Frage"),
        33: (cells(row(0, Frage="mit NUL \0")), "Frage"),
        47: (cells(row(0, Frage="Wie?")).replace(b"Wie", b"W\xefe"), "Frage"),
        99: (cells(row(0, Frage="Wie?")).replace(b"Wie", b"W\xed\xa0\x80e"), "Frage"),
        150: (cells(row(1)[:-1]), None),
        200: (cells(["Nur das"]), None),
        260: (cells(row(0, Dokument="a.md", Seite="drei")), "Seite"),
        263: (cells(row(0, Dokument="a.md", Seite="0")), "Seite"),
        301: (cells(row(0, Verlauf='[{"role": "user"}]')), "Verlauf[0].content"),
        302: (cells(row(0, Verlauf='{"role": "user", "content": "Hallo"}')), "Verlauf"),
        303: (cells(row(0, Verlauf='[{"role": "user", "content": "\\ud800"}]')), "Verlauf"),
        400: (cells(row(0, Frage="a" * 1_000_001)), "Frage"),
        500: (cells(row(0, Frage=good[0], Verlauf=good[1])), "Frage"),
        600: (b'9:00;"Frage ohne Ende;;;;;;\r\n', None),
        1001: (cells(row(0, Antwort="ja \0")), "Antwort"),
    }
    lines = [cells(columns)] + [bad[number][0] if number in bad else cells(row(number)) for number in range(2, 1002)]
    # Row 499 is what row 500 repeats.
    lines[498] = cells(row(500))
    names = {
        "question": "Frage",
        "answer": "Antwort",
        "page": "Seite",
        "document_id": "Dokument",
        "history": "Verlauf",
        "principal.team": "Team",
    }
    report = read_dataset(table(tmp_path, b"".join(lines)), "csv", ReadOptions(names))
    assert places(report) == [(number, field) for number, (_, field) in sorted(bad.items())]
    assert len(report.items) == 1000 - len(bad)
    assert {item.origin for item in report.items} == {"logged"}
    assert report.items[0].question == "Frage 2; wie?\nUnd wann?"
    assert report.items[0].history == ({"role": "user", "content": "Guten Tag, 2"},)
    assert report.unused == ["Zeit", "Gelesen"]


@settings(max_examples=60, deadline=None)
@given(item_lists)
def test_tables_give_back_what_was_written(tmp_path_factory: pytest.TempPathFactory, written: list[Item]) -> None:
    path = tmp_path_factory.mktemp("csv") / "items.csv"
    write_dataset(written, path, "csv")
    report = read_dataset(path, "csv")
    assert report.refused == []
    assert report.unused == []
    assert report.items == written


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")), max_size=3), texts)
def test_no_cell_that_is_written_is_a_formula(
    tmp_path_factory: pytest.TempPathFactory, answers: list[str], question: str
) -> None:
    start = "=+-@\t\r\n"
    written = [Item(start[len(question) % 7] + question, tuple(filter(str.strip, answers)))]
    path = tmp_path_factory.mktemp("csv") / "items.csv"
    write_dataset(written, path, "csv")
    with path.open(encoding="utf-8-sig", newline="") as file:
        assert not any(cell.startswith(tuple(start)) for record in csv.reader(file) for cell in record)
    assert read_dataset(path, "csv").items == written


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("ending", [b"\n", b"\r\n"])
def test_delimiters_marks_and_line_ends(tmp_path: Path, delimiter: str, mark: bytes, ending: bytes) -> None:
    rows = [["question", "the answer"], ['Who, "he"; or\tshe?', "One,\nof; two."], ["Und Zoë?", ""]]
    content = mark + b"".join(cells(row, delimiter).replace(b"\r\n", ending) for row in rows)
    report = read(tmp_path, content, answer="the answer")
    assert report.refused == []
    assert [item.question for item in report.items] == ['Who, "he"; or\tshe?', "Und Zoë?"]
    assert [item.answers for item in report.items] == [("One,\nof; two.",), ()]


def test_a_stray_quotation_mark_swallows_nothing(tmp_path: Path) -> None:
    content = 'question,answer\n"Who,He\nWhen?,Now\n"Where?,"Here"\nHow?,So\n"Why"?,Because\nWhat?,"That\nWhich?,One'
    report = read(tmp_path, content)
    assert [item.question for item in report.items] == ["When?", "How?", "Which?"]
    assert places(report) == [(2, None), (4, None), (6, None), (7, None)]


def test_all_fields(tmp_path: Path) -> None:
    rows = [
        ["question", "answers", "document_id", "page", "quote", "category", "answerable", "origin", "user"],
        ["Who?", '["He.", "She."]', "a.md", "3", "he did", "temporal", "TRUE", "human", "u1"],
        ["When?", "", "b.md", "4.0", "", "", "false", "", ""],
    ]
    report = read(tmp_path, b"".join(cells([*row, ""][:9], ",") for row in rows))
    assert report.refused == []
    assert report.items == [
        Item(
            "Who?",
            ("He.", "She."),
            (Evidence("a.md", 3, "he did"),),
            category="temporal",
            origin="human",
            principal={"user": "u1"},
        ),
        Item("When?", (), (Evidence("b.md", 4),), answerable=False),
    ]


@pytest.mark.parametrize(
    ("column", "cell", "reason"),
    [
        ("answers", "He.", "not JSON"),
        ("evidence", '[{"quote": "x"}]', "missing"),
        ("quote", "x", "the quote needs it"),
        ("page", "3", "the page needs it"),
        ("principal", "u1", "not JSON"),
        ("checks", "[{}]", "missing"),
    ],
)
def test_bad_cells_are_named(tmp_path: Path, column: str, cell: str, reason: str) -> None:
    content = cells(["question", "Spalte"], ",") + cells(["Who?", cell], ",") + cells(["When?", ""], ",")
    report = read(tmp_path, content, **{column: "Spalte"})
    assert [item.question for item in report.items] == ["When?"]
    [refusal] = report.refused
    expected = "document_id" if "needs it" in reason else "Spalte"
    assert refusal.row == 2
    assert (refusal.field or "").split("[")[0] == expected
    assert reason in refusal.reason


@pytest.mark.parametrize(("first", "second"), [("answer", "answers"), ("principal.team", "principal")])
def test_one_thing_said_twice_is_refused(tmp_path: Path, first: str, second: str) -> None:
    report = read(tmp_path, cells(["question", first, second], ",") + cells(["Who?", "x", "[]"], ","))
    assert places(report) == [(2, second)]


@pytest.mark.parametrize(
    ("content", "columns", "words"),
    [
        (b"Frage,Antwort\nWer?,Er\n", {}, "none of the 2 columns of its first row is 'question': say which"),
        (b"Frage\nWer?\n", {"question": "Fragen"}, "--map question=Fragen names none of the 1 columns"),
        (b"question,question\nWho?,When?\n", {}, "has 2 columns 'question'"),
        (b'"question,answer\nWho?,He', {}, "the first row does not name the columns"),
        (b"\xff\xfeq\0\n\0", {}, "is UTF-16: save it as UTF-8"),
        (b"question\nWho?\n", {"frage": "question"}, "--map frage=question: with the format csv --map takes question"),
        (b"question\nWho?\n", {"principal.": "question"}, "--map takes question"),
    ],
)
def test_an_unusable_table_is_one_clear_line(
    tmp_path: Path, content: bytes, columns: dict[str, str], words: str
) -> None:
    with pytest.raises(DatasetError) as caught:
        read(tmp_path, content, **columns)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "Wer?" not in str(caught.value)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200))
def test_whatever_the_bytes_there_is_an_item_or_a_refusal_or_one_error(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = table(tmp_path_factory.mktemp("csv"), b"question,answer\n" + content)
    report = read_dataset(path, "csv")
    records = [line for line in content.splitlines() if line]
    assert len(report.items) + len(report.refused) <= len(records) + 1
    for item in report.items:
        item.question.encode()
        assert item.question.strip()
