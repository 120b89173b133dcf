"""Whether a runner of tests ended well without a single test that ran, by what it printed.

Tests that were skipped, or whose failure was foreseen, did not run: they say nothing of the work.
"""

import re
from collections.abc import Callable, Sequence

from scaffold.host.process import Finished

PYTEST_COLLECTED_NOTHING = 5

_PYTEST_IDLE = re.compile(
    rb"^(=+ )?(\d+ (skipped|deselected|xfailed|warnings?)(, )?)+ in \d|\bno tests ran\b", re.MULTILINE
)
_UNITTEST_RAN = re.compile(rb"^Ran (\d+) tests? in ", re.MULTILINE)
_UNITTEST_ASIDE = re.compile(rb"\b(?:skipped|expected failures)=(\d+)")
_GO_PACKAGE = re.compile(rb"^(?:ok|\?) {0,2}\s.*$", re.MULTILINE)
_GO_IDLE = re.compile(rb"\[no test(?:s to run| files)\]")
_CARGO_RESULT = re.compile(rb"^test result: .*$", re.MULTILINE)
_CARGO_IDLE = re.compile(rb"\bok\. 0 passed; 0 failed;")
_JEST_RESULT = re.compile(rb"^\s*Tests:?\s{2,}.*$", re.MULTILINE)
_JEST_RAN = re.compile(rb"\d (?:passed|failed)\b")
_JEST_NOTHING = re.compile(rb"^No test(?:s| files) found, exiting with code 0", re.MULTILINE)
_NODE_PASSED = re.compile(rb"^(?:#|\xe2\x84\xb9) (?:pass|fail) (\d+)$", re.MULTILINE)
_NODE_FILE = re.compile(rb"^(?:ok \d+ -|\xe2\x9c\x94) /\S+\.[cm]?[jt]s\b", re.MULTILINE)
"""A file without a test in it, which counts as one that passed."""


def ran_nothing(command: str, finished: Finished) -> bool:
    """Tell whether a test runner that the command names ended without running a single test."""
    return any(runner.search(command) and idle(finished) for runner, idle in _IDLE)


def _pytest(finished: Finished) -> bool:
    idle = finished.exit_code == 0 and _PYTEST_IDLE.search(finished.stdout) is not None
    return idle or finished.exit_code == PYTEST_COLLECTED_NOTHING


def _unittest(finished: Finished) -> bool:
    ran = _UNITTEST_RAN.search(finished.stderr)
    if ran is None:
        return False
    aside = sum(int(found) for found in _UNITTEST_ASIDE.findall(finished.stderr, ran.end()))
    return int(ran[1]) <= aside


def _go(finished: Finished) -> bool:
    packages = _GO_PACKAGE.findall(finished.stdout)
    return bool(packages) and finished.exit_code == 0 and all(map(_GO_IDLE.search, packages))


def _cargo(finished: Finished) -> bool:
    results = _CARGO_RESULT.findall(finished.stdout)
    return bool(results) and all(map(_CARGO_IDLE.search, results))


def _jest(finished: Finished) -> bool:
    printed = finished.stdout + b"\n" + finished.stderr
    results = _JEST_RESULT.findall(printed)
    return _JEST_NOTHING.search(printed) is not None or (bool(results) and not any(map(_JEST_RAN.search, results)))


def _node(finished: Finished) -> bool:
    ran = _NODE_PASSED.findall(finished.stdout)
    return bool(ran) and sum(map(int, ran)) <= len(_NODE_FILE.findall(finished.stdout))


_SCRIPTS = r"|\b(?:npm|pnpm|yarn|bun)\b"
_IDLE: Sequence[tuple[re.Pattern[str], Callable[[Finished], bool]]] = (
    (re.compile("pytest"), _pytest),
    (re.compile("unittest"), _unittest),
    (re.compile(r"\bgo\s+test\b"), _go),
    (re.compile(r"\bcargo\s+(?:\S+\s+)?test\b"), _cargo),
    (re.compile(rf"\b(?:jest|vitest)\b{_SCRIPTS}"), _jest),
    (re.compile(rf"\bnode\b.*--test\b{_SCRIPTS}"), _node),
)
