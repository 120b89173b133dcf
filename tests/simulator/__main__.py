"""`python -m simulator FIRST COUNT [FOCUS]`: simulate the runs of these seeds, and print the first that fails.

It exits with 1 if one fails. `FOCUS` is a name of `simulator.focus`.
"""

import shutil
import sys
import tempfile
from pathlib import Path

from simulator.focus import FOCUSES
from simulator.world import simulate


def main(first: int, count: int, focus: str = "") -> int:
    """Return 1 at the first seed with a violation, 0 if there is none."""
    with tempfile.TemporaryDirectory() as place:
        for seed in range(first, first + count):
            folder = Path(place, str(seed)).resolve()
            outcome = simulate(seed, folder, FOCUSES[focus])
            shutil.rmtree(folder)  # noqa: TID251
            if outcome.violations:
                print(f"seed {seed}:", *outcome.violations, sep="\n  ")
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:]))
