"""Replies that came in one piece, told like those that came bit by bit."""

import msgspec

from scaffold.core.conversation import (
    AssistantMessage,
    CallDelta,
    Hear,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolCall,
)


def tell(message: AssistantMessage, hear: Hear) -> None:
    """Tell `hear` a whole message, part by part, as if it had come just so."""
    index = 0
    for part in message.parts:
        match part:
            case Text():
                hear(TextDelta(part.text))
            case Thinking():
                hear(ThinkingDelta(part.text))
            case ToolCall():
                hear(CallDelta(index, part.name, msgspec.json.encode(part.args).decode()))
                index += 1
