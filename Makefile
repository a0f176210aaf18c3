# From a fresh clone: `make demo` runs the main job, `make test` proves it. Both set everything up.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# A process a core: one more is quicker by a minute, and leaves real workers with real clocks less room.
WORKERS ?= $(shell getconf _NPROCESSORS_ONLN)
SPREAD = -n $(WORKERS) --dist worksteal
# What covers log and folds; to count lines of the other rings, too, would take half as long again.
CORE := tests/rules tests/store tests/model
# The longest walks of these take twice as long where lines are counted, and reach none that the others do not.
WALKS := $(patsubst %,tests/rules/test_%.py,every_state laws_can_fail properties walk_can_fail why_law)
COUNTED := $(filter-out $(WALKS),$(wildcard $(CORE:%=%/test_*.py)))
# Bytecode is kept, also where the environment says otherwise: hundreds of processes are started.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test browser fix soak bench bench-peers screenshots clean
.DEFAULT_GOAL := test

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $(STAMP)

demo: $(STAMP)
	$(BIN)/ledger demo

test: $(STAMP) browser
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@# While one core looks at types, the other writes the bytecode of all tests, for every process of pytest.
	$(BIN)/pytest --collect-only -q >/dev/null 2>&1 & $(BIN)/mypy; found=$$?; wait; exit $$found
	$(BIN)/lint-imports --no-logo
	$(BIN)/pytest $(SPREAD) --cov --cov-report=term $(COUNTED)
	$(BIN)/pytest $(SPREAD) $(COUNTED:%=--ignore=%)

# The tests of the live page drive a real browser; where it cannot be installed they fail and say how to get it.
browser:
	@command -v chromium >/dev/null || test "$$(id -u)" != 0 || ! command -v apt-get >/dev/null \
	  || { apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium >/dev/null; } || true

fix: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

soak: $(STAMP)
	LEDGER_SOAK=$${LEDGER_SOAK:-300} $(BIN)/pytest --timeout=0 tests/processes/test_soak.py tests/store/test_many_writers.py

# What is fast, beside its target: benchmarks/README.md. ROWS=commands,replay picks, LEDGER_BENCH_SCALE=0.1 scales.
bench: $(STAMP)
	$(BIN)/python -m benchmarks.run $(ROWS)

bench-peers: $(STAMP)
	$(BIN)/python -m benchmarks.run --peers $(ROWS)

# The pictures of the README, of a board that is made for them.
screenshots: $(STAMP) browser
	$(BIN)/python -m tests.browser.screenshots

clean:
	rm -rf $(VENV) .bench .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage
