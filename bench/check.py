"""Check that no row has lost more than a tenth of what is recorded: `make bench-check`.

Runs the short benches, or those that are named, up to three times; the best of each row counts. A loss that is wanted
is recorded with its reason: `python bench/record.py RESULTS --reason WHY`.
"""

import argparse
import re
import sys
from collections.abc import Mapping

from baseline import is_worse, read_baseline
from row import Row
from run import BENCHES

SHORT: Mapping[str, re.Pattern[str]] = {
    name: re.compile(rows)
    for name, rows in {
        "action-counts": ".*",
        "command-start": ".*",
        "policy-decision": ".*",
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
    lost = [row for name in parser.parse_args().names or SHORT for row in check(name)]
    if lost:
        sys.exit("make bench-check: worse than recorded, three times: " + ", ".join(lost))


def check(name: str) -> list[str]:
    """Return the rows of a bench that have lost, each time they were measured."""
    recorded, best, lost = read_baseline().rows, dict[str, Row](), list[str]()
    for _ in range(REPEATS):
        for row in filter(lambda row: SHORT[name].fullmatch(row.bench), BENCHES[name](quick=False)):
            best[row.bench] = min(row, best.get(row.bench, row), key=lambda each: each.ratio)
        lost = [each for each in best if each in recorded and is_worse(best[each], recorded[each])]
        if not lost:
            break
    for each, row in best.items():
        bar = f"recorded {recorded[each].bar:g}" if each in recorded else "not recorded"
        sys.stdout.write(f"{each:45} {row.ratio:8g}  {bar}{'  WORSE' if each in lost else ''}\n")
    return lost


if __name__ == "__main__":
    main()
