"""What is told to a webhook: a real server on loopback gets it, once, as Slack shows it."""

import logging
import ssl
import tempfile
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from rageval_dagster.gate.incidents import EndedRun, note_run, review, review_freshness
from rageval_dagster.settings import Settings
from rageval_dagster.storage.clients import ensure_client
from rageval_dagster.storage.comparisons import Change
from rageval_dagster.storage.database import Database, open_database
from rageval_dagster.storage.types import utc_now
from rageval_dagster.telling import webhook
from rageval_dagster.telling.links import report_file
from rageval_dagster.telling.webhook import tell
from tests.gate.planted_incidents import HIT_RATE, MRR, age, dataset_with, evaluate, settings_with
from tests.gate.test_gate_incidents import everything
from tests.rag.test_rag_http import certificate
from tests.telling.webhook_server import WebhookServer

__all__ = ["certificate"]


def look(db: Database, settings: Settings, *clients: str) -> None:
    review(db, settings, set(clients or ["acme"]), utc_now())
    review_freshness(db, settings, utc_now())


def look_and_tell(db: Database, settings: Settings, *clients: str) -> int:
    look(db, settings, *clients)
    delivery = tell(db, settings)
    assert delivery.trouble is None
    return delivery.sent


def test_a_regression_is_one_message_that_says_what_it_was_and_one_when_it_is_over(
    sqlite_db: Database, tmp_path: Path
) -> None:
    with WebhookServer() as server:
        settings = settings_with(server.url, tmp_path)
        evaluate(sqlite_db)
        assert look_and_tell(sqlite_db, settings) == 0
        fell = evaluate(sqlite_db, verdict="regressed", regressed=[MRR, HIT_RATE])
        assert look_and_tell(sqlite_db, settings) == 1
        assert look_and_tell(sqlite_db, settings) == 0
        evaluate(sqlite_db, verdict="regressed", regressed=[MRR, HIT_RATE])
        assert look_and_tell(sqlite_db, settings) == 0
        well = evaluate(sqlite_db)
        assert look_and_tell(sqlite_db, settings) == 1
        evaluate(sqlite_db)
        assert look_and_tell(sqlite_db, settings) == 0
    numbers = "0.812 → 0.701 (-0.111 over 200 shared questions, interval -0.150 to -0.070)"
    assert server.texts == [
        "*Regressed: `acme`*\n"
        f"• `synthetic` / `dense` / `{MRR}`: {numbers}; also dropped: `{HIT_RATE}`\n"
        "The index changed (re-embedded 100 chunks)\n"
        "2 questions newly failing, also when asked again\n"
        f"Next: `rageval runs compare 1 {fell.id}`",
        "*Quality has recovered: `acme`*\n"
        f"• `synthetic` / `dense` / `{MRR}`: 0.815 in evaluation {well.id}, baseline 0.812",
    ]
    [block] = server.messages[0]["blocks"]
    assert block == {"type": "section", "text": {"type": "mrkdwn", "text": server.texts[0], "verbatim": True}}


def test_each_kind_has_its_message(sqlite_db: Database, tmp_path: Path) -> None:
    now = utc_now()
    with WebhookServer() as server:
        settings = settings_with(server.url, tmp_path, RAGEVAL_REPORT_BASE_URL="https://reports.example")
        leaking = evaluate(sqlite_db, foreign=3)
        bad = dataset_with(sqlite_db, "acme", "human", valid=False)
        note_run(sqlite_db, "acme", EndedRun("run-1", True, "metric_scores", "LanguageModelError"), now)
        for client in ("globex", "initech"):
            ensure_client(sqlite_db, client)
            age(sqlite_db, client, timedelta(hours=40), now)
        assert look_and_tell(sqlite_db, settings) == 4
        assert sorted(server.texts) == [
            "*A benchmark fails its rules: `acme`*\n"
            "• `human`: `no_duplicates` (2), `quote_in_document` (1); it is not evaluated until that is fixed\n"
            f"Next: `rageval datasets show {bad}`",
            "*A run failed: `acme`*\n"
            "• `acme`: The last run failed while scoring the answers: a language model refused, or gave no usable "
            "reply. Dagster run `run-1`, "
            f"<https://reports.example/{report_file('acme')}|report>\n"
            "Next: `rageval doctor`, `rageval evaluate --client acme`",
            "*Leak: passages of other clients were returned: `acme`*\n"
            f"• `synthetic` / `dense`: 3 passages of other clients in evaluation {leaking.id}\n"
            f"Next: `rageval runs show {leaking.id}`",
            "*Not evaluated for too long: 2 clients*\n"
            "• `globex`: no complete evaluation yet; one is expected every 36 h\n"
            "• `initech`: no complete evaluation yet; one is expected every 36 h\n"
            "Next: `rageval doctor`, `rageval status`",
        ]
        well = evaluate(sqlite_db)
        good = dataset_with(sqlite_db, "acme", "human", valid=True, count=4)
        note_run(sqlite_db, "acme", EndedRun("run-2", False), now)
        evaluate(sqlite_db, client="globex")
        server.messages.clear()
        assert look_and_tell(sqlite_db, settings) == 4
        said = {text.partition("\n")[0]: text.partition("\n")[2] for text in server.texts}
        assert said.pop("*Evaluated again: `globex`*").startswith("• `globex`: last complete evaluation 20")
        assert said == {
            "*No more passages of other clients: `acme`*": f"• `synthetic` / `dense`: none in evaluation {well.id}",
            "*The benchmark passes its rules again: `acme`*": f"• `human`: dataset {good}",
            "*Runs succeed again: `acme`*": "• `acme`: Dagster run `run-2`",
        }


def test_a_client_that_is_wanted_less_often_was_still_never_evaluated(sqlite_db: Database, tmp_path: Path) -> None:
    now = utc_now()
    with WebhookServer() as server:
        ensure_client(sqlite_db, "acme")
        age(sqlite_db, "acme", timedelta(hours=40), now)
        assert look_and_tell(sqlite_db, settings_with(server.url, tmp_path)) == 1
        seldom = settings_with(server.url, tmp_path, RAGEVAL_FRESH_HOURS="100")
        assert look_and_tell(sqlite_db, seldom) == 1
    assert server.texts[1:] == [
        "*Evaluated again: `acme`*\n• `acme`: no complete evaluation yet; one is expected every 100 h"
    ]


def test_a_failing_system_and_a_failing_judge_are_told_with_their_numbers(sqlite_db: Database, tmp_path: Path) -> None:
    judged = {MRR: 0.8, "claims.faithfulness": 0.9, "judge.overall": 0.7}
    with WebhookServer() as server:
        settings = settings_with(server.url, tmp_path)
        down = evaluate(sqlite_db, failed=3, verdict="failed")
        assert look_and_tell(sqlite_db, settings) == 1
        well = evaluate(sqlite_db)
        assert look_and_tell(sqlite_db, settings) == 1
        one = evaluate(sqlite_db, means=judged, errors={"claims.faithfulness": 2, "judge.overall": 4})
        other = evaluate(sqlite_db, "globex", failed=2, reason="http_status: 401")
        assert look_and_tell(sqlite_db, settings, "acme", "globex") == 1
    assert server.texts == [
        "*Many questions failed: `acme`*\n"
        f"• `acme` / `synthetic` / `dense`: the system failed on 3 of 3 questions, evaluation {down.id}\n"
        f"Next: `rageval runs show {down.id}`, `rageval doctor`",
        "*Questions no longer fail: `acme`*\n"
        f"• `acme` / `synthetic` / `dense`: no more than allowed in evaluation {well.id}",
        "*Many questions failed: 2 clients*\n"
        "• `acme` / `synthetic` / `dense`: of 3 questions these could not be scored: `judge.overall` on 4, "
        f"`claims.faithfulness` on 2, evaluation {one.id}\n"
        f"• `globex` / `synthetic` / `dense`: the system failed on 2 of 3 questions, mostly `http_status: 401`, "
        f"evaluation {other.id}\n"
        "Next: `rageval status`, `rageval doctor`",
    ]


def test_a_thousand_clients_that_fail_at_once_are_one_message(sqlite_db: Database, tmp_path: Path) -> None:
    now = utc_now()
    for number in range(50):
        ensure_client(sqlite_db, f"client-{number:03}")
        age(sqlite_db, f"client-{number:03}", timedelta(hours=40), now)
    with WebhookServer() as server:
        assert look_and_tell(sqlite_db, settings_with(server.url, tmp_path)) == 1
    assert server.headlines == ["*Not evaluated for too long: 50 clients*"]
    assert "`client-019`" in server.texts[0]
    assert "`client-020`" not in server.texts[0]
    assert server.texts[0].splitlines()[-1] == "and 30 more: `rageval status`"


HOSTILE = "<!channel> & `rm -rf ~` *bold* http://evil.example/" + "x" * 120


def test_names_of_others_are_data(sqlite_db: Database, tmp_path: Path) -> None:
    with WebhookServer() as server:
        settings = settings_with(server.url, tmp_path)
        change = Change("index", "<@U123> & <http://evil.example|click>\u202e\x07" + "y" * 5000)
        evaluate(
            sqlite_db,
            client=HOSTILE,
            dataset="<!here>" * 25,
            verdict="regressed",
            regressed=[MRR, HIT_RATE],
            changes=[change] * 30,
        )
        note_run(sqlite_db, HOSTILE, EndedRun("run-1", True, "metric_scores"), utc_now())
        assert look_and_tell(sqlite_db, settings, HOSTILE) == 2
    for message in server.messages:
        assert len(message["blocks"]) <= 50
        for block in message["blocks"]:
            assert len(block["text"]["text"]) <= 3000
            assert block["text"]["verbatim"] is True
        bare = message["text"].replace("&amp;", "").replace("&lt;", "").replace("&gt;", "")
        assert not set(bare) & set("<>&\u202e\x07")
        # Every line's marks of code are ours, in pairs.
        assert all(line.count("`") % 2 == 0 for line in message["text"].splitlines())
        assert len(message["text"]) < 8000
    assert "`&lt;!channel&gt; &amp; 'rm -rf ~' *bold* http://evil.example/xxx" in server.texts[0] + server.texts[1]
    assert any(text.endswith("`rageval evaluate --client NAME`") for text in server.texts)


def test_of_several_that_tell_at_once_one_does(any_db: Database, tmp_path: Path) -> None:
    for client in ("acme", "globex", "initech"):
        evaluate(any_db, client=client, verdict="regressed", regressed=[MRR])
    with WebhookServer() as server, ThreadPoolExecutor(6) as pool:
        settings = settings_with(server.url, tmp_path)
        look(any_db, settings, "acme", "globex", "initech")
        sent = list(pool.map(lambda _: tell(any_db, settings).sent, range(6)))
    assert sum(sent) == 3
    assert sorted(server.headlines) == [f"*Regressed: `{client}`*" for client in ("acme", "globex", "initech")]


@pytest.mark.parametrize(
    ("status", "reason"), [(500, "HTTP 500"), (404, "HTTP 404"), (429, "HTTP 429"), (302, "HTTP 302")]
)
def test_what_was_refused_is_told_later_once(
    sqlite_db: Database, tmp_path: Path, status: int, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    evaluate(sqlite_db, verdict="regressed", regressed=[MRR])
    with WebhookServer() as elsewhere, WebhookServer(status=status, location=elsewhere.url) as server:
        settings = settings_with(server.url, tmp_path)
        look(sqlite_db, settings)
        for _ in range(2):
            delivery = tell(sqlite_db, settings)
            assert delivery.sent == 0
            assert delivery.failures == {reason: 1}
            assert "s3cret-webhook" not in str(delivery) + str(delivery.trouble) + caplog.text
        server.status = 200
        assert [tell(sqlite_db, settings).sent for _ in range(2)] == [1, 0]
        assert server.headlines == ["*Regressed: `acme`*"]
        assert elsewhere.messages == []


def test_a_server_that_was_down_is_told_when_it_is_up(sqlite_db: Database, tmp_path: Path) -> None:
    evaluate(sqlite_db, verdict="regressed", regressed=[MRR])
    with WebhookServer() as server:
        port = server.port
    settings = settings_with(server.url, tmp_path)
    look(sqlite_db, settings)
    delivery = tell(sqlite_db, settings)
    assert delivery.trouble == ("alerts that could not be sent to a webhook (no connection: 1); tried again for a day")
    with WebhookServer(port=port) as server:
        assert [tell(sqlite_db, settings).sent for _ in range(2)] == [1, 0]
        assert len(server.messages) == 1


def test_a_webhook_that_does_not_answer_holds_nobody_up_for_long(
    sqlite_db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook, "TIMEOUT_S", 1.5)
    for client in ("acme", "beta", "globex"):
        evaluate(sqlite_db, client=client, verdict="regressed", regressed=[MRR])
    with WebhookServer(hangs=True) as dead, WebhookServer() as server:
        monkeypatch.setenv("OWN_WEBHOOK", server.url)
        own = '[clients.globex]\nalert_webhook_url_env = "OWN_WEBHOOK"'
        settings = settings_with(dead.url, tmp_path, own, OWN_WEBHOOK=server.url)
        look(sqlite_db, settings, "acme", "beta", "globex")
        delivery = tell(sqlite_db, settings)
        # Tried once, however much there is for it; the other client's gets its own.
        assert delivery.failures == {"no answer within 1.5 s": 1}
        assert server.headlines == ["*Regressed: `globex`*"]


@pytest.mark.parametrize("url", ["http://hooks.example.com/s3cret", "ftp://127.0.0.1/s3cret", "s3cret", "https://"])
def test_nothing_is_sent_unencrypted_to_another_machine(sqlite_db: Database, tmp_path: Path, url: str) -> None:
    evaluate(sqlite_db, verdict="regressed", regressed=[MRR])
    settings = settings_with(url, tmp_path)
    look(sqlite_db, settings)
    delivery = tell(sqlite_db, settings)
    assert delivery.failures == {"no https:// address": 1}
    assert "s3cret" not in str(delivery.trouble)


def test_only_a_certificate_that_is_trusted_is_spoken_to(
    sqlite_db: Database, tmp_path: Path, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate)
    evaluate(sqlite_db, verdict="regressed", regressed=[MRR])
    with WebhookServer(tls=tls) as server:
        settings = settings_with(server.url, tmp_path)
        look(sqlite_db, settings)
        assert tell(sqlite_db, settings).failures == {"certificate not trusted": 1}
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "no-such-file"))
        assert tell(sqlite_db, settings).failures == {"no connection": 1}
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        assert tell(sqlite_db, settings).sent == 1


def test_what_was_over_before_anybody_could_be_told_is_not_told(sqlite_db: Database, tmp_path: Path) -> None:
    nobody = settings_with(None, tmp_path)
    evaluate(sqlite_db, verdict="regressed", regressed=[MRR])
    assert look_and_tell(sqlite_db, nobody) == 0
    evaluate(sqlite_db)
    evaluate(sqlite_db, foreign=1)
    assert look_and_tell(sqlite_db, nobody) == 0
    with WebhookServer() as server:
        assert look_and_tell(sqlite_db, settings_with(server.url, tmp_path)) == 1
    assert server.headlines == ["*Leak: passages of other clients were returned: `acme`*"]
    assert len(everything(sqlite_db)) == 2


def test_after_a_day_nobody_is_told_any_more(sqlite_db: Database, tmp_path: Path) -> None:
    evaluate(sqlite_db, verdict="regressed", regressed=[MRR])
    with WebhookServer() as server:
        settings = settings_with(server.url, tmp_path)
        review(sqlite_db, settings, {"acme"}, utc_now() - timedelta(hours=25))
        assert tell(sqlite_db, settings).sent == 0
        assert server.messages == []


def test_a_client_with_wrong_settings_keeps_no_other_from_being_told(sqlite_db: Database, tmp_path: Path) -> None:
    for client in ("acme", "globex"):
        ensure_client(sqlite_db, client)
        note_run(sqlite_db, client, EndedRun("run-1", True), utc_now())
    with WebhookServer() as server:
        delivery = tell(sqlite_db, settings_with(server.url, tmp_path, "[clients.acme]\nk = -1"))
    assert (delivery.sent, delivery.failures) == (1, {webhook.WRONG_SETTINGS: 1})
    assert server.headlines == ["*A run failed: `globex`*"]


STEPS = st.lists(
    st.sampled_from(
        ["fell", "fell otherwise", "well", "not compared", "leak", "erring", "invalid", "valid", "failed", "ran"]
    )
    | st.sampled_from(["up", "down", "unset", "look", "tell"]),
    max_size=25,
)


@pytest.mark.slow
@hypothesis_settings(max_examples=40)
@given(steps=STEPS)
def test_every_opening_is_told_at_most_once_and_every_closing_after_its_opening(steps: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder, WebhookServer() as server:
        db = open_database(f"sqlite:///{folder}/history.sqlite3")
        ensure_client(db, "acme")
        url: str | None = server.url
        for number, step in enumerate([*steps, "up", "look", "tell", "tell"]):
            match step:
                case "fell" | "fell otherwise":
                    evaluate(db, verdict="regressed", regressed=[MRR] if step == "fell" else [HIT_RATE])
                case "well":
                    evaluate(db)
                case "not compared":
                    evaluate(db, verdict=None)
                case "leak":
                    evaluate(db, foreign=1)
                case "erring":
                    evaluate(db, failed=1)
                case "invalid" | "valid":
                    dataset_with(db, "acme", "human", valid=step == "valid", count=3 + number)
                case "failed" | "ran":
                    note_run(db, "acme", EndedRun(f"run-{number}", step == "failed"), utc_now())
                case "up" | "down":
                    url, server.status = server.url, 200 if step == "up" else 500
                case "unset":
                    url = None
                case "look":
                    review(db, settings_with(url), {"acme"}, utc_now())
                case "tell":
                    tell(db, settings_with(url))
        stored = everything(db)
        db.dispose()
    openings = [text for text in server.texts if "Next: " in text]
    told = [each for each in stored if each.opening_told_at is not None]
    # Bullets stand for incidents: as many openings as were told, as many closings, and everything open was told.
    assert sum(text.count("\n• ") for text in openings) == len(told)
    closings = [each for each in stored if each.closing_told_at is not None]
    assert sum(text.count("\n• ") for text in server.texts if text not in openings) == len(closings)
    for each in stored:
        assert each.closed_at is not None or each.opening_told_at is not None
        if each.closing_told_at is not None:
            assert each.opening_told_at is not None
            assert each.opening_told_at <= each.closing_told_at
        assert (each.closing_told_at is not None) == (each.closed_at is not None and each.opening_told_at is not None)
    keys = [(each.kind, each.subject) for each in stored if each.closed_at is None]
    assert len(keys) == len(set(keys))
