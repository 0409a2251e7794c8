"""DAGSTER_HOME inside RAGEVAL_HOME: `python -m rageval_dagster.automation.home` makes it and prints where it is."""

import os
from pathlib import Path

from rageval_dagster.settings import Settings, load_settings

DAGSTER_YAML = Path(__file__).with_name("dagster.yaml")


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
        draft.write_bytes(DAGSTER_YAML.read_bytes())
        draft.replace(config)
    os.environ["DAGSTER_HOME"] = str(home)
    return home


if __name__ == "__main__":
    print(prepare_dagster_home(load_settings()))
