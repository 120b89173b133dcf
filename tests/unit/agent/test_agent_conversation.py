from scaffold.agent.context.compaction import HEADING
from scaffold.agent.context.conversation import Conversation
from scaffold.agent.context.text_size import message_size
from scaffold.core.conversation import AssistantMessage, Text, ToolCall, ToolResult, UserMessage

HELLO, HI, MORE = UserMessage((Text("hello"),)), AssistantMessage((Text("hi"),)), UserMessage((Text("more"),))


def test_the_summary_comes_first_and_is_joined_with_the_user_message_after_it():
    """RA-10."""
    talk = Conversation([HELLO, HI], "- user: before")
    first, second = talk.shown()
    assert first == UserMessage((Text(f"{HEADING}\n\n- user: before"), Text("hello")))
    assert second is HI
    assert talk.kept == [HELLO, HI]
    assert talk.size == sum(map(message_size, talk.shown()))


def test_a_summary_before_a_reply_is_a_message_by_itself():
    """RA-10: a turn may be cut in its middle."""
    call = AssistantMessage((ToolCall("1", "t", {}),))
    talk = Conversation([call, UserMessage((ToolResult("1", "t", ""),))], "- user: before")
    assert [type(message) for message in talk.shown()] == [UserMessage, AssistantMessage, UserMessage]


def test_a_message_keeps_its_identity_after_it_was_sent():
    """RA-3: it is encoded once, and the provider caches it."""
    talk = Conversation([HELLO, HI])
    before = talk.shown()
    talk.add(MORE)
    talk.add(AssistantMessage(()))
    assert all(new is old for new, old in zip(talk.shown(), before, strict=False))
    assert len(before) == 2


def test_call_ids_stay_taken_after_compaction():
    """Trap: the model may still name them."""
    call = AssistantMessage((ToolCall("1", "t", {}),))
    talk = Conversation([HELLO, call, UserMessage((ToolResult("1", "t", "x" * 9_000),)), HI])
    talk.compact(0)
    assert talk.kept == [HI]
    assert [renamed.id for renamed in talk.distinct(call).tool_calls] == ["1-2"]


def test_a_reply_whose_ids_are_unused_is_not_copied():
    call = AssistantMessage((ToolCall("1", "t", {}),))
    assert Conversation([HELLO]).distinct(call) is call


def test_a_compaction_that_would_not_shorten_anything_changes_nothing():
    """RA-10: a summary may be longer than the few short messages it replaces; the store is not told then either."""
    talk = Conversation([HELLO, HI, MORE], summary="earlier")
    before = talk.shown()
    assert talk.compact(0) is None
    assert (talk.shown(), talk.summary) == (before, "earlier")
