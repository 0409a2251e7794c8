"""The wheel has every file of the package, and runs an evaluation where it is installed outside the checkout."""

import json
import os
import subprocess
import sys
import zipfile
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
    with zipfile.ZipFile(wheel) as packed:
        held = {name for name in packed.namelist() if ".dist-info/" not in name}
    assert held == files_of("rageval_dagster") | {f"rageval_dagster/{name}" for name in files_of("dbt_or_sql")}
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


def files_of(folder: str) -> set[str]:
    """Every file of the checkout in a folder, from the root."""
    paths = [path for path in (ROOT / folder).rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    return {path.relative_to(ROOT).as_posix() for path in paths}
