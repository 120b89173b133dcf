"""The tools by which an agent remembers across conversations."""

from collections.abc import Mapping
from typing import Any, Protocol

from scaffold.core.tool import Tool, ToolOutput
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
            "Remember something beyond this conversation: a fact about the project that was hard to find, what the "
            "user prefers, a correction, how something is done here. One statement at a time that can be understood "
            "alone. Not: what is in the files anyway, the state of your task, secrets."
        ),
        schema=object_schema(
            {"content": {"type": "string", "description": "What to remember, in a sentence or two."}},
            type={"type": "string", "enum": ["fact", "preference", "correction", "procedure"]},
            scope={
                "type": "string",
                "enum": ["project", "user"],
                "description": "Of this repository (default), or of the user in all folders.",
            },
            supersedes={"type": "string", "description": "The id of the memory whose place it takes."},
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
        description="Find what was remembered in earlier conversations, by words and by meaning.",
        schema=object_schema(
            {"query": {"type": "string", "description": "What it is about."}},
            k={"type": "integer", "minimum": 1, "description": f"How many at most; {RECALLED} by default."},
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
            "Delete a memory for good: one that the user wants forgotten. One that has become wrong is rather "
            "superseded, with `remember`."
        ),
        schema=object_schema({"memory_id": {"type": "string", "description": "The id, as recalled."}}),
        category="memory",
        run=run,
    )
