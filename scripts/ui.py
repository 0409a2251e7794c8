"""`make ui`: the Dagster UI with its daemon, and beside it the reports, until Ctrl-C or until one of the two ends."""

import asyncio
import os
import signal
import sys
from pathlib import Path

from rageval_dagster.automation.home import prepare_dagster_home
from rageval_dagster.errors import RagevalError
from rageval_dagster.settings import load_settings
from rageval_dagster.telling.links import local_base_url

WORKSPACE = Path(__file__).parents[1] / "workspace.yaml"


async def run(ui_port: str) -> int:
    """Gives the exit code: 0 where somebody ended it, else that of the service that ended.

    Raises:
        SettingsError: a setting is wrong, or RAGEVAL_HOME cannot be written.
    """
    _enter_project()
    settings = load_settings()
    prepare_dagster_home(settings)
    config = settings.source.config_file
    print(
        f"Settings: {config if config.is_file() else 'no rageval.toml, so built-in systems are evaluated'}", flush=True
    )
    # So that the runs that are started here link to the reports.
    os.environ["RAGEVAL_REPORT_BASE_URL"] = settings.report_base_url or local_base_url(settings.serve_port)
    os.environ["PYTHONWARNINGS"] = "ignore"
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    print(f"The Dagster UI: http://127.0.0.1:{ui_port} (Ctrl-C ends it, and the reports)", flush=True)
    dagster = [Path(sys.executable).with_name("dagster"), "dev", "--workspace", WORKSPACE]
    commands = [
        [*dagster, "--host", "127.0.0.1", "--port", ui_port],
        [sys.executable, "-m", "rageval_dagster", "serve"],
    ]
    # In sessions of their own: Ctrl-C reaches this process only, which tells each of them once.
    services = [await asyncio.create_subprocess_exec(*command, start_new_session=True) for command in commands]
    ends = [asyncio.create_task(stopped.wait()), *(asyncio.create_task(each.wait()) for each in services)]
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    failed = next((each.returncode for each in services if each.returncode), 0)
    for each in services:
        if each.returncode is None:
            each.terminate()
    await asyncio.wait(ends[1:])
    ends[0].cancel()
    return failed


def _enter_project() -> None:
    """Goes where RAGEVAL_HOME was made, if rageval.toml is there: its systems are evaluated, and its .env is read."""
    home = Path(os.environ.get("RAGEVAL_HOME", ".rageval")).resolve()
    if "RAGEVAL_CONFIG" not in os.environ and (home.parent / "rageval.toml").is_file():
        os.environ["RAGEVAL_HOME"] = str(home)
        os.chdir(home.parent)


if __name__ == "__main__":
    try:
        sys.exit(asyncio.run(run(sys.argv[1])))
    except RagevalError as error:
        print(f"ui: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
