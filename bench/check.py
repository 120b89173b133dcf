"""Check that no row has lost more than a tenth of what is recorded: `make bench-check`.

Runs the short benches, or those that are named, up to three times; the best of each row counts. A loss that is wanted
is recorded with its reason: `python bench/record.py RESULTS --reason WHY`.
"""

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

from baseline import Baseline, is_worse, read_baseline
from row import Row
from run import BENCHES

SHORT: Mapping[str, re.Pattern[str]] = {
    name: re.compile(rows)
    for name, rows in {
        "action-counts": ".*",
        "command-start": ".*",
        "ralph-cache": ".*",
        "ralph-start": "ralph-(first-request|memory)-.*",
        "ralph-turns": "ralph-turn-of-.*",
        "store-readiness": ".*-against-.*",
        "worker-start": ".*-against-.*",
        "git-worktree": ".*",
    }.items()
}
"""The benches whose rows take less than ten seconds each, and those of their rows that count or compare two things of
one run. Rows against a fixed number of seconds say as much of the machine as of us."""
REPEATS = 3


def main() -> None:
    """Print a line for each row; exit 1 if one has lost."""
    parser = argparse.ArgumentParser(description="Check that nothing became slower than recorded.")
    parser.add_argument("names", nargs="*", choices=[[], *SHORT], metavar="NAME", help=", ".join(SHORT))
    recorded, lost = read_baseline(), list[str]()
    for name in parser.parse_args().names or SHORT:
        lost += lost_rows(partial(short_rows, name), recorded)
    if lost:
        sys.exit(f"make bench-check: worse than recorded, {REPEATS} times: {', '.join(lost)}")


def short_rows(name: str) -> Iterator[Row]:
    """Measure a bench, and yield those of its rows that are compared."""
    return (row for row in BENCHES[name](quick=False) if SHORT[name].fullmatch(row.bench))


def lost_rows(measure: Callable[[], Iterable[Row]], recorded: Baseline) -> list[str]:
    """Return the rows that have lost each time they were measured; print them all."""
    best, lost = dict[str, Row](), list[str]()
    for _ in range(REPEATS):
        for row in measure():
            best[row.bench] = min(row, best.get(row.bench, row), key=lambda each: each.ratio)
        lost = [name for name, row in best.items() if (old := recorded.rows.get(name)) and is_worse(row, old)]
        if not lost:
            break
    for name, row in best.items():
        bar = f"recorded {recorded.rows[name].bar:g}" if name in recorded.rows else "not recorded"
        sys.stdout.write(f"{name:45} {row.ratio:8g}  {bar}{'  WORSE' if name in lost else ''}\n")
    return lost


if __name__ == "__main__":
    main()
