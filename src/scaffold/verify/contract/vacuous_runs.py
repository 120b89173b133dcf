"""Detect, from its output, a test runner that succeeded without running a test.

Skipped tests and expected failures do not count as run: they prove nothing about the work.
"""

import re
from collections.abc import Callable, Sequence

from msgspec import structs

from scaffold.core.printable_text import without_colors
from scaffold.host.process.command_runner import CommandResult

PYTEST_COLLECTED_NOTHING = 5

_PYTEST_IDLE = re.compile(
    rb"^(=+ )?(\d+ (skipped|deselected|xfailed|warnings?)(, )?)+ in \d|\bno tests ran\b", re.MULTILINE
)
_UNITTEST_RAN = re.compile(rb"^Ran (\d+) tests? in ", re.MULTILINE)
_UNITTEST_SKIPPED = re.compile(rb"\b(?:skipped|expected failures)=(\d+)")
_GO_PACKAGE = re.compile(rb"^(?:ok|\?) {0,2}\s.*$", re.MULTILINE)
_GO_IDLE = re.compile(rb"\[no test(?:s to run| files)\]")
_CARGO_RESULT = re.compile(rb"^test result: .*$", re.MULTILINE)
_CARGO_IDLE = re.compile(rb"\bok\. 0 passed; 0 failed;")
_JEST_RESULT = re.compile(rb"^\s*Tests:?\s{2,}.*$", re.MULTILINE)
_JEST_RAN = re.compile(rb"\d (?:passed|failed)\b")
_JEST_NOTHING = re.compile(rb"^No test(?:s| files) found, exiting with code 0", re.MULTILINE)
_NODE_PASSED = re.compile(rb"^(?:#|\xe2\x84\xb9) (?:pass|fail) (\d+)$", re.MULTILINE)
_MOCHA_RAN = re.compile(rb"^ *(\d+) (?:passing|failing)\b", re.MULTILINE)
_NODE_FILE = re.compile(rb"^(?:ok \d+ -|\xe2\x9c\x94) /\S+\.[cm]?[jt]s\b", re.MULTILINE)
"""A file without tests, which Node counts as one passed test."""


def ran_nothing(command: str, finished: CommandResult) -> bool:
    """Return True if a test runner that the command names ran no test."""
    stdout, stderr = (
        without_colors(each.decode(errors="replace")).encode() for each in (finished.stdout, finished.stderr)
    )
    finished = structs.replace(finished, stdout=stdout, stderr=stderr)
    return any(runner.search(command) and idle(finished) for runner, idle in _IDLE)


def _pytest_ran_nothing(finished: CommandResult) -> bool:
    idle = finished.exit_code == 0 and _PYTEST_IDLE.search(finished.stdout) is not None
    # The exit code alone is not enough: a run in which all tests were skipped ends with 0.
    return idle or finished.exit_code == PYTEST_COLLECTED_NOTHING


def _unittest_ran_nothing(finished: CommandResult) -> bool:
    # unittest prints its summary on standard error.
    ran = _UNITTEST_RAN.search(finished.stderr)
    if ran is None:
        return False
    skipped = sum(int(found) for found in _UNITTEST_SKIPPED.findall(finished.stderr, ran.end()))
    return int(ran[1]) <= skipped


def _go_ran_nothing(finished: CommandResult) -> bool:
    packages = _GO_PACKAGE.findall(finished.stdout)
    return bool(packages) and finished.exit_code == 0 and all(map(_GO_IDLE.search, packages))


def _cargo_ran_nothing(finished: CommandResult) -> bool:
    results = _CARGO_RESULT.findall(finished.stdout)
    return bool(results) and all(map(_CARGO_IDLE.search, results))


def _jest_ran_nothing(finished: CommandResult) -> bool:
    printed = finished.stdout + b"\n" + finished.stderr
    # jest prints its summary on standard error, vitest on standard output.
    results = _JEST_RESULT.findall(printed)
    return _JEST_NOTHING.search(printed) is not None or (bool(results) and not any(map(_JEST_RAN.search, results)))


def _mocha_ran_nothing(finished: CommandResult) -> bool:
    ran = _MOCHA_RAN.findall(finished.stdout)
    return bool(ran) and not any(map(int, ran))


def _node_ran_nothing(finished: CommandResult) -> bool:
    ran = _NODE_PASSED.findall(finished.stdout)
    return bool(ran) and sum(map(int, ran)) <= len(_NODE_FILE.findall(finished.stdout))


_SCRIPTS = r"|\b(?:npm|pnpm|yarn|bun)\b"
_IDLE: Sequence[tuple[re.Pattern[str], Callable[[CommandResult], bool]]] = (
    (re.compile("pytest"), _pytest_ran_nothing),
    (re.compile("unittest"), _unittest_ran_nothing),
    (re.compile(r"\bgo\s+test\b"), _go_ran_nothing),
    (re.compile(r"\bcargo\s+(?:\S+\s+)?test\b"), _cargo_ran_nothing),
    (re.compile(rf"\b(?:jest|vitest)\b{_SCRIPTS}"), _jest_ran_nothing),
    (re.compile(rf"\bmocha\b{_SCRIPTS}"), _mocha_ran_nothing),
    (re.compile(rf"\bnode\b.*--test\b{_SCRIPTS}"), _node_ran_nothing),
)
