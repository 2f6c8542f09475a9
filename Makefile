# make demo        the three dump families from raw files to a trained step, on the bundled sample (examples/demo.sh)
# make bench       beside floors and peers, which it installs;  make bench-loader: the loader's;  make bench-peers: only the environment of the peers
# make test        the tests;  make test-full: with the long counts, report in docs/test-report.txt;  make lint: style, types, import contracts
#
# Each makes the environment first, when it is absent or older than the files that describe it.
# Choices:  make demo PIP_ARGS='--extra-index-url https://download.pytorch.org/whl/cpu'   another torch build (see README)
#           make test PYTHON=python3.12 VENV=/elsewhere/venv WORKERS=4 ARGS='-k split'

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV ?= .venv
WORKERS ?= 2
PIP_ARGS ?=
ARGS ?=

STAMP := $(VENV)/.made-by-make
BIN := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

.PHONY: env demo test test-full test-oldest lint bench bench-peers bench-loader clean
.DELETE_ON_ERROR:

env: $(STAMP)

$(STAMP): setup.cfg pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "no python3.11 or python3 on PATH; name one with PYTHON=..." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' \
		|| { echo "$(PYTHON) is older than 3.10; name a newer one with PYTHON=..." >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(PIP_ARGS) -c constraints.txt -e '.[train,turbo,web,mat,remote,dev]'
	@touch $@

demo: $(STAMP)
	PATH="$(abspath $(BIN)):$$PATH" sh examples/demo.sh

test: $(STAMP)
	$(PYTEST) -m 'not full' $(ARGS)

test-full: $(STAMP)
	$(BIN)/python tools/test_report.py -n $(WORKERS) --dist worksteal --timeout 3600 $(ARGS)

# The oldest libraries that setup.cfg allows, without torch: the floors that prepare data.
OLDEST := $(VENV)-oldest
BASE_TESTS := tests/contract tests/media tests/prepare tests/records tests/sequence tests/store tests/text
$(OLDEST)/.made-by-make: setup.cfg constraints-oldest.txt
	test -x $(OLDEST)/bin/python || $(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check $(PIP_ARGS) -c constraints-oldest.txt -e '.[web,mat]' \
		hypothesis jinja2 jsonschema pytest pytest-timeout pytest-xdist
	@touch $@

test-oldest: $(OLDEST)/.made-by-make
	$(OLDEST)/bin/python -m pytest -n $(WORKERS) --dist worksteal -m 'not full' $(wildcard $(BASE_TESTS)) $(ARGS)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# What is measured beside ours and cannot live in one environment with it (docs/decisions/0019-peers.md).
PEERS := $(VENV)-peers
$(PEERS)/.made-by-make: constraints.txt benchmarks/requirements-peers.txt
	test -x $(PEERS)/bin/python || $(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check $(PIP_ARGS) -c constraints.txt torch
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check $(PIP_ARGS) --no-deps -r benchmarks/requirements-peers.txt
	@touch $@

bench-peers: $(PEERS)/.made-by-make

bench: $(STAMP)
	-$(MAKE) bench-peers
	$(BIN)/python benchmarks/bench_slice.py $(ARGS)
	$(BIN)/python benchmarks/bench_ingest.py --peers $(PEERS) $(ARGS)

bench-loader: $(STAMP)
	-$(MAKE) bench-peers
	$(BIN)/python benchmarks/bench_loader.py --peers $(PEERS) $(ARGS)

clean:
	rm -rf demo build .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
