"""Experiments beside other clients, and beside `rageval forget`: nothing of one is left, lost or read in another."""

import gc
import shutil

import dagster as dg
import pytest
import sqlalchemy as sa

from rageval_dagster.app.forget import forget, held_of
from rageval_dagster.assets.experiments import experiment_key
from rageval_dagster.automation.jobs import EXPERIMENT_COPIES_JOB
from rageval_dagster.automation.launch import execute
from rageval_dagster.automation.worker import forget_texts
from rageval_dagster.definitions import defs
from rageval_dagster.errors import RagevalError, SettingsError
from rageval_dagster.experiments.copies import delete_files, files_of, folder_of
from rageval_dagster.experiments.definition import read_definition
from rageval_dagster.experiments.opening import checked, opened, prepare
from rageval_dagster.experiments.standing import advance
from rageval_dagster.experiments.trial import Laboratory, run_trial
from rageval_dagster.settings import Settings
from rageval_dagster.storage.database import Database, open_database
from rageval_dagster.storage.experiments import Experiment
from rageval_dagster.storage.tables import experiments
from tests.experiments.small import CHUNKINGS, CLIENT, definition, own
from tests.experiments.test_experiments import add_client
from tests.experiments.test_experiments_in_the_ui import look_and_run
from tests.llm.scripted_model import scripted_model
from tests.llm.scripted_server import ScriptedServer
from tests.pipeline.small_project import Project, holding


def begun(project: Project, text: str, opened_by: str = "command") -> tuple[Settings, Database, Experiment]:
    settings, db = project.settings, project.database()
    file = definition(project.folder, text)
    return settings, db, opened(db, settings, checked(db, settings, read_definition(file), file.name), opened_by)


def forgotten_by_another_process(settings: Settings) -> list[str]:
    db = open_database(settings.database_url)
    return forget(settings, db, held_of(settings, db, CLIENT))


def test_forgotten_while_a_model_answers_no_text_comes_back(varied: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    forgotten: list[list[str]] = []

    def model(request: object) -> object:
        if not forgotten:
            forgotten.append(forgotten_by_another_process(settings))
        return scripted_model(request)  # pyright: ignore[reportArgumentType]

    with ScriptedServer(model) as server:  # pyright: ignore[reportArgumentType]
        answers = {"RAGEVAL_ANSWER_MODEL": "scripted", "OPENAI_BASE_URL": server.base_url, "OPENAI_API_KEY": "sk-x"}
        settings, db, experiment = begun(varied.given(monkeypatch, **answers), CHUNKINGS)
        prepare(db, settings, experiment)
        batch = advance(db, settings, experiment).batches[0]
        with pytest.raises(RagevalError, match="experiment 1 was deleted"):
            run_trial(db, settings, experiment, batch.configuration, batch.questions)
    assert forgotten == [[]]
    assert held_of(settings, db, CLIENT).rows == {}
    assert holding("lighthouse", *settings.home.glob("rageval.sqlite3*"), settings.home / "experiments") == []


def test_a_worker_keeps_nothing_of_an_experiment_for_the_next_run(answered: Project) -> None:
    settings, db, experiment = begun(answered, CHUNKINGS)
    prepare(db, settings, experiment)
    batch = advance(db, settings, experiment).batches[0]
    run_trial(db, settings, experiment, batch.configuration, batch.questions)
    forget_texts()
    assert [each for each in gc.get_objects() if type(each) is Laboratory] == []


def test_forgotten_between_two_copies_neither_stays(answered: Project) -> None:
    settings, db, experiment = begun(answered, CHUNKINGS)
    forgotten: list[list[str]] = []

    def progress(done: int, total: int, _: str) -> None:
        if done == total and not forgotten:
            forgotten.append(forgotten_by_another_process(settings))

    with pytest.raises(RagevalError):
        prepare(db, settings, experiment, progress)
    assert forgotten
    assert files_of(settings, CLIENT) == []
    with pytest.raises(RagevalError, match="experiment 1 was deleted"):
        prepare(db, settings, experiment)
    held = held_of(settings, db, CLIENT)
    assert (held.rows, held.experiments) == ({}, 0)


@pytest.mark.parametrize("name", ["a/b", "..", "Acme", "a\nb", "é"])
def test_no_name_is_the_folder_of_another_client(varied: Project, name: str) -> None:
    settings = varied.settings
    folder = folder_of(settings, name)
    assert folder.parent == settings.home / "experiments"
    for other in (folder.name, name.lower(), name.upper()):
        if other != name:
            assert folder_of(settings, other).name.lower() != folder.name.lower()
    kept = folder_of(settings, folder.name, 7) / "report.html"
    kept.parent.mkdir(parents=True)
    kept.touch()
    delete_files(settings, name)
    assert kept.exists()


@pytest.mark.parametrize("documents", [".", "home", "home/reports"])
def test_no_reports_of_other_clients_are_read_as_documents(varied: Project, documents: str) -> None:
    (varied.settings.home / "reports").mkdir(parents=True, exist_ok=True)
    with pytest.raises(SettingsError, match="where the texts of all clients are"):
        begun(varied, CHUNKINGS.replace("acme.jsonl", documents))
    (varied.folder / "acme").mkdir()
    shutil.copy(varied.folder / "acme.jsonl", varied.folder / "acme")
    _, _, experiment = begun(varied, CHUNKINGS.replace("acme.jsonl", "acme"))
    assert experiment.status == "running"


def test_the_partition_of_another_client_s_experiment_is_refused(varied: Project) -> None:
    add_client(varied, "rival", "The quick fox of the rival is known since 1999.")
    _, _, experiment = begun(varied, own(varied, "right").read_text(encoding="utf-8"))
    key = experiment_key("rival", experiment.number)
    with dg.DagsterInstance.get() as instance:
        instance.add_dynamic_partitions("rageval_experiments", [key])
        tags = {"dagster/partition": key}
        failed = execute(instance, defs.resolve_job_def(EXPERIMENT_COPIES_JOB), {}, tags, lambda _: None)
    assert f"no experiment has the partition '{key}'" in str(failed.message)


def test_one_that_cannot_go_on_does_not_keep_the_others_from_it(varied: Project) -> None:
    text = own(varied, "right").read_text(encoding="utf-8")
    _, db, other = begun(varied, text.replace("[experiment]", "[experiment]\nseed = 1"), "launchpad")
    _, _, broken = begun(varied, text, "launchpad")
    with dg.DagsterInstance.get() as instance:
        assert look_and_run(instance) == [experiment_key(CLIENT, each.number) for each in (broken, other)]
        # As an older version of the program may have left it.
        here = experiments.c.number == broken.number
        db.execute(sa.update(experiments).where(here).values(definition={"client": CLIENT}))
        assert {key.partition(".")[0] for key in look_and_run(instance)} == {str(other.number)}
