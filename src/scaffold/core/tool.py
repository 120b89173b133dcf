"""Tools: functions an agent can call by name."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal

from msgspec import Struct

ToolCategory = Literal["file_read", "file_write", "shell", "network", "memory", "subagent", "mcp", "python", "plugin"]


class ToolOutput(Struct, frozen=True):
    """The text returned to the model; `failed` marks a failure report."""

    content: str
    failed: bool = False


class Tool(Struct, frozen=True, kw_only=True):
    """Name, description and JSON schema for the model, a category for the policy, and the function to run."""

    name: str
    description: str
    schema: Mapping[str, Any]
    """JSON schema of the arguments: an object with `additionalProperties: false`."""
    category: ToolCategory
    run: Callable[[Mapping[str, Any]], Awaitable[ToolOutput]]
    """Takes arguments that match the schema. Returns the model's mistakes as output; raises only on cancellation."""
    read_only: bool = False
    """True if it changes nothing, so calls may run in parallel and equal calls once; implied by `file_read`."""
    sandboxed: bool = False
    """True if everything it starts is confined to a sandbox."""
