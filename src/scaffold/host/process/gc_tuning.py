"""Garbage collector settings that avoid scanning long-lived objects again and again."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

GENERATION0_THRESHOLD = 20_000
"""Allocations before a generation 0 collection; Python's default is 700."""


@contextmanager
def gc_paused() -> Iterator[None]:
    """Disable collection during imports and exclude the imported objects from later collections."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def relax_gc() -> None:
    """Exclude all current objects from collection and collect less often.

    For a process that has imported all it needs: modules stay anyway, and conversations are kept on purpose. With
    hundreds of agents in a process, collections took a seventh of the time and found nothing.
    """
    gc.freeze()
    gc.set_threshold(GENERATION0_THRESHOLD, *gc.get_threshold()[1:])
