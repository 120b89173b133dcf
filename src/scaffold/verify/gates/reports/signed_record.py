"""Read the record that our recorder writes inside pytest and unittest; every line must be signed."""

import hashlib
import hmac
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct, structs

from scaffold.core.printable_text import join_limited
from scaffold.core.proof.gates import TestOutcome
from scaffold.host.contained_path import ContainedPath
from scaffold.verify.gates.injected.scaffold_recorder import PART, RECORD, derived
from scaffold.verify.gates.reports.runner_result import (
    MAX_BYTES,
    MAX_MESSAGES,
    OsFailure,
    RunnerResult,
    UnresolvedName,
    distinct_names,
    failure_message,
    load_failure,
    match_exit_code,
    printable_test_name,
    unusable_result,
    worst_outcomes,
)

DIGEST_CHARS = 32
MAX_WORKERS = 256
LYING_RUNNER = "The test runner's report cannot be trusted"


class CollectedLine(Struct, frozen=True, array_like=True, tag="collected"):
    """The tests selected to run."""

    names: tuple[str, ...]


class UncollectedLine(Struct, frozen=True, array_like=True, tag="collection"):
    """A file that could not be collected."""

    name: str


class StartedLine(Struct, frozen=True, array_like=True, tag="start"):
    """A test started."""

    name: str


class RaisedLine(Struct, frozen=True, array_like=True, tag="raised"):
    """Whether the last call of a test raised, as seen by the innermost hook."""

    name: str
    raised: bool


class PhaseReport(Struct, frozen=True, array_like=True):
    """The runner's report of one phase of a test."""

    when: Literal["setup", "call", "teardown"]
    outcome: str
    foreseen: bool
    """Whether the test is expected to fail (xfail)."""


class ReportLine(Struct, frozen=True, array_like=True, tag="outcome"):
    """The runner's report of one phase of a named test."""

    name: str
    when: Literal["setup", "call", "teardown"]
    outcome: str
    foreseen: bool


class ErrorsLine(Struct, frozen=True, array_like=True, tag="errors"):
    """The errors of the operating system that made a test fail."""

    name: str
    errors: tuple[OsFailure, ...]


class UnresolvedLine(Struct, frozen=True, array_like=True, tag="unresolved"):
    """The name that a test of an older version could not resolve."""

    name: str
    unresolved: str
    owners: tuple[tuple[str, str], ...]


class ReplacedLine(Struct, frozen=True, array_like=True, tag="replaced"):
    """Functions of the runner that were replaced during the run."""

    names: tuple[str, ...]


class SaidLine(Struct, frozen=True, array_like=True, tag="said"):
    """The runner's message about a failed test."""

    name: str
    text: str


class CanaryLine(Struct, frozen=True, array_like=True, tag="canary"):
    """A canary, which is one of our own tests: whether it raised, and what the runner reported."""

    name: str
    raised: bool
    reports: tuple[PhaseReport, ...]


class EndLine(Struct, frozen=True, array_like=True, tag="end"):
    """The end of the record."""

    exit_code: int


RecordLine = (
    CollectedLine
    | UncollectedLine
    | StartedLine
    | RaisedLine
    | ReportLine
    | ErrorsLine
    | UnresolvedLine
    | ReplacedLine
    | SaidLine
    | CanaryLine
    | EndLine
)


def read_record(folder: Path, key: bytes) -> tuple[RecordLine, ...] | str:
    """Return the record of a run, including pytest-xdist workers, or the reason why it cannot be trusted."""
    lines = _read_lines(folder / RECORD, key)
    if isinstance(lines, str):
        return lines
    for path in sorted(folder.glob(f"{RECORD}-*"))[:MAX_WORKERS]:
        # The file name is part of the key: a copy of one worker's record under another name is not valid.
        more = _read_lines(path, derived(derived(key, "workers"), path.name))
        if isinstance(more, str):
            return more
        lines += tuple(line for line in more if not isinstance(line, EndLine))
    return lines


def with_occurrences(lines: Sequence[RecordLine]) -> list[RecordLine]:
    """Return the lines of one process with equal names numbered: a plugin may collect several tests of one name."""
    names = [name for line in lines if isinstance(line, CollectedLine) for name in line.names]
    if len({*names}) == len(names):
        return list(lines)
    numbered, found = dict[str, list[str]](), list[RecordLine]()
    for name, own in zip(names, distinct_names(names), strict=True):
        numbered.setdefault(name, []).append(own)
    current = {name: own[0] for name, own in numbered.items()}
    for line in lines:
        if isinstance(line, StartedLine) and numbered.get(line.name):
            current[line.name] = numbered[line.name].pop(0)
        if isinstance(line, CollectedLine):
            found.append(CollectedLine(tuple(distinct_names(line.names))))
        elif isinstance(line, StartedLine | RaisedLine | ReportLine | ErrorsLine | UnresolvedLine | SaidLine):
            found.append(structs.replace(line, name=current.get(line.name, line.name)))
        else:
            found.append(line)
    return found


def judge_record(lines: Sequence[RecordLine], exit_code: int | None, *, whole: bool) -> RunnerResult:
    """Return the result of a run that was not killed."""
    broken = sorted({printable_test_name(line.name) for line in lines if isinstance(line, UncollectedLine)})
    if broken:
        others = [line for line in lines if not isinstance(line, UncollectedLine)]
        found = judge_record(others, exit_code, whole=False) if _selected_tests(others) else None
        return load_failure("Collection failed", broken, found)
    ends = [line for line in lines if isinstance(line, EndLine)]
    # `os._exit` in a test, or at import, ends the process without an end line.
    if not ends:
        running = ", ".join(unfinished_tests(lines)[:3])
        where = f" in {running}" if running else ""
        return unusable_result(
            "error", f"The runner exited with code {exit_code}{where} before its report was complete."
        )
    chosen = _selected_tests(lines)
    outcomes = _test_outcomes(lines, chosen)
    missing = sorted(chosen - outcomes.keys())
    mismatch = _canary_mismatch(lines) if chosen and not missing else None
    if mismatch:
        return unusable_result("error", mismatch)
    if missing:
        return unusable_result("error", f"Collected tests did not run: {join_limited(missing, 1)}.", outcomes)
    # pytest: 0 passed, 1 failed, 5 collected nothing; any other code is an error of the runner, or an interruption.
    if exit_code not in {0, 1, 5} or ends[-1].exit_code not in {0, 1, 5}:
        return unusable_result("error", f"The runner itself failed with exit code {exit_code}.", outcomes)
    result = match_exit_code(outcomes, exit_code, whole=whole)
    # Errors of a class's or module's set-up count for each of its tests.
    reported = defaultdict[str, list[OsFailure]](list)
    for line in lines:
        if isinstance(line, ErrorsLine):
            # A test may fail more than once: in its call, its parts and its teardown.
            reported[printable_test_name(line.name)] += line.errors
    covered = {test: reported[each] for each in reported for test in outcomes if _fixture_covers(each, test)}
    return structs.replace(
        result,
        errors={name: tuple(errors) for name, errors in (covered | reported).items() if name in outcomes},
        messages=_first_messages(lines, outcomes),
        replaced=_replaced_names(lines),
    )


def _selected_tests(lines: Iterable[RecordLine]) -> set[str]:
    return {printable_test_name(name) for line in lines if isinstance(line, CollectedLine) for name in line.names}


def judge_older_record(lines: Sequence[RecordLine]) -> RunnerResult:
    """Return the outcomes of tests of an older version than the code; a file that cannot be loaded is an `error`.

    They only count if the canaries were reported correctly. A run that ended early reports the tests before its end.
    """
    broken = [printable_test_name(line.name) for line in lines if isinstance(line, UncollectedLine)]
    chosen = _selected_tests(lines)
    outcomes: dict[str, TestOutcome] = {**_test_outcomes(lines, chosen), **dict.fromkeys(broken, "error")}
    mismatch = _canary_mismatch(lines) if chosen else None
    if mismatch:
        return unusable_result("error", mismatch)
    unresolved = {
        printable_test_name(line.name): UnresolvedName(line.unresolved, line.owners)
        for line in lines
        if isinstance(line, UnresolvedLine)
    }
    return RunnerResult(
        outcomes=outcomes,
        unresolved=unresolved,
        messages=_first_messages(lines, outcomes),
        replaced=_replaced_names(lines),
    )


def unfinished_tests(lines: Sequence[RecordLine]) -> tuple[str, ...]:
    """Return the tests that started and have no report."""
    done = {line.name for line in lines if isinstance(line, ReportLine)}
    started = [line.name for line in lines if isinstance(line, StartedLine)]
    return tuple(dict.fromkeys(printable_test_name(name) for name in started if name not in done))


def _read_lines(path: Path, key: bytes) -> tuple[RecordLine, ...] | str:
    data = ContainedPath(path.parent, path.name).read(MAX_BYTES)
    if isinstance(data, str):
        return f"The recorder wrote no usable record: {data}."
    try:
        lines = [msgspec.json.decode(line, type=RecordLine) for line in _verified_lines(data, key)]
        return tuple(with_occurrences(lines))
    except (msgspec.DecodeError, ValueError, RecursionError):
        return f"{LYING_RUNNER}: other code wrote to the record."


def _verified_lines(data: bytes, key: bytes) -> Iterator[bytes]:
    """Yield the complete lines; ValueError at the first with a wrong signature."""
    seal = hashlib.blake2b(key=key, digest_size=DIGEST_CHARS // 2)
    # After the last line break there is nothing, or a line that was cut off.
    for line in data.split(b"\n")[:-1]:
        text = line[DIGEST_CHARS + 1 :]
        seal.update(text)
        if not hmac.compare_digest(line[:DIGEST_CHARS], seal.copy().hexdigest().encode()):
            raise ValueError("not signed")
        yield text


def _test_outcomes(lines: Iterable[RecordLine], chosen: set[str]) -> dict[str, TestOutcome]:
    # A test that raised has failed, even if it was reported as passed.
    raised = {line.name: line.raised for line in lines if isinstance(line, RaisedLine)}
    # In the order of the tests, whichever worker of pytest-xdist ran them.
    order = {printable_test_name(name): 0 for line in lines if isinstance(line, CollectedLine) for name in line.names}
    order = {name: number for number, name in enumerate(order)}
    reports = [
        (printable_test_name(line.name), _report_outcome(line)) for line in lines if isinstance(line, ReportLine)
    ]
    reported = worst_outcomes(sorted(reports, key=lambda each: order.get(each[0].partition(PART)[0], len(order))))
    # A plugin or conftest can rewrite reports, but not what the innermost hook saw before.
    outcomes: dict[str, TestOutcome] = {
        name: "failed" if outcome == "passed" and raised.get(name) else outcome for name, outcome in reported.items()
    }
    for name in sorted(chosen - outcomes.keys()):
        fixture = next((reported[each] for each in reported if _fixture_covers(each, name)), None)
        if fixture is not None:
            outcomes[name] = fixture
    return outcomes


def _replaced_names(lines: Iterable[RecordLine]) -> tuple[str, ...]:
    return tuple(sorted({name for line in lines if isinstance(line, ReplacedLine) for name in line.names}))


def _first_messages(lines: Iterable[RecordLine], outcomes: Mapping[str, TestOutcome]) -> dict[str, tuple[str, ...]]:
    """Return the first message about each failed test; one of a class's or module's set-up counts for all its tests."""
    said: dict[str, str] = {}
    for line in lines:
        if isinstance(line, SaidLine):
            said.setdefault(printable_test_name(line.name), failure_message(line.text))
    covered = {test: said[each] for each in said for test in outcomes if _fixture_covers(each, test)}
    failed = [(name, text) for name, text in (covered | said).items() if outcomes.get(name) in {"failed", "error"}]
    return {name: (text,) for name, text in failed[:MAX_MESSAGES]}


def _fixture_covers(fixture: str, name: str) -> bool:
    """Return True if `fixture` is unittest's name for the set-up of the class or module of a test."""
    head, _, scope = fixture.partition(" (")
    return head in {"setUpClass", "setUpModule"} and name.startswith(f"{scope.removesuffix(')')}.")


def _report_outcome(line: ReportLine) -> TestOutcome:
    match line.outcome:
        case "passed":
            return "passed"
        case "failed":
            return "failed" if line.when == "call" else "error"
        case _:
            return "skipped"


def _canary_mismatch(lines: Iterable[RecordLine]) -> str | None:
    """Return the reason not to trust the runner's report; None if it reported our canary tests correctly.

    A project fixture that fails for the canaries as well proves nothing.
    """
    canaries = [line for line in lines if isinstance(line, CanaryLine)]
    if not canaries:
        return f"{LYING_RUNNER}: the two canary tests did not run."
    if all(any(phase.when == "setup" and phase.outcome != "passed" for phase in each.reports) for each in canaries):
        return None
    calls = {
        (each.raised, phase.outcome, phase.foreseen)
        for each in canaries
        for phase in each.reports
        if phase.when == "call"
    }
    if calls == {(True, "failed", False), (False, "passed", False)}:
        return None
    return f"{LYING_RUNNER}: it did not report that a canary test failed."
