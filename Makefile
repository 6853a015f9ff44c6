# Shortcuts for developers. `make test` is what a change has to pass; `.ci/run` is all of it.
VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin

.PHONY: help venv test lint notebooks bench bench-overhead long clean

help:
	@echo "make test       Python and Rust tests"
	@echo "make lint       rustfmt, clippy with and without Python, ruff, mypy"
	@echo "make notebooks  run every notebook in full"
	@echo "make bench      what the simulator itself costs: floods, the calendar alone; expedited grace periods; the peers"
	@echo "make bench-overhead"
	@echo "                what driving a flood on real threads from Python costs, beside Rust"
	@echo "make long       20,000 random machines, 20,000 latch floods, a minute of each torture scenario, notebooks and"
	@echo "                benches in full"

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

venv: $(BIN)/python
	$(BIN)/pip install --quiet '.[test]' ruff

test: venv
	$(BIN)/python -m pytest
	cargo test

lint: venv
	cargo fmt --check
	cargo clippy --all-targets -- -D warnings
	PYO3_PYTHON=$(abspath $(BIN)/python) cargo clippy --all-targets --features python -- -D warnings
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

notebooks: venv
	TREERCU_FAST= $(BIN)/python -m pytest -m notebook

bench:
	cargo bench --bench flood
	cargo bench --bench calendar
	cargo bench --bench expedited
	cargo bench --bench peers

bench-overhead: venv
	$(BIN)/python benchmarks/overhead.py

long: notebooks
	cargo test --release -- --include-ignored
	TREERCU_NUM=20000 cargo test --release --test random_machines -- --nocapture
	TREERCU_LATCH_RUNS=20000 cargo test --release --test mechanisms -- --nocapture latch
	$(MAKE) bench

clean:
	rm -rf $(VENV) target dist
