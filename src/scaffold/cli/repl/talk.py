"""A talk: what the user types, what the agent does, and what becomes of either when the other one goes on."""

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Sequence
from typing import Literal, assert_never

import click

from scaffold.agent.agent import Finish
from scaffold.agent.discretion import redactor_for
from scaffold.agent.slash import parse_slash
from scaffold.cli.exits import INTERRUPTED, OK
from scaffold.cli.inquiry import used_by
from scaffold.cli.order import Order
from scaffold.cli.repl import asking
from scaffold.cli.repl.chair import Chair
from scaffold.cli.repl.completion import completer
from scaffold.cli.repl.deeds import carry_out, needs_rest
from scaffold.cli.repl.face import Arrived, Ended, Event, Face, Interrupted, Left, Typed
from scaffold.cli.repl.keys import PATIENCE_S, Moment, on_interrupt
from scaffold.cli.repl.names import names_for
from scaffold.cli.repl.narrator import Narrator
from scaffold.cli.repl.pen import clipped
from scaffold.cli.repl.plain import Plain
from scaffold.cli.repl.questions import Questions
from scaffold.cli.repl.queued import Queued
from scaffold.cli.repl.statusline import FRAMES_PER_S, short_model
from scaffold.cli.repl.terminal import Terminal, looks, opened_history
from scaffold.cli.repl.trade import RALPH, Trade
from scaffold.cli.repl.view import Going, View
from scaffold.cli.repl.work import Work
from scaffold.cli.session import Onlooker
from scaffold.core.conversation import Image, Text
from scaffold.core.errors import ScaffoldError
from scaffold.core.model import Usage
from scaffold.core.ports import Clock
from scaffold.host.clock import SystemClock
from scaffold.host.dirs import user_dirs
from scaffold.policy.consent import Question
from scaffold.store.conversations import StoredConversation
from scaffold.store.user import UserStore

HISTORY = "ralph-history"
GREETING = "\n/help lists commands and keys"
Ear = Literal["open", "told", "shut"]
"""News wake the agent; they are told and wait, since its last turn failed or was stopped; they were told."""
LAST_RESORT_S = 4.0
"""After a second Ctrl-C: whatever has not ended by then is left to die with the process."""


async def talk(order: Order, store: UserStore, stored: StoredConversation | None, model: str) -> int:
    """Talk with the user until they have enough, and return the exit code; a `session.Talk`."""
    return await talk_as(RALPH, order, store, stored, model)


async def talk_as(trade: Trade, order: Order, store: UserStore, stored: StoredConversation | None, model: str) -> int:
    """Talk with the user about what the trade is for; else as `talk`."""
    talker = Talker(order, store, trade)
    trade.sit_down(talker)
    await talker.chair.take(stored, model)
    try:
        await talker.run()
    finally:
        await talker.chair.leave()
    if farewell := trade.farewell(talker.chair.session.sitting.id if talker.chair.kept else None):
        with contextlib.suppress(OSError):  # nobody reads it where the terminal is gone
            click.echo(farewell)
    return talker.code


class Talker:
    """One talk at one terminal; a `deeds.Talk`, and a view's `Parts`."""

    def __init__(self, order: Order, store: UserStore, trade: Trade) -> None:
        self.code = OK
        self.trade = trade
        self.clock: Clock = SystemClock()
        self.going = Going()
        self._view = View(self)
        self._events: asyncio.Queue[Event] = asyncio.Queue()
        self._turn: asyncio.Task[None] | None = None
        self._listening: asyncio.Task[None] | None = None
        self._leaving = False
        self._ear: Ear = "open"
        self.face = self._faced(order)
        self.queued = Queued(self._said)
        redactor = redactor_for(os.environ, order.cwd)
        news = self.queued
        self.narrator = Narrator(self.face, self.clock, queued=lambda: (news.given, news.text), clean=redactor.clean)
        self.work = Work(order.cwd, self.clock, self.narrator.done)
        self.questions = Questions(self.clock, self._put)
        self.chair = Chair(order, store, self.narrator, ask=self.questions.ask, onlooker=self._onlooker)

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
            _end_in_any_case()
            raise
        except BaseExceptionGroup as failed:
            raise failed.exceptions[0] from None

    def leave(self) -> None:
        """End the talk."""
        self._leaving = True

    def later(self, command: str) -> None:
        """Carry a command out as soon as the turn that goes on is over."""
        self.going.later.append(command)

    def _onlooker(self) -> Onlooker:
        trade = self.trade
        return Onlooker(watch=self.work.watch, news=self.queued, keeps=trade.keeps, brings=trade.tools())

    def _said(self, words: str) -> Sequence[Text | Image]:
        return self.chair.session.said(words)

    def _faced(self, order: Order) -> Face:
        if os.environ.get("TERM", "dumb") in {"dumb", "unknown", ""}:
            return Plain(self._view, self._post)
        return Terminal(
            self._view,
            self._post,
            history=opened_history(user_dirs(os.environ).data / HISTORY),
            completer=completer(order.cwd, lambda command: names_for(command, self.chair), self.trade.own),
            look=looks(os.environ),
        )

    def _post(self, event: Event) -> None:
        """Take what comes from the terminal; Ctrl-C counts for what was typed before it, and not after it."""
        if isinstance(event, Interrupted):
            self._interrupted()
        self._events.put_nowait(event)

    def _greet(self) -> None:
        session = self.chair.session
        mode = "" if session.modes.current == "default" else f", mode {session.modes.current}"
        pen = self.face.pen
        head = clipped(f"{self.trade.name}, {short_model(session.model)}{mode}", pen.width)
        place = clipped(f"{session.sitting.id}  {session.order.cwd}", pen.width)
        self.face.show(f"{pen.words(head, 'bold')}\n{pen.words(place + GREETING, 'dim')}")
        if told := self.chair.recap():
            self.narrator.tell(told)

    async def _take(self, event: Event, group: asyncio.TaskGroup) -> None:
        try:
            await self._heed(event, group)
        except ScaffoldError as trouble:
            self.narrator.trouble(trouble.what, trouble.fix)
        self.face.refresh()

    async def _heed(self, event: Event, group: asyncio.TaskGroup) -> None:
        match event:
            case Typed(words=words):
                await self._typed(words, group)
            case Interrupted():
                pass  # it was attended to when it came
            case Left(lost=lost):
                self._leaving = True
                self.code = INTERRUPTED if lost else OK
            case Ended():
                await self._ended(group)
            case Arrived():
                if self._turn is None and self.chair.session.company.waiting:
                    self._hear(group)
            case _:
                assert_never(event)

    def _hear(self, group: asyncio.TaskGroup) -> None:
        """Let the agent look at news, unless the user wanted it to stop or it could not go on."""
        if self._ear == "open":
            self.narrator.tell("news has come, and the agent looks at it")
            self._begin(self.chair.session.agent.turn(()), group)
        elif self._ear == "told":
            self._ear = "shut"
            self.narrator.tell("news has come; the agent looks at it with what you say next")

    async def _typed(self, words: str, group: asyncio.TaskGroup) -> None:
        """Carry a command out, or say the words to the agent: now, or as soon as it can take them."""
        command = parse_slash(words)
        if (told := self.trade.answer(words)) is not None:
            self.narrator.say(words)
            self.narrator.answer(told)
        elif command is not None and self._turn is not None and needs_rest(command):
            self.going.later.append(words)
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
                await carry_out(command, self)
        except ScaffoldError as trouble:
            self.narrator.trouble(trouble.what, trouble.fix)
        self._count_crew()

    def _count_crew(self) -> None:
        """Take what subagents used; as long as that cannot be read, what was known before stays."""
        with contextlib.suppress(ScaffoldError):
            self.going.crew = used_by(self.chair.session.company.roster()) or Usage()

    def _say(self, words: str, group: asyncio.TaskGroup) -> None:
        self._ear = "open"
        self.narrator.say(words)
        self._begin(self._spoken(words), group)

    async def _spoken(self, words: str) -> Finish:
        self.chair.entitle(words)
        return await self.chair.session.say(words)

    def _begin(self, turn: Awaitable[Finish], group: asyncio.TaskGroup) -> None:
        self._hush()
        self.going.begun_s, self.going.busy, self.going.stopping = self.clock.monotonic(), True, False
        self._turn = group.create_task(self._worked(turn))

    async def _worked(self, turn: Awaitable[Finish]) -> None:
        """Take a turn to its end, whatever that is."""
        try:
            finish = await turn
            if finish.stop == "refused":
                self.narrator.trouble("the model declined to answer", "Say it in another way, or try another `/model`.")
        except ScaffoldError as trouble:
            self._ear = "told"
            self.narrator.cut()
            self.narrator.trouble(trouble.what, trouble.fix)
        except asyncio.CancelledError:
            if not self.going.stopping:
                raise
            self._ear = "told"
            self.narrator.cut()
            self.narrator.tell("stopped; what was said is kept: say how to go on", "yellow")
        finally:
            self.narrator.cut()
            self._events.put_nowait(Ended())

    async def _ended(self, group: asyncio.TaskGroup) -> None:
        """Go on with what waited for the turn's end: commands, words, news."""
        stopped = self.going.stopping
        self._turn, self.going.busy, self.going.stopping = None, False, False
        if stopped and (waiting := self.queued.back()):
            self.face.replace("\n".join(filter(None, (waiting, self.face.typed))))
        while self.going.later:
            words = self.going.later.popleft()
            self.narrator.say(words)
            await self._obey(words)
        if words := self.queued.back():
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
            await self.chair.session.company.arrival()
        except ScaffoldError as trouble:
            self._ear = "shut"
            self.narrator.trouble(trouble.what, trouble.fix)
        self._listening = None
        self._events.put_nowait(Arrived())

    def _hush(self) -> None:
        """Listen for news no more."""
        if self._listening is not None:
            self._listening.cancel()
            self._listening = None

    def _interrupted(self) -> None:
        now_s = self.clock.monotonic()
        moment = Moment(
            now_s=now_s,
            asked=self.questions.current is not None,
            busy=self._turn is not None,
            stopping=self.going.stopping,
            typed=bool(self.face.typed),
            warned_s=self.going.warned_s,
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
                self.going.warned_s = now_s
                self.face.ready()
            case "leave":
                self._leaving = True

    def _stop(self) -> None:
        if self._turn is not None:
            self.going.stopping = True
            self._turn.cancel()

    async def _end_turn(self) -> None:
        """End the turn that goes on, if one does; what does not end is left behind."""
        if self._turn is None:
            return
        _end_in_any_case()
        if not self.going.stopping:
            self._stop()
        with contextlib.suppress(asyncio.CancelledError):
            await self._turn

    def _put(self, question: Question) -> None:
        """Show a question, and ring."""
        change = asking.change_of(question, self.work.call_of(question))
        self.narrator.question(asking.put(question, change, self.face.pen), change)
        self.face.ring()

    async def _tick(self) -> None:
        """Let the status line move while something goes on."""
        frame = 0
        while True:
            await self.clock.sleep(1 / FRAMES_PER_S)
            frame += 1
            company = self.chair.session.company
            if frame % FRAMES_PER_S == 0 and (company.running or self._turn is not None):
                self._count_crew()
            if self._turn is not None or self.going.warned_s is not None or self.questions.current or company.running:
                self.face.refresh()
            if self.going.warned_s is not None and self.clock.monotonic() - self.going.warned_s > PATIENCE_S:
                self.going.warned_s = None


def _end_in_any_case() -> None:
    """Let the process end soon, even if something in it does not."""
    asyncio.get_running_loop().call_later(LAST_RESORT_S, os._exit, INTERRUPTED)
