"""The port by which hooks, plugins and MCP servers take part in the work of an agent.

A session and a worker know one `AgentExtensions`. What its user has not set up does nothing, and is not loaded.
"""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct

from scaffold.agent.agent_spec import TurnResult
from scaffold.core.conversation import Image, KeptTurn, Text
from scaffold.core.ports import Model
from scaffold.core.tool import Tool
from scaffold.policy.permission.call_hooks import NO_CALL_HOOKS, CallHooks

Prompt = str | Sequence[Text | Image] | KeptTurn


class TakesTurns(Protocol):
    """An agent."""

    async def turn(self, prompt: Any, /) -> TurnResult:
        """Take one turn."""
        ...


class DroppedInput(Struct, frozen=True):
    """A message that an extension has handled itself; `text` says how."""

    text: str


class SessionStarted(Struct, frozen=True):
    """A session begins; `source` is `startup`, `resume` or `clear`."""

    source: str


class SessionEnded(Struct, frozen=True):
    """A session ends."""

    reason: str


class Compacting(Struct, frozen=True):
    """The conversation is about to be shortened; `trigger` is `manual` or `auto`."""

    trigger: str


class TaskCompleted(Struct, frozen=True):
    """A task is about to count as completed."""

    task: str
    subject: str


class WorktreeCreated(Struct, frozen=True):
    """The agent begins in a new worktree."""

    name: str


class WorktreeRemoved(Struct, frozen=True):
    """The agent leaves its worktree, in which nothing may be written any more."""

    name: str


AgentEvent = SessionStarted | SessionEnded | Compacting | TaskCompleted | WorktreeCreated | WorktreeRemoved


class PluginSummary(Struct, frozen=True, kw_only=True):
    """One plugin for a listing; all of it is printable."""

    name: str
    version: str
    file: str
    state: str
    priority: int
    hooks: tuple[str, ...]
    tools: tuple[str, ...]
    error: str
    """The last one; empty if there was none."""


class PluginOverview(Struct, frozen=True):
    """All plugins, in the order in which they run, and a line about each file that is not a valid plugin."""

    plugins: tuple[PluginSummary, ...] = ()
    notices: tuple[str, ...] = ()


class ServerRow(Struct, frozen=True):
    """One MCP server for a listing: its name, and a line about it; all of it is printable."""

    name: str
    ok: bool
    text: str


class ServerControl(Protocol):
    """What the user sees and decides of the MCP servers of this process."""

    @property
    def socket(self) -> Path | None:
        """Where other processes reach them; None if none can."""
        ...

    async def rows(self) -> Sequence[ServerRow]:
        """Return the state of each server."""
        ...

    def withheld(self, server: str) -> str:
        """Return the definitions of a server that need the user's approval, as text; empty if there are none."""
        ...

    async def approve(self, server: str) -> int:
        """Approve them, and return how many there were."""
        ...

    async def log_in(self, server: str, tell: Callable[[str], object] | None = None) -> str:
        """Let the user log in at a server, and return the outcome; `tell` receives lines meanwhile.

        Without `tell`, return what to do on the page as soon as that is known; the outcome is told like other lines
        about the servers. Raises UsageError or ModelAccessDenied.
        """
        ...

    async def log_out(self, server: str) -> str:
        """Delete the login at a server, and return the outcome."""
        ...


async def _no_tools() -> tuple[Tool, ...]:
    return ()


async def _same_input(words: str, material: str) -> tuple[str, str] | DroppedInput:
    return words, material


async def _plain_turn(agent: TakesTurns, prompt: Prompt) -> TurnResult:
    return await agent.turn(prompt)


async def _no_objection(_event: AgentEvent) -> str:
    return ""


async def _close_nothing() -> None:
    pass


class AgentExtensions(Struct, frozen=True, kw_only=True):
    """Where extensions take part in an agent's work; each default leaves the work as it is."""

    tools: Callable[[], Awaitable[tuple[Tool, ...]]] = _no_tools
    """Returns the tools offered now, not gated; equal as long as they do not change."""
    reads_input: Callable[[], bool] = lambda: False
    """Whether an extension reads the user's message before the agent does."""
    user_input: Callable[[str, str], Awaitable[tuple[str, str] | DroppedInput]] = _same_input
    """Returns the user's words and material as extensions changed them; ScaffoldError if one refuses them."""
    watch: Callable[[Tool], Tool] = lambda tool: tool
    """Wraps a tool: sees each call before the gate, which decides last."""
    calls: CallHooks = NO_CALL_HOOKS
    """Has a say within the gate, and sees each result."""
    hooked: Callable[[Model], Model] = lambda model: model
    """Wraps a model: sees each request and each reply."""
    turn: Callable[[TakesTurns, Prompt], Awaitable[TurnResult]] = _plain_turn
    """Lets the agent take a turn, and go on as long as a hook wants it to; ScaffoldError if one cannot judge."""
    announce: Callable[[AgentEvent], Awaitable[str]] = _no_objection
    """Takes an event, and returns why it must not happen; empty if it may. ScaffoldError if one cannot judge."""
    overview: Callable[[], PluginOverview] = PluginOverview
    """Returns the plugins for a listing."""
    servers: ServerControl | None = None
    """The MCP servers that this process has started; None if it has none of its own."""
    close: Callable[[], Awaitable[None]] = _close_nothing


NO_EXTENSIONS = AgentExtensions()


def combined(hooks: AgentExtensions, plugins: AgentExtensions, servers: AgentExtensions) -> AgentExtensions:
    """Return all three as one. Plugins change a message before hooks judge it."""

    async def tools() -> tuple[Tool, ...]:
        return (*await plugins.tools(), *await servers.tools())

    async def user_input(words: str, material: str) -> tuple[str, str] | DroppedInput:
        changed = await plugins.user_input(words, material)
        return changed if isinstance(changed, DroppedInput) else await hooks.user_input(*changed)

    async def close() -> None:
        await plugins.close()
        await servers.close()

    return AgentExtensions(
        tools=tools,
        reads_input=lambda: plugins.reads_input() or hooks.reads_input(),
        user_input=user_input,
        watch=plugins.watch,
        calls=hooks.calls,
        hooked=plugins.hooked,
        turn=hooks.turn,
        announce=hooks.announce,
        overview=plugins.overview,
        servers=servers.servers,
        close=close,
    )
