# Everything runs in .venv, which the first target that needs it makes. Needs Python 3.11 or newer
# and, for compiled parts, a C compiler.

BIN := .venv/bin
FUZZ_SECONDS ?= 300

# With PYTHONDONTWRITEBYTECODE set, each process would compile byocir again: a third of the time
# that short commands take. pip would compile packages on one core, and parts that nothing here
# imports; a package may have files that are no Python of this version.
BYTECODE := $(BIN)/python -m compileall -q src tests benchmarks
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
UNUSED := tests|pip|setuptools|pkg_resources|sqlalchemy|alembic|lexers|transformers
COMPILE := $(BIN)/python -m compileall -qq -j 0 -x "/($(UNUSED))/" src .venv/lib || true

# The first of these names that is new enough; of programs with that name on PATH the fastest, as a
# Python that was built without its profile takes a fifth longer. Set PYTHON to choose another.
PROBE := import ensurepip, sys, timeit; sys.version_info < (3, 11) and sys.exit(1); \
	seconds = timeit.repeat("for i in range(100000): str(i)", number=1, repeat=5); \
	print(f"{min(seconds):.6f}", sys.executable)
PYTHON ?= $(shell for name in python3.11 python3 python3.12 python3.13; do \
	found=$$(IFS=:; for folder in $$PATH; do \
		test -x "$$folder/$$name" && "$$folder/$$name" -c '$(PROBE)' 2>/dev/null; done | sort) && \
	test -n "$$found" && echo "$$found" | head -n 1 | cut -d " " -f 2- && break; done)

.PHONY: help install run test fuzz slow bench replay onnx-score lint format types clean
.DEFAULT_GOAL := help

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' Makefile | sed -E 's/:[^#]*## /\t/' | expand -t 10

.venv/bin/python:
	$(eval PYTHON := $(PYTHON))
	@test -n "$(PYTHON)" || { \
		echo "byocir needs Python 3.11 or newer: install it, or run make PYTHON=/path/to/python3.11"; \
		exit 1; }
	$(PYTHON) -m venv .venv

.venv/test: pyproject.toml | .venv/bin/python
	$(INSTALL) --editable '.[test]'
	@$(COMPILE)
	@touch $@ .venv/run

.venv/dev: .venv/test  # what is installed stays as it is, so tests may run meanwhile
	$(INSTALL) 'byocir[dev]'
	@touch $@

.venv/run: pyproject.toml | .venv/bin/python
	$(INSTALL) --editable '.[ort]'
	@$(COMPILE)
	@touch $@

install: .venv/dev ## make .venv with all that development needs

run: .venv/run ## compile and run the example
	$(BIN)/byocir run examples/digits

test: .venv/test ## run the tests
	$(BYTECODE)
	$(BIN)/python -m pytest -n auto --dist worksteal

fuzz: .venv/dev ## run the random tests on new examples, then the fuzzer, each for FUZZ_SECONDS (300)
	@seed=$${FUZZ_SEED:-$$(date +%s)}; echo "FUZZ_SEED=$$seed"; \
	HYPOTHESIS_PROFILE=fuzz FUZZ_SECONDS=$(FUZZ_SECONDS) FUZZ_SEED=$$seed \
		$(BIN)/python -m pytest -n auto -m hypothesis && \
	PYTHONPATH=tests/programs $(BIN)/python -m onnx_fuzz --seed $$seed --graphs 1000000 --seconds $(FUZZ_SECONDS) \
		--level all --threads 1 --threads 2

slow: .venv/dev ## run the tests that take minutes: onnx's cases as C for each processor
	BYOCIR_CFLAGS=-O1 $(BIN)/python -m pytest -n auto -m slow

bench: .venv/dev ## print benchmarks, each beside a rival in the same run
	$(BIN)/python benchmarks/digits.py
	$(BIN)/python benchmarks/host.py
	$(BIN)/python benchmarks/host_parts.py
	$(BIN)/python benchmarks/dnnl.py
	$(BIN)/python benchmarks/vta_sim.py
	$(BIN)/python benchmarks/sanitizer.py
	$(BIN)/python benchmarks/partition.py --nodes 4000 --runs 1
	$(BIN)/python benchmarks/compile.py
	$(BIN)/python benchmarks/open_shapes.py
	$(BIN)/python benchmarks/zero_points.py
	$(BIN)/python benchmarks/stem.py
	$(BIN)/python benchmarks/vta_layers.py
	$(BIN)/python benchmarks/vta_described.py --divisor 2

replay: .venv/dev ## print what a change does to all generated code, beside commit BASE (the last one)
	$(BIN)/python benchmarks/replay.py $(if $(BASE),--base $(BASE)) $(REPLAY)

onnx-score: .venv/dev ## print how many of onnx's own backend tests pass, evaluated and as C, or SCORE='--host c --target dnnl'
	$(BIN)/python tests/programs/onnx_suite.py $(SCORE)

lint: .venv/dev ## check style and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: .venv/dev ## format all files
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

types: .venv/dev ## check types
	$(BIN)/pyrefly check

clean: ## remove .venv and all that was generated
	rm -rf .venv build dist src/*.egg-info .pytest_cache .ruff_cache .hypothesis
	find src tests examples -name __pycache__ -prune -exec rm -rf {} +
