"""A stored conversation as updates, for an editor that loads it."""

from collections.abc import Iterator
from pathlib import Path

from acp.helpers import (
    start_tool_call,
    text_block,
    tool_content,
    update_agent_message_text,
    update_agent_thought_text,
    update_tool_call,
    update_user_message_text,
)
from pydantic import BaseModel

from scaffold.acp.tool_calls import SHOWN_CHARACTERS, call_kind, call_locations, call_title
from scaffold.agent.context.conversation_window import Conversation
from scaffold.core.conversation import AssistantMessage, Image, Message, Text, Thinking, ToolCall, ToolResult
from scaffold.core.printable_text import truncate_text
from scaffold.policy.secret.redaction import Redactor


def replayed(conversation: Conversation, root: Path, redactor: Redactor) -> Iterator[BaseModel]:
    """Yield the updates that show a conversation again, without secrets."""
    if conversation.summary:
        yield update_agent_thought_text(redactor.clean(f"What was said before, in short:\n{conversation.summary}\n"))
    for message in conversation.kept:
        yield from _message_updates(message, root, redactor)
    for call in conversation.unanswered:
        yield update_tool_call(call.id, status="failed", content=[tool_content(text_block("interrupted"))])


def _message_updates(message: Message, root: Path, redactor: Redactor) -> Iterator[BaseModel]:
    says = update_agent_message_text if isinstance(message, AssistantMessage) else update_user_message_text
    for part in message.parts:
        match part:
            case Text(text=text):
                yield says(redactor.clean(text))
            case Thinking(text=text):
                if text:
                    yield update_agent_thought_text(redactor.clean(text))
            case ToolCall(id=call_id, name=name, args=args):
                shown = redactor.clean_all(dict(args))
                yield start_tool_call(
                    call_id,
                    call_title(name, shown),
                    kind=call_kind(name),
                    status="pending",
                    locations=call_locations(root, name, shown),
                    raw_input=shown,
                )
            case ToolResult(call_id=call_id, content=content, failed=failed):
                said = tool_content(text_block(truncate_text(redactor.clean(content), SHOWN_CHARACTERS)))
                yield update_tool_call(call_id, status="failed" if failed else "completed", content=[said])
            case Image():
                yield update_user_message_text("[an image]")
