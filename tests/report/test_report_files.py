"""The reports' files: made anew before a text outlives its retention, deleted with their client, written whole."""

import html
import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from upath import UPath

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
from rageval_dagster.storage.incidents import Finding, open_all
from rageval_dagster.storage.results import load_results
from rageval_dagster.storage.retention import delete_texts
from rageval_dagster.storage.scores import save_scores, save_summaries
from rageval_dagster.storage.types import utc_now
from rageval_dagster.storage.views import read_view
from rageval_dagster.telling.links import report_file
from tests.gate.gated_history import evaluated, held, ranks
from tests.gate.planted_incidents import age, dataset_with, evaluate
from tests.loopback import free_port
from tests.report.served import serving
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


def test_a_leaderboard_over_different_numbers_of_questions_says_so(sqlite_db: Database, settings: Settings) -> None:
    dataset, note = make_dataset(sqlite_db, "acme", ITEMS), "The means are of 35 to 40 questions"
    few = ranks(ITEMS) | {item.item_id: None for item in ITEMS[:5]}
    for system, values in (("dense", ranks(ITEMS, 2)), ("hybrid", ranks(ITEMS, 3)), ("bm25", few)):
        page = write_client_report(sqlite_db, settings, "acme", objective=MRR).read_text(encoding="utf-8")
        assert note not in page
        evaluated(sqlite_db, dataset, f"night of {system}", values, items=ITEMS, system=system)
    page = write_client_report(sqlite_db, settings, "acme", objective=MRR).read_text(encoding="utf-8")
    assert note in page


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


def test_systems_are_ranked_by_the_gate_s_metric_and_each_has_its_own_verdict(
    sqlite_db: Database, settings: Settings
) -> None:
    """`dense` is ahead of `bm25` and has fallen since its baseline; by faithfulness it would be behind."""
    dataset = make_dataset(sqlite_db, "acme", ITEMS)
    for night, system, wrong in (("n1", "dense", 0), ("n1", "bm25", 30), ("n2", "dense", 15), ("n2", "bm25", 30)):
        report = evaluated(sqlite_db, dataset, f"{night} {system}", ranks(ITEMS, wrong), items=ITEMS, system=system)
        held(sqlite_db, report)
        faithful = summary("overlap.faithfulness", 0.9 if system == "bm25" else 0.5, n=len(ITEMS))
        save_summaries(sqlite_db, report.evaluation.id, [faithful])
    page = write_client_report(sqlite_db, settings, "acme").read_text(encoding="utf-8")
    assert "dense leads by MRR" in page
    assert "Do not ship dense all the same: regressed." in page
    assert "Ranked by MRR, the first metric of the gate that they have." in page
    assert re.findall(r'data-label="verdict">([^<]+)<', page) == ["regressed", "passed"]
    page = write_client_report(sqlite_db, settings, "acme", objective="overlap.faithfulness").read_text("utf-8")
    assert "bm25 leads by faithfulness (overlap)" in page
    assert "which is no metric of the gate" in page


def test_beside_the_leaderboard_stand_the_questions_that_are_hard_for_every_system(
    sqlite_db: Database, settings: Settings
) -> None:
    dataset = make_dataset(sqlite_db, "acme", ITEMS)
    for system, wrong in (("dense", 2), ("bm25", 3)):
        evaluated(sqlite_db, dataset, f"night of {system}", ranks(ITEMS, wrong), items=ITEMS, system=system)
    page = write_client_report(sqlite_db, settings, "acme", objective=MRR).read_text(encoding="utf-8")
    told = page.partition("No system has the evidence of 2 questions")[2].partition("</details>")[0]
    assert re.findall(r'href="#run=1&amp;question=(\w+)"', told) == sorted(item.item_id for item in ITEMS[:2])
    assert ITEMS[0].question in told


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
            [
                "4 of 5 clients need attention",
                "Returned passages of other clients 2 both, leaking",
                "Got worse 2 both, fell",
                "System failed 2 fell, down",
            ],
        ),
        (
            {f"client-{number}": FAILED for number in range(7)},
            [
                "7 of 7 clients need attention",
                "System failed 7 client-0, client-1, client-2, client-3, client-4 and 2 more",
            ],
        ),
        ({"well": {"verdict": "passed"}, "doubtful": {"verdict": "unclear"}}, ["1 of 2 clients may have got worse"]),
        ({"well": {"verdict": "passed"}}, ["Nothing is wrong"]),
    ],
)
def test_the_page_of_all_clients_begins_with_what_is_wrong(
    sqlite_db: Database, settings: Settings, clients: dict[str, dict[str, Any]], said: list[str]
) -> None:
    for client, wrong in clients.items():
        evaluate(sqlite_db, client, **wrong)
    assert begins(write_fleet_report(sqlite_db, settings)) == said


def test_the_page_of_all_counts_what_leaked_in_all_datasets(sqlite_db: Database, settings: Settings) -> None:
    evaluate(sqlite_db, "acme", foreign=20)
    [row] = read_view(sqlite_db, "fleet_overview")
    leak = Finding("acme", "leak", "mine", evaluation_id=row["evaluation_id"], details={"chunks": 1})
    open_all(sqlite_db, [leak], utc_now())
    assert "It returned 20 passages of other" in rows(write_fleet_report(sqlite_db, settings))["acme"]


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
    assert begins(path) == [
        "4 of 5 clients need attention",
        "Got worse zebra",
        "Last run failed lumen",
        "Benchmark breaks its rules ailing",
        "Not evaluated for too long old",
    ]
    found = rows(path)
    assert list(found) == ["zebra", "lumen", "ailing", "old", "well"]
    assert "The index changed (re-embedded 100 chunks)." in found["zebra"]
    assert "The last run failed while retrieving passages: its process died." in found["lumen"]
    assert "no duplicates (2), quote in document (1); it is not evaluated until that is fixed." in found["ailing"]
    assert re.search(
        r"No complete evaluation since [0-9-]+ [0-9:]+ UTC; one is expected every 36 h\.", found["old"], re.I
    )
    assert "since" not in found["well"]
    note_run(sqlite_db, "lumen", EndedRun("run-2", False), now)
    assert "lumen" not in " ".join(begins(write_fleet_report(sqlite_db, settings)))


@pytest.mark.parametrize(
    ("run", "said"),
    [
        (
            EndedRun("0b6d3c1e", True, "metric_scores", "LanguageModelError"),
            "while scoring the answers: a language model refused",
        ),
        (
            EndedRun("0b6d3c1e", True, "metric_scores", "ZeroDivisionError"),
            "while scoring the answers. Its log says why.",
        ),
        (EndedRun("0b6d3c1e", True), "before its first step. Its log says why."),
    ],
)
def test_why_a_run_failed_is_told_without_classes_steps_and_ids(
    sqlite_db: Database, settings: Settings, run: EndedRun, said: str
) -> None:
    evaluate(sqlite_db, "acme")
    note_run(sqlite_db, "acme", run, utc_now())
    for path in (write_fleet_report(sqlite_db, settings), write_client_report(sqlite_db, settings, "acme")):
        page = path.read_text()
        assert f"The last run failed {said}" in page
        assert not re.search("0b6d3c1e|Error|metric_scores", page.partition("<body>")[2].partition("<script")[0])


def test_a_row_of_the_page_of_all_says_all_that_its_headline_says(sqlite_db: Database, settings: Settings) -> None:
    evaluate(sqlite_db, "both", **FELL, foreign=1)
    evaluate(sqlite_db, "judge", means={MRR: 0.8, "judge.overall": 0.7}, errors={"judge.overall": 4})
    evaluate(sqlite_db, "down", failed=3, verdict="failed", reason="http_status: 401")
    evaluate(sqlite_db, "unseen", failed=2, verdict="failed")
    review(sqlite_db, settings, {"both", "down", "judge"}, datetime.now(UTC))
    note_run(sqlite_db, "both", EndedRun("run-1", True, "metric_scores"), utc_now())
    path = write_fleet_report(sqlite_db, settings)
    assert begins(path) == [
        "4 of 4 clients need attention",
        "Returned passages of other clients both",
        "Got worse both",
        "System failed 2 down, unseen",
        "Could not be scored judge",
        "Last run failed both",
    ]
    found = rows(path)
    for client, verdict, reasons in (
        (
            "both",
            "leak, regressed, failed run",
            ["returned 1 passage of another client.", "The last run failed while "],
        ),
        ("down", "system failed", ["The system failed on 3 of 3 questions: it answered with HTTP status 401."]),
        ("unseen", "system failed", ["The system failed on 2 of 3 questions."]),
        ("judge", "not scored", ["Of 3 questions these could not be scored: overall (judge) on 4."]),
    ):
        assert f'data-verdict="{verdict}"' in found[client]
        assert [reason for reason in reasons if reason not in found[client]] == []


def test_a_row_draws_the_last_runs_of_the_number_that_it_shows(sqlite_db: Database, settings: Settings) -> None:
    for mean in (0.9, 0.8, 0.6):
        evaluate(sqlite_db, "acme", means={MRR: mean})
        evaluate(sqlite_db, "acme", dataset="other", means={MRR: 0.95})
    evaluate(sqlite_db, "new", means={MRR: 0.8})
    found = rows(write_fleet_report(sqlite_db, settings))
    assert re.search(r"MRR over the last runs: \.90 \([^)]*\), \.80 \([^)]*\), \.60 \(", found["acme"])
    assert "<svg" not in found["new"]  # one run is no trend


def test_newly_failing_questions_are_counted_and_lead_to_their_list(sqlite_db: Database, settings: Settings) -> None:
    fell = evaluate(sqlite_db, "fell", verdict="regressed", regressed=[MRR])
    page = write_fleet_report(sqlite_db, settings).read_text()
    assert 'data-label="newly failing">2</td>' in page
    write_client_report(sqlite_db, settings, "fell")
    page = write_fleet_report(sqlite_db, settings).read_text()
    assert f'#run={fell.id}&amp;only=new">2</a>' in page


def begins(path: Path) -> list[str]:
    """What the page of all clients begins with, line by line."""
    lead = path.read_text().partition('<section class="card lead')[2].partition("</section>")[0]
    said = re.findall(r'<p class="answer">(.*?)</p>|<li>(.*?)</li>', lead)
    return [" ".join(html.unescape(re.sub("<[^>]*>", "", one or other)).split()) for one, other in said]


def rows(path: Path) -> dict[str, str]:
    """The rows of its table by client, in their order."""
    found = path.read_text().partition("<tbody>")[2].partition("</tbody>")[0].split("<tr ")[1:]
    return {row.partition('"')[2].partition('"')[0]: row for row in found}


@pytest.fixture
def remote(tmp_path: Path) -> Iterator[Settings]:
    """Reports in a folder that is no local one: of this process, as a bucket is of all machines."""
    url = f"memory://{tmp_path.name}/reports"
    yield load_settings(
        {"RAGEVAL_HOME": str(tmp_path / "home"), "RAGEVAL_REPORT_DIR": url}, env_file=tmp_path / "none.env"
    )
    UPath(f"memory://{tmp_path.name}").rmdir(recursive=True)


def test_reports_behind_a_url_are_written_linked_served_renewed_and_deleted(
    db: Database, remote: Settings, tmp_path: Path
) -> None:
    for client in ("acme", "beta"):
        write_client_report(db, remote, client)
    fleet = write_fleet_report(db, remote)
    assert str(fleet) == f"memory://{tmp_path.name}/reports/fleet.html"
    assert f'<a href="{report_file("acme")}">acme</a>' in fleet.read_text(encoding="utf-8")
    assert not (tmp_path / "home" / "reports").exists()
    with serving(db, tmp_path, RAGEVAL_REPORT_DIR=str(remote.report_dir)) as served:
        session = served.logged_in()
        assert ">acme</a>" in session.get("/reports/fleet.html").text
        assert session.get(f"/reports/{report_file('acme')}").status_code == 200
        assert session.get(f"/reports/{report_file('nobody')}").status_code == 404

    [acme] = reports_of_client(remote, "acme")
    with_texts = acme.read_text(encoding="utf-8")
    now = utc_now() + timedelta(days=2)
    delete_texts(db, "acme", now, keep_baselines=False)
    assert renew_old_reports(db, remote, now) == []
    assert len(acme.read_text(encoding="utf-8")) < len(with_texts)

    delete_rows(db, "acme")
    bury(db, "acme", {})
    assert delete_reports(db, remote, "acme") == []
    assert reports_of_client(remote, "acme") == []
    assert "acme" not in fleet.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("nowhere://bucket/reports", "fsspec knows no nowhere://"),
        ("oss://bucket/reports", "needs a package"),
        ("oss://s3cret@bucket/reports", "needs a package"),
        ("nowhere://s3cret@bucket/reports", "fsspec knows no nowhere://"),
        ("ftp://me:s3cret@127.0.0.1/reports", "holds a password or a query: leave it out"),
        ("oss://KEY%3As3cret@bucket/reports", "holds a password or a query: leave it out"),
        ("oss://bucket/reports?token=s3cret", "holds a password or a query: leave it out"),
        ("s3://[x", "is no URL"),
        ("://reports", "is no URL"),
    ],
)
def test_a_folder_that_cannot_be_one_is_one_clear_line(url: str, words: str, db: Database, tmp_path: Path) -> None:
    settings = load_settings({"RAGEVAL_HOME": str(tmp_path), "RAGEVAL_REPORT_DIR": url}, env_file=tmp_path / "none.env")
    with pytest.raises(RagevalError, match=words) as caught:
        write_fleet_report(db, settings)
    assert "s3cret" not in str(caught.value)


def test_a_server_of_reports_that_does_not_answer_is_one_clear_line(db: Database, tmp_path: Path) -> None:
    url = f"ftp://127.0.0.1:{free_port()}/reports"
    settings = load_settings({"RAGEVAL_HOME": str(tmp_path), "RAGEVAL_REPORT_DIR": url}, env_file=tmp_path / "none.env")
    with pytest.raises(RagevalError, match="cannot be reached"):
        write_client_report(db, settings, "acme")


def test_a_url_of_local_files_is_a_folder(tmp_path: Path) -> None:
    url = (tmp_path / "some reports").as_uri()
    settings = load_settings({"RAGEVAL_HOME": str(tmp_path), "RAGEVAL_REPORT_DIR": url}, env_file=tmp_path / "none.env")
    assert settings.report_dir == tmp_path / "some reports"
