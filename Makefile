.DEFAULT_GOAL := help
.PHONY: help install install-train demo demo-consumers demo-flink flink-test faults check live test nightly model fuzz lint format locks sbom reference bench page page-figures up down clean
.PHONY: chart compose-test constant-load-test dist docs first-action-test kubernetes-test prometheus-test wheel-test

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
# The site's tools have an environment of their own: nothing else needs them.
DOCS   := .venv-docs
# A control plane of Kubernetes, for the tests that need a real one.
KUBERNETES := $(CURDIR)/build/kubernetes
KUBERNETES_VERSION := -X k8s.io/component-base/version.gitVersion=$(shell sed -n 's/.*k8s.io\/kubernetes //p' tests/kubernetes/servers/go.mod)
DEMO_ARGS ?=
FAULTS_ARGS ?=
TEST_PROCESSES ?= 2
# One more than cores: tests on real servers wait for most of their time.
LIVE_PROCESSES ?= 3
PYTEST = $(BIN)/python -m pytest
# The links of docs/decisions/0026-one-import-root.md.
ROOMS := $(filter-out %.py %.typed %__pycache__,$(wildcard src/surescale/*))
# Folders whose tests need no server, but for those marked integration; and all others.
QUICK_TESTS := $(addprefix tests/,unit properties ports wire model reference fuzz architecture)
LIVE_TESTS := $(addprefix tests/,e2e integration faults ports browser kubernetes unit/spark_streaming)

help: ## Show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

install: $(STAMP) ## Make .venv with the run-time and test parts (no torch); the command is .venv/bin/surescale

$(STAMP): locks/bootstrap.txt locks/runtime.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' || \
	  { echo "surescale needs Python 3.11 to 3.14; $(PYTHON) is $$($(PYTHON) -V 2>&1). Set PYTHON=python3.11 (Debian: apt-get install python3.11 python3.11-venv)"; exit 1; }
	@# Some archives and checkouts turn links into files.
	@for room in $(ROOMS); do test -L $$room || ln -sf ../../$${room##*/} $$room; done
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || \
	  { echo "cannot make a virtual environment: install venv (Debian: apt-get install python3-venv)"; exit 1; }
	@echo "installing into $(VENV), once, in 3 steps: the installer uv, $$(grep -c '==' locks/runtime.txt) locked packages, surescale itself" >&2
	@echo "1 of 3: the installer" >&2
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r locks/bootstrap.txt
	@echo "2 of 3: the packages of locks/runtime.txt, each checked against its hash; most of the time goes here" >&2
	@$(BIN)/uv pip install --python $(BIN)/python --require-hashes -r locks/runtime.txt
	@echo "3 of 3: surescale, as a link to this folder" >&2
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@touch $(STAMP)

install-train: install ## Add torch and torch-geometric, for the networks of the paper
	@$(BIN)/uv pip install --python $(BIN)/python --require-hashes -r locks/train.txt

demo: install ## Run the whole pipeline on this machine: Kafka, Redis, Spark, Faust and a simulated engine
	@$(BIN)/surescale demo $(DEMO_ARGS)

demo-flink: install ## Scale a real Flink job on this machine; DEMO_ARGS="--policy target-utilisation" chooses
	@$(BIN)/surescale demo flink $(DEMO_ARGS)

demo-consumers: install ## Scale real Kafka consumer groups on this machine by starting and draining workers
	@$(BIN)/surescale demo consumers $(DEMO_ARGS)

flink-test: install ## The tests on a real Flink, also those that CI leaves to the night
	@$(PYTEST) $(LIVE_TESTS) -m flink $(PYTEST_ARGS)

wheel-test: install ## The built wheel runs the demo in an empty folder, from an environment of its own; minutes
	@$(PYTEST) tests/e2e/test_wheel.py $(PYTEST_ARGS)

prometheus-test: install ## The whole pipeline with figures from a real Prometheus; minutes of the wall's time
	@$(PYTEST) tests/e2e/test_prometheus_pipeline.py -m nightly $(PYTEST_ARGS)

constant-load-test: install ## Real consumer groups and Flink jobs under a constant load for hours of the pipeline's clock; minutes
	@$(PYTEST) tests/e2e/test_constant_load.py tests/e2e/test_constant_load_flink.py -m nightly $(PYTEST_ARGS)

first-action-test: install ## From a running Kafka and group through `surescale init` and `up` to the first action; says how long; minutes
	@$(PYTEST) -s tests/integration/test_init.py -m nightly $(PYTEST_ARGS)

compose-test: install ## The actuator compose on the container engine that answers, by the whole contract; minutes
	@$(PYTEST) tests/integration/test_compose_actuator.py -m "nightly or not nightly" $(PYTEST_ARGS)

kubernetes-test: install ## Actuator, manifests and chart on a real Kubernetes control plane, built once from Go modules
	@cd tests/kubernetes/servers && go build -ldflags "$(KUBERNETES_VERSION)" -o $(KUBERNETES)/ $(addprefix k8s.io/kubernetes/cmd/,kube-apiserver kube-controller-manager kube-scheduler kubectl)
	@cd tests/kubernetes/servers && go build -o $(KUBERNETES)/etcd go.etcd.io/etcd/server/v3
	@cd tests/kubernetes/helm && go build -o $(KUBERNETES)/ helm.sh/helm/v3/cmd/helm
	@cd tests/kubernetes/keda && go build -o $(KUBERNETES)/ .
	@SURESCALE_TEST_KUBERNETES=$(KUBERNETES) $(BIN)/python -m pytest tests/kubernetes $(PYTEST_ARGS)

faults: install ## Kill, cut off and starve whole pipelines, then check that nothing was lost; FAULTS_ARGS="--seed 7 --minutes 30" chooses
	@$(BIN)/python -m tests.faults $(FAULTS_ARGS)

check: lint ## Before each commit: lint, types, and all tests that need no server
	@$(PYTEST) $(QUICK_TESTS) -m "not integration and not nightly" -n $(TEST_PROCESSES) --no-loadscope-reorder --durations 20 --durations-min 3 $(PYTEST_ARGS)

# Classes that each Spark of the tests would load and check anew. Without it they only start more slowly.
build/spark.jsa: $(STAMP) tests/support/spark_archive.py
	@$(BIN)/python -m tests.support.spark_archive $@ || echo "no archive of Spark's classes was made; the tests go on without" >&2

live: install build/spark.jsa ## Tests on real servers: Kafka, Redis, Spark, Faust, Flink, containers, a browser
	@$(PYTEST) $(LIVE_TESTS) -m "integration and not nightly" -n $(LIVE_PROCESSES) --no-loadscope-reorder --durations 40 --durations-min 15 $(PYTEST_ARGS)

test: check live ## Before each merge: everything but what is left to the night

nightly: install ## What make test leaves out (grep mark.nightly for the reasons), and the long forms of its searches; hours
	@$(PYTEST) -m nightly --fail-on-flaky $(PYTEST_ARGS)
	@SURESCALE_GRID=whole $(PYTEST) tests/properties --hypothesis-profile=night
	@$(MAKE) model fuzz faults

model: install ## Explore the rescale protocol (MODEL_ARGS="grow --faults 2" chooses); a short form is in make check
	@$(BIN)/python -m tests.model $(MODEL_ARGS)

fuzz: install ## Mutate inputs of every decoder and pure step (FUZZ_ARGS="--seconds 3600 --processes 2 --target decide")
	@$(BIN)/python -m tests.fuzz $(FUZZ_ARGS)

lint: install ## ruff, formatting, strict types, import contracts
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo

format: install ## Format the code
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

sbom: install ## Write a bill of materials (CycloneDX) of each image into build/sbom, from the committed locks
	@$(BIN)/python -m compose.sbom build/sbom

dist: install ## Build the source archive, and the wheel from it, into dist
	@$(BIN)/uv build --quiet --no-build-isolation --python $(BIN)/python

locks: install ## Resolve the lock files again
	@./locks/compile.sh

chart: install ## Make the Helm chart's templates from compose/kubernetes, and the definition of ScaledStreams
	@$(BIN)/python -m compose.chart

reference: install ## Regenerate docs/reference/ from the code
	@$(BIN)/surescale dev reference

$(DOCS)/.installed: locks/docs.txt
	@$(PYTHON) -m venv $(DOCS)
	@$(DOCS)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r locks/docs.txt
	@touch $@

docs: $(DOCS)/.installed ## Build the site of docs/ into build/docs; open index.html there, no server is needed
	@NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --strict
	@echo "build/docs/index.html"

bench: install ## Run every benchmark (more than half an hour); each prints the machine, the seed and its targets
	@for name in agent assign cost coverage gate "headroom --load clarknet --job payments --draw 1" \
	    "inference --states 50" "placement --scale-only" \
	    "policies --quick" projector rescale reschedule recovery simulator spark step threads \
	    "tournament --world calm --days 1" tracing "worlds --quick"; do \
	  echo "== surescale dev bench $$name"; $(BIN)/surescale dev bench $$name || exit 1; \
	done

page: ## Build the web page into services/state/page/built (needs Node 20 or later; whoever runs surescale needs none)
	@cd services/state/page && npm ci --ignore-scripts --silent && npm run --silent build

page-figures: install ## Make the page's screenshots in docs/figures again (needs Chromium)
	@SURESCALE_PAGE_FIGURES=yes $(BIN)/python -m pytest -q tests/browser

up: ## Start the pipeline in containers (settings of compose/.env, else the demo)
	@compose/pipeline.sh up

down: ## Stop the pipeline in containers
	@compose/pipeline.sh down

clean: ## Remove what the targets above made
	@rm -rf $(VENV) $(DOCS) build dist *.egg-info .pytest_cache .ruff_cache .mypy_cache .hypothesis .import_linter_cache
