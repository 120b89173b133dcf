from scaffold.agent.context.compaction import HEADING
from scaffold.agent.context.conversation import Conversation
from scaffold.agent.context.text_size import message_size
from scaffold.core.conversation import AssistantMessage, Text, ToolCall, ToolResult, UserMessage

HELLO, HI, MORE = UserMessage((Text("hello"),)), AssistantMessage((Text("hi"),)), UserMessage((Text("more"),))


def test_the_summary_is_shown_first_and_is_one_with_the_users_words_after_it():
    """RA-10."""
    talk = Conversation([HELLO, HI], "- user: before")
    first, second = talk.shown()
    assert first == UserMessage((Text(f"{HEADING}\n\n- user: before"), Text("hello")))
    assert second is HI
    assert talk.kept == [HELLO, HI]
    assert talk.size == sum(map(message_size, talk.shown()))


def test_a_summary_before_a_reply_stands_alone():
    """RA-10: a turn may be cut in its middle."""
    call = AssistantMessage((ToolCall("1", "t", {}),))
    talk = Conversation([call, UserMessage((ToolResult("1", "t", ""),))], "- user: before")
    assert [type(message) for message in talk.shown()] == [UserMessage, AssistantMessage, UserMessage]


def test_what_was_shown_once_is_the_same_object_ever_after():
    """RA-3: encoded once, cached by the provider."""
    talk = Conversation([HELLO, HI])
    before = talk.shown()
    talk.add(MORE)
    talk.add(AssistantMessage(()))
    assert all(new is old for new, old in zip(talk.shown(), before, strict=False))
    assert len(before) == 2


def test_ids_stay_taken_when_their_calls_are_summarised():
    """Trap: the model may still name them."""
    call = AssistantMessage((ToolCall("1", "t", {}),))
    talk = Conversation([HELLO, call, UserMessage((ToolResult("1", "t", "x" * 9_000),)), HI])
    talk.compact(0)
    assert talk.kept == [HI]
    assert [renamed.id for renamed in talk.distinct(call).tool_calls] == ["1-2"]


def test_a_reply_whose_ids_are_free_stays_the_same_object():
    call = AssistantMessage((ToolCall("1", "t", {}),))
    assert Conversation([HELLO]).distinct(call) is call
