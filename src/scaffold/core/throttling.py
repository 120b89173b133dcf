"""How an endpoint that refuses requests is left alone, and is asked as much as before again, step by step.

The rules alone, for whoever keeps the state: one process for itself, or all processes of a user together. Seconds
are those of any one clock that all who share a state go by; `jitter` is a random number from 0 up to 1.
"""

import msgspec
from msgspec import Struct

SHORTEST_PARK_S = 1.0
LONGEST_PARK_S = 30.0
"""Between these the parks double that nobody asked for."""

LONGEST_WISH_S = 24 * 3600.0
"""However long an endpoint wishes to be left alone: after a day it is asked again."""

SUCCESSES_PER_STEP = 5
"""So many answers allow one more request at a time."""

SHORTEST_NAP_S = 0.02
SPREAD_S = 0.25
"""Over this time those who waited come back, or they would be refused together again."""


class Pace(Struct, frozen=True, kw_only=True):
    """How much may be asked of one endpoint."""

    parked_until_s: float = 0.0
    """Nobody asks before this time."""
    strikes: int = 0
    """How many parks there were since the last answer."""
    width: int | None = None
    """How many requests may be under way at a time; None means any number."""
    ceiling: int = 0
    """How many were under way when the trouble began: a width above it is no limit any more."""
    successes: int = 0
    """Answers since the width last changed."""


FREE = Pace()
"""As much as anybody likes; the pace of an endpoint that never refused a request."""


def wait_s(pace: Pace, now_s: float) -> float:
    """Return how long the endpoint is parked from now; 0 if it is not."""
    return min(max(0.0, pace.parked_until_s - now_s), LONGEST_WISH_S)


def admits(pace: Pace, now_s: float, in_flight: int) -> bool:
    """Tell whether one more request may start beside those under way."""
    return wait_s(pace, now_s) == 0.0 and (pace.width is None or in_flight < pace.width)


def nap_s(pace: Pace, now_s: float, jitter: float) -> float:
    """Return how long somebody who is not admitted sleeps before asking again."""
    return wait_s(pace, now_s) + SHORTEST_NAP_S + jitter * SPREAD_S


def limited(pace: Pace, now_s: float, retry_after_s: float | None, in_flight: int, jitter: float) -> Pace:
    """Return the pace after a refusal: everybody is parked, and afterwards half as many may ask as did now.

    `in_flight` counts the refused request, too. Without a wish of the endpoint (None, or no time at all) the park
    doubles with each strike, up to a half less by `jitter`. Requests that were under way together are refused
    together: whoever is told of it during the park can only lengthen it, and knows perhaps of more that were under
    way.
    """
    park_s = min(retry_after_s or 0.0, LONGEST_WISH_S)
    if wait_s(pace, now_s) > 0.0:
        return msgspec.structs.replace(
            pace,
            parked_until_s=max(pace.parked_until_s, now_s + park_s),
            width=max(pace.width or 1, in_flight // 2),
            ceiling=max(pace.ceiling, in_flight),
        )
    if park_s <= 0.0:
        park_s = min(SHORTEST_PARK_S * 2.0 ** min(pace.strikes, 10), LONGEST_PARK_S) * (1.0 - jitter / 2.0)
    return Pace(
        parked_until_s=now_s + park_s,
        strikes=pace.strikes + 1,
        width=max(1, in_flight // 2),
        ceiling=max(pace.ceiling, in_flight),
    )


def succeeded(pace: Pace, now_s: float) -> Pace:
    """Return the pace after an answer: FREE in the end.

    An answer that comes during a park was on its way before, and says nothing.
    """
    if pace.width is None or wait_s(pace, now_s) > 0.0:
        return pace
    widened = pace.successes + 1 == SUCCESSES_PER_STEP
    if widened and pace.width >= pace.ceiling:
        return FREE
    return Pace(
        parked_until_s=pace.parked_until_s,
        width=pace.width + widened,
        ceiling=pace.ceiling,
        successes=0 if widened else pace.successes + 1,
    )
