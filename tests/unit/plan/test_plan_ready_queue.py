"""Readiness kept by counters: what each change does to it."""

from scaffold.plan.graph.readiness import ActionNode, ready_actions
from scaffold.plan.graph.ready_queue import ReadyQueue


def node(key, status="pending", *, needs="", gives="", parent=None, kind="primitive"):
    return ActionNode(key, parent, tuple(needs.split()), tuple(gives.split()), status, kind)


def test_a_fact_makes_those_ready_who_waited_for_nothing_else():
    """SC-4: an assertion that was never shown is false (SC-2)."""
    agenda = ReadyQueue([node("a", needs="x"), node("b", needs="x y"), node("c", "completed")])
    agenda.add_fact("x")
    assert agenda.ready() == ("a",)
    agenda.add_fact("y")
    assert agenda.ready() == ("a", "b")


def test_a_stale_fact_takes_readiness_back_and_a_fact_that_comes_back_gives_it_again():
    """SC-4."""
    agenda = ReadyQueue([node("a", needs="x")], facts={"x"})
    assert agenda.ready() == ("a",)
    agenda.remove_fact("x")
    assert agenda.ready() == ()
    agenda.add_fact("x")
    assert agenda.ready() == ("a",)


def test_showing_a_fact_twice_or_withdrawing_what_never_held_changes_nothing():
    agenda = ReadyQueue([node("a", needs="x y")])
    agenda.remove_fact("x")
    agenda.add_fact("x")
    agenda.add_fact("x")
    assert agenda.ready() == ()
    assert agenda.facts == {"x"}
    assert agenda.lacking(("y", "x")) == ("y",)


def test_a_precondition_written_twice_counts_once():
    agenda = ReadyQueue([node("a", needs="x x")])
    agenda.add_fact("x")
    assert agenda.ready() == ("a",)


def test_the_ready_are_listed_in_plan_order_and_no_more_than_asked_for():
    agenda = ReadyQueue([node("a", needs="x"), node("b"), node("c")])
    agenda.add_fact("x")
    assert agenda.ready(2) == ("a", "b")
    assert agenda.ready(0) == ()


def test_children_wait_for_their_parent_to_run_and_again_when_it_stops():
    """SC-5."""
    agenda = ReadyQueue([node("c", parent="p"), node("p", kind="compound")])
    assert agenda.ready() == ("p",)
    agenda.set_status("p", "running")
    assert agenda.ready() == ("c",)
    agenda.set_status("p", "completed")
    assert agenda.ready() == ()


def test_children_of_a_parent_that_runs_already_do_not_wait():
    assert ReadyQueue([node("p", "running"), node("c", parent="p")]).ready() == ("c",)


def test_a_child_whose_parent_is_nowhere_is_never_ready():
    agenda = ReadyQueue([node("c", parent="nobody")])
    agenda.set_status("c", "blocked")
    agenda.set_status("c", "pending")
    assert agenda.ready() == ()


def test_children_that_may_still_do_something_are_counted():
    """SC-5."""
    agenda = ReadyQueue([node("p", "running"), node("c", parent="p"), node("d", "failed", parent="p")])
    assert agenda.open_children("p") == 1
    agenda.set_status("c", "running")
    assert agenda.open_children("p") == 1
    agenda.set_status("c", "completed")
    assert agenda.open_children("p") == 0
    agenda.set_status("d", "pending")
    assert agenda.open_children("p") == 1


def test_an_action_is_awaited_by_its_children_and_by_those_who_need_its_effects():
    nodes = [node("a", gives="x"), node("b", needs="x", gives="y"), node("p"), node("c", parent="p")]
    agenda = ReadyQueue(nodes)
    assert [agenda.awaited(each.id) for each in nodes] == [True, False, True, False]


def test_actions_are_given_back_as_they_stand():
    agenda = ReadyQueue([node("a"), node("b")])
    agenda.set_status("b", "running")
    assert agenda.actions == (node("a"), node("b", "running"))
    assert agenda.action("b") == node("b", "running")
    assert [agenda.tally(status) for status in ("pending", "running", "failed")] == [1, 1, 0]
    assert agenda.ready() == ready_actions(agenda.actions, agenda.facts)
