"""How much of a model's window is taken: estimated by size, set right by what each reply really took in."""

import math
from collections.abc import Iterable

import msgspec
from msgspec import Struct

from scaffold.agent.measure import args_size, text_size
from scaffold.core.tool import Tool
from scaffold.llm.pieces import BYTES_PER_TOKEN

LEAST_SCALE, MOST_SCALE = 0.25, 4.0
"""How far a reply's usage may set the estimate right; what is beyond that was not counted the way we count."""


class Gauge(Struct, frozen=True):
    """Turns sizes into tokens and back; a size is in bytes, as `size_of` counts them."""

    fixed: int
    """The size of what every request carries besides the conversation: base prompt, context, tools."""
    scale: float = 1.0
    """How many tokens there really were for each one estimated."""

    def tokens(self, size: int) -> int:
        """Return about how many tokens a request with a conversation of this size takes."""
        return math.ceil((self.fixed + size) / BYTES_PER_TOKEN * self.scale)

    def room(self, tokens: float) -> int:
        """Return the size a conversation may have so that its request takes `tokens`; negative if there is no room."""
        return int(tokens * BYTES_PER_TOKEN / self.scale) - self.fixed

    def corrected(self, size: int, input_tokens: int) -> "Gauge":
        """Return the gauge that a request gives which took in `input_tokens`; 0 tells nothing."""
        if not input_tokens:
            return self
        scale = input_tokens * BYTES_PER_TOKEN / max(1, self.fixed + size)
        return msgspec.structs.replace(self, scale=min(max(scale, LEAST_SCALE), MOST_SCALE))


def gauge_for(system: str, context: str, tools: Iterable[Tool]) -> Gauge:
    """Return a gauge for requests that carry these."""
    described = sum(text_size(tool.name) + text_size(tool.description) + args_size(tool.schema) for tool in tools)
    return Gauge(text_size(system) + text_size(context) + described)
