# The front door of the project. `make` alone lists the targets.
# Settings: ARGS (options of `make run`), QUICK=1 (short benchmarks), FUZZ_SECONDS (per fuzz target),
# MODEL_OPERATIONS, STRESS_OPERATIONS, CRASH_ROUNDS (how long `make soak` is),
# PYTEST_ARGS (options of the black-box suite), CARGO_TARGET_DIR (as cargo reads it).

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

TARGET_DIR := $(abspath $(or $(CARGO_TARGET_DIR),target))
export CARGO_TARGET_DIR := $(TARGET_DIR)
MICANITE_BIN ?= $(TARGET_DIR)/release/micanite
MICANITE_DPDK_BIN ?= $(TARGET_DIR)/dpdk/release/micanite
FUZZ_SECONDS ?= 600
MODEL_OPERATIONS ?= 1000000000
STRESS_OPERATIONS ?= 100000000
CRASH_ROUNDS ?= 500
# Where it is not, what needs it says so and is left out.
HAS_DPDK := pkg-config --exists 'libdpdk >= 22.11' 2>/dev/null
LAB := cargo run --release --quiet --package micanite-lab --
LAB_FLAGS := $(if $(filter 1,$(QUICK)),--quick)

.PHONY: help run build build-dpdk test test-unit test-loom test-blackbox test-sanitizers soak lint bench bench-engine bench-server bench-limits bench-misses bench-net bench-attacks bench-streams bench-bypass fuzz package deb deps clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

run: build ## build and start the server on 127.0.0.1:11211 (ARGS="-m 1024 -t 2" adds options)
	@exec $(TARGET_DIR)/release/micanite serve $(ARGS)

build: ## build the server in release mode
	@scripts/deps build
	@cargo build --release --package micanite

build-dpdk: ## build the server with dpdk: ports, in target/dpdk, for tests: less optimised (for use: cargo build --release --features dpdk)
	@scripts/deps dpdk
	@if $(HAS_DPDK); then cargo build --release --package micanite --features dpdk --target-dir $(TARGET_DIR)/dpdk \
	  --config 'profile.release.lto="off"' --config profile.release.codegen-units=16; fi

test: test-unit test-loom test-blackbox ## run every test; sets up what it needs

test-unit: ## unit, property, model and brief fuzz tests (cargo)
	@scripts/deps unit
	@scripts/deps dpdk
	@echo "### suite: unit"
	cargo test --workspace --features micanite-client/async --no-fail-fast
	if $(HAS_DPDK); then cargo test --package micanite-net --features dpdk --lib --test dpdk --no-fail-fast; fi

test-loom: ## models of the concurrent parts, every interleaving within their bounds (loom)
	@scripts/deps build
	@echo "### suite: loom"
	@scripts/test-loom

test-blackbox: build build-dpdk ## the real binary under real clients and raw sockets (pytest)
	@scripts/deps test
	@scripts/peer-memcached >/dev/null
	@cargo build --release --package micanite-lab
	@echo "### suite: blackbox"
	MICANITE_BIN=$(MICANITE_BIN) MICANITE_DPDK_BIN=$(MICANITE_DPDK_BIN) MICANITE_LAB_BIN=$(TARGET_DIR)/release/micanite-lab .venv/bin/pytest tests $(PYTEST_ARGS)

test-sanitizers: ## address and thread sanitizer over engine and memory (nightly; says what it skips)
	@scripts/deps build
	@scripts/test-sanitizers

soak: ## the long runs: 10^9 operations against the model, 10^8 under changing modes, 500 kills of a writer
	@scripts/deps build
	MICANITE_MODEL_OPERATIONS=$(MODEL_OPERATIONS) cargo test --package micanite-engine --lib model::long -- --nocapture
	MICANITE_STRESS_OPERATIONS=$(STRESS_OPERATIONS) cargo test --package micanite-engine --lib modes -- --nocapture
	MICANITE_CRASH_ROUNDS=$(CRASH_ROUNDS) cargo test --package micanite-engine --test crash -- --nocapture

lint: ## formatting, clippy, rustdoc, no machine's path in the tree
	@scripts/deps build
	cargo fmt --all --check
	cargo fmt --manifest-path fuzz/Cargo.toml --check
	cargo clippy --workspace --features micanite-client/async --all-targets -- -D warnings
	if $(HAS_DPDK); then cargo clippy --workspace --features micanite-client/async,micanite/dpdk --all-targets -- -D warnings; fi
	RUSTFLAGS="--cfg loom" cargo clippy --target-dir $(TARGET_DIR)/loom \
	  --package micanite-engine --package micanite-memory --package micanite-server --all-targets -- -D warnings
	CARGO_TARGET_DIR=$(TARGET_DIR)/fuzz/build cargo clippy --manifest-path fuzz/Cargo.toml --bin stable -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --features micanite-client/async --no-deps --document-private-items
	if $(HAS_DPDK); then RUSTDOCFLAGS="-D warnings" cargo doc --package micanite-net --features dpdk --no-deps --document-private-items; fi
	scripts/check-paths

bench: bench-engine bench-server bench-net ## engine, server and native protocol; tables, and JSON in target/bench (QUICK=1: under three minutes each)

bench-engine: ## the engine: beside the memory's limit and other tables, modes, memory, images
	@scripts/deps build
	$(LAB) engine $(LAB_FLAGS)

bench-limits: ## what the memory allows one core, and prototypes of the lookup beside that
	@scripts/deps build
	$(LAB) limits $(LAB_FLAGS)

bench-misses: ## miss ratios of eviction policies on traces, by simulation
	@scripts/deps build
	$(LAB) misses $(LAB_FLAGS)

bench-server: build ## the server beside Debian's memcached, stable and current, interleaved in one run
	@scripts/peer-memcached >/dev/null
	@scripts/peer-memcached-current >/dev/null || echo "note: not beside the current memcached"
	$(LAB) server $(LAB_FLAGS)

bench-net: build ## the native protocol beside memcached over UDP and TCP, and a bare echo; latency, skew, direction
	@scripts/peer-memcached >/dev/null
	$(LAB) net $(LAB_FLAGS)

bench-attacks: build ## what other clients feel while some attack, attack by attack
	@scripts/deps test
	MICANITE_BIN=$(MICANITE_BIN) .venv/bin/python tests/bench_attacks.py

package: deb ## what packages are made of: manual pages and completions in target/package, and the Debian package

deb: build ## the Debian package, in target/package
	@cargo run --quiet --package micanite --example generate -- $(TARGET_DIR)/package/generated
	@scripts/package-deb $(MICANITE_BIN) $(TARGET_DIR)/package/generated $(TARGET_DIR)/package

bench-streams: build ## streams by epoll and io_uring beside memcached and Redis, TCP and Unix sockets; latency at half load, idle connections
	@scripts/peer-memcached >/dev/null
	@scripts/peer-memcached-current >/dev/null || echo "note: not beside the current memcached"
	@scripts/peer-redis >/dev/null || echo "note: not beside Redis"
	$(LAB) streams $(LAB_FLAGS)

# A build of its own, since the server that is measured has DPDK in it where that is installed.
BYPASS_DIR := $(TARGET_DIR)/bypass
BYPASS_FEATURES = $(if $(shell pkg-config --exists libdpdk 2>/dev/null && echo yes),--features micanite/dpdk$(comma)micanite-lab/dpdk)
comma := ,

bench-bypass: ## ports around the kernel beside a bare echo, kernel UDP and memcached; a full run rewrites docs/benchmarks/bypass.md (root; ARGS="--case memif")
	@scripts/deps build
	@scripts/peer-memcached >/dev/null
	cargo build --release --target-dir $(BYPASS_DIR) --package micanite --package micanite-lab $(BYPASS_FEATURES)
	$(BYPASS_DIR)/release/micanite-lab bypass --server $(BYPASS_DIR)/release/micanite $(LAB_FLAGS) \
	  $(if $(LAB_FLAGS)$(ARGS),,--document docs/benchmarks/bypass.md) $(ARGS)

fuzz: ## fuzz every target for FUZZ_SECONDS (default 600)
	@scripts/deps build
	@scripts/fuzz $(FUZZ_SECONDS)

deps: ## install what building and testing need (run and test do it by themselves)
	@scripts/deps build
	@scripts/deps dpdk
	@scripts/deps test

clean: ## remove what was built, the unpacked peers and the Python environment
	cargo clean
	rm -rf .venv target .pytest_cache
