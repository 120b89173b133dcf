"""A talk: what the user types, what the agent does, and what becomes of either when the other one goes on."""

import asyncio
import contextlib
import os
import shutil
from collections.abc import Awaitable, Sequence
from typing import Literal, assert_never

import click

from scaffold.agent.turn_loop import TurnResult
from scaffold.cli.exit_codes import INTERRUPTED, OK
from scaffold.cli.repl import approval_text
from scaffold.cli.repl.approval_queue import ApprovalQueue
from scaffold.cli.repl.completion import completer
from scaffold.cli.repl.completion_values import completion_values
from scaffold.cli.repl.dumb_terminal import DumbTerminal
from scaffold.cli.repl.keys import EXIT_WARNING_S, InterruptContext, on_interrupt
from scaffold.cli.repl.pending_input import PendingInput
from scaffold.cli.repl.profile import RALPH_PROFILE, ReplProfile
from scaffold.cli.repl.renderer import one_line
from scaffold.cli.repl.running_tools import RunningTools
from scaffold.cli.repl.status_line import FRAMES_PER_S, short_model
from scaffold.cli.repl.terminal import PromptTerminal, open_history, terminal_colors
from scaffold.cli.repl.transcript import Transcript
from scaffold.cli.repl.ui_port import (
    InputSubmitted,
    InterruptPressed,
    NewsArrived,
    QuitRequested,
    TerminalUI,
    TurnFinished,
    UIEvent,
)
from scaffold.cli.repl.view_adapter import ReplViewAdapter, TurnState
from scaffold.core.conversation import Image, Text
from scaffold.core.errors import ScaffoldError
from scaffold.core.model import Usage
from scaffold.core.ports import Clock
from scaffold.host.clock import SystemClock
from scaffold.host.user_dirs import user_dirs
from scaffold.policy.permission.approval_gate import ApprovalQuestion
from scaffold.policy.secret.sources import redactor_for
from scaffold.session.agent_session import Session, SessionObserver
from scaffold.session.current_conversation import CurrentConversation
from scaffold.session.options import SessionOptions
from scaffold.session.slash_commands import needs_idle_agent, run_slash_command
from scaffold.session.slash_queries import subagent_usage
from scaffold.session.slash_syntax import parse_slash
from scaffold.store.user.conversations import StoredConversation
from scaffold.store.user_store import UserStore

HISTORY_FILE = "ralph-history"
GREETING = "\n/help lists commands and keys"
NewsPolicy = Literal["open", "told", "shut"]
"""News wake the agent; they are told and wait, since its last turn failed or was stopped; they were told."""
FORCED_EXIT_S = 4.0
"""After a second Ctrl-C: whatever has not ended by then is left to die with the process."""


async def run_ralph_repl(order: SessionOptions, store: UserStore, stored: StoredConversation | None, model: str) -> int:
    """Talk with the user until they have enough, and return the exit code; a `session.Talk`."""
    return await run_repl(RALPH_PROFILE, order, store, stored, model)


async def run_repl(
    trade: ReplProfile, order: SessionOptions, store: UserStore, stored: StoredConversation | None, model: str
) -> int:
    """Talk with the user about what the trade is for; else as `run_ralph_repl`."""
    talker = Repl(order, store, trade)
    trade.attach(talker)
    await talker.current.switch_to(stored, model)
    try:
        await talker.run()
    finally:
        await talker.current.close()
    if farewell := trade.farewell(talker.current.session.open_conversation.id if talker.current.has_messages else None):
        with contextlib.suppress(OSError):  # nobody reads it where the terminal is gone
            click.echo(farewell)
    return talker.code


class Repl:
    """One talk at one terminal; a `deeds.Talk`, and a view's `Parts`."""

    def __init__(self, order: SessionOptions, store: UserStore, trade: ReplProfile) -> None:
        self.code = OK
        self.profile = trade
        self.clock: Clock = SystemClock()
        self.turn_state = TurnState()
        self._view = ReplViewAdapter(self)
        self._events: asyncio.Queue[UIEvent] = asyncio.Queue()
        self._turn: asyncio.Task[None] | None = None
        self._listening: asyncio.Task[None] | None = None
        self._leaving = False
        self._ear: NewsPolicy = "open"
        self.face = self._faced(order)
        self.queued = PendingInput(self._said)
        redactor = redactor_for(os.environ, order.cwd)
        news = self.queued
        self.narrator = Transcript(self.face, self.clock, queued=lambda: (news.given, news.text), clean=redactor.clean)
        self.work = RunningTools(order.cwd, self.clock, self.narrator.done)
        self.questions = ApprovalQueue(self.clock, self._put)
        self.current = CurrentConversation(
            order,
            store,
            self.narrator,
            ask=self.questions.ask,
            observer=self._onlooker(),
            opened=self._session_opened,
        )

    async def run(self) -> None:
        """Talk until the user leaves; the turn that goes on then ends first."""
        self._greet()
        try:
            async with asyncio.TaskGroup() as group:
                face = group.create_task(self.face.run())
                ticker = group.create_task(self._tick())
                self._rest(group)
                while not self._leaving:
                    await self._take(await self._events.get(), group)
                face.cancel()
                await self._end_turn()
                ticker.cancel()
                self._hush()
        except asyncio.CancelledError:
            _schedule_forced_exit()
            raise
        except BaseExceptionGroup as failed:
            raise failed.exceptions[0] from None

    def run_after_turn(self, command: str) -> None:
        """Carry a command out as soon as the turn that goes on is over."""
        self.turn_state.later.append(command)

    def _session_opened(self, session: Session) -> None:
        self.narrator.begin()
        session.todos.watch(self.narrator.todos)

    def _onlooker(self) -> SessionObserver:
        trade = self.profile
        return SessionObserver(
            wrap_tool=self.work.watch, news=self.queued, keeps_tool=trade.keeps, extra_tools=trade.tools()
        )

    def _said(self, words: str) -> Sequence[Text | Image]:
        return self.current.session.user_content(words)

    def _faced(self, order: SessionOptions) -> TerminalUI:
        if os.environ.get("TERM", "dumb") in {"dumb", "unknown", ""}:
            return DumbTerminal(self._view, self._post)
        return PromptTerminal(
            self._view,
            self._post,
            history=open_history(user_dirs(os.environ).data / HISTORY_FILE),
            completer=completer(order.cwd, lambda command: completion_values(command, self.current), self.profile.own),
            look=terminal_colors(os.environ),
        )

    def _post(self, event: UIEvent) -> None:
        """Take what comes from the terminal; Ctrl-C counts for what was typed before it, and not after it."""
        if isinstance(event, InterruptPressed):
            self._interrupted()
        self._events.put_nowait(event)

    def _greet(self) -> None:
        session = self.current.session
        mode = "" if session.modes.current == "default" else f", mode {session.modes.current}"
        pen = self.face.pen
        head = one_line(f"{self.profile.name}, {short_model(session.model)}{mode}", pen.width)
        place = one_line(f"{session.open_conversation.id}  {session.options.cwd}", pen.width)
        self.face.show(f"{pen.words(head, 'bold')}\n{pen.words(place + GREETING, 'dim')}")
        if told := self.current.recap():
            self.narrator.tell(told)

    async def _take(self, event: UIEvent, group: asyncio.TaskGroup) -> None:
        try:
            await self._heed(event, group)
        except ScaffoldError as trouble:
            self.narrator.trouble(trouble.what, trouble.fix)
        self.face.refresh()

    async def _heed(self, event: UIEvent, group: asyncio.TaskGroup) -> None:
        match event:
            case InputSubmitted(words=words):
                await self._typed(words, group)
            case InterruptPressed():
                pass  # it was attended to when it came
            case QuitRequested(lost=lost):
                self._leaving = True
                self.code = INTERRUPTED if lost else OK
            case TurnFinished():
                await self._ended(group)
            case NewsArrived():
                if self._turn is None and self.current.session.peers.waiting:
                    self._hear(group)
            case _:
                assert_never(event)

    def _hear(self, group: asyncio.TaskGroup) -> None:
        """Let the agent look at news, unless the user wanted it to stop or it could not go on."""
        if self._ear == "open":
            self.narrator.tell("news has come, and the agent looks at it")
            self._begin(self.current.session.agent.turn(()), group)
        elif self._ear == "told":
            self._ear = "shut"
            self.narrator.tell("news has come; the agent looks at it with what you say next")

    async def _typed(self, words: str, group: asyncio.TaskGroup) -> None:
        """Carry a command out, or say the words to the agent: now, or as soon as it can take them."""
        command = parse_slash(words)
        if (told := self.profile.answer(words)) is not None:
            self.narrator.say(words)
            self.narrator.answer(told)
        elif command is not None and self._turn is not None and needs_idle_agent(command):
            self.turn_state.later.append(words)
        elif command is not None:
            self.narrator.say(words)
            await self._obey(words)
        elif self._turn is not None:
            self.queued.add(words)
        elif words.strip():
            self._say(words, group)
            return
        if self._turn is None:
            self._rest(group)

    async def _obey(self, words: str) -> None:
        command = parse_slash(words)
        try:
            if command is not None:
                self._hush()
                width = shutil.get_terminal_size().columns
                reply = await run_slash_command(command, self.current, width=width, extra=self.profile.own)
                self._leaving = self._leaving or reply.kind == "quit"
                if reply.kind == "answer":
                    self.narrator.answer(reply.text)
                elif reply.kind == "notice":
                    self.narrator.tell(reply.text)
        except ScaffoldError as trouble:
            self.narrator.trouble(trouble.what, trouble.fix)
        self._count_crew()

    def _count_crew(self) -> None:
        """Take what subagents used; as long as that cannot be read, what was known before stays."""
        with contextlib.suppress(ScaffoldError):
            self.turn_state.subagent_usage = subagent_usage(self.current.session.peers.roster()) or Usage()

    def _say(self, words: str, group: asyncio.TaskGroup) -> None:
        self._ear = "open"
        self.narrator.say(words)
        self._begin(self.current.say(words), group)

    def _begin(self, turn: Awaitable[TurnResult], group: asyncio.TaskGroup) -> None:
        self._hush()
        self.turn_state.started_s, self.turn_state.busy, self.turn_state.stopping = self.clock.monotonic(), True, False
        self._turn = group.create_task(self._worked(turn))

    async def _worked(self, turn: Awaitable[TurnResult]) -> None:
        """Take a turn to its end, whatever that is."""
        try:
            finish = await turn
            if finish.stop == "refused":
                self.narrator.trouble("the model declined to answer", "Say it in another way, or try another `/model`.")
        except ScaffoldError as trouble:
            self._ear = "told"
            self.narrator.finish_turn()
            self.narrator.trouble(trouble.what, trouble.fix)
        except asyncio.CancelledError:
            if not self.turn_state.stopping:
                raise
            self._ear = "told"
            self.narrator.finish_turn()
            self.narrator.tell("stopped; what was said is kept: say how to go on", "yellow")
        finally:
            self.narrator.finish_turn()
            self._events.put_nowait(TurnFinished())

    async def _ended(self, group: asyncio.TaskGroup) -> None:
        """Go on with what waited for the turn's end: commands, words, news."""
        stopped = self.turn_state.stopping
        self._turn, self.turn_state.busy, self.turn_state.stopping = None, False, False
        if stopped and (waiting := self.queued.take_back()):
            self.face.replace("\n".join(filter(None, (waiting, self.face.typed))))
        while self.turn_state.later:
            words = self.turn_state.later.popleft()
            self.narrator.say(words)
            await self._obey(words)
        if words := self.queued.take_back():
            self._say(words, group)
        else:
            self._rest(group)

    def _rest(self, group: asyncio.TaskGroup) -> None:
        """Let the user go on, and listen for news."""
        if self._leaving:
            return
        if self._listening is None and self._ear != "shut":
            self._listening = group.create_task(self._listen())
        self.face.ready()

    async def _listen(self) -> None:
        try:
            await self.current.session.peers.arrival()
        except ScaffoldError as trouble:
            self._ear = "shut"
            self.narrator.trouble(trouble.what, trouble.fix)
        self._listening = None
        self._events.put_nowait(NewsArrived())

    def _hush(self) -> None:
        """Listen for news no more."""
        if self._listening is not None:
            self._listening.cancel()
            self._listening = None

    def _interrupted(self) -> None:
        now_s = self.clock.monotonic()
        moment = InterruptContext(
            now_s=now_s,
            asked=self.questions.current is not None,
            busy=self._turn is not None,
            stopping=self.turn_state.stopping,
            typed=bool(self.face.typed),
            warned_s=self.turn_state.warned_s,
        )
        match on_interrupt(moment):
            case "deny":
                self._view.answer("deny")
            case "stop":
                self._stop()
            case "end":
                self._leaving, self.code = True, INTERRUPTED
            case "clear":
                self.face.replace("")
            case "warn":
                self.turn_state.warned_s = now_s
                self.face.ready()
            case "leave":
                self._leaving = True

    def _stop(self) -> None:
        if self._turn is not None:
            self.turn_state.stopping = True
            self._turn.cancel()

    async def _end_turn(self) -> None:
        """End the turn that goes on, if one does; what does not end is left behind."""
        if self._turn is None:
            return
        _schedule_forced_exit()
        if not self.turn_state.stopping:
            self._stop()
        with contextlib.suppress(asyncio.CancelledError):
            await self._turn

    def _put(self, question: ApprovalQuestion) -> None:
        """Show a question, and ring."""
        change = approval_text.proposed_change(question, self.work.call_of(question))
        self.narrator.question(approval_text.format_question(question, change, self.face.pen), change)
        self.face.ring()

    async def _tick(self) -> None:
        """Let the status line move while something goes on."""
        frame = 0
        while True:
            await self.clock.sleep(1 / FRAMES_PER_S)
            frame += 1
            company = self.current.session.peers
            if frame % FRAMES_PER_S == 0 and (company.running or self._turn is not None):
                self._count_crew()
            if (
                self._turn is not None
                or self.turn_state.warned_s is not None
                or self.questions.current
                or company.running
            ):
                self.face.refresh()
            if (
                self.turn_state.warned_s is not None
                and self.clock.monotonic() - self.turn_state.warned_s > EXIT_WARNING_S
            ):
                self.turn_state.warned_s = None


def _schedule_forced_exit() -> None:
    """Let the process end soon, even if something in it does not."""
    asyncio.get_running_loop().call_later(FORCED_EXIT_S, os._exit, INTERRUPTED)
