"""Differences between two plans."""

from msgspec.structs import replace

from scaffold.core.plan import Plan
from scaffold.core.proof.contract import Check, Contract
from scaffold.plan.analysis.plan_diff import ChangedItem, PlanShape, diff_plans
from support.plans import action, goal

ONE, TWO = action("one", gives="a"), action("two", "a", "b")
OLD = Plan(goals=(goal("b", ONE, TWO),))


def test_actions_are_added_removed_and_changed_field_by_field():
    """BX-7."""
    checked = replace(ONE, description="better", contract=Contract(commands=(Check(command="true"),)))
    found = diff_plans(OLD, Plan(goals=(goal("b", checked, action("three", "a", "b")),)))
    assert (found.actions_added, found.actions_removed) == (("three",), ("two",))
    assert found.actions_changed == (ChangedItem("one", ("description", "contract")),)
    assert (diff_plans(OLD, OLD).none, found.none) == (True, False)


def test_goals_are_added_removed_and_changed():
    other = goal("z", action("zed", gives="z"), name="h")
    found = diff_plans(
        Plan(goals=(*OLD.goals, other)), Plan(goals=(replace(OLD.goals[0], persistent=True), replace(other, name="i")))
    )
    assert (found.goals_added, found.goals_removed) == (("i",), ("h",))
    assert found.goals_changed == (ChangedItem("g", ("persistent",)),)
    assert found.actions_changed == (ChangedItem("zed", ("goal",)),)


def test_a_different_order_is_a_difference():
    reordered = diff_plans(OLD, Plan(goals=(goal("b", TWO, ONE),)))
    assert (reordered.goals_changed, reordered.none) == ((ChangedItem("g", ("order",)),), False)
    two = (OLD.goals[0], goal("z", action("zed", gives="z"), name="h"))
    assert diff_plans(Plan(goals=two), Plan(goals=two[::-1])).goals_reordered


def test_changes_of_shape_and_findings_are_reported():
    """BX-7."""
    found = diff_plans(OLD, Plan(goals=(goal("b", ONE, action("two", "", "c")),)))
    assert found.before == PlanShape(valid=True, actions=2, width=1, critical_path=("one", "two"))
    assert found.after == PlanShape(valid=False, actions=2, width=2, critical_path=("one",))
    assert {finding.code for finding in found.findings_new} == {"unreachable-goal", "unused-effect"}
    assert found.findings_gone == ()
    assert diff_plans(Plan(goals=(goal("b", TWO),)), OLD).findings_gone[0].code == "unprovided-precondition"
