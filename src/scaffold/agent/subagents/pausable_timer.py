"""A subagent's timeout, paused while a human decides about its requests."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

MAX_PAUSE_S = 900.0
"""Longest total pause; after that the timer runs even while a human decides."""


class PausableTimer:
    """A countdown that can be paused."""

    def __init__(self, seconds: float, monotonic: Callable[[], float], *, longest_pause_s: float = MAX_PAUSE_S) -> None:
        """Start now; `monotonic` is a monotonic clock in seconds."""
        self._monotonic = monotonic
        self._end_s = monotonic() + seconds
        self._pauses_left_s = longest_pause_s
        self._paused_at_s: float | None = None

    def left_s(self) -> float:
        """Return the seconds left; 0 or less once the time is up."""
        return self._end_s + self._pause_s() - self._monotonic()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop the countdown inside the block, within the total pause allowed."""
        self._paused_at_s = self._monotonic()
        try:
            yield
        finally:
            paused_s = self._pause_s()
            self._paused_at_s = None
            self._end_s += paused_s
            self._pauses_left_s -= paused_s

    def _pause_s(self) -> float:
        """Return the length of the current pause so far; 0 if there is none."""
        if self._paused_at_s is None:
            return 0.0
        return min(self._monotonic() - self._paused_at_s, self._pauses_left_s)
