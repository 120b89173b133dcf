"""Follow the events of a run as they are written, and show them as lines of text or JSON."""

import asyncio
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from shlex import quote
from typing import Literal, Protocol, assert_never

import click
import msgspec
from msgspec import Struct

from scaffold.cli.render.live.agent_rows import row_subject, work_sentence
from scaffold.cli.render.terminal.style import print_json
from scaffold.cli.render.terminal.text_layout import Layout, layout_for
from scaffold.core.errors import StoreUnavailable
from scaffold.core.events import (
    ActionLanded,
    ActionReverted,
    ActionStatusChanged,
    AssertionProposed,
    AttemptEnded,
    AttemptPhaseChanged,
    AttemptQueued,
    AttemptWaitChanged,
    BaselineCaptured,
    CandidateMerged,
    ContractSealed,
    CritiqueRecorded,
    Event,
    FactStateChanged,
    FilesGranted,
    GoalStatusChanged,
    NoticeRaised,
    PlanExtended,
    PlanningTurnEnded,
    PlanningTurnStarted,
    RunClaimed,
    RunCreated,
    RunStatusChanged,
    StoredEvent,
    SupervisorEnded,
    SupervisorStarted,
    VerificationFailed,
    WorkTaken,
)
from scaffold.core.ids import ActionKey
from scaffold.core.model import FileGrantor, Run
from scaffold.core.ports import Clock
from scaffold.core.printable_text import count_of, join_limited
from scaffold.core.states import COUNTED_FAILURES, OTHERS_FIRST, WAITS_FOR_PREFIX
from scaffold.run.context import RunContext
from scaffold.views.agent_list import AgentRow
from scaffold.views.text_format import local_time

POLL_S = 0.1


class EventSink(Protocol):
    """Shows events as they are recorded."""

    def show(self, recorded: StoredEvent) -> None:
        """Show one event."""
        ...

    def tick(self) -> None:
        """Refresh the current state; called every `POLL_S`."""
        ...

    def close(self) -> None:
        """End: no more events will come."""
        ...


MAX_PATHS = 3
WORD_CELLS = 8
LOOK_S = 1.0
"""Seconds between two looks for lasting work."""
GRANTORS: Mapping[FileGrantor, str] = {"rule": "rule", "reviewer": "the reviewer", "human": "you"}


ChangeKind = Literal["started", "completed", "blocked", "error"]
"""What users are told of tasks: nothing else is a change to them."""
CHANGES: Mapping[str, ChangeKind] = {"completed": "completed", "blocked": "blocked", "failed": "error"}
"""The kind of a change by the status that an action gets."""


class TaskChange(Struct, frozen=True):
    """A change of one of the four kinds, with the task and the reason, if there are any."""

    kind: ChangeKind
    action: ActionKey | None
    reason: str | None


class JsonEventLines:
    """One event per line, for programs."""

    def show(self, recorded: StoredEvent) -> None:
        """Print `{"seq", "at", "type", ...}`."""
        body = {"seq": recorded.seq, "at": recorded.at, **msgspec.to_builtins(recorded.event)}
        print_json(body)

    def tick(self) -> None:
        """Do nothing: a line never changes."""

    def close(self) -> None:
        """Do nothing: every line is printed already."""


class TextEventLines:
    """A line for each event that people want to know."""

    def __init__(
        self,
        clock: Clock,
        *,
        err: bool = False,
        work: Callable[[], Sequence[str]] = tuple,
        say: Callable[[Event], str | None] | None = None,
    ) -> None:
        """Print to standard error if `err`; `work` returns what lasts now, a sentence each, printed when it begins.

        `say` returns the sentence of an event; without it, that is `event_sentence`.
        """
        self._clock = clock
        self._err = err
        self._work = work
        self._say = say or event_sentence
        self._known: Sequence[str] = ()
        self._due = 0.0

    def show(self, recorded: StoredEvent) -> None:
        """Print the event, unless only machines need it."""
        sentence, now = self._say(recorded.event), self._clock.now()
        self._print_lines(sentence_lines(sentence, recorded.at, now, self._output_layout) if sentence else ())

    def tick(self) -> None:
        """Print work that began to last, looking once a second."""
        if self._clock.monotonic() < self._due:
            return
        self._due = self._clock.monotonic() + LOOK_S
        before, self._known = self._known, self._work()
        now = self._clock.now()
        for sentence in self._known:
            if sentence not in before:
                self._print_lines(sentence_lines(sentence, now, now, self._output_layout))

    def pause(self) -> None:
        """Do nothing: nothing is drawn."""

    def resume(self) -> None:
        """Do nothing: nothing is drawn."""

    def close(self) -> None:
        """Do nothing: every line is printed already."""

    @property
    def _output_layout(self) -> Layout:
        return layout_for(sys.stderr if self._err else sys.stdout)

    def _print_lines(self, lines: Sequence[str]) -> None:
        if lines:
            click.echo("\n".join(lines), err=self._err)


def work_lines(rows: Sequence[AgentRow], waits_for: str) -> Sequence[str]:
    """Return a sentence for each command that lasts, and for what the run waits for."""
    lines = [
        f"running  {row_subject(row)}: {work_sentence(row.activity)}"
        for row in rows
        if row.activity is not None and not row.activity.work.surrounds
    ]
    return [*lines, f"waits    for {waits_for}"] if waits_for else lines


def sentence_lines(sentence: str, at: datetime, now: datetime, layout: Layout) -> Sequence[str]:
    """Return a sentence, its first word in a column of WORD_CELLS, as lines that fit, after the local time."""
    word, _, rest = sentence.partition(" ")
    return layout.wrap(f"{local_time(at, now)}  {word:<{WORD_CELLS}} ", " ".join(rest.split()))


def event_sentence(event: Event) -> str | None:  # noqa: C901, PLR0911, PLR0912 - one line a case
    """Return an event as a line for people, its first word in WORD_CELLS columns; None if only machines need it."""
    match event:
        case RunCreated(session_branch=branch, goals=0):
            return f"plan     none yet, landing on {branch}"
        case RunCreated(session_branch=branch, goals=goals, actions=actions):
            return f"plan     {count_of(actions, 'action')} in {count_of(goals, 'goal')}, landing on {branch}"
        case RunStatusChanged(status=status, reason=reason):
            return f"run      {status}{_reason_suffix(reason)}"
        case GoalStatusChanged(goal=goal, status=status, reason=reason):
            return f"goal     {goal}: {status}{_reason_suffix(reason)}"
        case ActionStatusChanged(action=action, status="blocked", reason=reason):
            return _blocked_line(action, reason or "")
        case ActionStatusChanged(action=action, status="failed" | "skipped" as status, reason=reason):
            return f"{status:<8} {action}{_reason_suffix(_first_line(reason, 'scaffold status'))}"
        case AttemptQueued(action=action, number=number, base_sha=base):
            return f"start    {action} (attempt {number}, on {base[:8]})"
        case AttemptPhaseChanged(action=action, phase="verifying"):
            return f"check    {action}"
        case AttemptEnded(action=action, outcome="recorded"):
            return f"recorded {action}"
        case AttemptEnded(action=action, number=number, outcome=outcome, error=error) if outcome != "landed":
            why = _first_line(error, f"scaffold contract {quote(action)}")
            return f"ended    {action}: attempt {number}, {outcome}{_reason_suffix(why)}"
        case ActionLanded() | ActionReverted() | WorkTaken():
            return _branch_sentence(event)
        case PlanExtended(goal=goal, actions=()):
            return f"plan     a goal: {goal}"
        case PlanExtended(goal=goal, under=under, actions=actions):
            return f"plan     {goal}: {', '.join(actions)}" + (f" under {under}" if under else "")
        case PlanningTurnStarted(event=about, goal=goal, action=action):
            return f"think    {about}" + "".join(f" {name}" for name in (goal, action) if name)
        case PlanningTurnEnded(event=about, outcome="refused" | "failed" | "lost" as outcome, error=error):
            return f"think    {about} {outcome}{_reason_suffix(error)}"
        case SupervisorEnded(goal=goal, code=code) if code != 0:
            return f"warning  the supervisor of {goal} exited with {code}"
        case FactStateChanged(assertion=assertion, state=state, commit=commit, only_orders=False):
            return f"fact     {assertion} {state} at {commit[:8]}"
        case FilesGranted(action=action, paths=paths, by=by):
            return f"files    {action}: {join_limited(paths, MAX_PATHS)} granted by {GRANTORS[by]}"
        case ContractSealed() | BaselineCaptured() | CritiqueRecorded() | VerificationFailed() | CandidateMerged():
            return _verification_sentence(event)
        case NoticeRaised(level=level, text=text):
            return f"{'note' if level == 'info' else 'warning':<8} {text}"
        case ActionStatusChanged() | AttemptPhaseChanged() | AttemptEnded() | RunClaimed() | AssertionProposed():
            return None
        case AttemptWaitChanged() | PlanningTurnEnded() | SupervisorStarted() | SupervisorEnded() | FactStateChanged():
            return None
        case _:
            assert_never(event)


def _branch_sentence(event: ActionLanded | ActionReverted | WorkTaken) -> str:
    match event:
        case ActionLanded(action=action, commit=commit):
            return f"landed   {action} as {commit[:8]}"
        case ActionReverted(action=action, commit=commit):
            return f"reverted {action} by {commit[:8]}"
        case WorkTaken(how=how, branch=branch, commit=commit, url=url):
            return f"taken    as {commit[:8]} to {branch} ({how})" + (f": {url}" if url else "")
        case _:
            assert_never(event)


def _verification_sentence(
    event: ContractSealed | BaselineCaptured | CritiqueRecorded | VerificationFailed | CandidateMerged,
) -> str:
    match event:
        case ContractSealed(action=action, phase=phase, sha256=digest, checks=checks):
            return f"seal     {action}: {phase} contract {digest[:8]} with {count_of(checks, 'check')}"
        case BaselineCaptured(gate=gate, commit=commit, passed=passed, failed=failed, reused=reused):
            known = ", reused" if reused else ""
            return f"baseline {gate} at {commit[:8]}: {passed} passed, {failed} failed{known}"
        case CandidateMerged(action=action, files=files):
            return f"merge    {action}: {join_limited([each.line for each in files], MAX_PATHS)}"
        case CritiqueRecorded(action=action, iteration=iteration, score=score):
            return f"critic   {action}: {score}/9 after iteration {iteration}"
        case VerificationFailed(action=action, iterations=iterations, summary=summary):
            tries = count_of(iterations, "iteration")
            why = _first_line(summary, f"scaffold contract {quote(action)}")
            return f"failed   {action}: not proven after {tries}{_reason_suffix(why)}"
        case _:
            assert_never(event)


def task_change(event: Event) -> TaskChange | None:
    """Return an event as one of the four kinds of changes; None if it is none of them."""
    match event:
        case AttemptQueued(action=action, number=number):
            return TaskChange("started", action, f"attempt {number}")
        case ActionStatusChanged(action=action, status=status, reason=reason) if status in CHANGES:
            return TaskChange(CHANGES[status], action, reason)
        case AttemptEnded(action=action, number=number, outcome=outcome, error=error) if outcome in COUNTED_FAILURES:
            return TaskChange("error", action, f"attempt {number}, {outcome}{_reason_suffix(error)}")
        case AttemptWaitChanged(action=action, item=str(item)):
            return TaskChange("blocked", action, f"{WAITS_FOR_PREFIX}{item}")
        case GoalStatusChanged(status="failed") | SupervisorEnded() | PlanningTurnEnded():
            sentence = event_sentence(event)
            return TaskChange("error", None, sentence[WORD_CELLS + 1 :]) if sentence else None
        case _:
            return None


def change_sentence(event: Event) -> str | None:
    """Return a line for people about one of the four kinds of changes, as `event_sentence` does; None for others."""
    change = task_change(event)
    if change is None:
        return None
    if change.action is None:
        return f"{change.kind:<{WORD_CELLS}} {change.reason}"
    if change.kind == "blocked":
        line = _blocked_line(change.action, change.reason or "")
        rest = line.removeprefix(f"waits    {change.action}: ")
        return line if rest == line else f"blocked  {change.action}: waits {rest}"
    word = "done" if change.kind == "completed" else change.kind
    return f"{word:<{WORD_CELLS}} {change.action}{_reason_suffix(_first_line(change.reason, 'scaffold status'))}"


def _blocked_line(action: ActionKey, reason: str) -> str:
    if reason == OTHERS_FIRST.reason:
        return f"waits    {action}: for {reason.removeprefix(WAITS_FOR_PREFIX)}"
    if reason.startswith(WAITS_FOR_PREFIX):
        return f"waits    {action}: for you, `scaffold inbox` shows {reason.removeprefix(WAITS_FOR_PREFIX)}"
    return f"blocked  {action}: a dependency failed"


def _reason_suffix(reason: str | None) -> str:
    return f": {reason}" if reason else ""


def _first_line(text: str | None, command: str) -> str:
    first, _, rest = (text or "").strip().partition("\n")
    return f"{first} (more: `{command}`)" if rest else first


async def tail_events(context: RunContext, run: Run, sink: EventSink, *, since: int, done: Callable[[], bool]) -> None:
    """Show every event after number `since`; return once `done` and all are shown.

    Events recorded while the store cannot be read are shown later, unless the run is `done` first.
    """
    seq, ending = since, False
    try:
        while True:
            with suppress(StoreUnavailable):
                # `done` is asked before the events are read, so that the last round still shows what the end itself
                # recorded.
                ending = done()
                for recorded in context.store.events.since(run.id, seq):
                    sink.show(recorded)
                    seq = recorded.seq
            if ending:
                return
            with suppress(StoreUnavailable):
                sink.tick()
            await asyncio.sleep(POLL_S)
    finally:
        sink.close()
