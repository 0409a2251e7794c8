#!/usr/bin/env bash
# Writes requirements.lock: what pyproject.toml resolves to today in a fresh environment, every version pinned.
set -euo pipefail
cd "$(dirname "$0")/.."
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet torch==2.13.0
"$work/venv/bin/pip" install --quiet --editable '.[dev]'
{
  echo "# Written by scripts/lock.sh; install with: pip install -r requirements.lock"
  # torch without a local build's name or file, so that each platform finds its own.
  "$work/venv/bin/pip" freeze --exclude-editable --exclude pip --exclude setuptools |
    sed -E 's/^torch( @ .*|==.*)$/torch==2.13.0/'
} > requirements.lock
