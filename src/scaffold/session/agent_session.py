"""A session of `ralph`: one agent wired with its model, tools, gate and money, for a one-shot and the REPL alike."""

import os
import platform
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import msgspec
from msgspec import Struct

from scaffold.agent.context.attachments import attach
from scaffold.agent.instructions import find_instructions
from scaffold.agent.journal import approval_logger
from scaffold.agent.model_access import connect_model, resolve_model, unenforced_limit_notice
from scaffold.agent.ports import AgentIO, Incoming, MergedIncoming, NoIncoming
from scaffold.agent.prompts import session_prompt
from scaffold.agent.session_context import SessionContext, SessionEnvironment
from scaffold.agent.subagents.peers import Peers
from scaffold.agent.subagents.pool import SubagentSpec
from scaffold.agent.turn_loop import Agent, AgentRecords, AgentSpec, TurnResult
from scaffold.core.conversation import Caller, Image, Text
from scaffold.core.errors import ScaffoldError
from scaffold.core.ids import ReservationId
from scaffold.core.model import Usage
from scaffold.core.ports import Budget, Model
from scaffold.core.tool import Tool
from scaffold.host.clock import SystemClock
from scaffold.host.environment import agent_variables, child_environment
from scaffold.host.lazy_import import lazy_import
from scaffold.host.random_ids import new_id
from scaffold.host.sandbox.confinement import SandboxSpec
from scaffold.host.user_dirs import user_dirs
from scaffold.llm.registry.cards import model_card
from scaffold.llm.registry.model_name import parse_model
from scaffold.policy.permission.approval_gate import ApprovalGate, ApprovalPrompt
from scaffold.policy.permission.call_decision import ShellPolicy
from scaffold.policy.sandbox_setup import with_egress
from scaffold.policy.secret.sources import redactor_for
from scaffold.session.conversation import OpenConversation
from scaffold.session.conversation_state import stored_modes, stored_todos
from scaffold.session.options import SessionOptions, SubagentOptions
from scaffold.session.reporter import Reporter
from scaffold.session.result import UsageCounter
from scaffold.session.sandbox import missing_sandbox_notice, session_sandbox
from scaffold.session.subagent_launcher import ParentLink, SubagentLauncher
from scaffold.session.tools import load_session_tools
from scaffold.store.conversation_history import ConversationHistory
from scaffold.store.spending.session_budget import session_budget

CALLER = Caller(role="agent")
WrapTool = Callable[[Tool], Tool]
"""Returns a guarded tool that does the same and lets somebody see what it does."""


def unwrapped(tool: Tool) -> Tool:
    """Return the tool as it is."""
    return tool


def keep_every_tool(tool: Tool) -> bool:  # noqa: ARG001 - whichever it is
    """Keep the tool."""
    return True


class SessionObserver(Struct, frozen=True):
    """Somebody who sits with a session: sees its tools at work, brings some along, may say something meanwhile."""

    wrap_tool: WrapTool = unwrapped
    news: Incoming = NoIncoming()
    keeps_tool: Callable[[Tool], bool] = keep_every_tool
    """Which of a session's own tools the agent has."""
    extra_tools: tuple[Tool, ...] = ()
    """Tools that need no consent, for they ask for it themselves."""


NO_OBSERVER = SessionObserver()


class Session:
    """A conversation at work. Made by `open_session`."""

    def __init__(
        self,
        order: SessionOptions,
        sitting: OpenConversation,
        teller: Reporter,
        *,
        ask: ApprovalPrompt | None,
        onlooker: SessionObserver = NO_OBSERVER,
        post: ParentLink | None = None,
    ) -> None:
        self.options = order
        self.open_conversation = sitting
        self.model = sitting.model
        """The model string of who answers."""
        self.usage_counter = UsageCounter(ConversationHistory(sitting.store, sitting.id, sitting.owner))
        self.modes = stored_modes(sitting, order.mode)
        self.gate = ApprovalGate(
            order.rules,
            root=order.cwd,
            home=order.home,
            clock=SystemClock(),
            tell=approval_logger(teller),
            shell=_shell_judge,
            ask=ask,
            refer=post.ask_parent if post else None,
            mode=lambda: self.modes.current,
        )
        self.todos = stored_todos(sitting)
        self.tools: tuple[Tool, ...] = ()
        """All that the agent may ask for, guarded; none before the session is open."""
        self.peers = self._company()
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

    async def say(self, words: str, material: str = "") -> TurnResult:
        """Take one turn; `@path` in `words` attaches a file, `material` is handed on as it is.

        Raises what `Agent.turn` raises.
        """
        return await self.agent.turn(self.user_content(words, material))

    async def switch(self, model: str) -> str:
        """Let another model answer from the next request, and return its full name; UsageProblem, ModelTrouble."""
        pinned = self._affordable(model)
        store, before = self.open_conversation.store, self._models
        try:
            self.agent.switch(await self._opened(pinned))
        except ScaffoldError:
            self._models = before
            raise
        await before.aclose()
        with store.transaction():
            store.conversations.switch_model(self.open_conversation.id, pinned, me=self.open_conversation.owner)
        self.model = pinned
        return pinned

    @property
    def remaining_usd(self) -> float | None:
        """Return what is left of the limit in dollars, None where there is none."""
        limit_usd, account = self.options.budget_usd, self._account
        if limit_usd is None or account is None:
            return None
        return limit_usd - self.open_conversation.store.accounts.spent_usd(account)

    async def open(self) -> None:
        """Wire everything; whatever is missing (a key, a price under a limit) is told here, before work."""
        model = await self._opened(self.model)
        if self._post is None:
            await self.peers.open()
        onlooker = self._onlooker
        own = filter(onlooker.keeps_tool, await self._tools())
        self.tools = tuple(map(onlooker.wrap_tool, (*own, *onlooker.extra_tools)))
        self.agent = Agent(
            model=model,
            tools=self.tools,
            brief=self._brief(),
            books=AgentRecords(
                journal=self._teller, budget=self._budget(), history=self.peers.kept(self.usage_counter)
            ),
            conversation=self.open_conversation.conversation,
            outside=AgentIO(
                hear=self._teller.hear,
                news=MergedIncoming(self.peers.news, self._onlooker.news),
                redactor=self._redactor,
            ),
        )

    async def close(self) -> None:
        """End its subagents, and give back what the session holds."""
        try:
            await self.peers.close()
        finally:
            await self._ways.aclose()
            await self._models.aclose()

    async def _opened(self, model: str) -> Model:
        self._models = AsyncExitStack()
        return await self._models.enter_async_context(
            connect_model(model, self.open_conversation.store, stream=self.options.stream)
        )

    async def _tools(self) -> tuple[Tool, ...]:
        more = () if self._post else self.peers.tools
        order = self.options
        toolkit = await load_session_tools(
            order.cwd,
            self.gate,
            conversation=self.open_conversation.id,
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

    async def _walls(self) -> SandboxSpec | None:
        """Return what holds commands of this session; its way to named hosts lasts until the session is closed."""
        order = self.options
        found = await session_sandbox(order.sandbox, order.cwd, order.home, conversation=self.open_conversation.id)
        if found is None and (notice := await missing_sandbox_notice(order.sandbox, order.cwd)):
            self._teller.note("notice", text=notice)
        return await self._ways.enter_async_context(with_egress(found))

    def _environment(self) -> dict[str, str]:
        """Return what commands see; those of a subagent are marked as its own."""
        marks = agent_variables(self.open_conversation.id) if self._post else {}
        return child_environment(os.environ, marks, names=self.options.environment)

    def user_content(self, words: str, material: str = "") -> tuple[Text | Image, ...]:
        """Return what the user said with what it attaches; what could not be attached is told.

        The words are the user's own and stay as they are; no secret of a file or of the material comes with them.
        """
        order, clean = self.options, self._redactor.clean
        images = model_card(parse_model(self.model)).images
        attached = attach(words, cwd=order.cwd, home=order.home, images=images, clean=clean)
        for notice in attached.notices:
            self._teller.note("notice", text=notice)
        parts = (*attached.parts, Text(clean(material)))
        return tuple(part for part in parts if isinstance(part, Image) or part.text.strip())

    def _brief(self) -> AgentSpec:
        order = self.options
        instructions = find_instructions(order.cwd, home=order.home)
        if instructions is not None and instructions.notice:
            self._teller.note("notice", text=instructions.notice)
        scene = SessionEnvironment(
            cwd=order.cwd, platform=platform.system(), attended=self._attended, clock=SystemClock()
        )
        return AgentSpec(
            caller=msgspec.structs.replace(CALLER, action=self._post.name if self._post else None),
            system=self._redactor.clean(session_prompt(instructions, own=order.system_prompt)),
            context=SessionContext(scene, self.modes, self.todos),
            max_requests=order.max_turns,
        )

    def _company(self) -> Peers:
        sitting = self.open_conversation
        logs = user_dirs(os.environ).data / "subagents"
        return Peers(
            sitting.store,
            sitting.id,
            cwd=str(self.options.cwd),
            staff=SubagentLauncher(self._subagent_spec, logs=logs, environ=os.environ, names=self.options.environment),
            judge=self.gate.judge_for,
            about=lambda: {"model": self.model, "mode": self.modes.current},
            warn=lambda words: self._teller.note("notice", text=words),
            clock=SystemClock(),
            limits=self.options.subagents,
        )

    def _subagent_spec(self, model: str | None) -> SubagentSpec:
        """Return how the next subagent is to work: as this session does now."""
        named = self.model if model is None else self._affordable(model)
        order = msgspec.structs.replace(self.options, rules=self.gate.rules, mode=self.modes.current)
        return SubagentSpec(named, SubagentOptions(order=order, account=self._account).written())

    def _affordable(self, model: str) -> str:
        """Return the full name of a model that can answer within the session's limit; UsageProblem, ModelTrouble."""
        pinned, _ = resolve_model(model)
        if notice := unenforced_limit_notice(pinned, self.options.budget_usd):
            self._teller.note("notice", text=notice)
        return pinned

    def _budget(self) -> Budget:
        """Return what pays in this session; UsageProblem for a limit that nobody can hold."""
        limit_usd, sitting = self.options.budget_usd, self.open_conversation
        if notice := unenforced_limit_notice(self.model, limit_usd):
            self._teller.note("notice", text=notice)
        if limit_usd is None or self._account is None:
            return UnlimitedBudget()
        return session_budget(
            sitting.store, self._account, limit_usd=limit_usd, clock=SystemClock(), owner=sitting.owner
        )


def _shell_judge() -> ShellPolicy:
    """Import and return what understands commands, for the first one."""
    judge: ShellPolicy = lazy_import(SHELL_JUDGE)()
    return judge


@asynccontextmanager
async def open_session(
    order: SessionOptions,
    sitting: OpenConversation,
    teller: Reporter,
    *,
    ask: ApprovalPrompt | None = None,
    onlooker: SessionObserver = NO_OBSERVER,
    post: ParentLink | None = None,
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


class UnlimitedBudget:
    """A budget without an end: the conversation counts what is used."""

    async def reserve(self, estimate: Usage) -> ReservationId:  # noqa: ARG002 - whatever it is
        """Return at once."""
        return ReservationId("")

    def settle(self, reservation: ReservationId, usage: Usage) -> None:
        """Book nothing."""


SHELL_JUDGE = "scaffold.policy.shell.command_policy:ShellCommandPolicy"
"""Takes no arguments and returns the judge of shell commands: its parser is long to load."""
