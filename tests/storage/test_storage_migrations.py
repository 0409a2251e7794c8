"""From the first released schema to the newest one: nothing is lost, and everything goes on."""

import multiprocessing
import os
import signal
from collections.abc import Mapping
from typing import Any

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import event

from rageval_dagster.evaluation.summary import reports_of
from rageval_dagster.storage import benchmark, clients, comparisons, corpus, evaluations, incidents
from rageval_dagster.storage.database import (
    HEAD_REVISION,
    VERSION_TABLE,
    Database,
    _create_engine,
    _parse,
    alembic_config,
    open_database,
)
from rageval_dagster.storage.results import load_results, load_retrievals
from rageval_dagster.storage.retention import delete_scores, delete_texts
from rageval_dagster.storage.scores import load_scores, load_summaries
from rageval_dagster.storage.tables import metadata, schema_info
from rageval_dagster.storage.types import utc_now
from rageval_dagster.storage.view_sources import view_names
from rageval_dagster.storage.views import read_view
from tests.storage.history_builder import MRR, finish, open_run, work
from tests.storage.planted import fill

FIRST = "0001"
NEW_TABLES = {"client_systems", "corpus_changes", "document_changes", "metric_comparisons", "baselines", "incidents"}
ROWS = {"acme": 3, "globex": 70}
"""Questions of each client."""

Contents = Mapping[str, list[Mapping[str, Any]]]


@pytest.fixture
def released(new_url: str, sqlite_db: Database) -> tuple[str, Contents]:
    """The URL of a database as the first release left it, with the rows of two clients, and those rows."""
    dataset = None
    for client, count in ROWS.items():
        fill(sqlite_db, client, count)
        dataset = benchmark.current_datasets(sqlite_db, client)[0]
    assert dataset is not None
    open_run(sqlite_db, dataset, "change:7")  # it was killed before its first question
    old = Database(_create_engine(_parse(new_url)))
    with old.begin() as connection:
        command.upgrade(alembic_config(connection), FIRST)
        known = sa.MetaData()
        known.reflect(connection)
        for table in metadata.sorted_tables:
            if table.name not in known.tables or table is schema_info:
                continue
            # Through the types of today: they are those of then.
            columns = [column for column in table.columns if column.name in known.tables[table.name].columns]
            with sqlite_db.connect() as source:
                rows = [dict(row) for row in source.execute(sa.select(*columns)).mappings()]
            assert rows or table.name in {"forgotten_clients"}, table.name
            if rows:
                connection.execute(sa.insert(table), rows)
        if old.dialect == "postgresql":
            for table in metadata.sorted_tables:
                if table.name in known.tables and "id" in table.c:
                    value = f"SELECT setval(pg_get_serial_sequence('{table.name}', 'id'), max(id)) FROM {table.name}"
                    connection.execute(sa.text(value))
        # Its views had other columns.
        connection.execute(sa.text("CREATE VIEW fleet_overview AS SELECT chunk_count, client_id FROM clients"))
        connection.execute(sa.insert(schema_info).values(name="views", value="of the first release"))
    contents = rows_of(old, set(known.tables))
    old.dispose()
    return new_url, contents


def rows_of(db: Database, names: set[str]) -> Contents:
    """The rows of the tables of the first release, with its columns."""
    found = {}
    with db.connect() as connection:
        for table in metadata.sorted_tables:
            if table.name in names and table is not schema_info:
                there = {column["name"] for column in sa.inspect(connection).get_columns(table.name)}
                columns = [column for column in table.columns if column.name in there]
                rows = connection.execute(sa.select(*columns)).mappings()
                found[table.name] = sorted((dict(row) for row in rows), key=str)
    return found


def assert_nothing_is_lost(db: Database, before: Contents) -> None:
    after = rows_of(db, set(before))
    for name, rows in before.items():
        columns = [column.name for column in metadata.tables[name].columns]
        expected = [{column: row.get(column) for column in columns} for row in rows]
        assert after[name] == sorted(expected, key=str), name


def test_rows_of_the_first_release_are_all_there_and_all_that_reads_them_works(released: tuple[str, Contents]) -> None:
    url, before = released
    db = open_database(url)
    assert_nothing_is_lost(db, before)
    with db.connect() as connection:
        options = {
            "version_table": VERSION_TABLE,
            "compare_type": True,
            "include_name": lambda name, kind, _: kind != "table" or name in metadata.tables,
        }
        assert compare_metadata(MigrationContext.configure(connection, opts=options), metadata) == []
    for name in view_names():
        read_view(db, name)
    assert {row["client_id"] for row in read_view(db, "fleet_overview")} == set(ROWS)
    for client, count in ROWS.items():
        [dataset] = benchmark.current_datasets(db, client)
        assert len(benchmark.dataset_items(db, dataset.id)) == count
        evaluation = next(each for each in evaluations.list_evaluations(db, client) if each.status == "complete")
        assert len(load_results(db, evaluation.id)) == len(load_retrievals(db, evaluation.id)) == count
        assert len(load_scores(db, evaluation.id, {MRR: "1"})[MRR]) == count
        assert [summary.mean for summary in load_summaries(db, evaluation.id)] == [0.75]
        [report] = [each for each in reports_of(db, client, evaluation.trigger) if each.evaluation.id == evaluation.id]
        assert report.summaries[MRR].mean == 0.75
        judgement = comparisons.load_judgements(db, [evaluation.id])[evaluation.id]
        assert (judgement.verdict, judgement.changes, judgement.newly_failing) == (None, (), ())
        assert comparisons.load_comparisons(db, evaluation.id) == []
        assert comparisons.find_baseline(db, client, dataset.name, evaluation.system) is None
        assert clients.get_client(db, client).change_seq == 0
        assert corpus.changes_between(db, client, evaluation.started_at, utc_now()) == {}
    assert incidents.open_incidents(db) == []
    db.dispose()


@pytest.mark.slow
def test_evaluations_go_on_after_the_upgrade(released: tuple[str, Contents]) -> None:
    url, _ = released
    db = open_database(url)
    [dataset] = benchmark.current_datasets(db, "globex")
    items = benchmark.dataset_items(db, dataset.id)
    for trigger in ("change:7", "schedule:two"):
        evaluation = open_run(db, dataset, trigger)
        work(db, evaluation, items)
        finish(db, evaluation, {MRR: 0.5})
        comparisons.save_baseline(db, evaluation, "first")
        assert len(load_scores(db, evaluation.id, {MRR: "1"})[MRR]) == len(items)
    resumed, first, second = sorted(each.id for each in evaluations.list_evaluations(db, "globex"))[-3:]
    assert resumed < first < second
    found = comparisons.find_baseline(db, "globex", dataset.name, "dense")
    assert found is not None
    assert found.evaluation_id == second
    assert read_view(db, "fleet_overview")
    # And so does what makes room.
    delete_scores(db, "acme", utc_now())
    delete_texts(db, "globex", utc_now())
    db.dispose()


def open_and_die(url: str, step: int) -> None:
    """Is killed before a change of the schema, counted from 1."""
    done = 0

    def count(_connection: Any, _cursor: Any, statement: str, *_: object) -> None:
        nonlocal done
        done += statement.strip().startswith(("CREATE TABLE", "ALTER TABLE", "CREATE INDEX"))
        if done == step:
            os.kill(os.getpid(), signal.SIGKILL)

    event.listen(sa.Engine, "before_cursor_execute", count)
    open_database(url)


def killed_at(url: str, step: int) -> bool:
    process = multiprocessing.get_context("spawn").Process(target=open_and_die, args=(url, step))
    process.start()
    process.join()
    assert process.exitcode in (0, -signal.SIGKILL)
    return process.exitcode != 0


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_process_killed_at_any_step_of_the_upgrade_is_in_nobodys_way(
    released: tuple[str, Contents], backend: str
) -> None:
    url, before = released
    kills = 0
    if backend == "mariadb":
        # It keeps each step at once: every process does one, and is killed before the next.
        while killed_at(url, 2):
            kills += 1
            assert kills < 50
        assert kills > 5
    else:
        assert [killed_at(url, step) for step in (1, 4, 9)] == [True] * 3
    db = open_database(url)
    assert_nothing_is_lost(db, before)
    assert {row["client_id"] for row in read_view(db, "fleet_overview")} == set(ROWS)
    with db.connect() as connection:
        assert connection.execute(sa.text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar() == HEAD_REVISION
        assert set(sa.inspect(connection).get_table_names()) >= NEW_TABLES
    db.dispose()


def test_there_is_no_way_back_that_would_lose_rows() -> None:
    revisions = list(ScriptDirectory.from_config(alembic_config()).walk_revisions())
    assert [revision.revision for revision in revisions][-1] == FIRST
    assert not any(hasattr(revision.module, "downgrade") for revision in revisions)
