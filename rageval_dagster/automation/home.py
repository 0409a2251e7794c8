"""DAGSTER_HOME inside RAGEVAL_HOME: `python -m rageval_dagster.automation.home` makes it and prints where it is."""

import os
from pathlib import Path

from rageval_dagster.settings import Settings, load_settings

DAGSTER_YAML = """\
# Written by rageval_dagster; yours to change: it is not written again.
telemetry:
  enabled: false
nux:
  enabled: false
concurrency:
  runs:
    # Of different clients, each in a process of its own. SQLite serves one writer at a time: over PostgreSQL or MariaDB
    # as many as the machine has room for.
    max_concurrent_runs: 4
    # One run at a time per client; the lease in the history database holds for runs from the command line too.
    tag_concurrency_limits:
      - key: dagster/partition
        value:
          applyLimitPerUniqueValue: true
        limit: 1
  pools:
    # The pool `llm`: assets that may call a language model.
    default_limit: 4
    granularity: op
run_monitoring:
  enabled: true
  start_timeout_seconds: 180
  # A run whose worker was killed gives its pool slots back.
  free_slots_after_run_end_seconds: 30
  poll_interval_seconds: 15
retention:
  schedule:
    purge_after_days: 90
  sensor:
    purge_after_days:
      skipped: 3
      failure: 30
      success: 90
"""


def prepare_dagster_home(settings: Settings) -> Path:
    """Makes DAGSTER_HOME with its dagster.yaml, once, and points this process to it, telemetry off.

    A DAGSTER_HOME that is set already is the user's own and stays.
    """
    os.environ.setdefault("DAGSTER_DISABLE_TELEMETRY", "yes")
    os.umask(0o077)  # what Dagster writes from now on is for its owner only
    if own := os.environ.get("DAGSTER_HOME"):
        return Path(own)
    settings.ensure_home()
    home = settings.dagster_home
    config = home / "dagster.yaml"
    if not config.exists():
        draft = home / f".dagster.yaml.{os.getpid()}"
        draft.write_text(DAGSTER_YAML, encoding="utf-8")
        draft.replace(config)
    os.environ["DAGSTER_HOME"] = str(home)
    return home


if __name__ == "__main__":
    print(prepare_dagster_home(load_settings()))
