#!/bin/sh
# Makes DAGSTER_HOME with its dagster.yaml where the environment names none, and becomes the command.
set -eu
DAGSTER_HOME="${DAGSTER_HOME:-$(python -m rageval_dagster.automation.home)}"
export DAGSTER_HOME
exec "$@"
