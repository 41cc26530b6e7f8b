# `make help` lists the targets. All of them work from a fresh clone with Python 3.11 to 3.13 and Java 17, nothing else.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help install jars run test test-fast test-slow simulate fuzz beside-kafka record-clusters crash-test kill-transactions lint schemas bench try-upgrade soak endurance screenshots clean

PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed
SLOW := spark or kafka or end_to_end or docker
# Tests start hundreds of processes: without files of bytecode each would compile all of its modules anew.
unexport PYTHONDONTWRITEBYTECODE

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(INSTALLED) ## make .venv with the pinned dependencies and the project (once)

$(INSTALLED): pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' || { \
	  echo "Python 3.11, 3.12 or 3.13 is needed, and $(PYTHON) is $$($(PYTHON) --version 2>&1 || true)." \
	       "Name another one: make install PYTHON=/path/to/python3.11" >&2; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint requirements.lock --editable '.[spark,dev]'
	touch $@

jars: $(INSTALLED) ## the jars of Spark's connectors and of Kafka, and class archives that make both start quicker (once, two minutes)
	$(BIN)/python -m group_coordinator.coordinating.jars
	$(BIN)/python -m group_coordinator.proving.embedded_kafka.write_class_archives

run: $(INSTALLED) ## the demo: an embedded Kafka, the coordinator, groups with real members (ARGS="--duration 90s")
	$(BIN)/group-coordinator demo $(ARGS)

# On a broker tests wait for a good part of their time: two cores have work for four processes. All tests are one run:
# each process collects them once, and those that need no broker fill the time in which others wait for one. What fails
# while four processes press two cores has one second chance, which pytest counts; what fails twice is ours.
BY_FILE := --dist loadfile --no-loadscope-reorder

test: jars ## all tests, in WORKERS=4 processes
	$(BIN)/python -m pytest -n $(or $(WORKERS),4) $(BY_FILE) --reruns 1

test-fast: $(INSTALLED) ## the tests that need neither Kafka nor Spark
	$(BIN)/python -m pytest -m "not ($(SLOW))" -n auto $(BY_FILE)

test-slow: jars ## the tests on a real broker and a real Spark, in WORKERS=4 processes
	$(BIN)/python -m pytest -m "$(SLOW)" -n $(or $(WORKERS),4) $(BY_FILE)

simulate: $(INSTALLED) ## live through SEEDS=3000 simulated worlds and as many sequences of random requests, from seed FROM=0 on, all cores
	$(BIN)/python -m simulation --seeds $(or $(SEEDS),3000) --from $(or $(FROM),0)
	$(BIN)/python -m tests.random_requests --sequences $(or $(SEEDS),3000) --from $(or $(FROM),0)

fuzz: $(INSTALLED) ## damaged input for everything that decodes, SECONDS=60 long
	$(BIN)/python -m tests.fuzz --seconds $(or $(SECONDS),60)

beside-kafka: jars ## play HISTORIES=200 random histories, from SEED=N on, with Kafka's own classes (KAFKA=4.3.1: of that version) and with ours (needs a JDK)
	$(BIN)/python -m tests.beside_kafka --histories $(or $(HISTORIES),200) $(if $(SEED),--seed $(SEED)) $(if $(KAFKA),--kafka $(KAFKA))

record-clusters: jars ## play a story on real brokers of VERSIONS=3.4,4.0 (default: of nine), and hold what is told of it against what was true
	$(BIN)/python -m tests.clusters $(if $(VERSIONS),--versions $(VERSIONS)) $(ARGS)

crash-test: jars ## kill driver, worker, broker or all KILLS=20 times under load and compare with an undisturbed run
	$(BIN)/python -m tests.crash --kills $(or $(KILLS),20) $(if $(SEED),--seed $(SEED))

kill-transactions: jars ## kill loops, gateway, relay, responder, Spark and broker KILLS=50 times: each record comes out once
	$(BIN)/python -m tests.coordinating.gateway.killed_transactions --kills $(or $(KILLS),50) $(if $(SEED),--seed $(SEED))

lint: $(INSTALLED) ## style, types, who may import whom, and sizes
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python .ci/check_sizes.py

schemas: $(INSTALLED) ## write what is made from the types anew: JSON Schema, docs/topics.md
	REWRITE=1 $(BIN)/python -m pytest -q tests/schemas/test_json_schema.py tests/documents

bench: jars ## measure, and write docs/performance.md, half an hour (QUICK=1: three minutes; ARGS="query": one of them)
	$(BIN)/python -m benchmarks $(if $(QUICK),--quick) $(ARGS)

try-upgrade: ## the tests on the newest Spark, Kafka and clients, in an environment of its own; prints what fails (ARGS="tests/streaming")
	$(PYTHON) .ci/try_upgrade.py $(ARGS)

endurance: jars ## fifty Kafka clients of five libraries that come and go for MINUTES=10, Spark and gateway restarted in the middle
	$(BIN)/python -m tests.coordinating.gateway.endurance --minutes $(or $(MINUTES),10) $(ARGS)

soak: jars ## members with churn for MINUTES=30: memory, state, batch time and disk must stay flat (ARGS="--help")
	$(BIN)/python -m benchmarks.soak --minutes $(or $(MINUTES),30) $(ARGS)

screenshots: jars ## the pictures in docs/images, from a running demo (needs Chromium)
	PYTHONPATH=. $(BIN)/python docs/screenshots.py $(ARGS)

clean: ## remove what builds and tests leave behind; .venv and the jar cache stay
	rm -rf build dist *.egg-info *.whl group_coordinator.zip .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache spark-warehouse metastore_db derby.log
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +
