# `make run` and `make test` are all that a fresh clone needs: Python 3.11+ and Java 17+.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
BIN := .venv/bin
# One stamp per content of what is installed, so that a changed lock is noticed and an interrupted
# installation is done again.
stamp = .venv/.$(1)-$(shell cat $(2) pyproject.toml | sha256sum | cut -c1-16)
RUN_STAMP := $(call stamp,run,requirements.lock)
DEV_STAMP := $(call stamp,dev,requirements-dev.lock)
DOCS_STAMP := $(call stamp,docs,requirements-docs.lock)
PIP := $(BIN)/python -m pip install --disable-pip-version-check
# How many tests at a time, on two cores: one may wait while the others keep them busy.
JOBS ?= 3
# The many processes that tests start read bytecode, where a shell would have them compile.
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/pytest -n $(JOBS) --dist worksteal

# What tests import besides the gateway (pyproject.toml has the same list).
BESIDE := spark tests loadtest docs
# What the compiled modules are checked with: what reaches them in memory, and some real brokers.
COMPILED_TESTS := tests/unit tests/app tests/contract tests/integration/edge/test_bad_input_json.py tests/integration/suppression/test_suppression_faults.py \
  tests/integration/backends/kafka/producing/test_lanes_chaos.py tests/integration/backends/kafka/producing/test_lanes_refusals.py
CC ?= cc
NATIVE_TESTS := tests/unit/native/test_scanner.py tests/unit/native/test_records.py tests/unit/native/test_resp.py tests/unit/core/http/test_reply.py
# Python itself is not built with the sanitizers: their library comes first, and leaks are counted by the tests.
SANITIZED = EXPECT_COMPILED=1 PYTHONMALLOC=malloc ASAN_OPTIONS=detect_leaks=0 LD_PRELOAD="$$($(CC) -print-file-name=libasan.so) $$($(CC) -print-file-name=libubsan.so)" \
  PYTHONPATH=build/sanitize:spark:tests:loadtest:docs

.NOTPARALLEL:  # one installation at a time
.PHONY: help machine setup setup-run run test test-full test-compiled native-sanitize check lint bench compiled incident-a docs

help: ## say what there is
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

machine:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo 'setup: Headgate needs Python 3.11 or newer (Debian: apt-get install python3), or PYTHON=/path/to/it' >&2; exit 1; }
	@$(PYTHON) gateway/headgate/devstack/java.py

# What runs: the gateway, the local stack and the Spark jobs; no tools of tests or documents.
$(RUN_STAMP): | machine
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear .venv \
	  || { echo 'setup: no venv module (Debian: apt-get install python3-venv)' >&2; exit 1; }
	# The build backend comes first and from the lock too: a source package (pyspark) would
	# otherwise be built with whatever version is newest.
	awk '/^[a-zA-Z0-9]/ { wanted = /^setuptools==/ } wanted' requirements.lock > .venv/build.lock
	$(PIP) --require-hashes -r .venv/build.lock
	$(PIP) --require-hashes --no-build-isolation -r requirements.lock
	$(PIP) --no-deps --no-build-isolation --editable .
	@rm -f .venv/.run-* .venv/.installed-* && touch $@

$(DEV_STAMP): | $(RUN_STAMP)
	$(PIP) --require-hashes --no-build-isolation -r requirements-dev.lock
	@rm -f .venv/.dev-* && touch $@

$(DOCS_STAMP): | $(RUN_STAMP)
	$(PIP) --require-hashes -r requirements-docs.lock
	@rm -f .venv/.docs-* && touch $@

setup-run: machine $(RUN_STAMP) ## install what running needs into .venv and .cache
	@$(BIN)/python -m headgate.devstack

setup: setup-run $(DEV_STAMP) $(DOCS_STAMP) ## install what tests and documents need, too
	@$(BIN)/python -m headgate_spark.session.connector

run: setup-run ## start Kafka, Redis and the gateway with sample traffic
	@$(BIN)/headgate dev --demo

test: setup ## every kind of test, scenarios scaled down
	@# side by side: each of the two reads all of the types, on a core of its own
	@trap 'kill $$(jobs -p) 2>/dev/null || :' EXIT; \
	  if command -v $(CC) >/dev/null; then $(MAKE) --no-print-directory compiled & fi; \
	  $(MAKE) --no-print-directory lint; wait
	$(PYTEST) -m "not full" $(ARGS)
	@if command -v $(CC) >/dev/null; then $(MAKE) --no-print-directory test-compiled; \
	  else echo 'test: no C compiler (Debian: apt-get install gcc libc6-dev): the compiled modules were not tested'; fi

test-full: setup lint ## scenarios at full size; their figures
	$(PYTEST) --timeout 3600 --hypothesis-profile full $(ARGS)

compiled: build/compiled/.done ## the hot path as C extensions in build/compiled (needs a C compiler)

build/compiled/.done: setup.py pyproject.toml $(shell find gateway -name '*.py' -o -name '*.lua' -o -name '*.[ch]' -o -name '*.pyi') | setup
	rm -rf build/compiled build/mypyc build/lib* build/temp* build/bdist*
	HEADGATE_COMPILE=1 $(PIP) --quiet --no-deps --no-build-isolation --target build/compiled .
	@touch $@

test-compiled: compiled ## the tests in memory, on the compiled modules
	EXPECT_COMPILED=1 PYTHONPATH=build/compiled $(PYTEST) -o "pythonpath=build/compiled $(BESIDE)" -m "not full" $(COMPILED_TESTS)

native-sanitize: setup ## the C code with sanitizers: its tests, then random bodies for FUZZ_S seconds
	rm -rf build/sanitize
	HEADGATE_COMPILE=c CFLAGS="-g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all" \
	  $(BIN)/python setup.py --quiet build_ext --force --build-lib build/sanitize --build-temp build/sanitize/objects
	cp -a gateway/headgate/. build/sanitize/headgate/
	$(SANITIZED) $(BIN)/python -m pytest -q -p no:xdist --timeout 600 -o "pythonpath=build/sanitize $(BESIDE)" $(NATIVE_TESTS)
	$(SANITIZED) $(BIN)/python tests/unit/native/test_scanner.py $(or $(FUZZ_S),30)

check: setup lint ## format, lint, types and unit tests: under a minute
	$(PYTEST) -m "not full" tests/unit $(ARGS)

lint:
	$(BIN)/ruff format --check .
	$(BIN)/ruff check --no-cache .
	$(BIN)/mypy

docs: $(DOCS_STAMP) ## write what the documents take from the code, then the site to build/docs
	$(BIN)/python docs/generate.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

bench: compiled ## speed and memory against the yardstick
	PYTHONPATH=build/compiled $(BIN)/python loadtest/run.py $(or $(ARGS),pairs)

incident-a: setup ## a thousand saves of one deal with every setting: a table of what is published
	$(BIN)/python loadtest/incident.py $(ARGS)
