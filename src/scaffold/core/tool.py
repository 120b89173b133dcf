"""Tools: functions an agent can call by name."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal

from msgspec import Struct

ToolCategory = Literal["file_read", "file_write", "shell", "network", "memory", "subagent", "mcp", "python", "plugin"]
MAX_NESTING = 100
"""Levels of objects and lists that a call's arguments may have: code that goes through them may recurse."""


class ToolOutput(Struct, frozen=True):
    """The text returned to the model; `failed` marks a failure report."""

    content: str
    failed: bool = False


class ToolGroup(Struct, frozen=True):
    """Tools that an agent is offered only once it has asked for them, as their descriptions cost tokens each time."""

    name: str
    about: str = ""
    """What they do, in a few words: all that the agent knows before it loads them. Empty: it is told their names."""
    family: str = ""
    """Not empty: too many to be listed. The agent sees only the family, and finds its groups by words."""


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
    for_trained_models: bool = False
    """True if it is offered only to the models that are trained to use a tool of this name."""
    group: ToolGroup | None = None
    """It is offered once this group is loaded; None: always. A call is served either way."""


def is_nested_too_deeply(args: Mapping[str, Any]) -> bool:
    """Return whether a call's arguments have more than MAX_NESTING levels; itself without recursion."""
    level: list[Any] = [args]
    for _ in range(MAX_NESTING):
        level = [
            member
            for each in level
            for member in (each.values() if isinstance(each, Mapping) else each)
            if isinstance(member, Mapping | list | tuple)
        ]
        if not level:
            return False
    return True
