from functools import partial

import pytest

from scaffold.core.plan import GoalSpec, Plan
from scaffold.plan.analysis.lint import lint
from scaffold.plan.graph.dependency_graph import makespan_bound
from scaffold.plan.graph.reach import ChainStep, forward_chain
from scaffold.plan.spelling_hints import MAX_COMPARISONS, SpellingHints
from support.instructions import executed_instructions
from support.plans import action


def plan(*goals):
    return Plan(goals=tuple(GoalSpec(name=f"g{i}", actions=actions) for i, actions in enumerate(goals)))


DIAMOND = (action("top", "", "a"), action("left", "a", "b"), action("right", "a", "c"), action("end", "b c", "d"))


def test_width_is_the_largest_level_and_the_critical_path_the_longest_chain():
    linted = lint(plan(DIAMOND))
    assert (linted.width, linted.critical_path) == (2, ("top", "left", "end"))
    with_two = lint(plan((action("quick", "", "q"), *DIAMOND, action("last", "q d", "e"))))
    assert with_two.critical_path == ("top", "left", "end", "last")


def test_the_earlier_of_two_providers_counts():
    linted = lint(plan((action("slow", "a", "x"), action("first", "", "a"), action("soon", "", "x"), action("u", "x"))))
    assert linted.critical_path == ("first", "slow")
    assert linted.width == 2


def test_goals_run_in_parallel():
    linted = lint(plan(DIAMOND, tuple(action(f"o{i}", "", f"x{i}") for i in range(2))))
    assert linted.width == 3


def test_actions_that_can_never_run_are_left_out():
    linted = lint(plan((action("a", "", "x"), action("b", "nobody", "y"), action("c", "y", "z"))))
    assert (linted.width, linted.critical_path) == (1, ("a",))
    assert lint(plan((action("b", "nobody", "y"),))).critical_path == ()


def test_a_compound_with_children_is_on_no_level_and_no_path():
    family = (
        action("before", "", "a"),
        action("parent", "a", "c", kind="compound"),
        action("one", "", "b", parent="parent"),
        action("two", "b", "c", parent="parent"),
        action("after", "c", "d"),
    )
    linted = lint(plan(family))
    assert linted.critical_path == ("before", "one", "two", "after")
    assert linted.width == 1


def test_a_compound_without_children_counts_as_an_ordinary_action():
    assert lint(plan((action("c", "", "x", kind="compound"), action("d", "x", "y")))).critical_path == ("c", "d")


def test_no_schedule_is_faster_than_its_longest_chain_or_an_even_split():
    seconds = {"top": 1.0, "left": 2.0, "right": 5.0, "end": 1.0}
    assert makespan_bound(plan(DIAMOND), 8, seconds) == 7.0
    assert makespan_bound(plan(DIAMOND), 1, seconds) == 9.0
    assert makespan_bound(plan(DIAMOND), 1, {"left": 2.0}) == 2.0


def test_actions_that_can_never_run_take_no_time():
    broken = plan((action("a", "", "x"), action("b", "nobody", "y")))
    assert makespan_bound(broken, 1, {"a": 1.0, "b": 100.0}) == 1.0


def test_actions_whose_preconditions_hold_initially_begin_at_once():
    reach = forward_chain([ChainStep(frozenset({"x"}), ("y",))], {"x"})
    assert reach.starts == (0,)
    assert reach.held == {"x", "y"}
    assert reach.chain_to(0) == (0,)


@pytest.mark.parametrize(
    "needs",
    [
        lambda i, size: f"f{i - 1}" if i else "",
        lambda i, size: f"f{(i - 1) % size}",
        lambda i, size: f"f{i ^ 1} f{max(i - 2, 0)}",
        lambda i, size: "hub",
    ],
    ids=["chain", "ring", "rings behind rings", "hub"],
)
def test_the_work_of_lint_grows_with_the_plan_and_not_with_its_square(needs):
    """BX-7: sound or not. Counted in executed instructions, so the machine's speed does not matter."""
    small, large = (executed_instructions(partial(linted, needs, size)) for size in (80, 160))
    assert large < 2.5 * small


@pytest.mark.slow
def test_the_work_of_lint_grows_with_the_plan_if_nothing_is_provided():
    """BX-7: names are compared with each other only so often."""
    work = partial(linted, lambda i, size: f"nobody{i}")
    small, large = (executed_instructions(partial(work, size)) for size in (400, 800))
    assert large < 2.5 * small


def test_names_are_compared_with_each_other_only_so_often():
    """BX-7."""
    hints = SpellingHints(["store", *map(str, range(1, MAX_COMPARISONS // 3))])
    assert [hints.closest("stor") for _ in range(4)] == ["store", "store", "store", ""]


def linted(needs, size):
    actions = tuple(action(f"a{i}", needs(i, size), f"f{i} hub") for i in range(size))
    report = lint(Plan(goals=(GoalSpec(name="g", goal_state=("f1",), actions=actions),)))
    assert report.actions == size
