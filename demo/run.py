"""The demo, started by `make demo`: a first evaluation, a document that changes, and a search that breaks unnoticed.

Each act is told as it happens, and kept. Run again, the demo tells what is kept, and goes on with the next act.
"""

import io
import json
import os
import shutil
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from rageval_dagster.app.opening import open_all
from rageval_dagster.cli.console import progress_bar, say
from rageval_dagster.errors import RagevalError
from rageval_dagster.settings import Settings
from rageval_dagster.telling.links import local_base_url
from rageval_dagster.text import plural

if TYPE_CHECKING:
    import numpy as np

    from rageval_dagster.app.evaluate import Found, Plan
    from rageval_dagster.corpus.ingest import IngestReport
    from rageval_dagster.storage.database import Database

CLIENT, SECOND_CLIENT = "python-language", "package-readmes"
EDITED = "assert"
ADDED = "Do not check with it what users type: with the option -O nothing of it is left."
MOST_QUESTIONS = 3
WIDTH = 100


@dataclass(frozen=True)
class Stage:
    """Where the acts take place: the settings, the history, and the folder of the demo's documents."""

    settings: Settings
    db: "Database"
    folder: Path

    def ingest(self, client: str) -> "IngestReport":
        from rageval_dagster.app.documents import ingest

        say(f"{client}: loading documents")
        with progress_bar(client) as progress:
            report, _ = ingest(self.settings, self.db, client, self.folder / client, progress=progress)
        return report

    def evaluate(self, client: str, plan: "Plan") -> "Found":
        from rageval_dagster.app.evaluate import evaluate_clients

        return evaluate_clients(self.settings, self.db, [client], plan, say).found[0]

    def ask_people_s_questions(self) -> "Found":
        """Evaluates the first client by its human benchmark."""
        from rageval_dagster.app.evaluate import Plan
        from rageval_dagster.storage.benchmark import current_datasets

        datasets = [dataset.id for dataset in current_datasets(self.db, CLIENT) if dataset.name == "human"]
        return self.evaluate(CLIENT, Plan(dataset_ids=datasets, systems=["dense"]))

    def verdict(self, found: "Found") -> str:
        from rageval_dagster.telling.verdicts import headline, verdict_of

        max_error_share = self.settings.for_client(found.report.evaluation.client_id).max_error_share
        return headline(verdict_of(self.db, found.judged, max_error_share), found.report.headline())

    def answered_anew(self, found: "Found") -> int:
        """How many questions have another answer, or other passages, than in the run before."""
        from rageval_dagster.storage.evaluations import list_evaluations
        from rageval_dagster.storage.results import run_items

        now = found.report.evaluation
        runs = list_evaluations(self.db, now.client_id, now.dataset_id, status="complete")
        before = next(run for run in runs if run.id < now.id)
        known = {row.result_id for row in run_items(self.db, before.id)}
        return sum(row.result_id not in known for row in run_items(self.db, now.id))


Act = Callable[[Stage], tuple[list[str], list["Found"]]]
"""Does what happens in an act; gives the lines that tell it, and its evaluations."""


def first_evaluation(stage: Stage) -> tuple[list[str], list["Found"]]:
    from documents import HUMAN_BENCHMARK, write_demo

    from rageval_dagster.app.datasets import import_questions
    from rageval_dagster.app.evaluate import Plan

    write_demo(stage.folder)
    loaded = {client: stage.ingest(client) for client in (CLIENT, SECOND_CLIENT)}
    import_questions(stage.settings, stage.db, CLIENT, stage.folder / HUMAN_BENCHMARK.name, name="human")
    asked = {
        "written by people": stage.ask_people_s_questions(),
        "that rageval wrote from them": stage.evaluate(SECOND_CLIENT, Plan(systems=["dense"])),
    }
    lines = []
    for how, found in asked.items():
        evaluation = found.report.evaluation
        documents = loaded[evaluation.client_id]
        lines += [
            f"{evaluation.client_id}: {plural(documents.documents, 'document')} in "
            f"{plural(documents.added + documents.unchanged, 'chunk')}, {plural(evaluation.item_count, 'question')} "
            f"{how}",
            f"  {stage.verdict(found)}",
        ]
    return lines, list(asked.values())


def document_changes(stage: Stage) -> tuple[list[str], list["Found"]]:
    from documents import python_language, read_rows, write_rows

    file = stage.folder / CLIENT / "language.jsonl"
    [text] = [row["text"] for row in python_language() if row["id"] == EDITED]
    rows = read_rows(file)
    write_rows(file, [{**row, "text": f"{text}\n\n{ADDED}"} if row["id"] == EDITED else row for row in rows])
    documents = stage.ingest(CLIENT)
    found = stage.ask_people_s_questions()
    lines = [
        f"A sentence is added to the document `{EDITED}`. Only what that touched is done again:",
        f"  {documents.added} of {plural(documents.added + documents.unchanged, 'chunk')} embedded, "
        f"{stage.answered_anew(found)} of {plural(found.report.evaluation.item_count, 'question')} answered and scored",
        f"  {stage.verdict(found)}",
    ]
    return lines, [found]


class OtherModel:
    """Another embedding model with vectors of the same dimension."""

    name = version = "sklearn.feature_extraction.text.HashingVectorizer"

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension

    def encode(self, texts: Sequence[str]) -> "np.ndarray":
        import numpy as np
        from sklearn.feature_extraction.text import HashingVectorizer

        sparse: Any = HashingVectorizer(n_features=self.dimension).transform(texts)
        return sparse.toarray().astype(np.float32)

    def windows(self, text: str) -> list[str]:
        return [text]


def search_breaks(stage: Stage) -> tuple[list[str], list["Found"]]:
    from rageval_dagster.corpus.ingest import ingest
    from rageval_dagster.corpus.store import open_store
    from rageval_dagster.telling.links import report_path

    store = open_store(stage.settings)
    model = OtherModel(store.dimension(CLIENT) or 0)
    documents = ingest(stage.folder / CLIENT / "expressions.jsonl", CLIENT, store, model)
    found = stage.ask_people_s_questions()
    failing = list(found.failing.values())
    lines = [
        f"Somebody embeds {plural(documents.documents, 'document')} "
        f"({plural(documents.added + documents.unchanged, 'chunk')}) again, with another model. No text changed, and "
        "nothing raised an error.",
        f"  {stage.verdict(found)}",
        f"  {plural(len(failing), 'question')} newly fail:",
        *(f"    {question}" for question in failing[:MOST_QUESTIONS]),
        *([f"    and {len(failing) - MOST_QUESTIONS} more"] if len(failing) > MOST_QUESTIONS else []),
        "The report opens with it:",
        f"  {report_path(stage.settings.report_dir, CLIENT)}",
        "Each question before and after:",
        f"  .venv/bin/rageval runs compare {found.judged.judgement.baseline_id} {found.report.evaluation.id}",
        "All of it in the Dagster UI, and the reports in the browser:",
        "  make ui",
    ]
    return lines, [found]


ACTS: dict[str, Act] = {
    "Act 1: the first evaluation": first_evaluation,
    "Act 2: a document changes": document_changes,
    "Act 3: search breaks": search_breaks,
}


def run_demo() -> None:
    """Tells the acts; does those first that are not kept, or of which the history has lost a run.

    Raises:
        RagevalError: an act could not be done.
    """
    from rageval_dagster.storage.evaluations import evaluations_by_id

    settings, db = open_all()
    # So that the runs link to the reports as `make ui` serves them.
    os.environ["RAGEVAL_REPORT_BASE_URL"] = settings.report_base_url or local_base_url(settings.serve_port)
    stage = Stage(settings, db, settings.home / "demo")
    story = stage.folder / "story.json"
    kept = json.loads(story.read_text(encoding="utf-8")) if story.exists() else []
    runs = {run for act in kept for run in act["runs"]}
    if evaluations_by_id(db, runs).keys() != runs:
        kept = []
    if kept:
        print(f"Told again from {settings.home}. To see it happen again: RAGEVAL_HOME=/tmp/demo make demo\n")
    for number, (title, act) in enumerate(ACTS.items()):
        if number == len(kept):
            print(title, flush=True)
            began = time.monotonic()
            with progress_in_place():
                lines, found = act(stage)
            seconds = time.monotonic() - began
            kept.append({"lines": lines, "seconds": seconds, "runs": [each.report.evaluation.id for each in found]})
            story.write_text(json.dumps(kept, indent=1), encoding="utf-8")
            took = f"This took {seconds:.0f} s."
        else:
            print(title)
            took = f"This took {kept[number]['seconds']:.0f} s."
        for line in [took, *kept[number]["lines"]]:
            print(wrapped(line), flush=True)
        print()


def wrapped(line: str) -> str:
    indent = " " * (2 + len(line) - len(line.lstrip()))
    return textwrap.fill(
        line.lstrip(),
        WIDTH,
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


class LastLine(io.TextIOBase):
    """A terminal on which each line takes the place of the one before."""

    def __init__(self, terminal: TextIO) -> None:
        self._terminal = terminal

    def write(self, text: str, /) -> int:
        for line in filter(str.strip, text.splitlines()):
            self._terminal.write(f"\r\x1b[K{line[: shutil.get_terminal_size().columns - 1]}")
        return len(text)

    def flush(self) -> None:
        self._terminal.flush()


@contextmanager
def progress_in_place() -> Iterator[None]:
    """Lines of progress on a terminal take each other's place, and are gone at the end."""
    terminal = sys.stderr
    if not terminal.isatty():
        yield
        return
    try:
        with redirect_stderr(LastLine(terminal)):
            yield
    finally:
        terminal.write("\r\x1b[K")
        terminal.flush()


if __name__ == "__main__":
    try:
        run_demo()
    except RagevalError as error:
        print(f"demo: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        print("demo: interrupted; make demo goes on with this act", file=sys.stderr)
        sys.exit(130)
