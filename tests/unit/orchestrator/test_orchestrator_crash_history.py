"""Which goal of a shared process crashes it, and what that costs the others."""

from scaffold.orchestrator.owner.processes.crash_history import (
    BACKOFF_S,
    FAULT_BACKOFF_S,
    MAX_FAULTS,
    MAX_STRIKES,
    CrashHistory,
)

GOALS = ("a", "b", "c", "d")


def own(history):
    return [goal for goal in GOALS if history.needs_own_process(goal)]


def shared(history):
    return tuple(goal for goal in GOALS if not history.needs_own_process(goal))


def test_a_goal_alone_in_its_process_has_a_strike_for_each_crash_without_progress():
    """SC-16."""
    history = CrashHistory()
    for _ in range(MAX_STRIKES - 1):
        history.record_crash(("a",), None, ())
    assert not history.has_used_up("a")
    history.record_crash(("a",), None, ("a",))
    assert history.delay_s("a") == 0
    for _ in range(MAX_STRIKES):
        history.record_crash(("a",), None, ())
    assert history.has_used_up("a")
    assert history.delay_s("a") == BACKOFF_S[-1]
    history.forgive("a")
    assert (history.has_used_up("a"), own(history)) == (False, [])


def test_after_a_shared_crash_one_goal_after_the_other_runs_alone_until_the_culprit_is_known():
    """SC-16, OR-8: `c` crashes each process that it is in; no other goal has a strike for that."""
    history, alone = CrashHistory(), []
    for _ in range(20):
        if history.has_used_up("c"):
            break
        crashed = ("c",) if "c" in own(history) else shared(history)
        assert "c" in crashed
        history.record_crash(crashed, None, ())
        alone.append(own(history))
    assert alone == [["a"], ["b"], ["c"], *[["c"]] * MAX_STRIKES]
    assert not any(history.has_used_up(goal) for goal in ("a", "b", "d"))


def test_an_exit_that_names_its_goal_needs_no_search():
    history = CrashHistory()
    history.record_crash(GOALS, "b", GOALS)
    assert own(history) == [], "one crash after progress is forgiven"
    history.record_crash(GOALS, "b", GOALS)
    assert own(history) == ["b"], "it stays alone, whatever progress it makes"
    history.record_crash(("b",), None, ("b",))
    assert own(history) == ["b"]


def test_a_process_that_is_killed_from_outside_again_and_again_blames_no_goal_for_good():
    history = CrashHistory()
    for _ in range(3 * len(GOALS)):
        history.record_crash(shared(history), None, ())
        assert len(own(history)) == 1
    assert not any(map(history.has_used_up, GOALS))


def test_a_process_that_exits_by_itself_while_its_goals_are_unfinished_counts_against_each():
    history = CrashHistory()
    history.record_exit(("a", "b"), ("b",))
    assert (own(history), history.delay_s("a"), history.delay_s("b")) == (["a"], BACKOFF_S[1], 0)
    for _ in range(MAX_STRIKES):
        history.record_exit(("a",), ())
    assert history.has_used_up("a")
    assert not history.has_used_up("b")


def test_waiting_for_a_budget_or_a_model_counts_against_no_goal():
    """AL-31: it only delays the next start."""
    history = CrashHistory()
    for _ in range(2 * MAX_STRIKES):
        history.record_wait(GOALS, ())
    assert own(history) == []
    assert history.delay_s("a") == BACKOFF_S[-1]


def test_a_goal_that_meets_one_fault_after_the_other_runs_alone_with_growing_pauses_and_fails_in_the_end():
    """SC-16, AL-27: a fault of the machine costs time, and the other goals nothing."""
    history = CrashHistory()
    history.record_fault(GOALS, "b", ())
    assert own(history) == []
    history.record_fault(GOALS, "b", ())
    assert own(history) == ["b"]
    assert history.delay_s("b") == FAULT_BACKOFF_S[2]
    history.record_fault(("b",), "b", ("b",))
    assert (own(history), history.delay_s("b")) == ([], FAULT_BACKOFF_S[1])
    for _ in range(MAX_FAULTS - 1):
        assert not history.has_used_up("b")
        history.record_fault(("b",), "b", ())
    assert (history.has_used_up("b"), history.delay_s("b")) == (True, FAULT_BACKOFF_S[-1])
    assert not any(map(history.has_used_up, ("a", "c", "d")))
