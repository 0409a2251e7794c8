#!/usr/bin/env bash
# Writes what pyproject.toml resolves to today in a fresh environment, every version pinned: requirements.lock for users,
# requirements-fleet.lock with what the extras celery, postgres, k8s and otel need beside it, and requirements-dev.lock with what
# tests and checks need beside both.
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

beside() { grep --invert-match --line-regexp --fixed-strings "${@/#/--file=}"; }

pip install --quiet torch==2.13.0
# dagster-k8s takes no newer kubernetes, and Chroma takes any.
pip install --quiet 'kubernetes<37' --editable .
{
  echo "# Written by scripts/lock.sh; install with: pip install -r requirements.lock"
  freeze
} > requirements.lock
pip install --quiet --constraint requirements.lock --editable '.[celery,postgres,k8s,otel]'
{
  echo "# Written by scripts/lock.sh; what the extras celery, postgres, k8s and otel need beside requirements.lock"
  freeze | beside requirements.lock
} > requirements-fleet.lock
pip install --quiet --constraint requirements.lock --constraint requirements-fleet.lock --editable '.[dev]'
{
  echo "# Written by scripts/lock.sh; what tests and checks need beside requirements.lock and requirements-fleet.lock"
  freeze | beside requirements.lock requirements-fleet.lock
} > requirements-dev.lock
