"""What is kept of a run when it is asked for, and what holds for it later."""

import json
from pathlib import Path

import pytest
import sqlalchemy as sa

from rageval_dagster.errors import SettingsError
from rageval_dagster.settings import CallableDefinition, Settings, load_settings
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.run_requests import freeze, requested
from rageval_dagster.storage.tables import run_requests
from tests.processes import sent_statements

ASKED = """
[defaults]
k = 3
system = "own"
[defaults.systems.own]
kind = "callable"
function = "acme_rag:first"
[clients.acme]
judge_model = "judge-1"
judge_base_url = "https://first.example/v1"
judge_api_key_env = "FIRST_KEY"
thresholds = { "retrieval.mrr" = 0.9 }
"""
EDITED = """
[defaults]
k = 7
system = "dense"
[clients.acme]
judge_model = "judge-2"
judge_base_url = "https://second.example/v1"
judge_api_key_env = "SECOND_KEY"
budget = { tokens = 10 }
alert_webhook_url_env = "SECOND_KEY"
"""
SECRETS = {"FIRST_KEY": "quinzical-first", "SECOND_KEY": "https://hooks.example/quinzical-second"}


def settings_of(folder: Path, toml: str, **variables: str) -> Settings:
    (folder / "rageval.toml").write_text(toml, encoding="utf-8")
    return load_settings({**SECRETS, **variables}, folder / "none.env", folder / "rageval.toml")


def test_a_run_has_what_it_was_asked_for_and_of_all_else_what_holds_now(sqlite_db: Database, tmp_path: Path) -> None:
    freeze(sqlite_db, settings_of(tmp_path, ASKED), {"acme": "command:1"}, {"k": 4, "systems": []})
    now = settings_of(tmp_path, EDITED)
    freeze(sqlite_db, now, {"acme": "command:1"}, {})  # asked for before
    kept = requested(sqlite_db, now, "acme", "command:1")
    assert kept is not None
    run, plan = kept
    assert plan == {"k": 4}
    assert (run.k, run.system, run.judge_model, run.judge_base_url) == (
        *(3, ("own",), "judge-1"),
        "https://first.example/v1",
    )
    assert run.systems["own"] == CallableDefinition(kind="callable", function="acme_rag:first")
    assert run.thresholds == {"retrieval.mrr": 0.9}
    assert run.judge_api_key is not None
    assert run.judge_api_key.get_secret_value() == SECRETS["FIRST_KEY"]
    assert run.alert_webhook_url is not None
    assert run.budget.tokens == 10
    assert run.for_client("acme") is run
    assert run.for_client("beta").k == now.for_client("acme").k == 7
    assert requested(sqlite_db, now, "acme", "command:2") is None


def test_secrets_are_kept_by_their_names_only(sqlite_db: Database, tmp_path: Path) -> None:
    settings = settings_of(tmp_path, ASKED, OPENAI_API_KEY="quinzical-third")
    freeze(sqlite_db, settings, {"acme": "command:1"}, {})
    [row] = sqlite_db.rows(sa.select(run_requests.c.settings))
    assert "quinzical" not in json.dumps(row.settings)
    assert (row.settings["judge_api_key_env"], row.settings["openai_api_key_env"]) == ("FIRST_KEY", "OPENAI_API_KEY")
    gone = load_settings({}, tmp_path / "none.env", tmp_path / "rageval.toml")
    with pytest.raises(SettingsError, match="FIRST_KEY"):
        requested(sqlite_db, gone, "acme", "command:1")


def test_a_model_is_not_asked_about_documents_that_none_may_see_since(sqlite_db: Database, tmp_path: Path) -> None:
    freeze(sqlite_db, settings_of(tmp_path, ASKED), {"acme": "command:1"}, {})
    kept = requested(sqlite_db, settings_of(tmp_path, '[defaults]\nllm = "forbidden"\n'), "acme", "command:1")
    assert kept is not None
    assert (kept[0].judge_model, kept[0].k) == (None, 3)


def test_wrong_settings_of_one_client_keep_no_other_from_being_asked_for(sqlite_db: Database, tmp_path: Path) -> None:
    settings = settings_of(tmp_path, "[clients.acme]\nk = 0\n")
    freeze(sqlite_db, settings, dict.fromkeys(("acme", "beta"), "schedule:1"), {})
    assert [row.client_id for row in sqlite_db.rows(sa.select(run_requests.c.client_id))] == ["beta"]


def test_a_thousand_clients_are_asked_for_by_one_statement(db: Database, tmp_path: Path) -> None:
    settings = settings_of(tmp_path, ASKED)
    with sent_statements() as sent:
        freeze(db, settings, {f"client-{number}": "schedule:1" for number in range(1000)}, {})
    assert len([statement for statement in sent if "run_requests" in statement]) == 1
    assert len(db.rows(sa.select(run_requests.c.client_id))) == 1000
