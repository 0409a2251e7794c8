"""`python -m rageval_dagster` is the `rageval` command."""

from rageval_dagster.cli import main

main()
