"""What a subagent may take: seconds, of which those that a human thinks do not count."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

LONGEST_PAUSE_S = 900.0
"""What humans may think in all; from then on the time runs whatever they do."""


class Allowance:
    """A span of time that can stand still."""

    def __init__(
        self, seconds: float, monotonic: Callable[[], float], *, longest_pause_s: float = LONGEST_PAUSE_S
    ) -> None:
        """Begin now; `monotonic` returns seconds that never go back."""
        self._monotonic = monotonic
        self._end_s = monotonic() + seconds
        self._pauses_left_s = longest_pause_s
        self._paused_at_s: float | None = None

    def left_s(self) -> float:
        """Return what is left, 0 or less if nothing is."""
        return self._end_s + self._pause_s() - self._monotonic()

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        """Let no time pass inside the block, as long as pauses are left."""
        self._paused_at_s = self._monotonic()
        try:
            yield
        finally:
            paused_s = self._pause_s()
            self._paused_at_s = None
            self._end_s += paused_s
            self._pauses_left_s -= paused_s

    def _pause_s(self) -> float:
        """Return how long the pause that goes on has taken, 0 if there is none."""
        if self._paused_at_s is None:
            return 0.0
        return min(self._monotonic() - self._paused_at_s, self._pauses_left_s)
