# Every target sets up what it needs: a virtual environment beside this file, nothing else on the machine.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
# What is installed is what was pinned, byte by byte, and nothing of it is built here.
PINNED := -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary=:all:
COMPILE = $(BIN)/uv pip compile -q --upgrade --generate-hashes --no-emit-index-url --no-header

.DEFAULT_GOAL := help
.PHONY: help run stories sweeps test testbed check format bench conformance fuzz races chaos outages inputs soak reference docs alerts licences sbom audit coverage mutants requirements clean

help: ## what can be done here
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(READY): requirements/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "windlass needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) -V 2>&1). Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@echo "setting up $(VENV) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python $(PINNED) -r requirements/dev.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

run: $(READY) ## try it: a day of 300 nodes and 5,000 pods in a minute or two, with the real autoscaler in it
	@$(BIN)/windlass simulate day --report report.html; code=$$?; \
	printf '%s\n' '' 'Open report.html in a browser: every decision is on its timeline, with the reason.' 'Try next:' \
		'  $(BIN)/windlass simulate                   the other stories' \
		'  $(BIN)/windlass simulate burst --record burst.rec' \
		'  $(BIN)/windlass status --recording burst.rec --at 20m      how it stood then; explain says why' \
		'  $(BIN)/windlass simulate zone-outage --compare "--expander=least-nodes"' \
		'  $(BIN)/windlass fit examples/cluster.yaml  which pods fit where, and why the others do not'; \
	exit $$code

stories: $(READY) ## every scenario: as expected, the same bytes twice, and decided again from its recording (STORIES=names)
	@$(BIN)/python -m tests.stories $(STORIES)

sweeps: $(READY) ## a sweep of 200 runs: a worker killed, interrupted twice, on three Dask workers; the same table (RUNS=200)
	@$(BIN)/python -m tests.sweep --runs $(or $(RUNS),200)

test: check ## everything that must hold: lint, types, room contracts, tests, recorded verdicts
	@$(BIN)/python -m testbed build --if-possible
	@$(BIN)/python -m pytest -n auto --dist loadgroup || $(BIN)/python -m tests.again

testbed: $(READY) ## build the real control plane that tests run on, once per version (needs Go)
	@$(BIN)/python -m testbed build

check: $(READY) ## ruff, mypy --strict and the contracts between rooms
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

format: $(READY) ## let ruff lay out the code
	@$(BIN)/ruff check --fix-only --quiet .
	@$(BIN)/ruff format --quiet .

bench: $(READY) ## measure: one JSON object per benchmark
	@for name in $$($(BIN)/python -m benchmarks --list); do $(BIN)/python -m benchmarks $$name || exit 1; done

conformance: $(READY) ## every recorded verdict of the real schedulers, autoscaler and controllers (VECTORS=path)
	@$(BIN)/python -m tests.conformance $(or $(VECTORS),$(addprefix ../shared/vectors/,scheduler tables autoscaler autoscaler-more controllers machinepool))
	@$(if $(VECTORS),,$(BIN)/python -m tests.conformance --release 1.37 ../shared/vectors/scheduler-1.37)

fuzz: $(READY) ## fresh random clusters against the real kube-scheduler filters of each release (needs Go; SEEDS=20)
	@$(BIN)/python -m tests.fuzz --seeds $(or $(SEEDS),20)

races: $(READY) ## a thousand histories of OpenShift's MachineSets with everyone writing at once (RACES=1000)
	@WINDLASS_RACES=$(or $(RACES),1000) $(BIN)/python -m pytest tests/controllers/openshift/machineset_sync/test_races.py

chaos: $(READY) ## a thousand days on which everything goes wrong, in virtual time (DAYS=1000; FIRST=0; JOBS=one per core)
	@$(BIN)/python -m tests.chaos --days $(or $(DAYS),1000) --first $(or $(FIRST),0) $(if $(JOBS),--jobs $(JOBS))

outages: $(READY) ## servers that go and come back, and a leader that stands still, on the real control plane (some minutes)
	@$(BIN)/python -m testbed build --if-possible
	@export WINDLASS_OUTAGES=1; $(BIN)/python -m pytest tests/e2e/test_outages.py || $(BIN)/python -m tests.again

inputs: $(READY) ## what comes from outside, bent in every way: other examples each time, many more than in `make test` (EXPLORE=20)
	@WINDLASS_EXPLORE=$(or $(EXPLORE),20) $(BIN)/python -m pytest tests/fuzzing

soak: $(READY) ## a week of three hundred nodes in one process: memory, tasks and watches stay as they are (DAYS=7)
	@$(BIN)/python -m tests.chaos.soak --days $(or $(DAYS),7)

reference: $(READY) ## write docs/reference and deploy/rbac anew from the code
	@$(BIN)/python -m handbook

docs: $(READY) ## build the documents as a site, in site/; a link that leads nowhere fails it
	@$(BIN)/python $(PINNED) -r requirements/docs.txt
	@$(BIN)/python -m handbook
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet && echo "Open site/index.html in a browser."

alerts: $(READY) ## try the alerts on series of their own, with Prometheus' promtool (needs Go, once)
	@$(BIN)/python -m handbook promtool
	@$(BIN)/python -m pytest tests/docs/test_alerts.py

licences: $(READY) ## the licence of every dependency; one that will not do fails it
	@$(BIN)/python -m handbook licences

sbom: $(READY) ## the bill of materials, CycloneDX 1.6, in dist/; held to its schema
	@$(BIN)/python $(PINNED) -r requirements/audit.txt
	@$(BIN)/python -m handbook sbom dist/windlass.cdx.json
	@$(BIN)/python -m tests.supply dist/windlass.cdx.json

audit: $(READY) ## is anything known against a dependency? Error 1: yes; Error 3: the service could not be asked
	@$(BIN)/python $(PINNED) -r requirements/audit.txt
	@$(BIN)/python -m handbook audit

coverage: $(READY) ## lines and branches that tests reach, by package (COVERED=tests/engine)
	@$(BIN)/python $(PINNED) -r requirements/audit.txt
	@mkdir -p build
	@$(BIN)/python -m coverage run --branch --source=src/windlass --data-file=build/.coverage -m pytest -n 0 -x $(or $(COVERED),tests/engine)
	@$(BIN)/python -m coverage json -q --data-file=build/.coverage -o build/coverage.json && $(BIN)/python -m handbook coverage build/coverage.json

mutants: $(READY) ## change drain rules and predicates, one place at a time: does a test notice? (ROOM=drain; PIECE=1/4)
	@$(BIN)/python -m tests.mutation $(if $(ROOM),--room $(ROOM)) $(if $(PIECE),--piece $(PIECE))

requirements: $(READY) ## compile the pinned requirements anew
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	@$(COMPILE) pyproject.toml -o requirements/runtime.txt
	@$(COMPILE) pyproject.toml --extra dev -o requirements/dev.txt
	@$(COMPILE) pyproject.toml --extra docs -c requirements/dev.txt -o requirements/docs.txt
	@$(COMPILE) pyproject.toml --extra audit -c requirements/dev.txt -o requirements/audit.txt
	@$(COMPILE) pyproject.toml --extra grpc -c requirements/dev.txt -o requirements/image.txt
	@$(COMPILE) --group build -c requirements/dev.txt -o requirements/build.txt

clean: ## remove what make created
	@rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist site
