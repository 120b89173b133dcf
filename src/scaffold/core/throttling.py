"""Rate limits and outages of an endpoint: a cooldown for all agents, then one request, then step by step more.

An endpoint is parked during a cooldown: no request starts. Pure rules; the state is kept by one process or shared by
all processes of a user. Times are seconds on a clock that all users of a state share; `jitter` is a random number in
[0, 1).
"""

import msgspec
from msgspec import Struct

from scaffold.core.ports import RequestOutcome

MIN_COOLDOWN_S = 1.0
MAX_COOLDOWN_S = 30.0
"""Bounds of a cooldown, which doubles, when the endpoint gives no `Retry-After` or is unavailable."""
MAX_RETRY_AFTER_S = 24 * 3600.0
"""Upper bound on a `Retry-After` that the endpoint asks for."""
OUTAGE_FAILURES = 3
"""Requests in a row that fail before the endpoint counts as unavailable."""
OUTAGE_S = 30.0
"""The endpoint also counts as unavailable once failures in a row are so far apart: one that hangs fails slowly."""
SUCCESSES_PER_STEP = 5
"""Successful replies after which one more concurrent request is allowed."""
MIN_POLL_S = 0.02
MAX_POLL_S = 5.0
POLL_JITTER_S = 0.25
"""Waiters retry spread over this time; all at once, they would be rejected together again."""


class ThrottleState(Struct, frozen=True, kw_only=True):
    """The admission state of one endpoint."""

    cooldown_from_s: float = 0.0
    """When the last cooldown began; it is over if the clock shows an earlier time, so it was set back.

    The first of some failures in a row begins an empty one.
    """
    cooldown_until_s: float = 0.0
    """No request starts before this time."""
    cooldowns: int = 0
    """Cooldowns since the last successful reply."""
    failures: int = 0
    """Requests that found the endpoint unavailable since the last successful reply."""
    max_in_flight: int | None = None
    """Concurrency limit; None for no limit."""
    restore_at: int = 0
    """Requests in flight when the cooldowns began; once the limit exceeds this, it is removed."""
    successes: int = 0
    """Successful replies since `max_in_flight` last changed."""


UNTHROTTLED = ThrottleState()
"""The state of an endpoint that never rejected a request: no limit."""


def limited_to(state: ThrottleState, most: int | None) -> ThrottleState:
    """Return the state of an endpoint that works on `most` requests at once, None if that is unknown."""
    known = [each for each in (state.max_in_flight, most) if each is not None]
    return msgspec.structs.replace(state, max_in_flight=min(known, default=None))


def cooldown_left_s(state: ThrottleState, now_s: float) -> float:
    """Return the seconds left of the cooldown; 0 if there is none."""
    if now_s < state.cooldown_from_s:
        return 0.0
    return min(max(0.0, state.cooldown_until_s - now_s), MAX_RETRY_AFTER_S)


def is_unavailable(state: ThrottleState) -> bool:
    """Return whether the endpoint's last requests failed, one after the other."""
    return state.failures >= OUTAGE_FAILURES


def admits(state: ThrottleState, now_s: float, in_flight: int) -> bool:
    """Return whether one more request may start while `in_flight` others run."""
    return cooldown_left_s(state, now_s) == 0.0 and (state.max_in_flight is None or in_flight < state.max_in_flight)


def poll_delay_s(state: ThrottleState, now_s: float, jitter: float) -> float:
    """Return the seconds that a refused request waits before it tries again."""
    # A long cooldown may be lifted, and a clock may be set.
    return min(cooldown_left_s(state, now_s), MAX_POLL_S) + MIN_POLL_S + jitter * POLL_JITTER_S


def after_request(
    state: ThrottleState,
    outcome: RequestOutcome,
    now_s: float,
    *,
    retry_after_s: float | None,
    in_flight: int,
    jitter: float,
) -> ThrottleState:
    """Return the state after a request that ended so; `in_flight` includes it."""
    match outcome:
        case "ok":
            return after_success(state, now_s)
        case "limited":
            return after_rate_limit(state, now_s, retry_after_s, in_flight, jitter)
        case "unavailable":
            return after_unavailable(state, now_s, in_flight, jitter)
        case _:
            return state


def after_rate_limit(
    state: ThrottleState, now_s: float, retry_after_s: float | None, in_flight: int, jitter: float
) -> ThrottleState:
    """Return the state after a rejection: a cooldown, and then half the current concurrency.

    `in_flight` includes the rejected request. If the endpoint gave no wait (`retry_after_s` is None or 0), the cooldown
    doubles each time and `jitter` shortens it by up to half. Requests in flight together are rejected together, so
    a rejection during a cooldown counts as the same one: it can only lengthen the cooldown or correct the count.
    """
    cooldown_s = min(retry_after_s or 0.0, MAX_RETRY_AFTER_S)
    if cooldown_left_s(state, now_s) > 0.0:
        return msgspec.structs.replace(
            state,
            cooldown_until_s=max(state.cooldown_until_s, now_s + cooldown_s),
            max_in_flight=max(state.max_in_flight or 1, in_flight // 2),
            restore_at=max(state.restore_at, in_flight),
        )
    if cooldown_s <= 0.0:
        cooldown_s = _backoff_s(state.cooldowns, jitter)
    return _park_endpoint(state, now_s, cooldown_s, in_flight, max(1, in_flight // 2))


def after_unavailable(state: ThrottleState, now_s: float, in_flight: int, jitter: float) -> ThrottleState:
    """Return the state after a request that found the endpoint unavailable.

    At OUTAGE_FAILURES in a row, or if they last for OUTAGE_S, the endpoint is parked, and after each cooldown, which
    doubles, one request asks for all. Failures of requests that had started before it count, but do not lengthen the
    cooldown.
    """
    failures = state.failures + 1
    if cooldown_left_s(state, now_s) > 0.0:
        return msgspec.structs.replace(state, failures=failures)
    if failures == 1:
        return msgspec.structs.replace(state, failures=failures, cooldown_from_s=now_s, cooldown_until_s=now_s)
    if now_s - state.cooldown_from_s >= OUTAGE_S:
        failures = max(failures, OUTAGE_FAILURES)
    failed = msgspec.structs.replace(state, failures=failures)
    if not is_unavailable(failed):
        return failed
    # The backoff continues where the waits of the request that failed alone have ended.
    cooldown_s = _backoff_s(OUTAGE_FAILURES - 1 + state.cooldowns, jitter)
    return _park_endpoint(failed, now_s, cooldown_s, in_flight, 1)


def _backoff_s(times: int, jitter: float) -> float:
    # The exponent is bounded because a float power overflows; the maximum is reached long before.
    return float(min(MIN_COOLDOWN_S * 2.0 ** min(times, 10), MAX_COOLDOWN_S) * (1.0 - jitter / 2.0))


def _park_endpoint(
    state: ThrottleState, now_s: float, cooldown_s: float, in_flight: int, max_in_flight: int
) -> ThrottleState:
    return ThrottleState(
        cooldown_from_s=now_s,
        cooldown_until_s=now_s + cooldown_s,
        cooldowns=state.cooldowns + 1,
        failures=state.failures,
        max_in_flight=max_in_flight,
        restore_at=max(state.restore_at, in_flight),
    )


def after_success(state: ThrottleState, now_s: float) -> ThrottleState:
    """Return the state after a successful reply; UNTHROTTLED once the limit is back to where it started.

    A reply during a cooldown was sent before it, so it says nothing about the current load.
    """
    if cooldown_left_s(state, now_s) > 0.0:
        return state
    if state.max_in_flight is None:
        return UNTHROTTLED
    if is_unavailable(state):
        # It is back, and was not overloaded before.
        return ThrottleState(max_in_flight=max(1, state.restore_at // 2), restore_at=state.restore_at)
    raise_limit = state.successes + 1 == SUCCESSES_PER_STEP
    if raise_limit and state.max_in_flight >= state.restore_at:
        return UNTHROTTLED
    # Without `cooldowns` and `failures`, which start from 0 again: after a success the next cooldown is a short one.
    return ThrottleState(
        cooldown_from_s=state.cooldown_from_s,
        cooldown_until_s=state.cooldown_until_s,
        max_in_flight=state.max_in_flight + raise_limit,
        restore_at=state.restore_at,
        successes=0 if raise_limit else state.successes + 1,
    )
