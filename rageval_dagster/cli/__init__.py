"""The `rageval` command: one file a group of commands; results on standard output, progress on standard error."""

import sys

from rageval_dagster.cli.app import app
from rageval_dagster.errors import RagevalError
from rageval_dagster.text import showable


def main() -> None:
    """Runs the command; an expected error is one line on standard error and its exit code."""
    try:
        app()
    except RagevalError as error:
        print(f"rageval: {showable(str(error))}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        print("rageval: interrupted; run the command again", file=sys.stderr)
        sys.exit(2)
