"""A session of `ralph`: one agent wired with its model, tools, gate and money, for a one-shot and the REPL alike."""

import os
import platform
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Protocol

import msgspec
from msgspec import Struct

from scaffold.agent.agent import Agent, Books, Brief, Finish
from scaffold.agent.attachments import attach
from scaffold.agent.company import Company
from scaffold.agent.crew import Commission
from scaffold.agent.discretion import redactor_for
from scaffold.agent.instructions import find_instructions
from scaffold.agent.journal import noting
from scaffold.agent.outside import Joined, News, NoNews, Outside
from scaffold.agent.prompts import session_prompt
from scaffold.agent.session_context import Scene, SessionContext
from scaffold.cli.models import opened_model, unheld, usable_model
from scaffold.cli.order import Charge, Order
from scaffold.cli.outcome import Tally
from scaffold.cli.sandbox import enclosure_for, shortfall
from scaffold.cli.sitting import Sitting
from scaffold.cli.staff import Office, Post
from scaffold.cli.standing import modes_of, todos_of
from scaffold.cli.table import SHELL, late
from scaffold.cli.telling import Teller
from scaffold.cli.toolkit import opened_toolkit
from scaffold.core.conversation import Caller, Image, Text
from scaffold.core.errors import ScaffoldError
from scaffold.core.ids import ReservationId
from scaffold.core.model import Usage
from scaffold.core.ports import Budget, Model
from scaffold.core.tool import Tool
from scaffold.host.clock import SystemClock
from scaffold.host.dirs import user_dirs
from scaffold.host.environment import agent_marks, child_environment
from scaffold.host.ids import new_id
from scaffold.host.sandbox.confinement import Enclosure
from scaffold.llm.naming import parse_model
from scaffold.llm.registry import card
from scaffold.policy.consent import Ask, Gate
from scaffold.policy.judge import ShellJudge
from scaffold.policy.sandbox import connected
from scaffold.store.conversations import StoredConversation
from scaffold.store.history import ConversationHistory
from scaffold.store.session_budget import session_budget
from scaffold.store.user import UserStore

CALLER = Caller(role="agent")
Watch = Callable[[Tool], Tool]
"""Returns a guarded tool that does the same and lets somebody see what it does."""


def unwatched(tool: Tool) -> Tool:
    """Return the tool as it is."""
    return tool


def every(tool: Tool) -> bool:  # noqa: ARG001 - whichever it is
    """Keep the tool."""
    return True


class Onlooker(Struct, frozen=True):
    """Somebody who sits with a session: sees its tools at work, brings some along, may say something meanwhile."""

    watch: Watch = unwatched
    news: News = NoNews()
    keeps: Callable[[Tool], bool] = every
    """Which of a session's own tools the agent has."""
    brings: tuple[Tool, ...] = ()
    """Tools that need no consent, for they ask for it themselves."""


NOBODY = Onlooker()


class Session:
    """A conversation at work. Made by `opened_session`."""

    def __init__(
        self,
        order: Order,
        sitting: Sitting,
        teller: Teller,
        *,
        ask: Ask | None,
        onlooker: Onlooker = NOBODY,
        post: Post | None = None,
    ) -> None:
        self.order = order
        self.sitting = sitting
        self.model = sitting.model
        """The model string of who answers."""
        self.tally = Tally(ConversationHistory(sitting.store, sitting.id, sitting.me))
        self.modes = modes_of(sitting, order.mode)
        self.gate = Gate(
            order.rules,
            root=order.cwd,
            home=order.home,
            clock=SystemClock(),
            tell=noting(teller),
            shell=_shell_judge,
            ask=ask,
            refer=post.refer if post else None,
            mode=lambda: self.modes.current,
        )
        self.todos = todos_of(sitting)
        self.tools: tuple[Tool, ...] = ()
        """All that the agent may ask for, guarded; none before the session is open."""
        self.company = self._company()
        """Its subagents and messages; nobody and nothing where the session is a subagent's itself."""
        self._post = post
        self._account = post.account if post else f"{sitting.id}/{new_id()}"
        self._teller = teller
        self._onlooker = onlooker
        self._redactor = redactor_for(os.environ, order.cwd)
        self._attended = ask is not None
        self._models = AsyncExitStack()
        self._ways = AsyncExitStack()
        self.agent: Agent

    async def say(self, words: str, material: str = "") -> Finish:
        """Take one turn; `@path` in `words` attaches a file, `material` is handed on as it is.

        Raises what `Agent.turn` raises.
        """
        return await self.agent.turn(self.said(words, material))

    async def switch(self, model: str) -> str:
        """Let another model answer from the next request, and return its full name; UsageProblem, ModelTrouble."""
        pinned = self._affordable(model)
        store, before = self.sitting.store, self._models
        try:
            self.agent.switch(await self._opened(pinned))
        except ScaffoldError:
            self._models = before
            raise
        await before.aclose()
        with store.transaction():
            store.conversations.switch_model(self.sitting.id, pinned, me=self.sitting.me)
        self.model = pinned
        return pinned

    @property
    def left_usd(self) -> float | None:
        """Return what is left of the limit in dollars, None where there is none."""
        limit_usd, account = self.order.budget_usd, self._account
        if limit_usd is None or account is None:
            return None
        return limit_usd - self.sitting.store.accounts.spent_usd(account)

    async def open(self) -> None:
        """Wire everything; whatever is missing (a key, a price under a limit) is told here, before work."""
        model = await self._opened(self.model)
        if self._post is None:
            await self.company.open()
        onlooker = self._onlooker
        own = filter(onlooker.keeps, await self._tools())
        self.tools = tuple(map(onlooker.watch, (*own, *onlooker.brings)))
        self.agent = Agent(
            model=model,
            tools=self.tools,
            brief=self._brief(),
            books=Books(journal=self._teller, budget=self._budget(), history=self.company.kept(self.tally)),
            conversation=self.sitting.conversation,
            outside=Outside(
                hear=self._teller.hear,
                news=Joined(self.company.news, self._onlooker.news),
                redactor=self._redactor,
            ),
        )

    async def close(self) -> None:
        """End its subagents, and give back what the session holds."""
        try:
            await self.company.close()
        finally:
            await self._ways.aclose()
            await self._models.aclose()

    async def _opened(self, model: str) -> Model:
        self._models = AsyncExitStack()
        return await self._models.enter_async_context(opened_model(model, self.sitting.store, stream=self.order.stream))

    async def _tools(self) -> tuple[Tool, ...]:
        more = () if self._post else self.company.tools
        order = self.order
        toolkit = await opened_toolkit(
            order.cwd,
            self.gate,
            conversation=self.sitting.id,
            environ=self._environment(),
            enclosure=await self._walls(),
            modes=self.modes,
            todos=self.todos,
            more=more,
            redactor=self._redactor,
        )
        for notice in toolkit.notices:
            self._teller.note("notice", text=notice)
        return toolkit.tools

    async def _walls(self) -> Enclosure | None:
        """Return what holds commands of this session; its way to named hosts lasts until the session is closed."""
        order = self.order
        found = await enclosure_for(order.sandbox, order.cwd, order.home, conversation=self.sitting.id)
        if found is None and (notice := await shortfall(order.sandbox, order.cwd)):
            self._teller.note("notice", text=notice)
        return await self._ways.enter_async_context(connected(found))

    def _environment(self) -> dict[str, str]:
        """Return what commands see; those of a subagent are marked as its own."""
        marks = agent_marks(self.sitting.id) if self._post else {}
        return child_environment(os.environ, marks, names=self.order.environment)

    def said(self, words: str, material: str = "") -> tuple[Text | Image, ...]:
        """Return what the user said with what it attaches; what could not be attached is told.

        The words are the user's own and stay as they are; no secret of a file or of the material comes with them.
        """
        order, clean = self.order, self._redactor.clean
        images = card(parse_model(self.model)).images
        attached = attach(words, cwd=order.cwd, home=order.home, images=images, clean=clean)
        for notice in attached.notices:
            self._teller.note("notice", text=notice)
        parts = (*attached.parts, Text(clean(material)))
        return tuple(part for part in parts if isinstance(part, Image) or part.text.strip())

    def _brief(self) -> Brief:
        order = self.order
        instructions = find_instructions(order.cwd, home=order.home)
        if instructions is not None and instructions.notice:
            self._teller.note("notice", text=instructions.notice)
        scene = Scene(cwd=order.cwd, platform=platform.system(), attended=self._attended, clock=SystemClock())
        return Brief(
            caller=msgspec.structs.replace(CALLER, action=self._post.name if self._post else None),
            system=self._redactor.clean(session_prompt(instructions, own=order.own_prompt)),
            context=SessionContext(scene, self.modes, self.todos),
            max_requests=order.max_turns,
        )

    def _company(self) -> Company:
        sitting = self.sitting
        logs = user_dirs(os.environ).data / "subagents"
        return Company(
            sitting.store,
            sitting.id,
            cwd=str(self.order.cwd),
            staff=Office(self._commission, logs=logs, environ=os.environ, names=self.order.environment),
            judge=self.gate.judge_for,
            about=lambda: {"model": self.model, "mode": self.modes.current},
            warn=lambda words: self._teller.note("notice", text=words),
            clock=SystemClock(),
            limits=self.order.subagents,
        )

    def _commission(self, model: str | None) -> Commission:
        """Return how the next subagent is to work: as this session does now."""
        named = self.model if model is None else self._affordable(model)
        order = msgspec.structs.replace(self.order, rules=self.gate.rules, mode=self.modes.current)
        return Commission(named, Charge(order=order, account=self._account).written())

    def _affordable(self, model: str) -> str:
        """Return the full name of a model that can answer within the session's limit; UsageProblem, ModelTrouble."""
        pinned, _ = usable_model(model)
        if notice := unheld(pinned, self.order.budget_usd):
            self._teller.note("notice", text=notice)
        return pinned

    def _budget(self) -> Budget:
        """Return what pays in this session; UsageProblem for a limit that nobody can hold."""
        limit_usd, sitting = self.order.budget_usd, self.sitting
        if notice := unheld(self.model, limit_usd):
            self._teller.note("notice", text=notice)
        if limit_usd is None or self._account is None:
            return NoLimit()
        return session_budget(sitting.store, self._account, limit_usd=limit_usd, clock=SystemClock(), owner=sitting.me)


def _shell_judge() -> ShellJudge:
    """Import and return what understands commands, for the first one."""
    judge: ShellJudge = late(SHELL)()
    return judge


@asynccontextmanager
async def opened_session(
    order: Order,
    sitting: Sitting,
    teller: Teller,
    *,
    ask: Ask | None = None,
    onlooker: Onlooker = NOBODY,
    post: Post | None = None,
) -> AsyncIterator[Session]:
    """Hold a session open, wired; `ask` asks the user for consent, None where there is nobody to ask.

    With a `post` it is a subagent's.
    """
    session = Session(order, sitting, teller, ask=ask, onlooker=onlooker, post=post)
    try:
        await session.open()
        yield session
    finally:
        await session.close()


class Talk(Protocol):
    """A REPL: talks with the user until they have enough."""

    async def __call__(self, order: Order, store: UserStore, stored: StoredConversation | None, model: str) -> int:
        """Go on with `stored`, or begin a conversation where that is None, with `model`; return the exit code."""
        ...


class NoLimit:
    """A budget without an end: the conversation counts what is used."""

    async def reserve(self, estimate: Usage) -> ReservationId:  # noqa: ARG002 - whatever it is
        """Return at once."""
        return ReservationId("")

    def settle(self, reservation: ReservationId, usage: Usage) -> None:
        """Book nothing."""
