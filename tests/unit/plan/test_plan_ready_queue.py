"""Readiness kept by counters: the effect of each change."""

from scaffold.plan.graph.readiness import ActionNode, ready_actions
from scaffold.plan.graph.ready_queue import ReadyQueue


def node(key, status="pending", *, needs="", gives="", parent=None, kind="primitive"):
    return ActionNode(key, parent, tuple(needs.split()), tuple(gives.split()), status, kind)


def test_a_fact_makes_actions_ready_that_need_nothing_else():
    """SC-4: an assertion that was never shown is false (SC-2)."""
    agenda = ReadyQueue([node("a", needs="x"), node("b", needs="x y"), node("c", "completed")])
    agenda.add_fact("x")
    assert agenda.ready() == ("a",)
    agenda.add_fact("y")
    assert agenda.ready() == ("a", "b")


def test_a_stale_fact_revokes_readiness_and_a_restored_one_returns_it():
    """SC-4."""
    agenda = ReadyQueue([node("a", needs="x")], facts={"x"})
    assert agenda.ready() == ("a",)
    agenda.remove_fact("x")
    assert agenda.ready() == ()
    agenda.add_fact("x")
    assert agenda.ready() == ("a",)


def test_adding_a_fact_twice_or_removing_a_missing_one_changes_nothing():
    agenda = ReadyQueue([node("a", needs="x y")])
    agenda.remove_fact("x")
    agenda.add_fact("x")
    agenda.add_fact("x")
    assert agenda.ready() == ()
    assert agenda.facts == {"x"}
    assert agenda.lacking(("y", "x")) == ("y",)


def test_a_repeated_precondition_counts_once():
    agenda = ReadyQueue([node("a", needs="x x")])
    agenda.add_fact("x")
    assert agenda.ready() == ("a",)


def test_ready_actions_are_listed_in_plan_order_up_to_a_limit():
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


def test_children_of_a_running_parent_do_not_wait():
    assert ReadyQueue([node("p", "running"), node("c", parent="p")]).ready() == ("c",)


def test_a_child_with_a_missing_parent_is_never_ready():
    agenda = ReadyQueue([node("c", parent="nobody")])
    agenda.set_status("c", "blocked")
    agenda.set_status("c", "pending")
    assert agenda.ready() == ()


def test_children_that_can_still_run_are_counted():
    """SC-5."""
    agenda = ReadyQueue([node("p", "running"), node("c", parent="p"), node("d", "failed", parent="p")])
    assert agenda.open_children("p") == 1
    agenda.set_status("c", "running")
    assert agenda.open_children("p") == 1
    agenda.set_status("c", "completed")
    assert agenda.open_children("p") == 0
    agenda.set_status("d", "pending")
    assert agenda.open_children("p") == 1


def test_an_action_is_awaited_by_its_children_and_by_consumers_of_its_effects():
    nodes = [node("a", gives="x"), node("b", needs="x", gives="y"), node("p"), node("c", parent="p")]
    agenda = ReadyQueue(nodes)
    assert [agenda.awaited(each.id) for each in nodes] == [True, False, True, False]


def test_actions_are_returned_unchanged():
    agenda = ReadyQueue([node("a"), node("b")])
    agenda.set_status("b", "running")
    assert agenda.actions == (node("a"), node("b", "running"))
    assert agenda.action("b") == node("b", "running")
    assert [agenda.tally(status) for status in ("pending", "running", "failed")] == [1, 1, 0]
    assert agenda.ready() == ready_actions(agenda.actions, agenda.facts)
