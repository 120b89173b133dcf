"""Read the report of jest and vitest, written to our own folder, and the names that JavaScript could not resolve."""

import re
import shlex
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct, structs

from scaffold.core.proof.gates import TestOutcome
from scaffold.host.contained_path import ContainedPath
from scaffold.verify.gates.reports.runner_result import (
    MAX_BYTES,
    MAX_MESSAGES,
    RunnerAdapter,
    RunnerCommand,
    RunnerEnv,
    RunnerExit,
    RunnerResult,
    UnresolvedName,
    failure_message,
    load_failure,
    match_exit_code,
    printable_test_name,
    unusable_result,
    worst_outcomes,
)

_NOT_CALLABLE = re.compile(
    r"(?:(?<![\w$.)\]])|(?<=require\(\.\.\.\)\.))([A-Za-z_$][\w$.]*)\)? is not a (?:function|constructor)\b"
)
"""Does not match the result of a call: a method that it lacks may be what the work broke."""
_NOT_DEFINED = re.compile(r"(?:ReferenceError: |^)([A-Za-z_$][\w$]*) is not defined\b", re.MULTILINE)
_NOT_EXPORTED = re.compile(r"does not provide an export named '([^']+)'")
_NO_MODULE = re.compile(r"(?:Cannot find module|Failed to load url|Failed to resolve import) ['\"]?(\.{1,2}/[^'\"\s]+)")
REPORT = "report.json"
TITLE_SEPARATOR = " > "
OUTCOME_BY_STATUS: dict[str, TestOutcome] = {"passed": "passed", "failed": "failed", "focused": "passed"}


class JestTest(Struct, frozen=True, rename="camel"):
    """One test."""

    title: str
    status: str
    ancestor_titles: tuple[str, ...] = ()
    failure_messages: tuple[str, ...] | None = None


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
    return RunnerCommand(command=with_options(command, words, *map(shlex.quote, files)))


def with_options(command: str, *options: str) -> str:
    """Return the command with options for its runner, or for the runner of its script."""
    # npm keeps options for itself unless they follow `--`; pnpm, yarn and bun pass them on.
    through_npm = " --" if command.split()[:1] == ["npm"] and " -- " not in command else ""
    return " ".join((f"{command}{through_npm}", *options))


def read_report(ended: RunnerExit) -> RunnerResult:
    """Return the result of a run that was not killed."""
    data = ContainedPath(ended.env.folder, REPORT).read(MAX_BYTES)
    if isinstance(data, str):
        if any(phrase in ended.output for phrase in (b"No tests found", b"No test files found")):
            return unusable_result("vacuous", "It found no tests.")
        return unusable_result("error", f"The runner wrote no usable report: {data} (exit code {ended.exit_code}).")
    try:
        report = msgspec.json.decode(data, type=JestReport)
    except (msgspec.DecodeError, RecursionError) as error:
        return unusable_result("error", f"The runner's report cannot be parsed: {error}.")
    if ended.env.stand_ins is not None:
        top = ended.env.cwd
        # Whole files of an older version may fail to load.
        outcomes = dict(worst_outcomes(pair for suite in report.test_results for pair in _test_outcomes(suite, top)))
        broken = [each for each in report.test_results if each.status == "failed" and _failed_to_load(each)]
        said = {_suite_file(suite, top): suite.message or "" for suite in broken}
        said |= {
            _test_name(suite, test, top): "\n".join(test.failure_messages or ())
            for suite in report.test_results
            for test in suite.assertion_results
        }
        unresolved = {name: UnresolvedName(found) for name, text in said.items() if (found := unresolved_name(text))}
        return RunnerResult(
            outcomes={**outcomes, **{_suite_file(each, top): "error" for each in broken}}, unresolved=unresolved
        )
    return _read_result(report, ended.env.cwd, ended.exit_code, whole=ended.env.whole)


def _read_result(report: JestReport, top: Path, exit_code: int | None, *, whole: bool) -> RunnerResult:
    broken = [
        _suite_file(suite, top) for suite in report.test_results if suite.status == "failed" and _failed_to_load(suite)
    ]
    if broken:
        return load_failure("Test files failed to load", broken)
    outcomes = [pair for suite in report.test_results for pair in _test_outcomes(suite, top)]
    failed = sum(outcome == "failed" for _, outcome in outcomes)
    # A module under test can edit the report; a forger has to get every count right.
    if (len(outcomes), failed) != (report.num_total_tests, report.num_failed_tests):
        why = (
            f"The report counts {report.num_total_tests} tests, {report.num_failed_tests} of them failed, "
            f"but lists {len(outcomes)}, {failed} of them failed."
        )
        return unusable_result("error", why, worst_outcomes(outcomes))
    result = match_exit_code(worst_outcomes(outcomes), exit_code, whole=whole)
    said = [
        (_test_name(suite, each, top), (failure_message(each.failure_messages[0]),))
        for suite in report.test_results
        for each in suite.assertion_results
        if each.status == "failed" and each.failure_messages
    ]
    return structs.replace(result, messages=dict(said[:MAX_MESSAGES]))


def _test_outcomes(suite: JestSuite, top: Path) -> Iterator[tuple[str, TestOutcome]]:
    for each in suite.assertion_results:
        yield _test_name(suite, each, top), OUTCOME_BY_STATUS.get(each.status, "skipped")


def _test_name(suite: JestSuite, test: JestTest, top: Path) -> str:
    return printable_test_name(TITLE_SEPARATOR.join((_suite_file(suite, top), *test.ancestor_titles, test.title)))


def _failed_to_load(suite: JestSuite) -> bool:
    # If no test of a failed file failed, the file could not be loaded.
    return not any(each.status == "failed" for each in suite.assertion_results)


def _suite_file(suite: JestSuite, top: Path) -> str:
    path = Path(suite.name)
    return printable_test_name(str(path.relative_to(top)) if path.is_relative_to(top) else suite.name)


JEST = RunnerAdapter(build_command=partial(build_command, runner="jest"), read_report=read_report)
VITEST = RunnerAdapter(build_command=partial(build_command, runner="vitest"), read_report=read_report)


def unresolved_name(message: str) -> str | None:
    """Return the last part of the name, or the module's name, that an error cannot resolve; None without one."""
    for pattern in (_NOT_EXPORTED, _NO_MODULE, _NOT_DEFINED, _NOT_CALLABLE):
        found = pattern.search(message)
        if found:
            name = found[1].rpartition("/")[2].partition(".")[0] if pattern is _NO_MODULE else found[1]
            return name.rpartition(".")[2] or None
    return None
