"""Hooks around tool calls: they see a call before the gate decides it, and its result. They tighten, never loosen."""

from collections.abc import Mapping
from typing import Any, Protocol

from msgspec import Struct

from scaffold.core.tool import Tool, ToolOutput


class CheckedCall(Struct, frozen=True, kw_only=True):
    """A call after its hooks ran."""

    args: Mapping[str, Any]
    denied: str | None = None
    """The reason for a denial; None without one."""
    asks: str = ""
    """Why a human must be asked, whatever the rules say; empty if the rules decide."""
    note: str = ""
    """Text for the model, added to the result."""


class CallHooks(Protocol):
    """The hooks around the calls of an agent."""

    async def before(self, tool: Tool, args: Mapping[str, Any]) -> CheckedCall:
        """Return the call, perhaps changed; TurnStopped if the agent must stop."""
        ...

    async def after(self, tool: Tool, args: Mapping[str, Any], output: ToolOutput) -> ToolOutput:
        """Return the result of a call that ran, with added texts; TurnStopped if the agent must stop."""
        ...


class NoCallHooks:
    """No hooks."""

    async def before(self, tool: Tool, args: Mapping[str, Any]) -> CheckedCall:  # noqa: ARG002 - there is no hook
        """Return the call."""
        return CheckedCall(args=args)

    async def after(self, tool: Tool, args: Mapping[str, Any], output: ToolOutput) -> ToolOutput:  # noqa: ARG002
        """Return the result."""
        return output


NO_CALL_HOOKS = NoCallHooks()
