# `make run` and `make test` are all that a fresh clone needs: Python 3.11+ and Java 17+.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
BIN := .venv/bin
# One stamp per content of what is installed, so that a changed lock is noticed and an interrupted
# installation is done again.
STAMP := .venv/.installed-$(shell cat requirements.lock pyproject.toml | sha256sum | cut -c1-16)
DOCS_STAMP := .venv/.docs-$(shell sha256sum < requirements-docs.lock | cut -c1-16)
PIP := $(BIN)/python -m pip install --disable-pip-version-check
# Two at a time: a test with brokers of its own keeps a core busy.
PYTEST := $(BIN)/pytest -n 2 --dist worksteal

# What the compiled modules are checked with: what reaches them in memory, and some real brokers.
COMPILED_TESTS := tests/unit tests/app tests/contract tests/integration/test_bad_input_json.py tests/integration/test_suppression_faults.py \
  tests/integration/test_lanes_chaos.py tests/integration/test_lanes_refusals.py
CC ?= cc
NATIVE_TESTS := tests/unit/test_scanner.py tests/unit/test_records.py tests/unit/test_resp.py tests/unit/test_reply.py
# Python itself is not built with the sanitizers: their library comes first, and leaks are counted by the tests.
SANITIZED = EXPECT_COMPILED=1 PYTHONMALLOC=malloc ASAN_OPTIONS=detect_leaks=0 LD_PRELOAD="$$($(CC) -print-file-name=libasan.so) $$($(CC) -print-file-name=libubsan.so)" \
  PYTHONPATH=build/sanitize:spark:tests:loadtest

.PHONY: help setup run test test-full test-compiled native-sanitize check lint bench compiled incident-a docs

help: ## say what there is
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

setup: ## install everything into .venv and .cache
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo 'setup: Headgate needs Python 3.11 or newer (Debian: apt-get install python3), or PYTHON=/path/to/it' >&2; exit 1; }
	@$(PYTHON) gateway/headgate/devstack/java.py
	@test -e $(STAMP) || $(MAKE) --no-print-directory $(STAMP)
	@test -e $(DOCS_STAMP) || $(MAKE) --no-print-directory $(DOCS_STAMP)
	@$(BIN)/python -m headgate.devstack
	@$(BIN)/python -m headgate_spark.connector

$(STAMP):
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear .venv \
	  || { echo 'setup: no venv module (Debian: apt-get install python3-venv)' >&2; exit 1; }
	# The build backend comes first and from the lock too: a source package (pyspark) would
	# otherwise be built with whatever version is newest.
	awk '/^[a-zA-Z0-9]/ { wanted = /^setuptools==/ } wanted' requirements.lock > .venv/build.lock
	$(PIP) --require-hashes -r .venv/build.lock
	$(PIP) --require-hashes --no-build-isolation -r requirements.lock
	$(PIP) --no-deps --no-build-isolation --editable .
	@rm -f .venv/.installed-* && touch $@

$(DOCS_STAMP): $(STAMP)
	$(PIP) --require-hashes -r requirements-docs.lock
	@rm -f .venv/.docs-* && touch $@

run: setup ## start Kafka, Redis and the gateway with sample traffic
	@$(BIN)/headgate dev --demo

test: setup lint ## every kind of test, scenarios scaled down
	$(PYTEST) -m "not full" $(ARGS)
	@if command -v $(CC) >/dev/null; then $(MAKE) --no-print-directory test-compiled; \
	  else echo 'test: no C compiler (Debian: apt-get install gcc libc6-dev): the compiled modules were not tested'; fi

test-full: setup lint ## the full figures of the issues
	$(PYTEST) --timeout 3600 $(ARGS)

compiled: build/compiled/.done ## the hot path as C extensions in build/compiled (needs a C compiler)

build/compiled/.done: setup.py pyproject.toml $(shell find gateway -name '*.py' -o -name '*.lua' -o -name '*.[ch]' -o -name '*.pyi') | setup
	rm -rf build/compiled build/mypyc build/lib* build/temp* build/bdist*
	HEADGATE_COMPILE=1 $(PIP) --quiet --no-deps --no-build-isolation --target build/compiled .
	@touch $@

test-compiled: compiled ## the tests in memory, on the compiled modules
	EXPECT_COMPILED=1 PYTHONPATH=build/compiled $(PYTEST) -o "pythonpath=build/compiled spark tests loadtest" -m "not full" $(COMPILED_TESTS)

native-sanitize: setup ## the C code with sanitizers: its tests, then random bodies for FUZZ_S seconds
	rm -rf build/sanitize
	HEADGATE_COMPILE=c CFLAGS="-g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all" \
	  $(BIN)/python setup.py --quiet build_ext --force --build-lib build/sanitize --build-temp build/sanitize/objects
	cp -a gateway/headgate/. build/sanitize/headgate/
	$(SANITIZED) $(BIN)/python -m pytest -q -p no:xdist --timeout 600 -o "pythonpath=build/sanitize spark tests loadtest" $(NATIVE_TESTS)
	$(SANITIZED) $(BIN)/python tests/unit/test_scanner.py $(or $(FUZZ_S),30)

check: setup lint ## format, lint, types and unit tests: under a minute
	$(PYTEST) tests/unit $(ARGS)

lint:
	$(BIN)/ruff format --check .
	$(BIN)/ruff check --no-cache .
	$(BIN)/mypy

docs: setup ## write what the documents take from the code, then the site to build/docs
	$(BIN)/python docs/generate.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

bench: compiled ## speed and memory against the yardstick
	PYTHONPATH=build/compiled $(BIN)/python loadtest/run.py $(or $(ARGS),pairs)

incident-a: setup ## a thousand saves of one deal with every setting: a table of what is published
	$(BIN)/python loadtest/incident.py $(ARGS)
