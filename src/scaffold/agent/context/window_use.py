"""What fills a model's window: the next request by its parts, in bytes as `message_size` counts them."""

from collections.abc import Sequence

from msgspec import Struct

from scaffold.agent.context.compaction import summary_prompt
from scaffold.agent.context.conversation_window import Conversation
from scaffold.agent.context.text_size import part_size
from scaffold.core.conversation import AssistantMessage, Text, ToolResult


class WindowPart(Struct, frozen=True):
    """One part of a request."""

    name: str
    size: int
    """Bytes, or estimated tokens."""


class WindowUse(Struct, frozen=True):
    """The parts of the next request in estimated tokens, none of them empty; the window is None if unknown."""

    parts: Sequence[WindowPart]
    window_tokens: int | None

    @property
    def tokens(self) -> int:
        """The tokens of all parts together."""
        return sum(part.size for part in self.parts)


def conversation_parts(conversation: Conversation) -> tuple[WindowPart, ...]:
    """Return the conversation's parts that are not empty; results of tools come last, the largest first."""
    summary = part_size(Text(summary_prompt(conversation.summary))) if conversation.summary else 0
    sizes = {"summary of earlier messages": summary, "your messages": 0, "replies and tool calls": 0}
    results: dict[str, int] = {}
    for message in conversation.kept:
        for part in message.parts:
            if isinstance(part, ToolResult):
                results[part.name] = results.get(part.name, 0) + part_size(part)
            else:
                own = isinstance(message, AssistantMessage)
                sizes["replies and tool calls" if own else "your messages"] += part_size(part)
    by_tool = sorted(results.items(), key=lambda each: -each[1])
    rows = (*sizes.items(), *((f"results of {name}", size) for name, size in by_tool))
    return tuple(WindowPart(name, size) for name, size in rows if size)
