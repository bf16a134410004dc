.DEFAULT_GOAL := help
.PHONY: help install install-train demo test lint format locks reference bench up down clean

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
DEMO_ARGS ?=
# Many tests wait for Kafka, Spark or containers: two processes share one machine well.
TEST_PROCESSES ?= 2

help: ## Show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

install: $(STAMP) ## Make .venv with the run-time and test parts (no torch); the command is .venv/bin/surescale

$(STAMP): locks/bootstrap.txt locks/runtime.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 12))' || \
	  { echo "surescale needs Python 3.11 or 3.12; $(PYTHON) is $$($(PYTHON) -V 2>&1). Set PYTHON=python3.11 (Debian: apt-get install python3.11 python3.11-venv)"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || \
	  { echo "cannot make a virtual environment: install venv (Debian: apt-get install python3-venv)"; exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r locks/bootstrap.txt
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r locks/runtime.txt
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@touch $(STAMP)

install-train: install ## Add torch and torch-geometric, for training and export
	@$(BIN)/uv pip install --python $(BIN)/python --require-hashes -r locks/train.txt

demo: install ## Run the whole road on this machine: Kafka, Redis, Spark, Faust and a simulated engine
	@$(BIN)/surescale demo $(DEMO_ARGS)

test: install ## Run all tests; prints the pytest summary last
	@$(BIN)/python -m pytest -n $(TEST_PROCESSES) --no-loadscope-reorder $(PYTEST_ARGS)

lint: install ## ruff, formatting, strict types of the pure rooms, import contracts
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo

format: install ## Format the code
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

locks: install ## Resolve the lock files anew
	@./locks/compile.sh

reference: install ## Write docs/reference/ anew from the code
	@$(BIN)/surescale reference

bench: install ## Run the benchmarks; each prints seed, machine and ratios
	@for script in benchmarks/*.py; do echo "== $$script"; $(BIN)/python $$script || exit 1; done

up: ## Start the road in containers (settings of compose/.env, else the demo)
	@compose/road.sh up

down: ## Stop the road in containers
	@compose/road.sh down

clean: ## Remove what the targets above made
	@rm -rf $(VENV) build dist *.egg-info .pytest_cache .ruff_cache .mypy_cache .hypothesis .import_linter_cache
