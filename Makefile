# Every chore. `make` lists them.
PYTHON ?= python3
BIN := .venv/$(if $(filter Windows_NT,$(OS)),Scripts,bin)
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --no-header
PIN := $(COMPILE) pyproject.toml
RUNNABLE := .venv/.runnable
STAMP := .venv/.ready
export PYTHONDONTWRITEBYTECODE := # empty: Python keeps what it compiled; tests start hundreds of interpreters
# Two for each of two cores: tests wait half of the time, for processes, engines and browsers.
WORKERS ?= 4
PYTEST := $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder # a file's tests share their servers; browsers come last

help: ## List the chores
	@grep -E '^[a-z-]+:.*## ' Makefile | sed 's/:.*## /\t/' | expand -t 16

install: $(RUNNABLE) ## Create .venv with what the server needs, from pinned versions with hashes

$(RUNNABLE): requirements-run.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("Memory MCP needs Python 3.11 or newer. Name one: make $(or $(MAKECMDGOALS),run) PYTHON=python3.12" if sys.version_info < (3, 11) else 0)'
	@echo "1 of 3: creating .venv"
	@$(PYTHON) -m venv .venv
	@echo "2 of 3: installing the server and its packages, 1.1 GB (most of it chDB, the engine of portals); this takes a minute or two"
	@$(PIP) --require-hashes -r requirements-run.txt
	@$(PIP) --no-deps --no-build-isolation -e .
	@echo "3 of 3: fetching the model for search by meaning, 35 MB"
	@$(BIN)/memory-mcp models pull || echo "Search goes by words until '$(BIN)/memory-mcp models pull' succeeds."
	@touch $(RUNNABLE)

setup: $(STAMP) ## The same, with everything that tests and chores need

$(STAMP): $(RUNNABLE) requirements-dev.txt
	@echo "Installing what tests and chores need"
	@$(PIP) --require-hashes -r requirements-dev.txt
	@touch $(STAMP)

run: install ## Start the HTTP server on loopback and print how to connect
	$(BIN)/memory-mcp serve --transport http $(ARGS)

test: setup ## Run the tests
	$(PYTEST) $(ARGS)

test-postgres: setup ## Run the tests of what PostgreSQL can keep, on a PostgreSQL that they start
	MEMORY_TEST_ENGINES=postgres $(PYTEST) tests/engines/postgres tests/families/vault tests/families/notes tests/families/graph tests/families/portals/test_journal.py \
		tests/conversations tests/services/write_journal tests/services/search_index tests/services/access tests/services/sessions tests/services/sync/test_hub.py tests/deploy/test_servers.py tests/test_tenants.py $(ARGS)

test-portals-url: setup ## Run the tests of portals on a ClickHouse server: that of MEMORY_MCP_TEST_PORTALS_URL, or one over chDB that they start
	MEMORY_MCP_TEST_PORTALS_URL=$${MEMORY_MCP_TEST_PORTALS_URL:-fixture} $(PYTEST) $(addprefix tests/families/portals/test_,$(addsuffix .py,\
		clickhouse tools labels deletion portal_deletion wider_types query_answers resources spec_names query_memory export_quota)) $(ARGS)

soak-postgres: setup ## Run four servers behind nginx on one PostgreSQL, kill one every ten seconds, crash the database and fail over to its replica: lost notes, calls a second (SOAK_SECONDS)
	$(BIN)/python -m benchmarks.soak_postgres $(if $(SOAK_SECONDS),--seconds $(SOAK_SECONDS)) $(ARGS)

soak-tests: setup ## Run the tests with every exhaustive case; `make test` runs a sample of them
	MEMORY_MCP_SOAK=1 $(PYTEST) $(ARGS)

soak: setup ## Run 64 clients over HTTP and stdio, pages and sync on one server for 30 minutes: errors, lost writes, memory, handles, disk (SOAK_SECONDS)
	$(BIN)/python -m benchmarks.soak $(ARGS)

soak-sync: setup ## Run three nodes and a hub for ten minutes: cut links, kill -9, wrong clocks, 429 (SECONDS)
	$(BIN)/python -m benchmarks.soak_sync $(if $(SECONDS),--seconds $(SECONDS)) $(ARGS)

chaos: setup ## Kill, cut power, jump clocks, hang engines, interrupt upgrades: what is lost, per class of fault (KILLS, default 1,000)
	$(BIN)/python -m benchmarks.chaos $(if $(KILLS),--kills $(KILLS)) $(ARGS)

chaos-peers: setup ## Kill other memory servers and ours, and let eight clients write at once: what each loses (KILLS; needs the package registries once)
	$(BIN)/python -m benchmarks.chaos.peers $(if $(KILLS),--kills $(KILLS)) $(ARGS)

soak-shared: setup ## Kill the shared server 200 times while eight clients write, and replace it by newer versions (KILLS)
	$(BIN)/python -m benchmarks.soak_shared $(if $(KILLS),--kills $(KILLS)) $(ARGS)

shared-tests: setup ## Run the tests of stdio through relays and shared servers
	MEMORY_MCP_TEST_SHARED=1 $(PYTEST) tests/server/test_stdio.py tests/services/sessions tests/test_many_processes.py tests/server/test_fuzz.py $(ARGS)

attack: setup ## Attack the server in every class, with 100,000 generated portal escapes, and count attempts (ARGS="--statements N")
	$(BIN)/python -m tests.attacks $(ARGS)

soak-hostile: setup ## Run a tenant beside one that attacks the server for two minutes: p95, errors, memory (SECONDS)
	$(BIN)/python -m benchmarks.soak_hostile $(if $(SECONDS),--seconds $(SECONDS)) $(ARGS)

soak-portals: setup ## Kill the engine of a portal 30 times while rows are written
	MEMORY_MCP_SOAK_ROUNDS=30 $(BIN)/python -m pytest tests/families/portals/test_processes.py -k killed $(ARGS)

soak-fuzz: setup ## Send 10,000 bad messages over each transport (MEMORY_MCP_FUZZ_SEED chooses others)
	MEMORY_MCP_FUZZ_MESSAGES=10000 $(BIN)/python -m pytest -n 2 tests/server/test_fuzz.py $(ARGS)

fuzz: .venv/.fuzz ## Fuzz every parser with atheris for 15 minutes, guided by coverage (SECONDS); inputs that fail join tests/fuzz/corpus
	$(BIN)/python -m tests.fuzz $(if $(SECONDS),--seconds $(SECONDS)) $(ARGS)

.venv/.fuzz: $(STAMP) requirements-fuzz.txt
	@$(PIP) --require-hashes -r requirements-fuzz.txt
	@touch $@

sbom: .venv/.sbom ## Write a software bill of materials (CycloneDX) of everything that a user installs, with hashes, to dist/
	$(BIN)/python -m tools.sbom

.venv/.sbom: $(STAMP) requirements-sbom.txt
	@$(PIP) --require-hashes -r requirements-sbom.txt
	@touch $@

soak-sync-model: setup ## Run 2,000 random sequences of nodes and a hub that lose, repeat, restore and clone data (MEMORY_MCP_SYNC_EXAMPLES)
	MEMORY_MCP_SYNC_EXAMPLES=$${MEMORY_MCP_SYNC_EXAMPLES:-2000} $(BIN)/python -m pytest tests/services/sync/test_convergence.py tests/services/sync/test_stories.py $(ARGS)

static: setup ## Check format, lint, types and generated docs; if Node is installed, the same and unit tests for ui/
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m tools.make_docs --check
	$(BIN)/python -m tools.ui --lint

ui: setup ## Generate the API types, format and build the web app and the viewer from ui/ (needs Node 20.19, and npm once)
	$(BIN)/python -m tools.ui

ui-check: setup ## Check that the committed web app matches ui/; if Node is installed, by building it
	$(BIN)/python -m tools.ui --check --rebuild

pictures: setup ## Take the pictures of the web app and record the terminal in docs/pictures again
	$(BIN)/python -m tests.web.pictures
	$(BIN)/python -m tools.recording

check: static ui-check test ## Run everything that CI runs

format: setup ## Format the code and generate the docs again
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/python -m tools.make_docs

bench: setup ## Measure speed, as ratios within one run
	$(BIN)/python -m benchmarks.vault $(ARGS)

bench-start: setup ## Measure a client's start, its calls and memory through the shared server, next to peers (needs the npm registry once)
	$(BIN)/python -m benchmarks.start $(ARGS)

bench-notes: setup ## Measure the notes: search, writing, memory, at 1k, 10k and 100k notes
	$(BIN)/python -m benchmarks.notes $(ARGS)

bench-postgres: setup ## Measure notes in PostgreSQL next to notes in SQLite (SIZES)
	$(BIN)/python -m benchmarks.postgres $(if $(SIZES),--sizes $(SIZES)) $(ARGS)

bench-scale: setup ## Measure what a row and a call cost in PostgreSQL, for docs/scale.md
	$(BIN)/python -m benchmarks.scale $(ARGS)

bench-home: setup ## Measure the requests of the web app's Home page, with 100, 10k and 100k notes
	$(BIN)/python -m benchmarks.home $(ARGS)

bench-web: setup ## Measure the web app in a Chromium on a throttled connection, with 100k notes: bytes, time, frames
	$(BIN)/python -m benchmarks.web $(ARGS)

bench-agents: setup ## Run 60 tasks of an agent: which first calls are refused, which tasks are solved, tokens
	$(BIN)/python -m benchmarks.agents $(ARGS)

bench-graph: setup ## Measure graphs next to @modelcontextprotocol/server-memory (needs the npm registry once)
	$(BIN)/python -m benchmarks.graph $(ARGS)

bench-stores: setup ## Measure stores next to plain file system calls, at 1k, 10k and 100k files
	$(BIN)/python -m benchmarks.stores $(ARGS)

bench-portals: setup ## Measure portals next to bare chDB and to SQLite
	$(BIN)/python -m benchmarks.portals $(ARGS)

bench-sync: setup ## Measure syncing next to writing, of 10k and 100k notes
	$(BIN)/python -m benchmarks.sync $(ARGS)

bench-growth: setup ## Measure searches, memory and disk from 1k to 1M memories (LOCOMO_PATH; ARGS="--sizes 1000 10000")
	$(BIN)/python -m benchmarks.growth $(ARGS)

bench-vectors: setup ## Measure exact vector search and its alternatives beyond 100k notes
	$(BIN)/python -m benchmarks.vectors $(ARGS)

bench-everywhere: setup ## Measure what one search over all families finds, on LoCoMo (LOCOMO_PATH)
	$(BIN)/python -m benchmarks.everywhere $(ARGS)

bench-answers: setup ## Measure whether answers hold the evidence, on LoCoMo (LOCOMO_PATH)
	$(BIN)/python -m benchmarks.answers $(ARGS)

bench-by-itself: setup ## Measure what hooks put in front of a model, on LoCoMo (LOCOMO_PATH)
	$(BIN)/python -m benchmarks.by_itself $(ARGS)

bench-recall: setup ## Measure recall of the search in notes, on LoCoMo (LOCOMO_PATH)
	$(BIN)/python -m benchmarks.recall $(ARGS)

bench-retrieval: setup ## Measure recall of the search in notes on other public sets (ARGS="--beir FOLDER", ARGS="--realtalk FOLDER")
	$(BIN)/python -m benchmarks.retrieval $(ARGS)

bench-install: setup ## Measure each way to install, and other memory servers in the same run (needs the package registries)
	$(BIN)/python -m benchmarks.install $(ARGS)

bench-peers: setup ## Measure ours next to nine other memory servers with the same work (LOCOMO_PATH; needs the package registries once)
	$(BIN)/python -m benchmarks.peers $(ARGS)

dist: setup ## Build the wheel and the source distribution into dist/
	$(BIN)/python -m tools.distribution

bundle: setup ## Build the MCP bundle for desktop clients, dist/five-memories-VERSION.mcpb
	$(BIN)/python -m tools.bundle

conformance: setup ## Run the official conformance suite and MCP Inspector against the server (needs the npm registry once)
	$(BIN)/python -m tests.compatibility.conformance $(ARGS)

old-clients: setup ## Run real clients of older SDKs, each in an environment of its own
	$(BIN)/python -m tests.compatibility.old_clients $(ARGS)

foreign-tools: setup ## Import files that the foreign tools themselves wrote (needs the npm and PyPI registries once)
	$(BIN)/python -m tests.importers.foreign_tools $(ARGS)

install-check: setup ## Execute the Dockerfile, the README and the steps for systemd, and install the wheel in every way with every Python here (needs the package registries)
	MEMORY_MCP_SOAK=1 $(BIN)/python -m pytest tests/deploy/test_image.py tests/deploy/test_service.py tests/install
	$(BIN)/python -m tests.install.matrix $(ARGS)

lint-kubernetes: setup ## Check deploy/kubernetes.yaml against the schemas of Kubernetes (needs the package registry)
	$(BIN)/uv tool run kubernetes-validate --strict -k 1.34.0 deploy/kubernetes.yaml

lock: setup ## Pin the newest versions of the dependencies
	$(PIN) -o requirements.txt
	$(PIN) --extra portals -c requirements.txt -o requirements-portals.txt
	$(PIN) --extra postgres -c requirements.txt -o requirements-postgres.txt
	$(PIN) --extra clickhouse -c requirements.txt -o requirements-clickhouse.txt
	$(PIN) --extra portals --extra postgres --extra clickhouse --group dev -o requirements-dev.txt
	$(PIN) --extra portals --group run -c requirements-dev.txt -o requirements-run.txt
	$(COMPILE) --group pyproject.toml:build -c requirements-dev.txt -o requirements-build.txt
	$(COMPILE) --group pyproject.toml:fuzz -c requirements-dev.txt -o requirements-fuzz.txt
	$(COMPILE) --group pyproject.toml:sbom -c requirements-dev.txt -o requirements-sbom.txt

.PHONY: $(shell sed -n 's/^\([a-z-]*\):.*/\1/p' Makefile)
