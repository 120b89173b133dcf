"""The rules of a shared back-off (AL-31), without any clock, database or network."""

import pytest

from scaffold.core.throttling import (
    FREE,
    LONGEST_PARK_S,
    LONGEST_WISH_S,
    SHORTEST_NAP_S,
    SPREAD_S,
    SUCCESSES_PER_STEP,
    Pace,
    admits,
    limited,
    nap_s,
    succeeded,
    wait_s,
)

NOW = 1_000.0


def _answers(pace: Pace, count: int) -> Pace:
    for _ in range(count):
        pace = succeeded(pace, NOW + 10_000)
    return pace


def test_a_free_endpoint_admits_everybody_at_once() -> None:
    assert wait_s(FREE, NOW) == 0
    assert admits(FREE, NOW, 1_000_000)


@pytest.mark.parametrize("in_flight", [1, 2, 500])
def test_one_refusal_parks_everybody(in_flight: int) -> None:
    """AL-31: one 429 parks them all."""
    pace = limited(FREE, NOW, 7.0, in_flight, 0.5)
    assert wait_s(pace, NOW) == 7
    assert not admits(pace, NOW + 6.9, 0)
    assert admits(pace, NOW + 7, 0)
    assert wait_s(pace, NOW + 8) == 0


@pytest.mark.parametrize(("strikes", "park_s"), [(0, 1), (1, 2), (4, 16), (5, 30), (2_000, LONGEST_PARK_S)])
def test_without_a_wish_parks_double_up_to_a_longest_one(strikes: int, park_s: float) -> None:
    """AL-31: exponential with jitter; RA-21: 1 s doubling to 30 s."""
    pace = Pace(strikes=strikes, width=1)
    assert wait_s(limited(pace, NOW, None, 1, 0.0), NOW) == park_s
    assert wait_s(limited(pace, NOW, None, 1, 0.5), NOW) == park_s * 0.75
    assert limited(pace, NOW, None, 1, 0.0).strikes == strikes + 1


@pytest.mark.parametrize("wish", [0.0, -3.0])
def test_a_wish_for_no_time_at_all_is_no_wish(wish: float) -> None:
    assert wait_s(limited(FREE, NOW, wish, 1, 0.0), NOW) == 1


def test_nobody_is_parked_for_longer_than_a_day() -> None:
    pace = limited(FREE, NOW, 1e12, 1, 0.0)
    assert wait_s(pace, NOW) == LONGEST_WISH_S
    assert wait_s(limited(pace, NOW, float("inf"), 1, 0.0), NOW) == LONGEST_WISH_S
    assert wait_s(pace, NOW - 1e9) == LONGEST_WISH_S


def test_a_refusal_halves_what_was_under_way() -> None:
    pace = limited(FREE, NOW, 1.0, 9, 0.0)
    assert pace.width == 4
    assert admits(pace, NOW + 1, 3)
    assert not admits(pace, NOW + 1, 4)
    again = limited(pace, NOW + 2, 1.0, 4, 0.0)
    assert (again.width, again.ceiling) == (2, 9)
    assert limited(again, NOW + 4, 1.0, 1, 0.0).width == 1


def test_requests_refused_together_count_once_and_only_lengthen_the_park() -> None:
    first = limited(FREE, NOW, 5.0, 100, 0.0)
    assert limited(first, NOW + 1, None, 99, 0.0) == first
    assert limited(first, NOW + 1, 2.0, 99, 0.0) == first
    later = limited(first, NOW + 1, 9.0, 99, 0.0)
    assert wait_s(later, NOW) == 10
    assert (later.width, later.strikes, later.ceiling) == (50, 1, 100)


def test_who_is_refused_during_a_park_may_know_of_more_that_were_under_way() -> None:
    first = limited(FREE, NOW, 5.0, 10, 0.0)
    told = limited(first, NOW + 1, None, 60, 0.0)
    assert (told.width, told.ceiling, told.strikes) == (30, 60, 1)
    assert told.parked_until_s == first.parked_until_s


def test_answers_raise_the_width_step_by_step_until_there_is_none() -> None:
    """AL-31: concurrency lowered and raised again."""
    pace = limited(FREE, NOW, 1.0, 4, 0.0)
    widths = []
    while pace.width is not None:
        widths.append(pace.width)
        pace = _answers(pace, SUCCESSES_PER_STEP)
    assert widths == [2, 3, 4]
    assert pace == FREE


def test_an_answer_less_than_a_step_does_not_raise_the_width() -> None:
    pace = _answers(limited(FREE, NOW, 1.0, 4, 0.0), SUCCESSES_PER_STEP - 1)
    assert (pace.width, pace.successes) == (2, SUCCESSES_PER_STEP - 1)


def test_an_answer_takes_the_strikes_away() -> None:
    struck = limited(limited(FREE, NOW, None, 4, 0.0), NOW + 5, None, 4, 0.0)
    assert struck.strikes == 2
    assert _answers(struck, 1).strikes == 0


def test_answers_that_were_on_their_way_before_the_park_say_nothing() -> None:
    pace = limited(FREE, NOW, 5.0, 4, 0.0)
    assert succeeded(pace, NOW + 4) == pace


def test_a_free_endpoint_stays_free() -> None:
    assert succeeded(FREE, NOW) is FREE


def test_those_who_waited_do_not_come_back_together() -> None:
    pace = limited(FREE, NOW, 5.0, 4, 0.0)
    assert nap_s(pace, NOW, 0.0) == 5 + SHORTEST_NAP_S
    assert nap_s(pace, NOW, 0.5) == 5 + SHORTEST_NAP_S + SPREAD_S / 2
    assert nap_s(pace, NOW + 9, 0.0) == SHORTEST_NAP_S
