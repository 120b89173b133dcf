"""Read what tools for commit hooks print: which hook passed, failed, or looked at nothing.

A failed hook that prints findings is named by these, such as `a.py: F401 (flake8)`, so that one more of them shows.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from scaffold.core.proof.gates import TestOutcome
from scaffold.verify.gates.hook_tools import HUSKY, LEFTHOOK, PRE_COMMIT, HookTool
from scaffold.verify.gates.reports.findings import named_findings
from scaffold.verify.gates.reports.runner_result import (
    RunnerResult,
    failure_message,
    printable_test_name,
    unusable_result,
    worst_outcomes,
)

NOTHING_TO_JUDGE = "No commit hook looks at any of the files."
PRE_COMMIT_CRASHED = 3
INTERRUPTED = 130
_COLOR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_PRE_COMMIT_HOOK = re.compile(r"^(?P<name>\S.*?)\.{3,}(?:\([^()]*\))?(?P<status>Passed|Failed|Skipped)$")
_PRE_COMMIT_NOTE = re.compile(r"^- (?:hook id|exit code|duration|files were modified)\b.*$")
_LEFTHOOK_SUMMARY = re.compile(r"^summary:", re.MULTILINE)
_LEFTHOOK_HOOK = re.compile(r"^\s*(?P<status>[✓✔✗🥊])️?\s+(?P<name>\S.*?)(?: \([\d.]+ seconds\))?(?:: .*)?$")
_LEFTHOOK_OUTPUT = re.compile(r"^┃\s+(?P<name>\S.*?) ❯")
_LEFTHOOK_END = re.compile(r"^\s*─{5,}")
PASSED_SIGNS = frozenset("✓✔")


class HookReport(Struct, frozen=True):
    """What one hook did."""

    name: str
    outcome: TestOutcome
    text: str = ""
    """What it printed."""


def read_hooks(tool: HookTool, exit_code: int | None, printed: str, top: Path) -> RunnerResult:
    """Return the result of a run of a tool's hooks that was not killed; `top` is where they ran.

    The exit code decides whether any hook failed: what hooks print may look like a report. `vacuous` if none of them
    looked at a file.
    """
    text = _COLOR.sub("", printed)
    if tool is PRE_COMMIT and exit_code in {PRE_COMMIT_CRASHED, INTERRUPTED}:
        return unusable_result("error", f"pre-commit exited with {exit_code} (internal error).")
    reports = list(READERS[tool.name](text))
    failed = [each for each in reports if each.outcome == "failed"]
    if exit_code != 0 and tool is PRE_COMMIT and not reports:
        return unusable_result("error", f"pre-commit ran no hook (exit code {exit_code}).")
    if exit_code == 0:
        reports = [HookReport(each.name, "passed") if each in failed else each for each in reports]
    elif not failed:
        reports.append(HookReport(tool.name, "failed", text))
    return _merge_reports(reports, top)


def merged_results(results: Mapping[str, RunnerResult]) -> RunnerResult:
    """Return one result of the runs of several tools, by their names; the first problem counts."""
    for each in results.values():
        if each.problem not in {None, "vacuous"}:
            return each
    merged = RunnerResult(
        outcomes=worst_outcomes(pair for each in results.values() for pair in each.outcomes.items()),
        counts={name: count for each in results.values() for name, count in each.counts.items()},
        messages={name: said for each in results.values() for name, said in each.messages.items()},
        lines={name: lines for each in results.values() for name, lines in each.lines.items()},
    )
    if any(outcome != "skipped" for outcome in merged.outcomes.values()):
        return merged
    return unusable_result("vacuous", NOTHING_TO_JUDGE, merged.outcomes)


def _merge_reports(reports: list[HookReport], top: Path) -> RunnerResult:
    found, plain, messages = dict[str, RunnerResult](), list[tuple[str, TestOutcome]](), dict[str, tuple[str, ...]]()
    for each in reports:
        name = printable_test_name(each.name)
        findings = named_findings(each.text, top, otherwise=name, by=name) if each.outcome == "failed" else None
        if findings is not None and findings.problem:
            return findings
        if findings is not None and findings.lines:
            found[name] = findings
        else:
            plain.append((name, each.outcome))
            messages |= {name: (failure_message(each.text),)} if each.outcome == "failed" else {}
    return merged_results({"": RunnerResult(outcomes=worst_outcomes(plain), messages=messages), **found})


def _pre_commit(text: str) -> Iterator[HookReport]:
    name, outcome, said = "", "", list[str]()
    for line in [*text.splitlines(), "....Skipped"]:
        found = _PRE_COMMIT_HOOK.match(line)
        if found is None and line != "....Skipped":
            said += [] if _PRE_COMMIT_NOTE.match(line) else [line]
            continue
        if name:
            yield HookReport(name, PRE_COMMIT_OUTCOMES[outcome], "\n".join(said).strip())
        name, outcome, said = (found["name"], found["status"], []) if found else ("", "", [])


PRE_COMMIT_OUTCOMES: Mapping[str, TestOutcome] = {"Passed": "passed", "Failed": "failed", "Skipped": "skipped"}


def _read_lefthook(text: str) -> Iterator[HookReport]:
    summary = _LEFTHOOK_SUMMARY.search(text)
    if summary is None:
        # An older version, or one told to print less: its exit code is all there is.
        yield HookReport(LEFTHOOK.name, "passed")
        return
    outputs, name = dict[str, list[str]](), ""
    for line in text[: summary.start()].splitlines():
        found = _LEFTHOOK_OUTPUT.match(line)
        name = found["name"] if found else "" if _LEFTHOOK_END.match(line) else name
        if not found and name:
            outputs.setdefault(name, []).append(line)
    for line in text[summary.end() :].splitlines():
        if hook := _LEFTHOOK_HOOK.match(line):
            passed = hook["status"] in PASSED_SIGNS
            said = "\n".join(outputs.get(hook["name"], ())).strip()
            yield HookReport(hook["name"], "passed" if passed else "failed", said)


def _read_husky(_: str) -> Iterator[HookReport]:
    """Yield that the script ran: what it looked at, only its exit code can tell."""
    yield HookReport(HUSKY.name, "passed")


READERS: Mapping[str, Callable[[str], Iterator[HookReport]]] = {
    PRE_COMMIT.name: _pre_commit,
    LEFTHOOK.name: _read_lefthook,
    HUSKY.name: _read_husky,
}
