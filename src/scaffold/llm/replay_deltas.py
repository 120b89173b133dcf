"""Turn a complete reply into deltas, as if it had been streamed."""

import msgspec

from scaffold.core.conversation import (
    AssistantMessage,
    DeltaHandler,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolCall,
    ToolCallDelta,
)


def emit_deltas(message: AssistantMessage, hear: DeltaHandler) -> None:
    """Call `hear` with one delta for each part of a complete message."""
    index = 0
    for part in message.parts:
        match part:
            case Text():
                hear(TextDelta(part.text))
            case Thinking():
                hear(ThinkingDelta(part.text))
            case ToolCall():
                hear(ToolCallDelta(index, part.name, msgspec.json.encode(part.args).decode()))
                index += 1
