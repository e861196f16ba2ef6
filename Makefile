# Needs rustc 1.89, Python 3.10 and a C compiler; everything else is fetched by cargo and pip, Python's side into .venv.
CARGO  ?= cargo
PYTHON ?= python3
BIN    := .venv/bin
# How long `make fuzz` works on each target.
FUZZ_SECONDS ?= 60
# Named, so that the flags do not reach build scripts.
HOST = $(shell rustc -vV | sed -n 's/^host: //p')
# What cargo-fuzz passes on nightly, less the address sanitizer: all of it exists on stable.
FUZZ_FLAGS := --cfg fuzzing -Cpasses=sancov-module -Ccodegen-units=1 $(addprefix -Cllvm-args=-sanitizer-coverage-, \
	level=4 inline-8bit-counters pc-table trace-compares)

# Crates that neither build nor test the peers: all but the benchmark.
OURS := --workspace --exclude becalm-bench
# What the wheel is made of.
WHEEL_SOURCES := pyproject.toml Cargo.toml Cargo.lock README.md \
	$(shell find crates/becalm crates/becalm-cli crates/becalm-cuda crates/becalm-python python -name '*.rs' -o -name '*.toml' -o -name '*.py' -o -name '*.pyi' -o -name '*.cu*' 2>/dev/null) \
	$(wildcard target/cuda/kernels.sources)

export PYO3_PYTHON := $(CURDIR)/$(BIN)/python
.NOTPARALLEL:
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help
.PHONY: help run test test-full lint wheel bench docs fuzz rtl rtl-report cuda clean

help: ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## Build becalm and bootstrap in both schemes: three numbers, and a vector
	$(CARGO) run --release -p becalm-cli --bin becalm -- run --scheme both --values 3,1,2

test: .venv/.wheel .venv/.rtl ## Every test: Rust, Python through the wheel, the lines of the README, the processor
	$(CARGO) test --release
	$(BIN)/pytest -q tests
	$(BIN)/python rtl/run.py $(if $(BECALM_FULL),--full,--quick)

test-full: export BECALM_FULL := 1
test-full: test ## The same at full size, and interoperation with the peers (builds them)
	$(CARGO) test --release -p becalm-bench

lint: .venv/.ready ## Formatting and warnings, Rust and Python
	$(CARGO) fmt --all --check
	$(CARGO) clippy $(OURS) --all-targets -- -D warnings
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

wheel: .venv/.wheel ## Build the Python wheel into dist/ and install it into .venv

bench: .venv/.wheel ## becalm beside its peers in one run: a quick look, then the figures in bench/results
	$(CARGO) run --release -p becalm-bench -- tfhe --quick
	$(CARGO) run --release -p becalm-bench -- tfhe --json bench/results/tfhe.json
	$(CARGO) run --release -p becalm-bench -- tfhe --huge --json bench/results/tfhe-huge.json
	$(CARGO) run --release -p becalm-bench -- ckks --json bench/results/ckks.json
	$(PYTHON) bench/table.py
	BECALM_BENCH=1 $(BIN)/pytest -q tests/test_readme.py

docs: .venv/.ready ## Reference of the library, and every link of the pages
	RUSTDOCFLAGS='-D warnings' $(CARGO) doc --no-deps -p becalm
	$(BIN)/pytest -q tests/test_docs.py

rtl: .venv/.rtl ## The processor: benches against the library (FULL=1: full size), and proofs
	$(BIN)/python rtl/run.py $(if $(FULL),--full)
	$(BIN)/python rtl/prove.py

rtl-report: .venv/.rtl ## Clocks and area of the processor for every width, beside the paper's (minutes)
	$(BIN)/python rtl/report.py

cuda: .venv/.cuda ## The CUDA kernels for every GPU into target/cuda, and what the compiler says of them (no GPU needed)
	$(CARGO) run --release -p becalm-cuda --bin becalm-cubins -- target/cuda crates/becalm-cuda/report.json
	$(CARGO) test --release -p becalm-cuda --test resources

fuzz: ## Feed damaged bytes to every reader for FUZZ_SECONDS each (needs a C++ compiler)
	cd fuzz && RUSTFLAGS='$(FUZZ_FLAGS)' $(CARGO) build --release --target-dir target --target $(HOST)
	@mkdir -p fuzz/corpus fuzz/artifacts
	@for t in ciphertext evaluation_key program circuit isa; do \
		mkdir -p fuzz/corpus/$$t && fuzz/target/$(HOST)/release/$$t fuzz/corpus/$$t crates/becalm/tests/vectors crates/becalm/circuits \
			-max_total_time=$(FUZZ_SECONDS) -rss_limit_mb=2048 -timeout=10 -artifact_prefix=fuzz/artifacts/ || exit 1; done

clean: ## Remove everything that was built
	$(CARGO) clean
	rm -rf .venv dist .pytest_cache .ruff_cache .hypothesis

.venv/.ready: tests/requirements.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "becalm needs Python 3.10 or later")'
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -r $<
	@touch $@

.venv/.rtl: .venv/.ready rtl/requirements.txt
	-$(BIN)/pip install --quiet --disable-pip-version-check -r rtl/requirements.txt
	@touch $@

# nvcc.profile of the pip wheels looks for libraries in lib64.
.venv/.cuda: .venv/.ready crates/becalm-cuda/requirements.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps -r crates/becalm-cuda/requirements.txt
	cd .venv/lib/python3*/site-packages/nvidia/cu13 && ln -sfn lib lib64
	@touch $@

.venv/.wheel: .venv/.ready $(WHEEL_SOURCES)
	rm -f dist/becalm-*.whl
	BECALM_CUBINS=$(wildcard $(CURDIR)/target/cuda) $(BIN)/maturin build --release --out dist
	$(BIN)/pip install --quiet --disable-pip-version-check --force-reinstall --no-deps dist/becalm-*.whl
	@touch $@
