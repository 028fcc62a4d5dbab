# What can be done here: make help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Bytecode is made on import: pip would compile millions of lines, of which the commands and tests import few.
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --no-compile -c constraints.txt

# Two processes of pytest; some containers forbid bytecode, and each would then compile all of the package and all tests.
PYTEST := env -u PYTHONDONTWRITEBYTECODE $(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder

.PHONY: help demo test test-all durations check docs bench bench-gpu bench-null fixtures format lock wheel sbom clean

help: ## Show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

demo: $(VENV)/.installed ## Install, and audit the embedded model into audit-demo/
	$(BIN)/pfl-audit demo --out audit-demo

test: $(VENV)/.developed ## Install what is missing; lint, types, and the tests of the first tier
	@$(PYTEST) -m "not slow"

test-all: $(VENV)/.developed ## All tests, and whether their times are those that are stated; before a release
	@$(PYTEST) --check-times

durations: $(VENV)/.developed ## Measure the times of all tests on an idle machine, and state them
	-$(PYTEST) -m "not slow" --state-times  # goes on where what is stated now is out of date
	$(PYTEST) -m slow --state-times

check: $(VENV)/.developed ## Lint, formatting and types, as the first tests do
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --cache-dir build/mypy -p pfl_audit

docs: $(VENV)/.developed ## Build the documentation into build/site (open build/site/index.html)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

bench: $(VENV)/.developed ## Time the engine and the trainer against plain loops, as ratios within one run
	$(BIN)/python -m tests.bench.engine
	$(BIN)/python -m tests.bench.federated
	$(BIN)/python -m tests.bench.accountant
	$(BIN)/python -m tests.bench.inversion_loop
	$(BIN)/python -m tests.bench.results_file
	$(BIN)/python -m tests.bench.candidates
	$(BIN)/python -m tests.bench.workers
	$(BIN)/python -m tests.bench.hops

bench-gpu: $(VENV)/.developed ## Time the engine on the GPU at hand, in every precision; says "no GPU here" without one
	$(BIN)/python -m tests.bench.devices

bench-null: $(VENV)/.developed ## Count false alarms and power of all findings over 500 audits a design (hours; goes on where it stopped)
	env OMP_NUM_THREADS=1 $(BIN)/python -m tests.bench.rates

fixtures: $(VENV)/.developed ## Rebuild everything in fixtures/ from seeds (hours)
	$(BIN)/python -m pfl_audit.fixtures.build

format: $(VENV)/.developed ## Format the source
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lock: $(VENV)/.developed ## Resolve what the container installs, with hashes, into requirements.lock
	$(BIN)/uv pip compile pyproject.toml --quiet --extra documents --extra endpoint --extra lora --constraint constraints.txt \
		--python-version 3.11 --python-platform x86_64-manylinux_2_28 --generate-hashes --no-annotate --no-emit-index-url \
		--no-emit-find-links --custom-compile-command "make lock" --output-file requirements.lock

wheel: ## Build the wheel into dist/
	rm -rf build/lib
	PIP_CONSTRAINT=constraints.txt $(PYTHON) -m pip --disable-pip-version-check wheel --quiet --no-deps --wheel-dir dist .

sbom: ## State what the container installs as CycloneDX, dist/pfl-audit.cdx.json, beside the wheel
	@mkdir -p dist
	$(PYTHON) -m venv build/sbom
	build/sbom/bin/python -m pip --disable-pip-version-check install --quiet cyclonedx-bom==7.5.0
	build/sbom/bin/cyclonedx-py requirements requirements.lock --pyproject pyproject.toml --output-reproducible \
		--output-format JSON --output-file dist/pfl-audit.cdx.json

clean: ## Remove what was built
	rm -rf build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "pfl-audit needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)

# torch first and by its exact version: a range, or a package that pulls it in, brings gigabytes of CUDA.
$(VENV)/.installed: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) torch==2.13.0
	$(PIP) --editable .
	touch $@

$(VENV)/.developed: $(VENV)/bin/python pyproject.toml constraints.txt
	@mkdir -p build && date +%s > build/setup-began
	$(PIP) torch==2.13.0
	$(PIP) --editable '.[dev]'
	@echo $$(( $$(date +%s) - $$(cat build/setup-began) )) > build/setup-seconds && rm build/setup-began
	touch $(VENV)/.installed $@
