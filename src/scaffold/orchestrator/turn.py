"""One turn of the planner, or of a supervisor's agent: asked on a fresh context, what it proposes written at its end.

The turn's row is open while the agent thinks. What it proposes is collected, judged when it says that it is done, and
written in one transaction with the turn's end: whatever cuts the turn off before leaves nothing but the open row, and
whoever begins the next turn ends that as lost.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress

from msgspec import Struct

from scaffold.agent.agent import Agent, Books, Brief, Finish
from scaffold.agent.journal import JournalFile
from scaffold.agent.outside import Outside
from scaffold.agent.prompts import system_prompt
from scaffold.core.conversation import Caller
from scaffold.core.errors import BudgetSpent, ModelTrouble, ScaffoldError, TurnLimit
from scaffold.core.ids import GoalId, TurnId
from scaffold.core.legible import legible
from scaffold.core.model import Action, Goal, PlanningEvent, Run, Turn, TurnOutcome, Usage
from scaffold.core.plan import Finding
from scaffold.core.ports import Model
from scaffold.core.tool import Tool
from scaffold.host.identity import own_identity
from scaffold.host.ids import new_id
from scaffold.orchestrator.circling import Attentive, Circling
from scaffold.orchestrator.desks import DraftDesk
from scaffold.orchestrator.writing import read_draft, write_changes
from scaffold.plan.draft import Change, Draft, DraftRefused
from scaffold.store.database import Store
from scaffold.store.run_budget import RunBudget
from scaffold.worker.lease import owned
from scaffold.worker.site import Site

ROUNDS = 3
"""How often an agent may say that it is done before its turn ends as unsound."""
REQUESTS = 20
"""How many requests it may need to say so."""
TOLD = 12
"""How many findings are told at a time."""


class Occasion(Struct, frozen=True, kw_only=True):
    """Why an agent is asked."""

    event: PlanningEvent
    prompt: str
    goal: Goal | None = None
    """None for the planner's."""
    action: Action | None = None
    """The compound it is about, if it is about one."""

    @property
    def role(self) -> str:
        """Who is asked."""
        return "planner" if self.event == "plan" else "supervisor"


class Written(Struct, frozen=True, tag="written"):
    """The agent is done, and what it proposed stands in the store; `text` are its last words."""

    changes: tuple[Change, ...]
    text: str


class Unsound(Struct, frozen=True, tag="unsound"):
    """What it proposed never became sound, or it came to no end; nothing is written."""

    findings: tuple[Finding, ...]
    why: str


class Broke(Struct, frozen=True, tag="broke"):
    """There was no reply to be had; `again` tells whether asking once more may help."""

    error: str
    again: bool


class Spent(Struct, frozen=True, tag="spent"):
    """There was no money left for another request."""

    error: str


TurnEnding = Written | Unsound | Broke | Spent


def nothing(store: Store, /) -> None:
    """Change nothing besides."""


class Conditions(Struct, frozen=True, kw_only=True):
    """What an agent has to propose with, and what makes it sound."""

    tools: Callable[[DraftDesk], Sequence[Tool]]
    faults: Callable[[Draft], Sequence[Finding]]
    """All that must not be; nothing means that the proposal may be written."""
    also: Callable[[Store], None] = nothing
    """What else the transaction changes that writes the proposal."""


async def take_turn(site: Site, run: Run, model: Model, occasion: Occasion, conditions: Conditions) -> TurnEnding:
    """Ask the agent and write what it proposes; return how that ended.

    StaleFence, and nothing is written, if another process took over the run, or began a turn of the same goal.
    """
    sitting = _Sitting(site, run, occasion)
    desk = DraftDesk(site.store, run)
    agent = sitting.agent(model, conditions.tools(desk))
    return await sitting.hold(lambda: _propose(sitting, agent, desk, conditions))


class Helm(Struct, frozen=True, kw_only=True):
    """What an agent takes every step with, and what shows that it took none."""

    tools: Sequence[Tool]
    """They write for themselves, each in a transaction of its own."""
    idle: Callable[[], str | None]
    """Why nothing will come of the turn, None if something may."""


async def drive_turn(site: Site, run: Run, model: Model, occasion: Occasion, helm: Helm) -> TurnEnding:
    """Let the agent take every step itself, and return how that ended; otherwise as `take_turn`."""
    sitting = _Sitting(site, run, occasion)
    agent = sitting.agent(model, helm.tools)
    return await sitting.hold(lambda: _drive(sitting, agent, helm))


def close_lost(store: Store, run: Run, goal_id: GoalId | None) -> None:
    """End what a process that is gone left open of the goal's turns, of the planner's for None, as lost."""
    with owned(store, run, durable=True):
        _close_open(store, run, goal_id)


def errors(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return those that forbid a plan."""
    return tuple(finding for finding in findings if finding.severity == "error")


class _Sitting:
    """A turn that goes on: its row is the one open row of its goal, until it ends."""

    def __init__(self, site: Site, run: Run, occasion: Occasion) -> None:
        self.site = site
        self.run = run
        self.occasion = occasion
        self._redactor = site.redactor
        goal, action = occasion.goal, occasion.action
        self._log = site.journal("planner" if goal is None else goal.name, occasion.role)
        self.turn = Turn(
            id=TurnId(new_id()),
            run_id=run.id,
            goal_id=None if goal is None else goal.id,
            action_id=None if action is None else action.id,
            event=occasion.event,
            usage=Usage(),
            log_file=str(self._log),
            started_at=site.clock.now(),
        )
        with owned(site.store, run, durable=True):
            _close_open(site.store, run, self.turn.goal_id)
            site.store.turns.begin(self.turn)

    def agent(self, model: Model, tools: Sequence[Tool]) -> Agent:
        """Return who is asked: on a fresh context, paid from the run's budget."""
        settings, journal = self.run.settings, self._journal()
        action, planner = self.occasion.action, self.occasion.role == "planner"
        return Agent(
            model=Attentive(model),
            tools=tools,
            brief=Brief(
                caller=Caller(
                    role=self.occasion.role,
                    action=None if action is None else action.key,
                    event=None if planner else self.occasion.event,
                ),
                system=system_prompt(
                    self.occasion.role,
                    folders=settings.prompts,
                    notice=lambda text: journal.note("notice", text=text),
                ),
                max_requests=REQUESTS,
            ),
            outside=Outside(redactor=self._redactor),
            books=Books(
                journal=journal,
                budget=RunBudget(
                    self.site.store,
                    self.turn,
                    limit_usd=settings.budget_usd,
                    clock=self.site.clock,
                    owner=own_identity(),
                ),
            ),
        )

    def _journal(self) -> JournalFile:
        goal, action = self.occasion.goal, self.occasion.action
        fields = {"run": self.run.id, "role": self.occasion.role}
        fields |= {} if goal is None else {"goal": goal.name}
        fields |= {} if action is None else {"action": action.key}
        return JournalFile(self._log, clock=self.site.clock, fields=fields, redactor=self._redactor)

    async def hold(self, talk: Callable[[], Awaitable[TurnEnding]]) -> TurnEnding:
        """Return how the talk ended, which is written down by then; one that is called off is lost."""
        try:
            ending = await self._patiently(talk)
        except asyncio.CancelledError:
            with suppress(ScaffoldError):  # somebody else closed it, or will
                self._end("lost", "it was called off")
            raise
        match ending:
            case Unsound(why=why):
                self._end("refused", why)
            case Broke(error=error):
                self._end("failed", error)
            case Spent(error=error):
                self._end("budget", error)
        return ending

    async def _patiently(self, talk: Callable[[], Awaitable[TurnEnding]]) -> TurnEnding:
        limit_s = self.run.settings.attempt_timeout_s
        try:
            async with asyncio.timeout(limit_s):
                return await talk()
        except TimeoutError:
            return Broke(f"The {self.occasion.role} did not come to an end within {limit_s:.0f} s.", again=True)
        except BudgetSpent as spent:
            return Spent(self._clean(spent.what))
        except ModelTrouble as trouble:
            return Broke(self._clean(trouble.in_full), again=trouble.transient or isinstance(trouble, TurnLimit))

    def finish(self, also: Callable[[Store], None]) -> None:
        """End the turn as done, with what `also` changes, in one transaction; whatever that raises undoes it all."""
        store = self.site.store
        with owned(store, self.run, durable=True):
            store.turns.check(self.turn.id)
            also(store)
            store.turns.end(self.turn.id, "done")

    def _end(self, outcome: TurnOutcome, error: str) -> None:
        with owned(self.site.store, self.run, durable=True):
            self.site.store.turns.end(self.turn.id, outcome, error=self._clean(error))

    def _clean(self, text: str) -> str:
        return self._redactor.clean(legible(text))


async def _propose(sitting: _Sitting, agent: Agent, desk: DraftDesk, conditions: Conditions) -> TurnEnding:
    """Ask until what stands on the desk is sound, and write it; what is wrong is said in the same conversation."""
    said, faults = sitting.occasion.prompt, tuple[Finding, ...]()
    for _ in range(ROUNDS):
        try:
            finish = await agent.turn(said)
        except Circling as circling:
            return _at_the_circle(sitting, desk, conditions, circling)
        if finish.stop == "refused":
            return _declined(finish)
        faults = tuple(conditions.faults(desk.draft)) or _write(sitting, desk, conditions)
        if not faults:
            return Written(desk.draft.changes, finish.text)
        said = told(faults)
    return Unsound(faults, f"what was proposed is not sound after {ROUNDS} replies: {_in_line(faults)}")


def _at_the_circle(sitting: _Sitting, desk: DraftDesk, conditions: Conditions, circling: Circling) -> TurnEnding:
    """Return how a turn ends whose agent repeats itself: it adds nothing more, so what is sound by now is written."""
    faults = tuple(conditions.faults(desk.draft))
    if faults or not desk.draft.changes:
        return Unsound(faults, circling.what)
    faults = _write(sitting, desk, conditions)
    return Unsound(faults, circling.what) if faults else Written(desk.draft.changes, circling.what)


async def _drive(sitting: _Sitting, agent: Agent, helm: Helm) -> TurnEnding:
    try:
        finish = await agent.turn(sitting.occasion.prompt)
    except Circling as circling:
        return Unsound((), circling.what)
    if finish.stop == "refused":
        return _declined(finish)
    why = helm.idle()
    if why is not None:
        return Unsound((), why)
    sitting.finish(nothing)
    return Written((), finish.text)


def _write(sitting: _Sitting, desk: DraftDesk, conditions: Conditions) -> tuple[Finding, ...]:
    """Write what stands on the desk and end the turn; or return what does not fit the store as it is by now.

    Then the desk is cleared of that, and what is left there is laid upon what the store says now.
    """
    run, now = sitting.run, sitting.site.clock.now()

    def write(store: Store) -> None:
        write_changes(store, run, desk.draft.changes, now=now)
        conditions.also(store)

    try:
        sitting.finish(write)
    except DraftRefused as refused:
        return _renew(desk, read_draft(sitting.site.store, run)) or (_outrun(refused),)
    return ()


def _renew(desk: DraftDesk, draft: Draft) -> tuple[Finding, ...]:
    """Lay the desk's changes upon `draft`, which takes their place; return what became of those that do not fit."""
    faults = []
    for change in desk.draft.changes:
        try:
            draft.apply(change)
        except DraftRefused as refused:
            faults.append(_outrun(refused))
    desk.draft = draft
    return tuple(faults)


def _outrun(refused: DraftRefused) -> Finding:
    return Finding(
        code="outrun",
        severity="error",
        message=f"the plan changed while you thought: {refused.what}",
        fix=f"{refused.fix} Look at what stands there now, and propose again what is still needed.",
    )


def told(faults: Sequence[Finding]) -> str:
    """Return what is wrong with a proposal, for the agent that made it."""
    lines = [f"- [{fault.code}] {fault.message}. {fault.fix}" for fault in faults[:TOLD]]
    if len(faults) > TOLD:
        lines.append(f"- and {len(faults) - TOLD} more of that kind")
    lead = "Nothing is written yet, because what stands there now does not work:"
    return "\n".join((lead, *lines, "Mend it with the tools; then reply without tool calls."))


def _in_line(faults: Sequence[Finding]) -> str:
    shown = "; ".join(fault.message for fault in faults[:TOLD])
    return f"{shown}; and {len(faults) - TOLD} more" if len(faults) > TOLD else shown


def _declined(finish: Finish) -> Broke:
    return Broke(f"The model refused to answer. {finish.text}".rstrip(), again=True)


def _close_open(store: Store, run: Run, goal_id: GoalId | None) -> None:
    for turn in store.turns.open_of_run(run.id):
        if turn.goal_id == goal_id:
            store.turns.lose(turn.id)
