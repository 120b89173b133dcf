"""The recommended number of agents: shared files, progress, limits and large plans."""

import pytest
from inline_snapshot import snapshot

from scaffold.core.plan import ActionSpec, GoalSpec, Plan
from scaffold.plan.analysis.agent_count import MAX_AGENTS, MAX_SIMULATED, advise_agent_count, busiest_path
from scaffold.plan.progress import PlanProgress
from scaffold.plan.simulation.simulator import simulate


def action(key, *needs, files=()):
    return ActionSpec(key=key, preconditions=needs, effects=(f"{key}_there",), files=tuple(files))


def plan_of(*actions, name="g"):
    wants = tuple(f"{each.key}_there" for each in actions)
    return Plan(goals=(GoalSpec(name=name, goal_state=wants, actions=actions),))


def test_actions_on_one_file_need_one_agent():
    """BX-18: paths that overlap keep actions from running at the same time."""
    advice = advise_agent_count(plan_of(*(action(key, files=["shop.py"]) for key in "abc")))
    assert advice.agents == 1
    assert advice.why == snapshot(
        "at most 3 in parallel, longest chain 1 action, 3 actions change `shop.py` one after the "
        "other; more would save no time"
    )
    apart = advise_agent_count(plan_of(*(action(key, files=[f"{key}.py"]) for key in "abc")))
    assert apart.agents == 3
    assert "shop.py" not in apart.why


def test_the_busiest_path_is_the_one_with_the_most_work_on_it():
    """BX-18: equal paths, and folders around them; a glob counts as its folder."""
    rows = (
        ((["a.py"], ["b.py"], []), None, ()),
        ((["./a.py"], ["a.py/"], ["b.py"]), "a.py", ("0", "1")),
        ((["src"], ["src/x/a.py"], ["src/b.py"]), "src/x/a.py", ("0", "1")),
        ((["src/**"], ["src/x/*.py"], ["src/x/a.py"]), "src/x/a.py", ("0", "1", "2")),
        ((["**"], ["*.py"], ["a.py"]), None, ()),
        ((["src/ab.py"], ["src/a"], ["srcs"]), None, ()),
        ((["a", "b", "a"], ["b"], ["b"]), "b", ("0", "1", "2")),
    )
    for files, path, keys in rows:
        actions = [action(str(at), files=each) for at, each in enumerate(files)]
        found = busiest_path(actions, {each.key: 10.0 for each in actions})
        assert (found and (found.path, found.actions, found.seconds)) == (path and (path, keys, 10.0 * len(keys)))
        assert busiest_path(actions, {}) is None, "what takes no time is in nobody's way"


def test_no_more_agents_are_advised_than_the_limit():
    """BX-18: the tier is the most."""
    advice = advise_agent_count(plan_of(*map(action, "abcdef")), limit=2)
    assert (advice.agents, len(advice.predictions)) == (2, 2)
    assert advice.why == snapshot(
        "at most 6 in parallel, longest chain 1 action; one fewer would take 84% longer; no more "
        "than 2 may work at once"
    )


def test_the_advice_keeps_to_the_limit_of_a_goal():
    """BX-18, SC-15."""
    plan = plan_of(*map(action, "abcdef"))
    assert [advise_agent_count(plan, limit=8, goal_agents=limit).agents for limit in (1, 2, 6)] == [1, 2, 6]


def test_only_what_is_left_to_do_counts():
    """BX-18: a plan that is almost done needs few agents."""
    plan = plan_of(*map(action, "abc"), action("d", "a_there"), action("e", "d_there"))
    done = dict.fromkeys("abc", "completed")
    facts = {"g": [f"{key}_there" for key in "abc"]}
    assert advise_agent_count(plan).agents > 1
    left = advise_agent_count(plan, progress=PlanProgress(statuses=done, facts=facts))
    assert (left.agents, left.why) == snapshot((1, "no two actions can run in parallel"))
    ended = PlanProgress(statuses=dict.fromkeys("abcde", "completed"))
    assert advise_agent_count(plan, progress=ended).agents == 1


@pytest.mark.parametrize("goals", [1, 10, 90])
def test_of_hundreds_of_actions_few_numbers_are_simulated(goals):
    """BX-18: it would take long otherwise, before each start of a run."""
    each = [
        tuple(action(f"{goal}-{at}", *([f"{goal}-{at // 2}_there"] if at > 1 else [])) for at in range(500 // goals))
        for goal in range(goals)
    ]
    plan = Plan(goals=tuple(plan_of(*actions, name=str(at)).goals[0] for at, actions in enumerate(each)))
    advice = advise_agent_count(plan)
    assert 500 * len(advice.predictions) <= MAX_SIMULATED
    assert advice.agents <= min(3 * goals, MAX_AGENTS)


@pytest.mark.slow
def test_a_large_plan_in_layers_loses_no_more_than_a_tenth():
    """BX-18: here bounds by work and critical path are far from what happens."""
    layers = [[f"{at}-{place}" for place in range(2 + at % 3)] for at in range(330)]
    actions = [
        action(key, *(f"{each}_there" for each in (layers[at - 1] if at else ())))
        for at, layer in enumerate(layers)
        for key in layer
    ]
    plan = plan_of(*actions)
    advised = advise_agent_count(plan).agents
    times = {agents: simulate(plan, agents=agents).makespan_s for agents in range(advised, 4)}
    assert times[advised] <= 1.1 * min(times.values()), times


def test_a_plan_too_large_to_be_simulated_keeps_its_agents():
    """BX-18: too few would cost more than too many."""
    goals = [plan_of(*(action(f"{goal}-{at}") for at in range(40)), name=str(goal)).goals[0] for goal in range(100)]
    advice = advise_agent_count(Plan(goals=tuple(goals)), limit=5)
    assert advice.agents == 5
    assert advice.why.endswith("too large to try fewer")
