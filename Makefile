# Shortcuts for developers. `make test` is what a change has to pass; `.ci/run` is all of it.
VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin

.PHONY: help venv test lint notebooks bench bench-overhead zoo models tsan long clean

help:
	@echo "make test       Python and Rust tests"
	@echo "make zoo        the bug zoo: the engine with one step done wrongly, which its tests have to notice"
	@echo "make models     model checks of the host world: loom and shuttle, in builds of their own"
	@echo "make tsan       the host world's tests under ThreadSanitizer (see tests/README.md for what it cannot see)"
	@echo "make lint       rustfmt, clippy with and without Python, ruff, mypy"
	@echo "make notebooks  run every notebook in full"
	@echo "make bench      what the simulator itself costs: floods, the calendar alone; expedited grace periods; the peers"
	@echo "make bench-overhead"
	@echo "                what driving a flood on real threads from Python costs, beside Rust"
	@echo "make long       20,000 random machines, 20,000 latch floods, a minute of each torture scenario, model checks,"
	@echo "                notebooks and benches in full"

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
	cargo clippy --all-targets --features bug-zoo -- -D warnings
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

zoo:
	cargo test --features bug-zoo --test bug_zoo

# The models' builds have their own directories, so that normal builds are not thrown away.
models:
	CARGO_TARGET_DIR=target/loom RUSTFLAGS="--cfg treercu_loom" cargo test --release --test loom -- --nocapture
	CARGO_TARGET_DIR=target/shuttle RUSTFLAGS="--cfg treercu_shuttle" SHUTTLE_SILENCE_WARNINGS=1 \
		cargo test --test shuttle

# -Z options of a stable compiler, and a standard library that is not instrumented: its reports are suppressed.
TSAN_TARGET := $(shell rustc -vV | sed -n 's/^host: //p')
tsan:
	@test -e "$$(rustc --print target-libdir)"/librustc*_rt.tsan.a || { \
		echo "make tsan: this toolchain has no ThreadSanitizer runtime for $(TSAN_TARGET)" >&2; exit 1; }
	RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer" CARGO_TARGET_DIR=target/tsan \
		TSAN_OPTIONS="suppressions=$(CURDIR)/tests/tsan-suppressions.txt $(TSAN_OPTIONS)" \
		cargo test --target $(TSAN_TARGET) --test host

long: notebooks
	cargo test --release -- --include-ignored
	TREERCU_NUM=20000 cargo test --release --test random_machines -- --nocapture
	TREERCU_LATCH_RUNS=20000 cargo test --release --test mechanisms -- --nocapture latch
	TREERCU_NUM=400 $(MAKE) zoo
	TREERCU_FULL=1 TREERCU_NUM=20000 $(MAKE) models
	$(MAKE) bench

clean:
	rm -rf $(VENV) target dist
