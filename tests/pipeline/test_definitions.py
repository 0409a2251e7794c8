"""What Dagster is given: the assets, groups and automation, without importing what a run needs."""

import subprocess
import sys

from rageval_dagster.storage.view_sources import view_names

HEAVY = ("torch", "chromadb", "great_expectations", "pandas", "alembic", "openai", "sentence_transformers")


def test_importing_the_definitions_imports_nothing_heavy() -> None:
    program = (
        f"import sys, rageval_dagster.definitions\nprint([module for module in {HEAVY!r} if module in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_assets_stand_in_five_groups_and_every_view_is_one() -> None:
    from rageval_dagster.definitions import defs

    graph = defs.resolve_asset_graph()
    groups = {key.to_user_string(): graph.get(key).group_name for key in graph.get_all_asset_keys()}
    assert set(groups.values()) == {"corpus", "benchmark", "evaluation", "history", "experiments"}
    assert set(view_names()) < {name for name, group in groups.items() if group == "history"}


def test_every_check_has_one_status_a_client() -> None:
    from rageval_dagster.assets.partitions import clients_partitions
    from rageval_dagster.definitions import defs

    graph = defs.resolve_asset_graph()
    partitions = {graph.get(key).partitions_def for key in graph.asset_check_keys}
    assert partitions == {clients_partitions}


def test_the_columns_of_each_table_are_shown() -> None:
    from rageval_dagster.definitions import defs

    graph = defs.resolve_asset_graph()
    columns = {
        key.to_user_string(): [column.name for column in node.metadata["dagster/column_schema"].columns]
        for key in graph.get_all_asset_keys()
        if "dagster/column_schema" in (node := graph.get(key)).metadata
    }
    assert set(columns) == {
        *("corpus_version", "chunk_sample", "synthetic_qa", "validated_benchmark"),
        *("retrieval_runs", "generated_answers", "metric_scores", "experiment_trials"),
    }
    assert all("client_id" in names for names in columns.values())
