"""What a run looks like while it happens: events become lines, or JSON, or a live screen."""

import asyncio
from collections.abc import Callable
from typing import Protocol, assert_never

import click
import msgspec

from scaffold.cli.safe import printable
from scaffold.core.events import (
    ActionMoved,
    AttemptAdvanced,
    AttemptEnded,
    AttemptQueued,
    BaselineCaptured,
    ContractSealed,
    Criticised,
    Event,
    FactShown,
    GoalMoved,
    Landed,
    Noticed,
    PlanGrew,
    Proposed,
    Recorded,
    RunMoved,
    RunOpened,
    RunTaken,
    SupervisorBegan,
    SupervisorEnded,
    TurnBegan,
    TurnEnded,
    VerificationFailed,
)
from scaffold.core.ids import Key
from scaffold.core.model import Run
from scaffold.core.states import WAITS_FOR
from scaffold.worker.site import Site

POLL_S = 0.1


class Sink(Protocol):
    """Takes events as they are recorded."""

    def show(self, recorded: Recorded) -> None:
        """Show one event."""
        ...

    def tick(self) -> None:
        """Refresh what shows the present: some time has passed."""
        ...

    def close(self) -> None:
        """Nothing more will come."""
        ...


class JsonLines:
    """One event a line, for programs."""

    def show(self, recorded: Recorded) -> None:
        """Print `{"seq", "at", "type", ...}`."""
        body = {"seq": recorded.seq, "at": recorded.at, **msgspec.to_builtins(recorded.event)}
        click.echo(msgspec.json.encode(body))

    def tick(self) -> None:
        """Lines show the past only."""

    def close(self) -> None:
        """Every line is out already."""


class PlainLines:
    """A line for whatever a person wants to know; what only machines need is left out."""

    def __init__(self, *, err: bool = False) -> None:
        """With `err` the lines go to standard error."""
        self._err = err

    def show(self, recorded: Recorded) -> None:
        """Print the event if it says something to a person."""
        line = sentence(recorded.event)
        if line is not None:
            click.echo(f"{recorded.at.astimezone():%H:%M:%S}  {printable(line)}", err=self._err)

    def tick(self) -> None:
        """Lines show the past only."""

    def close(self) -> None:
        """Every line is out already."""


def sentence(event: Event) -> str | None:  # noqa: C901, PLR0911, PLR0912 - one line a case
    """Return what a person wants to read of an event; None where nothing."""
    match event:
        case RunOpened(session_branch=branch, goals=0):
            return f"plan     none yet, landing on {branch}"
        case RunOpened(session_branch=branch, goals=goals, actions=actions):
            return f"plan     {actions} actions in {goals} goals, landing on {branch}"
        case RunMoved(status=status, reason=reason):
            return f"run      {status}{_because(reason)}"
        case GoalMoved(goal=goal, status=status, reason=reason):
            return f"goal     {goal}: {status}{_because(reason)}"
        case ActionMoved(action=action, status="blocked", reason=reason):
            return _blocked(action, reason or "")
        case ActionMoved(action=action, status="failed" | "skipped" as status, reason=reason):
            return f"{status:<8} {action}{_because(_first_line(reason))}"
        case AttemptQueued(action=action, number=number, base_sha=base):
            return f"start    {action} (attempt {number}, on {base[:8]})"
        case AttemptAdvanced(action=action, phase="verifying"):
            return f"check    {action}"
        case AttemptEnded(action=action, outcome="recorded"):
            return f"approved {action}"
        case AttemptEnded(action=action, number=number, outcome=outcome, error=error) if outcome != "landed":
            return f"ended    {action}: attempt {number}, {outcome}{_because(_first_line(error))}"
        case Landed(action=action, commit=commit):
            return f"landed   {action} as {commit[:8]}"
        case PlanGrew(goal=goal, actions=()):
            return f"plan     a goal: {goal}"
        case PlanGrew(goal=goal, under=under, actions=actions):
            return f"plan     {goal}: {', '.join(actions)}" + (f" under {under}" if under else "")
        case TurnBegan(event=about, goal=goal, action=action):
            return f"think    {about}" + "".join(f" {name}" for name in (goal, action) if name)
        case TurnEnded(event=about, outcome="refused" | "failed" | "lost" as outcome, error=error):
            return f"think    {about} {outcome}{_because(_first_line(error))}"
        case SupervisorEnded(goal=goal, code=code) if code != 0:
            return f"warning  the supervisor of {goal} ended with {code}"
        case FactShown(assertion=assertion, state=state, commit=commit):
            return f"fact     {assertion} {state} at {commit[:8]}"
        case ContractSealed() | BaselineCaptured() | Criticised() | VerificationFailed():
            return _of_proof(event)
        case Noticed(level=level, text=text):
            return f"{'note' if level == 'info' else 'warning':<8} {text}"
        case ActionMoved() | AttemptAdvanced() | AttemptEnded() | RunTaken() | Proposed():
            return None
        case TurnEnded() | SupervisorBegan() | SupervisorEnded():
            return None
        case _:
            assert_never(event)


def _of_proof(event: ContractSealed | BaselineCaptured | Criticised | VerificationFailed) -> str:
    match event:
        case ContractSealed(action=action, phase=phase, sha256=digest, checks=checks):
            return f"seal     {action}: {phase} contract {digest[:8]} with {checks} checks"
        case BaselineCaptured(gate=gate, commit=commit, passed=passed, failed=failed, reused=reused):
            known = ", known from before" if reused else ""
            return f"baseline {gate} at {commit[:8]}: {passed} passed, {failed} failed{known}"
        case Criticised(action=action, iteration=iteration, score=score):
            return f"critic   {action}: {score}/9 after iteration {iteration}"
        case VerificationFailed(action=action, iterations=iterations, summary=summary):
            return f"failed   {action}: not proven after {iterations} iterations{_because(_first_line(summary))}"
        case _:
            assert_never(event)


def _blocked(action: Key, reason: str) -> str:
    if reason.startswith(WAITS_FOR):
        return f"waits    {action}: for you, `scaffold inbox` shows {reason.removeprefix(WAITS_FOR)}"
    return f"blocked  {action}: what it needs has failed"


def _because(reason: str | None) -> str:
    return f": {reason}" if reason else ""


def _first_line(text: str | None) -> str:
    return (text or "").strip().partition("\n")[0][:160]


async def follow(site: Site, run: Run, sink: Sink, *, since: int, done: Callable[[], bool]) -> None:
    """Show every event after `since` until `done` and nothing is left to show."""
    seq = since
    while True:
        ending = done()
        for recorded in site.store.events.since(run.id, seq):
            sink.show(recorded)
            seq = recorded.seq
        if ending:
            sink.close()
            return
        sink.tick()
        await asyncio.sleep(POLL_S)
