"""Tries every case, or those named, and prints what became of each.

`PYTHONPATH=tests python -m cheaters [NAME ...]`
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from cheaters.case import Case
from cheaters.cheats import CHEATS
from cheaters.honest import HONEST
from cheaters.trial import TrialResult, run_case


def main(names: list[str]) -> int:
    """Run the cases of these names, all without; return 1 if a cheat escaped or honest work was refused."""
    escaped = refused = 0
    for case in _chosen(names, CHEATS):
        found = _told(case)
        escaped += found.escaped
    for case in _chosen(names, HONEST):
        found = _told(case)
        refused += not (found.landed and found.true and found.done)
    print(f"cheats that escaped: {escaped}; honest work refused: {refused}")
    return 1 if escaped or refused else 0


def _chosen(names: list[str], cases: tuple[Case, ...]) -> Iterator[Case]:
    return (case for case in cases if not names or case.name in names)


def _told(case: Case) -> TrialResult:
    with TemporaryDirectory() as folder:
        found = run_case(case, Path(folder))
    ending = "landed" if found.landed else "refused"
    print(f"{case.name:<24} {ending}{' (weak)' if found.weak else ''}{'' if found.true else ', not true'}", flush=True)
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
