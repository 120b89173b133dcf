"""How many processor cores this process may use."""

import os


def usable_cores() -> int:
    """Return the number of cores, at least one: those that the system lets this process run on."""
    # macOS cannot tell.
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
