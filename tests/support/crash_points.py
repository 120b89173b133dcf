"""Kill a process of the real command at one point, or at every point in turn."""

import itertools
from contextlib import contextmanager
from pathlib import Path

HARNESS = Path(__file__).parents[1] / "crash"
SHARES = range(8)
"""Shares of the points of a run, tried side by side. No number of points is written down: it varies with timing."""
HALVES = range(2)
"""Shares for scenarios that pass few points."""
NEVER = 1_000_000
"""The number of no point: all are counted, and nobody dies."""
SAMPLE = SHARES[::3]
"""Shares for scenarios that pass mostly the same points as the one in which all are tried."""


class CrashPoint:
    """One point at which a process of a scenario's commands dies.

    `harness` are further variables for the harness.
    """

    def __init__(self, scenario, number, **harness):
        self._scenario = scenario
        self._counter = scenario.home / "points"
        self._counter.write_text("")
        crashing = {"PYTHONPATH": HARNESS, "CRASH_COUNTER": self._counter, "CRASH_AT": number}
        self._environ = {name: str(value) for name, value in {**crashing, **harness}.items()}

    @contextmanager
    def armed(self):
        """Count the points, and kill the process that passes the one, while the block runs."""
        environ = self._scenario.environ
        self._scenario.environ = environ | self._environ
        try:
            yield
        finally:
            self._scenario.environ = environ

    def passed(self) -> list[str]:
        """Return the names of the points passed so far, across all processes."""
        return self._counter.read_text().splitlines()


def try_every_point(share, trial, *, of=SHARES):
    """Call `trial(number)`, which returns the points passed, for one share `of` the points, until none is left."""
    for number in itertools.count(1 + share, len(of)):
        if len(trial(number)) < number:
            return
