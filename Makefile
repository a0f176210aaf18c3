# From a fresh clone: `make demo` runs the main job, `make test` proves it. Both set everything up.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# More processes than cores are quicker by a minute, and then tests of real workers with real clocks may fail.
WORKERS ?= auto
SPREAD = -n $(WORKERS) --dist loadfile --no-loadscope-reorder
# What covers log and folds; to count lines of the other rings, too, would take half as long again.
CORE := tests/rules tests/store tests/model

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
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/pytest $(SPREAD) --cov --cov-report=term $(CORE)
	$(BIN)/pytest $(SPREAD) $(CORE:%=--ignore=%)

# The tests of the live page drive a real browser; where it cannot be installed they fail and say how to get it.
browser:
	@command -v chromium >/dev/null || test "$$(id -u)" != 0 || ! command -v apt-get >/dev/null \
	  || { apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium >/dev/null; } || true

fix: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

soak: $(STAMP)
	LEDGER_SOAK=$${LEDGER_SOAK:-300} $(BIN)/pytest tests/processes/test_soak.py tests/store/test_many_writers.py

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
