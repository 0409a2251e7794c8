"""`rageval worker`: works on the runs that wait at the broker."""

from typing import Annotated

import typer

from rageval_dagster.settings import load_settings


def worker(
    processes: Annotated[int, typer.Option(min=1, help="Runs at the same time, each in a process of its own.")] = 2,
    max_runs: Annotated[int, typer.Option(min=1, help="A process is replaced after this many runs.")] = 50,
    max_memory_mb: Annotated[
        int, typer.Option(min=100, help="So is one that keeps more than this after a run.")
    ] = 2000,
) -> None:
    """Works on the runs that wait at the broker (RAGEVAL_LAUNCHER=celery), until it is stopped.

    Models stay loaded from one run to the next. Settings, prompts and your own functions are read anew for each run.
    Ctrl-C ends it once the runs that it works on are done.
    """
    from rageval_dagster.app.fleet import work

    work(load_settings(), processes, max_runs, max_memory_mb)
