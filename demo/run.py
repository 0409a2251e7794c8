"""The demo, started by `make demo`: two clients' real documents, a human benchmark beside synthetic ones, evaluated."""

import sys
from pathlib import Path

from rageval_dagster.cli.console import open_all, plural, say
from rageval_dagster.cli.corpus import load_documents
from rageval_dagster.cli.evaluate import print_reports, run_evaluation
from rageval_dagster.errors import RagevalError

DEMO = Path(__file__).parent
HUMAN_BENCHMARK = DEMO / "python-language.human.jsonl"


def run_demo() -> None:
    """Loads the documents, imports the human benchmark, evaluates both clients and prints what it found."""
    from documents import write_demo

    from rageval_dagster.benchmark.importing import import_dataset

    settings, db = open_all()
    files = write_demo(settings.home / "demo")
    clients = [file.stem for file in files]
    for client, file in zip(clients, files, strict=True):
        report = load_documents(settings, db, file, client)
        say(f"{client}: {plural(report.documents, 'document')}, {plural(report.added, 'new chunk')}")
    dataset = import_dataset(db, "python-language", "human", HUMAN_BENCHMARK, "native").dataset
    say(f"python-language: human benchmark of {plural(dataset.qa_count, 'question')}")
    print_reports(settings, db, [report for client in clients for report in run_evaluation(settings, db, client, {})])


if __name__ == "__main__":
    try:
        run_demo()
    except RagevalError as error:
        print(f"demo: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
