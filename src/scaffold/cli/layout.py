"""Laying a run out at the command line: the planner's turn with its progress, signals, wishes and its end."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Literal, assert_never

import click
import msgspec

from scaffold.cli.exits import FAILED, INTERRUPTED, WAITS
from scaffold.cli.findings import tell_findings
from scaffold.cli.following import begins_after, followed
from scaffold.cli.inquiry import used
from scaffold.cli.interrupts import forget_interrupts, heed_interrupts
from scaffold.cli.models import opened_model
from scaffold.cli.progress import JsonLines, PlainLines
from scaffold.cli.safe import printable
from scaffold.cli.screen import clip
from scaffold.core.errors import BudgetSpent, ModelTrouble, PlanInvalid
from scaffold.core.ids import RunId
from scaffold.core.model import Run
from scaffold.core.states import Active, Failed, Paused
from scaffold.core.tool import Tool, ToolOutput
from scaffold.orchestrator.ending import finish, finish_cancelled
from scaffold.orchestrator.planner import lay_out
from scaffold.orchestrator.projections import project
from scaffold.orchestrator.proofing import ground
from scaffold.orchestrator.takeover import keep_lease, take_over_when_free
from scaffold.orchestrator.turn import Broke, Spent, TurnEnding, Unsound, Written
from scaffold.worker.lease import owned
from scaffold.worker.site import Site

Leaving = Literal["stopped", "paused", "cancelled"]
CODES: Mapping[Leaving, int] = {"stopped": INTERRUPTED, "paused": WAITS, "cancelled": FAILED}
WISHES: Mapping[str, Leaving] = {"stop": "stopped", "pause": "paused", "cancel": "cancelled"}
WISH_POLL_S = 0.2
WHY = 240
"""Characters of why there is no plan that stand in the error; the findings are told before it."""
TELLING = ("name", "goal", "path", "pattern", "query")
"""Arguments that say what a call is about, the best first."""
LONGEST_DRAFT = 100
"""Characters of what a planner does that people get to see."""

Say = Callable[[str], None]


class Layout:
    """The laying out of one run that this process owns, until it is done or told to leave."""

    def __init__(self, site: Site, run: Run, *, say: Say, grounded: bool = True) -> None:
        """`say` takes a line for each thing the planner looks at or proposes.

        Unless `grounded` nobody carries the plan out here, and no command of the repository is run for its sake.
        """
        self._site = site
        self._run = run
        self._say = say
        self._grounded = grounded
        self._left: Leaving | None = None
        self._turn: asyncio.Task[TurnEnding] | None = None

    def leave(self, cause: Leaving) -> None:
        """End without a plan: what was thought so far is thrown away."""
        if self._left is None:
            self._left = cause
            if self._turn is not None:
                self._turn.cancel()

    async def carry_out(self) -> Leaving | None:
        """Lay the run out and return None, or why this was left; the run is put down and let go of then.

        Raises PlanInvalid with the findings if no plan came about, ModelTrouble if there was no reply, BudgetSpent,
        EnvironmentNotReady before anybody was asked, and StaleFence once another process owns the run. The run has
        failed then, or is paused for want of money.
        """
        self._wake()
        self._turn = asyncio.create_task(self._thought())
        chores = [asyncio.create_task(chore) for chore in (self._heed_wishes(), keep_lease(self._site, self._run))]
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
            with owned(store, run):
                store.runs.move(run.id, Active(), fence=run.fence)

    async def _thought(self) -> TurnEnding:
        if self._grounded:
            await ground(self._site, self._run)
        async with opened_model(self._run.settings.model) as model:
            return await lay_out(self._site, self._run, model, watch=self._watched)

    async def _heed_wishes(self) -> None:
        while True:
            wish = self._site.store.runs.wish(self._run.id)
            if wish is not None:
                self.leave(WISHES[wish])
            await self._site.clock.sleep(WISH_POLL_S)

    def _watched(self, tool: Tool) -> Tool:
        async def run(args: Mapping[str, Any]) -> ToolOutput:
            output = await tool.run(args)
            mark = "refused" if output.failed else "draft" if tool.name.startswith("goap_") else "look"
            self._say(f"{mark:<8} {_named(tool.name, args)}")
            return output

        return msgspec.structs.replace(tool, run=run)

    def _put_down(self, cause: Leaving) -> Leaving:
        if cause == "cancelled":
            finish_cancelled(self._site.store, self._run)
        else:
            finish(self._site.store, self._run, cause)
        return cause

    def _settle(self, ending: TurnEnding) -> None:
        run_id = self._run.id
        match ending:
            case Written():
                return
            case Unsound(findings=findings, why=why):
                self._fail(f"no plan that works: {why}")
                raise PlanInvalid(clip(f"run {run_id} got no plan that works: {why}", WHY), _again(run_id), findings)
            case Broke(error=error):
                self._fail(f"no plan: {error}")
                raise ModelTrouble(f"run {run_id} got no plan: {error}", _again(run_id))
            case Spent(error=error):
                finish(self._site.store, self._run, "limit")
                more = f"Go on with `scaffold resume {run_id} --budget-usd MORE`."
                raise BudgetSpent(f"run {run_id} has no plan yet: {error}", more)
            case _:
                assert_never(ending)

    def _fail(self, reason: str) -> None:
        store, run = self._site.store, self._run
        with owned(store, run, durable=True):
            store.runs.move(run.id, Failed(reason), fence=run.fence)
            store.runs.release(run.id, fence=run.fence)


def _again(run_id: RunId) -> str:
    return f"`scaffold retry {run_id}`, then `scaffold resume {run_id}` plans anew; or say in the request what matters."


def _named(tool: str, args: Mapping[str, Any]) -> str:
    """Return what a call is about, in a line for a person."""
    match args:
        case {"actions": [*actions]}:
            subject = ", ".join(str(each.get("key", "?")) for each in actions if isinstance(each, dict))
        case _:
            subject = next((str(args[name]) for name in TELLING if isinstance(args.get(name), str)), "")
    words = " ".join(f"{tool.removeprefix('goap_')} {subject}".split())
    return words if len(words) <= LONGEST_DRAFT else f"{words[: LONGEST_DRAFT - 1]}…"


async def laid_out(
    site: Site, run_id: RunId, *, as_json: bool = False, err: bool = False, grounded: bool = True
) -> int | None:
    """Lay a run out while progress is told, to standard error with `err`; None once it has a plan, else the exit code.

    `grounded` is what `Layout` takes. Raises as `Layout.carry_out`, with the findings told before.
    """
    run = await take_over_when_free(site, run_id)
    with suppress(OSError):  # a checkout that cannot be written has its journals elsewhere
        project(site, run)
    layout = Layout(site, run, say=_mute if as_json else _teller(err=err), grounded=grounded)
    sink = JsonLines() if as_json else PlainLines(err=err)
    try:
        heed_interrupts(partial(layout.leave, "stopped"))
        async with followed(site, run, sink, since=begins_after(site, run)):
            left = await layout.carry_out()
    except PlanInvalid as invalid:
        tell_findings(invalid.findings, "plan")
        raise
    finally:
        forget_interrupts()
    if left is not None:
        click.echo(f"{left} before there was a plan; `scaffold resume {run_id}` plans anew", err=True)
        return CODES[left]
    if not as_json:
        click.echo(f"planned by {run.settings.model}: {used(site.store.runs.spent(run.id))}", err=True)
    return None


def _teller(*, err: bool) -> Say:
    return lambda words: click.echo(f"          {printable(words)}", err=err)


def _mute(words: str) -> None:
    """Say nothing: programs read events."""
