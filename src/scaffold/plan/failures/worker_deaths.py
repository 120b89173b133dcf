"""Workers that die in a row: growing pauses, then a human decides. Pure.

One death says nothing about the work, as anything may kill a process. Several in a row, with pauses between them, say
that the next attempt would end in the same way.
"""

TELL_AFTER = 3
"""From this number on, the goal waits visibly, and tries one attempt at a time."""
ASK_AFTER = 6
"""From this number on, nothing starts before a human says so."""
PAUSES_S = (1.0, 5.0, 30.0, 120.0, 600.0)
"""Seconds before the goal's next attempt, by the number of deaths."""


def pause_s(deaths: int) -> float:
    """Return the seconds from the last death until the goal may start its next attempt; 0 without any death."""
    # The last pause repeats.
    return PAUSES_S[min(deaths, len(PAUSES_S)) - 1] if deaths > 0 else 0.0


def must_ask(*, of_goal: int, of_action: int) -> bool:
    """Return whether too many workers of the goal, or of one of its actions, died in a row: a human must decide."""
    return max(of_goal, of_action) >= ASK_AFTER
