# `make help` lists the targets. Works with GNU make 3.81 and later, on Linux, macOS and WSL.
PYTHON ?= python3
VENV   ?= .venv
ARGS   ?=
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.causalnb
PYTEST := $(BIN)/python -m pytest -q -p no:randomly -n 2 --dist loadscope
NBVAL  := -p tests.no_stderr --nbval-lax --nbval-kernel-name warm --nbval-cell-timeout 120

.PHONY: help setup reproduce lint test course attack release lab gpu bench clean

help:
	@echo "make setup      create $(VENV) and install what constraints.txt pins (PYTHON=python3.12 chooses the Python)"
	@echo "make reproduce  regenerate all tables and figures, run every notebook (ARGS=--fresh trains all again: 100 core-hours and more)"
	@echo "make lint       ruff and mypy, as make test calls them"
	@echo "make release    make test with the coverage measured, and refuse what is stale or not verified"
	@echo "make test       unit tests, repository checks, every notebook in the quick profile"
	@echo "make attack     damage, kill, starve and mislead all of it: nothing may be silent (ARGS='kills --seed 1')"
	@echo "make course     copies for students and tutors, slides and the site, in build/course, each checked"
	@echo "make lab        open the course in JupyterLab, on copies in work/ (ARGS=--source: the files themselves)"
	@echo "make gpu        the runs on real language models, 8 minutes of them; leaves gpu.tar.gz, and goes on when called again"
	@echo "make bench      time the expensive pieces"
	@echo "make clean      remove caches, build files and unfinished checkpoints; results, figures, downloads stay"

setup: $(STAMP)

# Made again only when one of the two files changes; an interrupted install leaves no stamp and is completed.
$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; v = sys.version_info; v >= (3, 11) or sys.exit("causalnb needs Python 3.11 or newer, and $(PYTHON) is %d.%d: install one and run make PYTHON=python3.11 setup" % (v[0], v[1]))'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt torch
	$(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt -e '.[lab,test]'
	@touch $@

reproduce: setup
	$(BIN)/python -m causalnb reproduce $(ARGS)

lint: setup
	$(BIN)/ruff format --check causalnb tests
	$(BIN)/ruff check causalnb tests
	$(BIN)/mypy

release: COVERAGE = --cov=causalnb --cov-fail-under=95
release: test
	$(BIN)/python -m causalnb list --extras --strict

test: lint
	@set -e; tmp=$$(mktemp -d); trap 'rm -rf "$$tmp"' EXIT; trap 'exit 130' INT TERM; \
	export CAUSALNB_PROFILE=quick CAUSALNB_OFFLINE=1 HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false; \
	export CAUSALNB_RESULTS="$$tmp/results" CAUSALNB_FIGURES="$$tmp/figures" CAUSALNB_CACHE="$$tmp/cache"; set -x; \
	$(PYTEST) -p no:nbval $(COVERAGE) tests/unit; \
	$(PYTEST) -p no:nbval tests/repo; \
	$(BIN)/python -m causalnb course build 00 20 --to student --to tutor --out "$$tmp/course"; \
	$(BIN)/python -m tests.warm $(PYTEST) $(NBVAL) "$$tmp/course/student" notebooks

# What `make test` does with two copies is done with all, and the site is opened in a browser where there is one.
course: setup
	$(BIN)/python -m pip install --disable-pip-version-check -q -c constraints.txt -e '.[lab,test,site,browser]'
	$(BIN)/python -m causalnb course build --out build/course $(ARGS)
	CAUSALNB_PROFILE=quick CAUSALNB_OFFLINE=1 HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 $(BIN)/python -m tests.warm $(PYTEST) $(NBVAL) \
	    build/course/student
	$(PYTEST) -p no:nbval -n 0 tests/browser

attack: setup
	OMP_NUM_THREADS=1 HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false $(BIN)/python -m tests.attack $(ARGS)

lab: setup
	$(BIN)/python -m causalnb lab $(ARGS)

# Ends with Error 75 while something is left. The last of two equal options counts: ARGS='--minutes 60 --jobs 4'.
gpu: setup
	$(BIN)/python -m causalnb run causal_transformer.real sci.real iclm.real c2dlm.real --profile gpu --minutes 8 \
	    --archive gpu.tar.gz $(ARGS)

bench: setup
	OMP_NUM_THREADS=1 HF_HUB_OFFLINE=1 $(BIN)/python -m tests.benchmarks $(ARGS)

clean:
	rm -rf build .pytest_cache .hypothesis .coverage .coverage.* *.egg-info data/cache notebooks/.ipynb_checkpoints
	find causalnb tests -name __pycache__ -type d -prune -exec rm -rf {} +
