# Every target sets up what it needs: a virtual environment in .venv with the files of requirements.lock and no others.
PYTHON ?= python3.11
BIN := .venv/bin
READY := .venv/.ready
DEMO_READY := .venv/.demo-ready
# Threads inside a test process; the tests themselves run in parallel.
JOBS ?= 2

# Mutants: so many, drawn by the seed (each commit draws others), or one by name; all of them if neither is given.
SAMPLE ?=
ONLY ?=
SEED ?= $(shell git rev-list --count HEAD 2>/dev/null || echo 0)

# Where the figures of `make bench` go.
BENCH ?= /tmp/lowkey-bench.jsonl

# Hostile inputs: so many of each kind.
FUZZ ?= 5000
FAULTS ?= 1000
RACES ?= 200

.PHONY: help demo test year cluster mutants audit audit-mutants audit-tables lint types reproduce results docs bench clean hostile fuzz faults races lock sbom wheel

help:
	@echo "make demo   a private recommender on made-up data, from ratings to a checked release"
	@echo "make test   the tests"
	@echo "make year   52 weekly releases through the command line, with crashes and a lost state"
	@echo "make cluster  every method on Spark with separate executors, one of which is killed in every fit"
	@echo "make mutants  seeded privacy bugs, and which test finds each (SAMPLE=3: some of them; ONLY=name: one)"
	@echo "make audit  measured privacy beside the claims; audit-mutants: which layer finds which seeded bug;"
	@echo "            audit-tables: claims at four epsilons, false alarms of 200 audits, black-box attacks (an hour)"
	@echo "make lint   ruff         make types  pyright"
	@echo "make docs   the documentation as a site, in site/"
	@echo "make hostile  fuzzed folders and files, kills and full disks, races, in full, with figures (or: make fuzz, faults, races)"
	@echo "make lock   the hashes of requirements.txt   make sbom  what an installed lowkey consists of   make wheel  it, bit by bit"
	@echo "make bench  speed against peers, in one run, with one table at the end"
	@echo "make reproduce  the papers' experiments in their quick form"

# What the demo needs is what an installed lowkey needs; the rest comes on top of it where that is needed.
$(DEMO_READY): requirements-demo.lock pyproject.toml
	@echo "==> Setting up .venv for the demo (once; a minute)"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps --no-compile -r requirements-demo.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --no-compile --editable .
	@touch $(DEMO_READY)

$(READY): requirements.lock pyproject.toml lab/pyproject.toml
	@echo "==> Setting up .venv (once; a minute or two)"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable . --editable lab
	@touch $(READY)

demo: $(DEMO_READY)
	@echo "==> lowkey demo"
	@$(BIN)/lowkey demo

test: $(READY)
	@echo "==> Tests: about a quarter of an hour on two cores"
	@$(BIN)/python -m pytest -n $(JOBS) --dist loadgroup

year: $(READY)
	@LOWKEY_YEAR=52 $(BIN)/python -m pytest -q tests/journeys/test_refresh.py

cluster: $(READY)
	@LOWKEY_CLUSTER=1 $(BIN)/python -m pytest -q -s tests/privacy/test_local_cluster.py

mutants: $(READY)
	@echo "==> Mutants: seeded privacy bugs, and the tests that find them"
	@$(BIN)/python tests/mutants/run.py --jobs $(JOBS) \
		$(if $(SAMPLE),--narrow --sample $(SAMPLE) --seed $(SEED)) $(if $(ONLY),--only $(ONLY))

hostile: fuzz faults races

fuzz: $(READY)
	@echo "==> Fuzzed folders, ledgers, files and streams"
	@LOWKEY_FUZZ=$(FUZZ) LOWKEY_TEST_SEED=random $(BIN)/python -m pytest tests/hostile/test_folders.py tests/hostile/test_files.py tests/hostile/test_streams.py

faults: $(READY)
	@echo "==> Kills and full disks"
	@LOWKEY_FAULTS=$(FAULTS) $(BIN)/python -m pytest tests/hostile/test_faults.py

races: $(READY)
	@echo "==> Races for the last of a budget"
	@LOWKEY_RACES=$(RACES) $(BIN)/python -m pytest tests/hostile/test_races.py

lock:
	@$(BIN)/python tools/lock.py

sbom: $(READY)
	@$(BIN)/python tools/sbom.py

# The time in the archive is that of the last commit, so that anybody who builds it gets the same bytes.
wheel: $(READY)
	@SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(BIN)/python -m hatchling build -t wheel
	@sha256sum dist/*.whl

audit: $(READY)
	@$(BIN)/lowkey audit

audit-mutants: $(READY)
	@$(BIN)/python tests/mutants/audited.py --jobs $(JOBS) $(if $(ONLY),--only $(ONLY))

audit-tables: $(READY)
	@for table in claims alarms membership; do $(BIN)/python -m lowkey_lab.audit_tables $$table; done

lint: $(READY)
	@echo "==> ruff"
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .

types: $(READY)
	@echo "==> pyright"
	@$(BIN)/pyright

reproduce: $(READY)
	@echo "==> The papers' claims, quick form"
	@OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 NUMBA_NUM_THREADS=1 $(BIN)/lowkey reproduce all --quick --jobs $(JOBS)

docs: $(READY)
	@echo "==> Documentation"
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

results: $(READY)
	@$(BIN)/python -m lowkey_lab.results --figures
	@$(BIN)/python -m lowkey_lab.paper_pages --figures

bench: $(READY)
	@echo "==> Speed against peers (same run, same machine)"
	@rm -f $(BENCH)
	@for script in benchmarks/speed/*.py; do echo "--- $$script"; LOWKEY_BENCH=$(BENCH) $(BIN)/python $$script; done
	@echo "==> All targets"; $(BIN)/python -m lowkey_lab.speed $(BENCH)

clean:
	rm -rf .venv
