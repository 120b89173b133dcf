"""The tools that run a repository's commit hooks: what defines them, how each is called, and how its output is read.

A failed hook that prints findings is named by these, such as `a.py: F401 (flake8)`, so that a further finding shows.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from scaffold.core.printable_text import join_limited, without_colors
from scaffold.core.proof.gates import Gate, TestOutcome
from scaffold.policy.path.globs import matches
from scaffold.policy.trust_decision import HOOK_FILES
from scaffold.verify.gates.projects.project import Reason
from scaffold.verify.gates.reports.findings import named_findings
from scaffold.verify.gates.reports.runner_result import (
    RunnerResult,
    distinct_names,
    failure_message,
    printable_test_name,
    unusable_result,
    worst_outcomes,
)

PRE_COMMIT_CRASHED = 3
INTERRUPTED = 130
_PRE_COMMIT_HOOK = re.compile(r"^(?P<name>\S.*?)\.{3,}(?:\([^()]*\))?(?P<status>Passed|Failed|Skipped)$")
_PRE_COMMIT_NOTE = re.compile(r"^- (?:hook id|exit code|duration|files were modified)\b.*$")
_LEFTHOOK_SUMMARY = re.compile(r"^summary:", re.MULTILINE)
_LEFTHOOK_HOOK = re.compile(r"^\s*(?P<status>[✓✔✗🥊])️?\s+(?P<name>\S.*?)(?: \([\d.]+ seconds\))?(?:: .*)?$")
_LEFTHOOK_OUTPUT = re.compile(r"^┃\s+(?P<name>\S.*?) ❯")
_LEFTHOOK_END = re.compile(r"^\s*─{5,}")
PRE_COMMIT_OUTCOMES: Mapping[str, TestOutcome] = {"Passed": "passed", "Failed": "failed", "Skipped": "skipped"}
MAX_NAMES = 3


class HookReport(Struct, frozen=True):
    """The result of one hook."""

    name: str
    outcome: TestOutcome
    text: str = ""
    """Its output."""


class HookTool(Struct, frozen=True, kw_only=True):
    """A tool that runs the hooks of a repository."""

    name: str
    files: tuple[str, ...]
    """The files that it reads first; a repository uses it if one of them exists."""
    program: str
    command: str
    """Run by /bin/sh at the top of the repository, with the change staged."""
    remedy: str
    """What the user can do if it cannot run here."""
    ignored: tuple[str, ...] = ()
    """Ignored files that its installation creates and hooks load; empty files suffice."""


PRE_COMMIT = HookTool(
    name="pre-commit",
    files=(".pre-commit-config.yaml",),
    program="pre-commit",
    command="pre-commit run --color never",
    remedy="`pre-commit install-hooks` in your checkout prepares its environments",
)
LEFTHOOK = HookTool(
    name="lefthook",
    files=tuple(
        f"{start}lefthook{end}" for start in ("", ".", ".config/") for end in (".yml", ".yaml", ".toml", ".json")
    ),
    program="lefthook",
    command="lefthook run pre-commit --colors off",
    remedy="install lefthook and the programs that it calls",
)
HUSKY = HookTool(
    name="husky",
    files=(".husky/pre-commit",),
    program="sh",
    command="sh -e .husky/pre-commit",
    remedy="install the programs that it calls",
    # Before version 9 each hook loads the first, to log and to start itself again.
    ignored=(".husky/_/husky.sh", ".husky/_/h"),
)


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


def _read_lefthook(text: str) -> Iterator[HookReport]:
    summary = _LEFTHOOK_SUMMARY.search(text)
    if summary is None:
        # An older version, or one told to print less: only its exit code counts.
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
            passed = hook["status"] in {"✓", "✔"}
            said = "\n".join(outputs.get(hook["name"], ())).strip()
            yield HookReport(hook["name"], "passed" if passed else "failed", said)


def _read_husky(_: str) -> Iterator[HookReport]:
    # The script ran; what it looked at, only its exit code can tell.
    yield HookReport(HUSKY.name, "passed")


READERS: Mapping[str, Callable[[str], Iterator[HookReport]]] = {
    PRE_COMMIT.name: _pre_commit,
    LEFTHOOK.name: _read_lefthook,
    HUSKY.name: _read_husky,
}
TOOLS = (PRE_COMMIT, LEFTHOOK, HUSKY)
"""Several may be in use at once."""


def tools_in(paths: Collection[str]) -> tuple[tuple[HookTool, str], ...]:
    """Return the tools that a repository with these paths uses, each with the file that says so."""
    found = ((tool, next((file for file in tool.files if file in paths), "")) for tool in TOOLS)
    return tuple((tool, file) for tool, file in found if file)


def notes_of_hooks(paths: Collection[str]) -> tuple[str, ...]:
    """Return a note for the user about husky hooks below the top, which are not run."""
    below = sorted(path for path in paths if path.endswith(tuple(f"/{file}" for file in HUSKY.files)))
    if not below:
        return ()
    hooks = f"The commit hooks in {join_limited(below, MAX_NAMES)} do not run"
    return (
        f"{hooks}: only hooks at the top of the repository run; set `quality_gates.hooks` to a command that runs them",
    )


def is_hook_file(path: str) -> bool:
    """Return True if the path, relative to the top, is a file that defines hooks."""
    depth = path.count("/")
    return any(pattern.count("/") == depth and matches(pattern, path) for pattern in HOOK_FILES)


def hook_gate(paths: Collection[str]) -> tuple[Gate, Reason] | None:
    """Return the gate of all hooks in a repository with these paths, and the reason; None without hooks."""
    tools = tools_in(paths)
    if not tools:
        return None
    gate = Gate(kind="hooks", command=" && ".join(tool.command for tool, _ in tools), runner="hooks")
    names = " and ".join(tool.name for tool, _ in tools)
    return gate, Reason(path=tools[0][1], says=f"configures hooks before a commit ({names})")


def read_hooks(tool: HookTool, exit_code: int | None, printed: str, top: Path) -> RunnerResult:
    """Return the result of a run of a tool's hooks that was not killed; `top` is where they ran.

    The exit code decides whether any hook failed: what hooks print may look like a report. `vacuous` if none of them
    looked at a file.
    """
    text = without_colors(printed)
    if tool is PRE_COMMIT and exit_code in {PRE_COMMIT_CRASHED, INTERRUPTED}:
        return unusable_result("error", f"pre-commit exited with {exit_code} (internal error).")
    reports = list(READERS[tool.name](text))
    failed = [each for each in reports if each.outcome == "failed"]
    if exit_code != 0 and tool is PRE_COMMIT and not reports:
        return unusable_result("error", f"pre-commit ran no hook (exit code {exit_code}).")
    if exit_code == 0:
        reports = [HookReport(each.name, "passed") if each in failed else each for each in reports]
    elif not failed:
        reports = [each for each in reports if each.name != tool.name] + [HookReport(tool.name, "failed", text)]
    found, plain, messages = dict[str, RunnerResult](), dict[str, TestOutcome](), dict[str, tuple[str, ...]]()
    for each, name in zip(reports, distinct_names([printable_test_name(each.name) for each in reports]), strict=True):
        findings = named_findings(each.text, top, otherwise=name, by=name) if each.outcome == "failed" else None
        if findings is not None and findings.problem:
            return findings
        if findings is not None and findings.lines:
            found[name] = findings
        else:
            plain[name] = each.outcome
            messages |= {name: (failure_message(each.text),)} if each.outcome == "failed" else {}
    return merged_results({"": RunnerResult(outcomes=plain, messages=messages), **found})


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
    return unusable_result("vacuous", "No commit hook looks at any of the files.", merged.outcomes)
