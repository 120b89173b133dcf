"""`python -m simulator FIRST COUNT`: simulate the runs of these seeds, print the first failing one, and exit with 1."""

import shutil
import sys
import tempfile
from pathlib import Path

from simulator.world import simulate


def main(first: int, count: int) -> int:
    """Return 1 at the first seed with a violation, 0 if there is none."""
    with tempfile.TemporaryDirectory() as place:
        for seed in range(first, first + count):
            folder = Path(place, str(seed)).resolve()
            outcome = simulate(seed, folder)
            shutil.rmtree(folder)  # noqa: TID251
            if outcome.violations:
                print(f"seed {seed}:", *outcome.violations, sep="\n  ")
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
