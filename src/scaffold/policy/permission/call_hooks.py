"""What has a say in a tool call before the gate decides it, and sees its result: hooks. They tighten, never loosen."""

from collections.abc import Mapping
from typing import Any, Protocol

from msgspec import Struct

from scaffold.core.tool import Tool, ToolOutput


class CheckedCall(Struct, frozen=True, kw_only=True):
    """A call as the hooks leave it."""

    args: Mapping[str, Any]
    denied: str | None = None
    """Why it must not run; None if it may."""
    asks: str = ""
    """Why a human must be asked, whatever the rules say; empty if they decide."""
    note: str = ""
    """For the model, behind the result."""


class CallHooks(Protocol):
    """The hooks around the calls of an agent."""

    async def before(self, tool: Tool, args: Mapping[str, Any]) -> CheckedCall:
        """Return the call as they leave it; TurnStopped if the agent shall stop."""
        ...

    async def after(self, tool: Tool, args: Mapping[str, Any], output: ToolOutput) -> ToolOutput:
        """Return the result of a call that ran, with what they add to it; TurnStopped if the agent shall stop."""
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
