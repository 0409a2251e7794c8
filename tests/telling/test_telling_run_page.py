"""The Markdown page of a run: verdict, numbers, and questions that link into the report; nothing of the documents."""

from rageval_dagster.evaluation.summary import report_of
from rageval_dagster.storage.database import Database
from rageval_dagster.telling.links import ReportLinks, report_file
from rageval_dagster.telling.run_page import run_page
from rageval_dagster.telling.verdicts import verdict_of
from tests.gate.gated_history import evaluated, held, ranks
from tests.storage.history_builder import make_dataset, make_items

ITEMS = make_items(80)
HOSTILE = "# a|b](http://evil.example)<img src=x> **no**"


def page_of(db: Database, links: ReportLinks, name: str = "human") -> str:
    dataset = make_dataset(db, "acme", ITEMS, name=name)
    held(db, evaluated(db, dataset, "n1", ranks(ITEMS), items=ITEMS))
    [judged] = held(db, evaluated(db, dataset, "n2", ranks(ITEMS, 30), items=ITEMS, corpus="corpus-2"))
    return run_page(db, [report_of(db, judged.evaluation)], [verdict_of(db, judged, 0.05)], links, 0.05)


def test_the_verdict_stands_first_and_questions_link_into_the_report(sqlite_db: Database) -> None:
    page = page_of(sqlite_db, ReportLinks("https://reports.example/rag/"))
    heading, verdict, *_ = page.split("\n\n")
    assert heading == "### human / dense (run 2)"
    assert verdict.startswith("**Regressed since ")
    assert "MRR 1.00 to .62" in verdict.replace("&#46;", ".")
    file = report_file("acme")
    assert f"https://reports.example/rag/{file}#run=2&question=" in page
    assert f"[Open the report](https://reports.example/rag/{file}#run=2)" in page
    assert "Newly failing (30 questions): " in page
    assert "and 25 more" in page
    assert sum(f"[{item.item_id}](" in page for item in ITEMS) >= 5


def test_the_table_shows_means_differences_and_a_trend(sqlite_db: Database) -> None:
    row = next(line for line in page_of(sqlite_db, ReportLinks()).splitlines() if line.startswith("| MRR"))
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert (cells[1], cells[4], cells[5]) == (".62", "−.38 regressed", "█▆")


def test_without_an_address_ids_are_not_links_and_commands_are_named(sqlite_db: Database) -> None:
    page = page_of(sqlite_db, ReportLinks())
    assert "](" not in page
    assert "`rageval runs show 2`" in page


def test_names_make_no_links_tables_or_elements(sqlite_db: Database) -> None:
    page = page_of(sqlite_db, ReportLinks(), name=HOSTILE)
    assert "](" not in page
    assert "<img" not in page
    assert not any(line.startswith("# ") for line in page.splitlines())
    assert not [word for word in ("question 1?", "quote 1", "answer 1") if word in page]


def test_file_names_are_readable_and_differ_where_names_do() -> None:
    names = ["Acme Inc.", "acme-inc", "ACME/inc", "…", "ä" * 200, "../../etc/passwd"]
    files = {report_file(name) for name in names}
    assert len(files) == len(names)
    assert all(file.isascii() and "/" not in file and len(file) < 80 for file in files)
    assert report_file("Acme Inc.").startswith("acme-inc-")
