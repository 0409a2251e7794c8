"""Progress of long stages as Dagster log lines with counts and rate."""

import time

import dagster as dg

from rageval_dagster.records import Pace, Progress
from rageval_dagster.resources import HistoryDatabase

SECONDS_BETWEEN_LINES = 5.0


def log_progress(context: dg.AssetExecutionContext, what: str, database: HistoryDatabase) -> Progress:
    """A callback that logs `what: done/total (rate; model calls, cost)` at most every five seconds, and when all is
    done."""
    from rageval_dagster.storage.caches import model_usage

    db, client_id = database.open(), database.client_of(context.partition_key)
    before = model_usage(db, client_id, context.run.run_id)
    started = time.monotonic()
    last_line, said = started, -1
    pace = Pace()

    def report(done: int, total: int) -> None:
        nonlocal last_line, said
        now = time.monotonic()
        if done == said or (done < total and now - last_line < SECONDS_BETWEEN_LINES):
            return
        last_line, said = now, done
        spent = (model_usage(db, client_id, context.run.run_id) - before).described()
        going = pace.told(done, total, now - started)
        context.log.info(f"{what}: {done}/{total} ({going}{f'; {spent}' if spent else ''})")

    return report
