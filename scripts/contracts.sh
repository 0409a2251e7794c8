#!/usr/bin/env bash
# Runs the contract tests with other versions of Dagster and Chroma, each in an environment that is thrown away:
#   scripts/contracts.sh dagster==1.13.20 dagster==1.13.29 chromadb==1.5.0 chromadb==1.5.9
set -euo pipefail
cd "$(dirname "$0")/.."
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
site='import sysconfig; print(sysconfig.get_path("purelib"))'
for wanted in "$@"; do
  .venv/bin/python -m venv "$work/$wanted"
  python="$work/$wanted/bin/python"
  # All else is taken from the project's environment, in which nothing is changed.
  .venv/bin/python -c "$site" > "$("$python" -c "$site")/project.pth"
  "$python" -m pip install --quiet --disable-pip-version-check "$wanted"
  case "$wanted" in
    dagster*) tests=(tests/pipeline/test_dagster_internals.py) ;;
    *) tests=(tests/corpus/test_chroma_internals.py tests/corpus/test_corpus_store.py) ;;
  esac
  "$python" -m pytest "${tests[@]}"
  echo "$wanted: passed"
done
