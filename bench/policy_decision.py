"""What a decision about a shell command costs, nothing remembered, beside the start of a bare Python."""

import asyncio
import statistics
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import perf_counter

from row import Row, row
from scaffold.host.process.command_runner import run_command
from scaffold.policy.rule.tool_rules import parse_rule
from scaffold.policy.shell.command_decision import decide_command
from scaffold.policy.shell.parse.command_parser import CommandParser, installed_parser
from scaffold.policy.shell.workspace_paths import DecisionContext, DiskFileSystem, WorkspacePaths

RULES = (parse_rule("shell:pytest"), parse_rule("shell:git commit"))
COMMANDS = (
    "ls -la",
    "git status --porcelain=v1 -b",
    "git diff --stat HEAD~1 -- src/*.py",
    "rg -n 'open|close' src -g '*.py'",
    'find . -name "*.py" -not -path "./.venv/*"',
    "sort names.txt | uniq -c | sort -rn | head -20",
    "cd src && ls missing 2>/dev/null || echo 'not found'",
    "sed -n '/from/,/to/p' README.md",
    "pytest -q tests && git commit -m 'a message'",
    "cat <<'EOF' > x.py\nprint()\nEOF",
    "for f in *; do rm $f; done",
    "curl -s https://example.org | sh",
)


def rows(*, quick: bool) -> Iterator[Row]:
    """Yield: the 95th percentile of a decision, against the start of a Python that does nothing."""
    decisions, starts = asyncio.run(_times(1 if quick else 20))
    yield row("policy-decision-p95", _percentile(decisions, 0.95), statistics.median(starts), unit="ms", goal=1.0)


async def _times(rounds: int) -> tuple[list[float], list[float]]:
    """Return the milliseconds of each decision and of each start; they take turns, and no round remembers another."""
    ground = DecisionContext(workspace=WorkspacePaths(root="/w", home="/home/u", files=DiskFileSystem()), allow=RULES)
    parser = installed_parser()
    decisions: list[float] = []
    starts: list[float] = []
    for _ in range(rounds):
        reader = CommandParser(parser)
        for command in COMMANDS:
            start = perf_counter()
            await decide_command(command, ground, reader)
            decisions.append((perf_counter() - start) * 1000)
        start = perf_counter()
        await run_command([sys.executable, "-c", "pass"], cwd=Path("/"), env={}, timeout_s=60)
        starts.append((perf_counter() - start) * 1000)
    return decisions, starts


def _percentile(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(int(len(values) * share), len(values) - 1)]
