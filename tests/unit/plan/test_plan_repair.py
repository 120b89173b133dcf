"""A new plan in place of a running one: what is kept, redone and refused."""

from inline_snapshot import snapshot
from msgspec.structs import replace

from scaffold.core.plan import Plan
from scaffold.plan.edit.repair import repair_plan
from scaffold.plan.progress import PlanProgress
from scaffold.plan.simulation.simulator import simulate
from support.plans import action, compound, plan


def both(*plans):
    return Plan(goals=tuple(goal for each in plans for goal in each.goals))


def where(facts="", **statuses):
    return PlanProgress(statuses=statuses, facts={"g": tuple(facts.split())})


def said(repaired):
    return [(finding.code, finding.severity, finding.action) for finding in repaired.findings]


def keys(repaired):
    return [each.key for each in repaired.plan.actions]


ONE, TWO, THREE = action("one", gives="a"), action("two", "a", "b"), action("three", "b", "c")
OLD = plan("c", ONE, TWO, THREE)
BEGUN = where("a", one="completed", two="running")


def test_unchanged_actions_are_kept_and_the_rest_is_changed_added_or_dropped():
    """BX-7."""
    new = plan("c", ONE, TWO, action("three", "b x", "c"), action("four", "b", "x"))
    repaired = repair_plan(plan("c", ONE, TWO, THREE, action("five", "a", "z")), new, progress=BEGUN)
    assert (repaired.kept, repaired.changed, repaired.added, repaired.dropped) == (
        ("one", "two"),
        ("three",),
        ("four",),
        ("five",),
    )
    assert repaired.plan == new
    assert repaired.progress == BEGUN
    assert (repaired.valid, repaired.findings) == (True, ())


def test_started_or_completed_actions_are_never_dropped():
    """BX-7: a new plan may leave them out; they stay, before the others."""
    repaired = repair_plan(OLD, plan("c", action("new", "b", "c")), progress=BEGUN)
    assert keys(repaired) == ["one", "two", "new"]
    assert said(repaired) == [("begun-left-out", "warning", "one"), ("begun-left-out", "warning", "two")]
    assert repaired.findings[0].message == snapshot(
        "action `one` is completed: it stays, although the new plan leaves it out"
    )
    assert (repaired.valid, repaired.dropped) == (True, ("three",))


def test_started_or_completed_actions_are_never_changed():
    """BX-7."""
    statuses = ("running", "verifying", "landing", "completed")
    new = plan("c", ONE, action("two", "a", "b", description="better"), THREE)
    for status in statuses:
        repaired = repair_plan(OLD, new, progress=where("a b", one="completed", two=status))
        assert repaired.plan == OLD
        assert (said(repaired), repaired.valid) == ([("begun-changed", "error", "two")], False), status


def test_a_started_action_cannot_move_to_another_goal():
    other = plan("z", action("zed", gives="z"), name="h")
    moved = both(plan("c", ONE, THREE), plan("z", *other.actions, TWO, name="h"))
    repaired = repair_plan(both(OLD, other), moved, progress=BEGUN)
    assert [[each.key for each in goal.actions] for goal in repaired.plan.goals] == [["two", "one", "three"], ["zed"]]
    assert ("begun-changed", "error", "two") in said(repaired)


def test_a_pending_action_that_moves_to_another_goal_is_changed():
    other = plan("z", action("zed", gives="z"), name="h")
    moved = both(
        plan("c", ONE, TWO, action("four", "b", "c")), plan("z", *other.actions, action("three", "z"), name="h")
    )
    assert repair_plan(both(OLD, other), moved, progress=BEGUN).changed == ("three",)


def test_existing_facts_count_for_the_remaining_work():
    """BX-7: an assertion that holds needs no provider again."""
    new = plan("c", TWO, THREE)
    assert repair_plan(OLD, new, progress=where("a")).valid
    unheld = repair_plan(OLD, new, progress=where())
    assert said(unheld)[0] == ("unprovided-precondition", "error", "two")


def test_a_failed_action_stays_failed_unless_it_is_changed():
    """BX-7: a retry needs something new."""
    progress = where("a", one="completed", two="failed", three="blocked")
    again = repair_plan(OLD, OLD, progress=progress)
    assert said(again)[0] == ("failed-unchanged", "warning", "two")
    assert again.progress == progress
    assert not again.valid
    better = repair_plan(OLD, plan("c", ONE, action("two", "a", "b", description="better"), THREE), progress=progress)
    assert (better.valid, better.changed) == (True, ("two",))
    assert [better.progress.status(key) for key in ("one", "two", "three")] == ["completed", "pending", "pending"]
    assert simulate(better.plan, progress=better.progress).completed


def test_a_failed_action_may_be_left_out_or_replaced():
    """BX-7."""
    progress = where("a", one="completed", two="failed", three="blocked")
    round_it = repair_plan(OLD, plan("c", ONE, action("other", "a", "b"), THREE), progress=progress)
    assert (round_it.valid, round_it.dropped, round_it.findings) == (True, ("two",), ())
    beside = repair_plan(OLD, plan("c", ONE, TWO, action("other", "a", "b"), THREE), progress=progress)
    assert (beside.valid, said(beside)) == (True, [("failed-unchanged", "warning", "two")])
    assert beside.progress.status("three") == "pending"


def test_blocked_actions_stay_blocked_while_a_failure_blocks_them():
    progress = where("a", one="completed", two="failed", three="blocked")
    repaired = repair_plan(OLD, plan("c", *OLD.actions, action("four", "a", "c")), progress=progress)
    assert repaired.progress.status("three") == "blocked"


def test_parents_of_started_actions_stay():
    """SC-5: a failed compound may be changed, but not removed from above what its children did."""
    parent, done, lost = (
        compound("p", gives="x y"),
        action("p/1", gives="x", parent="p"),
        action("p/2", gives="y", parent="p"),
    )
    progress = where("x", **{"p": "failed", "p/1": "completed", "p/2": "failed"})
    old = plan("x y", parent, done, lost)
    left_out = repair_plan(old, plan("x y", action("y", gives="y")), progress=progress)
    assert keys(left_out) == ["p", "p/1", "y"]
    assert (left_out.valid, said(left_out)) == (True, [("begun-left-out", "warning", "p/1")])
    changed = repair_plan(
        old,
        plan("x y", replace(parent, description="anew"), done, action("p/3", gives="y", parent="p")),
        progress=progress,
    )
    assert (changed.valid, changed.changed, changed.added) == (True, ("p",), ("p/3",))
    assert simulate(changed.plan, progress=changed.progress).landings == ("p/3",)


def test_a_completed_compound_with_new_children_runs_again_with_its_parents():
    """SC-5."""
    family = (compound("q", gives="x"), compound("p", gives="x", parent="q"), action("p/1", gives="x", parent="p"))
    progress = where("x", **dict.fromkeys(("q", "p", "p/1"), "completed"))
    repaired = repair_plan(
        plan("x z", *family), plan("x z", *family, action("p/2", gives="z", parent="p")), progress=progress
    )
    assert [repaired.progress.status(key) for key in ("q", "p", "p/1")] == ["running", "running", "completed"]
    assert simulate(repaired.plan, progress=repaired.progress).completed


def test_goals_cannot_be_changed():
    """SC-3: a new plan cannot weaken the goal."""
    other = plan("z", action("zed", gives="z"), name="h")
    easier = repair_plan(OLD, plan("a", ONE), progress=where())
    assert (said(easier)[0], easier.plan.goals[0].goal_state) == (("goal-changed", "error", None), ("c",))
    assert easier.findings[0].fix == snapshot("Write `goal_state: [c]`; only actions may change.")
    left_out = repair_plan(both(OLD, other), OLD, progress=where())
    assert said(left_out) == [("goal-changed", "error", None)]
    assert (left_out.plan, left_out.dropped) == (both(OLD, other), ())
    added = repair_plan(OLD, both(OLD, other), progress=where())
    assert (said(added), added.plan) == ([("goal-changed", "error", None)], OLD)


def test_the_order_of_a_goal_state_does_not_matter():
    assert repair_plan(plan("a b", ONE, TWO), plan("b a", ONE, TWO), progress=where()).findings == ()


def test_a_new_plan_may_be_unsound_in_any_way():
    """Duplicates, cycles and missing parents are left to lint."""
    twins = repair_plan(OLD, plan("c", ONE, ONE, TWO, THREE), progress=BEGUN)
    assert said(twins) == [("duplicate-key", "error", "one"), ("duplicate-provider", "warning", "one")]
    ring = plan(
        "a", compound("p", gives="a", parent="q"), compound("q", parent="p"), action("p/1", gives="a", parent="p")
    )
    assert not repair_plan(ring, ring, progress=where(**{"p/1": "running"})).valid
    lost = plan("a", action("kid", gives="a", parent="nobody"))
    assert keys(repair_plan(lost, lost, progress=where(kid="running"))) == ["kid"]
