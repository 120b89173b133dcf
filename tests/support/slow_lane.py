"""Choose slow tests for a given time: those of the packages that changed last, then others by turns.

A file gives a few of its cases at a time, in an order that the hash of HEAD decides, so that each commit tries other
ones; when the time is spent, the rest is left out and listed. `make nightly` leaves out nothing.
"""

import hashlib
import subprocess  # noqa: TID251 - what git knows is asked of git itself, without the tree's own process code
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatch
from itertools import groupby
from pathlib import Path

import pytest
from _pytest.terminal import TerminalReporter

NEWEST_COMMITS = 60
AT_A_TIME = 4
"""How many cases a file gives before the next one has its turn."""

SUITES: Mapping[str, str] = {
    "acp": "e2e/test_e2e_editor.py",
    "agent": (
        "e2e/*hooks.py e2e/*ralph*.py e2e/*small_window.py e2e/*subagents.py e2e/*unavailable_models.py "
        "integration/agent/*"
    ),
    "cli": (
        "e2e/*completion.py e2e/*distribution.py e2e/*documents.py e2e/*examples.py e2e/*init.py e2e/*invalid_input.py "
        "e2e/*items.py e2e/*no_call_home.py e2e/*orders.py e2e/*pager.py e2e/*progress.py e2e/*repl*.py e2e/*report.py "
        "e2e/*steering.py e2e/*update.py e2e/*verbose_log.py integration/cli/* integration/demo/* "
        "unit/cli/*"
    ),
    "config": "e2e/*env_from.py e2e/*tiers.py e2e/*trust.py",
    "core": "properties/test_supervision_simulation.py",
    "executors": "e2e/*executor*.py e2e/*program_runs.py integration/executors/*",
    "extensions": (
        "e2e/*extensions.py e2e/*injected.py e2e/*mcp*.py e2e/*plugins.py e2e/*skills.py "
        "integration/extensions/* integration/mcp_npm/*"
    ),
    "git": ("e2e/*cleanup.py e2e/*leftovers.py e2e/*planted_repositories.py e2e/*unusual_paths.py integration/git/*"),
    "host": "e2e/*landlock.py e2e/*resources.py e2e/*restarts.py e2e/*started_twice.py integration/host/*",
    "landing": (
        "e2e/*bench_history.py e2e/*conflicts.py e2e/*land*.py e2e/*pull_requests.py e2e/*rebase.py "
        "e2e/*revert.py e2e/*reviews.py e2e/*write_back.py integration/landing/* unit/landing/* "
        "unit/bench/*"
    ),
    "llm": "e2e/*model_servers.py e2e/*ralph_wire.py integration/llm*/* properties/llm/* unit/llm/*",
    "login": "e2e/*login.py",
    "mcp": "e2e/*mcp_runs.py e2e/*mcp_server.py",
    "memory": "e2e/*ingestion*.py e2e/*memory.py e2e/*vector_tools.py integration/memory/*",
    "orchestrator": (
        "e2e/*agent_supervision.py e2e/*budget.py e2e/*collisions.py e2e/*compliance.py "
        "e2e/*contract_crashes.py e2e/*crash_points.py e2e/*goals.py e2e/*kill.py e2e/*planning.py "
        "e2e/*prompt_rounds.py e2e/*run.py e2e/*soak.py e2e/*stor*.py e2e/*supervision.py e2e/*task_list.py "
        "integration/orchestrator/* properties/test_supervision_simulation.py"
    ),
    "pages": "e2e/*report.py unit/cli/test_cli_report_page.py",
    "web": "e2e/*serve.py",
    "plan": "e2e/*planning.py e2e/*stories.py properties/test_agent_count.py unit/plan/*",
    "policy": (
        "e2e/*inbox.py e2e/*permissions.py e2e/*secrets.py e2e/*unconfined.py integration/policy/* "
        "properties/test_policy* unit/policy/*"
    ),
    "run": "e2e/*failures.py e2e/*faults.py e2e/*learnings.py integration/run/*",
    "session": "e2e/*ralph*.py e2e/*memory.py integration/session/*",
    "store": "e2e/*postgres.py integration/store/* properties/test_store*",
    "tools": "e2e/*apply_patch.py e2e/*ralph_tools.py integration/tools/* properties/test_vector_tools*",
    "tui": "e2e/*live.py",
    "verify": (
        "e2e/*bench_verifier.py e2e/*cheaters.py e2e/*check_environment.py e2e/*contracts.py "
        "e2e/*environment.py e2e/*included_files.py e2e/*not_checkable.py e2e/*proof.py e2e/*services.py "
        "e2e/*service.py e2e/*shadowed_modules.py integration/verify/* unit/verify/*"
    ),
    "views": "e2e/*report.py e2e/*progress.py integration/cli/test_cli_status*",
    "worker": (
        "e2e/*change_approvals.py e2e/*critic.py e2e/*ignored_files.py e2e/*keeps_unlanded.py e2e/*questions.py "
        "e2e/*refusals.py e2e/*review.py e2e/*reviewer_probe.py e2e/*second_review.py e2e/*waiting_workers.py "
        "e2e/*worker_deaths.py integration/worker/*"
    ),
}
"""The slow suites of each package, as patterns below `tests/`; an architecture test keeps the table complete."""
EVERYWHERE = "architecture/*"
"""Suites about the whole tree."""


def suites_of(packages: Iterable[str]) -> list[str]:
    """Return the patterns of these packages' suites."""
    return [pattern for package in packages for pattern in SUITES[package].split()]


def is_among(path: str, patterns: Iterable[str]) -> bool:
    """Return whether a path below `tests/` fits one of the patterns."""
    return any(fnmatch(path, pattern) for pattern in patterns)


def by_turns(nodeids: Iterable[str], seed: str) -> list[str]:
    """Order tests so that each file gives a few of its cases, then each file gives a few more, and so on."""

    def chance(name: str) -> str:
        return hashlib.sha256(f"{seed} {name}".encode()).hexdigest()

    rounds: dict[int, list[str]] = defaultdict(list)
    in_files = sorted(nodeids, key=lambda node: (chance(_file(node)), chance(node)))
    for _, cases in groupby(in_files, key=_file):
        for place, node in enumerate(cases):
            rounds[place // AT_A_TIME].append(node)
    return [node for _, nodes in sorted(rounds.items()) for node in nodes]


def chosen(nodeids: Iterable[str], changed: Iterable[str], seed: str) -> list[str]:
    """Order tests: by turns those of the changed packages, then by turns the others."""
    patterns = [*suites_of(changed), EVERYWHERE]
    concerned, others = [], []
    for node in nodeids:
        path = _file(node).removeprefix("tests/")
        (concerned if is_among(path, patterns) else others).append(node)
    return [*by_turns(concerned, seed), *by_turns(others, seed)]


def _file(nodeid: str) -> str:
    return nodeid.partition("::")[0]


def changed_packages(root: Path) -> list[str]:
    """Return the packages that the newest commits changed; without git, all of them."""
    names = _git(root, "log", f"-{NEWEST_COMMITS}", "--name-only", "--format=")
    if names is None:
        return sorted(SUITES)
    return sorted(package for package in SUITES if f"\nsrc/scaffold/{package}/" in f"\n{names}")


def head(root: Path) -> str:
    """Return the hash of HEAD; without git, an empty text."""
    return (_git(root, "rev-parse", "HEAD") or "").strip()


def _git(root: Path, *args: str) -> str | None:
    command = ["git", "-c", "safe.directory=*", *args]
    try:
        answer = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return answer.stdout if answer.returncode == 0 else None


class SlowLane:
    """The plugin of each process of a run that has so many minutes."""

    def __init__(self, config: pytest.Config, minutes: float) -> None:
        self._config = config
        self._given: dict[str, object] = getattr(config, "workerinput", {})
        self._until = float(str(self._given.get("lane_until", time.monotonic() + 60 * minutes)))
        self._changed = str(self._given.get("lane_changed", " ".join(changed_packages(config.rootpath))))
        self._seed = str(self._given.get("lane_seed", head(config.rootpath)))
        self._minutes = minutes
        self._all: set[str] = set()
        self._ran: set[str] = set()

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: object) -> None:
        """Tell a worker when the time is spent, and which order all processes use."""
        told = {"lane_until": self._until, "lane_changed": self._changed, "lane_seed": self._seed}
        node.workerinput.update(told)  # type: ignore[attr-defined]

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Put the tests in the order in which they are tried."""
        by_node = {item.nodeid: item for item in items}
        items[:] = [by_node[node] for node in chosen(by_node, self._changed.split(), self._seed)]
        self._all |= by_node.keys()

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        """Remember what the workers have found."""
        self._all |= set(ids)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self) -> bool | None:
        """Leave out a test if the time is spent."""
        return True if time.monotonic() > self._until else None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember what ran."""
        self._ran.add(report.nodeid)

    @pytest.hookimpl(wrapper=True)
    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> Iterator[None]:
        """Say which packages came first, and what was left out."""
        yield
        terminalreporter.section(f"chosen for {self._minutes:g} minutes")
        terminalreporter.write_line(f"first the suites of what changed: {self._changed or 'nothing'}")
        left = Counter(_file(node).removeprefix("tests/") for node in self._all - self._ran)
        terminalreporter.write_line(f"left out: {left.total()} of {len(self._all)} tests; `make nightly` runs them")
        for path, count in sorted(left.items()):
            terminalreporter.write_line(f"    {count:4} {path}")
