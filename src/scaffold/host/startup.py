"""Start a process quickly: import by a `MODULE:NAME` string when needed, and keep the garbage collector away."""

import gc
import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

GENERATION0_THRESHOLD = 20_000
"""Allocations before a generation 0 collection; Python's default is 700."""


def lazy_import(reference: str) -> Any:
    """Import and return the object named by `reference`, a `MODULE:NAME`; the caller knows its type."""
    module, _, attribute = reference.partition(":")
    with gc_paused():
        return getattr(importlib.import_module(module), attribute)


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
