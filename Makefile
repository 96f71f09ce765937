# Everything happens in .venv; a stamp file tells whether the program, or also its developers' tools, are up to date.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PROGRAM := $(VENV)/.program
STAMP := $(VENV)/.installed
COMPILED := $(VENV)/.compiled
SOURCES = $(shell find actions assets blueprints tests tui -name '*.py')

# Where it is set, every start of a program compiles our modules anew, and every worker of pytest all tests.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test integration durations snapshots check lint types layers lock release reference site pictures clean bench realcluster realnode schedules fuzz
.DEFAULT_GOAL := help

help:  ## what there is
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

LOCK = $(BIN)/pip-compile --quiet --generate-hashes --allow-unsafe --strip-extras --no-header --no-emit-index-url \
	--no-emit-trusted-host --no-emit-find-links --no-annotate $(ARGS)
# Modules are compiled when they are first imported: most of what is installed never is.
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile

$(PROGRAM): requirements.lock pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) --require-hashes -r requirements.lock
	$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@

$(STAMP): $(PROGRAM) requirements-dev.lock
	$(PIP) --require-hashes -r requirements.lock -r requirements-dev.lock
	@touch $@

demo: $(PROGRAM)  ## the console on the embedded cluster; without a terminal, the BioNeMo rehearsal
	@if [ -t 0 ] && [ -t 1 ]; then exec $(BIN)/eksml-tui --demo; \
	else exec $(BIN)/eksml-tui --demo --script assets/scripts/bionemo-esm1nv.yaml --report - --artifacts $(VENV)/demo; fi

# What is tried in pieces, and what is tried as a whole: lives of runs on embedded clusters, under faults, with Terraform.
PARTS := tests/contract tests/snapshots tests/terminal tests/unit tests/upstream
WHOLES := $(filter-out $(PARTS),$(patsubst %/__init__.py,%,$(wildcard tests/*/__init__.py)))
PYTEST := $(BIN)/python -m pytest --dist loadfile --no-loadscope-reorder

# Ahead and once, not by each worker: collecting makes pytest's own form of the tests. What fails here fails in a test.
collect = $(BIN)/python -m pytest --collect-only --quiet $(1) >/dev/null 2>&1
$(COMPILED): $(STAMP) $(SOURCES)
	@$(BIN)/python -m compileall -q -j 2 -x '/test_[^/]*$$' actions assets blueprints tests tui || true
	@touch $@
$(COMPILED)-parts: $(COMPILED)
	@$(call collect,tests/unit/[g-z]*) & $(call collect,$(filter-out tests/unit,$(PARTS)) tests/unit/[a-f]*); wait
	@touch $@
$(COMPILED)-wholes: $(COMPILED)
	@$(call collect,$(WHOLES)) || true
	@touch $@

# Each worker collects all tests of its command, ten seconds for those of parts, and most of what these do is computing.
# With five, two cores are idle for a hundredth of the time. The tests of wholes wait most of the time for each other's
# processes: with eight workers, two cores were idle for an eighth of it. More of them make what is waited for late.
test: $(COMPILED)-parts  ## the tests of parts, of rules, of every screen, and of the console in a terminal
	$(PYTEST) --numprocesses 5 $(PARTS)

integration: $(COMPILED)-wholes  ## the tests of whole runs: on embedded clusters, under faults, with Terraform
	$(PYTEST) --numprocesses 8 $(WHOLES)

durations: $(COMPILED)-parts $(COMPILED)-wholes  ## write tests/support/durations.json anew, by which the longest tests start first
	RECORD_DURATIONS=1 $(PYTEST) --numprocesses 10

snapshots: $(STAMP)  ## write the screens in tests/snapshots anew, to be reviewed with git diff
	UPDATE_SNAPSHOTS=1 $(BIN)/python -m pytest tests/snapshots

check: lint types layers site test integration  ## what CI runs

lint: $(STAMP)  ## format, lint
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(STAMP)  ## mypy --strict
	$(BIN)/mypy

layers: $(STAMP)  ## who may import whom
	$(BIN)/lint-imports

lock: $(STAMP)  ## write both lock files anew from pyproject.toml: of the program, and what its developers need beside it; ARGS=--upgrade for the newest
	$(PIP) pip-tools
	$(LOCK) --extra demo --build-deps-for wheel --output-file requirements.lock pyproject.toml
	$(LOCK) --extra dev --constraint requirements.lock --output-file requirements-dev.lock pyproject.toml
	@grep --line-regexp --fixed-strings --invert-match --file requirements.lock requirements-dev.lock > $(VENV)/dev.lock
	@mv $(VENV)/dev.lock requirements-dev.lock

# The same bytes from the same commit, whenever and wherever: times in both archives are the commit's.
release: export SOURCE_DATE_EPOCH = $(shell git log -1 --format=%ct)
release: $(STAMP)  ## wheel, sdist, the list of what they need (CycloneDX) and checksums, in dist
	rm -rf dist
	$(BIN)/python -m build --no-isolation
	sed "s/^dynamic = .*/version = \"$$($(BIN)/eksml-tui --version | cut -d' ' -f2)\"/" pyproject.toml > $(VENV)/release.toml
	$(BIN)/cyclonedx-py requirements requirements.lock --pyproject $(VENV)/release.toml --output-reproducible \
		--output-file dist/eksml-tui.cdx.json
	cd dist && sha256sum * > SHA256SUMS

reference: $(STAMP)  ## docs/keys.md, docs/command-line.md and docs/blueprint-keys.md anew from their tables
	$(BIN)/python -P -c "from actions.blueprint.structure.key_reference import reference_page; print(reference_page(), end='')" \
		> docs/blueprint-keys.md
	$(BIN)/python -P -c "from tui.settings.keys import keys_page; print(keys_page(), end='')" > docs/keys.md
	$(BIN)/python -P -c "from tui.cli.manual.page import command_line_page; print(command_line_page(), end='')" > docs/command-line.md

site: $(STAMP)  ## the documentation as a site in .venv/site; a link that leads nowhere fails
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

pictures: $(STAMP)  ## the pictures of the README anew, on the embedded cluster
	rm -rf $(VENV)/pictures $(VENV)/pictures-state
	for script in assets/scripts/pictures/*.yaml; do \
		XDG_STATE_HOME=$(CURDIR)/$(VENV)/pictures-state $(BIN)/eksml-tui --demo --speed 6 --script $$script --artifacts $(VENV)/pictures || exit 1; \
	done
	$(BIN)/python -m tests.support.pictures $(VENV)/pictures docs/pictures

bench: $(STAMP)  ## the whole program in numbers, as JSON; ARGS="--kubeconfig FILE --nodes N" for a real cluster
	@$(BIN)/python -m tests.bench $(ARGS)

schedules: $(STAMP)  ## lives of a small run under seeded faults; ARGS="--seeds 0-199 --summary FILE"
	@$(BIN)/python -m tests.schedules $(ARGS)

fuzz: $(STAMP)  ## changed samples for every reader of files, four minutes; ARGS="--seconds 900 --seed 7 --only why"
	@$(BIN)/python -m tests.fuzz --keep $(VENV)/fuzz $(ARGS)

realcluster: $(STAMP)  ## the tests that also hold on a real control plane, on one; needs go; ONLY="and not llama2" for some
	@if command -v go >/dev/null; then exec $(BIN)/python -m tests.realcluster.harness run \
		$(BIN)/python -m pytest tests/flow tests/realcluster -k "real $(ONLY)"; \
	else echo "realcluster: skipped, go is not on PATH"; fi

realnode: $(STAMP)  ## lives, failures and long things on real nodes, and the sandbox beside them; needs root, go and containerd; ONLY="and failures" for some, TODAY=--today with the jobs of today
	@if command -v go >/dev/null; then exec $(BIN)/python -m tests.realnode.harness run $(TODAY) \
		$(BIN)/python -m pytest tests/realnode -k "test $(ONLY)"; \
	else echo "realnode: skipped, go is not on PATH"; fi

clean:  ## remove what make made
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache dist
