# What people do with this repository, one command each. `make help` lists them.

.PHONY: help demo build test torture lint deps msrv bench mutants dist install clean

help: ## List these targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## Watch a sale night on a private server that is gone afterwards; NODES=3 for a cluster
	@server=$$(scripts/servers one) && seckill=$$(scripts/build) && SECKILL_SERVER="$$server" \
	"$$seckill" run --embedded $(if $(NODES),--nodes $(NODES) fixtures/double11-cluster.yaml,fixtures/double11.yaml)

build: ## Build the release binary (static on Linux, if that works here) and print its path
	@scripts/build

# Servers differ in places (upstream's Redis 6.2 even in its Lua), so tests run on each. SECKILL_TEST_SERVER=PATH picks one, and
# SECKILL_TEST_DATABASES=skip leaves out what compares a sale with SQLite and PostgreSQL, SECKILL_TEST_CLIENTS= the calls in other
# languages, SECKILL_TEST_PROMTOOL=skip what Prometheus' promtool checks. Many tests wait for a server most of their time, so
# three run on each core. The first server gets all of them; the others get neither unit tests, nor other languages, nor those of
# the modules TOOL, for which it does not matter what the server is, and LONG, which repeat much (each cut of each script,
# thousands of random calls) and would find the same again.
TOOL := bench bulk::output bulk::preheat bulk::progress calls cluster::layouts context doctor::clusters doctor::output documents \
	faults::hostile faults::network faults::tls fixtures harness holds::interleavings input layers options outputs packaging \
	preheat::hints race reconcile::beside reconcile::exports report secrets shell snapshots shards::model spread::model times watch why
LONG := archive::cut bulk::property bulk::second_run holds::cut holds::histories holds::killed interrupted ledger::trim_cut model::quick \
	preheat::cut shards::night shards::pause shards::preheat_cut spread::audit statuses::one_wrong statuses::rights
test: ## Run all tests, once on each server this machine has or can get
	@databases=$${SECKILL_TEST_DATABASES:-$$(scripts/servers databases)} && \
	clients=$${SECKILL_TEST_CLIENTS-$$(scripts/clients)} && \
	promtool=$${SECKILL_TEST_PROMTOOL:-$$(scripts/servers promtool)} && \
	servers=$${SECKILL_TEST_SERVER:-$$(scripts/servers all)} && \
	threads=$${RUST_TEST_THREADS:-$$(( 3 * $$(getconf _NPROCESSORS_ONLN) ))} && \
	printf '%s\n' "$$servers" | while IFS= read -r server; do \
		server=$${server#*=}; \
		echo "== tests on $$("$$server" --version | sed 's/ server v=\([^ ]*\).*/ \1/')"; \
		SECKILL_TEST_SERVER="$$server" SECKILL_TEST_DATABASES="$$databases" SECKILL_TEST_CLIENTS="$$clients" \
			SECKILL_TEST_PROMTOOL="$$promtool" \
			RUST_TEST_THREADS="$$threads" cargo test --locked $$only </dev/null || exit 1; \
		clients=; only='--test it --test torture -- $(patsubst %,--skip %::,$(TOOL) $(LONG))'; \
	done

# Round n of a run has the seed SEED + n; a round that fails says which seed reproduces it, and where its history is. With
# NODES=6 it sells on a cluster of three primaries with a replica each. GO_ON=1 does not end with the first that fails.
torture: ## Sell at random while everything breaks, compare all with a model; SECONDS=600 SEED=7 NODES=6
	@server=$${SECKILL_TEST_SERVER:-$$(scripts/servers one)} && SECKILL_TEST_SERVER="$$server" \
	SECKILL_TORTURE_SECONDS="$(or $(SECONDS),60)" SECKILL_TORTURE_SEED="$(or $(SEED),$(shell date +%s))" \
	SECKILL_TORTURE_NODES="$(NODES)" SECKILL_TORTURE_GO_ON="$(GO_ON)" \
	cargo test --locked --test torture -- --nocapture

lint: ## Check format and clippy, warnings denied
	cargo fmt --all --check
	cargo clippy --locked --all-targets -- -D warnings

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

mutants: ## Change the code in many small ways, and list the changes that no test notices; PART=rust or lua
	@scripts/mutants $(PART)

dist: ## Make the tarball of a release and its SHA256SUMS in target/dist; scripts/dist check verifies it
	@scripts/dist

install: ## Install seckill with man pages and completions for this user; PREFIX=/usr/local for everybody
	@scripts/build install

clean: ## Remove what was built and fetched
	cargo clean
	rm -rf .servers .clients .tools
