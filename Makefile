# Every target sets up what it needs: a virtual environment in .venv with the pinned versions of requirements.txt.
PYTHON ?= python3.11
BIN := .venv/bin
READY := .venv/.ready
# Threads inside a test process; the tests themselves run in parallel.
JOBS ?= 2

# Mutants: so many, drawn by the seed (each commit draws others), or one by name; all of them if neither is given.
SAMPLE ?=
ONLY ?=
SEED ?= $(shell git rev-list --count HEAD 2>/dev/null || echo 0)

.PHONY: help demo test mutants lint types reproduce results docs bench clean

help:
	@echo "make demo   a private recommender on made-up data, from ratings to a checked release"
	@echo "make test   the tests"
	@echo "make mutants  seeded privacy bugs, and which test finds each (SAMPLE=3: some of them; ONLY=name: one)"
	@echo "make lint   ruff         make types  pyright"
	@echo "make docs   the documentation as a site, in site/"
	@echo "make bench  speed against peers, in one run"
	@echo "make reproduce  the papers' experiments in their quick form, each with a verdict"

$(READY): requirements.txt pyproject.toml lab/pyproject.toml
	@echo "==> Setting up .venv (once; a minute or two)"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable . --editable lab
	@touch $(READY)

demo: $(READY)
	@echo "==> lowkey demo"
	@$(BIN)/lowkey demo

test: $(READY)
	@echo "==> Tests"
	@$(BIN)/python -m pytest -n $(JOBS) --dist loadgroup

mutants: $(READY)
	@echo "==> Mutants: seeded privacy bugs, and the tests that find them"
	@$(BIN)/python tests/mutants/run.py --jobs $(JOBS) \
		$(if $(SAMPLE),--narrow --sample $(SAMPLE) --seed $(SEED)) $(if $(ONLY),--only $(ONLY))

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

bench: $(READY)
	@echo "==> Speed against peers (same run, same machine)"
	@for script in benchmarks/speed/*.py; do echo "--- $$script"; $(BIN)/python $$script; done

clean:
	rm -rf .venv
