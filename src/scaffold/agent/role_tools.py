"""Which tools an agent with a role keeps: a role can only take some away."""

from collections.abc import Sequence

from scaffold.core.extension_set import Role
from scaffold.core.tool import Tool
from scaffold.host.startup import lazy_import

OUR_TOOLS = "scaffold.extensions.hooks.call_translation:our_tools"
"""Takes names of other agents and those of ours, and returns those of ours that are meant."""


def kept_tools(tools: Sequence[Tool], role: Role) -> tuple[Tool, ...]:
    """Return the tools that the role names; all if it names none."""
    if role.tools is None:
        return tuple(tools)
    kept: frozenset[str] = lazy_import(OUR_TOOLS)(role.tools, [tool.name for tool in tools])
    return tuple(tool for tool in tools if tool.name in kept)
