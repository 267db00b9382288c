# What a developer runs.  It needs make and Python 3.11 or newer; everything else goes into .venv.

PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
COVERED := src/sundae/core/*

export OMP_NUM_THREADS := 2
export MKL_NUM_THREADS := 2
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1

.DEFAULT_GOAL := help
.PHONY: help venv test test-full lint types layers tests format demo clean

help:  ## list these targets
	@sed -n 's/^\([a-z-]*\):[^#]*## /\1|/p' $(MAKEFILE_LIST) | while IFS='|' read -r name text; do printf '%-12s%s\n' "$$name" "$$text"; done

venv: $(STAMP)  ## build .venv, or renew it if what it is made from has changed

$(STAMP): pyproject.toml constraints.txt
	$(if $(shell $(PYTHON) -c 'import sys; print("new" if sys.version_info >= (3, 11) else "")' 2>&1 | grep -x new),,$(error sundae needs Python 3.11 or newer and '$(PYTHON)' is not; try: make PYTHON=/path/to/python3.11))
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet -c constraints.txt -e '.[dev]'
	@touch $@

test: lint types layers tests  ## everything that a change must pass

test-full: lint types layers  ## the same, with the slow proofs
	$(BIN)/pytest -n 2 --dist loadfile --cov=sundae --cov-report=term -m "slow or not slow"
	$(BIN)/coverage report --include='$(COVERED)' --fail-under=100

lint: venv  ## ruff: rules and format
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: venv  ## pyright
	$(BIN)/pyright

layers: venv  ## import-linter: which room may open which door
	$(BIN)/lint-imports

tests: venv  ## pytest; every line of the core must be covered
	$(BIN)/pytest -n 2 --dist loadfile --cov=sundae --cov-report=term
	$(BIN)/coverage report --include='$(COVERED)' --fail-under=100

format: venv  ## rewrite the sources as ruff wants them
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

demo: venv  ## the models that ship write, fill, refine and translate
	$(BIN)/sundae demo

clean:  ## remove .venv, caches and build products
	rm -rf .venv build dist .coverage .hypothesis .import_linter_cache .pytest_cache .ruff_cache
	find . -name .git -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +
