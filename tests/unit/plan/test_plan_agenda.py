"""Readiness kept by counters: what each change does to it."""

from scaffold.plan.agenda import Agenda
from scaffold.plan.readiness import Node, ready


def node(key, status="pending", *, needs="", gives="", parent=None, kind="primitive"):
    return Node(key, parent, tuple(needs.split()), tuple(gives.split()), status, kind)


def test_a_fact_makes_those_ready_who_waited_for_nothing_else():
    """SC-4: an assertion that was never shown is false (SC-2)."""
    agenda = Agenda([node("a", needs="x"), node("b", needs="x y"), node("c", "completed")])
    agenda.shown("x")
    assert agenda.ready() == ("a",)
    agenda.shown("y")
    assert agenda.ready() == ("a", "b")


def test_a_stale_fact_takes_readiness_back_and_a_fact_that_comes_back_gives_it_again():
    """SC-4."""
    agenda = Agenda([node("a", needs="x")], facts={"x"})
    assert agenda.ready() == ("a",)
    agenda.withdrawn("x")
    assert agenda.ready() == ()
    agenda.shown("x")
    assert agenda.ready() == ("a",)


def test_showing_a_fact_twice_or_withdrawing_what_never_held_changes_nothing():
    agenda = Agenda([node("a", needs="x y")])
    agenda.withdrawn("x")
    agenda.shown("x")
    agenda.shown("x")
    assert agenda.ready() == ()
    assert agenda.facts == {"x"}
    assert agenda.lacking(("y", "x")) == ("y",)


def test_a_precondition_written_twice_counts_once():
    agenda = Agenda([node("a", needs="x x")])
    agenda.shown("x")
    assert agenda.ready() == ("a",)


def test_the_ready_are_listed_in_plan_order_and_no_more_than_asked_for():
    agenda = Agenda([node("a", needs="x"), node("b"), node("c")])
    agenda.shown("x")
    assert agenda.ready(2) == ("a", "b")
    assert agenda.ready(0) == ()


def test_children_wait_for_their_parent_to_run_and_again_when_it_stops():
    """SC-5."""
    agenda = Agenda([node("c", parent="p"), node("p", kind="compound")])
    assert agenda.ready() == ("p",)
    agenda.moved("p", "running")
    assert agenda.ready() == ("c",)
    agenda.moved("p", "completed")
    assert agenda.ready() == ()


def test_children_of_a_parent_that_runs_already_do_not_wait():
    assert Agenda([node("p", "running"), node("c", parent="p")]).ready() == ("c",)


def test_a_child_whose_parent_is_nowhere_is_never_ready():
    agenda = Agenda([node("c", parent="nobody")])
    agenda.moved("c", "blocked")
    agenda.moved("c", "pending")
    assert agenda.ready() == ()


def test_children_that_may_still_do_something_are_counted():
    """SC-5."""
    agenda = Agenda([node("p", "running"), node("c", parent="p"), node("d", "failed", parent="p")])
    assert agenda.open_children("p") == 1
    agenda.moved("c", "running")
    assert agenda.open_children("p") == 1
    agenda.moved("c", "completed")
    assert agenda.open_children("p") == 0
    agenda.moved("d", "pending")
    assert agenda.open_children("p") == 1


def test_an_action_is_awaited_by_its_children_and_by_those_who_need_its_effects():
    nodes = [node("a", gives="x"), node("b", needs="x", gives="y"), node("p"), node("c", parent="p")]
    agenda = Agenda(nodes)
    assert [agenda.awaited(each.id) for each in nodes] == [True, False, True, False]


def test_actions_are_given_back_as_they_stand():
    agenda = Agenda([node("a"), node("b")])
    agenda.moved("b", "running")
    assert agenda.actions == (node("a"), node("b", "running"))
    assert agenda.action("b") == node("b", "running")
    assert [agenda.tally(status) for status in ("pending", "running", "failed")] == [1, 1, 0]
    assert agenda.ready() == ready(agenda.actions, agenda.facts)
