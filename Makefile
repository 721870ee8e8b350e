# make demo   watch an agent repair a failing test (sets up .venv first)
# make test   lint, types and tests (sets up .venv first)
# make bench  every benchmark against the peers, short form (sets up .venv first)

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := agentloop benchmarks examples scripts tests training

.DEFAULT_GOAL := help
.PHONY: help demo test check lint format types pytest bench clean

help:
	@sed -n 's/^# make/make/p' Makefile

$(VENV)/.run: pyproject.toml scripts/setup.sh
	@bash scripts/setup.sh "$(PYTHON)" "$(VENV)" "."
	@touch $@

$(VENV)/.dev: pyproject.toml scripts/setup.sh
	@bash scripts/setup.sh "$(PYTHON)" "$(VENV)" ".[dev]"
	@touch $@ $(VENV)/.run

demo: $(VENV)/.run
	@$(BIN)/agentloop demo

test: lint types pytest

lint: $(VENV)/.dev
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)

format: $(VENV)/.dev
	$(BIN)/ruff check --fix $(SOURCES)
	$(BIN)/ruff format $(SOURCES)

types: $(VENV)/.dev
	$(BIN)/mypy

pytest: $(VENV)/.dev
	$(BIN)/pytest

bench: $(VENV)/.dev
	$(BIN)/python -m benchmarks all --short

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache dist
