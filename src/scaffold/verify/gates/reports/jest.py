"""Read the report of jest and vitest, written to our own folder, and the names that JavaScript could not resolve."""

import json
import re
import shlex
from collections.abc import Mapping
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
    distinct_names,
    failure_message,
    load_failure,
    match_exit_code,
    printable_test_name,
    unusable_result,
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
        if any(phrase in ended.output for phrase in ("No tests found", "No test files found")):
            return unusable_result("vacuous", "It found no tests.")
        return unusable_result("error", f"The runner wrote no usable report: {data} (exit code {ended.exit_code}).")
    try:
        # Not by msgspec's reader: a text of JavaScript may have half a character, as a title with a cut emoji.
        report = msgspec.convert(json.loads(data), JestReport)
    except (msgspec.ValidationError, ValueError, RecursionError) as error:
        return unusable_result("error", f"The runner's report cannot be parsed: {error}.")
    tests = _named_tests(report, ended.env.cwd)
    if ended.env.stand_ins is not None:
        # Whole files of an older version may fail to load.
        broken = {_suite_file(each, ended.env.cwd): each.message or "" for each in _broken_suites(report)}
        said = {**broken, **{name: "\n".join(test.failure_messages or ()) for name, test in tests.items()}}
        return RunnerResult(
            outcomes={**_outcomes_by_name(tests), **dict.fromkeys(broken, "error")},
            unresolved={name: UnresolvedName(found) for name, text in said.items() if (found := unresolved_name(text))},
        )
    return _read_result(report, tests, ended)


def _read_result(report: JestReport, tests: Mapping[str, JestTest], ended: RunnerExit) -> RunnerResult:
    broken = [_suite_file(suite, ended.env.cwd) for suite in _broken_suites(report)]
    outcomes = _outcomes_by_name(tests)
    if broken:
        return load_failure("Test files failed to load", broken, RunnerResult(outcomes=outcomes))
    failed = sum(outcome == "failed" for outcome in outcomes.values())
    # A module under test can edit the report; a forger has to get every count right.
    if (len(outcomes), failed) != (report.num_total_tests, report.num_failed_tests):
        why = (
            f"The report counts {report.num_total_tests} tests, {report.num_failed_tests} of them failed, "
            f"but lists {len(outcomes)}, {failed} of them failed."
        )
        return unusable_result("error", why, outcomes)
    result = match_exit_code(outcomes, ended.exit_code, whole=ended.env.whole)
    said = [
        (name, (failure_message(each.failure_messages[0]),))
        for name, each in tests.items()
        if each.status == "failed" and each.failure_messages
    ]
    return structs.replace(result, messages=dict(said[:MAX_MESSAGES]))


def _named_tests(report: JestReport, top: Path) -> dict[str, JestTest]:
    """Return the tests by file, titles of suites, own title and occurrence, in the order of the report."""
    found = [(suite, each) for suite in report.test_results for each in suite.assertion_results]
    titles = [(_suite_file(suite, top), *each.ancestor_titles, each.title) for suite, each in found]
    # What has no title is the file itself.
    names = [printable_test_name(TITLE_SEPARATOR.join(each if any(each[1:]) else each[:1])) for each in titles]
    return dict(zip(distinct_names(names), (each for _, each in found), strict=True))


def _outcomes_by_name(tests: Mapping[str, JestTest]) -> dict[str, TestOutcome]:
    return {name: OUTCOME_BY_STATUS.get(each.status, "skipped") for name, each in tests.items()}


def _broken_suites(report: JestReport) -> list[JestSuite]:
    # If no test of a failed file failed, the file could not be loaded.
    return [
        suite
        for suite in report.test_results
        if suite.status == "failed" and not any(each.status == "failed" for each in suite.assertion_results)
    ]


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
