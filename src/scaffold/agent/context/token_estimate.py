"""Estimates how much of a model's window is used: by size, corrected by the usage each reply reports."""

import math
from collections.abc import Iterable

import msgspec
from msgspec import Struct

from scaffold.agent.context.text_size import args_size, text_size
from scaffold.core.tool import Tool
from scaffold.llm.wire.encoded_messages import BYTES_PER_TOKEN

MIN_SCALE, MAX_SCALE = 0.25, 4.0
"""Bounds of the correction; usage beyond them was counted in a different way."""


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
        scale = input_tokens * BYTES_PER_TOKEN / max(1, self.fixed + size)
        return msgspec.structs.replace(self, scale=min(max(scale, MIN_SCALE), MAX_SCALE))


def tools_size(tools: Iterable[Tool]) -> int:
    """Return the bytes of the tools' definitions."""
    return sum(text_size(tool.name) + text_size(tool.description) + args_size(tool.schema) for tool in tools)


def initial_estimate(system: str, context: str, tools: Iterable[Tool]) -> TokenEstimate:
    """Return an estimate for requests with this prompt, context and tools."""
    return TokenEstimate(text_size(system) + text_size(context) + tools_size(tools))
