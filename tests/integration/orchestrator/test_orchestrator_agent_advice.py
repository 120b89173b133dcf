"""How many agents of a run may work at once: what its plan deserves, when it starts and when it grows."""

from inline_snapshot import snapshot
from msgspec import structs

from scaffold.orchestrator.dispatch import slots_by_goal
from scaffold.orchestrator.planning.agent_advice import AgentAdvisor
from scaffold.orchestrator.planning.apply_plan import apply_changes
from scaffold.orchestrator.user_control.open_run import reconfigure_run
from scaffold.plan.edit.draft import CreateActions
from support.harness import act, goal


def notices(harness, run):
    return [text for text in harness.notices(run) if text.startswith("the plan has grown: ")]


async def test_a_plan_that_grows_gets_more_agents_up_to_those_of_the_tier(harness):
    """BX-18: replanning that widens the plan raises the number again, and says so once."""
    run = await harness.own(goal("g", act("a"), act("b", needs=["a_done"])))
    (the_goal,) = harness.store.goals.for_run(run.id)
    assert (run.agents, run.advice) == snapshot((1, "no two actions can run in parallel"))
    assert slots_by_goal(harness.store, run) == {the_goal.id: 1}
    advisor = AgentAdvisor(harness.context, run)
    advisor.refresh()
    assert notices(harness, run) == []
    more = tuple(map(act, "cdefgh"))
    with harness.store.transaction():
        apply_changes(harness.store, run, [CreateActions("g", more)], now=harness.context.clock.now())
    advisor.refresh()
    advisor.refresh()
    assert harness.store.runs.get(run.id).agents == 3 == run.settings.tier.agents
    assert slots_by_goal(harness.store, run) == {the_goal.id: 3}, "also for a process that read the run before"
    assert len(notices(harness, run)) == 1


async def test_a_number_that_was_given_is_obeyed(harness):
    """BX-18: `--agents`, also of `resume`."""
    given = await harness.own(goal("g", act("a"), act("b", needs=["a_done"])), agents=2)
    assert (given.agents, given.advised_agents) == (2, None)
    run = await harness.own(goal("h", act("c"), act("d", needs=["c_done"])))
    assert run.agents == 1
    settings = structs.replace(run.settings, choice=structs.replace(run.settings.choice, fixed_agents=True))
    reconfigure_run(harness.context, run, settings)
    assert harness.store.runs.agents(run.id) == 3
