"""A conversation as a file of the form that hooks know: a JSON object a line."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from scaffold.agent.context.conversation_window import Conversation
from scaffold.core.conversation import AssistantMessage, Message, Text, Thinking, ToolCall, ToolResult
from scaffold.core.printable_text import utf8_safe
from scaffold.extensions.hooks.call_translation import hook_calls
from scaffold.extensions.hooks.event_runner import encodable
from scaffold.host.atomic_files import write_atomic


def write_transcript(path: Path, conversation: Conversation, *, cwd: str, clean: Callable[[str], str]) -> None:
    """Write the messages that the conversation still has; hooks that cannot be told so are not kept from running."""
    lines = [msgspec.json.encode(_line(message, cwd)).decode() for message in conversation.kept]
    with contextlib.suppress(OSError):
        write_atomic(path, clean("\n".join([*lines, ""])).encode())


def _line(message: Message, cwd: str) -> dict[str, Any]:
    role = "assistant" if isinstance(message, AssistantMessage) else "user"
    return {"type": role, "message": {"role": role, "content": list(_content(message, cwd))}}


def _content(message: Message, cwd: str) -> Iterator[dict[str, Any]]:
    for part in message.parts:
        match part:
            case Text(text=text):
                yield {"type": "text", "text": utf8_safe(text)}
            case Thinking(text=text):
                yield {"type": "thinking", "thinking": utf8_safe(text)}
            case ToolCall(id=call, name=name, args=args):
                seen = hook_calls(name, args, cwd)[0]
                yield {"type": "tool_use", "id": call, "name": seen.names[0], "input": encodable(seen.input)}
            case ToolResult(call_id=call, content=content, failed=failed):
                yield {
                    "type": "tool_result",
                    "tool_use_id": call,
                    "content": utf8_safe(content),
                    "is_error": failed,
                }
