"""The screen of a run that asks the questions of its agents, one at a time."""

import asyncio
import os
import select
import sys
import termios
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from datetime import datetime
from typing import Literal, assert_never

import click

from scaffold.cli.approval_answers import counts_as_answer, parse_answer
from scaffold.cli.render.changes.waiting_change_text import change_lines
from scaffold.cli.render.inbox_text import entry_text
from scaffold.cli.render.live.live_screen import RunScreen
from scaffold.cli.render.terminal.text_layout import layout_for
from scaffold.core.errors import ScaffoldError, StoreUnavailable
from scaffold.core.events import StoredEvent
from scaffold.core.model import DecisionScope, InboxItem, Run
from scaffold.core.printable_text import count_of, printable, utf8_safe
from scaffold.host.process_identity import own_identity
from scaffold.orchestrator.user_control.inbox_decisions import (
    DECISION_LIFETIME,
    InboxDecision,
    ask_at_terminal,
    decide_items,
)
from scaffold.plan.failures.answers import CHOICES, choices_text, chosen_answer
from scaffold.policy.permission.approval_gate import DenyBecause
from scaffold.run.context import RunContext
from scaffold.views.changes.waiting_change import read_waiting_change
from scaffold.views.waiting import read_items

CHUNK = 65_536


class TerminalLines:
    """Reads lines from the terminal while a question is shown, and nothing in between.

    The terminal stays in its usual mode, so that editing a line, Ctrl-C and Ctrl-Z work as everywhere.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd

    @property
    def is_ours(self) -> bool:
        """Return whether this process may use the terminal: a job in the background that reads from it is stopped."""
        try:
            return os.tcgetpgrp(self._fd) == os.getpgrp()
        except OSError:
            return False

    def start(self, take: Callable[[str | None], None]) -> None:
        """Call `take` with each input from now on, several lines if they were pasted; None for Ctrl-D."""
        self.discard()

        def take_input() -> None:
            if not self.is_ours:
                return
            data = b""
            with suppress(OSError):  # the terminal is gone: the same as Ctrl-D
                # A terminal hands out one line a read.
                while piece := os.read(self._fd, CHUNK):
                    data += piece
                    if not select.select([self._fd], [], [], 0)[0]:
                        break
            take(data.decode(errors="replace") if data else None)

        asyncio.get_running_loop().add_reader(self._fd, take_input)

    def stop(self) -> None:
        """Stop reading; what was typed but not sent is discarded."""
        asyncio.get_running_loop().remove_reader(self._fd)
        if self.is_ours:
            self.discard()

    def discard(self) -> None:
        """Discard earlier input: it was meant for something else."""
        try:
            termios.tcflush(self._fd, termios.TCIFLUSH)
        except termios.error:  # the terminal is gone; reading says so
            return


Later = Literal["later"]
SCOPES: dict[str, DecisionScope] = {"a": "action", "action": "action", "g": "goal", "goal": "goal", "run": "run"}
"""The answers that approve a request, and equal ones to come, in a part of the run."""

APPROVAL_CHOICES = """\
y yes, once   a yes, for the action   g for the goal   run for the run
n no   no, because ...   later (or Ctrl-D): decide in the inbox"""

QUESTION_CHOICES = "Type your answer and Enter. Ctrl-D: later, in the inbox"
BELL = "\a"


class AskingScreen:
    """Shows events, and below them what agents ask the human, as `scaffold inbox` does.

    While a question is shown, nothing else is: what happens meanwhile follows after the answer. A question that is
    decided elsewhere disappears; one that is left stays in the inbox.
    """

    def __init__(self, context: RunContext, run: Run, screen: RunScreen, *, stopping: Callable[[], bool]) -> None:
        """`context` is closed with the screen. It is not the owner's, so that a decision is news to the owner."""
        self._context = context
        self._run = run
        self._screen = screen
        self._stopping = stopping
        self._lines = TerminalLines(sys.stdin.fileno())
        self._asked: InboxItem | None = None
        self._shown_s = 0.0
        self._left: set[str] = set()
        """The items that the user leaves for later."""
        self._held: list[StoredEvent] = []
        self._process = own_identity()
        self._registered: frozenset[str] = frozenset()
        # Before the run continues: its workers wait only for registered questions.
        self._register_items(self._waiting_items())

    def show(self, recorded: StoredEvent) -> None:
        """Show the event, once no question is open."""
        if self._asked is None:
            self._screen.show(recorded)
        else:
            self._held.append(recorded)

    def tick(self) -> None:
        """Ask a new question, end one that no longer needs an answer, else refresh the screen."""
        waiting = self._waiting_items()
        self._register_items(waiting)
        asked = self._asked
        if asked is not None and asked.id not in {item.id for item in waiting}:
            self._end_question(_ending_note(self._context.store.inbox.get(asked.id) or asked))
        if self._asked is None and waiting:
            self._ask_item(waiting[0], others=len(waiting) - 1)
        if self._asked is None:
            self._screen.tick()

    def close(self) -> None:
        """End: a question that is still open stays in the inbox."""
        with ExitStack() as closing:
            closing.callback(self._context.store.close)
            closing.callback(self._screen.close)
            if self._asked is not None:
                self._end_question(_ending_note(self._asked))
            with suppress(StoreUnavailable):  # then the end of this process says it
                self._register_items([])

    def _waiting_items(self) -> list[InboxItem]:
        if self._stopping() or not self._lines.is_ours:
            return []
        items = self._context.store.inbox.open_of_run(self._run.id)
        return [item for item in items if item.kind != "notice" and item.id not in self._left]

    def _register_items(self, waiting: Sequence[InboxItem]) -> None:
        # A worker whose question is registered waits for the answer instead of ending its attempt.
        items = frozenset(item.id for item in waiting)
        if items != self._registered:
            ask_at_terminal(self._context.store, items, self._process)
            self._registered = items

    def _ask_item(self, item: InboxItem, *, others: int) -> None:
        self._asked = item
        self._screen.pause()
        more = f"\n{count_of(others, 'question')} after this one" if others else ""
        change = read_waiting_change(self._context.store, item)
        (entry,) = read_items(self._context, [item])
        layout = layout_for(sys.stdout)
        shown = entry_text(entry, self._context.clock.now(), layout, change_lines(change, layout))
        click.echo(f"{BELL}\n{shown}\n\n{answer_choices(item)}{more}")
        self._print_prompt()
        self._lines.start(self._take_line)
        self._shown_s = self._context.clock.monotonic()

    def _print_prompt(self) -> None:
        click.echo("answer: ", nl=False)

    def _take_line(self, words: str | None) -> None:
        item, now_s = self._asked, self._context.clock.monotonic()
        if item is None:
            return
        if words is None:  # Ctrl-D
            click.echo()
            self._leave_item(item)
        # A line that was sent too soon cannot be meant for this question.
        elif not counts_as_answer(shown_s=self._shown_s, last_key_s=0.0, now_s=now_s):
            self._print_prompt()
        else:
            self._answer_item(item, words)

    def _answer_item(self, item: InboxItem, words: str) -> None:
        match decision_of(item, words, self._context.clock.now()):
            case None:
                if words.strip():
                    click.echo(f"Not a valid answer. Choose one of:\n{answer_choices(item)}")
                self._print_prompt()
            case "later":
                self._leave_item(item)
            case decision:
                self._decide_item(item, decision)

    def _leave_item(self, item: InboxItem) -> None:
        self._left.add(item.id)
        self._end_question(f"{item.kind} {item.id} stays in the inbox: `scaffold inbox`")

    def _decide_item(self, item: InboxItem, decision: InboxDecision) -> None:
        try:
            decide_items(self._context.store, [item.id], decision)
        except ScaffoldError as error:
            # Decided elsewhere in this moment, or the store is away: what it is now is seen at the next tick.
            click.echo(printable(error.in_full))
            self._print_prompt()
        else:
            self._end_question(f"{item.kind} {item.id}: {decision.to}")

    def _end_question(self, note: str) -> None:
        self._lines.stop()
        self._asked = None
        click.echo(f"{printable(note)}\n")
        self._screen.resume()
        held, self._held = self._held, []
        for recorded in held:
            self._screen.show(recorded)


def _ending_note(item: InboxItem) -> str:
    # Each note begins below the line of the prompt.
    if item.state == "open":
        return f"\n{item.kind} {item.id} stays in the inbox: `scaffold inbox`"
    if item.state in {"expired", "withdrawn"}:
        return f"\n{item.kind} {item.id} no longer needs an answer"
    return f"\n{item.kind} {item.id} was {item.state} elsewhere"


def answer_choices(item: InboxItem) -> str:
    """Return the possible answers and their meaning, in lines of at most 80 columns."""
    if choices := item.detail.get(CHOICES):
        return f"{choices_text(choices)}\nCtrl-D: later, in the inbox"
    return QUESTION_CHOICES if item.kind == "question" else APPROVAL_CHOICES


def decision_of(item: InboxItem, words: str, now: datetime) -> InboxDecision | Later | None:
    """Return the decision that a line means, as the inbox commands would make it; None if it is not an answer."""
    words = words.strip()
    if (choices := item.detail.get(CHOICES)) and chosen_answer(choices, words) is None:
        return None
    if item.kind == "question":
        return InboxDecision(to="answered", words=utf8_safe(words)) if words else None
    if words.lower() in {"l", "later"}:
        return "later"
    return _about_approval(words, now + DECISION_LIFETIME)


def _about_approval(words: str, until: datetime) -> InboxDecision | None:
    if scope := SCOPES.get(words.lower()):
        return InboxDecision(to="approved", words=None, scope=scope, valid_until=until)
    match parse_answer(words):
        case "allow":
            return InboxDecision(to="approved", words=None, scope="call", valid_until=until)
        case "deny":
            return InboxDecision(to="rejected", words=None, valid_until=until)
        case DenyBecause(reason=reason):
            return InboxDecision(to="rejected", words=utf8_safe(reason), valid_until=until)
        case "always" | "edits" | "singly" | None:
            return None
        case other:
            assert_never(other)
