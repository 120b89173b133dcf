"""Run `cargo test` and read its output: a section for each test binary with a line for each test."""

import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

import msgspec
from msgspec import Struct

from scaffold.core.proof.gates import TestOutcome
from scaffold.verify.gates.reports.runner_result import (
    RunnerAdapter,
    RunnerCommand,
    RunnerEnv,
    RunnerExit,
    RunnerResult,
    match_exit_code,
    printable_test_name,
    unusable_result,
    worst_outcomes,
)

NAME_SEPARATOR = ": "
OUTCOME_BY_STATUS: dict[str, TestOutcome] = {"ok": "passed", "FAILED": "failed", "ignored": "skipped"}

_COMMAND = re.compile(r"\bcargo(\s+\+\S+)?\s+test\b")
MESSAGE_FORMAT_OPTION = "--message-format json-render-diagnostics"
"""Makes cargo report the source of each binary; otherwise all crates of a workspace are named `src/lib.rs`."""
_JSON_PREFIX = '{"reason":'
_PROGRAM = re.compile(r"^\s+(?:Running (?:unittests )?(?P<source>\S+)(?: \((?P<made>.*)\))?|Doc-tests (?P<crate>\S+))$")
_BEGIN = re.compile(r"^running (?P<count>\d+) tests?$")
_TEST = re.compile(r"^test (?P<name>.+?)(?: - should panic)? \.\.\. (?P<ending>ok|FAILED|ignored)(?:, .*| <.*>)?$")
_SUMMARY = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored;")
_UNBUILT = re.compile(r"^error(?:\[E\d+\])?: ", re.MULTILINE)


class CargoTarget(Struct, frozen=True):
    """The source of an artifact."""

    src_path: str
    """Absolute."""


class CargoArtifact(Struct, frozen=True):
    """One file that cargo built."""

    target: CargoTarget
    executable: str | None = None


class BinaryOutput(Struct, kw_only=True):
    """The output of one test binary so far."""

    program: str
    announced: int
    outcomes: dict[str, TestOutcome] = {}
    summary: tuple[int, int, int] | None = None


def build_command(command: str, env: RunnerEnv) -> RunnerCommand:
    """Return the command with stderr merged into stdout; a selected test name runs in every binary that has it."""
    options = [each for each in ("--no-fail-fast", MESSAGE_FORMAT_OPTION) if each.split()[0] not in command]
    every = _COMMAND.sub(lambda found: " ".join((found[0], *options)), command, count=1)
    names = [name.rpartition(NAME_SEPARATOR)[2] for name in env.only if NAME_SEPARATOR in name]
    exact = len(names) == len(env.only) > 0 and " -- " not in command
    some = f" -- --exact {shlex.join(sorted(set(names)))}" if exact else ""
    # Cargo names each binary on standard error and libtest prints its tests on
    # standard output: only merged do they have an order.
    return RunnerCommand(command=f"{{ {every}{some}\n}} 2>&1")


def read_report(ended: RunnerExit) -> RunnerResult:
    """Return the result of a run that was not killed."""
    lines = ended.stdout.decode(errors="replace").splitlines()
    text = "\n".join(line for line in lines if not line.startswith(_JSON_PREFIX))
    found: dict[str, str] = {}
    for line in lines:
        # From here on tests print, maybe lines that look like cargo's own.
        if _PROGRAM.match(line):
            break
        if line.startswith(_JSON_PREFIX) and (made := _parse_artifact(line)) and made.executable:
            source = PurePosixPath(made.target.src_path)
            if source.is_relative_to(ended.env.cwd):
                found[PurePosixPath(made.executable).name] = str(source.relative_to(ended.env.cwd))
    return msgspec.structs.replace(_read_result(ended, text, found), shown_output=text)


def _read_result(ended: RunnerExit, text: str, sources: Mapping[str, str]) -> RunnerResult:
    parts = tuple(_binary_outputs(text, sources))
    outcomes = worst_outcomes(
        (printable_test_name(f"{part.program}{NAME_SEPARATOR}{name}"), end)
        for part in parts
        for name, end in part.outcomes.items()
    )
    if not parts:
        problem = "The tests could not be built" if _UNBUILT.search(text) else "The runner printed no report"
        return unusable_result("error", f"{problem} (exit code {ended.exit_code}).")
    for part in parts:
        inconsistency = _find_inconsistency(part)
        if inconsistency:
            return unusable_result("error", inconsistency, outcomes)
    return match_exit_code(outcomes, ended.exit_code, whole=ended.env.whole)


def _parse_artifact(line: str) -> CargoArtifact | None:
    try:
        return msgspec.json.decode(line, type=CargoArtifact)
    except (msgspec.DecodeError, RecursionError):
        return None


def _binary_outputs(text: str, sources: Mapping[str, str]) -> Iterator[BinaryOutput]:
    """Yield the output of each test binary.

    Test lines count from the first one after the announcement until an empty line or the summary.
    """
    program, part, listing = "tests", None, False
    for line in text.splitlines():
        begin, test, summary = _BEGIN.match(line), _TEST.match(line), _SUMMARY.match(line)
        if part is None:
            if found := _PROGRAM.match(line):
                binary = PurePosixPath(found["made"] or "").name
                program = sources.get(binary) or found["source"] or f"Doc-tests {found['crate']}"
            if begin:
                part, listing = BinaryOutput(program=program, announced=int(begin["count"])), True
        elif summary:
            part.summary = (int(summary[1]), int(summary[2]), int(summary[3]))
            yield part
            part = None
        elif listing and test:
            part.outcomes[test["name"]] = OUTCOME_BY_STATUS[test["ending"]]
        elif not line:
            # An empty line ends the list; after it libtest shows what failed
            # tests printed, which may look like results.
            listing = listing and not part.outcomes
    if part is not None:
        yield part


def _find_inconsistency(part: BinaryOutput) -> str | None:
    if part.summary is None:
        return f"The tests of {part.program} stopped before they finished."
    counted = tuple(
        sum(end == outcome for end in part.outcomes.values()) for outcome in ("passed", "failed", "skipped")
    )
    if counted != part.summary or sum(counted) != part.announced:
        return f"{part.program} announced {part.announced} tests, but summed up {part.summary} and listed {counted}."
    return None


CARGO = RunnerAdapter(build_command=build_command, read_report=read_report, reports_on_output=True)
