"""What Dagster shows of a run: verdict, numbers, pictures, and links into the report; nothing of the documents."""

import base64
import re
from typing import Any
from xml.etree import ElementTree

import pytest

from rageval_dagster.evaluation.summary import report_of
from rageval_dagster.storage.database import Database
from rageval_dagster.telling.links import ReportLinks, report_file
from rageval_dagster.telling.run_page import (
    SHOWN_AT_ONCE,
    Address,
    Markdown,
    run_metadata,
    verdict_lines,
    verdict_tag,
)
from rageval_dagster.telling.verdicts import verdict_of
from tests.gate.gated_history import SPEC, evaluated, held, ranks
from tests.storage.history_builder import make_dataset, make_items

ITEMS = make_items(80)
HOSTILE = "# a|b](http://evil.example)<img src=x> **no**"


def shown_of(db: Database, links: ReportLinks, name: str = "human", nights: int = 2) -> dict[str, Any]:
    """Of a run in which 30 of 80 questions fell, after so many nights in all."""
    dataset = make_dataset(db, "acme", ITEMS, name=name)
    for night in range(1, nights):
        held(db, evaluated(db, dataset, f"n{night}", ranks(ITEMS), items=ITEMS))
    [judged] = held(db, evaluated(db, dataset, f"n{nights}", ranks(ITEMS, 30), items=ITEMS, corpus="corpus-2"))
    return run_metadata(db, [report_of(db, judged.evaluation)], [verdict_of(db, judged, 0.05)], links, SPEC)


def page_of(db: Database, links: ReportLinks, name: str = "human") -> str:
    [page] = [value for label, value in shown_of(db, links, name).items() if label.endswith("/details")]
    return page


def test_what_is_shown_without_a_click_begins_with_client_verdict_trend_and_report(sqlite_db: Database) -> None:
    shown = shown_of(sqlite_db, ReportLinks("https://reports.example"))
    assert list(shown)[:4] == ["client", "human/verdict", "human/trend", "human/report"]
    assert shown["client"] == "acme"
    assert shown["human/verdict"].startswith("Regressed since ")
    assert "MRR 1.00 to .62; the documents changed" in shown["human/verdict"]
    assert "MRR .62 █▆" in shown["human/trend"]
    assert isinstance(shown["human/report"], Address)
    assert shown["human/report"] == f"https://reports.example/{report_file('acme')}#run=2"
    assert shown["human/newly failing"].startswith("30 questions: [question 1](https://reports.example/")
    assert not [label for label, value in shown.items() if isinstance(value, str) and "question 1?" in value]


def test_each_headline_metric_has_a_picture_of_its_last_runs_that_is_shown_without_a_click(sqlite_db: Database) -> None:
    shown = shown_of(sqlite_db, ReportLinks("https://reports.example"), nights=12)
    said, image = shown["human/MRR"].split("\n\n")
    assert said.startswith("**.62**; −.38 regressed against the baseline; 10 runs, ")
    pictured = re.fullmatch(r"!\[((?:1\.00, ){9}\.62)\]\(data:image/svg\+xml;base64,([\w+/=]+)\)", image)
    assert pictured
    line = ElementTree.fromstring(base64.b64decode(pictured[2])).findall("{http://www.w3.org/2000/svg}path")[-1]
    places = [tuple(map(int, place.split(","))) for place in line.attrib["d"].strip("M").split()]
    assert len(places) == 10
    assert [x for x, _ in places] == sorted({x for x, _ in places})
    assert len({y for _, y in places[:9]}) == 1
    assert places[9][1] > places[8][1], "downwards"
    short = [value for label, value in shown.items() if isinstance(value, Markdown) and label != "human/details"]
    assert len(short) > 2
    assert max(map(len, short)) <= SHOWN_AT_ONCE
    assert sum(len(f"{label}{value}".encode()) for label, value in shown.items()) < 10_000


def test_long_addresses_leave_room_for_fewer_questions(sqlite_db: Database) -> None:
    shown = shown_of(sqlite_db, ReportLinks(f"https://reports.example/{'a' * 200}"))["human/newly failing"]
    assert len(shown) <= SHOWN_AT_ONCE
    assert re.search(r"\[question 1\]\(.*\) and 2[678] more$", shown)


@pytest.mark.parametrize("base_url", [None, "https://reports.example"])
def test_the_end_of_a_run_and_its_tag_say_the_verdict(sqlite_db: Database, base_url: str | None) -> None:
    dataset = make_dataset(sqlite_db, "acme", ITEMS)
    first = evaluated(sqlite_db, dataset, "n1", ranks(ITEMS), items=ITEMS)
    before = [verdict_of(sqlite_db, each, 0.05) for each in held(sqlite_db, first)]
    fallen = evaluated(sqlite_db, dataset, "n2", ranks(ITEMS, 30), items=ITEMS)
    now = [verdict_of(sqlite_db, each, 0.05) for each in held(sqlite_db, fallen)]
    [line] = verdict_lines([fallen], now, ReportLinks(base_url))
    assert line.startswith("human / dense: Regressed since ")
    assert line.endswith(f"/{report_file('acme')}#run=2" if base_url else " rageval runs show 2")
    assert (verdict_tag(before), verdict_tag(now), verdict_tag([*before, *now])) == (
        "first run",
        "regressed",
        "regressed",
    )


def test_the_details_begin_with_the_verdict_and_questions_link_into_the_report(sqlite_db: Database) -> None:
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
    assert sum(f"&question={item.item_id})" in page for item in ITEMS) >= 5


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


def test_the_gravest_dataset_comes_first_and_one_that_passed_before_a_first_run(sqlite_db: Database) -> None:
    datasets = [make_dataset(sqlite_db, "acme", ITEMS, name) for name in ("a", "b", "c")]
    for each in datasets[1:]:
        held(sqlite_db, evaluated(sqlite_db, each, "n1", ranks(ITEMS), items=ITEMS))
    reports = [
        evaluated(sqlite_db, each, f"{each.name}2", ranks(ITEMS, wrong), items=ITEMS)
        for each, wrong in zip(datasets, (0, 0, 40), strict=True)
    ]
    verdicts = [verdict_of(sqlite_db, each, 0.05) for each in held(sqlite_db, *reports)]
    shown = run_metadata(sqlite_db, reports, verdicts, ReportLinks(), SPEC)
    assert [label for label in shown if label.endswith("/verdict")] == ["c/verdict", "b/verdict", "a/verdict"]
    assert [line[0] for line in verdict_lines(reports, verdicts, ReportLinks())] == ["c", "b", "a"]
    assert verdict_tag(verdicts[:2]) == "passed"


def test_datasets_whose_names_are_cut_to_the_same_all_have_their_verdicts(sqlite_db: Database) -> None:
    names = ("n" * 100 + "a", "n" * 100 + "b")
    datasets = [make_dataset(sqlite_db, "acme", ITEMS, name) for name in names]
    reports = [
        evaluated(sqlite_db, each, "n1", ranks(ITEMS, wrong), items=ITEMS)
        for each, wrong in zip(datasets, (0, 40), strict=True)
    ]
    verdicts = [verdict_of(sqlite_db, each, 0.05) for each in held(sqlite_db, *reports)]
    shown = run_metadata(sqlite_db, reports, verdicts, ReportLinks(), SPEC)
    said = [value for label, value in shown.items() if label.endswith("/verdict")]
    assert sorted(("MRR 1.00" in each, "MRR .50" in each) for each in said) == [(False, True), (True, False)]
    assert sorted(value for label, value in shown.items() if label.endswith("/mrr")) == [0.5, 1.0]


def test_where_nothing_was_scored_there_is_no_empty_trend(sqlite_db: Database) -> None:
    dataset = make_dataset(sqlite_db, "acme", ITEMS)
    report = evaluated(sqlite_db, dataset, "n1", dict.fromkeys(ranks(ITEMS)), items=ITEMS)
    verdicts = [verdict_of(sqlite_db, each, 0.05) for each in held(sqlite_db, report)]
    assert "human/trend" not in run_metadata(sqlite_db, [report], verdicts, ReportLinks(), SPEC)
