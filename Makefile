# Every target sets up what it needs: a virtual environment beside this file, nothing else on the machine.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
# What is installed is what was pinned, byte by byte, and nothing of it is built here.
PINNED := -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary=:all:
COMPILE = $(BIN)/uv pip compile -q --upgrade --generate-hashes --no-emit-index-url --no-header

.DEFAULT_GOAL := help
.PHONY: help run test quick check format testbed long image release supply reference docs clean

help: ## list the targets
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
		'  $(BIN)/windlass simulate                   the other scenarios' \
		'  $(BIN)/windlass simulate burst --record burst.rec' \
		'  $(BIN)/windlass status --recording burst.rec --at 20m      the status then; explain gives the reasons' \
		'  $(BIN)/windlass simulate zone-outage --compare "--expander=least-nodes"' \
		'  $(BIN)/windlass fit examples/cluster.yaml  which pods fit where, and why the others do not'; \
	exit $$code

test: check ## everything that must hold: lint, types, import contracts, tests, recorded verdicts
	@$(BIN)/python -m testbed build --if-possible
	@$(BIN)/python -m pytest -n auto --dist loadgroup || $(BIN)/python -m tests.flaky_rerun

quick: check ## lint, types and the fast unit tests, in under a minute
	@$(BIN)/python -m pytest -n auto $(QUICK)

# Whole packages of unit tests that need no process and no server. With `check` they take about a minute of CPU time.
QUICK := tests/cel tests/regexp $(addprefix tests/engine/,actuation capacity_apis cluster_state drainability expanders \
	predicates scale_down scale_up snapshot)

check: $(READY) ## ruff, mypy --strict and the contracts between packages
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

format: $(READY) ## format the code with ruff
	@$(BIN)/ruff check --fix-only --quiet .
	@$(BIN)/ruff format --quiet .

testbed: $(READY) ## build the real control plane that tests run on, once per version (needs Go)
	@$(BIN)/python -m testbed build

long: $(READY) ## longer tests, one KIND at a time; without KIND it lists them
	@case "$(KIND)" in \
	bench) for name in $$($(BIN)/python -m benchmarks --list); do $(BIN)/python -m benchmarks $$name || exit 1; done ;; \
	alerts) $(BIN)/python -m tools promtool && $(BIN)/python -m pytest tests/docs/test_alerts.py ;; \
	chaos) $(BIN)/python -m tests.chaos --days $(or $(DAYS),1000) --first $(or $(FIRST),0) $(if $(JOBS),--jobs $(JOBS)) ;; \
	conformance) $(BIN)/python -m tests.conformance $(or $(VECTORS),$(addprefix ../shared/vectors/,scheduler tables autoscaler autoscaler-more controllers machinepool)) \
		$(if $(VECTORS),,&& $(BIN)/python -m tests.conformance --release 1.37 ../shared/vectors/scheduler-1.37) ;; \
	coverage) $(BIN)/python $(PINNED) -r requirements/audit.txt && mkdir -p build && \
		$(BIN)/python -m coverage run -m pytest -n 0 -x $(or $(COVERED),tests/engine) && \
		$(BIN)/python -m coverage report --include='src/windlass/$(or $(PACKAGE),engine)/*' --fail-under=$(or $(LEAST),95) ;; \
	differential) $(BIN)/python -m tests.differential --seeds $(or $(SEEDS),20) ;; \
	image) WINDLASS_IMAGE_TWICE=1 $(BIN)/python -m pytest tests/install/test_built_image.py ;; \
	malformed-objects) WINDLASS_EXPLORE=$(or $(EXPLORE),20) $(BIN)/python -m pytest tests/malformed_objects ;; \
	mutants) $(BIN)/python -m tests.mutation $(if $(ROOM),--room $(ROOM)) $(if $(PIECE),--piece $(PIECE)) ;; \
	outages) $(BIN)/python -m testbed build --if-possible && export WINDLASS_OUTAGES=1 && \
		{ $(BIN)/python -m pytest tests/e2e/test_outages.py || $(BIN)/python -m tests.flaky_rerun; } ;; \
	pythons) $(BIN)/python -m tests.install.pythons $(PYTHONS) ;; \
	races) WINDLASS_RACES=$(or $(RACES),1000) $(BIN)/python -m pytest tests/controllers/openshift/machineset_sync/test_controller_races.py ;; \
	soak) $(BIN)/python -m tests.chaos.soak --days $(or $(DAYS),7) ;; \
	stories) $(BIN)/python -m tests.shipped_scenarios $(STORIES) ;; \
	sweeps) $(BIN)/python -m tests.sweep --runs $(or $(RUNS),200) ;; \
	*) printf '%s\n' 'make long KIND=...' \
		'  alerts             alerts on series of their own, with promtool (needs Go, once)' \
		'  bench              measurements: one JSON object per benchmark' \
		'  chaos              a thousand days on which everything fails, in virtual time (DAYS=1000; FIRST=0; JOBS=one per core)' \
		'  conformance        every recorded verdict and decision of the real components (VECTORS=path)' \
		'  coverage           lines and branches of a package that its tests reach (PACKAGE=engine; COVERED=tests/engine; LEAST=95, percent)' \
		'  differential       random clusters against the real kube-scheduler filters of each release (needs Go; SEEDS=20)' \
		'  image              the image twice, from packages downloaded anew: the same bytes (needs the network)' \
		'  malformed-objects  malformed input of every kind, other examples each time (EXPLORE=20)' \
		'  mutants            change drain rules and predicates in one place: does a test fail? (ROOM=drainability; PIECE=1/4)' \
		'  outages            servers that go and come back, on the real control plane (some minutes)' \
		'  pythons            the wheel and the engine'"'"'s tests on every Python from 3.11 on that is here (PYTHONS=interpreters)' \
		'  races              a thousand histories of MachineSets with concurrent writers (RACES=1000)' \
		'  soak               a week of three hundred nodes in one process: memory, tasks and watches stay flat (DAYS=7)' \
		'  stories            every scenario, twice, and decided again from its recording (STORIES=names)' \
		'  sweeps             a sweep of 200 runs with workers that die (RUNS=200)'; \
		exit 2 ;; \
	esac

image: $(READY) ## build the container image in dist/, without a container engine (needs apt and dpkg)
	@$(BIN)/python -m tools image

release: $(READY) ## gather a version in dist/: wheel, sdist, image, chart, kubectl plugin, SBOMs, checksums
	@$(BIN)/python -m tools release

supply: $(READY) ## the supply chain: KIND=licences|sbom|audit|requirements
	@case "$(KIND)" in \
	licences) $(BIN)/python -m tools licences ;; \
	sbom) $(BIN)/python $(PINNED) -r requirements/audit.txt && $(BIN)/python -m tools sbom dist/windlass.cdx.json && \
		$(BIN)/python -m tests.supply_chain dist/*.cdx.json ;; \
	audit) $(BIN)/python $(PINNED) -r requirements/audit.txt && $(BIN)/python -m tools audit ;; \
	requirements) $(BIN)/python -m pip install --quiet --disable-pip-version-check uv && \
		$(COMPILE) pyproject.toml -o requirements/runtime.txt && \
		$(COMPILE) pyproject.toml --extra dev -o requirements/dev.txt && \
		$(COMPILE) pyproject.toml --extra docs -c requirements/dev.txt -o requirements/docs.txt && \
		$(COMPILE) pyproject.toml --extra audit -c requirements/dev.txt -o requirements/audit.txt && \
		$(COMPILE) pyproject.toml --extra grpc -c requirements/dev.txt -o requirements/image.txt && \
		$(COMPILE) --group build -c requirements/dev.txt -o requirements/build.txt ;; \
	*) echo 'make supply KIND=licences (of every dependency), sbom (CycloneDX 1.6, in dist/), audit (known vulnerabilities), requirements (compile the pinned versions anew)'; exit 2 ;; \
	esac

reference: $(READY) ## write docs/reference and deploy/rbac anew from the code
	@$(BIN)/python -m tools

docs: $(READY) ## build the documents as a site, in site/; a link that leads nowhere fails it
	@$(BIN)/python $(PINNED) -r requirements/docs.txt
	@$(BIN)/python -m tools
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet && echo "Open site/index.html in a browser."

clean: ## remove what make created
	@rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist site
