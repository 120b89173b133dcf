"""What a human wishes of one goal or one action: left in the store, done by whoever owns the run."""

from typing import assert_never

from scaffold.core.ids import ActionId, AttemptId
from scaffold.core.model import Action, Attempt, Goal, Run, Wish
from scaffold.core.states import WORKER_PHASES, Active, Cancelled, Completed, Failed, Paused, Pending, Skipped
from scaffold.orchestrator.engine import STOP_GRACE_S, Engine
from scaffold.store.database import Store
from scaffold.worker.ending import block_stranded
from scaffold.worker.lease import owned
from scaffold.worker.site import Site

SET_ASIDE = "set aside by the user"
"""Why a goal is paused that a human paused by itself: its run going on does not wake it."""
STOPPED = "stopped by the user"
CANCELLED = "cancelled by the user"


async def heed(site: Site, run: Run, engine: Engine | None) -> None:
    """Do what humans wished of the run's goals and actions since the last call; to be called by the run's owner.

    An attempt ends in the store first and its process afterwards, so that whoever reaps that finds it ended, and pins
    its work. What is moving the branch just now lands: a wish to cancel it stays open for a later call. None for
    `engine` where no attempt has a process. Safe to repeat, and to be killed in the middle.
    """
    store = site.store
    for wish in store.wishes.open_of_run(run.id):
        with owned(store, run, durable=True):
            ended = _do(store, run, wish)
        if engine is not None:
            for attempt in ended:
                await engine.stop_attempt(attempt, grace_s=STOP_GRACE_S)
        with owned(store, run, durable=True):
            if not (_cancels(wish) and _landing(store, wish)):
                store.wishes.settle(wish.id)


def _cancels(wish: Wish) -> bool:
    """Tell whether a wish ends something for good: an action cannot be set aside."""
    return wish.kind == "cancel" or wish.action_id is not None


def _do(store: Store, run: Run, wish: Wish) -> tuple[AttemptId, ...]:
    """Write down what a wish changes and return the attempts whose processes have to end; what has ended stays so."""
    goal = store.goals.get(wish.goal_id)
    if goal is None:
        raise LookupError(wish.goal_id)
    if _cancels(wish):
        return _cancel(store, goal, wish)
    if isinstance(goal.state, Completed | Failed | Cancelled):
        return ()
    match wish.kind:
        case "pause":
            _set_aside(store, goal)
            return ()
        case "stop":
            _set_aside(store, goal)
            return _put_back(store, wish)
        case "resume":
            _wake(store, run, goal)
            return ()
        case "cancel":
            return _cancel(store, goal, wish)
        case _:
            assert_never(wish.kind)


def _set_aside(store: Store, goal: Goal) -> None:
    if goal.state == Paused(SET_ASIDE):
        return
    if isinstance(goal.state, Paused):
        store.goals.move(goal.id, Active())
    store.goals.move(goal.id, Paused(SET_ASIDE))


def _wake(store: Store, run: Run, goal: Goal) -> None:
    """Let a goal that was set aside go on with its run: at once, or when that does."""
    if goal.state != Paused(SET_ASIDE):
        return
    store.goals.move(goal.id, Active())
    now = store.runs.get(run.id)
    if now is not None and isinstance(now.state, Paused):
        store.goals.move(goal.id, now.state)


def _put_back(store: Store, wish: Wish) -> tuple[AttemptId, ...]:
    """End the goal's attempts that are worked on; what was handed in may land."""
    ended = [attempt for attempt in _open_attempts(store, wish) if attempt.phase in WORKER_PHASES]
    for attempt in ended:
        store.attempts.end(attempt.id, outcome="cancelled", error=STOPPED)
        store.actions.move(attempt.action_id, Pending())
    return tuple(attempt.id for attempt in ended)


def _cancel(store: Store, goal: Goal, wish: Wish) -> tuple[AttemptId, ...]:
    """End for good what is open of the goal or the action, but for what is landing."""
    landing = _landing(store, wish)
    ended = [attempt for attempt in _open_attempts(store, wish) if attempt.action_id not in landing]
    for attempt in ended:
        store.attempts.end(attempt.id, outcome="cancelled", error=CANCELLED, head_sha=attempt.head_sha)
    for action in _meant(store, wish):
        if action.id not in landing and not isinstance(action.state, Completed | Skipped | Cancelled):
            store.actions.move(action.id, Cancelled())
    if wish.action_id is None and not isinstance(goal.state, Completed | Cancelled):
        store.goals.move(goal.id, Cancelled())
    block_stranded(store, goal.id)
    store.inbox.withdraw_unneeded(wish.run_id)
    return tuple(attempt.id for attempt in ended if attempt.phase in WORKER_PHASES)


def _landing(store: Store, wish: Wish) -> frozenset[ActionId]:
    """Return which of the actions a wish is about are moving the branch just now."""
    moving = {intent.attempt_id for intent in store.intents.open_of_run(wish.run_id)}
    return frozenset(attempt.action_id for attempt in _open_attempts(store, wish) if attempt.id in moving)


def _open_attempts(store: Store, wish: Wish) -> tuple[Attempt, ...]:
    meant = {action.id for action in _meant(store, wish)}
    return tuple(attempt for attempt in store.attempts.open_of_run(wish.run_id) if attempt.action_id in meant)


def _meant(store: Store, wish: Wish) -> tuple[Action, ...]:
    """Return the actions that a wish is about: all of its goal, or one with all below it."""
    if wish.action_id is None:
        return store.actions.of_goal(wish.goal_id)
    action = store.actions.get(wish.action_id)
    found = [] if action is None else [action]
    for each in found:
        found += store.actions.children(each.id)
    return tuple(found)
