from scaffold.agent.context.compaction import HEADING
from scaffold.agent.context.conversation_window import Conversation
from scaffold.agent.context.text_size import message_size
from scaffold.core.conversation import AssistantMessage, Text, ToolCall, ToolResult, UserMessage

HELLO, HI, MORE = UserMessage((Text("hello"),)), AssistantMessage((Text("hi"),)), UserMessage((Text("more"),))


def test_the_summary_comes_first_and_is_joined_with_the_user_message_after_it():
    """RA-10."""
    conversation = Conversation([HELLO, HI], "- user: before")
    first, second = conversation.shown()
    assert first == UserMessage((Text(f"{HEADING}\n\n- user: before"), Text("hello")))
    assert second is HI
    assert conversation.kept == [HELLO, HI]
    assert conversation.size == sum(map(message_size, conversation.shown()))


def test_a_summary_before_a_reply_is_a_message_by_itself():
    """RA-10: a turn may be cut in its middle."""
    call = AssistantMessage((ToolCall("1", "t", {}),))
    conversation = Conversation([call, UserMessage((ToolResult("1", "t", ""),))], "- user: before")
    assert [type(message) for message in conversation.shown()] == [UserMessage, AssistantMessage, UserMessage]


def test_a_message_keeps_its_identity_after_it_was_sent():
    """RA-3: it is encoded once, and the provider caches it."""
    conversation = Conversation([HELLO, HI])
    before = conversation.shown()
    conversation.add(MORE)
    conversation.add(AssistantMessage(()))
    assert all(new is old for new, old in zip(conversation.shown(), before, strict=False))
    assert len(before) == 2


def test_call_ids_stay_taken_after_compaction():
    """Trap: the model may still name them."""
    call = AssistantMessage((ToolCall("1", "t", {}),))
    conversation = Conversation([HELLO, call, UserMessage((ToolResult("1", "t", "x" * 9_000),)), HI])
    conversation.compact(0)
    assert conversation.kept == [HI]
    assert [renamed.id for renamed in conversation.distinct(call).tool_calls] == ["1-2"]


def test_what_its_server_wants_back_stays_with_a_call_that_gets_a_new_id():
    """RA-1: Gemini refuses a call without its signature; some proxies number the calls of each reply anew."""
    call = AssistantMessage((ToolCall("c0", "t", {}),), opaque={"": {"sealed": "x"}, "c0": {"signature": "y"}})
    assert Conversation([call]).distinct(call).opaque == {"": {"sealed": "x"}, "c0-2": {"signature": "y"}}


def test_a_reply_whose_ids_are_unused_is_not_copied():
    call = AssistantMessage((ToolCall("1", "t", {}),))
    assert Conversation([HELLO]).distinct(call) is call


def test_a_compaction_that_would_not_shorten_anything_changes_nothing():
    """RA-10: a summary may be longer than the few short messages it replaces; the store is not told then either."""
    conversation = Conversation([HELLO, HI, MORE], summary="earlier")
    before = conversation.shown()
    assert conversation.compact(0) is None
    assert (conversation.shown(), conversation.summary) == (before, "earlier")
