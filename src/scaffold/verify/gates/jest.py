"""Read the JSON report of jest and vitest, written to our own folder outside the checkout."""

import shlex
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from scaffold.core.gates import TestOutcome
from scaffold.verify.gates.runner_adapter import RunnerAdapter, RunnerCommand, RunnerEnv, RunnerExit
from scaffold.verify.gates.runner_result import (
    RunnerResult,
    load_failure,
    match_exit_code,
    printable_test_name,
    read_untrusted,
    unusable_result,
    worst_outcomes,
)

REPORT = "report.json"
TITLE_SEPARATOR = " > "
NO_TESTS_MESSAGES = (b"No tests found", b"No test files found")
OUTCOME_BY_STATUS: dict[str, TestOutcome] = {"passed": "passed", "failed": "failed", "focused": "passed"}


class JestTest(Struct, frozen=True, rename="camel"):
    """One test."""

    title: str
    status: str
    ancestor_titles: tuple[str, ...] = ()


class JestSuite(Struct, frozen=True, rename="camel"):
    """One test file; `name` is its absolute path."""

    name: str
    status: str
    assertion_results: tuple[JestTest, ...] = ()
    message: str | None = None


class JestReport(Struct, frozen=True, rename="camel"):
    """The report of a whole run."""

    num_total_tests: int
    num_failed_tests: int
    test_results: tuple[JestSuite, ...]


def build_command(command: str, env: RunnerEnv, runner: Literal["jest", "vitest"]) -> RunnerCommand:
    """Return the command with a report in our folder, limited to the files of the selected tests."""
    report = shlex.quote(str(env.folder / REPORT))
    files = tuple(dict.fromkeys(name.partition(TITLE_SEPARATOR)[0] for name in env.only))
    if runner == "jest":
        words = f"--json --outputFile={report}" + (" --runTestsByPath" if files else "")
    else:
        words = f"--run --reporter=json --outputFile={report}"
    # npm keeps options for itself unless they follow `--`; pnpm, yarn and bun pass them on.
    through_npm = " --" if command.split()[:1] == ["npm"] and " -- " not in command else ""
    return RunnerCommand(command=" ".join((f"{command}{through_npm}", words, *map(shlex.quote, files))))


def read_report(ended: RunnerExit) -> RunnerResult:
    """Return the result of a run that was not killed."""
    data = read_untrusted(ended.env.folder / REPORT)
    if isinstance(data, str):
        if any(phrase in ended.output for phrase in NO_TESTS_MESSAGES):
            return unusable_result("vacuous", "It found no tests.")
        return unusable_result("error", f"The runner wrote no usable report: {data} (exit code {ended.exit_code}).")
    try:
        report = msgspec.json.decode(data, type=JestReport)
    except (msgspec.DecodeError, RecursionError) as error:
        return unusable_result("error", f"The runner's report cannot be parsed: {error}.")
    return _result(report, ended.env.cwd, ended.exit_code, whole=ended.env.whole)


def _result(report: JestReport, top: Path, exit_code: int | None, *, whole: bool) -> RunnerResult:
    broken = [_file(suite, top) for suite in report.test_results if suite.status == "failed" and _failed_to_load(suite)]
    if broken:
        return load_failure("Test files failed to load", broken)
    outcomes = [pair for suite in report.test_results for pair in _outcomes(suite, top)]
    failed = sum(outcome == "failed" for _, outcome in outcomes)
    # A module under test can edit the report; a forger has to get every count right.
    if (len(outcomes), failed) != (report.num_total_tests, report.num_failed_tests):
        why = (
            f"The report counts {report.num_total_tests} tests, {report.num_failed_tests} of them failed, "
            f"but lists {len(outcomes)}, {failed} of them failed."
        )
        return unusable_result("error", why, worst_outcomes(outcomes))
    return match_exit_code(worst_outcomes(outcomes), exit_code, whole=whole)


def _outcomes(suite: JestSuite, top: Path) -> Iterator[tuple[str, TestOutcome]]:
    for each in suite.assertion_results:
        name = TITLE_SEPARATOR.join((_file(suite, top), *each.ancestor_titles, each.title))
        yield printable_test_name(name), OUTCOME_BY_STATUS.get(each.status, "skipped")


def _failed_to_load(suite: JestSuite) -> bool:
    """Return True if no test of a failed file failed: the file could not be loaded."""
    return not any(each.status == "failed" for each in suite.assertion_results)


def _file(suite: JestSuite, top: Path) -> str:
    path = Path(suite.name)
    return printable_test_name(str(path.relative_to(top)) if path.is_relative_to(top) else suite.name)


JEST = RunnerAdapter(build_command=partial(build_command, runner="jest"), read_report=read_report)
VITEST = RunnerAdapter(build_command=partial(build_command, runner="vitest"), read_report=read_report)
