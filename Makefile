# What people do with this repository, one command each. `make help` lists them.

.PHONY: help demo build test test-all lua54 torture sim lint deps msrv bench mutants dist packages install clean

help: ## List these targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## Watch a sale night on a private server that is gone afterwards; NODES=3 for a cluster
	@server=$$(scripts/servers one) && seckill=$$(scripts/build) && SECKILL_SERVER="$$server" \
	"$$seckill" run --embedded $(if $(NODES),--nodes $(NODES) fixtures/double11-cluster.yaml,fixtures/double11.yaml)

build: ## Build the release binary (static on Linux, if that works here) and print its path
	@scripts/build

# SECKILL_TEST_SERVER=PATH picks the server, and SECKILL_TEST_DATABASES=skip leaves out what compares a sale with SQLite and
# PostgreSQL, SECKILL_TEST_CLIENTS= the calls in other languages, SECKILL_TEST_PROMTOOL=skip what Prometheus' promtool checks.
# SECKILL_TEST_SEARCHES=full makes long searches as long as `.ci/run` wants them. Many tests wait for a server most of their time,
# so three run on each core.
THREADS = $${RUST_TEST_THREADS:-$$(( 3 * $$(getconf _NPROCESSORS_ONLN) ))}
test: ## Run all tests on one server that this machine has or can get
	@databases=$${SECKILL_TEST_DATABASES:-$$(scripts/servers databases)} && \
	clients=$${SECKILL_TEST_CLIENTS-$$(scripts/clients)} && \
	promtool=$${SECKILL_TEST_PROMTOOL:-$$(scripts/servers promtool)} && \
	server=$${SECKILL_TEST_SERVER:-$$(scripts/servers one)} && \
	echo "== all tests on $$("$$server" --version | sed 's/ server v=\([^ ]*\).*/ \1/')" && \
	SECKILL_TEST_SERVER="$$server" SECKILL_TEST_DATABASES="$$databases" SECKILL_TEST_CLIENTS="$$clients" \
		SECKILL_TEST_PROMTOOL="$$promtool" RUST_TEST_THREADS="$(THREADS)" cargo test --locked --workspace

# Servers differ in replies, errors, rights, persistence, clusters, and Redis 6.2 even in its Lua. These are the modules of
# tests/it whose outcome may depend on that.
ON_EACH_SERVER := acl archive bulk::exactly_once bulk::faults bulk::forgotten bulk::interrupted bulk::mixed bulk::multi \
	cluster contract doctor::rights doctor::sale doctor::servers drop_ins embedded faults::denied faults::refusing \
	faults::unavailable holds interrupted ledger limits metrics::sale one_round_trip pause preheat reconcile replicas sentinel \
	sessions shards spread statuses
space := $() $()
test-all: ## Run the tests that depend on the server, on each server this machine has or can get
	@servers=$$(scripts/servers all) && \
	tests=$$(cargo test --locked --test it -- --list --format terse | sed -n 's/: test$$//p' | \
		grep -E '^($(subst $(space),|,$(strip $(ON_EACH_SERVER))))::') && \
	for module in $(ON_EACH_SERVER); do \
		case "$$tests" in *"$$module::"*) ;; *) echo "make: there is no test in $$module" >&2; exit 1 ;; esac; \
	done && \
	printf '%s\n' "$$servers" | while IFS= read -r server; do \
		server=$${server#*=}; \
		echo "== $$(echo "$$tests" | wc -l) tests on $$("$$server" --version | sed 's/ server v=\([^ ]*\).*/ \1/')"; \
		export SECKILL_TEST_SERVER="$$server" SECKILL_TEST_DATABASES=skip RUST_TEST_THREADS="$(THREADS)"; \
		cargo test --locked --test it -- --exact $$tests </dev/null && cargo test --locked -p sim fidelity </dev/null || exit 1; \
	done

# The first run leaves what was replied and written, the second one compares it, and the scripts with those of a server.
lua54: ## Run the scripts in Lua 5.4, as Dragonfly has it, and compare replies and keys with those of 5.1
	@server=$${SECKILL_TEST_SERVER:-$$(scripts/servers one)} && export SECKILL_TEST_SERVER="$$server" && \
	cargo test --locked -p sim each_lua && \
	cargo test --locked -p sim --no-default-features --features lua54 -- each_lua fidelity

# Round n of a run has the seed SEED + n; a round that fails says which seed reproduces it, and where its history is. With
# NODES=6 it sells on a cluster of three primaries with a replica each. GO_ON=1 does not end with the first that fails.
torture: ## Sell at random while everything breaks, then ask everything again; SECONDS=600 SEED=7 NODES=6
	@server=$${SECKILL_TEST_SERVER:-$$(scripts/servers one)} && SECKILL_TEST_SERVER="$$server" \
	SECKILL_TORTURE_SECONDS="$(or $(SECONDS),60)" SECKILL_TORTURE_SEED="$(or $(SEED),$(shell date +%s))" \
	SECKILL_TORTURE_NODES="$(NODES)" SECKILL_TORTURE_GO_ON="$(GO_ON)" \
	cargo test --locked --test torture -- --nocapture

# Seeds from SEED on. A seed that breaks a promise is shortened and printed as a story (docs/simulation.md).
sim: ## Sell at random in a simulator that loses, delays, cuts and kills, from seeds; SECONDS=600 SEED=7
	@SECKILL_SIM_SECONDS="$(or $(SECONDS),60)" SECKILL_SIM_SEED="$(or $(SEED),$(shell date +%s))" \
	cargo test --locked -p sim -- search:: --nocapture --test-threads=1

lint: ## Check format and clippy, warnings denied
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets -- -D warnings

deps: ## Check licences, sources and duplicate versions of the dependencies
	@scripts/check deps

msrv: ## Check that the oldest Rust we promise still builds it
	@scripts/check msrv

bench: ## Measure what README says about speed; PART=file measures one part
	@scripts/servers all >/dev/null
	@for tool in redis-cli redis-benchmark; do command -v $$tool >/dev/null || \
		{ echo "bench: error: no $$tool here, which we are compared with; it comes with redis-tools" >&2; exit 1; }; done
	@static=$(if $(filter process,$(or $(PART),process)),$$(scripts/build static),) || true; \
	SECKILL_BENCH_STATIC="$$static" cargo bench --locked --bench speed -- $(PART)

mutants: ## Change the code in many small ways, and list the changes that no test notices; PART=rust, lua or client
	@scripts/mutants $(PART)

dist: ## Make the tarball of a release and its SHA256SUMS in target/dist; scripts/dist check verifies it
	@scripts/dist

packages: ## Make a .deb and an .rpm in target/dist; scripts/check-packages SERVER sells a night with each
	@scripts/dist packages

install: ## Install seckill with man pages and completions for this user; PREFIX=/usr/local for everybody
	@scripts/build install

clean: ## Remove what was built and fetched
	cargo clean
	rm -rf .servers .clients .tools
