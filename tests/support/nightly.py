"""Run every suite there is, one after another, and report what each did.

The report of a tree is below `.ci/nightly/`. A stopped run goes on with the suites it had not finished; once all are
finished, the report is only shown. `make nightly SUITES="NAME NAME"` runs these suites again.
"""

import json
import os
import re
import subprocess  # noqa: TID251 - this script judges the tree from outside
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypedDict

from support.slow_lane import SUITES, is_among, suites_of

ROOT = Path(__file__).parents[2]
WEAKER = "python tests/support/fewer_sandboxes.py"
COUNT = re.compile(r"\b(\d+) (passed|failed|error|skipped|flaky)")
PYTEST = "pytest -n 3 -rfE"
OWN_SETUP = ("tests/integration/llm_servers", "tests/integration/mcp_npm")
"""Folders of tests that need more than the packages of the environment."""


class Outcome(TypedDict):
    """What a suite did: its exit code, tests by outcome, and how long it took."""

    exit_code: int
    tests: dict[str, int]
    seconds: int


def commands() -> dict[str, str]:
    """Return the command of each suite by name, in the order in which they run."""
    slow = f"{PYTEST} -m 'slow and not postgres'"
    return {
        "check": "make check",
        "docs": "make docs",
        "quick": "make test",
        "bench-check": "make bench-check",
        "executors": "make executors",
        **{f"servers-{Path(folder).name}": f"{folder}/setup && {PYTEST} -m slow {folder}" for folder in OWN_SETUP},
        **{f"slow-{package}": f"{slow} {' '.join(files)}" for package, files in slow_files().items()},
        "postgresql": f"{PYTEST} -m postgres",
        "quick-landlock": f"{WEAKER} landlock {PYTEST}",
        "quick-none": f"{WEAKER} none {PYTEST}",
        "slow-landlock": f"{WEAKER} landlock {PYTEST} -m slow tests/e2e",
        "slow-none": f"{WEAKER} none {PYTEST} -m slow tests/e2e",
    }


def slow_files() -> dict[str, list[str]]:
    """Return the files with slow tests by package, each with the first package that it concerns."""
    found: dict[str, list[str]] = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        name = path.relative_to(ROOT).as_posix()
        if "mark.slow" in path.read_text() and not name.startswith(OWN_SETUP):
            rows = (package for package in SUITES if is_among(name.removeprefix("tests/"), suites_of([package])))
            found.setdefault(next(rows, "architecture"), []).append(name)
    return found


def run(command: str, log: Path) -> Outcome:
    """Run the command of a suite, with its output in a file."""
    began = time.monotonic()
    environ = os.environ | {"SCAFFOLD_THOROUGH": "yes"}
    with log.open("wb") as output:
        done = subprocess.run(
            ["sh", "-c", command],
            cwd=ROOT,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        )
    last = log.read_text(errors="replace").rstrip().rpartition("\n")[2]
    tests = {kind: int(count) for count, kind in COUNT.findall(last)}
    return Outcome(exit_code=done.returncode, tests=tests, seconds=round(time.monotonic() - began))


def row(name: str, outcome: Outcome) -> str:
    """Return a line of the report."""
    tests = outcome["tests"]
    counts = [tests.get("passed", 0), tests.get("failed", 0) + tests.get("error", 0), tests.get("flaky", 0)]
    passed, failed, flaky = counts
    verdict = "ok" if outcome["exit_code"] == 0 else f"exit code {outcome['exit_code']}"
    return f"{name:22} {passed:6} passed {failed:4} failed {flaky:3} flaky {outcome['seconds']:6} s  {verdict}"


def carry_out(suites: Mapping[str, str], folder: Path, again: Sequence[str] = ()) -> dict[str, Outcome]:
    """Run the suites without an outcome in `folder`, or those named in `again`; return all outcomes."""
    folder.mkdir(parents=True, exist_ok=True)
    report = folder / "report.json"
    outcomes: dict[str, Outcome] = json.loads(report.read_text()) if report.exists() else {}
    for name, command in suites.items():
        if name in again if again else name not in outcomes:
            print(f"{time.strftime('%H:%M:%S')} {name}: {command[:80]}", flush=True)
            outcomes[name] = run(command, folder / f"{name}.log")
            written = report.with_suffix(".new")
            written.write_text(json.dumps(outcomes, indent=1))
            written.replace(report)  # a run that is stopped here leaves a whole report
            print(row(name, outcomes[name]), flush=True)
    return outcomes


def main(again: Sequence[str]) -> int:
    """Run what the tree of HEAD has no outcome of; return 1 if anything failed."""
    tree = subprocess.run(["git", "rev-parse", "HEAD^{tree}"], cwd=ROOT, capture_output=True, text=True, check=True)
    folder = ROOT / ".ci" / "nightly" / tree.stdout.strip()[:12]
    outcomes = carry_out(commands(), folder, again)
    print(f"\nThe report of tree {folder.name}; outputs are in {folder.relative_to(ROOT)}:")
    print(*(row(name, outcome) for name, outcome in outcomes.items()), sep="\n")
    return int(any(outcome["exit_code"] for outcome in outcomes.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
