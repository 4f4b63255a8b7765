# Sluice. `make` alone lists what there is; docs/contributing.md says when to use which.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
# A run of the tests starts some hundreds of processes; without bytecode each compiles all that it imports.
unexport PYTHONDONTWRITEBYTECODE

VENV := .venv
PYTHON_BIN ?= $(firstword $(shell command -v python3.11 2>/dev/null) $(shell command -v python3 2>/dev/null))
RUN := $(VENV)/bin/python
STAMP := $(VENV)/.requirements.sha256
REQUIREMENTS := requirements.txt requirements-otel.txt requirements-polars.txt requirements-dev.txt
LONGER := (interop or browser or slow) and not soak
JOBS ?= 2
MUTANTS ?= 200

.PHONY: help
help: ## List the commands.
	@awk 'BEGIN {FS = ":.*## "} /^[a-z][a-z-]*:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# The site's tools stay out of .venv: they need libraries that Sluice does not.
DOCS_ENV := var/docs-env
.PHONY: docs
docs: ## Build the documentation as a site in var/site; fails on warnings and broken links.
	@wanted=$$(sha256sum < docs/requirements.txt); \
	if [ "$$(cat $(DOCS_ENV)/.requirements.sha256 2>/dev/null || true)" != "$$wanted" ]; then \
		'$(PYTHON_BIN)' -m venv $(DOCS_ENV) && \
		$(DOCS_ENV)/bin/pip install --quiet --disable-pip-version-check --requirement docs/requirements.txt && \
		echo "$$wanted" > $(DOCS_ENV)/.requirements.sha256; \
	fi
	@NO_MKDOCS_2_WARNING=1 DISABLE_MKDOCS_2_WARNING=true $(DOCS_ENV)/bin/mkdocs build --strict --config-file docs/mkdocs.yml
	@echo "docs: open var/site/index.html"

# All pins are there, so none needs the others; modules are compiled when they are first imported, most never are.
.PHONY: setup
setup: ## Create .venv and install the pinned requirements (again only when they changed).
	@python_bin='$(PYTHON_BIN)'; \
	if [ -z "$$python_bin" ] || ! "$$python_bin" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null; then \
		echo "setup: Python 3.11 is missing; install it, or name it: make setup PYTHON_BIN=/path/to/python3.11" >&2; exit 1; \
	fi; \
	java_bin="$${JAVA_HOME:+$$JAVA_HOME/bin/}java"; \
	java_major=$$({ "$$java_bin" -version 2>&1 || true; } | sed -n 's/.*version "\([0-9]*\)[^"]*".*/\1/p' | head -n 1); \
	if [ -z "$$java_major" ]; then \
		echo "setup: Java 17 or newer is missing ($$java_bin does not run); install one (Debian: openjdk-17-jre-headless) or set JAVA_HOME" >&2; exit 1; \
	elif [ "$$java_major" -lt 17 ]; then \
		echo "setup: Java $$java_major is too old, Spark needs 17 or newer; install one or set JAVA_HOME to it" >&2; exit 1; \
	fi; \
	wanted=$$(cat $(REQUIREMENTS) | sha256sum | cut -d ' ' -f 1); \
	find_us() { \
		place=$$($(RUN) -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/sluice.pth; \
		roots="$$(printf '%s\n' "$(CURDIR)" "$(CURDIR)/workers/public")"; \
		if [ "$$(cat "$$place" 2>/dev/null || true)" != "$$roots" ]; then \
			echo "$$roots" > "$$place.$$$$" && mv -f "$$place.$$$$" "$$place"; \
		fi; \
	}; \
	if [ -x $(RUN) ] && [ "$$(cat $(STAMP) 2>/dev/null || true)" = "$$wanted" ]; then find_us; exit 0; fi; \
	echo "setup: creating $(VENV) and installing the pinned requirements (a few minutes, once)"; \
	[ -x $(RUN) ] || "$$python_bin" -m venv $(VENV) || \
		{ echo "setup: Python cannot create an environment; install its venv module (Debian: python3.11-venv)" >&2; exit 1; }; \
	pins() { grep --no-filename --invert-match '^-r ' "$$@"; }; \
	install=($(RUN) -m pip install --quiet --disable-pip-version-check --no-deps --no-compile --requirement); \
	"$${install[@]}" <(pins $(filter-out requirements-dev.txt,$(REQUIREMENTS))) & runtime=$$!; \
	trap 'kill $$runtime 2>/dev/null || true' EXIT; \
	has_development=0; "$${install[@]}" <(pins requirements-dev.txt) || has_development=$$?; \
	{ wait $$runtime && [ $$has_development = 0 ] && $(RUN) -m pip check > /dev/null; } || \
		{ echo "setup: installing the requirements failed; the lines above say why, and 'make setup' tries again" >&2; exit 1; }; \
	find_us; \
	echo "$$wanted" > $(STAMP); \
	echo "setup: done"

.PHONY: lock
lock: setup ## Write requirements.lock anew: the versions of requirements.txt with the hashes of their files.
	@place=$$(mktemp -d) && $(RUN) -m venv "$$place" && "$$place/bin/pip" install --quiet pip-tools==7.6.2 && \
		"$$place/bin/pip-compile" --quiet --generate-hashes --allow-unsafe --no-header --no-annotate --strip-extras \
			--no-emit-index-url --no-emit-find-links --output-file requirements.lock requirements.txt; \
		rm -rf "$$place"

# The same sources give the same bytes: no time and no path of this machine is in them.
.PHONY: package
package: setup ## Build the wheel, its tested versions and its bill of materials in var/dist.
	@rm -rf var/dist; $(RUN) -m hatchling build --target wheel --directory var/dist > /dev/null
	@wheel=$$(echo var/dist/*.whl); name=$${wheel%-py3-none-any.whl}; \
	$(RUN) manage.py sbom > "$$name.cdx.json"; \
	sed 's/ *#.*//; s/\[[a-z]*\]//; /^$$/d' $(filter-out requirements-dev.txt,$(REQUIREMENTS)) > "$$name.constraints.txt"; \
	sha256sum var/dist/*

.PHONY: advisories
advisories: setup ## The pins against advisories of OSV that lie on this machine: make advisories OSV=all.zip.
	@[ -n "$(OSV)" ] || { echo "advisories: name a directory or .zip of OSV's ecosystem PyPI: OSV=..." >&2; exit 1; }
	@$(RUN) manage.py advisories "$(OSV)"

.PHONY: up
up: setup ## Start everything, print the address and a login, start the demo.
	@$(RUN) manage.py up

.PHONY: down
down: ## Stop everything that `make up` started; data stays.
	@[ -x $(RUN) ] || { echo "down: nothing is set up, so nothing runs"; exit 0; }; $(RUN) manage.py down

.PHONY: status
status: setup ## Show which processes run, and the address.
	@$(RUN) manage.py status

.PHONY: doctor
doctor: setup ## Check Java, ports, disk and versions, one line each.
	@$(RUN) manage.py doctor

.PHONY: demo
demo: setup ## Start the demo again on a running node.
	@$(RUN) manage.py demo --start

.PHONY: lint
lint: setup ## Ruff: rules and layout.
	@$(RUN) -m ruff check .
	@$(RUN) -m ruff format --check --quiet . || { echo "lint: the layout differs; make format mends it" >&2; exit 1; }

.PHONY: templates
templates: setup ## Layout, lint and line length of the templates.
	@$(VENV)/bin/djlint templates --check --quiet
	@$(VENV)/bin/djlint templates --lint --quiet
	@! LC_ALL=C.UTF-8 grep -rnE '.{121}' templates || { echo "templates: lines over 120 characters" >&2; exit 1; }

.PHONY: format
format: setup ## Let ruff lay out the code and order the imports, and djlint lay out the templates.
	@$(RUN) -m ruff check --select I --fix --quiet . && $(RUN) -m ruff format .
	@$(VENV)/bin/djlint templates --reformat --quiet

.PHONY: types
types: setup ## Mypy, strict.
	@$(RUN) -m mypy

.PHONY: layers
layers: setup ## Import rules.
	@$(VENV)/bin/lint-imports

.PHONY: check
check: lint types layers templates ## Lint, types, layers and templates.

# Its schemas take 108 MB, so it stays out of .venv.
DEPLOY_ENV := var/deploy-env
.PHONY: check-deploy
check-deploy: setup ## Validate the manifests of Kubernetes, the units of systemd and the Containerfile.
	@[ -x $(DEPLOY_ENV)/bin/kubernetes-validate ] || { '$(PYTHON_BIN)' -m venv $(DEPLOY_ENV) && \
		$(DEPLOY_ENV)/bin/pip install --quiet --disable-pip-version-check --requirement deploy/requirements.txt; }
	@$(RUN) -m pytest -q tests/deploy

.PHONY: language
language: setup ## Count what breaks the language rules, and lower the baseline (after a rename: MOVED=old=new).
	@$(RUN) -m tests.support.language $(MOVED)

.PHONY: size
size: setup ## Count modules, lines, short modules and language hits of each package.
	@$(RUN) -m tests.support.size

.PHONY: test
test: setup ## Every test that needs no long-running service (10 minutes on two cores).
	@$(RUN) -m pytest -n $(JOBS) --durations=15 -m "not (interop or browser or slow or soak)"

.PHONY: core
core: setup ## One or a few tests of each longer kind, by name: tests/core.txt.
	@sed 's/ *#.*//; /^$$/d' tests/core.txt | tr '\n' '\0' | \
		SLUICE_TEST_CORE=1 xargs -0 $(RUN) -m pytest -n $(JOBS) --durations=15 -m "not soak"

.PHONY: gate
gate: setup ## What each submission must pass: check, test and core; every step runs, whatever fails.
	@$(RUN) -m tests.gate

.PHONY: gate-repeat
gate-repeat: setup ## The gate several times, half of the runs under load: RUNS=5 BUSY=2 ONLY=test.
	@$(RUN) -m tests.gate --runs $(or $(RUNS),5) --busy $(or $(BUSY),2) $(if $(ONLY),--only $(ONLY))

.PHONY: explore
explore: setup ## Look for faults with new seeds, and print each failing case as a command: MINUTES=20.
	@$(RUN) -m tests.explore --minutes $(or $(MINUTES),20) --jobs $(JOBS) $(if $(SEED),--seed $(SEED))

.PHONY: coverage
coverage: setup ## Lines and branches of the protocol's packages that tests run, each above its floor (minutes).
	@$(RUN) -m tests.support.protocol_coverage -q -n $(JOBS)

.PHONY: mutants
mutants: setup ## Small changes of the protocol's rules, drawn by a seed, that quick tests must notice (MUTANTS=200, 0: all).
	@$(RUN) -m tests.mutation --limit $(MUTANTS) --jobs $(JOBS) $(if $(SEED),--seed $(SEED))

.PHONY: scenarios
scenarios: setup ## The stories: two or more writers on one table.
	@$(RUN) -m pytest tests/scenarios

.PHONY: browser
browser: setup ## The pages in a real Chromium.
	@$(RUN) -m pytest -m browser

.PHONY: longer
longer: setup ## Every test but the soak's: whole nodes, other engines, the browser (an hour).
	@$(RUN) -m tests.support.java_options
	@$(RUN) -m pytest -n $(JOBS) --durations=15 -m "$(LONGER)"

.PHONY: kafka-jars
kafka-jars: setup ## Fetch Apache Kafka's jars for the tests (once, half a minute).
	@$(RUN) -m tests.support.kafka_jars

.PHONY: hudi-peer
hudi-peer: setup ## Make the environment of Apache Hudi for the tests (once, some minutes).
	@$(RUN) -m tests.support.hudi_peer --prepare

.PHONY: soak
soak: setup ## The same with large numbers: 2,000 kills of the marker server, 100,000 reads and more (hours).
	@SLUICE_TEST_WHOLE=1 SLUICE_TEST_EXPLORE=1 $(RUN) -m pytest -n $(JOBS) --durations=15 -m "soak or sampled or hypothesis"

.PHONY: bench
bench: setup ## Against Apache Hudi and delta-rs (three quarters of an hour, on a quiet machine): bench/latest.json.
	@$(RUN) -m bench $(BENCH)
