"""A tool: something an agent may ask for by name."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal

from msgspec import Struct

Category = Literal["file_read", "file_write", "shell", "network", "memory", "subagent", "mcp", "python", "plugin"]


class ToolOutput(Struct, frozen=True):
    """What the model is told; `failed` marks an answer that reports a failure."""

    content: str
    failed: bool = False


class Tool(Struct, frozen=True, kw_only=True):
    """Name, description and JSON schema for the model; a category for the policy; an async function for us."""

    name: str
    description: str
    schema: Mapping[str, Any]
    """JSON schema of the arguments, an object with `additionalProperties: false`."""
    category: Category
    run: Callable[[Mapping[str, Any]], Awaitable[ToolOutput]]
    """Takes arguments that fit the schema; raises nothing but cancellation for what a model may get wrong."""
    only_reads: bool = False
    """Changes nothing, so that it may run beside others like it, and once for equal calls; `file_read` always does."""
    confined: bool = False
    """What it starts runs in a sandbox and can reach no more than that allows."""
