"""Compare what runs of our own agents cost in two versions of this repository, in one measurement.

`python bench/port_overhead.py BEFORE AFTER` carries out one plan on a cassette with both versions by turns, and prints
two ratios as one line of JSON: of the CPU time of all processes, the median of pairs, and of the calls of Python
functions in the processes of workers, which nothing else on the machine changes. Both need the same packages.
"""

import argparse
import io
import json
import os
import statistics
import subprocess  # noqa: TID251 - it asks git for the versions
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from causes import PROBE, seen_inside
from many_goals import run_of_changes

ROOT = Path(__file__).resolve().parents[1]
WORKER = "worker"
"""How the processes are called in which agents work."""


def main() -> None:
    """Print the ratios, with what they were computed from."""
    parser = argparse.ArgumentParser(description="Compare what runs of our own agents cost in two versions.")
    parser.add_argument("before", help="a commit")
    parser.add_argument("after", help="a commit")
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--actions", type=int, default=12, help="of the plan, one after another")
    given = parser.parse_args()
    with TemporaryDirectory(prefix="scaffold-bench-") as folder:
        before, after = (_source_of(commit, Path(folder, commit)) for commit in (given.before, given.after))
        calls = [_worker_calls(each, given.actions) for each in (before, after)]
        pairs = list(_cpu_pairs(before, after, given.pairs, given.actions))
    shown = {
        "calls": calls,
        "calls_ratio": round(calls[1] / calls[0], 4),
        "cpu_s": pairs,
        "cpu_ratio": round(statistics.median(second / first for first, second in pairs), 4),
    }
    print(json.dumps(shown))


def _worker_calls(source: Path, actions: int) -> int:
    """Return how many functions the workers of a run call."""

    def carry_out(variables: Mapping[str, str], _wrapper: object) -> None:
        _carry_out(actions, {**variables, "SCAFFOLD_PROBE_CALLS": "yes", "PYTHONPATH": f"{PROBE}{os.pathsep}{source}"})

    counts = seen_inside(carry_out).counts
    return int(sum(each["calls"] for role, each in counts.items() if WORKER in role))


def _cpu_pairs(before: Path, after: Path, count: int, actions: int) -> Iterator[tuple[float, float]]:
    for number in range(count):
        # Neither is always the first.
        order = (before, after) if number % 2 == 0 else (after, before)
        taken = {each: round(_carry_out(actions, {"PYTHONPATH": str(each)}), 3) for each in order}
        yield taken[before], taken[after]


def _carry_out(actions: int, variables: Mapping[str, str]) -> float:
    """Return the CPU time of a run and of all that it started."""
    with TemporaryDirectory(prefix="scaffold-bench-") as folder:
        run = run_of_changes(Path(folder), 1, actions, {}, agents=1)
        run.environ |= variables
        used = run.finished()
    return used.ru_utime + used.ru_stime


def _source_of(commit: str, folder: Path) -> Path:
    archived = subprocess.run(["git", "archive", commit, "src"], cwd=ROOT, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archived)) as archive:
        archive.extractall(folder, filter="data")
    return folder / "src"


if __name__ == "__main__":
    main()
