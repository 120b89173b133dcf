"""Explanations of a plan, and the recommended number of agents."""

from inline_snapshot import snapshot

from scaffold.core.plan import Plan
from scaffold.core.proof.contract import Check, Contract
from scaffold.plan.analysis.agent_count import MAX_AGENTS, advise_agent_count
from scaffold.plan.analysis.explanation import explain
from support import plans
from support.plans import independent, plan

CHECKED = Contract(commands=(Check(command="true"),))


def action(key, needs="", gives="", **fields):
    return plans.action(key, needs, gives, **{"contract": CHECKED} | fields)


DIAMOND = plan(
    "d", action("end", "b c", "d"), action("left", "a", "b"), action("right", "a", "c"), action("top", "", "a")
)


def test_levels_show_what_can_run_in_parallel():
    (explained,) = explain(DIAMOND).goals
    assert explained.levels == (("top",), ("left", "right"), ("end",))
    assert (explained.width, explained.critical_path, explained.bound_s) == (2, ("top", "left", "end"), 900.0)


def test_each_assertion_is_listed_with_its_providers_and_consumers():
    supplies = {each.assertion: each for each in explain(DIAMOND).goals[0].supplies}
    assert list(supplies) == ["d", "b", "c", "a"]
    assert (supplies["a"].providers, supplies["a"].needed_by, supplies["a"].wanted) == (
        ("top",),
        ("left", "right"),
        False,
    )
    assert (supplies["d"].providers, supplies["d"].needed_by, supplies["d"].wanted) == (("end",), (), True)


def test_a_compound_with_children_is_on_no_level():
    """SC-5."""
    family = plan("a", action("p", gives="a", kind="compound"), action("p/1", gives="a", parent="p"))
    assert explain(family).goals[0].levels == (("p/1",),)


def weaknesses(a_plan):
    return [(each.code, each.action) for each in explain(a_plan).weaknesses]


def test_a_sound_plan_has_no_weakness():
    assert weaknesses(DIAMOND) == []


def test_weaknesses_are_warnings_missing_contracts_and_undecomposed_compounds():
    weak = plan(
        "a",
        action("one", gives="a x"),
        action("two", gives="b", contract=None),
        action("three", "b", "c", contract=Contract(intent="good")),
        action("four", "c", "d", kind="compound", contract=None),
    )
    assert weaknesses(weak) == [
        ("unused-effect", "one"),
        ("unused-effect", "four"),
        ("no-contract", "two"),
        ("no-contract", "three"),
        ("needs-planner", "four"),
    ]


def test_a_file_shared_by_parallel_actions_is_a_weakness_on_each_level():
    """BX-18: overlapping paths cost a second attempt."""
    shared = plan(
        "c d",
        action("one", gives="a", files=("x", "y", "x")),
        action("two", gives="b", files=("x",)),
        action("three", "a b", "c", files=("x", "z")),
        action("four", "a b", "d", files=("x",)),
    )
    found = explain(shared).weaknesses
    assert [(each.code, each.action) for each in found] == [("shared-file", "two"), ("shared-file", "four")]
    assert found[0].message.startswith("`one`, `two` may both change `x`, so they do not run")
    assert found[0].fix == snapshot("Let `two` wait for an effect of `one`, or assign the file to only one of them.")


def test_a_wide_plan_needs_as_many_agents_as_its_width():
    """BX-18."""
    advice = advise_agent_count(Plan(goals=(independent(2),)))
    assert advice.agents == 2
    assert advice.why.endswith("% longer; never more than 2 actions can run")


def test_the_advice_never_exceeds_the_agents_allowed_per_goal():
    """BX-18."""
    advice = advise_agent_count(Plan(goals=(independent(30),)))
    assert (advice.agents, len(advice.predictions)) == (3, 3)
    assert advice.why == snapshot(
        "at most 30 in parallel, longest chain 1 action; one fewer would take 47% longer; no more "
        "than 3 may work on one goal, and no more than 16 were tried"
    )


def test_the_smallest_number_within_a_tenth_of_the_fastest_is_advised():
    """BX-18: a long chain with a short branch beside it needs no large number of agents."""
    chain = [action(f"c{i}", f"c{i - 1}" if i else "", f"c{i}") for i in range(10)]
    advice = advise_agent_count(plan("c9 x y", *chain, action("x", gives="x"), action("y", gives="y")))
    times = {each.agents: each.makespan_s for each in advice.predictions}
    assert advice.agents == 2
    assert times[1] > 1.1 * times[2]
    assert times[2] <= 1.1 * times[3]
    assert "; more would save " in advice.why


def test_the_number_of_agents_tried_is_bounded():
    wide = Plan(goals=tuple(independent(3, f"g{i}") for i in range(8)))
    assert len(advise_agent_count(wide).predictions) == MAX_AGENTS


def test_a_plan_without_goals_needs_one_agent():
    assert advise_agent_count(Plan(goals=())).agents == 1
