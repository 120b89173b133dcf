"""What fills a model's window: the next request by its parts, in bytes as `message_size` counts them."""

import math
from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Struct

from scaffold.agent.context.compaction import summary_prompt
from scaffold.agent.context.conversation_window import Conversation
from scaffold.agent.context.text_size import args_size, part_size, text_size
from scaffold.core.conversation import AssistantMessage, Text, ToolResult
from scaffold.core.tool import Tool
from scaffold.llm.wire.codec import BYTES_PER_TOKEN

MIN_SCALE, MAX_SCALE = 0.25, 4.0  # bounds of the correction; usage beyond them was counted in a different way


class TokenEstimate(Struct, frozen=True):
    """Converts sizes to tokens and back; a size is in bytes, as `message_size` counts them."""

    fixed: int
    """The size of base prompt, context and tools, which every request carries."""
    scale: float = 1.0
    """Actual tokens per estimated token."""

    def tokens(self, size: int) -> int:
        """Return the estimated tokens of a request with a conversation of this size."""
        return math.ceil((self.fixed + size) / BYTES_PER_TOKEN * self.scale)

    def room(self, tokens: float) -> int:
        """Return the conversation size for a request of `tokens`; negative if there is no room."""
        return int(tokens * BYTES_PER_TOKEN / self.scale) - self.fixed

    def corrected(self, size: int, input_tokens: int) -> "TokenEstimate":
        """Return the estimate corrected by a request of this size that used `input_tokens`; 0 means unknown."""
        if not input_tokens:
            return self
        return self.scaled(input_tokens * BYTES_PER_TOKEN / max(1, self.fixed + size))

    def scaled(self, scale: float) -> "TokenEstimate":
        """Return the estimate with another scale, within bounds."""
        return msgspec.structs.replace(self, scale=min(max(scale, MIN_SCALE), MAX_SCALE))


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


def tools_size(tools: Iterable[Tool]) -> int:
    """Return the bytes of the tools' definitions."""
    return sum(text_size(tool.name) + text_size(tool.description) + args_size(tool.schema) for tool in tools)


def initial_estimate(system: str, context: str, tools: Iterable[Tool]) -> TokenEstimate:
    """Return an estimate for requests with this prompt, context and tools."""
    return TokenEstimate(text_size(system) + text_size(context) + tools_size(tools))
