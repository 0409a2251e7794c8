"""`python -m rageval_dagster` is `rageval`."""

import sys

from rageval_dagster.cli import main

if __name__ == "__main__":
    sys.exit(main())
