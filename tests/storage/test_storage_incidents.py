"""Incidents in the database: opened once, closed once, and claimed by one of those who would tell them."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import sqlalchemy as sa

from rageval_dagster.storage import incidents
from rageval_dagster.storage.clients import ensure_client
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.incidents import Finding, Incident
from rageval_dagster.storage.standing import dataset_verdicts, evaluated_since, last_evaluated, standings
from rageval_dagster.storage.types import utc_now
from tests.gate.planted_incidents import HIT_RATE, MRR, REEMBEDDED, age, dataset_with, evaluate

DAY = timedelta(days=1)


def everything(db: Database) -> list[Incident]:
    with db.connect() as connection:
        rows = connection.execute(sa.select(*incidents._COLUMNS).order_by(incidents.incidents.c.id))
        return [Incident(**row._mapping) for row in rows]


def opened(db: Database, *findings: Finding) -> list[Incident]:
    for finding in findings:
        ensure_client(db, finding.client_id)
    incidents.open_all(db, findings, utc_now())
    return sorted(incidents.open_incidents(db), key=lambda each: each.subject, reverse=True)


def test_an_incident_is_open_once_and_can_come_again(db: Database) -> None:
    fell = Finding("acme", "regression", f"synthetic/dense/{MRR}", 7, "run-1", {"mean": 0.7})
    others = [Finding("acme", "regression", "a/dense/other"), Finding("globex", "stale")]
    found = opened(db, fell, *others)
    assert opened(db, fell, *others) == found
    this, other = found[0], found[1]
    assert (this.client_id, this.kind, this.subject, this.evaluation_id) == (fell.client_id, fell.kind, fell.subject, 7)
    now = utc_now()
    incidents.close_all(db, [(this, {"reason": "recovered"})], now)
    incidents.close_all(db, [(this, {"reason": "accepted"})], now + DAY)
    [closed] = [each for each in everything(db) if each.closed_at is not None]
    assert closed.details == {"mean": 0.7, "over": {"reason": "recovered"}}
    assert closed.closed_at == now
    assert [each.id for each in incidents.open_incidents(db, ["acme"])] == [other.id]
    assert len(opened(db, fell)) == 3
    assert len(everything(db)) == 4


def test_nothing_is_opened_of_a_client_that_nobody_knows(db: Database) -> None:
    incidents.open_all(db, [Finding("gone", "failed_run")], utc_now())
    assert everything(db) == []


def test_of_many_at_once_one_opens_and_one_claims(db: Database) -> None:
    ensure_client(db, "acme")
    findings = [Finding("acme", "regression", str(number)) for number in range(5)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: incidents.open_all(db, findings, utc_now()), range(8)))
        found = incidents.open_incidents(db)
        assert len(found) == 5
        now = utc_now()
        claimed = list(pool.map(lambda _: incidents.claim(db, found, now, now + DAY), range(8)))
    assert sorted(each.id for some in claimed for each in some) == [each.id for each in found]  # each by one


def test_what_is_claimed_is_free_again_after_its_time_or_when_it_is_given_back(db: Database) -> None:
    found, now = opened(db, Finding("acme", "stale")), utc_now()
    assert incidents.claim(db, found, now, now + timedelta(seconds=60)) == found
    assert incidents.claim(db, found, now + timedelta(seconds=59), now + DAY) == []
    assert incidents.claim(db, found, now + timedelta(seconds=60), now + DAY) == found
    incidents.give_back(db, found, now)
    assert incidents.claim(db, found, now, now + DAY) == found
    incidents.mark_told(db, found, now)
    assert incidents.claim(db, found, now + 2 * DAY, now + 3 * DAY) == []


def test_news_is_the_opening_of_what_is_open_and_the_closing_of_what_was_told(db: Database) -> None:
    found, now = opened(db, *(Finding("acme", "regression", name) for name in ("told", "over", "new"))), utc_now()
    told, over, new = found
    assert {each.id for each in incidents.untold(db, now - DAY)} == {told.id, over.id, new.id}
    incidents.mark_told(db, [told], now)
    incidents.close_all(db, [(told, {}), (over, {})], now)
    news = incidents.untold(db, now - DAY)
    assert sorted((each.subject, each.phase) for each in news) == [("new", "opening"), ("told", "closing")]
    # What was tried comes after what was not.
    incidents.give_back(db, [news[0]], now + timedelta(seconds=1))
    assert [each.id for each in incidents.untold(db, now - DAY)] == [news[1].id, news[0].id]
    incidents.mark_told(db, news, now)
    assert incidents.untold(db, now - DAY) == []
    assert incidents.untold(db, now + DAY) == []


def test_clients_stand_as_their_newest_complete_evaluations_say(db: Database) -> None:
    evaluate(db, verdict="regressed", regressed=[MRR])
    newest = evaluate(db, verdict="regressed", regressed=[MRR, HIT_RATE])
    other = evaluate(db, system="bm25", foreign=2)
    evaluate(db, client="globex")
    stored = {(each.client_id, each.system): each for each in standings(db, ["acme", "globex", "nobody"])}
    assert set(stored) == {("acme", "dense"), ("acme", "bm25"), ("globex", "dense")}
    found = stored["acme", "dense"]
    assert (found.id, found.dataset_name, found.verdict, found.newly_failing) == (
        newest.id,
        "synthetic",
        "regressed",
        2,
    )
    assert found.changes == (REEMBEDDED,)
    assert [(row.metric_id, row.decision) for row in found.gated] == [(HIT_RATE, "regressed"), (MRR, "regressed")]
    assert (stored["acme", "bm25"].id, stored["acme", "bm25"].foreign_chunks) == (other.id, 2)


def test_of_a_dataset_the_version_that_was_checked_last_counts(db: Database) -> None:
    ensure_client(db, "acme")
    dataset_with(db, "acme", "human", valid=False)
    dataset_with(db, "acme", "human", valid=True, count=4)
    bad = dataset_with(db, "acme", "synthetic", valid=False)
    found = {each.name: each for each in dataset_verdicts(db, ["acme"])}
    assert {name: each.valid for name, each in found.items()} == {"human": True, "synthetic": False}
    assert found["synthetic"].dataset_id == bad
    assert found["synthetic"].rule_failures == {"no_duplicates": 2, "quote_in_document": 1}


def test_when_clients_were_evaluated(db: Database) -> None:
    now = utc_now()
    for client in ("acme", "globex"):
        evaluate(db, client=client)
    ensure_client(db, "initech")
    age(db, "globex", 3 * DAY, now)
    assert set(evaluated_since(db, now - DAY)) == {"acme"}
    assert last_evaluated(db, ["globex", "initech"]) == {"globex": now - 3 * DAY}
