"""The rules of a shared backoff (AL-31), without any clock, database or network."""

from scaffold.core.throttling import (
    MAX_COOLDOWN_S,
    MAX_RETRY_AFTER_S,
    MIN_POLL_S,
    OUTAGE_FAILURES,
    OUTAGE_S,
    POLL_JITTER_S,
    SUCCESSES_PER_STEP,
    UNTHROTTLED,
    RequestOutcome,
    ThrottleState,
    admits,
    after_rate_limit,
    after_request,
    after_success,
    after_unavailable,
    cooldown_left_s,
    is_unavailable,
    limited_to,
    poll_delay_s,
)

NOW = 1_000.0


def _answers(pace: ThrottleState, count: int) -> ThrottleState:
    for _ in range(count):
        pace = after_success(pace, NOW + 10_000)
    return pace


def test_a_free_endpoint_admits_all_requests_at_once() -> None:
    assert cooldown_left_s(UNTHROTTLED, NOW) == 0
    assert admits(UNTHROTTLED, NOW, 1_000_000)


def test_a_server_gets_no_more_requests_than_it_says_it_works_on() -> None:
    """AL-31: the smaller of its number and of the limit that refusals set."""
    states = [limited_to(ThrottleState(max_in_flight=own), most) for own in (None, 3) for most in (None, 1, 4)]
    assert [state.max_in_flight for state in states] == [None, 1, 4, 3, 1, 3]


def test_one_refusal_starts_a_cooldown_for_all() -> None:
    """AL-31: one 429 stops all processes."""
    for in_flight in (1, 2, 500):
        pace = after_rate_limit(UNTHROTTLED, NOW, 7.0, in_flight, 0.5)
        assert (cooldown_left_s(pace, NOW), cooldown_left_s(pace, NOW + 8)) == (7, 0), in_flight
        assert (admits(pace, NOW + 6.9, 0), admits(pace, NOW + 7, 0)) == (False, True), in_flight


def test_cooldowns_without_retry_after_double_up_to_a_maximum() -> None:
    """AL-31: exponential with jitter; RA-21: 1 s doubling to 30 s."""
    parked = {0: 1, 1: 2, 4: 16, 5: 30, 2_000: MAX_COOLDOWN_S}
    for cooldowns, park_s in parked.items():
        pace = ThrottleState(cooldowns=cooldowns, max_in_flight=1)
        even, half = (after_rate_limit(pace, NOW, None, 1, jitter) for jitter in (0.0, 0.5))
        assert (cooldown_left_s(even, NOW), cooldown_left_s(half, NOW)) == (park_s, park_s * 0.75), cooldowns
        assert even.cooldowns == cooldowns + 1


def test_a_retry_after_of_zero_is_ignored() -> None:
    for retry_after_s in (0.0, -3.0):
        assert cooldown_left_s(after_rate_limit(UNTHROTTLED, NOW, retry_after_s, 1, 0.0), NOW) == 1


def test_no_cooldown_lasts_longer_than_a_day() -> None:
    pace = after_rate_limit(UNTHROTTLED, NOW, 1e12, 1, 0.0)
    assert cooldown_left_s(pace, NOW) == MAX_RETRY_AFTER_S
    assert cooldown_left_s(after_rate_limit(pace, NOW, float("inf"), 1, 0.0), NOW) == MAX_RETRY_AFTER_S


def test_a_cooldown_is_over_once_the_clock_is_set_back() -> None:
    """AL-31: it would last as much longer."""
    pace = after_rate_limit(UNTHROTTLED, NOW, 60.0, 1, 0.0)
    assert cooldown_left_s(pace, NOW - 1) == 0
    assert cooldown_left_s(pace, NOW + 1) == 59


def test_failures_in_a_row_park_an_endpoint_and_one_request_asks_for_all() -> None:
    """AL-31: an outage, with twenty agents."""
    pace = UNTHROTTLED
    for left in range(OUTAGE_FAILURES - 1, 0, -1):
        pace = after_unavailable(pace, NOW, 20, 0.0)
        assert (cooldown_left_s(pace, NOW), admits(pace, NOW, 1000)) == (0, True), left
    pace = after_unavailable(pace, NOW, 20, 0.0)
    assert is_unavailable(pace)
    assert (cooldown_left_s(pace, NOW), admits(pace, NOW, 0)) == (4, False)
    assert (admits(pace, NOW + 4, 0), admits(pace, NOW + 4, 1)) == (True, False)
    # Requests that had started before fail, too, and do not lengthen the cooldown.
    assert cooldown_left_s(after_unavailable(pace, NOW + 1, 19, 0.0), NOW + 1) == 3


def test_two_failures_park_an_endpoint_if_they_are_far_apart() -> None:
    """AL-31: requests to one that hangs fail after a minute each, and there may be only one agent."""
    first = after_unavailable(ThrottleState(cooldown_from_s=5.0, cooldown_until_s=9.0), NOW, 1, 0.0)
    assert (cooldown_left_s(first, NOW), first.failures) == (0, 1)
    assert not is_unavailable(after_unavailable(first, NOW + OUTAGE_S - 1, 1, 0.0))
    second = after_unavailable(first, NOW + OUTAGE_S, 1, 0.0)
    assert is_unavailable(second)
    assert cooldown_left_s(second, NOW + OUTAGE_S) == 4
    assert after_success(second, NOW + OUTAGE_S + 4).failures == 0


def test_an_unavailable_endpoint_is_asked_less_and_less_often() -> None:
    """AL-31: exponential with jitter; RA-21: as a single request would ask."""
    for cooldowns, park_s in {1: 8, 2: 16, 3: MAX_COOLDOWN_S, 2_000: MAX_COOLDOWN_S}.items():
        pace = ThrottleState(failures=OUTAGE_FAILURES, cooldowns=cooldowns, max_in_flight=1, restore_at=20)
        left = [cooldown_left_s(after_unavailable(pace, NOW, 1, jitter), NOW) for jitter in (0.0, 1.0)]
        assert left == [park_s, park_s / 2], cooldowns


def test_an_endpoint_that_is_back_gets_half_of_the_requests_at_once() -> None:
    """AL-31: it was not overloaded before."""
    pace = ThrottleState(failures=9, cooldowns=7, max_in_flight=1, restore_at=20)
    back = after_success(pace, NOW)
    assert (back.max_in_flight, back.failures, back.cooldowns) == (10, 0, 0)
    assert after_success(ThrottleState(failures=2), NOW) == UNTHROTTLED


def test_each_outcome_of_a_request_has_its_rule() -> None:
    """AL-31: an outcome that says nothing about the endpoint changes nothing."""
    pace = ThrottleState(failures=2)
    rules: dict[RequestOutcome, ThrottleState] = {
        "ok": after_success(pace, NOW),
        "limited": after_rate_limit(pace, NOW, 9.0, 4, 0.5),
        "unavailable": after_unavailable(pace, NOW, 4, 0.5),
        "failed": pace,
    }
    given = {"retry_after_s": 9.0, "in_flight": 4, "jitter": 0.5}
    assert {outcome: after_request(pace, outcome, NOW, **given) for outcome in rules} == rules


def test_a_refusal_halves_the_concurrency() -> None:
    pace = after_rate_limit(UNTHROTTLED, NOW, 1.0, 9, 0.0)
    assert pace.max_in_flight == 4
    assert admits(pace, NOW + 1, 3)
    assert not admits(pace, NOW + 1, 4)
    again = after_rate_limit(pace, NOW + 2, 1.0, 4, 0.0)
    assert (again.max_in_flight, again.restore_at) == (2, 9)
    assert after_rate_limit(again, NOW + 4, 1.0, 1, 0.0).max_in_flight == 1


def test_requests_refused_together_count_once_and_only_lengthen_the_cooldown() -> None:
    first = after_rate_limit(UNTHROTTLED, NOW, 5.0, 100, 0.0)
    assert after_rate_limit(first, NOW + 1, None, 99, 0.0) == first
    assert after_rate_limit(first, NOW + 1, 2.0, 99, 0.0) == first
    later = after_rate_limit(first, NOW + 1, 9.0, 99, 0.0)
    assert cooldown_left_s(later, NOW) == 10
    assert (later.max_in_flight, later.cooldowns, later.restore_at) == (50, 1, 100)


def test_a_refusal_during_a_cooldown_may_know_of_more_requests_in_flight() -> None:
    first = after_rate_limit(UNTHROTTLED, NOW, 5.0, 10, 0.0)
    state = after_rate_limit(first, NOW + 1, None, 60, 0.0)
    assert (state.max_in_flight, state.restore_at, state.cooldowns) == (30, 60, 1)
    assert state.cooldown_until_s == first.cooldown_until_s


def test_answers_raise_the_limit_step_by_step_until_there_is_none() -> None:
    """AL-31: concurrency lowered and raised again."""
    pace = after_rate_limit(UNTHROTTLED, NOW, 1.0, 4, 0.0)
    widths = []
    while pace.max_in_flight is not None:
        widths.append(pace.max_in_flight)
        pace = _answers(pace, SUCCESSES_PER_STEP)
    assert widths == [2, 3, 4]
    assert pace == UNTHROTTLED


def test_one_answer_less_than_a_step_does_not_raise_the_limit() -> None:
    pace = _answers(after_rate_limit(UNTHROTTLED, NOW, 1.0, 4, 0.0), SUCCESSES_PER_STEP - 1)
    assert (pace.max_in_flight, pace.successes) == (2, SUCCESSES_PER_STEP - 1)


def test_an_answer_resets_the_refusal_count() -> None:
    struck = after_rate_limit(after_rate_limit(UNTHROTTLED, NOW, None, 4, 0.0), NOW + 5, None, 4, 0.0)
    assert struck.cooldowns == 2
    assert _answers(struck, 1).cooldowns == 0


def test_answers_to_requests_sent_before_the_cooldown_are_ignored() -> None:
    pace = after_rate_limit(UNTHROTTLED, NOW, 5.0, 4, 0.0)
    assert after_success(pace, NOW + 4) == pace


def test_a_free_endpoint_stays_free() -> None:
    assert after_success(UNTHROTTLED, NOW) is UNTHROTTLED


def test_waiting_requests_do_not_return_at_the_same_moment() -> None:
    pace = after_rate_limit(UNTHROTTLED, NOW, 5.0, 4, 0.0)
    assert poll_delay_s(pace, NOW, 0.0) == 5 + MIN_POLL_S
    assert poll_delay_s(pace, NOW, 0.5) == 5 + MIN_POLL_S + POLL_JITTER_S / 2
    assert poll_delay_s(pace, NOW + 9, 0.0) == MIN_POLL_S
