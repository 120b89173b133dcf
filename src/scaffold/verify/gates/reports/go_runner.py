"""Run `go test -json` and read its output: one event per line, each test with its package."""

import re
import shlex
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

import msgspec
from msgspec import Struct

from scaffold.core.proof.gates import TestOutcome
from scaffold.verify.gates.reports.runner_result import (
    MAX_MESSAGES,
    OUTCOME_RANK,
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

_COMMAND = re.compile(r"\bgo\s+test\b(?!.*\s-json\b)")
_EVERYTHING = re.compile(r"(?<!\S)\./\.\.\.(?!\S)")
_BUILD_FAILED = re.compile(rb"^FAIL\s+(\S+) \[(?:build|setup) failed\]", re.MULTILINE)
"""A line between the events; before Go 1.20 it is the only sign of a failed build."""
_UNDEFINED = re.compile(r"_test\.go:\d+:\d+: (?:undefined: (?:\w+\.)?(\w+)|\S+\.(\w+) undefined \()")
"""The compiler's message about a name that a test file uses and nothing defines."""
_FUNCTION = re.compile(r"\.((?:Test|Example|Fuzz|Benchmark)\w*)(?:/|$)")
"""The function of a test or subtest."""
_LATE_RESULT = re.compile(r"\S.*--- (?P<action>PASS|FAIL|SKIP): (?P<test>\S+) \(\d+\.\d+s\)$", re.MULTILINE)
"""A result behind something that was printed without a line break."""
OUTCOME_BY_ACTION: dict[str, TestOutcome] = {"pass": "passed", "fail": "failed", "skip": "skipped"}


class GoTestEvent(Struct, frozen=True, rename="pascal"):
    """One line; an event about a package has no `test`, one about a build only an import path."""

    action: str
    package: str = ""
    test: str = ""
    output: str = ""
    import_path: str = ""
    failed_build: str = ""


def build_command(command: str, env: RunnerEnv) -> RunnerCommand:
    """Return the command with a JSON report.

    Selected files run with their whole packages; selected functions run in every package that has one of that name.
    """
    functions = [_FUNCTION.search(name) for name in env.only]
    names = sorted({found[1] for found in functions if found})
    some = f" -run '^({'|'.join(names)})$'" if names and all(functions) else ""
    packages = {f"./{name.rpartition('/')[0]}" for name in env.only}
    chosen = shlex.join(sorted(packages)) if all(name.endswith(".go") for name in env.only) else ""
    every = _EVERYTHING.sub(lambda _: chosen or "./...", command, count=1)
    return RunnerCommand(command=_COMMAND.sub(f"go test -json{some}", every, count=1))


def can_select_packages(command: str) -> bool:
    """Return True if a command runs all packages, so that it can be limited to some."""
    return _EVERYTHING.search(command) is not None


def read_report(ended: RunnerExit) -> RunnerResult:
    """Return the result of a run that was not killed."""
    events = tuple(_parse_events(ended.stdout))
    broken = {printable_test_name(found.decode(errors="replace")) for found in _BUILD_FAILED.findall(ended.stdout)}
    for event in events:
        told = event.action == "output" and not event.test and re.search(r"\[(build|setup) failed\]", event.output)
        if event.action == "build-fail" or event.failed_build or told:
            broken.add(printable_test_name(event.import_path or event.package))
    outcomes = _test_outcomes(events)
    if broken and ended.env.stand_ins is not None:
        return _older_result(events, ended, broken, outcomes)
    if broken:
        others = RunnerResult(outcomes=outcomes) if outcomes else None
        failure = load_failure("The build failed", sorted(broken), others)
        return msgspec.structs.replace(failure, shown_output=_join_output(events))
    if not events:
        return unusable_result("error", f"The runner printed no report and exited with code {ended.exit_code}.")
    outcomes |= dict.fromkeys(_failed_packages(events, outcomes), "error")
    result = match_exit_code(outcomes, ended.exit_code, whole=ended.env.whole)
    printed = defaultdict[str, list[str]](list)
    for event in events:
        if event.action == "output" and event.test and not event.output.lstrip().startswith(("=== ", "--- ")):
            printed[_test_name(event)].append(event.output)
    failed = [name for name in printed if outcomes.get(name) == "failed"]
    messages = {name: (failure_message("".join(printed[name])),) for name in failed[:MAX_MESSAGES]}
    return msgspec.structs.replace(result, messages=messages, shown_output=_join_output(events))


def _test_outcomes(events: Sequence[GoTestEvent]) -> dict[str, TestOutcome]:
    """Return the outcome of each run of a test, in the order in which they started.

    What tests print, themselves or through a child, can hide an event or look like one. So in a package whose own
    verdict is that it passed, every test did that has a result. A test without one has ended the process.
    """
    started = list[tuple[str, str, list[TestOutcome]]]()
    latest = dict[str, list[TestOutcome]]()
    for event in events:
        # Before Go 1.20 the event of a result is lost if it follows an unfinished line.
        late = _LATE_RESULT.search(event.output) if event.action == "output" else None
        action, test = (late["action"].lower(), late["test"]) if late else (event.action, event.test)
        if not test or not (action == "run" or action in OUTCOME_BY_ACTION):
            continue
        name = printable_test_name(f"{event.package}.{test}")
        if name not in latest or (action == "run" and latest[name]):
            latest[name] = []
            started.append((name, event.package, latest[name]))
        if action != "run":
            latest[name].append(OUTCOME_BY_ACTION[action])
    passed = _passed_packages(events)
    names = distinct_names([name for name, *_ in started])
    return {
        name: "passed"
        if ends and package in passed and "skipped" not in ends
        else max(ends, key=OUTCOME_RANK.__getitem__, default="failed")
        for name, (_, package, ends) in zip(names, started, strict=True)
    }


def _passed_packages(events: Sequence[GoTestEvent]) -> frozenset[str]:
    """Return the packages that passed, by the exit of their process and by the last verdict that it printed."""
    printed = {event.package: event.output.strip() for event in events if event.output.strip() in {"PASS", "FAIL"}}
    ended = {event.package: event.action for event in events if not event.test and event.action in OUTCOME_BY_ACTION}
    return frozenset(name for name, action in ended.items() if action == "pass" and printed.get(name) == "PASS")


def _older_result(
    events: Sequence[GoTestEvent], ended: RunnerExit, broken: set[str], outcomes: dict[str, TestOutcome]
) -> RunnerResult:
    # Whole packages of an older version may fail to compile.
    packages = {name.partition(" ")[0]: name for name in broken}
    said = f"{_join_output(events)}\n{ended.output}"
    unresolved = {
        package: UnresolvedName(found[1] or found[2])
        for package in packages
        for found in [_UNDEFINED.search(said)]
        if found and len(packages) == 1
    }
    return RunnerResult(outcomes={**outcomes, **dict.fromkeys(packages, "error")}, unresolved=unresolved)


def unfinished_tests(ended: RunnerExit) -> tuple[str, ...]:
    """Return the tests that started and did not finish."""
    events = tuple(_parse_events(ended.stdout))
    finished = {_test_name(event) for event in events if event.action in OUTCOME_BY_ACTION}
    started = [_test_name(event) for event in events if event.action == "run"]
    return tuple(dict.fromkeys(name for name in started if name not in finished))


def _parse_events(output: bytes) -> Iterator[GoTestEvent]:
    # Other lines, which the tools print too, are skipped.
    for line in output.split(b"\n"):
        if line.startswith(b"{"):
            try:
                yield msgspec.json.decode(line, type=GoTestEvent)
            # A test may print a line that starts with a brace.
            except (msgspec.DecodeError, RecursionError):
                continue


def _join_output(events: Iterable[GoTestEvent]) -> str:
    return "".join(event.output for event in events)


def _failed_packages(events: Iterable[GoTestEvent], outcomes: dict[str, TestOutcome]) -> Iterator[str]:
    # Packages that failed although none of their tests did: a panic, an exit, a race.
    for event in events:
        if event.action == "fail" and not event.test:
            own_outcomes = (
                outcome
                for name, outcome in outcomes.items()
                if name.startswith(f"{printable_test_name(event.package)}.")
            )
            if "failed" not in own_outcomes:
                yield printable_test_name(event.package)


def _test_name(event: GoTestEvent) -> str:
    return printable_test_name(f"{event.package}.{event.test}")


GO = RunnerAdapter(
    build_command=build_command, read_report=read_report, unfinished_tests=unfinished_tests, reports_on_output=True
)
