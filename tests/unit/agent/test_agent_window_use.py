from inline_snapshot import snapshot

from scaffold.agent.context.conversation_window import Conversation
from scaffold.agent.context.window_use import conversation_parts
from scaffold.core.conversation import AssistantMessage, Text, ToolCall, ToolResult, UserMessage


def test_a_conversation_is_divided_into_its_parts_without_a_rest():
    """RA-18: nothing that fills the window is missing from `/context`."""
    conversation = Conversation(
        [
            UserMessage((Text("x" * 10),)),
            AssistantMessage((Text("y" * 7), ToolCall("a", "look", {}), ToolCall("b", "find", {}))),
            UserMessage((ToolResult("a", "look", "z" * 5), ToolResult("b", "find", "z" * 50), Text("x"))),
        ],
        summary="earlier",
    )
    parts = conversation_parts(conversation)
    assert [part.name for part in parts] == snapshot(
        ["summary of earlier messages", "your messages", "replies and tool calls", "results of find", "results of look"]
    )
    assert [part.size for part in parts[1:]] == [11, 7 + 12, 50, 5]
    assert sum(part.size for part in parts) == conversation.size


def test_an_empty_conversation_has_no_parts():
    assert conversation_parts(Conversation()) == ()
