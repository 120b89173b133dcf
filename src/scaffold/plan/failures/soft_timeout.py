"""When a human is asked to kill a long attempt or to wait, and how much longer it may take. Pure."""

from typing import Final

KILL, WAIT = "kill", "wait"
EXTENSION: Final = 0.5
"""The share of its time by which an attempt is extended: once by itself, then for each `wait`."""
ANSWERS: Final = {
    KILL: "end it now; its work is pinned, and it counts as a failure",
    WAIT: "give it half of its time more; you are asked again",
}


def reserve_s(timeout_s: float, share: float) -> float | None:
    """Return how many seconds are left when it is asked, with this share of the time used; None if it never is."""
    return timeout_s * (1 - share) if share < 1 else None


def extension_s(timeout_s: float, extensions: int) -> float:
    """Return how many seconds so many extensions add."""
    return timeout_s * EXTENSION * extensions
