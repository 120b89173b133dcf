"""Laying a run out at the command line: the planner's turn with its progress, signals, wishes and its end."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Literal, assert_never

import click
import msgspec

from scaffold.agent.model_access import connect_model
from scaffold.cli.execution.event_tail import last_seq_before, showing_events
from scaffold.cli.execution.interrupts import handle_interrupts, restore_interrupts
from scaffold.cli.exit_codes import FAILED, INTERRUPTED, WAITING
from scaffold.cli.render.findings import print_findings
from scaffold.cli.render.progress import JsonEventLines, TextEventLines
from scaffold.core.errors import BudgetExceeded, ModelError, PlanInvalid
from scaffold.core.ids import RunId
from scaffold.core.model import Run
from scaffold.core.printable_text import printable
from scaffold.core.states import Active, Failed, Paused
from scaffold.core.tool import Tool, ToolOutput
from scaffold.orchestrator.owner.run_baseline import ensure_baseline
from scaffold.orchestrator.owner.run_end import cancel_run, finish_run
from scaffold.orchestrator.owner.run_lease import renew_lease, take_over_run_when_free
from scaffold.orchestrator.planning.planner import plan_run
from scaffold.orchestrator.planning.turn import ModelFailed, PlanningResult, PlanRejected, PlanWritten, TurnOverBudget
from scaffold.orchestrator.upkeep.projections import write_projections
from scaffold.run.context import RunContext
from scaffold.run.lease import owner_transaction
from scaffold.session.slash_queries import format_usage
from scaffold.views.text_format import clip

StopCause = Literal["stopped", "paused", "cancelled"]
EXIT_CODE_BY_STOP: Mapping[StopCause, int] = {"stopped": INTERRUPTED, "paused": WAITING, "cancelled": FAILED}
STOP_BY_REQUEST: Mapping[str, StopCause] = {"stop": "stopped", "pause": "paused", "cancel": "cancelled"}
REQUEST_POLL_S = 0.2
MAX_REASON_CHARACTERS = 240
"""Characters of why there is no plan that stand in the error; the findings are told before it."""
SUBJECT_ARGUMENTS = ("name", "goal", "path", "pattern", "query")
"""Arguments that say what a call is about, the best first."""
MAX_STEP_CHARACTERS = 100
"""Characters of what a planner does that people get to see."""

PrintLine = Callable[[str], None]


class PlanningPhase:
    """The laying out of one run that this process owns, until it is done or told to leave."""

    def __init__(self, site: RunContext, run: Run, *, say: PrintLine, grounded: bool = True) -> None:
        """`say` takes a line for each thing the planner looks at or proposes.

        Unless `grounded` nobody carries the plan out here, and no command of the repository is run for its sake.
        """
        self._site = site
        self._run = run
        self._say = say
        self._grounded = grounded
        self._left: StopCause | None = None
        self._turn: asyncio.Task[PlanningResult] | None = None

    def stop(self, cause: StopCause) -> None:
        """End without a plan: what was thought so far is thrown away."""
        if self._left is None:
            self._left = cause
            if self._turn is not None:
                self._turn.cancel()

    async def run(self) -> StopCause | None:
        """Lay the run out and return None, or why this was left; the run is put down and let go of then.

        Raises PlanInvalid with the findings if no plan came about, ModelTrouble if there was no reply, BudgetSpent,
        EnvironmentNotReady before anybody was asked, and StaleFence once another process owns the run. The run has
        failed then, or is paused for want of money.
        """
        self._wake()
        self._turn = asyncio.create_task(self._thought())
        chores = [asyncio.create_task(chore) for chore in (self._heed_wishes(), renew_lease(self._site, self._run))]
        try:
            await asyncio.wait((self._turn, *chores), return_when=asyncio.FIRST_COMPLETED)
            for chore in chores:
                if chore.done():
                    chore.result()
            ending = await self._turn
        except asyncio.CancelledError:
            left = self._put_down(self._left or "stopped")
            if self._left is None:
                raise
            return left
        finally:
            for task in (self._turn, *chores):
                task.cancel()
            await asyncio.wait((self._turn, *chores))
        self._settle(ending)
        return None

    def _wake(self) -> None:
        """Let a run that was put down without a plan go on."""
        store, run = self._site.store, self._run
        if isinstance(run.state, Paused):
            with owner_transaction(store, run):
                store.runs.move(run.id, Active(), fence=run.fence)

    async def _thought(self) -> PlanningResult:
        if self._grounded:
            await ensure_baseline(self._site, self._run)
        async with connect_model(self._run.settings.model) as model:
            return await plan_run(self._site, self._run, model, watch=self._watched)

    async def _heed_wishes(self) -> None:
        while True:
            wish = self._site.store.runs.control_request(self._run.id)
            if wish is not None:
                self.stop(STOP_BY_REQUEST[wish])
            await self._site.clock.sleep(REQUEST_POLL_S)

    def _watched(self, tool: Tool) -> Tool:
        async def run(args: Mapping[str, Any]) -> ToolOutput:
            output = await tool.run(args)
            mark = "refused" if output.failed else "draft" if tool.name.startswith("goap_") else "look"
            self._say(f"{mark:<8} {_step_text(tool.name, args)}")
            return output

        return msgspec.structs.replace(tool, run=run)

    def _put_down(self, cause: StopCause) -> StopCause:
        if cause == "cancelled":
            cancel_run(self._site.store, self._run)
        else:
            finish_run(self._site.store, self._run, cause)
        return cause

    def _settle(self, ending: PlanningResult) -> None:
        run_id = self._run.id
        match ending:
            case PlanWritten():
                return
            case PlanRejected(findings=findings, why=why):
                self._fail(f"no plan that works: {why}")
                raise PlanInvalid(
                    clip(f"run {run_id} got no plan that works: {why}", MAX_REASON_CHARACTERS),
                    _retry_hint(run_id),
                    findings,
                )
            case ModelFailed(error=error):
                self._fail(f"no plan: {error}")
                raise ModelError(f"run {run_id} got no plan: {error}", _retry_hint(run_id))
            case TurnOverBudget(error=error):
                finish_run(self._site.store, self._run, "limit")
                more = f"Go on with `scaffold resume {run_id} --budget-usd MORE`."
                raise BudgetExceeded(f"run {run_id} has no plan yet: {error}", more)
            case _:
                assert_never(ending)

    def _fail(self, reason: str) -> None:
        store, run = self._site.store, self._run
        with owner_transaction(store, run, durable=True):
            store.runs.move(run.id, Failed(reason), fence=run.fence)
            store.runs.release(run.id, fence=run.fence)


def _retry_hint(run_id: RunId) -> str:
    return f"`scaffold retry {run_id}`, then `scaffold resume {run_id}` plans anew; or say in the request what matters."


def _step_text(tool: str, args: Mapping[str, Any]) -> str:
    """Return what a call is about, in a line for a person."""
    match args:
        case {"actions": [*actions]}:
            subject = ", ".join(str(each.get("key", "?")) for each in actions if isinstance(each, dict))
        case _:
            subject = next((str(args[name]) for name in SUBJECT_ARGUMENTS if isinstance(args.get(name), str)), "")
    words = " ".join(f"{tool.removeprefix('goap_')} {subject}".split())
    return words if len(words) <= MAX_STEP_CHARACTERS else f"{words[: MAX_STEP_CHARACTERS - 1]}…"


async def run_planning(
    site: RunContext, run_id: RunId, *, as_json: bool = False, err: bool = False, grounded: bool = True
) -> int | None:
    """Lay a run out while progress is told, to standard error with `err`; None once it has a plan, else the exit code.

    `grounded` is what `PlanningPhase` takes. Raises as `PlanningPhase.carry_out`, with the findings told before.
    """
    run = await take_over_run_when_free(site, run_id)
    with suppress(OSError):  # a checkout that cannot be written has its journals elsewhere
        write_projections(site, run)
    layout = PlanningPhase(site, run, say=_discard if as_json else _line_printer(err=err), grounded=grounded)
    sink = JsonEventLines() if as_json else TextEventLines(err=err)
    try:
        handle_interrupts(partial(layout.stop, "stopped"))
        async with showing_events(site, run, sink, since=last_seq_before(site, run)):
            left = await layout.run()
    except PlanInvalid as invalid:
        print_findings(invalid.findings, "plan")
        raise
    finally:
        restore_interrupts()
    if left is not None:
        click.echo(f"{left} before there was a plan; `scaffold resume {run_id}` plans anew", err=True)
        return EXIT_CODE_BY_STOP[left]
    if not as_json:
        click.echo(f"planned by {run.settings.model}: {format_usage(site.store.runs.spent(run.id))}", err=True)
    return None


def _line_printer(*, err: bool) -> PrintLine:
    return lambda words: click.echo(f"          {printable(words)}", err=err)


def _discard(words: str) -> None:
    """Say nothing: programs read events."""
