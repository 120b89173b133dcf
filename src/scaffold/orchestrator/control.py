"""What a human may ask of a run from outside: stop, pause, cancel, retry."""

import asyncio

from scaffold.core.errors import RunBusy, UsageProblem
from scaffold.core.model import Action, Goal, Run
from scaffold.core.states import (
    Active,
    Blocked,
    Cancelled,
    Completed,
    Failed,
    Paused,
    Pending,
    Planning,
    RunState,
    status_of,
)
from scaffold.host.identity import alive
from scaffold.orchestrator.conduct import take_over
from scaffold.orchestrator.ending import finish_cancelled, finish_paused
from scaffold.orchestrator.recovery import recover
from scaffold.store.database import Store
from scaffold.store.runs import Wish
from scaffold.worker.ending import block_stranded
from scaffold.worker.site import Site

POLL_S = 0.1


async def put_down(site: Site, run: Run, wish: Wish, *, patience_s: float) -> RunState:
    """Have a run stopped, paused or cancelled and return its state then.

    A living owner is asked and waited for, at most `patience_s` seconds; a run without one is settled here.
    Raises UsageProblem if the run has ended already, RunBusy if its owner does not answer in time.
    """
    if isinstance(run.state, Completed | Cancelled) or (isinstance(run.state, Failed) and wish != "cancel"):
        raise UsageProblem(f"run {run.id} is {status_of(run.state)} already", "See it with `scaffold status`.")
    if run.owner is not None and alive(run.owner):
        return await _ask(site, run, wish, patience_s)
    mine = take_over(site, run.id)
    stop = wish == "cancel"
    await recover(site, mine, outcome="cancelled" if stop else "lost", error=f"the run was put down: {wish}")
    if stop:
        return finish_cancelled(site.store, mine)
    if isinstance(mine.state, Planning | Active):
        return finish_paused(site.store, mine, "stopped" if wish == "stop" else "paused")
    with site.store.transaction():
        site.store.runs.release(mine.id, fence=mine.fence)
    return mine.state


async def _ask(site: Site, run: Run, wish: Wish, patience_s: float) -> RunState:
    with site.store.transaction(durable=True):
        site.store.runs.ask(run.id, wish)
    try:
        async with asyncio.timeout(patience_s):
            while True:
                now = site.store.runs.get(run.id)
                if now is not None and (now.owner is None or not alive(now.owner)):
                    return now.state
                await site.clock.sleep(POLL_S)
    except TimeoutError:
        raise RunBusy(
            f"run {run.id} has been asked to {wish}, but work still runs",
            "It ends as soon as what runs has finished; `scaffold status` shows it.",
        ) from None


def retry_action(store: Store, run: Run, action: Action) -> None:
    """Give a failed action a fresh set of attempts, and what it blocked another chance."""
    if isinstance(action.state, Blocked):
        raise UsageProblem(f"`{action.key}` is blocked: {action.state.reason}", "Retry the action that failed instead.")
    if not isinstance(action.state, Failed):
        raise UsageProblem(
            f"`{action.key}` is {status_of(action.state)}, not failed", "Only what failed can be retried."
        )
    with store.transaction(durable=True):
        _reopen(store, action)
        goal = store.goals.get(action.goal_id)
        if goal is not None:
            _reopen_goal(store, run, goal)


def retry_goal(store: Store, run: Run, goal: Goal) -> None:
    """Give every failed action of a failed goal another chance."""
    if not isinstance(goal.state, Failed):
        raise UsageProblem(
            f"the goal `{goal.name}` is {status_of(goal.state)}, not failed", "Only what failed can be retried."
        )
    with store.transaction(durable=True):
        for action in store.actions.of_goal(goal.id):
            if isinstance(action.state, Failed):
                _reopen(store, action)
        _reopen_goal(store, run, goal)


def retry_run(store: Store, run: Run) -> None:
    """Give every failed goal of a failed run another chance; the run is paused then, `resume` goes on."""
    if not isinstance(run.state, Failed):
        raise UsageProblem(f"run {run.id} is {status_of(run.state)}, not failed", "Only what failed can be retried.")
    for goal in store.goals.of_run(run.id):
        if isinstance(goal.state, Failed):
            retry_goal(store, run, goal)


def _reopen(store: Store, action: Action) -> None:
    store.actions.forgive(action.id)
    store.actions.move(action.id, Pending())


def _reopen_goal(store: Store, run: Run, goal: Goal) -> None:
    """Unblock what can go on again; the caller owns the transaction."""
    store.actions.unblock(goal.id)
    for action in store.actions.of_goal(goal.id):
        if isinstance(action.state, Failed):
            block_stranded(store, action.id)
            break
    if isinstance(goal.state, Failed):
        store.goals.move(goal.id, Paused("retried"))
    now = store.runs.get(run.id)
    if now is not None and isinstance(now.state, Failed):
        store.runs.move(run.id, Paused("retried"))
