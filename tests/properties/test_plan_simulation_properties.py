"""Simulated plans: executed, interrupted and continued."""

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from properties.sound_goals import sound_goal
from scaffold.core.plan import ActionSpec, Plan
from scaffold.plan.analysis.lint import lint
from scaffold.plan.analysis.plan_diff import diff_plans
from scaffold.plan.progress import PlanProgress, settled_progress, without_dead_actions
from scaffold.plan.simulation.simulator import AttemptTiming, Simulation, simulate
from support.property_examples import up_to

plans = st.tuples(sound_goal(), sound_goal("h")).map(lambda goals: Plan(goals=goals))
crews = st.integers(1, 5)
seeds = st.integers(0, 2**32)
PACE = AttemptTiming(mean_s=20, spread=0.9, landing_s=7)


def check_order(plan: Plan, simulation: Simulation, agents: int, cap: int = 3) -> None:
    """Hold a simulation to what no run may do: too many at work, work before its time, anything twice."""
    spans = [(each.start_s, each.end_s, action) for action in simulation.actions for each in action.attempts]
    for moment in {start for start, _, _ in spans}:
        at_work = [action for start, end, action in spans if start <= moment < end]
        assert len(at_work) <= agents
        assert all(sum(action.goal == goal.name for action in at_work) <= cap for goal in plan.goals)
        assert len({action.key for action in at_work}) == len(at_work)
    landed = {action.key: action.landed_s for action in simulation.actions if action.landed_s is not None}
    assert sorted(landed, key=landed.__getitem__) == list(simulation.landings)
    assert len(set(landed.values())) == len(landed)
    specs = {action.key: action for action in plan.actions}
    for action in simulation.actions:
        for attempt in action.attempts:
            spec = specs[action.key]
            shown = {e for key, at in landed.items() if at <= attempt.start_s for e in specs[key].effects}
            assert shown.issuperset(spec.preconditions)
            assert spec.parent is None or shown.issuperset(specs[spec.parent].preconditions)


@settings(max_examples=up_to(200))
@given(plans, crews, seeds)
def test_a_linted_plan_always_completes_in_a_simulation_without_failures(plan, agents, seed):
    """BX-7, OR-3, SC-3, SC-5: nothing is dispatched twice, early, or beyond the caps."""
    assert lint(plan).valid
    simulation = simulate(plan, agents=agents, seed=seed, pace=PACE)
    assert all(goal.status == "completed" for goal in simulation.goals)
    check_order(plan, simulation, agents)
    assert all(len(action.attempts) <= 1 for action in simulation.actions)
    assert simulation.makespan_s >= simulation.bound_s
    assert 0 < simulation.utilization <= 1
    assert {action.status for action in simulation.actions} <= {"completed", "skipped"}
    assert simulation == simulate(plan, agents=agents, seed=seed, pace=PACE)


@settings(max_examples=up_to(200))
@given(plans, crews, seeds, st.sampled_from([0.1, 0.5, 0.9, 1.0]))
def test_a_simulation_ends_whatever_fails_and_an_action_fails_at_most_three_times(plan, agents, seed, rate):
    """OR-3: a goal completes exactly if its state holds; after the third failure there is no further attempt."""
    simulation = simulate(plan, agents=agents, seed=seed, failure_rate=rate, pace=PACE)
    check_order(plan, simulation, agents)
    specs = {action.key: action for action in plan.actions}
    for goal, end in zip(plan.goals, simulation.goals, strict=True):
        mine = [key for key in simulation.landings if specs[key] in goal.actions]
        reached = {effect for key in mine for effect in specs[key].effects}.issuperset(goal.goal_state)
        assert (end.status, end.reason is None) == (("completed", True) if reached else ("failed", False))
    for action in simulation.actions:
        outcomes = [attempt.succeeded for attempt in action.attempts]
        assert True not in outcomes[:-1]
        assert (action.status == "failed" and action.attempts != ()) <= (outcomes == [False] * 3)
        assert (action.landed_s is None) == (True not in outcomes)
    assert simulation.makespan_s >= simulation.bound_s


def broken_off(draw, plan: Plan) -> PlanProgress:
    """Where the plan stands after some of its landings, with all compounds running that have begun."""
    simulation = simulate(plan, seed=draw(seeds), agents=draw(crews), pace=PACE)
    done = simulation.landings[: draw(st.integers(0, len(simulation.landings)))]
    statuses = dict.fromkeys(done, "completed")
    facts = {
        goal.name: tuple(e for action in goal.actions if action.key in done for e in action.effects)
        for goal in plan.goals
    }
    for action in plan.actions:
        if action.key in done and action.parent is not None:
            statuses[action.parent] = "running"
    at_work = [action.key for action in plan.actions if action.key not in statuses and action.kind == "primitive"]
    for goal in plan.goals:
        for action in goal.actions:
            able = action.key in at_work and set(facts[goal.name]).issuperset(action.preconditions)
            if able and action.parent is None and draw(st.booleans()):
                statuses[action.key] = draw(st.sampled_from(["running", "verifying", "landing", "failed"]))
    return PlanProgress(statuses=statuses, facts=facts)


def thought_again(draw, plan: Plan, progress: PlanProgress) -> Plan:
    """Another plan for the same goals: some left out, some described anew, some more."""
    goals = []
    for goal in plan.goals:
        actions = [action for action in goal.actions if draw(st.integers(0, 5))]
        actions = [replace(each, description="anew") if not draw(st.integers(0, 3)) else each for each in actions]
        desired = draw(st.sampled_from(goal.goal_state))
        if draw(st.booleans()):
            actions.append(ActionSpec(key=f"{goal.name}+", effects=(desired,)))
        goals.append(replace(goal, actions=tuple(draw(st.permutations(actions)))))
    return Plan(goals=tuple(goals))


@settings(max_examples=up_to(300))
@given(plans, st.data())
def test_what_is_left_of_a_plan_completes_if_it_is_sound_and_nothing_is_done_again(plan, data):
    """BX-7: some work has landed, some has failed, and a new plan says what else is to be done."""
    begun = broken_off(data.draw, plan)
    new = thought_again(data.draw, plan, begun)
    keys = {action.key for action in new.actions}
    known = PlanProgress(statuses={key: was for key, was in begun.statuses.items() if key in keys}, facts=begun.facts)
    progress = settled_progress(new, known)
    assert settled_progress(new, progress) == progress
    left = without_dead_actions(new, progress)
    if lint(left, progress.facts).valid:
        simulation = simulate(left, agents=data.draw(crews), pace=PACE, progress=progress)
        assert all(goal.status == "completed" for goal in simulation.goals)
        again = {action.key for action in simulation.actions if action.attempts}
        assert not again & {key for key, status in progress.statuses.items() if status == "completed"}


@given(plans, st.data())
def test_two_plans_have_no_differences_exactly_if_they_are_equal(plan, data):
    """BX-7."""
    other = thought_again(data.draw, plan, PlanProgress())
    assert diff_plans(plan, plan).none
    assert diff_plans(plan, other).none is (plan == other)
    there, back = diff_plans(plan, other), diff_plans(other, plan)
    assert (there.actions_added, there.before) == (back.actions_removed, back.after)
    assert (set(there.findings_new), there.after.valid) == (set(back.findings_gone), lint(other).valid)
