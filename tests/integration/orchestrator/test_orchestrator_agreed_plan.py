"""The number of actions that a user agreed to: stored once, whatever models propose later."""

from builders import make_run, make_settings
from scaffold.orchestrator.planning.apply_plan import as_started, new_goal, store_agreed_actions, with_agreed_actions
from scaffold.orchestrator.user_control.open_run import RunExecutedElsewhere, RunInput, start_run, start_run_once
from scaffold.plan.text.file_format import read_plan
from scaffold.run.new_actions import new_actions

PLAN = """\
version: 1
goals:
  - name: shop
    goal_state: [sold]
    actions:
      - {key: store, effects: [stored]}
      - {key: sell, preconditions: [stored], effects: [sold]}
"""
LATER = "{key: %s, effects: [%s_done]}"


def add_goal(context, run, name, *keys):
    """Add a goal with actions, as an agent's proposal does."""
    actions = "".join(f"      - {LATER % (key, key)}\n" for key in keys)
    text = f"version: 1\ngoals:\n  - name: {name}\n    goal_state: [{keys[0]}_done]\n    actions:\n{actions}"
    plan, _ = read_plan(text, name="plan.yaml")
    (spec,) = plan.goals
    goal = new_goal(spec, run, now=context.clock.now())
    with context.store.transaction():
        context.store.goals.add(goal)
        context.store.actions.add(new_actions(spec.actions, goal, position=10, now=context.clock.now()))


def test_no_later_proposal_raises_the_limit(context):
    """AL-21, AL-28: it is that of the plan that the user saw."""
    run = make_run(context, PLAN, action_tokens=1_000)
    assert run.settings.limits.agreed_actions == 2
    add_goal(context, run, "more", *"abcdef")
    assert store_agreed_actions(context.store, run) == run
    assert context.store.runs.get(run.id).settings.limits.agreed_actions == 2


async def test_a_run_without_a_plan_gets_its_number_with_the_first_one(context):
    """AL-21: also if the process that planned was killed before it stored that."""
    run = await start_run(context, RunInput(request="sell", source="sell"), make_settings())
    assert store_agreed_actions(context.store, run) == run
    add_goal(context, run, "shop", "a", "b", "c")
    planned = store_agreed_actions(context.store, run)
    assert planned.settings.limits.agreed_actions == 3
    assert context.store.runs.get(run.id).settings == planned.settings
    assert as_started(planned.settings) == run.settings


async def test_the_same_input_started_twice_is_one_run_also_once_it_has_a_plan(context):
    """SC-16: the number of its actions is no other setting."""
    settings = make_settings(repository=str(context.repository.root))
    work = RunInput(request="sell", source="sell")
    first = (await start_run_once(context, work, settings)).run
    with context.store.transaction():
        context.store.runs.configure(first.id, with_agreed_actions(settings, read_plan(PLAN, name="p")[0].actions))
    again = await start_run_once(context, work, settings)
    assert isinstance(again, RunExecutedElsewhere)
    assert again.run.id == first.id
