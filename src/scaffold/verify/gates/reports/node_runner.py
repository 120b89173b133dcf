"""Node's built-in test runner and mocha, which lend themselves to the same checks of assertions.

Node's runner is asked for a TAP report in our folder by NODE_OPTIONS; by the same variable each process loads our
script, which reports replaced assertions. Mocha writes a report of jest's shape with our own reporter, in any version.
"""

import itertools
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct, structs

from scaffold.core.proof.gates import TestOutcome
from scaffold.host.contained_path import ContainedPath
from scaffold.verify.gates.reports.jest import TITLE_SEPARATOR, unresolved_name, with_options
from scaffold.verify.gates.reports.jest import read_report as read_jest_report
from scaffold.verify.gates.reports.recorder import RECORDER_FOLDER as INJECTED
from scaffold.verify.gates.reports.runner_result import (
    MAX_BYTES,
    MAX_MESSAGES,
    OUTCOME_RANK,
    RunnerAdapter,
    RunnerCommand,
    RunnerEnv,
    RunnerExit,
    RunnerResult,
    UnresolvedName,
    failure_message,
    match_exit_code,
    printable_test_name,
    unusable_result,
)

REPORTER = "scaffold_mocha_reporter.cjs"
REPORT = "report.tap"
ORIGINALS = "scaffold_originals.cjs"
REPLACED = "replaced-*"
MAX_PROCESSES = 1_000
"""The most processes of a run whose replaced functions are read."""
INDENT = 4
"""Spaces per nesting level of subtests."""
MAX_SAID = 4_000
MAX_DETAILS = 200
"""Lines kept of the YAML block of a test."""
ANY_FILE = ""
"""The name of any file that could not be loaded."""
_POINT = re.compile(r"(?P<indent> *)(?P<bad>not )?ok \d+ - (?P<name>.*?)(?: # (?P<mark>[A-Z]{4})\b.*)?")
_BEGINS = re.compile(r"(?P<indent> *)# Subtest: (?P<name>.*)")
_PLAN = re.compile(r"1\.\.\d+")


class TestPoint(Struct, frozen=True):
    """One result line of the report."""

    name: str
    outcome: TestOutcome
    printed: str
    """The output before its line."""
    details: tuple[str, ...] = ()
    """The lines of its YAML block, without their indentation."""
    is_file: bool = False
    """Whether it is a whole file, which has its own result if it has no tests or its process fails."""

    @property
    def said(self) -> str:
        """The error of a failed test, and the output before its line."""
        return f"{self.printed}{_yaml_text(self.details, 'error')}"

    def message(self, top: Path) -> str:
        """Return its error and location; for a file that could not be loaded, Node's output."""
        at = _yaml_text(self.details, "location").removeprefix(f"{top}/")
        error = self.said if self.is_file else _yaml_text(self.details, "error")
        return "\n".join(filter(None, (failure_message(error), at and f"at {at}")))


def build_command(command: str, env: RunnerEnv) -> RunnerCommand:
    """Return the command with a report in our folder; it always runs all tests."""
    report = f"--test-reporter=tap {_quote_option(f'--test-reporter-destination={env.folder / REPORT}')}"
    return RunnerCommand(command=command, variables={"NODE_OPTIONS": f"{report} {load_originals(env.folder)}"})


def load_originals(folder: Path) -> str:
    """Return the option that makes each Node process report its replaced assertions in our folder."""
    # A copy in our folder, because the script writes next to itself.
    script = folder / ORIGINALS
    script.write_bytes((INJECTED / ORIGINALS).read_bytes())
    return f"--require {_quote_option(str(script))}"


def read_report(ended: RunnerExit) -> RunnerResult:
    """Return the result of a run that was not killed."""
    data = ContainedPath(ended.env.folder, REPORT).read(MAX_BYTES)
    if isinstance(data, str):
        return unusable_result("error", f"The runner wrote no usable report: {data} (exit code {ended.exit_code}).")
    text = data.decode(errors="replace")
    return structs.replace(_read_tap(text, ended), shown_output=text)


def _read_tap(text: str, ended: RunnerExit) -> RunnerResult:
    # The plan comes last, so a report without one was cut off.
    if _PLAN.search(text) is None:
        return unusable_result("error", f"The runner's report is incomplete (exit code {ended.exit_code}).")
    points = tuple(_test_points(text, ended.env.cwd))
    replaced = replaced_assertions(ended.env.folder)
    numbered = tuple(_number_points(points))
    outcomes = {point.name: point.outcome for point in numbered}
    said = [(each.name, (each.message(ended.env.cwd),)) for each in numbered if each.outcome == "failed"]
    messages = {name: text for name, text in said[:MAX_MESSAGES] if any(text)}
    if ended.env.stand_ins is not None:
        # A file that could not be loaded has the name ANY_FILE: the report does not say which tests are in it.
        unresolved = {
            ANY_FILE if point.is_file else point.name: UnresolvedName(name)
            for point in points
            if point.outcome == "failed" and (name := unresolved_name(point.said))
        }
        return RunnerResult(outcomes=outcomes, unresolved=unresolved, replaced=replaced, messages=messages)
    result = match_exit_code(outcomes, ended.exit_code, whole=ended.env.whole)
    return structs.replace(result, replaced=replaced, messages=messages)


def _quote_option(option: str) -> str:
    escaped = option.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def replaced_assertions(folder: Path) -> tuple[str, ...]:
    """Return the assertions that any process of the run replaced; an unreadable report counts as one."""
    names: set[str] = set()
    for path in sorted(folder.glob(REPLACED))[:MAX_PROCESSES]:
        data = ContainedPath(folder, path.name).read(MAX_BYTES)
        names.update([path.name] if isinstance(data, str) else data.decode(errors="replace").split())
    return tuple(sorted(map(printable_test_name, names)))


def _test_points(report: str, top: Path) -> Iterator[TestPoint]:
    """Yield every test with its outcome and messages, subtests first.

    Node names files by absolute paths, which differ between checkouts; they become relative to `top`.
    """
    parents: list[str] = []
    found: TestPoint | None = None
    yaml_indent = printed = ""
    for line in report.splitlines():
        if yaml_indent:
            indent, yaml_indent = yaml_indent, "" if line == f"{yaml_indent}..." else yaml_indent
            if found and len(found.details) < MAX_DETAILS:
                found = structs.replace(found, details=(*found.details, line.removeprefix(indent)))
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
            shown = printable_test_name(name.removeprefix(f"{top}/"))
            found, printed = TestPoint(shown, outcome, printed, is_file=name.startswith("/")), ""
        # What a file printed before it failed to load; tests print there, too.
        elif line.startswith("# "):
            printed = f"{printed}{line[2:]}\n"[-MAX_SAID:]
    if found:
        yield found


def _yaml_text(lines: Sequence[str], key: str) -> str:
    """Return the text of a top-level key of a YAML block, quoted or indented below it; empty without the key."""
    for index, line in enumerate(lines):
        if line.startswith(f"{key}: "):
            value = line.removeprefix(f"{key}: ")
            if not value.startswith("|"):
                return value.strip("'\"")
            below = itertools.takewhile(lambda each: not each.strip() or each.startswith("  "), lines[index + 1 :])
            return "\n".join(each.removeprefix("  ") for each in below)
    return ""


def _number_points(points: Iterable[TestPoint]) -> Iterator[TestPoint]:
    """Yield the tests, with equal names numbered because the report does not contain the files.

    Failed ones come first: by the order of the report, a new test of that name would take the number of an old one.
    """
    seen: dict[str, int] = {}
    for point in sorted(points, key=lambda each: -OUTCOME_RANK[each.outcome]):
        seen[point.name] = number = seen.get(point.name, 0) + 1
        yield point if number == 1 else structs.replace(point, name=f"{point.name} ({number})")


NODE = RunnerAdapter(build_command=build_command, read_report=read_report)


def build_mocha_command(command: str, env: RunnerEnv) -> RunnerCommand:
    """Return the command with our reporter; of several reporters mocha uses the last."""
    # A copy in our folder, because it writes next to itself.
    reporter = env.folder / REPORTER
    reporter.write_bytes((INJECTED / REPORTER).read_bytes())
    return RunnerCommand(
        command=with_options(command, "--reporter", shlex.quote(str(reporter))),
        variables={"NODE_OPTIONS": load_originals(env.folder)},
    )


def read_mocha_report(ended: RunnerExit) -> RunnerResult:
    """Return the result of a run that was not killed."""
    result = read_jest_report(ended)
    if ended.env.stand_ins is not None and result.problem is not None:
        # Mocha loads all files before it runs a test, so one that cannot be loaded ends it.
        name = unresolved_name(ended.output.decode(errors="replace"))
        unresolved = {ANY_FILE: UnresolvedName(name)} if name else {}
        result = structs.replace(result, problem=None, outcomes={ANY_FILE: "error"}, unresolved=unresolved)
    return structs.replace(result, replaced=replaced_assertions(ended.env.folder))


MOCHA = RunnerAdapter(build_command=build_mocha_command, read_report=read_mocha_report)
