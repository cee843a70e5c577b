# `make run` and `make test` are all that a fresh clone needs: Python 3.11+ and Java 17+. They compile what
# is slow in Python; HEADGATE_NATIVE=0 leaves that out (setup.py).
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
BUILD_STAMP := $(call stamp,build,requirements-build.lock)
SUPPLY_STAMP := $(call stamp,supply,requirements-supply.lock)
DEPLOY_STAMP := $(call stamp,deploy,requirements-deploy.lock)
DEPLOY_GO_STAMP := $(call stamp,deploygo,Makefile)
VALE := .venv/vale/bin/vale
RELEASE_STAMP := $(call stamp,release,requirements-release.lock)
PIP := $(BIN)/python -m pip --disable-pip-version-check
# Runs a command quietly: STEP NAME TITLE COMMAND. Its output goes to build/logs/NAME.log; VERBOSE=1 shows it.
STEP = @VERBOSE="$(VERBOSE)" PLAIN="$(PLAIN)" $(PYTHON) .ci/step.py
# What the package is built from. README.md is in it, too, but nothing reads it there.
SOURCES := $(shell find gateway spark setup.py pyproject.toml -type f ! -name '*.pyc' ! -path '*.egg-info/*' \
  | sort | xargs sha256sum | sha256sum | cut -c1-16)-$(or $(HEADGATE_NATIVE),any)
WHEEL := build/wheel/.$(SOURCES)
INSTALLED := .venv/.installed-$(SOURCES)
# Tests at a time. With servers they wait for half of their time: three on each core, if there are 1.5 GB for each of them.
# In memory they hardly wait, and each worker collects all of them first: one more than there are cores.
CORES := $(shell nproc 2>/dev/null || echo 2)
JOBS ?= $(shell awk -v most=$$((3 * $(CORES))) '/^MemAvailable/ { n = int($$2 / 1500000); print (n < 2 ? 2 : n < most ? n : most) }' \
  /proc/meminfo 2>/dev/null || echo 4)
UNIT_JOBS ?= $(shell expr $(CORES) + 1)
# The many processes that tests start read bytecode, where a shell would have them compile.
PYTEST = PYTHONDONTWRITEBYTECODE= $(BIN)/pytest -n $(JOBS) --dist worksteal
UNIT_PYTEST = PYTHONDONTWRITEBYTECODE= $(BIN)/pytest -n $(UNIT_JOBS) --dist worksteal

# What tests import besides the compiled gateway (pyproject.toml has the list with its sources).
BESIDE := spark clients/python/src tests loadtest docs .
# What the compiled modules are checked with: the tests of every package that has one (tests/unit/native/test_compiled.py), the paths
# that events take, stores, and real brokers. The other tests pass no compiled module, or pass it in the same ways.
COMPILED_UNITS := audits formats http idempotency ingest kafka model native redis spool suppression
COMPILED_TESTS := $(COMPILED_UNITS:%=tests/unit/%) $(addprefix tests/unit/metrics/,test_metrics.py test_sketches.py test_stats_meter.py) \
  tests/app/http tests/app/ingest tests/app/spool/test_spool.py tests/app/spool/test_spool_edges.py tests/app/spool/test_spool_histories.py \
  tests/contract tests/integration/http/test_bad_input_json.py tests/integration/suppression/test_suppression_faults.py \
  tests/integration/kafka/test_lanes_chaos.py tests/integration/kafka/test_lanes_refusals.py
# What a newer aiohttp could change: the applications and connections on real sockets.
AIOHTTP_TESTS := tests/app tests/unit/http tests/integration/http
CC ?= cc
NATIVE_TESTS := tests/unit/native/test_scanner.py tests/unit/native/test_canonical_forms.py tests/unit/native/test_heads.py tests/unit/http/test_requests_fuzz.py tests/unit/native/test_records.py tests/unit/native/test_resp.py tests/unit/model/test_reply.py tests/unit/native/test_digests.py tests/unit/native/test_murmur2.py tests/unit/native/test_depth.py
# Python itself is not built with the sanitizers: their library comes first, and leaks are counted by the tests.
SANITIZED = EXPECT_COMPILED=1 PYTHONMALLOC=malloc ASAN_OPTIONS=detect_leaks=0 LD_PRELOAD="$$($(CC) -print-file-name=libasan.so) $$($(CC) -print-file-name=libubsan.so)" \
  PYTHONPATH=build/sanitize:$(FUZZ_PATH)
SANITIZED_BUILD := build/sanitize/.$(SOURCES)
FUZZ_PATH := spark:tests:loadtest:docs
FUZZED = $(if $(filter 0,$(SANITIZE)),PYTHONPATH=$(FUZZ_PATH),$(SANITIZED))
FUZZ_ARGS = --jobs $(JOBS) $(if $(FUZZ_N),--count $(FUZZ_N),--seconds $(or $(FUZZ_S),30)) $(if $(FUZZ_SEED),--seed $(FUZZ_SEED))

.NOTPARALLEL:  # one installation at a time
.PHONY: help machine setup setup-run run shop test test-full test-aiohttp test-compiled native-sanitize fuzz check lint bench bench-gate wheel wheel-aarch64 incident-a docs docs-lint screenshots sbom audit deploy-linters deploy-tools manifests version urls count dist client-packages release

help: ## say what there is
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

machine:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo 'setup: Headgate needs Python 3.11 or newer (Debian: apt-get install python3), or PYTHON=/path/to/it' >&2; exit 1; }
	@$(PYTHON) gateway/headgate/devstack/java.py

# What runs: the gateway, the local stack and the Spark jobs; no tools of tests or documents.
$(RUN_STAMP): | machine
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || { rm -rf .venv/bin .venv/lib .venv/lib64; $(PYTHON) -m venv .venv; } \
	  || { echo 'setup: no venv module (Debian: apt-get install python3-venv)' >&2; exit 1; }
	@# The build backend comes first and from the lock too: a source package (pyspark) would
	@# otherwise be built with whatever version is newest.
	@awk '/^[a-zA-Z0-9]/ { wanted = /^setuptools==/ } wanted' requirements.lock > .venv/build.lock
	$(STEP) setuptools 'installing setuptools into .venv' $(PIP) install --require-hashes -r .venv/build.lock
	$(STEP) run 'installing {packages} into .venv' $(PIP) install --require-hashes --no-build-isolation -r requirements.lock
	@rm -f .venv/.run-* && touch $@

# What compiles the hot path is in a folder of its own: nothing that runs needs it.
$(BUILD_STAMP): | $(RUN_STAMP)
	@rm -rf .venv/build build/mypyc build/temp*
	$(STEP) compiler 'installing {packages} that compile the hot path' $(PIP) install --require-hashes --target .venv/build -r requirements-build.lock
	@rm -f .venv/.build-* && touch $@

# A machine without a C compiler gets one for as long as it takes: it unpacks to 400 MB.
$(WHEEL): $(RUN_STAMP) $(if $(filter 0 c,$(HEADGATE_NATIVE)),,$(BUILD_STAMP))
	@rm -rf build/lib* build/bdist* build/wheel
	@zig=$$(mktemp -d) && trap 'rm -rf "$$zig"' EXIT; \
	  wanted=$$($(BIN)/python -c 'from setuptools import build_meta; print(build_meta.get_requires_for_build_wheel())' \
	    2> >(sed -n '/^headgate:/p' >&2) | tail -n 1); \
	  if [[ $$wanted = *ziglang* ]]; then \
	    $(STEP:@%=%) zig 'downloading a C compiler (90 MB); this machine has none (Debian: apt-get install gcc libc6-dev)' \
	      $(PIP) install --require-hashes --target "$$zig" -r requirements-zig.lock; \
	  fi; \
	  title='compiling the hot path (a minute or two on idle cores; HEADGATE_NATIVE=0 skips it)'; \
	  if [[ "$(HEADGATE_NATIVE)" = 0 ]]; then title='building the package without compiling it'; fi; \
	  $(STEP:@%=%) wheel "$$title" env PYTHONPATH="$(CURDIR)/.venv/build:$$zig" $(PIP) wheel --verbose --no-deps --no-build-isolation --wheel-dir build/wheel .
	@# without native code that was wanted the next make tries again: what was missing may be there
	@if [[ -z "$(HEADGATE_NATIVE)" && build/wheel/$$(ls build/wheel) = *-any.whl ]]; then \
	  echo 'setup: nothing was compiled, so the gateway runs half as fast; build/logs/wheel.log has the reason' >&2; \
	else touch $@; fi

$(INSTALLED): $(WHEEL)
	$(STEP) install 'installing the package into .venv' $(PIP) install --no-deps --force-reinstall build/wheel/*.whl
	@rm -f .venv/.installed-* && touch $@

$(DEV_STAMP): | $(RUN_STAMP)
	$(STEP) dev 'installing {packages} for the tests into .venv' $(PIP) install --require-hashes --no-build-isolation -r requirements-dev.lock
	@rm -f .venv/.dev-* && touch $@

# The pages have an environment of their own: what the gateway imports, and Zensical. They need neither Java nor PySpark.
$(DOCS_STAMP):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo 'docs: needs Python 3.11 or newer' >&2; exit 1; }
	@$(PYTHON) -m venv --clear .venv/docs
	$(STEP) docs 'installing {packages} for the pages into .venv/docs' \
	  .venv/docs/bin/python -m pip --disable-pip-version-check install --require-hashes -r requirements-docs.lock
	@rm -f .venv/.docs-* && touch $@

setup-run: machine $(INSTALLED) ## install what running needs into .venv and .cache
	@$(BIN)/python -m headgate.devstack.servers

setup: setup-run $(DEV_STAMP) $(DOCS_STAMP) ## install what tests and documents need, too
	@$(BIN)/python -m headgate_spark.session.session
	@PYTHONPATH=tests $(BIN)/python -m support.process.spark_start

run: setup-run ## start Kafka, Redis and the gateway with sample traffic
	@$(BIN)/headgate dev --demo

shop: setup-run $(DEV_STAMP) ## start the sample shop of docs/examples/shop.md; ARGS=--fresh with an empty one
	$(STEP) client 'installing the Python client into .venv' $(PIP) install --no-deps --no-build-isolation ./clients/python
	@exec $(BIN)/python -m examples.shop $(ARGS)

test: machine $(DEV_STAMP) ## every kind of test, scenarios scaled down
	@# side by side: each of the two reads all of the types, on a core of its own
	@trap 'kill $$(jobs -p) 2>/dev/null || :' EXIT; \
	  $(MAKE) --no-print-directory setup PLAIN=1 & setup=$$!; \
	  $(MAKE) --no-print-directory lint; wait $$setup
	$(PYTEST) -m "not full" $(ARGS)
	@if $(BIN)/headgate --version | grep -q 'native code: c, hot path: mypyc'; then $(MAKE) --no-print-directory test-compiled; \
	  else echo 'test: the compiled modules were not tested, there are none'; fi

test-full: setup lint ## scenarios at full size; their figures
	$(PYTEST) --timeout 3600 --hypothesis-profile full $(ARGS)
	@$(MAKE) --no-print-directory test-aiohttp

test-aiohttp: setup ## the HTTP suites with the newest aiohttp that pyproject.toml allows, if another one is installed
	@$(BIN)/python .ci/newest_aiohttp.py env PYTHONDONTWRITEBYTECODE= $(BIN)/pytest -n $(JOBS) --dist worksteal -m "not full" $(AIOHTTP_TESTS)

test-compiled: setup ## behaviour of the hot path, on the compiled modules
	EXPECT_COMPILED=1 PYTHONPATH= $(PYTEST) -o "pythonpath=$(BESIDE)" -m "not full" --ignore-glob '*/test_model_*' $(COMPILED_TESTS)

wheel: $(WHEEL) ## what setup-run installs, in dist
	@mkdir -p dist && cp build/wheel/*.whl dist/ && ls dist/*.whl

# Tools that look at what is installed have an environment of their own: they are no part of it.
$(SUPPLY_STAMP): | $(RUN_STAMP)
	@$(PYTHON) -m venv --clear .venv/supply
	$(STEP) supply 'installing {packages} for the audit into .venv/supply' \
	  .venv/supply/bin/python -m pip --disable-pip-version-check install --require-hashes -r requirements-supply.lock
	@rm -f .venv/.supply-* && touch $@

$(RELEASE_STAMP): | $(RUN_STAMP)
	@$(PYTHON) -m venv --clear .venv/release
	$(STEP) release 'installing {packages} for a release into .venv/release' \
	  .venv/release/bin/python -m pip --disable-pip-version-check install --require-hashes -r requirements-release.lock
	@rm -f .venv/.release-* && touch $@

# As PyPI takes them: a wheel for each promised Python, and for 3.14 where it is installed. Built apart from .venv, from what is pinned.
PYTHONS ?= 3.11 3.12 3.13 $(if $(shell command -v python3.14),3.14)
UV_BUILD = UV_PYTHON_DOWNLOADS=never .venv/release/bin/uv build --quiet --require-hashes --build-constraints requirements-dev.lock
dist: $(RELEASE_STAMP) sbom ## what a release consists of, in dist: archives of the sources, wheels for PYTHONS, SBOM, sums
	@rm -rf build/wheels
	$(UV_BUILD) --sdist --out-dir dist .
	@for one in $(PYTHONS); do echo "dist: a wheel for Python $$one, compiled: a minute"; $(UV_BUILD) --wheel --python $$one --out-dir build/wheels .; done
	PATH="$(CURDIR)/.venv/release/bin:$$PATH" auditwheel repair --wheel-dir dist build/wheels/*.whl
	$(UV_BUILD) --out-dir dist clients/python
	@if command -v npm >/dev/null; then cd clients/js && npm pack --silent --pack-destination ../../dist; fi
	@cd dist && rm -f SHA256SUMS && sha256sum * > SHA256SUMS && cat SHA256SUMS

# An environment is not needed for them: seconds, without the gateway.
CLIENT_PYTHON = $(if $(wildcard $(BIN)/python),$(BIN)/python,$(PYTHON))
client-packages: ## build the packages of both clients alone, to dist: seconds; that for JavaScript needs npm
	@mkdir -p dist
	@$(CLIENT_PYTHON) -m pip --disable-pip-version-check install --quiet --upgrade --target build/client-tools 'setuptools>=77'
	@rm -rf clients/python/build # a wheel would take what is left in it
	@PYTHONPATH=$(CURDIR)/build/client-tools $(CLIENT_PYTHON) -c 'import os; from setuptools.build_meta import build_sdist; \
	  os.chdir("clients/python"); build_sdist("../../dist")' >/dev/null
	@$(CLIENT_PYTHON) -m pip --disable-pip-version-check wheel --quiet --no-deps --wheel-dir dist ./clients/python
	@if command -v npm >/dev/null; then cd clients/js && npm pack --silent --pack-destination ../../dist >/dev/null; \
	  else echo 'client-packages: without the package for JavaScript, which needs npm' >&2; fi
	@ls dist/headgate_client-* dist/headgate-client-*.tgz 2>/dev/null

# Compiled by zig for another kind of machine, and not run here: zig's target decides the least C library (2.17), SETUPTOOLS_EXT_SUFFIX
# the names of the modules. Python's own headers are those of this machine; the sizes of C's types are the same on both.
CROSS_PYTHON = $(shell $(BIN)/python -c 'import sys; print("%d%d" % sys.version_info[:2])')
wheel-aarch64: $(BUILD_STAMP) ## cross-compile a wheel for aarch64 with zig, for the Python of .venv, in dist (several minutes)
	@rm -rf build/lib* build/bdist* build/temp* build/aarch64
	$(STEP) zig 'downloading zig (90 MB)' $(PIP) install --require-hashes --target build/aarch64/zig -r requirements-zig.lock
	$(STEP) aarch64 'compiling for aarch64 (several minutes)' env PYTHONPATH="$(CURDIR)/.venv/build:$(CURDIR)/build/aarch64/zig" HEADGATE_NATIVE=1 _PYTHON_HOST_PLATFORM=linux-aarch64 \
	  SETUPTOOLS_EXT_SUFFIX=.cpython-$(CROSS_PYTHON)-aarch64-linux-gnu.so \
	  CC="$(CURDIR)/build/aarch64/zig/ziglang/zig cc -target aarch64-linux-gnu.2.17" \
	  ZIG_GLOBAL_CACHE_DIR=$(CURDIR)/build/aarch64/cache ZIG_LOCAL_CACHE_DIR=$(CURDIR)/build/aarch64/cache \
	  $(BIN)/python setup.py --quiet bdist_wheel --plat-name manylinux_2_17_aarch64 --dist-dir dist
	@$(BIN)/python .ci/aarch64.py dist/headgate-*-manylinux_2_17_aarch64.whl
	@rm -rf build/lib* build/bdist* build/temp* build/aarch64

version: ## give all that is released one: make version VERSION=1.2.0
	@$(PYTHON) .ci/release.py $(or $(VERSION),$(error which one? make version VERSION=1.2.0))
	@$(MAKE) --no-print-directory docs manifests

count: ## count files, code lines, Protocols and unclear words of the gateway, vague names of jobs and client; ARGS=a folder
	@$(PYTHON) .ci/count.py $(ARGS)

urls: ## name another repository wherever one is named: make urls URL=https://github.com/you/headgate
	@$(PYTHON) .ci/urls.py $(or $(URL),$(error which one? make urls URL=https://github.com/you/headgate))

release: ## is this commit fit for a release? Then what it consists of
	@$(PYTHON) .ci/release.py
	@rm -rf dist && $(MAKE) --no-print-directory dist

sbom: $(RUN_STAMP) $(SUPPLY_STAMP) ## what `make run` installs, as CycloneDX: dist/headgate.cdx.json
	$(BIN)/python .ci/sbom.py .venv/supply/bin/cyclonedx-py $(BIN)/python dist/headgate.cdx.json

audit: $(SUPPLY_STAMP) ## look for known vulnerabilities of what is pinned; ARGS=--required fails where that cannot be done
	$(BIN)/python .ci/audit.py .venv/supply/bin/pip-audit $(ARGS)

# What looks for mistakes in deploy/: packages, which take seconds, and programs that Go builds in minutes. Tests are
# skipped without them.
GO_INSTALL = env GOFLAGS= GOBIN=$(CURDIR)/.venv/deploy/bin go install
$(DEPLOY_STAMP): | $(RUN_STAMP)
	@$(PYTHON) -m venv --clear .venv/deploy
	$(STEP) deploy 'installing {packages} that check deploy/ into .venv/deploy' \
	  .venv/deploy/bin/python -m pip --disable-pip-version-check install --require-hashes -r requirements-deploy.lock
	@.venv/deploy/bin/python .ci/kubernetes_schemas.py .venv/deploy/schemas
	@rm -f .venv/.deploy-* && touch $@

$(DEPLOY_GO_STAMP): $(DEPLOY_STAMP)
	@command -v go >/dev/null || { echo 'deploy-tools: helm, kubeconform and compose-spec need Go 1.21 or newer' >&2; exit 1; }
	$(STEP) helm 'building helm with Go (a minute or more)' $(GO_INSTALL) helm.sh/helm/v3/cmd/helm@v3.22.0
	$(STEP) kubeconform 'building kubeconform with Go (a minute or more)' $(GO_INSTALL) github.com/yannh/kubeconform/cmd/kubeconform@v0.8.0
	$(STEP) compose-spec 'building compose-spec with Go (a minute or more)' $(GO_INSTALL) github.com/compose-spec/compose-go/v2/cmd@v2.16.2
	@mv .venv/deploy/bin/cmd .venv/deploy/bin/compose-spec
	@rm -f .venv/.deploygo-* && touch $@

deploy-linters: $(DEPLOY_STAMP) ## what looks for mistakes in deploy/ and needs no Go: hadolint, Kubernetes' schemas

deploy-tools: $(DEPLOY_GO_STAMP) ## all that looks for mistakes in deploy/: helm, kubeconform, compose-spec, too

# Of the version of Kubernetes nothing is written; a helm that Go has built takes itself for an old one.
manifests: $(DEPLOY_GO_STAMP) ## write deploy/kubernetes/headgate.yaml, from the chart
	.venv/deploy/bin/helm template headgate deploy/helm/headgate --kube-version 1.37 --no-hooks \
	  --values deploy/kubernetes/values.yaml > deploy/kubernetes/headgate.yaml
	@# Helm does not manage these objects, so its labels would be wrong.
	sed -i '/managed-by: Helm$$/d; /helm.sh\/chart: /d; 1e cat deploy/kubernetes/head.txt' deploy/kubernetes/headgate.yaml

# The C with the sanitizers, beside what it is imported with.
$(SANITIZED_BUILD): $(DEV_STAMP)
	rm -rf build/sanitize
	HEADGATE_NATIVE=c CFLAGS="-g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all" \
	  $(BIN)/python setup.py --quiet build_ext --force --build-lib build/sanitize --build-temp build/sanitize/objects
	cp -a gateway/headgate/. build/sanitize/headgate/
	@touch $@

native-sanitize: $(SANITIZED_BUILD) ## the C code with sanitizers: its tests
	$(SANITIZED) $(BIN)/python -m pytest -q -p no:xdist --timeout 600 -o "pythonpath=build/sanitize $(BESIDE)" $(NATIVE_TESTS)

fuzz: JOBS = $(CORES)
fuzz: $(if $(filter 0,$(SANITIZE)),setup,$(SANITIZED_BUILD)) ## search for what C reads otherwise, FUZZ_S seconds or FUZZ_N inputs each; SANITIZE=0, JOBS, FUZZ_SEED
	$(FUZZED) $(BIN)/python tests/unit/http/test_requests_fuzz.py $(FUZZ_ARGS)
	$(FUZZED) $(BIN)/python tests/unit/native/test_scanner.py $(FUZZ_ARGS)

# A quarter of the time of tests/unit, and they change only with the rules and models that they search; make test has them.
SEARCHES := --ignore-glob '*/test_model_*' --ignore-glob '*_simulation.py' --ignore-glob '*_fuzz.py'
check: machine $(DEV_STAMP) lint ## format, lint, types and unit tests without the longest searches: under 40 s
	$(UNIT_PYTEST) -m "not full" $(SEARCHES) tests/unit $(ARGS)

lint:
	$(BIN)/ruff format --check .
	$(BIN)/ruff check --no-cache .
	$(BIN)/mypy

docs: $(DOCS_STAMP) ## write what the documents take from the code, then the site to build/docs
	PYTHONPATH=gateway:spark .venv/docs/bin/python docs/generate.py
	.venv/docs/bin/python docs/site.py

screenshots: setup ## take the pictures of the console in docs/images: runs the sample traffic for four minutes
	$(BIN)/python docs/screenshots.py

# Vale applies the rules of docs/.vale; without Go the tests apply them alone.
$(VALE):
	$(STEP) vale 'building Vale with Go (a minute or more)' env GOFLAGS= GOBIN=$(CURDIR)/.venv/vale/bin go install github.com/vale-cli/vale/v3/cmd/vale@v3.21.0

docs-lint: $(DEV_STAMP) $(if $(shell command -v go),$(VALE)) ## look for the words and sentences that docs/.vale refuses; PAGES=docs/quickstart.md
	PYTHONPATH=tests $(BIN)/python -m support.plain_english $(PAGES)
	@if [[ -x $(VALE) ]]; then set -x; $(VALE) --output=line $(or $(PAGES),$$(PYTHONPATH=tests $(BIN)/python -m support.plain_english --converted)); \
	  else echo 'docs-lint: without Vale, which needs Go 1.25 or newer'; fi

bench: setup ## speed and memory against the yardstick
	$(BIN)/python loadtest/run.py $(or $(ARGS),pairs)

bench-gate: setup ## fail if a row is more than 5 % slower than at the last tag: make bench-gate BASE=COMMIT ARGS=--quick
	$(BIN)/python loadtest/gate.py $(if $(BASE),--base $(BASE)) $(ARGS)

incident-a: setup ## a thousand saves of one deal with every setting: a table of what is published
	$(BIN)/python loadtest/incident.py $(ARGS)
