"""What a category of tools may do when nobody can be asked."""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from scaffold.core.tool import Category, Tool, ToolOutput

Rule = Literal["allow", "gate"]

RULES: Mapping[Category, Rule] = {
    "file_read": "allow",
    "file_write": "gate",
    "shell": "gate",
    "network": "gate",
    "memory": "allow",
    "subagent": "gate",
    "mcp": "gate",
    "python": "gate",
    "plugin": "gate",
}
"""A gate asks a human; where there is none to ask, it denies."""


def unattended(tool: Tool) -> Tool:
    """Return `tool` as it is for a session without a human: what would be asked is denied, and the model is told so."""
    if RULES[tool.category] == "allow":
        return tool

    async def denied(_: Mapping[str, Any]) -> ToolOutput:
        reason = f"Denied: {tool.name} needs a human's consent ({tool.category}), and nobody can be asked here."
        return ToolOutput(f"{reason} Go on without it, or say what you would have done.", failed=True)

    return msgspec.structs.replace(tool, run=denied)
