"""Users who control a run at random: they pause, resume, stop, cancel and retry."""

import asyncio
from typing import TYPE_CHECKING

from scaffold.core.errors import UsageError
from scaffold.core.ids import ControlRequestId
from scaffold.core.model import Action, ControlRequest, ControlRequestKind, Goal
from scaffold.core.states import Failed, Paused
from scaffold.host.random_ids import new_id
from scaffold.orchestrator.owner.control import retry_action, retry_goal
from scaffold.orchestrator.owner.control_requests import PAUSED_BY_USER

if TYPE_CHECKING:
    from simulator.world import World

WHIMS = (
    ("pause goal", 3),
    ("resume goal", 3),
    ("stop goal", 2),
    ("cancel goal", 1),
    ("stop action", 2),
    ("cancel action", 1),
    ("retry goal", 3),
    ("retry action", 3),
    ("pause run", 1),
    ("stop run", 1),
    ("cancel run", 0.3),
)


async def act_at_random(world: "World") -> None:
    """Let users act at random while faults occur; then resume most of what they paused."""
    for _ in range(world.chance.choice((0, 0, 1, 3, 8))):
        await asyncio.sleep(world.chance.uniform(0.5, 12.0))
        if not world.storming:
            break
        _follow(world, world.chaos.draw(WHIMS))
    await world.calm.wait()
    for goal in _goals(world):
        if goal.state == Paused(PAUSED_BY_USER) and world.chaos.strikes(0.7):
            _wish(world, "resume", goal)
    for goal in _goals(world):
        if isinstance(goal.state, Failed) and world.chaos.strikes(0.3):
            _retry(world, goal)


def _follow(world: "World", whim: str) -> None:
    goal = world.chance.choice(_goals(world))
    actions = world.context.store.actions.of_goal(goal.id)
    match whim.split():
        case ["retry", "goal"]:
            _retry(world, goal)
        case ["retry", "action"]:
            _retry(world, world.chance.choice(actions))
        case [kind, "goal"]:
            _wish(world, kind, goal)
        case [kind, "action"]:
            _wish(world, kind, goal, world.chance.choice(actions))
        case [kind, _]:
            with world.context.store.transaction():
                world.context.store.runs.ask(world.run_id, kind)


def _wish(world: "World", kind: ControlRequestKind, goal: Goal, action: Action | None = None) -> None:
    wish = ControlRequest(
        id=ControlRequestId(new_id()),
        run_id=world.run_id,
        kind=kind,
        goal_id=goal.id,
        action_id=None if action is None else action.id,
        created_at=world.clock.now(),
    )
    with world.context.store.transaction():
        world.context.store.control_requests.add(wish)


def _retry(world: "World", what: Goal | Action) -> None:
    """Retry a failure; a retry of anything else is refused, as for real users."""
    store, run = world.context.store, world.witness.run
    try:
        if isinstance(what, Goal):
            retry_goal(store, run, what)
        else:
            retry_action(store, run, what)
    except UsageError:
        return


def _goals(world: "World") -> tuple[Goal, ...]:
    return world.context.store.goals.of_run(world.run_id)
