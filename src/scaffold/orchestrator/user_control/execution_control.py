"""Stop, pause, cancel and retry runs, goals and actions, on behalf of the user and from any process."""

import asyncio
from contextlib import suppress

from scaffold.core.errors import RunBusy, UsageError
from scaffold.core.ids import ActionId, ControlRequestId, RunId
from scaffold.core.model import Action, ControlRequest, ControlRequestKind, Goal, HaltRequest, Run
from scaffold.core.states import (
    OTHERS_FIRST,
    ActionState,
    Active,
    AttemptOutcome,
    Blocked,
    Cancelled,
    Completed,
    Failed,
    GoalState,
    Paused,
    Pending,
    Planning,
    RunState,
    Skipped,
    awaited_inbox_id,
    status_of,
)
from scaffold.host.process_identity import is_alive
from scaffold.host.random_ids import new_id
from scaffold.orchestrator.owner.goal_control import apply_control_requests
from scaffold.orchestrator.owner.recovery.interrupted_run import recover_run
from scaffold.orchestrator.owner.recovery.reopening import reopen_failed, reopen_goal, retry_failed_goal
from scaffold.orchestrator.owner.restart import clear_run
from scaffold.orchestrator.owner.run_end import RETRIED, cancel_run, finish_run
from scaffold.orchestrator.owner.run_files import write_run_files
from scaffold.orchestrator.owner.run_lease import release_run, require_run, take_over_run
from scaffold.run.context import RunContext
from scaffold.run.failures.escalation_question import is_about_failure, retry_asked
from scaffold.run.failures.worker_losses import forget_deaths, is_about_deaths
from scaffold.store.database import Store

POLL_S = 0.1
REQUEST_TIMEOUT_S = 30.0
"""How long a live owner may take to apply a control request about a goal or an action."""


async def halt_run(context: RunContext, run: Run, request: HaltRequest, *, timeout_s: float) -> RunState | None:
    """Stop, pause or cancel a run and return its new state; None if its owner has not done so within `timeout_s`.

    A live owner is asked; a run without one is taken over and ended here. Raises UsageError if the run has ended.
    """
    if _is_settled(run.state, request):
        raise UsageError(f"run {run.id} is already {status_of(run.state)}", "Run `scaffold status` to see it.")
    mine = await _asked_or_taken(context, run, request, timeout_s)
    if not isinstance(mine, Run):
        return mine
    # Before the release, because a worker of the dead owner may still write into its worktree.
    outcome: AttemptOutcome = "cancelled" if request == "cancel" else "lost"
    await clear_run(context, mine, outcome=outcome, error=f"the run was ended: {request}")
    state = mine.state
    if request == "cancel":
        state = cancel_run(context.store, mine)
    elif isinstance(mine.state, Planning | Active):
        state = finish_run(context.store, mine, "stopped" if request == "stop" else "paused")
    else:
        release_run(context.store, mine)
    await write_run_files(context, mine)
    return state


async def _asked_or_taken(
    context: RunContext, run: Run, request: HaltRequest, timeout_s: float
) -> RunState | Run | None:
    """Return the state that the run's owner left, None after `timeout_s`, or the run, taken over from a dead owner."""
    while True:
        # A dead owner would never answer.
        if run.owner is not None and is_alive(run.owner):
            state = await _ask_owner(context, run, request, timeout_s)
            # A run that was just pausing for another reason has not been cancelled.
            if state is None or _is_settled(state, request) or (isinstance(state, Paused) and request != "cancel"):
                return state
        try:
            return take_over_run(context, run.id)
        except RunBusy:
            now = require_run(context.store, run.id)
            if now.fence == run.fence:
                raise
            run = now  # the owner was just restarted


def _is_settled(state: RunState, request: HaltRequest) -> bool:
    # A failed run can still be cancelled.
    return isinstance(state, Completed | Cancelled) or (isinstance(state, Failed) and request != "cancel")


async def _ask_owner(context: RunContext, run: Run, request: HaltRequest, timeout_s: float) -> RunState | None:
    with context.store.transaction(durable=True):
        context.store.runs.ask(run.id, request)
    with suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            while _has_live_owner(context.store, run.id):
                await context.clock.sleep(POLL_S)
            return require_run(context.store, run.id).state
    return None


async def withdraw_pause(context: RunContext, run: Run) -> bool:
    """Withdraw the pause of a run that is still pausing; return False if it was not pausing, or has ended.

    Raises RunBusy if its owner does not answer.
    """
    store = context.store
    with store.transaction(durable=True):
        if store.runs.control_request(run.id) != "pause" or not _has_live_owner(store, run.id):
            return False
        store.runs.ask(run.id, "resume")
    try:
        async with asyncio.timeout(REQUEST_TIMEOUT_S):
            while _has_live_owner(store, run.id):
                if store.runs.control_request(run.id) != "resume":
                    return True
                await context.clock.sleep(POLL_S)
            return False
    except TimeoutError:
        raise RunBusy(
            f"run {run.id} ends for another reason, and work of it is still running",
            f"Wait until it has ended (`scaffold attach {run.id}`), then resume it.",
        ) from None


async def request_goal_control(context: RunContext, run: Run, goal: Goal, kind: ControlRequestKind) -> Goal:
    """Stop, pause, resume or cancel a goal and return its new state.

    Raises UsageError if the run or the goal has ended, or for anything but cancelling a failed goal; RunBusy as
    `submit_control_request` does.
    """
    if isinstance(goal.state, Failed) and kind != "cancel":
        fix = f"Retry it with `scaffold retry {goal.name}`, or end it with `scaffold cancel {goal.name}`."
        raise UsageError(f"the goal `{goal.name}` has failed", fix)
    await _request_control(context, run, kind, goal)
    return context.store.goals.get(goal.id) or goal


async def request_action_stop(context: RunContext, run: Run, action: Action) -> Action:
    """Cancel an action and return its new state; raises as `request_goal_control` does."""
    await _request_control(context, run, "stop", action)
    return context.store.actions.get(action.id) or action


async def _request_control(context: RunContext, run: Run, kind: ControlRequestKind, target: Goal | Action) -> None:
    if isinstance(target.state, Completed | Cancelled | Skipped):
        name = f"the goal `{target.name}`" if isinstance(target, Goal) else f"`{target.key}`"
        raise UsageError(f"{name} is already {status_of(target.state)}", "`scaffold tasks` shows it.")
    if isinstance(run.state, Completed | Cancelled):
        raise UsageError(f"run {run.id} is already {status_of(run.state)}", "`scaffold status` shows it.")
    request = ControlRequest(
        id=ControlRequestId(new_id()),
        run_id=run.id,
        kind=kind,
        goal_id=target.id if isinstance(target, Goal) else target.goal_id,
        action_id=None if isinstance(target, Goal) else target.id,
        created_at=context.clock.now(),
    )
    await submit_control_request(context, run, request, timeout_s=REQUEST_TIMEOUT_S)


async def submit_control_request(context: RunContext, run: Run, request: ControlRequest, *, timeout_s: float) -> None:
    """Apply a request about a goal or an action: through the run's live owner, or here if there is none.

    Raises RunBusy if the owner has not applied it within `timeout_s`; the request stays queued.
    """
    with context.store.transaction(durable=True):
        context.store.control_requests.add(request)
    mine = None
    try:
        async with asyncio.timeout(timeout_s):
            while any(each.id == request.id for each in context.store.control_requests.open_of_run(run.id)):
                if not _has_live_owner(context.store, run.id):
                    with suppress(RunBusy):  # a restarted owner was faster and applies the request
                        mine = take_over_run(context, run.id)
                        break
                await context.clock.sleep(POLL_S)
    except TimeoutError:
        raise RunBusy(
            f"run {run.id} has received the request but has not applied it yet",
            "It applies the request as soon as it can; `scaffold status` shows the result.",
        ) from None
    if mine is not None:
        await recover_run(context, mine)
        await apply_control_requests(context, mine, None)
        release_run(context.store, mine)
        await write_run_files(context, mine)


def _has_live_owner(store: Store, run_id: RunId) -> bool:
    run = store.runs.get(run_id)
    return run is not None and run.owner is not None and is_alive(run.owner)


def retry_action(store: Store, run: Run, action: Action) -> None:
    """Give a failed action new attempts, and unblock the actions that depend on it.

    An action that waits because workers died starts again at once. Raises UsageError if the action has not failed, is
    blocked, or waits for another human decision.
    """
    if _goes_on_after_deaths(store, run, action) or _answers_question(store, action):
        return
    if (item := awaited_inbox_id(action.state)) is not None:
        fix = f"`scaffold inbox` shows it. If the item has expired, `scaffold resume {run.id}` asks again."
        raise UsageError(f"`{action.key}` waits for your decision on {item} in the inbox", fix)
    if action.state == OTHERS_FIRST:
        fix = f"It goes on by itself; `scaffold resume {run.id} --budget-tokens MORE` gives it more at once."
        raise UsageError(f"`{action.key}` waits for the other actions: its share of the budget is used up", fix)
    if isinstance(action.state, Blocked):
        root = store.actions.get(ActionId(action.state.reason.rpartition(":")[2]))
        failed = f"`{root.key}`" if root else "the failed action"
        raise UsageError(f"`{action.key}` is blocked by a failed action", f"Retry {failed} instead.")
    _require_failed(action.state, f"`{action.key}`")
    with store.transaction(durable=True):
        reopen_failed(store, action.id)
        reopen_goal(store, run.id, action.goal_id)


def _goes_on_after_deaths(store: Store, run: Run, action: Action) -> bool:
    waits_for = awaited_inbox_id(action.state)
    item = store.inbox.get(waits_for) if waits_for else None
    if isinstance(action.state, Pending) or (item is not None and is_about_deaths(item)):
        with store.transaction(durable=True):
            return forget_deaths(store, run, action.goal_id)
    return False


def _answers_question(store: Store, action: Action) -> bool:
    # A retry answers the question about a failed action.
    waits_for = awaited_inbox_id(action.state)
    with store.transaction(durable=True):
        item = store.inbox.get(waits_for) if waits_for else None
        if item is None or not is_about_failure(item) or item.state != "open":
            return False
        retry_asked(store, item)
    return True


def retry_goal(store: Store, run: Run, goal: Goal) -> None:
    """Reopen a failed goal and its failed actions, or continue one that waits because workers died.

    Raises UsageError for any other goal.
    """
    with store.transaction(durable=True):
        if isinstance(goal.state, Active | Paused) and forget_deaths(store, run, goal.id):
            return
    _require_failed(goal.state, f"the goal `{goal.name}`")
    with store.transaction(durable=True):
        retry_failed_goal(store, run.id, goal)


def retry_run(store: Store, run: Run) -> None:
    """Reopen a failed run and its failed goals; the run is paused afterwards, and `resume` continues it."""
    _require_failed(run.state, f"run {run.id}")
    with store.transaction(durable=True):
        for goal in store.goals.for_run(run.id):
            if isinstance(goal.state, Failed):
                retry_failed_goal(store, run.id, goal)
        now = store.runs.get(run.id)
        if now is not None and isinstance(now.state, Failed):  # planning or the final gates failed
            store.runs.move(run.id, Paused(RETRIED))


def stopped_for_good(store: Store, run: Run) -> tuple[Action, ...]:
    """Return the actions that the user stopped for good, but on which unfinished ones depend."""
    found: list[Action] = []
    for goal in store.goals.for_run(run.id):
        actions = store.actions.for_goal(goal.id)
        needed = {need for each in actions if isinstance(each.state, Pending | Blocked) for need in each.preconditions}
        made = {effect for each in actions if not isinstance(each.state, Cancelled) for effect in each.effects}
        missing = needed - made
        found += [each for each in actions if isinstance(each.state, Cancelled) and missing & set(each.effects)]
    return tuple(found)


def _require_failed(state: ActionState | GoalState | RunState, name: str) -> None:
    if not isinstance(state, Failed):
        fix = "Only failed work can be retried; use `scaffold resume` for interrupted or paused work."
        raise UsageError(f"{name} is {status_of(state)}, not failed", fix)
