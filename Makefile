# `make demo` and `make test` set up what they need: Python 3.10 or newer, git and make are enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
MODELS := .venv-models
PRODUCTION := .venv-production
READY := $(VENV)/.ready
STORES := $(VENV)/.stores-ready
AZURITE := azurite@3.37.0
demo dev: export DAGSTER_HOME := $(CURDIR)
SIDE_BY_SIDE := --numprocesses auto --maxprocesses 4 --dist worksteal
CHECKED := rag_pipeline rag_pipeline_tests benchmarks

.PHONY: demo test test-slow test-stores test-models test-production test-browser dev lint format constraints clean

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 10) else "Python 3.10 or newer is needed; set PYTHON=python3.x")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[pipeline,litellm,dev]'
	@touch $@

demo: $(READY)  ## refresh the sample corpora under Dagster and ask three questions
	@$(BIN)/rag-pipeline refresh handbook faq
	@for question in "how do I add a corpus?" "what happens when a file cannot be read?" "which columns can a filter name?"; do \
		echo; echo "handbook: $$question"; $(BIN)/rag-pipeline search handbook -k 2 -- "$$question" || exit 1; done
	@echo "The runs, checks and figures are in the Dagster UI: make dev"

test: $(READY)  ## the tests
	$(BIN)/python -m pytest $(SIDE_BY_SIDE) -m "not slow and not models and not stores and not production and not browser"

# One more than there are cores on a small machine: they wait for processes more than they compute.
test-slow: $(READY)  ## the tests that kill processes or take minutes
	$(BIN)/python -m pytest --numprocesses 3 --dist worksteal --durations 10 -m slow

# Microsoft publishes its emulator for Node.js only, which comes with npm from PyPI.
$(STORES): $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[stores-test]'
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/npm install --silent --no-audit --no-fund --ignore-scripts \
		--prefix $(VENV)/azurite $(AZURITE)
	@touch $@

test-stores: $(STORES)  ## the tests of buckets, which start servers of S3, Google Cloud Storage and Azure
	$(BIN)/python -m pytest $(SIDE_BY_SIDE) -m stores

# An environment of its own: the other tests must pass without torch.
$(MODELS)/.ready: pyproject.toml
	$(PYTHON) -m venv $(MODELS)
	$(MODELS)/bin/python -m pip install --quiet --disable-pip-version-check \
		--editable '.[pipeline,litellm,local,sentence-transformers,generation,models-test,dev]'
	@touch $@

test-models: $(MODELS)/.ready  ## the tests of local models and of RAGAS, which install torch
	$(MODELS)/bin/python -m pytest -m models

# An environment of its own: dagster-postgres asks for the Dagster of its own release, which may be older than the newest.
$(PRODUCTION)/.ready: pyproject.toml
	$(PYTHON) -m venv $(PRODUCTION)
	$(PRODUCTION)/bin/python -m pip install --quiet --disable-pip-version-check \
		--editable '.[pipeline,litellm,postgres,production-test]'
	@touch $@

test-production: $(PRODUCTION)/.ready  ## a deployment on PostgreSQL, and what kill -9 leaves of it
	$(PRODUCTION)/bin/python -m pytest -m production $(PYTEST_ARGUMENTS) rag_pipeline_tests/production

test-browser: $(PRODUCTION)/.ready  ## the Dagster UI in headless Chromium, which has to be there
	$(PRODUCTION)/bin/python -m pytest -m browser $(PYTEST_ARGUMENTS) rag_pipeline_tests/browser

dev: $(READY)  ## the Dagster UI on this project, at http://127.0.0.1:3000
	$(BIN)/dagster dev --workspace workspace.yaml --host 127.0.0.1

lint: $(READY)  ## ruff and mypy
	$(BIN)/ruff check $(CHECKED)
	$(BIN)/ruff format --check $(CHECKED)
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff check --fix $(CHECKED)
	$(BIN)/ruff format $(CHECKED)

constraints:  ## write constraints.txt anew: what the image installs
	rm -rf .venv-constraints
	$(PYTHON) -m venv .venv-constraints
	.venv-constraints/bin/python -m pip install --quiet --disable-pip-version-check '.[pipeline,litellm,postgres]'
	{ echo '# What the image installs: `make constraints` writes this file anew.'; \
		.venv-constraints/bin/python -m pip freeze --exclude rag-pipeline; } > constraints.txt
	rm -rf .venv-constraints

clean:  ## remove everything that was made: the environment, the stores, Dagster's history
	rm -rf $(VENV) $(MODELS) $(PRODUCTION) data history schedules storage logs .logs_queue .telemetry
