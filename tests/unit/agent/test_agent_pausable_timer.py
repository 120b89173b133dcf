"""A timer that is paused while a human thinks."""

from scaffold.agent.subagents.process_pool import PausableTimer
from support.fake_clock import FakeClock


def test_time_passes_except_during_pauses():
    """RA-11: waiting for consent does not count against the timeout."""
    clock = FakeClock()
    allowance = PausableTimer(10, clock.monotonic)
    clock.advance(4)
    with allowance.paused():
        clock.advance(100)
        assert allowance.left_s() == 6
    assert allowance.left_s() == 6
    clock.advance(7)
    assert allowance.left_s() == -1


def test_the_total_of_all_pauses_is_bounded():
    clock = FakeClock()
    allowance = PausableTimer(10, clock.monotonic, longest_pause_s=20)
    for _ in range(2):
        with allowance.paused():
            clock.advance(15)
    assert allowance.left_s() == 0


def test_a_pause_also_ends_when_an_error_is_raised():
    clock = FakeClock()
    allowance = PausableTimer(10, clock.monotonic)
    try:
        with allowance.paused():
            clock.advance(1)
            raise KeyError
    except KeyError:
        clock.advance(1)
    assert allowance.left_s() == 9
