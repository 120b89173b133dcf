"""The report that jest and vitest write with `--json`: a file of ours, outside of what is tested."""

import shlex
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from scaffold.core.gates import TestOutcome
from scaffold.verify.gates.family import Bench, Ended, Family, Order
from scaffold.verify.gates.reading import Reading, concluded, content, in_trouble, named, unusable, worst

REPORT = "report.json"
BETWEEN = " > "
NOTHING_FOUND = (b"No tests found", b"No test files found")
STATES: dict[str, TestOutcome] = {"passed": "passed", "failed": "failed", "focused": "passed"}


class Assertion(Struct, frozen=True, rename="camel"):
    """One test."""

    title: str
    status: str
    ancestor_titles: tuple[str, ...] = ()


class Suite(Struct, frozen=True, rename="camel"):
    """One file of tests; `name` is its absolute path."""

    name: str
    status: str
    assertion_results: tuple[Assertion, ...] = ()
    message: str | None = None


class Report(Struct, frozen=True, rename="camel"):
    """All of a run."""

    num_total_tests: int
    num_failed_tests: int
    test_results: tuple[Suite, ...]


def asked(command: str, bench: Bench, runner: Literal["jest", "vitest"]) -> Order:
    """Return the command with a report in our folder; of the files alone in which something is wanted."""
    report = shlex.quote(str(bench.folder / REPORT))
    files = tuple(dict.fromkeys(name.partition(BETWEEN)[0] for name in bench.only))
    if runner == "jest":
        words = f"--json --outputFile={report}" + (" --runTestsByPath" if files else "")
    else:
        words = f"--run --reporter=json --outputFile={report}"
    through_npm = " --" if command.split()[:1] == ["npm"] and " -- " not in command else ""
    return Order(command=" ".join((f"{command}{through_npm}", words, *map(shlex.quote, files))))


def read(ended: Ended) -> Reading:
    """Return what a run showed that came to its end by itself."""
    data = content(ended.bench.folder / REPORT)
    if isinstance(data, str):
        if any(phrase in ended.output for phrase in NOTHING_FOUND):
            return in_trouble("vacuous", "It found no test at all.")
        return in_trouble("error", f"The runner left no report: {data}; it ended with {ended.exit_code}.")
    try:
        report = msgspec.json.decode(data, type=Report)
    except (msgspec.DecodeError, RecursionError) as error:
        return in_trouble("error", f"The runner's report cannot be read: {error}.")
    return _judged(report, ended.bench.place, ended.exit_code, whole=ended.bench.whole)


def _judged(report: Report, top: Path, exit_code: int | None, *, whole: bool) -> Reading:
    broken = [_file(suite, top) for suite in report.test_results if suite.status == "failed" and _empty(suite)]
    if broken:
        return unusable("It could not be run", broken)
    told = [pair for suite in report.test_results for pair in _outcomes(suite, top)]
    failed = sum(outcome == "failed" for _, outcome in told)
    if (len(told), failed) != (report.num_total_tests, report.num_failed_tests):
        why = (
            f"The report counts {report.num_total_tests} tests, {report.num_failed_tests} of them failed, "
            f"and names {len(told)}, {failed} of them failed."
        )
        return in_trouble("error", why, worst(told))
    return concluded(worst(told), exit_code, whole=whole)


def _outcomes(suite: Suite, top: Path) -> Iterator[tuple[str, TestOutcome]]:
    for each in suite.assertion_results:
        name = BETWEEN.join((_file(suite, top), *each.ancestor_titles, each.title))
        yield named(name), STATES.get(each.status, "skipped")


def _empty(suite: Suite) -> bool:
    """Tell whether a file failed without a test of it that did: it could not even be loaded."""
    return not any(each.status == "failed" for each in suite.assertion_results)


def _file(suite: Suite, top: Path) -> str:
    path = Path(suite.name)
    return named(str(path.relative_to(top)) if path.is_relative_to(top) else suite.name)


JEST = Family(asked=partial(asked, runner="jest"), read=read)
VITEST = Family(asked=partial(asked, runner="vitest"), read=read)
