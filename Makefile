# `make` lists what there is. `make test` is what a change has to pass; it needs nothing but Rust with rustfmt and
# clippy, leaves nothing out, and stops at the first step that fails.

CARGO ?= cargo
# The programs below share one build: another selection of packages or features would build the dependencies anew.
# The program `scenarios` builds by the same words. The benchmarks have the peers among their dependencies, and have
# no tests; clippy sees them all the same.
TESTED := --workspace --exclude reconcile-benches --all-features
TARGET := $(or $(CARGO_TARGET_DIR),target)
LOOM   := RUSTFLAGS="--cfg reconcile_loom" $(CARGO) test --locked -p reconcile-runtime --release --lib --target-dir target/loom
# What `make bench` measures: a suite, and its options (`make bench BENCH="latency --quick"`).
BENCH  ?= all

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo test fmt clippy features unit loom doc scenarios bench deny

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## a control loop that heals what is broken, told in a second
	$(CARGO) run --example quickstart

# The steps say when they start, so that a log shows what takes long.
step = @printf '\n== %s: %s\n' "$$(date +%T)" "$(1)"

test: fmt clippy features unit loom doc scenarios ## everything that a change has to pass
	$(call step,all passed)

fmt:
	$(call step,format)
	$(CARGO) fmt --all -- --check

clippy:
	$(call step,clippy$(comma) benchmarks and examples included)
	$(CARGO) clippy --locked --workspace --all-targets --all-features -- -D warnings

# What `--all-features` hides: code that is missing without them.
features:
	$(call step,the published crates without their features)
	$(CARGO) check --locked -p reconcile-core -p reconcile-runtime --no-default-features

unit:
	$(call step,tests: units$(comma) scenarios$(comma) conformance$(comma) programs$(comma) documentation)
	$(CARGO) test --locked $(TESTED) --no-fail-fast

loom: ## every interleaving of what is shared between threads
	$(call step,model checker)
	$(LOOM) loom

doc: ## the documentation; broken links are errors
	$(call step,documentation)
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked $(TESTED) --no-deps

scenarios: ## is every scenario of docs/scenarios.md a test?
	$(call step,scenarios)
	$(CARGO) test --locked --quiet $(TESTED) --no-run
	$(TARGET)/debug/scenarios --with-loom

bench: ## the benchmarks, with the peers beside us: minutes; BENCH="latency --quick" for one of them
	$(CARGO) run --locked --release -p reconcile-benches -- $(BENCH)

# Not in `make test`: the tool takes longer to build than everything else. Advisories need the network: ask for them
# by `cargo deny check advisories`.
deny: ## licenses, duplicates and sources of the dependencies; builds cargo-deny if it is not there
	@$(CARGO) deny --version >/dev/null 2>&1 || $(CARGO) install cargo-deny --locked
	$(CARGO) deny --locked check licenses bans sources

comma := ,
