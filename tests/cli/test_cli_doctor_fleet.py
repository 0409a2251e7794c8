"""What `doctor` says of a launcher, a broker, workers and Dagster's storage: of each that is stopped, what to do."""

import json
import os
import re
import socket

import pytest
import sqlalchemy as sa

from rageval_dagster.automation.home import DAGSTER_YAML, dagster_yaml
from tests.cli.running import Run
from tests.conftest import new_database
from tests.loopback import free_port
from tests.pipeline.small_project import Project
from tests.pipeline.workers import redis_server, worker

PARTS = ("settings", "launcher", "Dagster's storage", "broker", "workers")
SHARED = ("shared history", "shared documents", "shared reports")


def found(run: Run, *more: str) -> dict[str, tuple[str, str]]:
    said = json.loads(run("doctor", "--json").out)
    return {row["check"]: (row["ok"], row["finding"]) for row in said if row["check"] in (*PARTS, *more)}


def storage_url(url: str) -> str:
    return sa.make_url(url).set(drivername="postgresql+psycopg2").render_as_string(hide_password=False)


@pytest.fixture
def fresh(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project whose dagster.yaml is not written yet."""
    monkeypatch.delenv("DAGSTER_HOME")
    (project.settings.dagster_home / "dagster.yaml").unlink()
    return project


def test_on_one_machine_nothing_is_said_of_it(project: Project, run: Run) -> None:
    assert set(found(run, *SHARED)) == {"settings"}


@pytest.mark.parametrize(
    ("launcher", "broker", "ok"),
    [("celery", "redis://127.0.0.1:1", "warning"), ("celery", "redis://broker.invalid", "no"), ("k8s", "", "no")],
)
def test_files_of_this_machine_are_nothing_for_workers_on_others(
    launcher: str, broker: str, ok: str, fresh: Project, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh.given(monkeypatch, RAGEVAL_LAUNCHER=launcher, RAGEVAL_BROKER_URL=broker)
    said = found(run, *SHARED)
    for part, what, variable in (
        ("shared history", "SQLite", "RAGEVAL_DATABASE_URL"),
        ("shared documents", "an embedded Chroma", "RAGEVAL_CHROMA_URL"),
        ("shared reports", "RAGEVAL_HOME/reports", "RAGEVAL_REPORT_DIR"),
        ("Dagster's storage", "SQLite", "RAGEVAL_DAGSTER_DATABASE_URL"),
    ):
        assert said[part][0] == ok, part
        assert said[part][1].startswith(
            f"{what} on this machine: runs on another machine do not see it; set {variable}"
        )


def test_what_all_machines_reach_is_not_named(fresh: Project, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()
    fresh.given(
        monkeypatch,
        RAGEVAL_LAUNCHER="celery",
        RAGEVAL_BROKER_URL=f"redis://127.0.0.1:{port}",
        RAGEVAL_DATABASE_URL=f"postgresql+psycopg://me@127.0.0.1:{port}/history",
        RAGEVAL_DAGSTER_DATABASE_URL=f"postgresql+psycopg2://me@127.0.0.1:{port}/dagster",
        RAGEVAL_CHROMA_URL=f"http://127.0.0.1:{port}",
        RAGEVAL_REPORT_DIR=str(fresh.folder / "shared"),
    )
    said = found(run, *SHARED)
    assert set(said) == {"settings", "launcher", "Dagster's storage", "broker"}
    assert "cannot be used" in said["Dagster's storage"][1]


def test_what_is_stopped_is_told_with_what_to_do(fresh: Project, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()
    fresh.given(
        monkeypatch,
        RAGEVAL_LAUNCHER="celery",
        RAGEVAL_BROKER_URL=f"redis://:s3cret@127.0.0.1:{port}/0",
        RAGEVAL_DAGSTER_DATABASE_URL=f"postgresql+psycopg2://me:s3cret@127.0.0.1:{port}/dagster",
    )
    said = found(run)
    assert said["launcher"][0] == "yes"
    for part, variable in (("Dagster's storage", "RAGEVAL_DAGSTER_DATABASE_URL"), ("broker", "RAGEVAL_BROKER_URL")):
        ok, finding = said[part]
        assert ok == "no"
        assert f"at 127.0.0.1:{port} cannot be used (" in finding
        assert "Connection refused" in finding
        assert f"check that it runs, and {variable}" in finding
    assert "workers" not in said, "without a broker nobody can tell"
    assert "s3cret" not in str(said)
    written = (fresh.settings.dagster_home / "dagster.yaml").read_text(encoding="utf-8")
    assert "s3cret" not in written
    assert "env: RAGEVAL_BROKER_URL" in written


@pytest.mark.slow
def test_workers_that_answer_are_counted(fresh: Project, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with redis_server(fresh.folder) as broker, new_database("postgresql", fresh.folder) as url:
        fresh.given(
            monkeypatch,
            RAGEVAL_LAUNCHER="celery",
            RAGEVAL_BROKER_URL=broker,
            RAGEVAL_DAGSTER_DATABASE_URL=storage_url(url),
        )
        said = found(run)
        assert said["broker"][0] == said["Dagster's storage"][0] == "yes"
        assert said["workers"] == ("no", "no worker answers: start rageval worker, with the same settings")
        environment = {**os.environ}
        with worker(fresh.folder, environment, "--processes", "2"):
            ok, finding = found(run)["workers"]
            assert (ok, finding.partition(",")[0]) == ("warning", "1 worker for 2 runs at once")
            assert "max_concurrent_runs in dagster.yaml is 4" in finding
            with worker(fresh.folder, environment, "--processes", "2"):
                assert found(run)["workers"] == ("yes", "2 workers for 4 runs at once")


def test_a_dagster_yaml_of_before_is_told(project: Project, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    project.given(monkeypatch, RAGEVAL_LAUNCHER="celery", RAGEVAL_BROKER_URL=f"amqp://127.0.0.1:{free_port()}")
    said = found(run)
    assert said["launcher"][0] == "no"
    assert "does not match RAGEVAL_LAUNCHER: delete it, and it is written again" in said["launcher"][1]
    assert said["broker"][0] == "no", "what else is wrong is told at once"


def test_a_dagster_yaml_that_cannot_be_read_hides_nothing_else(
    project: Project, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project.settings.dagster_home / "dagster.yaml").write_text("a: [", encoding="utf-8")
    project.given(monkeypatch, RAGEVAL_LAUNCHER="celery", RAGEVAL_BROKER_URL=f"redis://127.0.0.1:{free_port()}")
    said = found(run)
    assert "cannot be read as YAML" in said["launcher"][1]
    assert said["broker"][0] == "no"


def test_storage_that_opens_a_connection_for_each_statement_is_warned_of(
    project: Project, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = project.settings.dagster_home / "dagster.yaml"
    own = "\nstorage:\n  postgres:\n    postgres_url:\n      env: RAGEVAL_DAGSTER_DATABASE_URL\n"
    file.write_text(DAGSTER_YAML.read_text(encoding="utf-8") + own, encoding="utf-8")
    with new_database("postgresql", project.folder) as url:
        project.given(monkeypatch, RAGEVAL_DAGSTER_DATABASE_URL=storage_url(url))
        ok, finding = found(run)["Dagster's storage"]
    assert ok == "warning"
    assert "names Dagster's own class, which opens a connection for each statement: delete it" in finding


@pytest.mark.parametrize("scheme", ["rediss", "redis", "amqp"])
def test_a_broker_that_never_answers_is_told_within_seconds(
    scheme: str, fresh: Project, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"{scheme}://127.0.0.1:{silent.getsockname()[1]}"
        fresh.given(monkeypatch, RAGEVAL_LAUNCHER="celery", RAGEVAL_BROKER_URL=url)
        ok, finding = found(run)["broker"]
    assert ok == "no"
    assert re.search(r"cannot be used \(.*[Tt]ime", finding)


@pytest.mark.parametrize("part", ["run_launcher:", "run_launcher: {}", "storage:"])
def test_a_part_of_dagster_yaml_that_is_empty_is_as_if_it_were_left_out(
    part: str, project: Project, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = project.settings.dagster_home / "dagster.yaml"
    file.write_text(f"{DAGSTER_YAML.read_text(encoding='utf-8')}\n{part}\n", encoding="utf-8")
    project.given(
        monkeypatch,
        RAGEVAL_LAUNCHER="celery",
        RAGEVAL_BROKER_URL="amqp://127.0.0.1",
        RAGEVAL_DAGSTER_DATABASE_URL="postgresql+psycopg2://127.0.0.1/dagster",
    )
    ok, finding = found(run)["launcher"]
    assert ok == "no"
    assert "does not match RAGEVAL_LAUNCHER and RAGEVAL_DAGSTER_DATABASE_URL" in finding


def test_a_package_that_is_missing_is_named(fresh: Project, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    import rageval_dagster.automation.home

    monkeypatch.setattr(rageval_dagster.automation.home, "find_spec", lambda _: None)
    fresh.given(monkeypatch, RAGEVAL_LAUNCHER="celery", RAGEVAL_BROKER_URL="redis://127.0.0.1")
    assert found(run)["launcher"] == (
        "no",
        "RAGEVAL_LAUNCHER=celery needs the package dagster-celery: pip install 'rageval-dagster[celery]'",
    )


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"RAGEVAL_LAUNCHER": "docker"}, "RAGEVAL_LAUNCHER takes default, celery or k8s"),
        ({"RAGEVAL_LAUNCHER": "celery"}, "RAGEVAL_LAUNCHER=celery needs RAGEVAL_BROKER_URL"),
        ({"RAGEVAL_BROKER_URL": "kafka://x:s3cret@y"}, "RAGEVAL_BROKER_URL takes redis(s)://... or amqp(s)://..."),
        (
            {"RAGEVAL_DAGSTER_DATABASE_URL": "postgresql://x:s3cret@y/z"},
            "RAGEVAL_DAGSTER_DATABASE_URL takes postgresql+psycopg2://...",
        ),
    ],
)
def test_wrong_settings_are_one_line(
    variables: dict[str, str], words: str, project: Project, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.given(monkeypatch, **variables)
    ok, finding = found(run)["settings"]
    assert ok == "no"
    assert words in finding
    assert "s3cret" not in finding


def test_the_home_of_one_machine_is_as_ever(project: Project) -> None:
    assert dagster_yaml(project.settings) == DAGSTER_YAML.read_text(encoding="utf-8")
