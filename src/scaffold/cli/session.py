"""A session of `ralph`: one agent wired with its model, tools, gate and money, for a one-shot and the REPL alike."""

import os
import platform
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from scaffold.agent.agent import Agent, Books, Brief, Finish
from scaffold.agent.attachments import attach
from scaffold.agent.instructions import find_instructions
from scaffold.agent.journal import noting
from scaffold.agent.outside import FixedContext, Outside
from scaffold.agent.prompts import session_context, session_prompt
from scaffold.cli.models import opened_model, unheld, usable_model
from scaffold.cli.outcome import Tally
from scaffold.cli.sitting import Sitting
from scaffold.cli.telling import Teller
from scaffold.core.conversation import Caller, Image, Text
from scaffold.core.ids import ReservationId
from scaffold.core.model import Usage
from scaffold.core.ports import Budget, Model
from scaffold.core.tool import Tool
from scaffold.host.clock import SystemClock
from scaffold.host.environment import child_environment
from scaffold.host.ids import new_id
from scaffold.llm.naming import parse_model
from scaffold.llm.registry import card
from scaffold.policy.consent import Ask, Gate
from scaffold.policy.gate import Rules
from scaffold.store.conversations import StoredConversation
from scaffold.store.history import ConversationHistory
from scaffold.store.session_budget import session_budget
from scaffold.store.user import UserStore
from scaffold.tools.builtin import builtin_tools
from scaffold.tools.workspace import Workspace

CALLER = Caller(role="agent")


class Order(Struct, frozen=True, kw_only=True):
    """How a session is to work, whatever it is told to do."""

    cwd: Path
    home: Path
    rules: Rules
    max_turns: int
    """Requests between one thing said and the next."""
    budget_usd: float | None
    stream: bool
    own_prompt: str | None
    """What replaces the built-in base prompt."""


class Session:
    """A conversation at work. Made by `opened_session`."""

    def __init__(self, order: Order, sitting: Sitting, teller: Teller, *, ask: Ask | None) -> None:
        self.order = order
        self.sitting = sitting
        self.model = sitting.model
        """The model string of who answers."""
        self.tally = Tally(ConversationHistory(sitting.store, sitting.id, sitting.me))
        self.gate = Gate(order.rules, root=order.cwd, clock=SystemClock(), tell=noting(teller), ask=ask)
        self._teller = teller
        self._models = AsyncExitStack()
        self.agent: Agent

    async def say(self, words: str, material: str = "") -> Finish:
        """Take one turn; `@path` in `words` attaches a file, `material` is handed on as it is.

        Raises what `Agent.turn` raises.
        """
        return await self.agent.turn(self._said(words, material))

    async def switch(self, model: str) -> str:
        """Let another model answer from the next request, and return its full name; UsageProblem, ModelTrouble."""
        pinned, _ = usable_model(model)
        store, before = self.sitting.store, self._models
        self.agent.switch(await self._opened(pinned))
        await before.aclose()
        with store.transaction():
            store.conversations.switch_model(self.sitting.id, pinned, me=self.sitting.me)
        self.model = pinned
        return pinned

    async def open(self) -> None:
        """Wire everything; whatever is missing (a key, a price under a limit) is told here, before work."""
        model = await self._opened(self.model)
        self.agent = Agent(
            model=model,
            tools=self._tools(),
            brief=self._brief(),
            books=Books(journal=self._teller, budget=self._budget(), history=self.tally),
            conversation=self.sitting.conversation,
            outside=Outside(hear=self._teller.hear),
        )

    async def close(self) -> None:
        """Give back what the session holds."""
        await self._models.aclose()

    async def _opened(self, model: str) -> Model:
        self._models = AsyncExitStack()
        return await self._models.enter_async_context(opened_model(model, self.sitting.store, stream=self.order.stream))

    def _tools(self) -> tuple[Tool, ...]:
        workspace = Workspace(self.order.cwd, child_environment(os.environ))
        return tuple(self.gate.guard(tool) for tool in builtin_tools(workspace))

    def _said(self, words: str, material: str) -> tuple[Text | Image, ...]:
        order = self.order
        attached = attach(words, cwd=order.cwd, home=order.home, images=card(parse_model(self.model)).images)
        for notice in attached.notices:
            self._teller.note("notice", text=notice)
        parts = (*attached.parts, Text(material))
        return tuple(part for part in parts if isinstance(part, Image) or part.text.strip())

    def _brief(self) -> Brief:
        order = self.order
        instructions = find_instructions(order.cwd, home=order.home)
        if instructions is not None and instructions.notice:
            self._teller.note("notice", text=instructions.notice)
        today = SystemClock().now().date()
        return Brief(
            caller=CALLER,
            system=session_prompt(instructions, own=order.own_prompt),
            context=FixedContext(session_context(cwd=order.cwd, today=today, platform=platform.system())),
            max_requests=order.max_turns,
        )

    def _budget(self) -> Budget:
        """Return what pays in this session; UsageProblem for a limit that nobody can hold."""
        limit_usd, sitting = self.order.budget_usd, self.sitting
        if notice := unheld(self.model, limit_usd):
            self._teller.note("notice", text=notice)
        if limit_usd is None:
            return NoLimit()
        account = f"{sitting.id}/{new_id()}"
        return session_budget(sitting.store, account, limit_usd=limit_usd, clock=SystemClock(), owner=sitting.me)


@asynccontextmanager
async def opened_session(
    order: Order, sitting: Sitting, teller: Teller, *, ask: Ask | None = None
) -> AsyncIterator[Session]:
    """Hold a session open, wired; `ask` asks the user for consent, None where there is nobody to ask."""
    session = Session(order, sitting, teller, ask=ask)
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
