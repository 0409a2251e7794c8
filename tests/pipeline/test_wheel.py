"""The wheel, installed outside the checkout, runs an evaluation: SQL views, migrations and prompts are inside it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pipeline.small_project import Project, documents

ROOT = Path(__file__).parents[2]


@pytest.mark.core
def test_the_wheel_alone_runs_an_evaluation(project: Project) -> None:
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    wheels, site = project.folder / "wheels", project.folder / "site"
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", str(wheels), str(ROOT)], check=True)
    [wheel] = wheels.glob("rageval_dagster-*.whl")
    subprocess.run([*pip, "install", "--no-deps", "--target", str(site), str(wheel)], check=True)
    environment = {name: value for name, value in os.environ.items() if name != "DAGSTER_HOME"}
    environment |= {**project.environment, "PYTHONPATH": str(site)}

    def run(*arguments: str) -> str:
        command = [sys.executable, *arguments]
        return subprocess.run(
            command, env=environment, cwd=project.folder, check=True, capture_output=True, text=True
        ).stdout

    where = run("-c", "import rageval_dagster; print(rageval_dagster.__file__)")
    assert Path(where.strip()).is_relative_to(site)
    source = project.write("acme", documents("lighthouse", count=4))
    run("-m", "rageval_dagster", "ingest", str(source), "--client", "acme")
    evaluation = json.loads(run("-m", "rageval_dagster", "evaluate", "--client", "acme", "--json"))
    assert evaluation["metrics"]["retrieval.mrr"]["n_scored"] > 0
    assert json.loads(run("-m", "rageval_dagster", "status", "--json"))
    assert (site / "rageval_dagster" / "dbt_or_sql" / "grants" / "postgresql.sql").is_file()
    prompts = {path.name for path in (site / "rageval_dagster" / "prompts").glob("*.txt")}
    assert prompts == {path.name for path in (ROOT / "rageval_dagster" / "prompts").glob("*.txt")} != set()
