"""Read the findings of linters and type checkers, one per output line.

A finding is named by its file and code, such as `a.py: F401`, because lines shift and messages get reworded. Without a
code, the message is used.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from scaffold.verify.gates.reports.runner_result import (
    RunnerAdapter,
    RunnerCommand,
    RunnerEnv,
    RunnerExit,
    RunnerResult,
    printable_test_name,
    unusable_result,
)

MAX_FINDINGS = 20_000
MAX_LINE_CHARS = 2_000
MAX_LINE = 1_000_000_000

_PLACED = re.compile(
    r"^(?:vet: )?(?P<path>[^\s:(][^:(\n]*?)"
    r"(?::(?P<line>\d+)(?::\d+)?(?:-\d+(?::\d+)?)?|\((?P<row>\d+),\d+\))(?::| -|\s) *(?P<text>\S.*)$"
)
_HEADING = re.compile(r"^(?P<path>[^\s:][^:]*\.\w+)$")
_BELOW = re.compile(r"^\s+(?P<line>\d+):\d+\s+(?P<text>\S.*)$")
_NOTE = re.compile(r"^(note|info|hint|help)\b", re.IGNORECASE)
_CODES = tuple(
    re.compile(pattern)
    for pattern in (
        r"^(?:\w+:? )?\[?(?P<code>[A-Z]{1,8}\d{2,5})\b",  # ruff, flake8, pylint, tsc, staticcheck
        r"^\w+\[(?P<code>[A-Z]\d{4})\]",  # rustc
        r"\[(?P<code>[a-z][a-z0-9-]*)\]$",  # mypy
        r"\((?P<code>[A-Za-z][\w/-]*)\)$",  # pyright, golangci-lint
        r"^(?:error|warning)\s{2,}.*\S\s{2,}(?P<code>@?[a-z][\w/@.-]*)$",  # eslint
    )
)
"""The places in a message where tools print the code of a finding."""
_GAPS = re.compile(r"\s{2,}")


def build_command(command: str, _: RunnerEnv) -> RunnerCommand:
    """Return the command unchanged; variables make ruff and mypy print each finding on one line."""
    # A mypy configured with `pretty` would break lines before the code.
    return RunnerCommand(
        command=command, variables={"RUFF_OUTPUT_FORMAT": "concise", "MYPY_FORCE_TERMINAL_WIDTH": str(MAX_LINE_CHARS)}
    )


def read_report(ended: RunnerExit) -> RunnerResult:
    """Return the findings of a run that was not killed; none if the exit code is 0."""
    # Some tools print warnings with positions and succeed all the same.
    if ended.exit_code == 0:
        return RunnerResult()
    # A linter whose output has no positions still counts by its exit code.
    return named_findings(ended.output, ended.env.cwd, otherwise=f"exit {ended.exit_code}")


def named_findings(text: str, top: Path, *, otherwise: str, by: str = "") -> RunnerResult:
    """Return the findings with a position in a tool's output; `otherwise` names the failure without any.

    `by` is the tool, which becomes part of the names if several tools print findings.
    """
    messages, lines = defaultdict[str, list[str]](list), defaultdict[str, list[int]](list)
    for line, name, message in _parse_findings(text, top):
        messages[f"{name} ({by})" if by else name].append(message)
        lines[f"{name} ({by})" if by else name].append(line)
    found = {name: len(said) for name, said in messages.items()} or {otherwise: 1}
    if (number := sum(found.values())) > MAX_FINDINGS:
        return unusable_result("error", f"There are {number} findings; at most {MAX_FINDINGS} can be compared.")
    counts = {name: count for name, count in found.items() if count > 1}
    said = {name: tuple(each) for name, each in messages.items()}
    placed = {name: tuple(each) for name, each in lines.items()}
    return RunnerResult(outcomes=dict.fromkeys(found, "failed"), counts=counts, messages=said, lines=placed)


def _parse_findings(text: str, top: Path) -> Iterator[tuple[int, str, str]]:
    """Yield line, name and message of each finding with a position, also for eslint's lines below a file name."""
    heading = ""
    for full_line in text.splitlines():
        line = full_line[:MAX_LINE_CHARS]
        placed, below, titled = _PLACED.match(line.strip()), _BELOW.match(line), _HEADING.match(line)
        if below and heading:
            yield _line_number(below["line"]), *_name_finding(heading, below["text"], top)
        elif placed and not _NOTE.match(placed["text"]):
            yield _line_number(placed["line"] or placed["row"]), *_name_finding(placed["path"], placed["text"], top)
        heading = titled["path"] if titled else heading if below else ""


def _line_number(digits: str) -> int:
    return min(int(digits), MAX_LINE)


def _name_finding(path: str, message: str, top: Path) -> tuple[str, str]:
    file = Path(path)
    relative = file.relative_to(top) if file.is_relative_to(top) else file
    code = next((match["code"] for pattern in _CODES if (match := pattern.search(message.strip()))), None)
    whole = printable_test_name(f"{relative}: {_GAPS.sub(' ', message).strip()}")
    return printable_test_name(f"{relative}: {code}") if code else whole, whole


FINDINGS = RunnerAdapter(build_command=build_command, read_report=read_report, reports_on_output=True)
