"""Readiness kept by counters: the effect of each change."""

from scaffold.plan.graph.ready_queue import ReadyQueue
from support.plans import node, ready_actions


def test_readiness_follows_the_facts():
    """SC-4: an assertion that was never shown is false (SC-2)."""
    queue = ReadyQueue([node("a", needs="x"), node("b", needs="x y"), node("c", "completed"), node("d", needs="y y")])
    queue.add_fact("x")
    queue.add_fact("x")
    assert (queue.ready(), queue.facts, queue.lacking(("y", "x"))) == (("a",), {"x"}, ("y",))
    queue.add_fact("y")
    assert queue.ready() == ("a", "b", "d")


def test_ready_actions_are_listed_in_plan_order_up_to_a_limit():
    queue = ReadyQueue([node("a", needs="x"), node("b"), node("c")])
    queue.add_fact("x")
    assert queue.ready(2) == ("a", "b")
    assert queue.ready(0) == ()


def test_children_wait_for_their_parent_to_run_and_again_when_it_stops():
    """SC-5."""
    queue = ReadyQueue([node("c", parent="p"), node("p", kind="compound")])
    assert queue.ready() == ("p",)
    queue.set_status("p", "running")
    assert queue.ready() == ("c",)
    queue.set_status("p", "completed")
    assert queue.ready() == ()


def test_a_child_with_a_missing_parent_is_never_ready():
    queue = ReadyQueue([node("c", parent="nobody"), node("p", "running"), node("d", parent="p")])
    queue.set_status("c", "blocked")
    queue.set_status("c", "pending")
    assert queue.ready() == ("d",)


def test_children_that_can_still_run_are_counted():
    """SC-5."""
    queue = ReadyQueue([node("p", "running"), node("c", parent="p"), node("d", "failed", parent="p")])
    assert queue.open_children("p") == 1
    queue.set_status("c", "running")
    assert queue.open_children("p") == 1
    queue.set_status("c", "completed")
    assert queue.open_children("p") == 0
    queue.set_status("d", "pending")
    assert queue.open_children("p") == 1


def test_an_action_is_awaited_by_its_children_and_by_consumers_of_its_effects():
    nodes = [node("a", gives="x"), node("b", needs="x", gives="y"), node("p"), node("c", parent="p")]
    queue = ReadyQueue(nodes)
    assert [queue.awaited(each.id) for each in nodes] == [True, False, True, False]


def test_actions_are_returned_unchanged():
    queue = ReadyQueue([node("a"), node("b")])
    queue.set_status("b", "running")
    assert queue.actions == (node("a"), node("b", "running"))
    assert queue.action("b") == node("b", "running")
    assert queue.ready() == ready_actions(queue.actions, queue.facts)
