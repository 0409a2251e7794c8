"""What libraries do not promise is used in one module each, and within the versions that were tried."""

import ast
import tomllib
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "rageval_dagster"
DOORS = {
    "automation/dagster_internals.py": ("dagster._", "dagster_shared"),
    "corpus/chroma_internals.py": ("chromadb.",),
}
"""Each door, and how the names of the modules begin that it alone may import."""

TRIED = {"dagster": ">=1.13.20,<1.14", "dagster-webserver": ">=1.13.20,<1.14", "chromadb": ">=1.5,<2"}
"""The versions at both ends of which `scripts/contracts.sh` was run."""


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("door", DOORS)
def test_only_the_door_imports_internals(door: str) -> None:
    users = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if any(name.startswith(DOORS[door]) for name in imported(path))
    }
    assert users == {door}


def test_the_versions_that_are_taken_are_those_that_were_tried() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    taken = {each.name: each.specifier for each in map(Requirement, project["dependencies"])}
    for name, tried in TRIED.items():
        assert taken[name] == Requirement(f"{name}{tried}").specifier, f"run scripts/contracts.sh with {name}"
        assert taken[name].contains(version(name))
