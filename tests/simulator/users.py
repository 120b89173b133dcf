"""Users who control a run at random: they pause, resume, stop, cancel, retry, and answer when they like."""

import asyncio
from typing import TYPE_CHECKING

from scaffold.core.errors import UsageError
from scaffold.core.ids import ControlRequestId
from scaffold.core.model import Action, ControlRequest, ControlRequestKind, Goal
from scaffold.core.states import PAUSED_BY_USER, Failed, Paused
from scaffold.host.process_identity import own_identity
from scaffold.host.random_ids import new_id
from scaffold.orchestrator.user_control.execution_control import retry_action, retry_goal
from scaffold.orchestrator.user_control.inbox_decisions import InboxDecision, decide_items
from scaffold.run.failures.escalation_question import is_about_failure
from simulator.worker import QUESTION

if TYPE_CHECKING:
    from simulator.world import Simulation

REQUESTS = (
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


async def act_at_random(simulation: "Simulation") -> None:
    """Let users act at random while faults occur; then resume most of what they paused."""
    for _ in range(simulation.rng.choice((0, 0, 1, 3, 8))):
        await asyncio.sleep(simulation.rng.uniform(0.5, 12.0))
        if not simulation.under_faults:
            break
        _perform(simulation, simulation.faults.draw(REQUESTS))
    await simulation.faults_ended.wait()
    for goal in _goals(simulation):
        if goal.state == Paused(PAUSED_BY_USER) and simulation.faults.happens(0.7):
            _request(simulation, "resume", goal)
    for goal in _goals(simulation):
        if isinstance(goal.state, Failed) and simulation.faults.happens(0.3):
            _retry(simulation, goal)
    while True:
        _answer(simulation)
        await asyncio.sleep(5.0)


def _answer(simulation: "Simulation") -> None:
    """Answer what is asked about workers that died in a row, and nothing kills them any more, or about failures."""
    store = simulation.context.store
    for item in store.inbox.open_of_run(simulation.run_id):
        # One that tries again and again would never see the end of work that cannot pass.
        words = (
            simulation.rng.choice(("retry with care", "skip", "fail", "fail")) if is_about_failure(item) else "again"
        )
        decide_items(store, [item.id], InboxDecision(to="answered", words=words))


async def answer_at_random(simulation: "Simulation") -> None:
    """Let users sit at terminals that ask what workers want to know, answer some of it, and leave."""
    rng, store = simulation.rng, simulation.context.store
    while simulation.under_faults:
        await asyncio.sleep(rng.uniform(0.2, 6.0))
        asked = [item.id for item in store.inbox.open_of_run(simulation.run_id) if item.text.startswith(QUESTION)]
        with store.transaction():
            store.inbox.ask_at_terminal(asked if rng.random() < 0.5 else [], own_identity())
            for item_id in asked:
                if rng.random() < 0.4:
                    store.inbox.decide(item_id, "answered", answer="go on")


def _perform(simulation: "Simulation", request: str) -> None:
    goal = simulation.rng.choice(_goals(simulation))
    actions = simulation.context.store.actions.for_goal(goal.id)
    match request.split():
        case ["retry", "goal"]:
            _retry(simulation, goal)
        case ["retry", "action"]:
            _retry(simulation, simulation.rng.choice(actions))
        case [kind, "goal"]:
            _request(simulation, kind, goal)
        case [kind, "action"]:
            _request(simulation, kind, goal, simulation.rng.choice(actions))
        case [kind, _]:
            with simulation.context.store.transaction():
                simulation.context.store.runs.ask(simulation.run_id, kind)


def _request(simulation: "Simulation", kind: ControlRequestKind, goal: Goal, action: Action | None = None) -> None:
    control_request = ControlRequest(
        id=ControlRequestId(new_id()),
        run_id=simulation.run_id,
        kind=kind,
        goal_id=goal.id,
        action_id=None if action is None else action.id,
        created_at=simulation.clock.now(),
    )
    with simulation.context.store.transaction():
        simulation.context.store.control_requests.add(control_request)


def _retry(simulation: "Simulation", what: Goal | Action) -> None:
    """Retry a failure; a retry of anything else is refused, as for real users."""
    store, run = simulation.context.store, simulation.checker.run
    try:
        if isinstance(what, Goal):
            retry_goal(store, run, what)
        else:
            retry_action(store, run, what)
    except UsageError:
        return


def _goals(simulation: "Simulation") -> tuple[Goal, ...]:
    return simulation.context.store.goals.for_run(simulation.run_id)
