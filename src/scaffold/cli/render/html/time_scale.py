"""Where a moment stands in a drawing whose width is limited, although a run may have paused for days."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import pairwise

QUIET_SHARE = 0.06
"""A time without work is drawn short if it is longer than this share of the times with work."""
SHORTEST_QUIET = timedelta(seconds=15)
QUIET_WIDTH = 46.0
"""How wide it is drawn, unless there are many."""
TICK_EVERY = 110.0
TICK_WIDTH = 64.0
STEPS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400, 172800, 604800)

Period = tuple[datetime, datetime]


class TimeScale:
    """Places moments from left to right; long times in which nothing happened are drawn short."""

    def __init__(self, work: Sequence[Period], width: float) -> None:
        """Take the times of work, at least one, and the width for all of them."""
        busy = _merge_periods(work, timedelta())
        longest = sum((end - start for start, end in busy), timedelta()) * QUIET_SHARE
        self._busy = _merge_periods(busy, max(longest, SHORTEST_QUIET))
        self.quiet: list[Period] = [(before[1], after[0]) for before, after in pairwise(self._busy)]
        """The times that are drawn short."""
        seconds = sum((end - start).total_seconds() for start, end in self._busy) or 1.0
        self.quiet_width = min(QUIET_WIDTH, width / 2 / max(1, len(self.quiet)))
        self._per_s = (width - self.quiet_width * len(self.quiet)) / seconds

    def at(self, moment: datetime) -> float:
        """Return how far from the left a moment is."""
        x = 0.0
        for start, end in self._busy:
            if moment <= start:
                return x
            x += (min(moment, end) - start).total_seconds() * self._per_s
            if moment <= end:
                return x
            x += self.quiet_width
        return x - self.quiet_width

    def ticks(self) -> Iterator[datetime]:
        """Yield round local times within the times of work, so far apart that each can be labelled."""
        step = next((step for step in STEPS_S if step * self._per_s >= TICK_EVERY), STEPS_S[-1])
        last = -TICK_WIDTH
        for start, end in self._busy:
            local = start.astimezone()
            offset = (local.utcoffset() or timedelta()).total_seconds()
            second = -(-(local.timestamp() + offset) // step) * step - offset
            while second <= end.timestamp():
                tick = local + timedelta(seconds=second - local.timestamp())
                if self.at(tick) - last >= TICK_WIDTH:
                    last = self.at(tick)
                    yield tick
                second += step


def _merge_periods(periods: Sequence[Period], apart: timedelta) -> list[Period]:
    """Return the periods in order, those joined that overlap or are no more than `apart`."""
    merged: list[Period] = []
    for start, end in sorted(periods):
        if merged and start - merged[-1][1] <= apart:
            merged[-1] = merged[-1][0], max(merged[-1][1], end)
        else:
            merged.append((start, end))
    return merged
