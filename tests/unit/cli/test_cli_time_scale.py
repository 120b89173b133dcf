"""The time axis of a report: short runs, long ones, and such that paused for days."""

from datetime import timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import THEN
from scaffold.pages.timeline import QUIET_WIDTH, TICK_WIDTH, TimeScale

WIDTH = 800.0


def after(seconds):
    return THEN + timedelta(seconds=seconds)


def scale_of(*periods):
    return TimeScale([(after(start), after(end)) for start, end in periods], WIDTH)


periods = st.lists(
    st.tuples(st.floats(0, 1e7), st.floats(0, 1e5)).map(lambda each: (each[0], each[0] + each[1])), min_size=1
)


@given(periods, st.lists(st.floats(-1e3, 2e7), min_size=2))
def test_later_is_never_further_left_and_everything_fits(work, moments):
    """SC-19: the timeline keeps the order of time."""
    scale = scale_of(*work)
    places = [scale.at(after(second)) for second in sorted(moments)]
    assert places == sorted(places)
    assert all(0 <= place <= WIDTH * 1.001 for place in places)


@given(periods)
def test_labels_of_the_axis_do_not_touch(work):
    scale = scale_of(*work)
    places = [scale.at(tick) for tick in scale.ticks()]
    assert all(right - left >= TICK_WIDTH for left, right in pairwise(places))


def test_a_night_without_work_is_drawn_short():
    scale = scale_of((0, 60), (30, 90), (40_000, 40_060))
    assert scale.quiet == [(after(90), after(40_000))]
    assert scale.at(after(40_000)) - scale.at(after(90)) == QUIET_WIDTH
    assert scale.at(after(40_060)) == pytest.approx(WIDTH)


def test_a_moment_is_a_width():
    assert scale_of((5, 5)).at(after(5)) == 0.0
