"""The tools by which an agent remembers across conversations."""

from collections.abc import Mapping
from typing import Any, Protocol

from scaffold.core.tool import Tool, ToolGroup, ToolOutput
from scaffold.tools.arguments import object_schema

MOST_RECALLED = 20
RECALLED = 5
"""How many memories are recalled unless the agent says."""


class NotedMemories(Protocol):
    """Memories that can be written and found."""

    def remember(self, content: str, kind: str, scope: str, supersedes: str) -> ToolOutput:
        """Store a memory; empty arguments are not given."""
        ...

    async def recall(self, query: str, most: int) -> ToolOutput:
        """Return the memories that fit a query."""
        ...


class MemoryActions(NotedMemories, Protocol):
    """Memories that can be deleted, too."""

    def forget(self, memory_id: str) -> ToolOutput:
        """Delete a memory."""
        ...


def memory_tools(actions: MemoryActions) -> tuple[Tool, ...]:
    """Return the tools that write, find and delete memories."""
    return remember(actions), recall_memories(actions), forget_memory(actions)


def remember(actions: NotedMemories) -> Tool:
    """Return the tool that stores a memory."""

    async def run(args: Mapping[str, Any]) -> ToolOutput:
        return actions.remember(
            args["content"], args.get("type", "fact"), args.get("scope", ""), args.get("supersedes", "")
        )

    return Tool(
        name="remember",
        description=(
            "Remember something beyond this conversation: a fact that was hard to find, what the user prefers, a "
            "correction, how something is done here. One statement that can be understood alone. Not: what files say, "
            "the state of your task, secrets."
        ),
        schema=object_schema(
            {"content": {"type": "string"}},
            type={"type": "string", "enum": ["fact", "preference", "correction", "procedure"]},
            scope={
                "type": "string",
                "enum": ["project", "user"],
                "description": "Of this repository (default), or of the user everywhere.",
            },
            supersedes={"type": "string", "description": "Id of the memory whose place it takes."},
        ),
        category="memory",
        run=run,
    )


def recall_memories(actions: NotedMemories) -> Tool:
    """Return the tool that finds memories."""

    async def run(args: Mapping[str, Any]) -> ToolOutput:
        return await actions.recall(args["query"], min(args.get("k", RECALLED), MOST_RECALLED))

    return Tool(
        name="recall_memories",
        description="Find what was remembered in earlier conversations.",
        schema=object_schema(
            {"query": {"type": "string"}},
            k={"type": "integer", "minimum": 1, "description": f"At most; {RECALLED} by default."},
        ),
        category="memory",
        run=run,
        read_only=True,
    )


def forget_memory(actions: MemoryActions) -> Tool:
    """Return the tool that deletes a memory."""

    async def run(args: Mapping[str, Any]) -> ToolOutput:
        return actions.forget(args["memory_id"])

    return Tool(
        name="forget_memory",
        description=(
            "Delete a memory for good that the user wants forgotten. Supersede one that has become wrong, with "
            "`remember`."
        ),
        schema=object_schema({"memory_id": {"type": "string"}}),
        category="memory",
        run=run,
        group=ToolGroup("memory"),
    )
