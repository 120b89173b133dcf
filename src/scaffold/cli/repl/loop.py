"""The REPL's event loop: the user's messages and commands, the agent's turns, and their collisions."""

import asyncio
import contextlib
import os
import shutil
from collections.abc import Awaitable, Callable
from typing import Literal, assert_never

import click
from msgspec import structs

from scaffold.agent.agent_spec import TurnResult
from scaffold.cli.exit_codes import INTERRUPTED, OK
from scaffold.cli.render.terminal.style import can_redraw
from scaffold.cli.repl.approval_queue import ApprovalQueue, drawn_calls
from scaffold.cli.repl.dumb_terminal import DumbTerminal
from scaffold.cli.repl.input_completion import completer, completion_values
from scaffold.cli.repl.input_history import history_file
from scaffold.cli.repl.picker import PICKED, picked_commands
from scaffold.cli.repl.renderer import clipped_line
from scaffold.cli.repl.repl_profile import ReplProfile
from scaffold.cli.repl.terminal import PromptTerminal, terminal_colors
from scaffold.cli.repl.transcript import Transcript
from scaffold.cli.repl.user_input import (
    EXIT_WARNING_S,
    InputQueue,
    InputSubmitted,
    InterruptContext,
    InterruptPressed,
    ModeCycled,
    NewsArrived,
    PendingInput,
    QuitRequested,
    TurnFinished,
    UIEvent,
    on_interrupt,
)
from scaffold.cli.repl.view import FRAMES_PER_S, ReplView, TurnState, short_model
from scaffold.core.errors import ScaffoldError
from scaffold.core.model import Usage
from scaffold.core.ports import Clock
from scaffold.host.clock import SystemClock
from scaffold.llm.transport.live_context import IMPATIENT, Hurry
from scaffold.policy.permission.approval_gate import ApprovalQuestion
from scaffold.policy.secret.sources import redactor_for
from scaffold.session.agent_session import Session
from scaffold.session.current_conversation import CurrentConversation
from scaffold.session.options import SessionOptions
from scaffold.session.reporter import SessionObserver
from scaffold.session.running_tools import RunningTools
from scaffold.session.slash.prompt_commands import all_commands
from scaffold.session.slash.queries import subagent_usage
from scaffold.session.slash.syntax import AgentCommand, Command, parse_slash
from scaffold.session.slash_commands import needs_idle_agent, run_slash_command
from scaffold.session.user_command import is_user_command, user_command
from scaffold.store.user.conversations import StoredConversation
from scaffold.store.user_store import UserStore

GREETING = "\n/help lists commands and keys"
NewsPolicy = Literal["wake", "notify", "ignore"]
"""The effect of news on an idle agent: they wake it; after a stopped or failed turn they are announced once."""
FORCED_EXIT_S = 4.0
"""After a second Ctrl-C: anything that is still running then ends with the process."""


ProfileFactory = Callable[["Repl"], ReplProfile]


async def run_repl(
    options: SessionOptions,
    store: UserStore,
    stored: StoredConversation | None,
    model: str,
    profile: ProfileFactory,
    *,
    plain: bool = False,
) -> int:
    """Run a REPL on `stored`, or on a new conversation if that is None, until the user leaves; return the exit code.

    `plain` shows whole lines only; so does a terminal without escape sequences.
    """
    repl = Repl(options, store, profile, plain=plain or not can_redraw(os.environ))
    await repl.current.switch_to(stored, model)
    try:
        await repl.run()
    finally:
        await repl.current.close()
    conversation = repl.current.session.open_conversation.id if repl.current.has_messages else None
    if hint := repl.profile.exit_hint(conversation):
        with contextlib.suppress(OSError):  # the terminal may be gone
            click.echo(hint)
    return repl.exit_code


class Repl:
    """One REPL at one terminal."""

    def __init__(self, options: SessionOptions, store: UserStore, profile: ProfileFactory, *, plain: bool) -> None:
        self.exit_code = OK
        made = profile(self)
        self.profile = structs.replace(made, commands=all_commands(options.extensions.commands, made.commands))
        self._clock: Clock = SystemClock()
        self._turn_state = TurnState()
        self._events: asyncio.Queue[UIEvent] = asyncio.Queue()
        self._turn: asyncio.Task[None] | None = None
        self._news_listener: asyncio.Task[None] | None = None
        self._leaving = False
        self._on_news: NewsPolicy = "wake"
        self._terminal = self._make_terminal(options, redactor_for(os.environ, options.cwd).clean, plain=plain)
        self._pending = PendingInput(lambda words: self.current.session.user_content(words))  # noqa: PLW0108 - made later
        self._queue = InputQueue(self._pending, self._turn_state.later, self.profile.commands)
        self.transcript = Transcript(self._terminal, self._clock, pending=self._pending)
        self._tools = RunningTools(options.cwd, self._clock, self.transcript.call_finished)
        self.questions = ApprovalQueue(self._clock, self._show_question)
        self._hurry = Hurry()
        observer = SessionObserver(
            wrap_tool=self._tools.watch,
            incoming=self._pending,
            keeps_tool=self.profile.keeps_tool,
            extra_tools=self.profile.extra_tools,
            patience=structs.replace(IMPATIENT, hurry=self._hurry),
        )
        self.current = CurrentConversation(
            options, store, self.transcript, ask=self.questions.ask, observer=observer, opened=self._session_opened
        )
        self._view = self._terminal.view = ReplView(
            clock=self._clock,
            current=self.current,
            transcript=self.transcript,
            tools=self._tools,
            questions=self.questions,
            queue=self._queue,
            turn=self._turn_state,
            hurry=self._hurry,
        )

    async def run(self) -> None:
        """Run until the user leaves; a running turn is stopped then."""
        session, renderer = self.current.session, self._terminal.renderer
        mode = "" if session.modes.chosen == "default" else f", mode {session.modes.chosen}"
        title = clipped_line(f"{self.profile.name}, {short_model(session.model)}{mode}", renderer.width)
        place = clipped_line(f"{session.open_conversation.id}  {session.options.cwd}", renderer.width)
        self._terminal.show(f"{renderer.words(title, 'bold')}\n{renderer.words(place + GREETING, 'dim')}")
        self._show_resumed()
        try:
            async with asyncio.TaskGroup() as group:
                terminal = group.create_task(self._terminal.run())
                ticker = group.create_task(self._tick_status())
                self._await_input(group)
                while not self._leaving:
                    event = await self._events.get()
                    try:
                        await self._dispatch(event, group)
                    except ScaffoldError as error:
                        self.transcript.error(error.what, error.fix)
                    self._terminal.refresh()
                # The terminal goes first: its settings are restored even if the turn
                # does not end and the process is forced to exit.
                terminal.cancel()
                await asyncio.wait([terminal])
                self._show_unsent()
                await self._end_turn()
                ticker.cancel()
                self._stop_listening()
        except asyncio.CancelledError:
            self._show_unsent()
            _schedule_forced_exit()
            raise
        except BaseExceptionGroup as failed:
            # The command line reports a ScaffoldError in two lines; it does not look into groups.
            raise failed.exceptions[0] from None

    def _show_resumed(self) -> None:
        if recap := self.current.recap():
            self.transcript.replay(*self.current.last_turns())
            self.transcript.notice(recap)

    def run_after_turn(self, command: str) -> None:
        """Execute a slash command as soon as the running turn is over."""
        self._turn_state.later.append(command)

    def _make_terminal(
        self, options: SessionOptions, clean: Callable[[str], str], *, plain: bool
    ) -> PromptTerminal | DumbTerminal:
        if plain:
            return DumbTerminal(self._post_event, clean=clean)
        return PromptTerminal(
            self._post_event,
            history=history_file(options.cwd),
            completer=completer(
                options.cwd, lambda command: completion_values(command, self.current), self.profile.commands
            ),
            colours=terminal_colors(os.environ),
            clean=clean,
        )

    def _session_opened(self, session: Session) -> None:
        self.transcript.finish_turn()
        session.todos.watch(self.transcript.todos)

    def _post_event(self, event: UIEvent) -> None:
        # Ctrl-C takes effect at once: it is about what was typed before.
        if isinstance(event, InterruptPressed):
            self._interrupt()
        self._events.put_nowait(event)

    async def _dispatch(self, event: UIEvent, group: asyncio.TaskGroup) -> None:
        match event:
            case InputSubmitted(words=words):
                await self._submit(words, group)
            case InterruptPressed():
                pass  # it took effect in `_post_event`
            case ModeCycled():
                self.current.session.modes.cycle()
            case QuitRequested(lost=lost):
                self._leaving = True
                self.exit_code = INTERRUPTED if lost else OK
            case TurnFinished():
                await self._turn_finished(group)
            case NewsArrived():
                # A turn may have begun since this event was posted, and its first request takes the news.
                if self._turn is None and self.current.session.peers.waiting:
                    if self._on_news == "wake":
                        self.transcript.notice("messages arrived, and the agent reads them")
                        self._start_turn(self.current.session.turn(()), group)
                    elif self._on_news == "notify":
                        self._on_news = "ignore"
                        self.transcript.notice("messages arrived; the agent reads them with your next message")
            case _:
                assert_never(event)

    async def _submit(self, words: str, group: asyncio.TaskGroup) -> None:
        """Execute a command or send a message: now, or as soon as the agent can take it."""
        if self._turn is None:
            await self._take_line(words, group)
            return
        command = parse_slash(words, self.profile.commands)
        # To choose from a list is to switch.
        picks = command in PICKED and isinstance(self._terminal, PromptTerminal)
        waits = command is not None and (needs_idle_agent(command) or picks)
        if command is not None and not waits:
            self.transcript.user_message(words)
            await self._execute_command(command)
        elif waits or is_user_command(words):
            # It changes what the running turn works on.
            self._turn_state.later.append(words)
        elif words.strip():
            self._queue.add_message(words)
        if self._terminal.echoes and words in self._queue.waiting and self.questions.current is None:
            self.transcript.notice("queued")  # other terminals show what waits

    async def _take_line(self, words: str, group: asyncio.TaskGroup) -> None:
        """Do what a line says while no turn runs; a command that may take long is a turn, so that it can be stopped."""
        command = parse_slash(words, self.profile.commands)
        if is_user_command(words):
            self._start_user_command(words, group)
        elif command is None or isinstance(command, AgentCommand):
            if words.strip():
                self._start_turn_with(words, group, command)
        elif needs_idle_agent(command):
            self.transcript.user_message(words)
            self._start_turn(self._execute_command(command), group)
        else:
            self.transcript.user_message(words)
            await self._execute_command(command)
        if self._turn is None:
            self._await_input(group)

    async def _execute_command(self, command: Command) -> None:
        self._stop_listening()
        terminal = self._terminal
        try:
            if command in PICKED and isinstance(terminal, PromptTerminal):
                chosen = await terminal.in_place_of_line(lambda: picked_commands(command, self.current))
            else:
                chosen = [command]
            for each in chosen:
                await self._answer_command(each)
        except ScaffoldError as error:
            self.transcript.error(error.what, error.fix)
        self._update_subagent_usage()

    async def _answer_command(self, command: Command) -> None:
        width = shutil.get_terminal_size().columns
        reply = await run_slash_command(command, self.current, width=width, commands=self.profile.commands)
        match reply.kind:
            case "answer":
                self.transcript.answer(reply.text)
            case "patch":
                await self._terminal.page(self._terminal.renderer.patch(reply.text))
            case "notice":
                self.transcript.notice(reply.text)
            case "resumed":
                self._show_resumed()
            case "quit":
                self._leaving = True
            case _:
                assert_never(reply.kind)

    def _update_subagent_usage(self) -> None:
        # The previous value stays while the store cannot be read.
        with contextlib.suppress(ScaffoldError):
            self._turn_state.subagent_usage = subagent_usage(self.current.session.peers.subagents()) or Usage()

    def _start_turn_with(self, words: str, group: asyncio.TaskGroup, command: AgentCommand | None) -> None:
        self._on_news = "wake"
        self.transcript.user_message(words)
        self._start_turn(self.current.say(words) if command is None else self.current.send(command), group)

    def _start_user_command(self, words: str, group: asyncio.TaskGroup) -> None:
        self.transcript.user_message(words)
        self._turn_state.command = words
        self._start_turn(self._run_user_command(words), group)

    async def _run_user_command(self, words: str) -> None:
        try:
            ran = await self.current.run_command(user_command(words))
        finally:
            self._turn_state.command = ""
        self.transcript.command_output(ran)

    def _start_turn(self, turn: Awaitable[TurnResult | None], group: asyncio.TaskGroup) -> None:
        self._stop_listening()
        state = self._turn_state
        state.started_s, state.busy, state.stopping = self._clock.monotonic(), True, False
        self._turn = group.create_task(self._run_turn(turn))

    async def _run_turn(self, turn: Awaitable[TurnResult | None]) -> None:
        try:
            result = await turn
            if result is not None and result.stop == "refused":
                self.transcript.error("the model declined to answer", "Rephrase the request, or try another `/model`.")
        except ScaffoldError as error:
            self._on_news = "notify"
            self.transcript.finish_turn()
            self.transcript.error(error.what, error.fix)
        except asyncio.CancelledError:
            if not self._turn_state.stopping:
                raise
            self._on_news = "notify"
            self.transcript.finish_turn()
            self.transcript.notice("stopped; the conversation is kept: say how to continue", "yellow")
        finally:
            self.transcript.finish_turn()
            self._events.put_nowait(TurnFinished())

    async def _turn_finished(self, group: asyncio.TaskGroup) -> None:
        stopped = self._turn_state.stopping
        self._turn, self._turn_state.busy, self._turn_state.stopping = None, False, False
        # What the user typed for a stopped turn goes back into the line: it is
        # not sent without them, and it is not lost.
        if stopped and (waiting := self._queue.take_back_messages()):
            self._terminal.replace("\n".join(filter(None, (waiting, self._terminal.typed))))
        words = self._queue.next_line()
        if not words:
            self._await_input(group)
        while words:
            await self._take_line(words, group)
            words = "" if self._turn_state.busy else self._queue.next_line()

    def _await_input(self, group: asyncio.TaskGroup) -> None:
        if self._leaving:
            return
        if self._news_listener is None and self._on_news != "ignore":
            self._news_listener = group.create_task(self._listen_for_news())
        self._terminal.ready()

    async def _listen_for_news(self) -> None:
        try:
            await self.current.session.peers.arrival()
        except ScaffoldError as error:
            self._on_news = "ignore"
            self.transcript.error(error.what, error.fix)
        self._news_listener = None
        self._events.put_nowait(NewsArrived())

    def _stop_listening(self) -> None:
        if self._news_listener is not None:
            self._news_listener.cancel()
            self._news_listener = None

    def _interrupt(self) -> None:
        state, now_s = self._turn_state, self._clock.monotonic()
        context = InterruptContext(
            now_s=now_s,
            asked=self.questions.current is not None,
            busy=self._turn is not None,
            stopping=state.stopping,
            typed=bool(self._terminal.typed),
            warned_s=state.warned_s,
        )
        match on_interrupt(context):
            case "deny":
                self._view.answer("deny")
            case "stop":
                self._stop_turn()
            case "end":
                self._leaving, self.exit_code = True, INTERRUPTED
            case "clear":
                self._terminal.replace("")
            case "warn":
                state.warned_s = now_s
                self._terminal.ready()
            case "leave":
                self._leaving = True

    def _stop_turn(self) -> None:
        if self._turn is not None:
            self._turn_state.stopping = True
            self._turn.cancel()

    async def _end_turn(self) -> None:
        # What does not stop is ended by the forced exit.
        if self._turn is None:
            return
        _schedule_forced_exit()
        if not self._turn_state.stopping:
            self._stop_turn()
        with contextlib.suppress(asyncio.CancelledError):
            await self._turn

    def _show_unsent(self) -> None:
        for words in (*self._queue.waiting, self._terminal.typed):
            if words.strip():
                self.transcript.notice(f"not sent: {words}")

    def _show_question(self, question: ApprovalQuestion) -> None:
        for drawn, change in drawn_calls(question, self._tools, self._terminal.renderer):
            self.transcript.question(drawn, change)
        self._terminal.ring()

    async def _tick_status(self) -> None:
        frame, state = 0, self._turn_state
        while True:
            await self._clock.sleep(1 / FRAMES_PER_S)
            frame += 1
            subagents, busy = self.current.session.peers.running, self._turn is not None
            if frame % FRAMES_PER_S == 0 and (subagents or busy):
                self._update_subagent_usage()
            if busy or subagents or self.questions.current or state.warned_s is not None:
                self._terminal.refresh()
            if state.warned_s is not None and self._clock.monotonic() - state.warned_s > EXIT_WARNING_S:
                state.warned_s = None


def _schedule_forced_exit() -> None:
    # Something in the process may not end, such as a call of a library.
    asyncio.get_running_loop().call_later(FORCED_EXIT_S, os._exit, INTERRUPTED)
