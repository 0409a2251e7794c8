"""Which incidents open and close, as evaluations, datasets, runs and time go on."""

from datetime import datetime, timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from rageval_dagster.gate.incidents import EndedRun, freshness, note_run, review, review_freshness
from rageval_dagster.settings import Settings
from rageval_dagster.storage.benchmark import get_dataset, retire_dataset
from rageval_dagster.storage.clients import ensure_client, mark_vanished
from rageval_dagster.storage.comparisons import Change, Judgement, save_judgement
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.evaluations import get_evaluation
from rageval_dagster.storage.incidents import Incident, open_incidents
from rageval_dagster.storage.leases import keep_lease
from rageval_dagster.storage.tables import incidents
from rageval_dagster.storage.types import utc_now
from rageval_dagster.storage.views import read_view
from rageval_dagster.telling.reasons import plain_reason
from tests.gate.planted_incidents import HIT_RATE, MRR, age, dataset_with, evaluate, settings_with
from tests.processes import sent_statements

NOW = utc_now()
HOUR = timedelta(hours=1)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return settings_with(None, tmp_path)


def seen(db: Database, settings: Settings, *clients: str) -> list[tuple[str, str]]:
    """What is open after two looks, of which the second changes nothing."""
    review(db, settings, set(clients or ["acme"]), NOW)
    before = everything(db)
    review(db, settings, set(clients or ["acme"]), NOW + HOUR)
    assert everything(db) == before
    return sorted((each.kind, each.subject) for each in open_incidents(db))


def everything(db: Database) -> list[Incident]:
    with db.connect() as connection:
        rows = connection.execute(sa.select(*(incidents.c[name] for name in Incident.__dataclass_fields__)))
        return [Incident(**row._mapping) for row in rows]


def last_reason(db: Database) -> str:
    return max(everything(db), key=lambda each: each.closed_at or datetime.min.replace(tzinfo=NOW.tzinfo)).details[
        "over"
    ]["reason"]


def test_a_regression_is_open_until_the_newest_evaluation_has_none(db: Database, settings: Settings) -> None:
    evaluate(db)
    assert seen(db, settings) == []
    fell = evaluate(db, verdict="regressed", regressed=[MRR, HIT_RATE])
    fallen = [("regression", "synthetic/dense")]
    assert seen(db, settings) == fallen
    first = open_incidents(db)
    assert {first[0].details["metric"], *first[0].details["other_metrics"]} == {MRR, HIT_RATE}
    assert {each.evaluation_id for each in first} == {fell.id}
    [change] = first[0].details["changes"]
    assert (change["what"], change["detail"]) == ("index", "re-embedded 100 chunks")
    assert (first[0].details["baseline_mean"], first[0].details["mean"]) == (0.812, 0.701)
    # The same the next night is no news, half of it is not over.
    for regressed in ([MRR, HIT_RATE], [MRR]):
        again = evaluate(db, verdict="regressed", regressed=regressed)
        assert seen(db, settings) == fallen
        assert [(each.id, each.opened_at) for each in open_incidents(db)] == [
            (each.id, each.opened_at) for each in first
        ]
        assert {each.evaluation_id for each in open_incidents(db)} == {again.id}
    evaluate(db)
    assert seen(db, settings) == []
    assert last_reason(db) == "recovered"
    evaluate(db, verdict="regressed", regressed=[MRR])
    assert seen(db, settings) == fallen


def test_an_accepted_evaluation_is_no_regression(db: Database, settings: Settings) -> None:
    from rageval_dagster.gate.baselines import accept

    fell = evaluate(db, verdict="regressed", regressed=[MRR])
    assert len(seen(db, settings)) == 1
    accept(db, get_evaluation(db, fell.id), "ann")
    assert seen(db, settings) == []
    assert last_reason(db) == "accepted"


def test_an_acceptance_that_was_first_seen_by_the_evaluation_after_it_is_no_recovery(
    db: Database, settings: Settings
) -> None:
    from rageval_dagster.gate.baselines import accept

    fell = evaluate(db, verdict="regressed", regressed=[MRR])
    assert len(seen(db, settings)) == 1
    accept(db, get_evaluation(db, fell.id), "ann")
    after = evaluate(db, verdict="passed")
    save_judgement(db, after.id, Judgement("passed", fell.id, (), ()))
    assert seen(db, settings) == []
    assert last_reason(db) == "accepted"


def test_an_open_incident_names_the_newest_evaluation_and_its_cause(db: Database, settings: Settings) -> None:
    fell = evaluate(db, verdict="regressed", regressed=[MRR])
    assert len(seen(db, settings)) == 1
    other = Change("system", "version 1 -> 2", worse=3)
    again = evaluate(db, verdict="regressed", regressed=[HIT_RATE], changes=[other])
    assert len(seen(db, settings)) == 1
    [incident] = open_incidents(db)
    assert (incident.evaluation_id, incident.details["metric"]) == (again.id, HIT_RATE)
    assert plain_reason(incident) == "The system changed (version 1 -> 2)."
    # Who accepts the first of the two has accepted what the incident is about.
    after = evaluate(db, verdict="passed")
    save_judgement(db, after.id, Judgement("passed", fell.id, (), ()))
    assert seen(db, settings) == []
    assert last_reason(db) == "accepted"


def test_a_regression_against_what_was_accepted_meanwhile_is_news(db: Database, settings: Settings) -> None:
    from rageval_dagster.gate.baselines import accept

    fell = evaluate(db, verdict="regressed", regressed=[MRR])
    seen(db, settings)
    accept(db, get_evaluation(db, fell.id), "ann")
    again = evaluate(db, verdict="regressed", regressed=[HIT_RATE])
    save_judgement(db, again.id, Judgement("regressed", fell.id, (), ()))
    seen(db, settings)
    assert [(each.evaluation_id, each.closed_at is None) for each in everything(db)] == [
        (fell.id, False),
        (again.id, True),
    ]
    assert last_reason(db) == "accepted"


def test_a_system_that_fails_otherwise_than_before_is_told_by_its_newest_reason(
    db: Database, settings: Settings
) -> None:
    evaluate(db, verdict="failed", failed=3, reason="http_500: down")
    assert seen(db, settings) == [("errors", "synthetic/dense")]
    newest = evaluate(db, verdict="failed", failed=2, reason="timeout: 30 s")
    assert seen(db, settings) == [("errors", "synthetic/dense")]
    [incident] = open_incidents(db)
    assert (incident.evaluation_id, incident.details["failed"]) == (newest.id, 2)
    assert incident.details["reason"] == "timeout"


def test_what_was_not_compared_opens_and_closes_nothing(db: Database, settings: Settings) -> None:
    evaluate(db, verdict="regressed", regressed=[MRR])
    before = seen(db, settings)
    evaluate(db, verdict=None)
    assert seen(db, settings) == before
    evaluate(db, verdict="unclear")
    assert seen(db, settings) == before, "what is unclear is no recovery"
    evaluate(db, verdict="passed")
    assert seen(db, settings) == []


def test_only_what_the_clients_settings_evaluate_counts(db: Database, tmp_path: Path) -> None:
    evaluate(db, verdict="regressed", regressed=[MRR], system="bm25", foreign=1)
    assert seen(db, settings_with(None, tmp_path)) == []
    both = settings_with(None, tmp_path, '[clients.acme]\nsystem = ["dense", "bm25"]')
    assert seen(db, both) == [("leak", "synthetic/bm25"), ("regression", "synthetic/bm25")]
    assert seen(db, settings_with(None, tmp_path)) == []
    assert last_reason(db) == "not_watched"


def test_a_retired_dataset_is_watched_no_more(db: Database, settings: Settings) -> None:
    fell = evaluate(db, verdict="regressed", regressed=[MRR])
    assert len(seen(db, settings)) == 1
    dataset = get_dataset(db, fell.dataset_id)
    retire_dataset(db, dataset)
    assert seen(db, settings) == []
    assert last_reason(db) == "not_watched"
    [row] = read_view(db, "fleet_overview")
    assert row["evaluations"] == 0
    retire_dataset(db, dataset, retired=False)
    assert len(seen(db, settings)) == 1


def test_a_leak_is_open_until_an_evaluation_has_none(db: Database, settings: Settings) -> None:
    leaking = evaluate(db, foreign=3)
    assert seen(db, settings) == [("leak", "synthetic/dense")]
    assert [(each.evaluation_id, each.details["chunks"]) for each in open_incidents(db)] == [(leaking.id, 3)]
    evaluate(db)
    assert seen(db, settings) == []


def test_a_system_that_fails_is_told_until_an_evaluation_has_few_errors(db: Database, settings: Settings) -> None:
    evaluate(db)
    failing = evaluate(db, verdict="unclear", failed=3, errors={MRR: 10}, means={MRR: None})
    assert seen(db, settings) == [("errors", "synthetic/dense")]
    [incident] = open_incidents(db)
    assert (incident.evaluation_id, incident.details["failed"], incident.details["questions"]) == (failing.id, 3, 3)
    assert incident.details["metrics"] == {}
    evaluate(db)
    assert seen(db, settings) == []
    assert last_reason(db) == "recovered"


def test_a_metric_that_fails_is_told_where_more_fails_than_the_client_allows(db: Database, tmp_path: Path) -> None:
    judged = {MRR: 0.8, "claims.faithfulness": 0.9}
    evaluate(db, means=judged, errors={"claims.faithfulness": 2})
    lenient = settings_with(None, tmp_path, "[clients.acme]\nmax_error_share = 0.2")
    assert seen(db, lenient) == []
    strict = settings_with(None, tmp_path, "[clients.acme]\nmax_error_share = 0.1")
    assert seen(db, strict) == [("errors", "synthetic/dense")]
    assert open_incidents(db)[0].details["metrics"] == {"claims.faithfulness": 2}
    assert seen(db, lenient) == []


def test_an_invalid_benchmark_is_open_until_its_current_version_is_valid(db: Database, settings: Settings) -> None:
    ensure_client(db, "acme")
    dataset_with(db, "acme", "human", valid=False)
    assert seen(db, settings) == [("benchmark", "human")]
    assert open_incidents(db)[0].details["rules"] == {"no_duplicates": 2, "quote_in_document": 1}
    dataset_with(db, "acme", "human", valid=True, count=4)
    assert seen(db, settings) == []


def test_a_client_waits_while_it_is_worked_on_gone_or_wrongly_set(db: Database, tmp_path: Path) -> None:
    evaluate(db, verdict="regressed", regressed=[MRR])
    fine, wrong = settings_with(None, tmp_path), "[clients.acme]\nk = -1"
    with keep_lease(db, "acme", "run"):
        assert seen(db, fine) == []
    assert seen(db, settings_with(None, tmp_path, wrong)) == []
    assert len(seen(db, settings_with(None, tmp_path))) == 1
    evaluate(db)
    mark_vanished(db, "acme", vanished=True)
    assert len(seen(db, fine)) == 1


# --- Freshness -------------------------------------------------------------------------------------------------------


def changed(db: Database, settings: Settings, now: datetime) -> list[tuple[str, bool]]:
    found = [(each.client_id, each.fresh) for each in review_freshness(db, settings, now)]
    assert review_freshness(db, settings, now) == []
    return found


def test_a_client_is_stale_without_a_complete_evaluation_and_fresh_with_one(db: Database, settings: Settings) -> None:
    ensure_client(db, "new")
    evaluate(db)
    assert changed(db, settings, NOW) == []
    age(db, "acme", 35 * HOUR, NOW)
    assert changed(db, settings, NOW) == []
    assert freshness(db, settings, "acme", NOW).fresh
    age(db, "acme", 37 * HOUR, NOW)
    assert changed(db, settings, NOW) == [("acme", False)]
    assert not freshness(db, settings, "acme", NOW).fresh
    assert not freshness(db, settings, "new", NOW).fresh
    # A client that was never evaluated has as long from when it was first seen.
    age(db, "new", 37 * HOUR, NOW)
    assert changed(db, settings, NOW) == [("new", False)]
    told = {each.client_id: each.details["last_evaluated"] for each in open_incidents(db)}
    assert told == {"acme": (NOW - 37 * HOUR).isoformat(timespec="seconds"), "new": "never"}
    evaluate(db)
    assert changed(db, settings, NOW) == [("acme", True)]
    assert [each.client_id for each in open_incidents(db)] == ["new"]


def test_each_client_has_its_own_time_and_who_is_not_evaluated_is_not_missed(db: Database, tmp_path: Path) -> None:
    for client in ("weekly", "off", "gone"):
        evaluate(db, client=client)
        age(db, client, 100 * HOUR, NOW)
    own = "[clients.weekly]\nfresh_hours = 200\n[clients.off]\nenabled = false"
    settings = settings_with(None, tmp_path, own)
    assert changed(db, settings, NOW) == [("gone", False)]
    mark_vanished(db, "gone", vanished=True)
    assert changed(db, settings, NOW) == []
    assert open_incidents(db) == []
    assert last_reason(db) == "not_watched"
    assert changed(db, settings, NOW + 101 * HOUR) == [("weekly", False)]


def test_a_look_at_1000_quiet_clients_is_a_few_queries_and_no_write(sqlite_db: Database, settings: Settings) -> None:
    evaluate(sqlite_db)
    with sqlite_db.begin() as connection:
        from rageval_dagster.storage.tables import clients

        [row] = connection.execute(sa.select(clients)).mappings().all()
        connection.execute(sa.insert(clients), [{**row, "client_id": f"client-{number}"} for number in range(1000)])
    with sent_statements() as statements:
        review(sqlite_db, settings, {each.client_id for each in open_incidents(sqlite_db)}, NOW)
        assert review_freshness(sqlite_db, settings, NOW) == []
    assert len(statements) < 15
    assert all(statement.startswith(("SELECT", "PRAGMA", "BEGIN")) for statement in statements), statements


# --- Runs ------------------------------------------------------------------------------------------------------------

FAILED = EndedRun("run-1", True, "retrieval_runs", "StoreError")


def test_failing_runs_are_one_incident_until_one_succeeds(db: Database) -> None:
    ensure_client(db, "acme")
    note_run(db, "acme", EndedRun("run-0", False), NOW)
    assert everything(db) == []
    assert note_run(db, "acme", FAILED, NOW)
    assert not note_run(db, "acme", FAILED, NOW)
    [found] = everything(db)
    assert (found.run_id, found.details["step"], found.details["error"]) == ("run-1", "retrieval_runs", "StoreError")
    assert note_run(db, "acme", EndedRun("run-2", True, "metric_scores", died=True), NOW)
    [newest] = everything(db)
    assert (newest.id, newest.run_id, newest.opened_at) == (found.id, "run-2", found.opened_at)
    assert (newest.details["step"], newest.details["died"], "error" in newest.details) == ("metric_scores", True, False)
    assert not note_run(db, "acme", EndedRun("run-3", False), NOW)
    [closed] = everything(db)
    assert closed.details["over"] == {"reason": "recovered", "run_id": "run-3"}
    note_run(db, "acme", FAILED, NOW)
    assert len(open_incidents(db)) == 1


def test_a_run_that_a_benchmark_ended_is_told_as_the_benchmark(db: Database, settings: Settings) -> None:
    ensure_client(db, "acme")
    dataset_with(db, "acme", "synthetic", valid=False)
    assert seen(db, settings) == [("benchmark", "synthetic")]
    by_check = EndedRun("run-1", True, "validated_benchmark", "DagsterAssetCheckFailedError", "no_duplicates")
    note_run(db, "acme", by_check, NOW)
    assert [each.kind for each in open_incidents(db)] == ["benchmark"]
    note_run(db, "acme", FAILED, NOW)
    assert [each.kind for each in open_incidents(db)] == ["benchmark", "failed_run"]
