"""A small project to evaluate: its own RAGEVAL_HOME, with made-up documents in embedded Chroma."""

import base64
import gzip
import json
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import dagster as dg
import pytest

from rageval_dagster.automation.home import DAGSTER_YAML
from rageval_dagster.automation.launch import Launched, launch
from rageval_dagster.corpus.ingest import ingest
from rageval_dagster.corpus.store import open_store
from rageval_dagster.definitions import defs
from rageval_dagster.embedding.models import load_embedder
from rageval_dagster.evaluation.summary import EvaluationReport, reports_of
from rageval_dagster.settings import Settings, load_settings
from rageval_dagster.storage.database import Database, open_database

CANARY = "quinzical-ostrakon"

PLACES = ["Avonlea", "Brightwater", "Caldera", "Dunmore", "Eastwick", "Fairhaven", "Glenrock", "Harrowgate"]


def documents(topic: str, count: int = 8) -> list[dict[str, str]]:
    """Made-up documents in plain English sentences, each about one place."""
    return [
        {
            "id": f"{topic}-{place.lower()}",
            "title": f"The {topic} of {place}",
            "text": (
                f"The {topic} of {place} was founded in {1801 + 7 * number} by the engineer {place[::-1].title()}. "
                f"It is known as the {CANARY} {topic} because {number + 3} towers stand on its northern side. "
                f"Visitors of {place} are allowed to enter from {8 + number % 3} in the morning. "
                f"A ticket for {place} is sold for {12 + number} crowns at the gate near the river.\n\n"
                f"The keeper of {place} was appointed in {1950 + number} after a long dispute with the council. "
                f"The archive of {place} is located in a vault below the great hall of the {topic}."
            ),
        }
        for number, place in enumerate(PLACES[:count])
    ]


@dataclass
class Project:
    """One RAGEVAL_HOME with what a user would do in it."""

    folder: Path
    environment: dict[str, str]

    @property
    def settings(self) -> Settings:
        return load_settings(self.environment, env_file=self.folder / "none.env")

    def database(self) -> Database:
        self.settings.ensure_home()
        return open_database(self.settings.database_url)

    def write(self, client: str, rows: list[dict[str, str]]) -> Path:
        path = self.folder / f"{client}.jsonl"
        path.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
        return path

    def ingest(self, client: str, rows: list[dict[str, str]], chunk_size: int = 300) -> None:
        settings = self.settings
        settings.ensure_home()
        embedder = load_embedder(settings.embedding_model, settings)
        ingest(self.write(client, rows), client, open_store(settings), embedder, chunk_size=chunk_size, overlap=40)

    def evaluate(self, client: str, trigger: str, **plan: object) -> Launched:
        return launch(defs, self.settings, client, trigger, plan, lambda _: None)

    def report(self, client: str, trigger: str, **plan: object) -> EvaluationReport:
        """Evaluates, and gives what came of the one dataset and system there are."""
        assert self.evaluate(client, trigger, **plan).message is None
        [report] = reports_of(self.database(), client, trigger)
        return report

    def given(self, monkeypatch: pytest.MonkeyPatch, **variables: str) -> "Project":
        """The project with more variables, which this process has too: Dagster's resources look there."""
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        return Project(self.folder, self.environment | variables)


def new_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """An empty project; the process's environment points to it, since Dagster's resources read it there."""
    for variable in [
        name for name in os.environ if name.startswith(("RAGEVAL_", "EVALUATION_", "OPENAI_", "DAGSTER_"))
    ]:
        if not variable.startswith("RAGEVAL_TEST_"):  # the servers of the tests
            monkeypatch.delenv(variable)
    environment = {
        "RAGEVAL_HOME": str(tmp_path / "home"),
        "EVALUATION_DEFAULT_SAMPLE_SIZE": "8",
        "RAGEVAL_SETTLE_S": "0",
    }
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    shutil.copytree(_new_dagster_home(tmp_path.parent, monkeypatch), tmp_path / "home" / "dagster")
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "home" / "dagster"))
    monkeypatch.chdir(tmp_path)
    return Project(tmp_path, environment)


def _new_dagster_home(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Dagster's home with its own tables, which take a second to make; made once in the folder."""
    home = folder / "new-dagster-home"
    if not home.exists():
        before = os.umask(0o077)  # as it is where the project makes it
        home.mkdir()
        (home / "dagster.yaml").write_bytes(DAGSTER_YAML.read_bytes())
        with monkeypatch.context() as environment:
            environment.setenv("DAGSTER_HOME", str(home))
            dg.DagsterInstance.get().dispose()
        os.umask(before)
    return home


def holding(word: str, *places: Path) -> list[str]:
    """The files at these places that hold the word.

    Chroma's vector index is left out: it is made as large as it may become, and what is not used yet of it is whatever
    stood in the process's memory (SECURITY.md). What is packed in a report is unpacked.
    """
    files = [path for place in places for path in ([place] if place.is_file() else place.rglob("*")) if path.is_file()]
    return [str(path) for path in files if path.name != "data_level0.bin" and word.encode() in unpacked(path)]


def unpacked(path: Path) -> bytes:
    held = path.read_bytes()
    packed = re.findall(rb"H4sI[A-Za-z0-9+/=]+", held) if path.suffix == ".html" else []
    return held + b"".join(gzip.decompress(base64.b64decode(part)) for part in packed)
