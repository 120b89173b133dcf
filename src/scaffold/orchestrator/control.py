"""What a human may ask of a run from outside: stop, pause, cancel, retry."""

import asyncio

from scaffold.core.errors import RunBusy, UsageProblem
from scaffold.core.ids import ActionId, GoalId, RunId
from scaffold.core.model import Action, Goal, Run, Wish
from scaffold.core.states import (
    ActionState,
    Active,
    Blocked,
    Cancelled,
    Completed,
    Failed,
    GoalState,
    Outcome,
    Paused,
    Pending,
    Planning,
    RunState,
    status_of,
    waits_for,
)
from scaffold.git import worktree
from scaffold.host.identity import alive
from scaffold.orchestrator.ending import finish, finish_cancelled
from scaffold.orchestrator.recovery import recover
from scaffold.orchestrator.takeover import take_over
from scaffold.orchestrator.wishes import heed
from scaffold.store.database import Store
from scaffold.store.runs import RunWish
from scaffold.worker.ending import block_stranded
from scaffold.worker.lease import owned
from scaffold.worker.services import forget_services
from scaffold.worker.site import Site

POLL_S = 0.1
RETRIED = "retried"


async def put_down(site: Site, run: Run, wish: RunWish, *, patience_s: float) -> RunState:
    """Have a run stopped, paused or cancelled and return its state then.

    A living owner is asked and waited for, at most `patience_s` seconds; a run without one, or whose owner died over
    it, is settled here. Raises UsageProblem if the run has ended already, RunBusy if its owner does not answer in time.
    """
    if _ended(run.state, wish):
        raise UsageProblem(f"run {run.id} is {status_of(run.state)} already", "See it with `scaffold status`.")
    if run.owner is not None and alive(run.owner):
        state = await _ask(site, run, wish, patience_s)
        if _ended(state, wish) or (isinstance(state, Paused) and wish != "cancel"):
            return state
    mine = take_over(site, run.id)
    outcome: Outcome = "cancelled" if wish == "cancel" else "lost"
    await recover(site, mine, outcome=outcome, error=f"the run was put down: {wish}")
    await forget_services(site, mine)
    await worktree.remove(site.repository, site.landing_folder(mine.id))
    if wish == "cancel":
        return finish_cancelled(site.store, mine)
    if isinstance(mine.state, Planning | Active):
        return finish(site.store, mine, "stopped" if wish == "stop" else "paused")
    with owned(site.store, mine):
        site.store.runs.release(mine.id, fence=mine.fence)
    return mine.state


def _ended(state: RunState, wish: RunWish) -> bool:
    """Tell whether a run is past being put down; a failed one can still be cancelled."""
    return isinstance(state, Completed | Cancelled) or (isinstance(state, Failed) and wish != "cancel")


async def _ask(site: Site, run: Run, wish: RunWish, patience_s: float) -> RunState:
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


async def grant(site: Site, run: Run, wish: Wish, *, patience_s: float) -> None:
    """Have a wish about a goal or an action done: by the run's living owner, or here where there is none.

    RunBusy if the owner has not done it after `patience_s` seconds; it will, or whoever owns the run next.
    """
    with site.store.transaction(durable=True):
        site.store.wishes.add(wish)
    try:
        async with asyncio.timeout(patience_s):
            while _owner_is_at_it(site.store, wish):
                await site.clock.sleep(POLL_S)
    except TimeoutError:
        raise RunBusy(
            f"run {run.id} has been asked for it, but has not come to it yet",
            "It does it as soon as it can; `scaffold status` shows it.",
        ) from None
    if _is_open(site.store, wish):
        mine = take_over(site, run.id)
        await recover(site, mine)
        await heed(site, mine, None)
        with owned(site.store, mine):
            site.store.runs.release(mine.id, fence=mine.fence)


def _owner_is_at_it(store: Store, wish: Wish) -> bool:
    run = store.runs.get(wish.run_id)
    return run is not None and run.owner is not None and alive(run.owner) and _is_open(store, wish)


def _is_open(store: Store, wish: Wish) -> bool:
    return any(each.id == wish.id for each in store.wishes.open_of_run(wish.run_id))


def retry_action(store: Store, run: Run, action: Action) -> None:
    """Give a failed action a fresh set of attempts, and what it blocked another chance."""
    if (item := waits_for(action.state)) is not None:
        fix = f"Decide: `scaffold inbox` shows it; once it has expired, `scaffold resume {run.id}` has it asked anew."
        raise UsageProblem(f"`{action.key}` waits for you, for {item} in the inbox", fix)
    if isinstance(action.state, Blocked):
        root = store.actions.get(ActionId(action.state.reason.rpartition(":")[2]))
        failed = f"`{root.key}`" if root else "the action that failed"
        raise UsageProblem(f"`{action.key}` is blocked: what it needs has failed", f"Retry {failed} instead.")
    _require_failed(action.state, f"`{action.key}`")
    with store.transaction(durable=True):
        _reopen(store, action.id)
        _reopen_goal(store, run.id, action.goal_id)


def retry_goal(store: Store, run: Run, goal: Goal) -> None:
    """Give every failed action of a failed goal another chance."""
    _require_failed(goal.state, f"the goal `{goal.name}`")
    with store.transaction(durable=True):
        _retry_goal(store, run.id, goal)


def retry_run(store: Store, run: Run) -> None:
    """Give a failed run and its failed goals another chance; the run is paused then, `resume` goes on."""
    _require_failed(run.state, f"run {run.id}")
    with store.transaction(durable=True):
        for goal in store.goals.of_run(run.id):
            if isinstance(goal.state, Failed):
                _retry_goal(store, run.id, goal)
        now = store.runs.get(run.id)
        if now is not None and isinstance(now.state, Failed):  # nobody laid it out, or the whole did not pass its gates
            store.runs.move(run.id, Paused(RETRIED))


def _require_failed(state: ActionState | GoalState, name: str) -> None:
    if not isinstance(state, Failed):
        fix = "Only what failed can be retried; `scaffold resume` goes on with what was interrupted or paused."
        raise UsageProblem(f"{name} is {status_of(state)}, not failed", fix)


def _retry_goal(store: Store, run_id: RunId, goal: Goal) -> None:
    for action in store.actions.of_goal(goal.id):
        _reopen(store, action.id)
    _reopen_goal(store, run_id, goal.id)


def _reopen(store: Store, action_id: ActionId) -> None:
    """Put a failed action back to pending, with the failed compound above it and the failed actions in it."""
    action = store.actions.get(action_id)
    if action is None or not isinstance(action.state, Failed):
        return
    store.actions.forgive(action_id)
    store.actions.move(action_id, Pending())
    for child in store.actions.children(action_id):
        _reopen(store, child.id)
    if action.parent_id is not None:
        _reopen(store, action.parent_id)


def _reopen_goal(store: Store, run_id: RunId, goal_id: GoalId) -> None:
    """Let a goal and its run go on, its agent with all its turns again, and unblock what can.

    Raises UsageProblem if one of them has ended for good.
    """
    goal, run = store.goals.get(goal_id), store.runs.get(run_id)
    if goal is None or run is None:
        raise LookupError(goal_id)
    for state, name in ((run.state, f"run {run_id}"), (goal.state, f"the goal `{goal.name}`")):
        if isinstance(state, Completed | Cancelled):
            raise UsageProblem(f"{name} is {status_of(state)}: nothing can be retried in it", "Start a new run.")
    store.turns.forgive(goal_id)
    store.actions.unblock(goal_id)
    block_stranded(store, goal_id)
    if isinstance(goal.state, Failed):
        store.goals.move(goal_id, Paused(RETRIED))
    if isinstance(run.state, Failed):
        store.runs.move(run_id, Paused(RETRIED))
