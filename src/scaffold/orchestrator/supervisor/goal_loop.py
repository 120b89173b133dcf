"""The supervisor of one goal: read the state, decide, execute, wait to be woken."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Protocol, assert_never

from scaffold.core.errors import BudgetExceeded, ModelAccessDenied, ModelUnavailable
from scaffold.core.ids import ActionId, Assertion, GoalId
from scaffold.core.model import Attempt, Run
from scaffold.core.states import Active, Completed, Failed, Paused, Pending, Running, Skipped
from scaffold.orchestrator.dispatch import queue_attempt
from scaffold.orchestrator.planning.agent_supervision import give_up_reason, is_cut_off, next_wake_reason
from scaffold.orchestrator.planning.proposals import Dispatcher
from scaffold.orchestrator.planning.turn import (
    ModelFailed,
    PlanningResult,
    PlanRejected,
    PlanWritten,
    TurnOverBudget,
    TurnUnavailable,
)
from scaffold.orchestrator.supervisor.goal_view import read_goal_view
from scaffold.orchestrator.supervisor.wakeup import Wakeup
from scaffold.plan.decide import (
    AskHuman,
    CompleteCompound,
    CompleteGoal,
    Decompose,
    Dispatch,
    FailCompound,
    FailGoal,
    GoalCommand,
    Replan,
    StartCompound,
    decide,
)
from scaffold.plan.message_text import quoted_list
from scaffold.run.attempts.lease import owner_transaction
from scaffold.run.context import RunContext
from scaffold.run.failures.attempt_end import block_unreachable_actions
from scaffold.run.failures.escalation_question import ask_about_failure, given_up_actions

GOAL_COMPLETE = "goal_complete"
STORED_COMMANDS = StartCompound | CompleteCompound | AskHuman | FailCompound | CompleteGoal | FailGoal
"""The commands that only change the store; the others need a process or an agent."""
MAX_DECOMPOSE_TURNS = 3
"""How many decomposition turns without progress a compound gets before it fails."""
RETRY_DELAYS_S = (0.0, 2.0, 10.0)
"""Seconds before the next turn after a retryable failure of the model, by number of tries."""


class PlanningAgent(Protocol):
    """Decomposes and replans; each call is one turn of an agent, written to the store before it returns."""

    async def decompose(self, goal_id: GoalId, compound: ActionId) -> PlanningResult:
        """Create children for a ready compound."""
        ...

    async def replan(
        self, goal_id: GoalId, compound: ActionId | None, unmet: tuple[Assertion, ...], why: str
    ) -> PlanningResult:
        """Create other actions towards `unmet`: children of `compound`, or top-level actions of the goal if None."""
        ...

    async def judge(self, goal_id: GoalId, why: str, dispatch: Dispatcher) -> PlanningResult:
        """Let the agent take every possible step; its tools check each one."""
        ...


class Supervisor:
    """Supervises one goal. All its state is in the store, so it may be killed at any time."""

    def __init__(
        self,
        context: RunContext,
        run: Run,
        goal_id: GoalId,
        wakeup: Wakeup,
        *,
        planner: PlanningAgent,
        tell: Callable[[], None],
    ) -> None:
        """`planner` plans; `tell` wakes the run's owner after attempts were queued or the goal ended."""
        self._context = context
        self._run = run
        self._goal_id = goal_id
        self._wakeup = wakeup
        self._agent = planner
        self._notify_owner = tell
        self._agent_dispatches = run.settings.planning.planner and run.settings.planning.supervision == "agent"
        self._turn: asyncio.Task[None] | None = None
        self._held_back: tuple[ActionId, ...] = ()

    async def run(self) -> None:
        """Supervise the goal until it is no longer active and, if it was paused, its open turn has ended.

        Raises BudgetExceeded if the budget of its agent is spent, ModelUnavailable if its model accepts no requests,
        StaleFence if another process owns the run.
        """
        try:
            while True:
                # Taken before the state is read, so that a change in between ends the wait at once.
                event = self._wakeup.next_event()
                if self._turn is not None and self._turn.done():
                    turn, self._turn = self._turn, None
                    turn.result()
                commands = self._decide_and_store()
                if commands is None:
                    goal = self._context.store.goals.get(self._goal_id)
                    if self._turn is None or goal is None or not isinstance(goal.state, Paused):
                        return
                    await event.wait()
                    continue
                # Stored, so that it is counted how often others overtake them; an agent that takes every step may never
                # start them.
                store = self._context.store
                new = [each for each in self._held_back if not store.scheduling.is_held_back(each)]
                if new and not self._agent_dispatches:
                    with owner_transaction(store, self._run):
                        known = [each for each in new if store.actions.get(each) is not None]
                        store.scheduling.hold_back(self._run.id, known)
                for command in commands:
                    await self._execute_command(command)
                if commands:
                    self._notify_owner()
                elif not self._start_judging():
                    await event.wait()
        finally:
            if self._turn is not None:
                self._turn.cancel()
                await asyncio.wait([self._turn])

    def _decide_and_store(self) -> tuple[GoalCommand, ...] | None:
        """Return the next commands after applying those that only change the store; None if the goal is not active."""
        store = self._context.store
        # On a snapshot: most decisions change nothing, and must not hold up writers.
        with store.snapshot():
            store.runs.check(self._run.id, fence=self._run.fence)
            commands = self._read_and_decide()
        if commands is None or not any(isinstance(command, STORED_COMMANDS) for command in commands):
            return commands
        with owner_transaction(store, self._run, durable=True):
            # Decided again, because others may have written since the snapshot.
            commands = self._read_and_decide()
            for command in commands or ():
                self._apply_command(command)
        return commands

    def _read_and_decide(self) -> tuple[GoalCommand, ...] | None:
        # The caller reads one state of the store: otherwise an action could be seen neither running nor pending.
        store = self._context.store
        goal = store.goals.get(self._goal_id)
        if goal is None or not isinstance(goal.state, Active):
            return None
        planner_busy = self._agent_dispatches or self._turn is not None
        view = read_goal_view(store, self._run, goal, thinking=planner_busy)
        self._held_back = view.held_back
        commands = decide(view)
        if self._agent_dispatches:  # the agent decides what to run next, but not what is completed, or goes on
            read = store.actions.get
            commands = tuple(
                each for each in commands if not isinstance(each, Dispatch) or is_cut_off(store, read(each.action))
            )
        return commands

    def _apply_command(self, command: GoalCommand) -> None:
        store = self._context.store
        match command:
            case Dispatch() | Decompose() | Replan():
                pass  # executed after the transaction
            case StartCompound(compound=compound):
                store.actions.move(compound, Running())
            case CompleteCompound(compound=compound):
                store.actions.move(compound, Completed())
            case AskHuman(action=action):
                ask_about_failure(store, self._run, action)
            case FailCompound(compound=compound, reason=reason):
                store.actions.move(compound, Failed(reason))
                block_unreachable_actions(store, self._goal_id)
            case CompleteGoal():
                store.actions.skip_pending(self._goal_id, GOAL_COMPLETE)
                for each in store.actions.open_compounds(self._goal_id):
                    store.actions.move(each.action.id, Skipped(GOAL_COMPLETE) if each.unmet_effects else Completed())
                store.inbox.withdraw_unneeded(self._run.id)
                store.goals.move(self._goal_id, Completed())
            case FailGoal(reason=reason):
                store.goals.move(self._goal_id, Failed(self._explain_failure(reason)))
            case _:
                assert_never(command)

    def _explain_failure(self, reason: str) -> str:
        """Return `reason` with the actions that a human gave up, or else with the error of the goal's last turn."""
        if given_up := given_up_actions(self._context.store, self._goal_id):
            return f"{reason}, as a human gave up {quoted_list(given_up)}"
        turns = [turn for turn in self._context.store.turns.for_run(self._run.id) if turn.goal_id == self._goal_id]
        # The decision only knows that nothing is left to do; the last turn says why planning did not help.
        if turns and turns[-1].outcome in {"refused", "failed"}:
            return f"{reason}; the last {turns[-1].event} {turns[-1].outcome}: {turns[-1].error}"
        return reason

    async def _execute_command(self, command: GoalCommand) -> None:
        match command:
            case Dispatch(action=action):
                await self._dispatch_action(self._goal_id, action)
            case Decompose(compound=compound, gap=()):
                self._start_turn(partial(self._run_decompose_turn, compound))
            case Decompose(compound=compound, gap=gap):
                self._start_turn(
                    partial(self._run_replan_turn, compound, gap, "its children have ended, but this does not hold yet")
                )
            case Replan(compound=compound, unmet=unmet, why=why):
                self._start_turn(partial(self._run_replan_turn, compound, unmet, why))
            case _:
                pass

    async def _dispatch_action(self, goal_id: GoalId, action_id: ActionId) -> Attempt | None:
        attempt = await queue_attempt(self._context, self._run, goal_id, action_id)
        self._notify_owner()
        return attempt

    def _start_judging(self) -> bool:
        """Start a judging turn if something new has happened; return True if the goal ended instead.

        Does nothing unless an agent takes every step. The goal fails if that agent has used up its turns.
        """
        if not self._agent_dispatches or self._turn is not None:
            return False
        store = self._context.store
        goal = store.goals.get(self._goal_id)
        if goal is None:
            return True
        if (reason := give_up_reason(store, self._run, goal)) is not None:
            with owner_transaction(store, self._run, durable=True):
                for action in store.actions.unhandled_failures(goal.id):
                    ask_about_failure(store, self._run, action.id)
            if store.actions.waiting(goal.id):
                return False
            self._fail_goal(reason)
            return True
        if (why := next_wake_reason(store, self._run, goal)) is not None:
            self._start_turn(partial(self._run_judge_turn, why))
        return False

    def _start_turn(self, turn: Callable[[], Coroutine[Any, Any, None]]) -> None:
        # The next decision asks again for a turn that is skipped here.
        if self._turn is None:
            self._turn = asyncio.create_task(turn())
            self._turn.add_done_callback(lambda _: self._wakeup.notify_all())

    async def _run_decompose_turn(self, compound: ActionId) -> None:
        result = await self._agent.decompose(self._goal_id, compound)
        if isinstance(result, PlanRejected | ModelFailed):
            tries = self._context.store.turns.count_without_progress(self._goal_id, "decompose", compound)
            # The count is in the store, so that a supervisor that dies each time does not try for ever.
            if tries >= MAX_DECOMPOSE_TURNS:
                why = result.why if isinstance(result, PlanRejected) else result.error
                self._give_up(compound, f"could not be decomposed: {why}")
            else:
                # The wait is part of the turn's task, so the supervisor dispatches meanwhile.
                await self._wait_before_retry(result, tries)
        self._handle_result(result)

    async def _run_replan_turn(self, compound: ActionId | None, unmet: tuple[Assertion, ...], why: str) -> None:
        result = await self._agent.replan(self._goal_id, compound, unmet, why)
        if isinstance(result, PlanRejected | ModelFailed):
            await self._wait_before_retry(
                result, self._context.store.turns.count_without_progress_of_goal(self._goal_id, "replan")
            )
        self._handle_result(result)

    async def _run_judge_turn(self, why: str) -> None:
        result = await self._agent.judge(self._goal_id, why, self._dispatch_action)
        if isinstance(result, ModelFailed):
            await self._wait_before_retry(result, 1)
        self._handle_result(result)

    async def _wait_before_retry(self, result: PlanRejected | ModelFailed, tries: int) -> None:
        # After a rejected plan, waiting would not help.
        if isinstance(result, ModelFailed) and result.retryable:
            await self._context.clock.sleep(RETRY_DELAYS_S[min(tries, len(RETRY_DELAYS_S) - 1)])

    def _handle_result(self, result: PlanningResult) -> None:
        match result:
            case TurnOverBudget(error=error, fix=fix):
                raise BudgetExceeded(error, fix)
            case TurnUnavailable(error=error, is_denied=is_denied):
                raise (ModelAccessDenied if is_denied else ModelUnavailable)(
                    error, "Continue with `scaffold resume` once it answers."
                )
            case ModelFailed(error=error, retryable=False):
                self._fail_goal(f"the supervisor's model cannot be used: {error}")
            case PlanWritten() | PlanRejected() | ModelFailed():
                pass
            case _:
                assert_never(result)

    def _give_up(self, compound: ActionId, reason: str) -> None:
        store = self._context.store
        with owner_transaction(store, self._run, durable=True):
            action = store.actions.get(compound)
            if action is not None and isinstance(action.state, Pending | Running):
                store.actions.move(compound, Failed(reason))
                block_unreachable_actions(store, self._goal_id)

    def _fail_goal(self, reason: str) -> None:
        store = self._context.store
        with owner_transaction(store, self._run, durable=True):
            goal = store.goals.get(self._goal_id)
            # A user may have paused or cancelled the goal while the turn ran.
            if goal is not None and isinstance(goal.state, Active):
                store.goals.move(self._goal_id, Failed(reason))
