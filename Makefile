# memory-proxy: `make run` serves, `make demo` shows it, `make test` proves it. `make help` lists the rest.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DOCKER ?= docker
UPSTREAM ?= http://127.0.0.1:8000
# One process more than there are cores: tests of whole services wait for some of their time. On two fast cores the suite
# took 664 s with three of them and 605 with four; on two slow ones 1,367 and 1,446, and with four, services that have to
# share two cores with three others miss limits that a person would not. A file's tests stay in one process: a service costs
# 11 s of processor time to start and stop, and shared out one by one, each process started those of each file.
TEST_PROCESSES ?= $(shell echo $$(( $$(getconf _NPROCESSORS_ONLN) + 1 )))
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input
PIP_FLAGS ?=

# Tests start some hundred processes of ours: loading them without compiled modules takes a third longer.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help install install-dev run demo test types check format bench soak security faults recording test-long test-vllm audit lock image clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

# An environment without pip is what Debian leaves where python3-venv is missing: it is made again.
$(VENV)/.installed: requirements.lock requirements-nodeps.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed, this is " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	$(PIP) --version > /dev/null 2>&1 || $(PYTHON) -m venv $(VENV)
	$(PIP) install -q $(PIP_FLAGS) --require-hashes -r requirements.lock
	$(PIP) install -q $(PIP_FLAGS) --require-hashes --no-deps -r requirements-nodeps.lock
	$(PIP) install -q $(PIP_FLAGS) --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed requirements-dev.lock
	$(PIP) install -q $(PIP_FLAGS) --require-hashes -r requirements-dev.lock
	@touch $@

install: $(VENV)/.installed ## install into .venv, pinned and hash-checked

install-dev: $(VENV)/.installed-dev ## the same, with what tests and benchmarks need

run: install ## install and serve; UPSTREAM=http://host:port of your vLLM
	$(BIN)/memory-proxy serve --upstream $(UPSTREAM) $(ARGS)

demo: install ## fetch a small model, talk to it through the proxy, leave it running
	$(BIN)/memory-proxy demo $(ARGS)

test: install-dev ## the test suite, on real parts, in several processes
	$(BIN)/python -m pytest -q -n $(TEST_PROCESSES) --dist loadfile $(ARGS)

check: install-dev ## format, lint, types, import contracts, generated files, tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(MAKE) --no-print-directory --jobs 2 types test

types: install-dev # takes what the tests leave of the processors
	nice $(BIN)/mypy
	nice $(BIN)/lint-imports --config importlinter.toml

format: install-dev ## format and fix what can be fixed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: install-dev ## recall and overhead benchmarks, a few minutes each
	$(BIN)/python -m bench.overhead $(ARGS)
	$(BIN)/python -m bench.recall $(ARGS)

soak: install-dev ## an hour of real traffic, judged at its end against its start (ARGS="--minutes 2": a look)
	$(BIN)/python -m bench.soak $(ARGS)

security: install-dev ## the security report: leaks, attacks, poison, secrets, forgetting, cost (ARGS=--quick: small)
	$(BIN)/python -m bench.security $(ARGS)

faults: install-dev ## break what is around a service, a verdict each, some minutes (ARGS="--only rounds --rounds 500": long)
	$(BIN)/python -m bench.faults $(ARGS)

recording: install-dev ## hold the talk of docs/recordings/chat.cast anew, and record it
	$(BIN)/python -m tests.chat_recording docs/recordings/chat.cast

test-long: install-dev ## tests that kill, restart or set up a service of their own, ten seconds and more each
	$(BIN)/python -m pytest -q -m long $(ARGS)

test-vllm: install-dev ## the main job on a real vLLM (installs it once: 3.5 GB)
	$(BIN)/python -m pytest -q -m vllm tests/vllm $(ARGS)

build/audit/.installed: requirements-audit.lock
	@test -x build/audit/bin/python || $(PYTHON) -m venv build/audit
	@build/audit/bin/python -m pip --disable-pip-version-check --no-input install -q --require-hashes -r $< && touch $@ || \
		echo "audit: pip-audit cannot be installed" >&2

audit: build/audit/.installed ## known faults in the pinned dependencies (needs the network; says so where there is none)
	@PIP_AUDIT=build/audit/bin/pip-audit .ci/audit

lock: ## resolve the locks again (needs uv)
	uv pip compile -q --generate-hashes --no-emit-index-url --no-header -p 3.11 pyproject.toml -o requirements.lock
	uv pip compile -q --generate-hashes --no-emit-index-url --no-header -p 3.11 --extra dev pyproject.toml -o requirements-dev.lock
	uv pip compile -q --generate-hashes --no-emit-index-url --no-header -p 3.11 requirements-audit.in -o requirements-audit.lock

image: ## build the container image (DOCKER=podman for another builder)
	$(DOCKER) build $(if $(filter docker,$(DOCKER)),,--format docker) -t memory-proxy .

clean: ## remove what was built, not your data
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
