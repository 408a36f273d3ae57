SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help setup demo check test-fast test test-slow conformance sim contract bench

PYTHON ?= python3
VENV ?= .venv
SEEDS ?= 1000
BENCH ?= heal overhead checkpoint quiet
DRILL ?= --against torchrun
RUN := $(VENV)/bin/python
READY := $(VENV)/.ready

# Tests that measure no time and hurt no process of a drill run beside the others, and give way.
define side-by-side
@nice $(RUN) -m pytest -q -m "$(1)" tests/unit tests/contract tests/sim tests/torch \
    tests/conformance >$(VENV)/reckoning.log 2>&1 & \
    reckoning=$$!; \
    $(RUN) -m pytest -q -m "$(1)" tests/chaos tests/integration; failed=$$?; \
    wait $$reckoning || failed=$$?; \
    cat $(VENV)/reckoning.log; \
    exit $$failed
endef

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

setup: $(READY) ## Make .venv with everything that constraints.txt pins

$(READY): constraints.txt pyproject.toml tests/s3.txt
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install --quiet --constraint constraints.txt hatchling editables
	$(VENV)/bin/pip install --quiet --no-build-isolation --constraint constraints.txt --editable '.[dev]'
	$(VENV)/bin/pip install --quiet --no-deps --upgrade --target $(VENV)/s3 --requirement tests/s3.txt
	touch $@

demo: $(READY) ## Take the power of one of eight training members, beside plain torchrun
	$(VENV)/bin/everstep drill $(DRILL)

check: $(READY) ## Format, lint, strict types, import arrows, generated contract, manifests
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports --no-logo
	$(RUN) -m everstep_contract --check proto
	$(RUN) -m pytest -q tests/contract/deploy

test-fast: $(READY) ## Unit and contract tests and a short simulation: run before a commit
	$(RUN) -m pytest -q -m "not slow" tests/unit tests/contract tests/sim

test: $(READY) ## All tests but the slow ones
	$(call side-by-side,not slow)

test-slow: $(READY) ## Long simulations and repeated kill trials
	$(call side-by-side,slow)

# A KUBECONFIG of the environment is not enough to have a cluster tested: it has to be named here.
conformance: $(READY) ## Facts about Kubernetes and Volcano; KUBECONFIG=path asks that cluster
	$(RUN) -m pytest -q -rs tests/conformance \
	    $(if $(filter command line,$(origin KUBECONFIG)),--kubeconfig $(KUBECONFIG))

sim: $(READY) ## Simulated histories of faults; SEEDS=n of them
	$(RUN) -m pytest -q -m "not slow" tests/sim/test_histories.py --seeds $(SEEDS)

contract: $(READY) ## Generate proto/ from the models
	$(RUN) -m everstep_contract proto

bench: $(READY) ## Measure; BENCH="heal rows overhead checkpoint quiet watch" chooses (rows: an hour)
	@for topic in $(BENCH); do PYTHONPATH=tests $(RUN) -m bench.$$topic || failed=1; done; \
	    exit $${failed:-0}
