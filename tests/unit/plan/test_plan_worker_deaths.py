"""Workers that die in a row: growing pauses, then a human."""

from scaffold.plan.failures.worker_deaths import ASK_AFTER, PAUSES_S, TELL_AFTER, must_ask, pause_s


def test_the_pauses_grow_with_the_deaths():
    """SC-16: none without a death, and each is longer than the one before."""
    pauses = [pause_s(deaths) for deaths in range(ASK_AFTER)]
    assert pauses[0] == 0.0
    assert pauses == sorted(set(pauses))
    assert pause_s(99) == PAUSES_S[-1]


def test_a_human_decides_after_many_deaths_of_a_goal_or_of_an_action():
    asks = {
        (0, 0): False,
        (TELL_AFTER, TELL_AFTER): False,
        (ASK_AFTER - 1, 0): False,
        (ASK_AFTER, 1): True,
        (0, 9): True,
    }
    assert {row: must_ask(of_goal=row[0], of_action=row[1]) for row in asks} == asks
