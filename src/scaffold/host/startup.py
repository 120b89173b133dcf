"""Start a process quickly: import late what few calls need, and keep the garbage collector away."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

GENERATION0_THRESHOLD = 20_000
"""Allocations before a generation 0 collection; Python's default is 700."""


@contextmanager
def importing() -> Iterator[None]:
    """Disable collection during the imports in the block, and exclude what they made from later collections.

    The one way to import in a function: `with importing():` and in it `from scaffold.acp.serve import serve`. It is for
    what takes long to load and few calls need; type and layer checks read it like an import at the top.
    """
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
