"""Apply the user's control requests about a goal or an action, which are queued in the store."""

from typing import assert_never

from scaffold.core.ids import ActionId, AttemptId
from scaffold.core.model import Action, Attempt, ControlRequest, Goal, Run
from scaffold.core.states import (
    PAUSED_BY_USER,
    WORKER_PHASES,
    Active,
    Cancelled,
    Completed,
    Failed,
    Paused,
    Pending,
    Skipped,
)
from scaffold.orchestrator.owner.processes.engine import STOP_GRACE_S, Engine
from scaffold.run.attempts.lease import owner_transaction
from scaffold.run.context import RunContext
from scaffold.run.failures.attempt_end import block_unreachable_actions
from scaffold.run.failures.worker_losses import forget_deaths
from scaffold.store.database import Store

STOPPED_BY_USER = "stopped by the user"
CANCELLED_BY_USER = "cancelled by the user"


async def apply_control_requests(context: RunContext, run: Run, engine: Engine | None) -> None:
    """Apply the open requests about the run's goals and actions; only the run's owner may call this.

    A change that is moving the branch still lands, and a request to cancel it stays open for a later call. `engine` is
    None if no attempt has a process. Safe to repeat, and to kill at any point.
    """
    store = context.store
    for request in store.control_requests.open_of_run(run.id):
        with owner_transaction(store, run, durable=True):
            # Attempts end in the store first, so that the exit handler pins their work. The request stays open until
            # the processes are stopped: if this process dies in between, the next owner applies it again.
            ended = _apply_request(store, run, request)
        if engine is not None:
            for attempt in ended:
                await engine.stop_attempt(attempt, grace_s=STOP_GRACE_S)
        with owner_transaction(store, run, durable=True):
            # A commit that may be on the branch cannot be cancelled; `RunOwner._end_run` cancels it if it did not land.
            if not (_is_cancellation(request) and _actions_landing(store, request)):
                store.control_requests.settle(request.id)


def _is_cancellation(request: ControlRequest) -> bool:
    # Every request about an action ends it for good.
    return request.kind == "cancel" or request.action_id is not None


def _apply_request(store: Store, run: Run, request: ControlRequest) -> tuple[AttemptId, ...]:
    # Returns the attempts whose processes must be stopped.
    goal = store.goals.get(request.goal_id)
    if goal is None:
        raise LookupError(request.goal_id)
    if _is_cancellation(request):
        return _cancel_target(store, goal, request)
    if isinstance(goal.state, Completed | Failed | Cancelled):
        return ()
    match request.kind:
        case "pause":
            _pause_goal(store, goal)
            return ()
        case "stop":
            _pause_goal(store, goal)
            # Submitted candidates may still land.
            ended = [attempt for attempt in _open_attempts(store, request) if attempt.phase in WORKER_PHASES]
            for attempt in ended:
                # Not by `end_attempt`: that would count as a failure and block other actions.
                store.attempts.end(attempt.id, outcome="cancelled", error=STOPPED_BY_USER)
                store.actions.move(attempt.action_id, Pending())
            return tuple(attempt.id for attempt in ended)
        case "resume":
            _resume_goal(store, run, goal)
            return ()
        case "cancel":
            return _cancel_target(store, goal, request)
        case _:
            assert_never(request.kind)


def _pause_goal(store: Store, goal: Goal) -> None:
    if goal.state == Paused(PAUSED_BY_USER):
        return
    if isinstance(goal.state, Paused):
        store.goals.move(goal.id, Active())
    store.goals.move(goal.id, Paused(PAUSED_BY_USER))


def _resume_goal(store: Store, run: Run, goal: Goal) -> None:
    # A goal may also wait because workers died.
    forget_deaths(store, run, goal.id)
    if goal.state != Paused(PAUSED_BY_USER):
        return
    store.goals.move(goal.id, Active())
    now = store.runs.get(run.id)
    # An active goal in a paused run would look as if work went on; resuming the run resumes it, too.
    if now is not None and isinstance(now.state, Paused):
        store.goals.move(goal.id, now.state)


def _cancel_target(store: Store, goal: Goal, request: ControlRequest) -> tuple[AttemptId, ...]:
    landing = _actions_landing(store, request)
    ended = [attempt for attempt in _open_attempts(store, request) if attempt.action_id not in landing]
    for attempt in ended:
        store.attempts.end(attempt.id, outcome="cancelled", error=CANCELLED_BY_USER, head_sha=attempt.head_sha)
    for action in _affected_actions(store, request):
        if action.id not in landing and not isinstance(action.state, Completed | Skipped | Cancelled):
            store.actions.move(action.id, Cancelled())
            store.attempts.begin_anew(action.id)
    if request.action_id is None and not isinstance(goal.state, Completed | Cancelled):
        store.goals.move(goal.id, Cancelled())
    block_unreachable_actions(store, goal.id)
    store.inbox.withdraw_unneeded(request.run_id)
    return tuple(attempt.id for attempt in ended if attempt.phase in WORKER_PHASES)


def _actions_landing(store: Store, request: ControlRequest) -> frozenset[ActionId]:
    # An intent is open from just before the ref update until the landing is recorded.
    moving = {intent.attempt_id for intent in store.intents.open_of_run(request.run_id)}
    return frozenset(attempt.action_id for attempt in _open_attempts(store, request) if attempt.id in moving)


def _open_attempts(store: Store, request: ControlRequest) -> tuple[Attempt, ...]:
    affected = {action.id for action in _affected_actions(store, request)}
    return tuple(attempt for attempt in store.attempts.open_of_run(request.run_id) if attempt.action_id in affected)


def _affected_actions(store: Store, request: ControlRequest) -> tuple[Action, ...]:
    # All actions of the goal, or one action with its descendants.
    if request.action_id is None:
        return store.actions.for_goal(request.goal_id)
    action = store.actions.get(request.action_id)
    found = [] if action is None else [action]
    for each in found:
        found += store.actions.children(each.id)
    return tuple(found)
