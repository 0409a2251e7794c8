"""The demo, started by `make demo`: two clients' real documents, a human benchmark beside synthetic ones, evaluated."""

import sys
from pathlib import Path

from rageval_dagster.app.opening import open_all
from rageval_dagster.cli.console import progress_bar, say
from rageval_dagster.cli.evaluate import print_evaluations
from rageval_dagster.errors import RagevalError
from rageval_dagster.text import plural

DEMO = Path(__file__).parent
HUMAN_BENCHMARK = DEMO / "python-language.human.jsonl"


def run_demo() -> None:
    """Loads the documents, imports the human benchmark, evaluates both clients and prints what it found."""
    from documents import write_demo

    from rageval_dagster.app.datasets import import_questions
    from rageval_dagster.app.documents import ingest
    from rageval_dagster.app.evaluate import Plan, evaluate

    settings, db = open_all()
    files = write_demo(settings.home / "demo")
    for file in files:
        with progress_bar(file.stem) as progress:
            report, _ = ingest(settings, db, file.stem, file, progress=progress)
        say(f"{file.stem}: {plural(report.documents, 'document')}, {plural(report.added, 'new chunk')}")
    imported, _, _ = import_questions(settings, db, "python-language", HUMAN_BENCHMARK, name="human")
    say(f"python-language: human benchmark of {plural(imported.dataset.qa_count, 'question')}")
    done = [evaluate(settings, db, file.stem, Plan(), say) for file in files]
    spent = {client: usage for each in done for client, usage in each.spent.items()}
    print_evaluations(settings, db, [found for each in done for found in each.found], spent)


if __name__ == "__main__":
    try:
        run_demo()
    except RagevalError as error:
        print(f"demo: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
