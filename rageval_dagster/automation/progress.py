"""The logger of runs that the command line starts: our own lines on standard error, none of Dagster's."""

import logging
import sys

import dagster as dg

from rageval_dagster.embedding import models

PROGRESS_LOGGER = "rageval_progress"


class _MessageOnly(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        meta = getattr(record, "dagster_meta", {})
        return f"  {meta.get('orig_message') or record.getMessage()}"


class _OwnLines(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        meta = getattr(record, "dagster_meta", {})
        # Dagster says of each later step that it does not begin; why the run failed stands in one line at its end.
        if meta.get("dagster_event") is not None or meta.get("orig_message", "").startswith("Dependencies for step "):
            return False
        # Beside the steps: that another run is waited for.
        return record.levelno >= (logging.INFO if meta.get("step_key") is not None else logging.WARNING)


def _make(_context: dg.InitLoggerContext) -> logging.Logger:
    logger = logging.Logger("rageval")
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(_OwnLines())
    handler.setFormatter(_MessageOnly())
    logger.addHandler(handler)
    # A model loads at the first text that needs it, far below any step: a minute in which nothing else is said.
    loading = logging.getLogger(models.__name__)
    loading.setLevel(logging.INFO)
    loading.handlers = [logging.StreamHandler(sys.stderr)]
    loading.handlers[0].setFormatter(_MessageOnly())
    return logger


progress_logger = dg.LoggerDefinition(_make, description="Progress lines on standard error.")
