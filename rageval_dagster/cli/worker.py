"""`rageval worker`: works on the runs that wait at the broker."""

from typing import Annotated

import typer

from rageval_dagster.settings import load_settings


def worker(
    processes: Annotated[
        int, typer.Option(min=1, help="Number of runs at the same time, each in its own process.")
    ] = 2,
    max_runs: Annotated[int, typer.Option(min=1, help="Replace a process after this many runs.")] = 50,
    max_memory_mb: Annotated[
        int, typer.Option(min=100, help="Replace a process that keeps more memory than this after a run.")
    ] = 2000,
) -> None:
    """Executes the runs that wait at the broker (RAGEVAL_LAUNCHER=celery), until you stop it.

    Models stay loaded from one run to the next. Settings, prompts and your own functions are read again for each run.
    Ctrl-C stops the worker once its current runs are done.
    """
    from rageval_dagster.app.fleet import work

    work(load_settings(), processes, max_runs, max_memory_mb)
