"""Run `cargo test` and read its output: a section for each test binary, with the names of its tests.

With one thread, what a test prints comes between its name and its result, and children print past the harness. So the
verdict of each binary counts: its list of failures and its summary.
"""

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
    distinct_names,
    load_failure,
    match_exit_code,
    plain_text,
    printable_test_name,
    unusable_result,
)

NAME_SEPARATOR = ": "
DOC_TESTS = "Doc-tests "
_COMMAND = re.compile(r"\bcargo(\s+\+\S+)?\s+test\b")
MESSAGE_FORMAT_OPTION = "--message-format json-render-diagnostics"
"""Makes cargo report the source of each binary; otherwise all crates of a workspace are named `src/lib.rs`."""
_JSON_PREFIX = '{"reason":'
_PROGRAM = re.compile(r"^\s+(?:Running (?:unittests )?(?P<source>\S+)(?: \((?P<made>.*)\))?|Doc-tests (?P<crate>\S+))$")
_BEGIN = re.compile(r"^running (?P<count>\d+) tests?$")
_TEST = re.compile(
    r"test (?P<name>\S.*?)(?: - should panic)?(?: - compile(?: fail)?)? \.\.\.(?: (?P<ignored>ignored)\b| |$)"
)
"""The name of a test; what another one printed without a line break may precede it, and anything may follow."""
_LINE_OF_DOC_TEST = re.compile(r" \(line (\d+)\)")
_RUST_NAME = re.compile(r"\w+(?:::\w+)*")
_FAILURES = "failures:"
_OUTPUT = "successes:"
_SUMMARY = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored;")
_NUMBER = re.compile(r" \(\d+\)$")
_UNCOMPILED = re.compile(r"^error: could not compile (`.+?`(?: \(.+?\))?) due to", re.MULTILINE)
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
    listed: list[tuple[str, bool]] = []
    """The names, and whether each was ignored."""
    failures: list[str] = []
    """What its last list of failures names."""
    summary: tuple[int, int, int] | None = None

    def outcomes(self) -> list[tuple[str, TestOutcome]]:
        """Return each test with its outcome, in the order of the source for doc tests."""
        return [
            (name, "skipped" if ignored else "failed" if name in self.failures else "passed")
            for name, ignored in sorted(
                self.listed, key=lambda each: int(_LINE_OF_DOC_TEST.findall(f"{each[0]} (line 0)")[0])
            )
        ]


def build_command(command: str, env: RunnerEnv) -> RunnerCommand:
    """Return the command with stderr merged into stdout; a selected test name runs in every binary that has it."""
    options = [each for each in ("--no-fail-fast", MESSAGE_FORMAT_OPTION) if each.split()[0] not in command]
    every = _COMMAND.sub(lambda found: " ".join((found[0], *options)), command, count=1)
    names = [name.rpartition(NAME_SEPARATOR)[2] for name in env.only if NAME_SEPARATOR in name]
    # Names of doc tests are without their line here, so they select by a part of the name.
    exact = "" if any(name.startswith(DOC_TESTS) for name in env.only) else "--exact "
    selects = len(names) == len(env.only) > 0 and " -- " not in command
    some = f" -- {exact}{shlex.join(sorted({_NUMBER.sub('', name) for name in names}))}" if selects else ""
    # Cargo names each binary on standard error and libtest prints its tests on
    # standard output: only merged do they have an order.
    return RunnerCommand(command=f"{{ {every}{some}\n}} 2>&1")


def read_report(ended: RunnerExit) -> RunnerResult:
    """Return the result of a run that was not killed."""
    lines = plain_text(ended.stdout).splitlines()
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
    found = [(part.program, name, end) for part in parts for name, end in part.outcomes()]
    names = [
        # The line of a doc test moves with each edit above it.
        f"{program}{NAME_SEPARATOR}{_LINE_OF_DOC_TEST.sub('', name) if program.startswith(DOC_TESTS) else name}"
        for program, name, _ in found
    ]
    ends = [end for *_, end in found]
    outcomes = dict(zip(distinct_names([printable_test_name(name) for name in names]), ends, strict=True))
    if not parts and (unbuilt := _UNCOMPILED.findall(ended.output)):
        return load_failure("The tests could not be built", sorted(map(printable_test_name, {*unbuilt})))
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

    Tests are listed from the announcement until a list of failures or the summary; libtest shows in between what failed
    tests printed, which may look like results. The last list of failures is libtest's own.
    """
    program, part, listing = "tests", None, False
    for line in text.splitlines():
        begin, summary = _BEGIN.match(line), _SUMMARY.match(line)
        if part is None:
            program = _program_in(line, sources) or program
            if begin:
                part, listing = BinaryOutput(program=program, announced=int(begin["count"])), True
        elif summary:
            part.summary = (int(summary[1]), int(summary[2]), int(summary[3]))
            if len(part.listed) > part.announced:
                # Of a child that is a harness itself. Those that try files, such as trybuild, name files; the names of
                # one program are different.
                real = [each for each in part.listed if _RUST_NAME.fullmatch(each[0]) or " - " in each[0]]
                part.listed = list(dict(real[::-1]).items())
            yield part
            part = None
        elif line in {_FAILURES, _OUTPUT}:
            listing, part.failures = False, []
        elif listing:
            part.listed += [(test["name"], test["ignored"] is not None) for test in _TEST.finditer(line)]
        elif line.startswith("    "):
            part.failures.append(line.removeprefix("    "))
    if part is not None:
        yield part


def _program_in(line: str, sources: Mapping[str, str]) -> str:
    found = _PROGRAM.match(line)
    if found is None:
        return ""
    return sources.get(PurePosixPath(found["made"] or "").name) or found["source"] or f"{DOC_TESTS}{found['crate']}"


def _find_inconsistency(part: BinaryOutput) -> str | None:
    if part.summary is None:
        return f"The tests of {part.program} stopped before they finished."
    ends = [end for _, end in part.outcomes()]
    counted = tuple(ends.count(outcome) for outcome in ("passed", "failed", "skipped"))
    if counted != part.summary or sum(counted) != part.announced:
        return f"{part.program} announced {part.announced} tests, but summed up {part.summary} and listed {counted}."
    return None


CARGO = RunnerAdapter(build_command=build_command, read_report=read_report, reports_on_output=True)
