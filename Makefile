# Two commands for a fresh machine: `make demo` and `make test`. TORCH=... chooses the torch that is installed (none: empty).
TORCH ?= torch==2.13.0
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: demo test lint setup

demo: setup
	$(BIN)/python scripts/demo.py

test: setup
	$(BIN)/python -m pytest $(PYTEST_ARGS)

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

setup:
	@VENV='$(VENV)' PYTHON='$(PYTHON)' TORCH='$(TORCH)' sh scripts/setup.sh
