"""Node's built-in test runner: request a TAP report in our folder by NODE_OPTIONS, and read it.

By the same variable each of its processes loads our script, which tells which assertions were replaced.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct, structs

from scaffold.core.gates import TestOutcome
from scaffold.host.files import read_untrusted
from scaffold.verify.gates.javascript_errors import unresolved_name
from scaffold.verify.gates.jest import TITLE_SEPARATOR
from scaffold.verify.gates.recorder import RECORDER_FOLDER as INJECTED
from scaffold.verify.gates.runner_adapter import RunnerAdapter, RunnerCommand, RunnerEnv, RunnerExit
from scaffold.verify.gates.runner_result import (
    MAX_BYTES,
    RunnerResult,
    UnresolvedName,
    match_exit_code,
    printable_test_name,
    unusable_result,
)

REPORT = "report.tap"
ORIGINALS = "scaffold_originals.cjs"
REPLACED = "replaced-*"
MAX_PROCESSES = 1_000
"""Most processes of a run whose replaced functions are read."""
INDENT = 4
"""Spaces per nesting level of subtests."""
MAX_SAID = 4_000
ANY_FILE = ""
"""The name of a file that could not be loaded, whichever it is."""


class TestPoint(Struct, frozen=True):
    """One result line of the report."""

    name: str
    outcome: TestOutcome
    said: str
    """The error of a failed test, and what was printed before its line."""


_POINT = re.compile(r"(?P<indent> *)(?P<bad>not )?ok \d+ - (?P<name>.*?)(?: # (?P<mark>[A-Z]{4})\b.*)?")
_BEGINS = re.compile(r"(?P<indent> *)# Subtest: (?P<name>.*)")
_KEY = re.compile(r"(?P<name>\w+):(?: |$)")
_PLAN = re.compile(r"1\.\.\d+")


def build_command(command: str, env: RunnerEnv) -> RunnerCommand:
    """Return the command with a report in our folder; it always runs all tests."""
    # A copy in our folder, because the script writes next to itself.
    script = env.folder / ORIGINALS
    script.write_bytes((INJECTED / ORIGINALS).read_bytes())
    options = (
        f"--test-reporter=tap {_quoted(f'--test-reporter-destination={env.folder / REPORT}')} "
        f"--require {_quoted(str(script))}"
    )
    return RunnerCommand(command=command, variables={"NODE_OPTIONS": options})


def read_report(ended: RunnerExit) -> RunnerResult:
    """Return the result of a run that was not killed."""
    data = read_untrusted(ended.env.folder / REPORT, MAX_BYTES)
    if isinstance(data, str):
        return unusable_result("error", f"The runner wrote no usable report: {data} (exit code {ended.exit_code}).")
    text = data.decode(errors="replace")
    # The plan comes last, so a report without one was cut off.
    if _PLAN.search(text) is None:
        return unusable_result("error", f"The runner's report is incomplete (exit code {ended.exit_code}).")
    points = tuple(_points(text))
    replaced = _replaced(ended.env.folder)
    outcomes = dict(_numbered((point.name, point.outcome) for point in points))
    if ended.env.stand_ins is not None:
        return RunnerResult(outcomes=outcomes, unresolved=dict(_unresolved(points)), replaced=replaced)
    result = match_exit_code(outcomes, ended.exit_code, whole=ended.env.whole)
    return structs.replace(result, replaced=replaced)


def _quoted(option: str) -> str:
    """Return an option as NODE_OPTIONS wants it."""
    escaped = option.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _replaced(folder: Path) -> tuple[str, ...]:
    """Return the assertions that any process of the run replaced; what cannot be read counts as one, too."""
    names: set[str] = set()
    for path in sorted(folder.glob(REPLACED))[:MAX_PROCESSES]:
        data = read_untrusted(path, MAX_BYTES)
        names.update([path.name] if isinstance(data, str) else data.decode(errors="replace").split())
    return tuple(sorted(map(printable_test_name, names)))


def _unresolved(points: Sequence[TestPoint]) -> Iterator[tuple[str, UnresolvedName]]:
    """Yield the names that failed tests of an older version could not resolve.

    A file that could not be loaded has the name ANY_FILE: the report does not say which tests are in it.
    """
    for point in points:
        name = unresolved_name(point.said) if point.outcome == "failed" else None
        if name:
            yield ANY_FILE if point.name.startswith("/") else point.name, UnresolvedName(name)


def _points(report: str) -> Iterator[TestPoint]:
    """Yield every test with its outcome and what was said of it, subtests first."""
    parents: list[str] = []
    found: TestPoint | None = None
    yaml_indent = said = ""
    in_error = False
    for line in report.splitlines():
        if yaml_indent:
            yaml_indent = "" if line == f"{yaml_indent}..." else yaml_indent
            key = _KEY.match(line, len(yaml_indent))
            in_error = key["name"] == "error" if key else in_error
            if found and in_error:
                found = structs.replace(found, said=f"{found.said}{line.strip()}\n")
        # Details of failures may contain lines that look like results.
        elif line.strip() == "---":
            yaml_indent = line.removesuffix("---")
        elif begins := _BEGINS.fullmatch(line):
            depth = len(begins["indent"]) // INDENT
            parents[depth:] = [begins["name"]]
        elif point := _POINT.fullmatch(line):
            depth = len(point["indent"]) // INDENT
            name = TITLE_SEPARATOR.join((*parents[:depth], point["name"]))
            if found:
                yield found
            outcome: TestOutcome = "skipped" if point["mark"] else "failed" if point["bad"] else "passed"
            found, said = TestPoint(printable_test_name(name), outcome, said), ""
        # What a file printed before it failed to load; tests print there, too.
        elif line.startswith("# "):
            said = f"{said}{line[2:]}\n"[-MAX_SAID:]
    if found:
        yield found


def _numbered(points: Iterator[tuple[str, TestOutcome]]) -> Iterator[tuple[str, TestOutcome]]:
    """Yield the tests with equal names numbered, because the report does not contain the files."""
    seen: dict[str, int] = {}
    for name, outcome in points:
        seen[name] = seen.get(name, 0) + 1
        yield (name if seen[name] == 1 else f"{name} ({seen[name]})"), outcome


NODE = RunnerAdapter(build_command=build_command, read_report=read_report)
