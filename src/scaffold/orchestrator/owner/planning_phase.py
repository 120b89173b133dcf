"""Plan a run: its baseline, the planner's turn with its progress, control requests, and the result."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Literal, assert_never

import msgspec

from scaffold.core.errors import BudgetExceeded, ModelError, PlanInvalid
from scaffold.core.ids import RunId
from scaffold.core.model import HaltRequest, Run
from scaffold.core.states import Active, Failed, Paused, Saved
from scaffold.core.tool import Tool, ToolOutput
from scaffold.llm.transport.live_context import Patience
from scaffold.orchestrator.owner.run_baseline import ensure_baseline
from scaffold.orchestrator.owner.run_end import cancel_run, finish_run, hold_run
from scaffold.orchestrator.owner.run_lease import renew_lease, require_run, take_over_run_when_free
from scaffold.orchestrator.owner.watch.model_watch import ModelWatch
from scaffold.orchestrator.planning.agent_advice import AgentAdvisor
from scaffold.orchestrator.planning.apply_plan import store_agreed_actions
from scaffold.orchestrator.planning.planner import plan_run
from scaffold.orchestrator.planning.turn import (
    ModelFailed,
    PlanningResult,
    PlanRejected,
    PlanWritten,
    TurnOverBudget,
    TurnUnavailable,
)
from scaffold.run.attempts.lease import owner_transaction
from scaffold.run.attempts.time_limit import TimeLimit
from scaffold.run.context import RunContext
from scaffold.store.spending.run_budget import budget_use, more_budget
from scaffold.views.text_format import clip
from scaffold.worker.agent.role_agents import open_source
from scaffold.worker.contract.checkout_files import write_projections

StopCause = Literal["stopped", "paused", "cancelled", "unavailable"]
STOP_BY_REQUEST: Mapping[HaltRequest, StopCause] = {"stop": "stopped", "pause": "paused", "cancel": "cancelled"}
REQUEST_POLL_S = 0.2
MAX_REASON_CHARACTERS = 240
"""Limit for the reason in the error about a rejected plan; the findings are reported separately."""
SUBJECT_ARGUMENTS = ("name", "goal", "path", "pattern", "query")
"""Arguments that name the subject of a tool call, most specific first."""
MAX_STEP_CHARACTERS = 100
"""Limit for the text about one step of the planner."""
ShowStep = Callable[[str], None]
"""Receives a line about each tool call of the planner."""


async def begin_planning(
    context: RunContext, run_id: RunId, *, show_step: ShowStep, capture_baseline: bool = True
) -> "PlanningPhase":
    """Take the run over and return its planning phase.

    Without `capture_baseline`, for a plan that is not executed here, no command of the repository runs. Raises RunBusy
    if another live process owns the run.
    """
    run = await take_over_run_when_free(context, run_id)
    with suppress(OSError):  # a read-only checkout gets no projections
        write_projections(context, run)
    return PlanningPhase(context, run, show_step=show_step, capture_baseline=capture_baseline)


class PlanningPhase:
    """Plans one run that this process owns, until the plan is written or a stop is requested."""

    def __init__(self, context: RunContext, run: Run, *, show_step: ShowStep, capture_baseline: bool) -> None:
        self.run = run
        self._context = context
        self._show_step = show_step
        self._capture_baseline = capture_baseline
        self._stop_cause: StopCause | None = None
        self._agent_works = False
        """Whether the planner's turn is running; a pause waits for its end."""
        self._turn: asyncio.Task[PlanningResult] | None = None
        self._models = ModelWatch(context, self.run, lambda: None)

    def stop(self, cause: StopCause) -> None:
        """End without a plan; the planner's draft is discarded."""
        if self._stop_cause is None:
            self._stop_cause = cause
            # The state is written by `run_to_end`, once the turn has been cancelled.
            if self._turn is not None:
                self._turn.cancel()

    async def run_to_end(self) -> StopCause | None:
        """Plan the run and return None, or why planning was stopped: the run is paused or cancelled, and released.

        A pause lets the planner finish its turn; a run that is paused then has its plan.

        Raises PlanInvalid with the findings if the plan was rejected, ModelError if the model gave no usable reply,
        EnvironmentNotReady before the first model request: the run has failed. Raises BudgetExceeded if the budget is
        spent: the run is paused. Raises StaleFence if another process took the run over.
        """
        self._activate_run()
        self._turn = asyncio.create_task(self._plan_with_retries())
        chores = [
            asyncio.create_task(chore)
            for chore in (self._watch_control_requests(), renew_lease(self._context, self.run), self._models.watch())
        ]
        try:
            await asyncio.wait((self._turn, *chores), return_when=asyncio.FIRST_COMPLETED)
            for chore in chores:
                if chore.done():
                    # A chore ends only with an error, such as a lost lease, and the turn must not go on without it.
                    chore.result()
            ending = await self._turn
        except asyncio.CancelledError:
            if self._stop_cause == "cancelled":
                cancel_run(self._context.store, self.run)
            else:
                self._activate_run()  # it may be paused for its model
                finish_run(self._context.store, self.run, self._stop_cause or "stopped")
            # A signal cancelled this task, not only the planner's turn.
            if self._stop_cause is None:
                raise
            return self._stop_cause
        finally:
            for task in (self._turn, *chores):
                task.cancel()
            await asyncio.wait((self._turn, *chores))
        return self._handle_result(ending)

    def _activate_run(self) -> None:
        """Activate a run that was paused or saved before it had a plan."""
        store, run = self._context.store, self.run
        if isinstance(require_run(store, run.id).state, Paused | Saved):
            with owner_transaction(store, run):
                store.runs.move(run.id, Active(), fence=run.fence)

    async def _plan_with_retries(self) -> PlanningResult:
        if self._capture_baseline:
            await ensure_baseline(self._context, self.run)
        while True:
            ending = await self._one_turn()
            if not isinstance(ending, TurnUnavailable) or ending.is_denied:
                return ending
            self._models.look()
            if not self._models.waits_for:  # it is back
                continue
            self._models.tell()
            hold_run(self._context.store, self.run, f"waits for {self._models.waits_for}")
            await self._models.until_back()
            self._activate_run()

    async def _one_turn(self) -> PlanningResult:
        settings = self.run.settings
        limit = TimeLimit(self._context.clock, settings.tier.timeout_s)
        patience = Patience(settings.limits.model_wait_s, limit.paused)
        async with open_source(self._context, self.run, "planner", patience=patience) as source:
            self._agent_works = True
            try:
                return await plan_run(self._context, self.run, source, watch=self._with_progress, limit=limit)
            finally:
                self._agent_works = False

    async def _watch_control_requests(self) -> None:
        while True:
            request = self._context.store.runs.control_request(self.run.id)
            if request == "resume":
                if self._stop_cause is None:  # withdraws a pause that has not ended anything yet
                    with owner_transaction(self._context.store, self.run, durable=True):
                        self._context.store.runs.answer(self.run.id, request)
            elif request is not None and not (request == "pause" and self._agent_works):
                self.stop(STOP_BY_REQUEST[request])
            await self._context.clock.sleep(REQUEST_POLL_S)

    def _with_progress(self, tool: Tool) -> Tool:
        async def run(args: Mapping[str, Any]) -> ToolOutput:
            output = await tool.run(args)
            mark = "refused" if output.failed else "draft" if tool.name.startswith("goap_") else "read"
            self._show_step(f"{mark:<8} {_step_text(tool.name, args)}")
            return output

        return msgspec.structs.replace(tool, run=run)

    def _handle_result(self, ending: PlanningResult) -> StopCause | None:
        run_id = self.run.id
        match ending:
            case PlanWritten():
                self.run = store_agreed_actions(self._context.store, self.run)
                AgentAdvisor(self._context, self.run).refresh()  # shown when the user is asked to start the run
                # A pause may have been requested during the planner's turn.
                if self._context.store.runs.control_request(run_id) != "pause":
                    return None
                finish_run(self._context.store, self.run, "paused")
                return "paused"
            case PlanRejected(findings=findings, why=why):
                self._fail_run(f"the plan was rejected: {why}")
                raise PlanInvalid(
                    clip(f"run {run_id} has no valid plan: {why}", MAX_REASON_CHARACTERS), _retry_hint(run_id), findings
                )
            case ModelFailed(error=error):
                self._fail_run(f"no plan: {error}")
                raise ModelError(f"run {run_id} has no plan: {error}", _retry_hint(run_id))
            case TurnUnavailable(error=error):
                finish_run(self._context.store, self.run, "unavailable", why=f": {error}")
                return "unavailable"
            case TurnOverBudget(error=error):
                finish_run(self._context.store, self.run, "limit")
                more = more_budget(budget_use(self._context.store, self.run), run_id)
                raise BudgetExceeded(f"run {run_id} has no plan yet: {error}", more)
            case _:
                assert_never(ending)

    def _fail_run(self, reason: str) -> None:
        store, run = self._context.store, self.run
        with owner_transaction(store, run, durable=True):
            store.runs.move(run.id, Failed(reason), fence=run.fence)
            store.runs.release(run.id, fence=run.fence)


def _retry_hint(run_id: RunId) -> str:
    return f"To plan again, run `scaffold retry {run_id}`, then `scaffold resume {run_id}`; or start a clearer request."


def _step_text(tool: str, args: Mapping[str, Any]) -> str:
    match args:
        case {"actions": [*actions]}:
            subject = ", ".join(str(each.get("key", "?")) for each in actions if isinstance(each, dict))
        case _:
            subject = next((str(args[name]) for name in SUBJECT_ARGUMENTS if isinstance(args.get(name), str)), "")
    words = " ".join(f"{tool.removeprefix('goap_')} {subject}".split())
    return words if len(words) <= MAX_STEP_CHARACTERS else f"{words[: MAX_STEP_CHARACTERS - 1]}…"
