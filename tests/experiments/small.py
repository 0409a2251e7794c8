"""A small client to experiment on: documents, questions with quotes, a scripted model that answers; no vectors."""

import json
from pathlib import Path
from typing import Any

from rageval_dagster.benchmark.importing import import_dataset
from rageval_dagster.corpus.ingest import ingest
from rageval_dagster.corpus.store import open_store
from rageval_dagster.experiments.copies import WithoutVectors
from rageval_dagster.experiments.definition import read_definition
from rageval_dagster.experiments.opening import checked, opened, prepare
from rageval_dagster.experiments.results import summary_of
from rageval_dagster.experiments.standing import advance, standing
from rageval_dagster.experiments.trial import run_trial
from rageval_dagster.report.experiment import finish
from rageval_dagster.storage.experiments import get_experiment
from tests.pipeline.small_project import PLACES, Project, documents

CLIENT = "acme"

OTHERS_WORDS = "The board of Orinoco Shipping will vote on the merger with Parana Holdings in the second week of May."

OWN_RAG = """
import json, os, signal
from pathlib import Path

HERE = Path(__file__).parent
KNOWN = {row["question"]: row["answers"][0] for row in map(json.loads, (HERE / "human.jsonl").open(encoding="utf-8"))}
CALLS = HERE / "calls.txt"


def answer(question, k, style, words):
    with CALLS.open("a") as calls:
        calls.write(f"{style} {words}\\n")
    if CALLS.read_text().count("\\n") == int(os.environ.get("DIES_AT", "0")):
        os.kill(os.getpid(), signal.SIGKILL)
    if style == "broken":
        raise ValueError(question)
    if style == "leaky":
        return {"answer": "See the minutes.", "contexts": [{"id": "x", "text": OTHERS_WORDS}]}
    said = KNOWN[question] if style.startswith("right") else "I cannot tell"
    return {"answer": " ".join([said] + ["indeed"] * (words - 1)), "contexts": [{"id": "c", "text": said}]}
""".replace("OTHERS_WORDS", json.dumps(OTHERS_WORDS))
"""A system of the user's own whose parameters decide how good it is."""

OWN_SYSTEM = """
[clients.acme.systems.mine]
kind = "callable"
function = "own_rag:answer"
version = "1"
params = { style = "right", words = 1 }
response = { answer = "answer" }
"""


CHUNKINGS = """
[experiment]
client = "acme"
objective = "overlap.answer_correctness"
documents = "acme.jsonl"

[parameters]
chunk_size = [120, 400]
chunk_overlap = [0, 200]
retriever = ["bm25"]
number_of_chunks = [1, 3]
"""

OWN = """
[experiment]
client = "acme"
system = "mine"
objective = "overlap.answer_correctness"
{more}
[parameters]
style = [{styles}]
words = [1, 4]
"""


def own(project: Project, *styles: str, more: str = "") -> Path:
    """The file of an experiment on the client's own system."""
    return definition(project.folder, OWN.format(styles=", ".join(map(json.dumps, styles)), more=more))


def questions(topic: str = "lighthouse") -> list[dict[str, Any]]:
    """Five questions on each of eight documents, each with its quote."""
    found: list[dict[str, Any]] = []
    for number, place in enumerate(PLACES):
        document = f"{topic}-{place.lower()}"
        for asked, answer, quote in (
            (
                f"When was the {topic} of {place} founded?",
                f"{1801 + 7 * number}",
                f"was founded in {1801 + 7 * number}",
            ),
            (f"How many towers has the {topic} of {place}?", f"{number + 3}", f"{number + 3} towers stand"),
            (f"From when may visitors enter in {place}?", f"{8 + number % 3}", f"enter from {8 + number % 3} in"),
            (f"What does a ticket for {place} cost?", f"{12 + number} crowns", f"sold for {12 + number} crowns"),
            (f"When was the keeper of {place} appointed?", f"{1950 + number}", f"appointed in {1950 + number}"),
        ):
            found.append(
                {
                    "question": asked,
                    "answers": [answer],
                    "evidence": [{"document_id": document, "quote": quote}],
                }
            )
    return found


def prepared(project: Project) -> Path:
    """Gives the client its documents and a dataset `human`; gives the documents' file. Nothing is embedded."""
    settings, db = project.settings, project.database()
    path = project.write(CLIENT, documents("lighthouse"))
    ingest(path, CLIENT, open_store(settings), WithoutVectors(), chunk_size=300, overlap=40)
    file = project.folder / "human.jsonl"
    file.write_text("\n".join(json.dumps(row) for row in questions()), encoding="utf-8")
    import_dataset(db, CLIENT, "human", file, "native", store=open_store(settings))
    return path


def definition(folder: Path, text: str) -> Path:
    path = folder / "experiment.toml"
    path.write_text(text, encoding="utf-8")
    return path


def with_own_system(project: Project) -> None:
    """Gives the client of a prepared project a system of its own, `mine`, with the parameters `style` and `words`."""
    (project.folder / "own_rag.py").write_text(OWN_RAG, encoding="utf-8")
    (project.folder / "rageval.toml").write_text(OWN_SYSTEM, encoding="utf-8")


def driven(project: Project, file: Path, most: int = 1_000) -> dict[str, Any]:
    """What came of an experiment whose batches, at most so many, were asked one after another, without Dagster."""
    settings, db = project.settings, project.database()
    experiment = opened(db, settings, checked(db, settings, read_definition(file), file.name), "command")
    prepare(db, settings, experiment)
    while (now := advance(db, settings, get_experiment(db, experiment.number))).batches and most:
        for batch in now.batches[:most]:
            run_trial(db, settings, get_experiment(db, experiment.number), batch.configuration, batch.questions)
            most -= 1
    if not now.batches:
        finish(db, settings, experiment.number)
    return summary_of(db, standing(db, get_experiment(db, experiment.number)))


def calls_of(project: Project) -> list[str]:
    """What the client's own system was asked with, a call each."""
    path = project.folder / "calls.txt"
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def alike(summary: dict[str, Any]) -> dict[str, Any]:
    """A summary without what differs between any two runs: latencies, and who is recommended by them."""
    rows = [{**row, "latency_s": None, "recommended": None} for row in summary["configurations"]]
    rows.sort(key=lambda row: row["number"])
    return {**summary, "configurations": rows, "recommended": None, "experiment": None}
