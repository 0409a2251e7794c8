"""The reports' files: made anew before a text outlives its retention, deleted with their client, written whole."""

import html
import os
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from rageval_dagster.errors import RagevalError
from rageval_dagster.gate.incidents import EndedRun, note_run, review, review_freshness
from rageval_dagster.records import Outcome
from rageval_dagster.report import questions
from rageval_dagster.report.contents import client_contents
from rageval_dagster.report.files import (
    delete_reports,
    renew_old_reports,
    reports_of_client,
    write_client_report,
    write_fleet_report,
)
from rageval_dagster.report.leaderboard import leaderboards
from rageval_dagster.settings import Settings, load_settings
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.evaluations import list_evaluations
from rageval_dagster.storage.forgetting import bury, delete_rows
from rageval_dagster.storage.results import load_results
from rageval_dagster.storage.retention import delete_texts
from rageval_dagster.storage.scores import save_scores, save_summaries
from rageval_dagster.storage.types import utc_now
from tests.gate.gated_history import evaluated, held, ranks
from tests.gate.planted_incidents import age, dataset_with, evaluate
from tests.storage.history_builder import MRR, make_dataset, make_items, summary

ITEMS = make_items(40)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return load_settings({"RAGEVAL_HOME": str(tmp_path / "home")}, env_file=tmp_path / "none.env")


@pytest.fixture
def db(sqlite_db: Database) -> Database:
    for client in ("acme", "beta"):
        dataset = make_dataset(sqlite_db, client, ITEMS)
        held(sqlite_db, evaluated(sqlite_db, dataset, "n1", ranks(ITEMS, 5), items=ITEMS))
    return sqlite_db


def test_a_forgotten_client_has_no_report_and_stands_on_no_page(db: Database, settings: Settings) -> None:
    for client in ("acme", "beta"):
        write_client_report(db, settings, client)
    write_client_report(db, settings, "acme", redact=True)
    fleet = write_fleet_report(db, settings)
    assert "acme" in fleet.read_text()
    delete_rows(db, "acme")
    bury(db, "acme", {})
    assert delete_reports(db, settings, "acme") == []
    assert reports_of_client(settings, "acme") == []
    assert len(reports_of_client(settings, "beta")) == 1
    assert not any(b"acme" in path.read_bytes() for path in settings.report_dir.iterdir())


def test_a_report_of_yesterday_is_made_anew_from_what_is_left(db: Database, settings: Settings) -> None:
    path = write_client_report(db, settings, "acme")
    with_texts = path.read_text()
    now = datetime.now(UTC)
    delete_texts(db, "acme", now + timedelta(days=1), keep_baselines=False)
    assert renew_old_reports(db, settings, now) == []
    assert path.read_text() == with_texts
    old = (now - timedelta(days=2)).timestamp()
    os.utime(path, (old, old))
    assert renew_old_reports(db, settings, now) == []
    assert len(path.read_text()) < len(with_texts)
    assert len(reports_of_client(settings, "beta")) == 0  # nobody asked for one


def test_a_folder_that_cannot_be_written_is_one_clear_line(db: Database, settings: Settings) -> None:
    settings.ensure_home()
    settings.report_dir.write_text("a file where the folder should be")
    with pytest.raises(RagevalError, match="RAGEVAL_REPORT_DIR"):
        write_client_report(db, settings, "acme")


def test_files_are_for_their_owner_only(db: Database, settings: Settings) -> None:
    for path in (write_client_report(db, settings, "acme"), write_fleet_report(db, settings)):
        assert path.stat().st_mode & 0o777 == 0o600
    assert settings.report_dir.stat().st_mode & 0o777 == 0o700
    assert [path.name for path in settings.report_dir.iterdir() if path.name.startswith(".")] == []


def test_where_nothing_was_evaluated_it_says_so(sqlite_db: Database, settings: Settings) -> None:
    make_dataset(sqlite_db, "acme", make_items(3))
    assert "Nothing has been evaluated yet" in write_client_report(sqlite_db, settings, "acme").read_text()


def test_a_leaderboard_says_who_is_really_ahead(sqlite_db: Database) -> None:
    dataset = make_dataset(sqlite_db, "acme", ITEMS)
    for system, wrong in (("dense", 2), ("hybrid", 3), ("bm25", 30)):
        evaluated(sqlite_db, dataset, f"night of {system}", ranks(ITEMS, wrong), items=ITEMS, system=system)
    [board] = leaderboards(sqlite_db, list_evaluations(sqlite_db, client_id="acme"), MRR)
    assert [(place.evaluation.system, place.ahead_of) for place in board.places] == [
        ("dense", ["bm25"]),
        ("hybrid", ["bm25"]),
        ("bm25", []),
    ]
    assert board.sentence == "dense leads by MRR (.95), ahead of bm25; its lead over hybrid may be chance."


def test_systems_with_the_same_mean_share_a_place(sqlite_db: Database, settings: Settings) -> None:
    dataset = make_dataset(sqlite_db, "acme", ITEMS)
    for system, wrong in (("bm25", 30), ("dense", 2), ("hybrid", 2), ("old", 30)):
        evaluated(sqlite_db, dataset, f"night of {system}", ranks(ITEMS, wrong), items=ITEMS, system=system)
    [board] = leaderboards(sqlite_db, list_evaluations(sqlite_db, client_id="acme"), MRR)
    assert [(place.rank, place.evaluation.system) for place in board.places] == [
        (1, "dense"),
        (1, "hybrid"),
        (3, "bm25"),
        (3, "old"),
    ]
    assert board.sentence == "dense and hybrid share the first place by MRR (.95), really ahead of bm25 and old."
    page = write_client_report(sqlite_db, settings, "acme", objective=MRR).read_text(encoding="utf-8")
    assert re.findall(r'data-label="place">(\d+)<', page) == ["1", "1", "3", "3"]


def test_beside_the_leaderboard_stand_the_questions_that_are_hard_for_every_system(
    sqlite_db: Database, settings: Settings
) -> None:
    dataset = make_dataset(sqlite_db, "acme", ITEMS)
    for system, wrong in (("dense", 2), ("bm25", 3)):
        evaluated(sqlite_db, dataset, f"night of {system}", ranks(ITEMS, wrong), items=ITEMS, system=system)
    page = write_client_report(sqlite_db, settings, "acme", objective=MRR).read_text(encoding="utf-8")
    [told] = re.findall(r"<p>No system has the evidence of these questions.*</p>", page)
    assert re.findall(r'href="#run=1&amp;question=(\w+)"', told) == sorted(item.item_id for item in ITEMS[:2])


def test_where_all_are_alike_nobody_leads(sqlite_db: Database) -> None:
    dataset = make_dataset(sqlite_db, "acme", ITEMS)
    for system in ("bm25", "dense"):
        evaluated(sqlite_db, dataset, f"night of {system}", ranks(ITEMS, 2), items=ITEMS, system=system)
    [board] = leaderboards(sqlite_db, list_evaluations(sqlite_db, client_id="acme"), MRR)
    assert board.sentence == "bm25 and dense share the first place by MRR (.95)."


def test_one_system_alone_has_no_leaderboard(db: Database) -> None:
    assert leaderboards(db, list_evaluations(db, client_id="acme"), MRR) == []


def test_of_many_questions_a_judge_s_reasons_stand_with_the_worst_and_most_changed(
    sqlite_db: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = make_dataset(sqlite_db, "acme", ITEMS)
    report = evaluated(sqlite_db, dataset, "n1", ranks(ITEMS, 5), items=ITEMS)
    held(sqlite_db, report)
    outcome = Outcome.scored(0.5, {"reasoning": "Half of it is supported."})
    results = load_results(sqlite_db, report.evaluation.id).values()
    save_scores(sqlite_db, report.evaluation.id, [(key, "judge.faithfulness", "1", outcome) for key, _ in results])
    save_summaries(sqlite_db, report.evaluation.id, [summary("judge.faithfulness", 0.5, n=len(ITEMS))])

    def with_reasons() -> set[str]:
        [contents] = client_contents(sqlite_db, settings, "acme").evaluations
        return {row["id"] for row in contents.questions.rows if "j" in row}

    assert with_reasons() == {item.item_id for item in ITEMS}
    monkeypatch.setattr(questions, "MANY", len(ITEMS) - 1)
    monkeypatch.setattr(questions, "WORST", 5)
    assert with_reasons() == {item.item_id for item in ITEMS[:5]}


FELL, FAILED = {"verdict": "regressed", "regressed": [MRR]}, {"failed": 3, "verdict": None}
EVERYTHING = {
    "both": {**FELL, "foreign": 2},
    "down": {"failed": 3, "means": {MRR: None}},
    "fell": {**FELL, "failed": 2},
    "leaking": {"foreign": 1},
    "well": {},
}


@pytest.mark.parametrize(
    ("clients", "said"),
    [
        (
            EVERYTHING,
            "The systems of 2 clients returned passages of other clients: both, leaking; 2 of 5 clients regressed: "
            "both, fell; the systems of 2 clients failed: fell (on 2 of 3 questions), down (on all questions).",
        ),
        (
            {"a": FAILED, "b": {**FAILED, "failed": 2}, "well": {"verdict": "passed"}},
            "The systems of 2 clients failed: a (on all questions), b (on 2 of 3 questions).",
        ),
        (
            {f"client-{number}": FAILED for number in range(7)},
            "The systems of 7 clients failed: client-0, client-1, client-2, client-3, client-4 and 2 more "
            "(on all questions).",
        ),
    ],
)
def test_the_page_of_all_clients_begins_with_what_is_wrong(
    sqlite_db: Database, settings: Settings, clients: dict[str, dict[str, Any]], said: str
) -> None:
    for client, wrong in clients.items():
        evaluate(sqlite_db, client, **wrong)
    assert sentence(write_fleet_report(sqlite_db, settings)) == said


def test_what_is_open_stands_with_its_reason_on_the_page_of_all(sqlite_db: Database, settings: Settings) -> None:
    now = datetime.now(UTC)
    for client in ("ailing", "lumen", "old", "well", "zebra"):
        evaluate(sqlite_db, client)
    evaluate(sqlite_db, "zebra", verdict="regressed", regressed=[MRR])
    dataset_with(sqlite_db, "ailing", "synthetic", valid=False)
    review(sqlite_db, settings, {"ailing", "zebra"}, now)
    note_run(sqlite_db, "lumen", EndedRun("run-1", True, "retrieval_runs", died=True), utc_now())
    age(sqlite_db, "old", timedelta(days=3), now)
    review_freshness(sqlite_db, settings, now)
    path = write_fleet_report(sqlite_db, settings)
    assert sentence(path) == (
        "1 of 5 clients regressed: zebra; the last run of 1 client failed: lumen (its process died); the benchmark of "
        "1 client breaks its rules: ailing; 1 client was not evaluated for too long: old."
    )
    page = path.read_text()
    rows = page.partition("<tbody>")[2].split("<tr ")[1:]
    assert [row.partition('"')[2].partition('"')[0] for row in rows] == ["zebra", "lumen", "ailing", "old", "well"]
    assert "failed run: at step retrieval_runs (its process died), Dagster run run-1; open since " in rows[1]
    assert 'data-verdict="failed run"' in rows[1]
    assert re.search(
        r">out of date: no complete evaluation since [0-9-]+ [0-9:]+ UTC; one is wanted every 36 h; ", rows[3]
    )
    assert "no_duplicates (2), quote_in_document (1)" in rows[2]
    assert 'class="incident"' not in rows[0] + rows[4]  # a regression is told by the row's own numbers
    note_run(sqlite_db, "lumen", EndedRun("run-2", False), now)
    assert "lumen" not in sentence(write_fleet_report(sqlite_db, settings))


def test_a_row_of_the_page_of_all_says_all_that_its_headline_says(sqlite_db: Database, settings: Settings) -> None:
    evaluate(sqlite_db, "both", **FELL, foreign=1)
    evaluate(sqlite_db, "judge", means={MRR: 0.8, "judge.overall": 0.7}, errors={"judge.overall": 4})
    evaluate(sqlite_db, "down", failed=3, verdict="failed")
    review(sqlite_db, settings, {"both", "down", "judge"}, datetime.now(UTC))
    note_run(sqlite_db, "both", EndedRun("run-1", True, "metric_scores"), utc_now())
    path = write_fleet_report(sqlite_db, settings)
    assert sentence(path) == (
        "The system of 1 client returned passages of other clients: both; 1 of 3 clients regressed: both; the system "
        "of 1 client failed: down (on all questions); many questions of 1 client could not be scored: judge; the last "
        "run of 1 client failed: both."
    )
    both, down, judge = path.read_text().partition("<tbody>")[2].split("<tr ")[1:]
    for row, verdict, reason in (
        (both, "leak, regressed, failed run", "failed run: at step metric_scores, "),
        (down, "system failed", "system failed: the system failed on 3 of 3 questions, "),
        (judge, "not scored", "not scored: of 3 questions these could not be scored: "),
    ):
        assert f'data-verdict="{verdict}"' in row
        assert f">{reason}" in row


def test_newly_failing_questions_are_counted_and_lead_to_their_list(sqlite_db: Database, settings: Settings) -> None:
    fell = evaluate(sqlite_db, "fell", verdict="regressed", regressed=[MRR])
    page = write_fleet_report(sqlite_db, settings).read_text()
    assert '<td class="n">2</td>' in page
    write_client_report(sqlite_db, settings, "fell")
    page = write_fleet_report(sqlite_db, settings).read_text()
    assert f'#run={fell.id}&amp;only=new">2</a>' in page


def sentence(path: Path) -> str:
    """What the page of all clients begins with."""
    [found] = re.findall(r'<p class="verdict[^>]*>(.*?)</p>', path.read_text())
    return html.unescape(found)
