# Everything runs in .venv in this folder; `make venv` makes it and redoes it only when its inputs change.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.complete

.PHONY: help venv browser test lint types unit demo bench-overhead bench-accuracy bench-fixes bench-cure bench-prove bench-gain bench-input bench-automatic bench-shard bench-layers bench-folklore bench-check docs screenshot clean
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

help:  ## show this
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

venv: $(STAMP)  ## make .venv with everything the tests need

$(STAMP): pyproject.toml requirements/test.txt
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(None if (3, 10) <= v <= (3, 13) else \
	  f"fitdoctor needs Python 3.10 to 3.13, $(PYTHON) is {v[0]}.{v[1]}: make venv PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	@echo "Installing the frameworks the tests use; this takes a few minutes, once."
	$(BIN)/python -m pip install --quiet -e '.[dev]' -r requirements/test.txt
	@touch $@

browser: venv  ## Chromium for the tests of the HTML report; where it cannot be installed they are skipped
	@command -v chromium chromium-browser google-chrome >/dev/null 2>&1 || [ -n "$$FITDOCTOR_CHROMIUM" ] \
	  || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null \
	       && { apt-get install -qq -y chromium || { apt-get update -qq && apt-get install -qq -y chromium; }; } >/dev/null 2>&1; } \
	  || $(BIN)/playwright install chromium >/dev/null 2>&1 \
	  || echo "No Chromium could be installed: the browser tests will be skipped."

test: lint types unit  ## linters, type check, the whole test suite

lint: venv  ## ruff
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: venv  ## mypy
	$(BIN)/mypy

# What fails while another test takes a core beside it is run once more, alone; what fails then has failed.
unit: venv browser  ## pytest: two tests at a time, but those that compare times with the truth one after the other
	$(BIN)/python -m pytest -n 2 --dist worksteal --durations 25 --ignore tests/truth || { [ $$? -eq 1 ] \
	  && echo "UNSTABLE: the tests above failed beside others; once more, one at a time:" \
	  && $(BIN)/python -m pytest --last-failed --last-failed-no-failures none --ignore tests/truth; }
	$(BIN)/python -m pytest tests/truth || { [ $$? -eq 1 ] \
	  && echo "UNSTABLE: the tests above compare times on a machine that others use; once more:" \
	  && $(BIN)/python -m pytest --last-failed --last-failed-no-failures none tests/truth; }

demo: venv  ## the whole loop on an example: find what slows it down, fix it, prove it
	@mkdir -p build
	@cp examples/slow_eager.py build/demo.py
	cd build && ../$(BIN)/fitdoctor cure --fresh demo.py --epochs 50
	cd build && ../$(BIN)/fitdoctor report --format html > demo.html
	@echo "What was measured before the fix, to look at: build/demo.html"

bench-overhead: venv  ## what observing costs, interleaved with plain runs
	-$(BIN)/pip install --quiet traceml-ai
	$(BIN)/python benchmarks/overhead.py

bench-accuracy: venv  ## diagnose the corpus, compare with what the fixes really save, write docs/accuracy.md
	$(BIN)/python benchmarks/accuracy.py

bench-fixes: venv  ## let fitdoctor fix the slow scripts of the corpus, against those made fast by hand; after bench-accuracy
	$(BIN)/python benchmarks/fixes.py

bench-cure: venv  ## fitdoctor cure on five scripts of the corpus; writes the table in README.md
	$(BIN)/python benchmarks/cures.py

bench-prove: venv  ## ten proofs of the same against itself; what cure accepts, proved anew with another seed; writes docs/proofs.md
	$(BIN)/python benchmarks/proofs.py
	$(BIN)/python benchmarks/proofs.py --again

bench-gain: venv  ## measure the fast scripts of the corpus again, write their gains down
	$(BIN)/python benchmarks/measure_gain.py

bench-input: venv  ## fitdoctor.optimize against AUTOTUNE and against pipelines made fast by hand
	$(BIN)/python benchmarks/input_fixes.py

bench-automatic: venv  ## fitdoctor.optimize on the input pairs of the corpus, against their fast scripts
	$(BIN)/python benchmarks/automatic.py

bench-shard: venv  ## small files to shards: throughput, memory, and the same result after kills
	$(BIN)/python benchmarks/shard.py

bench-layers: venv  ## whether layers timed one by one sum to the step, on four models and three backends
	$(BIN)/python benchmarks/layer_sums.py

bench-folklore: venv  ## what everybody says about slow Keras trainings, measured; writes docs/folklore.md
	$(BIN)/python benchmarks/folklore.py

docs: venv  ## the documentation as a site, in build/site
	$(BIN)/mkdocs build --strict

screenshot: venv  ## run an example and draw its report, docs/assets/run.svg
	$(BIN)/python tools/screenshot.py

bench-check: venv  ## how many files per second fitdoctor check reads, in turns with TorchFix
	$(BIN)/python benchmarks/check_speed.py

clean:  ## remove .venv and everything built
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
