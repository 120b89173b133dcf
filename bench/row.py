"""One measurement as it is printed, and how measurements are taken."""

import gc
import statistics
import time
from collections.abc import Callable

from msgspec import Struct


class Row(Struct, frozen=True, kw_only=True):
    """A value beside a reference that was measured in the same run, and how far apart they may be."""

    bench: str
    value: float
    unit: str
    reference: float
    ratio: float
    goal: float
    """The largest ratio that is good enough."""
    holds: bool


def row(bench: str, value: float, reference: float, *, unit: str, goal: float) -> Row:
    """Return the row for `value`, which is to be at most `goal` times `reference`; both in `unit`."""
    ratio = value / reference
    return Row(
        bench=bench,
        value=_short(value),
        unit=unit,
        reference=_short(reference),
        ratio=_short(ratio),
        goal=_short(goal),
        holds=ratio <= goal,
    )


def seconds(work: Callable[[], object]) -> float:
    """Return how long `work` takes, without the collector of garbage that others left."""
    gc.collect()
    gc.disable()
    try:
        start = time.perf_counter()
        work()
        return time.perf_counter() - start
    finally:
        gc.enable()


def medians(rounds: int, *measures: Callable[[], float]) -> tuple[float, ...]:
    """Return the median of each measure; they take turns, so that a busy moment of the machine hits all of them."""
    taken = [[measure() for measure in measures] for _ in range(rounds)]
    return tuple(statistics.median(column) for column in zip(*taken, strict=True))


def _short(number: float) -> float:
    """Return the number with as many digits as mean something."""
    return float(f"{number:.4g}")
