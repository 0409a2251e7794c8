"""The GitHub Action and the GitLab example, run step by step as their services would."""

import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from tests.docs.pages import blocks
from tests.pipeline.small_project import Project

ROOT = Path(__file__).parents[1]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
GITLAB = yaml.safe_load((ROOT / "docs" / "examples" / "gitlab-ci.yml").read_text(encoding="utf-8"))["rageval"]
JUNIT = "rageval-junit.xml"


def run_action(folder: Path, environment: Mapping[str, str], **given: str) -> subprocess.CompletedProcess[str]:
    """The last step that ran: one that fails ends the job."""
    inputs = {name: about.get("default") for name, about in ACTION["inputs"].items()} | given
    assert [name for name, value in inputs.items() if value is None] == []

    def filled(text: str) -> str:
        return re.sub(r"\$\{\{ inputs\.(\w+) \}\}", lambda found: str(inputs[found[1]]), text)

    github = {"GITHUB_ACTION_PATH": str(ROOT), "GITHUB_STEP_SUMMARY": str(folder / "summary.md")}
    github["RUNNER_TEMP"] = str(folder)
    ended: subprocess.CompletedProcess[str] | None = None
    for step in ACTION["runs"]["steps"]:
        wanted = re.fullmatch(r"inputs\.(\w+) == '(\w+)'", step.get("if", ""))
        if wanted is None or inputs[wanted[1]] == wanted[2]:
            own = {name: filled(value) for name, value in step.get("env", {}).items()}
            ended = run_script(filled(step["run"]), folder, {**environment, **github, **own})
            if ended.returncode:
                break
    assert ended is not None
    return ended


def run_script(script: str, folder: Path, environment: Mapping[str, Any]) -> subprocess.CompletedProcess[str]:
    """As GitHub runs a step with `shell: bash`."""
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
    return subprocess.run(command, cwd=folder, env=dict(environment), capture_output=True, text=True, check=False)


def cases(folder: Path) -> list[str]:
    return [str(case.get("name")) for case in ElementTree.parse(folder / JUNIT).iter("testcase")]


@pytest.mark.core
def test_the_action_installs_and_evaluates_and_gitlab_s_job_does_the_same(evaluated: Project) -> None:
    # A job's fresh environment; what requirements.lock names is there already.
    python = evaluated.folder / "venv" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", python.parents[1]], check=True)
    [site] = (python.parents[1] / "lib").glob("python*/site-packages")
    (site / "installed.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if name not in ("DAGSTER_HOME", "PYTHONPATH")}
    environment |= {**evaluated.environment, "PATH": f"{python.parent}:{os.environ['PATH']}"}
    ended = run_action(evaluated.folder, environment, client="acme", unclear="warn")
    assert ended.returncode == 0, ended.stderr
    [entry_points] = site.glob("rageval_dagster-*.dist-info/entry_points.txt")
    assert "[pytest11]" in entry_points.read_text(encoding="utf-8")
    assert "evaluation" in cases(evaluated.folder)
    assert (evaluated.folder / "summary.md").read_text(encoding="utf-8").startswith("- acme / synthetic / dense: ")

    (evaluated.folder / JUNIT).unlink()
    [line] = GITLAB["script"]
    ended = run_script(line, evaluated.folder, {**environment, **GITLAB["variables"]})
    assert ended.returncode in (0, *GITLAB["allow_failure"]["exit_codes"]), ended.stderr
    assert GITLAB["artifacts"]["reports"]["junit"] == JUNIT
    assert "evaluation" in cases(evaluated.folder)


def test_the_workflow_of_the_docs_gives_the_action_what_it_takes() -> None:
    [workflow] = blocks("docs/in-your-tests-and-ci.md", "yaml")
    [step] = [
        step for step in yaml.safe_load(workflow)["jobs"]["rageval"]["steps"] if "rageval_dagster@" in step["uses"]
    ]
    assert step["with"].keys() <= ACTION["inputs"].keys()
    assert {name for name, about in ACTION["inputs"].items() if about.get("required")} <= step["with"].keys()


@pytest.mark.parametrize(
    ("code", "unclear", "ends"), [(0, "fail", 0), (1, "warn", 1), (3, "fail", 3), (3, "warn", 0), (4, "warn", 4)]
)
def test_the_action_ends_as_the_command_does(code: int, unclear: str, ends: int, tmp_path: Path) -> None:
    """The command is stood in for by one that says how it was called."""
    command = tmp_path / "bin" / "rageval"
    command.parent.mkdir()
    command.write_text(
        f'#!/bin/sh\nprintf "%s|" "$@"\necho; echo "gate: a / b / c: told" >&2\nexit {code}\n', encoding="utf-8"
    )
    command.chmod(0o755)
    environment = {"PATH": f"{command.parent}:{os.environ['PATH']}"}
    given = {"client": "acme; exit 0", "arguments": "--system mine -k 3", "unclear": unclear, "install": "false"}
    ended = run_action(tmp_path, environment, **given)
    assert ended.returncode == ends, ended.stderr
    assert ended.stdout.startswith(f"evaluate|--client|acme; exit 0|--gate|--junit|{JUNIT}|--system|mine|-k|3|")
    assert ("::warning::" in ended.stdout) == (code == 3 and ends == 0)
    assert (tmp_path / "summary.md").read_text(encoding="utf-8") == "- a / b / c: told\n"
