"""The recommended number of agents, compared with a simulation of every number."""

from random import Random  # noqa: TID251 - seeded

import pytest

from scaffold.core.plan import ActionSpec, GoalSpec, Plan
from scaffold.plan.analysis.agent_count import MAX_AGENTS, SEEDS, advise_agent_count
from scaffold.plan.simulation.simulator import simulate

PLANS = 200


def generated(seed):
    """Return a plan of up to three goals: chains, wide plans, and what is between."""
    random = Random(seed)
    goals = []
    for goal in range(random.randint(1, 3)):
        density, count = 3 * random.random(), random.choice([random.randint(1, 6), random.randint(1, 15)])
        actions = []
        for at in range(count):
            needs = {f"{goal}e{random.randrange(at)}" for _ in range(min(at, int(random.random() * density)))}
            actions.append(
                ActionSpec(key=f"{goal}a{at}", preconditions=tuple(sorted(needs)), effects=(f"{goal}e{at}",))
            )
        wants = tuple(f"{goal}e{at}" for at in range(count))
        goals.append(GoalSpec(name=str(goal), goal_state=wants, actions=tuple(actions)))
    return Plan(goals=tuple(goals))


@pytest.mark.slow
def test_the_advised_number_is_within_a_tenth_of_the_best():
    """BX-18: of 200 plans, none loses more than a tenth against any larger number of agents."""
    for seed in range(PLANS):
        plan = generated(seed)
        advised = advise_agent_count(plan).agents
        most = min(MAX_AGENTS, len(plan.actions), 3 * len(plan.goals))
        times = {
            agents: sum(simulate(plan, agents=agents, seed=each).makespan_s for each in SEEDS)
            for agents in range(advised, most + 1)
        }
        assert times[advised] <= 1.1 * min(times.values()), f"seed {seed}: {advised} agents, {times}"
