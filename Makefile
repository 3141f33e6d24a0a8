# The front door of the project. `make` alone lists the targets. Settings: ARGS (options of `make run`),
# QUICK=1 (short benchmarks), FUZZ_SECONDS (per fuzz target), MODEL_OPERATIONS, STRESS_OPERATIONS,
# CRASH_ROUNDS, KILL_OPERATIONS, KERNEL_REPLIES, LINEARIZABILITY_SECONDS (how long `make soak` is),
# PYTEST_ARGS (options of the black-box suite), CARGO_TARGET_DIR (as cargo reads it).

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

TARGET_DIR := $(abspath $(or $(CARGO_TARGET_DIR),target))
export CARGO_TARGET_DIR := $(TARGET_DIR)
RELEASE_BIN := $(TARGET_DIR)/release/micanite
RELEASE_DPDK_BIN := $(TARGET_DIR)/dpdk/release/micanite
# Of the benchmarks.
MICANITE_BIN ?= $(RELEASE_BIN)
FUZZ_SECONDS ?= 600
MODEL_OPERATIONS ?= 1000000000
STRESS_OPERATIONS ?= 100000000
CRASH_ROUNDS ?= 500
# Each killed at each of its stores.
KILL_OPERATIONS ?= 20000
# In each of ten cases.
KERNEL_REPLIES ?= 1000000
# Of each case.
LINEARIZABILITY_SECONDS ?= 30
# In each of ten cases.
ONE_SIDED_READS ?= 1000000
# Where it is not, what needs it says so and is left out.
HAS_DPDK := pkg-config --exists 'libdpdk >= 22.11' 2>/dev/null
HAS_FABRIC := pkg-config --exists 'libfabric >= 1.17' 2>/dev/null
# One profile (dev) and one set of features for all that tests, lints and documentation compile: each crate is
# compiled once.
comma := ,
DPDK_FEATURES = $(comma)micanite/dpdk$(comma)micanite-client-c/dpdk
FABRIC_FEATURES = $(if $(shell $(HAS_FABRIC) && echo yes),$(strip \
  $(comma)micanite/libfabric$(comma)micanite-fabric/testing$(comma)micanite-client-c/libfabric))
FEATURES = --features micanite-client/async,micanite-kernel/testing,micanite-net/testing$(strip \
  $(if $(shell $(HAS_DPDK) && echo yes),$(DPDK_FEATURES))$(FABRIC_FEATURES))
# `scripts/part NAME COMMAND` runs a command, and notes how long it took in the file PARTS, where that is set.
PARTS_FILE := $(or $(PARTS),$(TARGET_DIR)/parts)
# Tests that cannot run say so in the file MICANITE_SKIPS (scripts/test/totals).
SKIPS_FILE := $(or $(MICANITE_SKIPS),$(TARGET_DIR)/skips.txt)
# The benchmarks: a workspace of their own, compiled when they are used.
BENCH := --manifest-path bench/Cargo.toml
LAB := cargo run --release --quiet $(BENCH) --
LAB_FLAGS := $(if $(filter 1,$(QUICK)),--quick)

.PHONY: feature-deps help run build build-dpdk test test-full test-compile test-programs test-deps \
  test-release test-unit test-loom test-bench test-blackbox test-steady test-sanitizers soak lint \
  lint-full bench bench-engine bench-bypass bench-kernel bench-fabric bench-local report \
  report-measure fuzz package wheel deb tarball install-c test-packages reference docs deps clean

# List the targets.
help:
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

run: build ## build and start the server on 127.0.0.1:11211 (ARGS="-m 1024 -t 2" adds options)
	@exec $(TARGET_DIR)/release/micanite serve $(ARGS)

build: ## build the server in release mode
	@scripts/deps build
	@cargo build --release --package micanite

wheel: ## build the Python module as a wheel (Linux, Python 3.10 and later), in target/wheels
	@scripts/deps test
	@.venv/bin/maturin build --profile wheel --manifest-path crates/python/Cargo.toml --out $(TARGET_DIR)/wheels

# Build the server with dpdk: ports, in target/dpdk, for test-full: less optimised (for use: cargo build
# --release --features dpdk).
build-dpdk:
	@scripts/deps dpdk
	@if $(HAS_DPDK); then cargo build --release --package micanite --features dpdk \
	  --target-dir $(TARGET_DIR)/dpdk --config 'profile.release.lto="off"' \
	  --config profile.release.codegen-units=16; fi

test: ## run every test; sets up what it needs, and says at the end how long each part took
	@mkdir -p $(TARGET_DIR)
	@$(if $(PARTS),,: >$(PARTS_FILE))
	@$(if $(MICANITE_SKIPS),,: >$(SKIPS_FILE))
	@status=0; PARTS=$(PARTS_FILE) MICANITE_SKIPS=$(SKIPS_FILE) \
	  $(MAKE) --no-print-directory $(TEST_PARTS) || status=$$?; \
	  PARTS=$(PARTS_FILE) scripts/durations; exit $$status
TEST_PARTS := test-compile test-unit test-loom test-blackbox

test-full: ## what `make test` runs, and what is exhaustive: every number of workers, the release builds, the benchmarks, the site; before a release
	@scripts/fetch-traces >/dev/null || echo "note: no miss ratios of the whole trace"
	@mkdir -p $(TARGET_DIR)
	@status=0; $(MAKE) --no-print-directory test \
	  LOOM_CRATES="chunks engine local server" \
	  TEST_PARTS="test-compile lint-full test-unit test-loom test-bench test-release test-packages docs" \
	  2>&1 | tee $(TARGET_DIR)/full.log || status=$$?; \
	  scripts/test/totals $(TARGET_DIR)/full.log $(SKIPS_FILE) tests/expected-skips.txt || status=$$?; \
	  exit $$status

# The set-up mostly waits for downloads: it runs beside the compiler.
test-compile: feature-deps
	@scripts/part compile $(SHELL) -euc \
	  '$(MAKE) --no-print-directory test-deps & $(MAKE) --no-print-directory test-programs; wait $$!'

# Examples, too: they bring the features that tests have. Libraries: the Python module is one.
test-programs: feature-deps
	cargo test --workspace $(FEATURES) --no-run
	cargo build --workspace $(FEATURES) --lib --bins --examples

test-deps:
	@scripts/deps test
	@scripts/peer-memcached >/dev/null

# A recipe's lines are expanded before the first of them runs: what FEATURES depends on is installed by a
# prerequisite.
feature-deps:
	@scripts/deps unit
	@scripts/deps dpdk
	@scripts/deps fabric

# Unit, property, model and brief fuzz tests (cargo).
test-unit: feature-deps
	@scripts/deps python
	@echo "### suite: unit"
	NEXTEST_TEST_THREADS=$$(($$(nproc) + 1)) \
	  scripts/part unit .venv/bin/cargo-nextest nextest run --workspace $(FEATURES)
	scripts/part doctests cargo test --workspace $(FEATURES) --doc

# Models of the concurrent parts, every interleaving within their bounds (loom).
test-loom: feature-deps
	@echo "### suite: loom"
	@LOOM_CRATES="$(LOOM_CRATES)" scripts/part loom scripts/test/loom

# Tests of the benchmarks and of the report's page, clippy and rustdoc: all of bench/ that `make lint` and
# `make test` leave out.
test-bench: feature-deps test-deps test-programs
	@echo "### suite: unit"
	cargo clippy $(BENCH) $(BENCH_FEATURES) --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc $(BENCH) $(BENCH_FEATURES) --no-deps --document-private-items
	scripts/part bench cargo test $(BENCH) $(BENCH_FEATURES) --no-fail-fast
	MICANITE_LAB_BIN=$(PROGRAMS)/micanite-lab scripts/part bench .venv/bin/pytest $(BENCH_TESTS)
BENCH_TESTS := tests/tools/test_report.py

PROGRAMS := $(TARGET_DIR)/debug
BLACKBOX = MICANITE_TEST_TOOLS_BIN=$(PROGRAMS)/micanite-test-tools \
  MICANITE_GENERATE_BIN=$(PROGRAMS)/examples/generate \
  scripts/part blackbox .venv/bin/python scripts/test/blackbox

# The real binary under real clients and raw sockets (pytest).
test-blackbox: test-deps test-programs
	@echo "### suite: blackbox"
	MICANITE_BIN=$(PROGRAMS)/micanite \
	  $(if $(shell $(HAS_DPDK) && echo yes),MICANITE_DPDK_BIN=$(PROGRAMS)/micanite) $(BLACKBOX) $(PYTEST_ARGS)

test-release: build build-dpdk test-deps test-programs
	@scripts/deps axe
	@echo "### suite: blackbox"
	MICANITE_BIN=$(RELEASE_BIN) MICANITE_DPDK_BIN=$(RELEASE_DPDK_BIN) TEST_FULL=1 \
	  $(BLACKBOX) --ignore=$(BENCH_TESTS) --ignore=tests/fabric $(PYTEST_ARGS)
	# The release build has no libfabric.
	MICANITE_BIN=$(PROGRAMS)/micanite MICANITE_TEST_TOOLS_BIN=$(PROGRAMS)/micanite-test-tools TEST_FULL=1 \
	  .venv/bin/pytest tests/fabric

# The unit and black-box tests ROUNDS times beside as many busy loops as there are CPUs.
ROUNDS ?= 10
test-steady: test-compile
	@scripts/test/steady $(ROUNDS)

# Address and thread sanitizer over engine and memory (nightly; says what it skips).
test-sanitizers:
	@scripts/deps build
	@scripts/test/sanitizers

# The long runs: 10^9 operations against the model, 10^8 under changing modes, 500 kills, kills at every store
# and between every two instructions, 10^7 replies of the kernel beside writers, histories of all ports.
soak: build
	@scripts/deps test
	MICANITE_MODEL_OPERATIONS=$(MODEL_OPERATIONS) \
	  cargo test --profile soak --package micanite-engine --lib model::long -- --nocapture
	MICANITE_STRESS_OPERATIONS=$(STRESS_OPERATIONS) \
	  cargo test --profile soak --package micanite-engine --lib modes -- --nocapture
	MICANITE_CRASH_ROUNDS=$(CRASH_ROUNDS) \
	  cargo test --profile soak --package micanite-engine --test crash -- --nocapture
	MICANITE_KILL_OPERATIONS=$(KILL_OPERATIONS) \
	  cargo test --profile soak --package micanite-engine --lib kill:: -- --nocapture
	MICANITE_STEP_INTERVAL=1 cargo test --release --package micanite-engine --test stepped -- --nocapture
	cargo build --release --package micanite-test-tools
	MICANITE_BIN=$(MICANITE_BIN) MICANITE_TEST_TOOLS_BIN=$(TARGET_DIR)/release/micanite-test-tools \
	  MICANITE_CONSISTENCY_REPLIES=$(KERNEL_REPLIES) \
	  .venv/bin/pytest tests/bypass/test_kernel_get_consistency.py
	if $(HAS_FABRIC); then cargo build --release --package micanite --package micanite-fabric \
	  --package micanite-test-tools \
	  --features micanite/libfabric,micanite-fabric/testing,micanite-test-tools/libfabric; fi
	MICANITE_BIN=$(MICANITE_BIN) MICANITE_TEST_TOOLS_BIN=$(TARGET_DIR)/release/micanite-test-tools \
	  MICANITE_LINEARIZABILITY_SECONDS=$(LINEARIZABILITY_SECONDS) MICANITE_ONE_SIDED_READS=$(ONE_SIDED_READS) \
	  .venv/bin/pytest tests/linearizability tests/fabric

lint: feature-deps ## formatting, Python (ruff), spelling (typos), clippy, dependencies (cargo deny), no machine's path in the tree, crates that package
	@scripts/deps python
	scripts/lint/text
	cargo fmt --all --check
	cargo fmt --manifest-path fuzz/Cargo.toml --check
	cargo fmt $(BENCH) --check
	cargo clippy --workspace $(FEATURES) --all-targets -- -D warnings
	# What `make build` compiles: the line above has every feature.
	cargo clippy --package micanite -- -D warnings
	scripts/lint/dependencies
	scripts/lint/paths
	scripts/lint/crates

# Rustdoc, and clippy of what is compiled in another way: with fewer features, for loom, for the fuzzer.
lint-full: feature-deps
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace $(FEATURES) --no-deps --document-private-items
	cargo clippy --package micanite-net --features testing -- -D warnings
	scripts/test/loom --lint
	cargo clippy --manifest-path fuzz/Cargo.toml --bin stable -- -D warnings
	cargo test --package micanite-fabric --test absent

bench-engine: ## the engine: beside the memory's limit and other tables, modes, memory, images
	@scripts/deps build
	$(LAB) engine $(LAB_FLAGS)

package: deb tarball ## the Debian package, and a static program for any Linux, with manual pages, completions and checksums, in target/package
	@cd $(TARGET_DIR)/package && sha256sum *.deb *.tar.gz >SHA256SUMS

reference: ## write docs/reference anew, from the declarations of options and statistics
	@cargo run --quiet --package micanite --example generate -- $(TARGET_DIR)/package/generated
	@mkdir -p docs/reference
	@cp $(TARGET_DIR)/package/generated/{options,statistics}.md docs/reference/

docs: ## make a site of docs/ with a search (mdBook), in target/book, and check its links
	@docs/site/build.sh $(TARGET_DIR)/book

# Static by glibc, not by musl, whose memcpy and allocator are slower (docs/deploying.md). Named as a target,
# so that build scripts stay dynamic. Without DPDK and libfabric, which are loaded at run time. getrandom
# would look its function up in shared libraries, and then want /dev/urandom.
STATIC_FLAGS := -C target-feature=+crt-static --cfg getrandom_backend="linux_getrandom"
STATIC_TARGET := $(shell uname -m)-unknown-linux-gnu
STATIC_BIN := $(TARGET_DIR)/static/$(STATIC_TARGET)/release/micanite

# The static program in a tarball, in target/package.
tarball:
	@scripts/deps build
	@RUSTFLAGS='$(RUSTFLAGS) $(STATIC_FLAGS)' cargo build --release --package micanite \
	  --target $(STATIC_TARGET) --target-dir $(TARGET_DIR)/static
	@cargo run --quiet --package micanite --example generate -- $(TARGET_DIR)/package/generated
	@rm -f $(TARGET_DIR)/package/*.tar.gz $(TARGET_DIR)/package/SHA256SUMS
	@packaging/build-tarball $(STATIC_BIN) $(TARGET_DIR)/package/generated $(TARGET_DIR)/package

# Packages as users get them: the tarball in an empty root, the steps of the Dockerfile, crates alone.
test-packages: package
	@packaging/test-tarball $(TARGET_DIR)/package
	@packaging/test-container $(TARGET_DIR)/container
	@scripts/lint/crates --verify

# Where install-c puts the library.
PREFIX ?= /usr/local

install-c: ## build the library for C, and install it with its header and its file for pkg-config (PREFIX=/usr/local, DESTDIR)
	@scripts/deps build
	@cargo build --release --package micanite-client-c
	@DESTDIR=$(DESTDIR) packaging/install-c $(TARGET_DIR)/release $(PREFIX)

# The Debian package, in target/package.
deb: build
	@rm -f $(TARGET_DIR)/package/*.deb $(TARGET_DIR)/package/SHA256SUMS
	@cargo run --quiet --package micanite --example generate -- $(TARGET_DIR)/package/generated
	@packaging/debian/build $(MICANITE_BIN) $(TARGET_DIR)/package/generated $(TARGET_DIR)/package

# A build of its own, since the server that is measured has DPDK in it where that is installed; so has that of
# the report.
BYPASS_DIR := $(TARGET_DIR)/bypass
BYPASS_FEATURES = $(if $(shell $(HAS_DPDK) && echo yes),--features dpdk)
# Builds the server and the benchmarks with these options.
build-both = cargo build --release --package micanite $(1) && cargo build --release $(BENCH) $(1)

bench-bypass: ## ports around the kernel beside a bare echo, kernel UDP and memcached; a full run rewrites docs/benchmarks/bypass.md (root; ARGS="--case memif")
	@scripts/deps build
	@scripts/peer-memcached >/dev/null
	$(call build-both,--target-dir $(BYPASS_DIR) $(BYPASS_FEATURES))
	$(BYPASS_DIR)/release/micanite-lab bypass --server $(BYPASS_DIR)/release/micanite $(LAB_FLAGS) \
	  $(if $(LAB_FLAGS)$(ARGS),,--document docs/benchmarks/bypass.md) $(ARGS)

bench-kernel: build ## GETs answered in the kernel beside memcached over UDP, our other ports and a bare reflector; a full run rewrites docs/benchmarks/kernel.md (root; ARGS="--case kernel/tiny")
	@scripts/deps unit
	@scripts/peer-memcached >/dev/null
	$(LAB) kernel $(LAB_FLAGS) $(if $(LAB_FLAGS)$(ARGS),,--document docs/benchmarks/kernel.md) $(ARGS)

ONE_SIDED = $(if $(shell $(HAS_FABRIC) && echo yes),--features libfabric)
BENCH_FEATURES = $(ONE_SIDED) $(BYPASS_FEATURES)

bench-local: build ## readers on the same host beside the engine's own GETs and memcached over its Unix socket, and what they cost a server (ARGS="--case caches")
	@scripts/peer-memcached >/dev/null
	$(LAB) local $(LAB_FLAGS) $(ARGS)

bench-fabric: ## InnerCache's workloads by one-sided reads and by messages, over libfabric; a full run rewrites docs/benchmarks/fabric.md (root; ARGS="--case /1k/")
	@scripts/deps build
	@scripts/deps fabric
	$(call build-both,$(ONE_SIDED))
	$(TARGET_DIR)/release/micanite-lab fabric --server $(TARGET_DIR)/release/micanite $(LAB_FLAGS) \
	  $(if $(LAB_FLAGS)$(ARGS),,--document docs/benchmarks/fabric.md) $(ARGS)

bench: build ## the quick report: the evaluation on this machine as one page, target/report/index.html, in under ten minutes (ARGS="--only ID", --list, --reuse, --peer NAME=ADDRESS)
	@$(MAKE) --no-print-directory report-measure REPORT="$(ARGS)" TYPED="make bench$(if $(ARGS), ARGS='$(ARGS)')"

report: build ## the full report: more rounds, larger sets and more points, in about half an hour; rewrites docs/benchmarks.md unless there are ARGS
	@$(MAKE) --no-print-directory report-measure \
	  REPORT="$(if $(filter --reuse --data%,$(ARGS)),,--full) \
	  $(if $(ARGS),,--document docs/benchmarks.md) $(ARGS)" \
	  TYPED="make report$(if $(ARGS), ARGS='$(ARGS)')"

report-measure:
	@scripts/deps dpdk
	@scripts/deps fabric
	@scripts/peer-memcached >/dev/null || echo "note: not beside memcached"
	@scripts/peer-memcached-current >/dev/null || echo "note: not beside the current memcached"
	@scripts/peer-redis >/dev/null || echo "note: not beside Redis"
	@scripts/fetch-traces >/dev/null || echo "note: no miss ratios of real requests"
	@$(call build-both,$(BENCH_FEATURES))
	@$(TARGET_DIR)/release/micanite-lab report \
	  --programs $(patsubst $(CURDIR)/%,%,$(TARGET_DIR))/release --typed "$(TYPED)" $(REPORT)

# Fuzz every target for FUZZ_SECONDS (default 600).
fuzz:
	@scripts/deps build
	@scripts/fuzz $(FUZZ_SECONDS)

# Install what building and testing need (run and test do it by themselves).
deps:
	@scripts/deps build
	@scripts/deps dpdk
	@scripts/deps fabric
	@scripts/deps test

# Remove what was built, the unpacked peers and the Python environment.
clean:
	cargo clean
	rm -rf .venv target .pytest_cache
