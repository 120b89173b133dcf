"""Python's collector of garbage, kept from looking at the same things again and again."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

YOUNG = 20_000
"""Objects that come to be before the youngest are looked at; Python's own number is 700."""


@contextmanager
def while_loading() -> Iterator[None]:
    """Keep the collector from looking at modules that are being loaded, and at what they made for good."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def calm_down() -> None:
    """Let the collector leave alone what is there now, and look less often.

    For a process that has loaded all it needs: what was loaded stays anyway, and conversations are kept on purpose.
    With hundreds of agents in a process every seventh moment went into looking at them in vain.
    """
    gc.freeze()
    gc.set_threshold(YOUNG, *gc.get_threshold()[1:])
