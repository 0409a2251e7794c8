#!/usr/bin/env bash
# Writes what pyproject.toml resolves to today in a fresh environment, every version pinned: requirements.lock for users,
# and requirements-dev.lock with what tests and checks need beside it.
set -euo pipefail
cd "$(dirname "$0")/.."
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
pip() { "$work/venv/bin/pip" "$@"; }

freeze() {
  # torch without a local build's name or file, so that each platform finds its own.
  pip freeze --exclude-editable --exclude pip --exclude setuptools | sed -E 's/^torch( @ .*|==.*)$/torch==2.13.0/'
}

pip install --quiet torch==2.13.0
pip install --quiet --editable .
{
  echo "# Written by scripts/lock.sh; install with: pip install -r requirements.lock"
  freeze
} > requirements.lock
pip install --quiet --constraint requirements.lock --editable '.[dev]'
{
  echo "# Written by scripts/lock.sh; what tests and checks need beside requirements.lock"
  freeze | grep --invert-match --line-regexp --fixed-strings --file requirements.lock
} > requirements-dev.lock
