from scaffold.core.conversation import AssistantMessage, Image, Text, Thinking, ToolCall, UserMessage
from scaffold.llm.codec import Target
from scaffold.llm.live import with_own_ids
from scaffold.llm.pieces import IMAGE_TOKENS, Pieces


class Counting:
    """A codec that notes what it encodes."""

    def __init__(self):
        self.encoded = []

    def message(self, message, target):
        self.encoded.append(message)
        return b"x" * 40


def said(text):
    return UserMessage((Text(text),))


def pieces():
    codec = Counting()
    return codec, Pieces(codec, Target(name="m", model="p:m"))


def test_a_turn_encodes_what_is_new_and_nothing_else():
    codec, encoded = pieces()
    messages = [said("a"), said("b")]
    encoded.of(messages)
    messages.append(said("c"))
    assert len(encoded.of(messages)) == 3
    assert codec.encoded == messages
    encoded.of(tuple(messages))
    assert len(codec.encoded) == 3


def test_a_conversation_that_was_rewritten_is_encoded_again():
    codec, encoded = pieces()
    first, last = said("a"), said("b")
    encoded.of([first, last])
    encoded.of([said("summary"), last])
    assert len(codec.encoded) == 4
    assert encoded.tokens([last]) == 10
    assert len(codec.encoded) == 5


def test_a_conversation_that_was_taken_back_loses_its_end():
    _, encoded = pieces()
    messages = [said("a"), said("b")]
    encoded.of(messages)
    assert len(encoded.of(messages[:1])) == 1


def test_messages_that_are_only_equal_are_not_taken_for_the_same():
    codec, encoded = pieces()
    encoded.of([said("a")])
    encoded.of([said("a")])
    assert len(codec.encoded) == 2


def test_tokens_are_judged_by_bytes_and_pictures_by_the_piece():
    _, encoded = pieces()
    assert encoded.tokens([said("a"), said("b")]) == 20
    assert encoded.tokens([UserMessage((Image("image/png", b"x" * 3_000_000),))]) == IMAGE_TOKENS


def test_the_ids_of_calls_are_remembered_as_long_as_their_messages_are_there():
    _, encoded = pieces()
    called = AssistantMessage((ToolCall("1", "t", {}), ToolCall("2", "t", {})))
    assert encoded.calls([called]) == {"1", "2"}
    assert encoded.calls([said("summary")]) == set()


def test_a_call_whose_id_was_used_before_gets_one_of_its_own():
    """RA-1: ids of tool calls are unique in a conversation."""
    parts = (Thinking("hm"), ToolCall("0", "a", {}), ToolCall("1", "b", {}), ToolCall("1", "c", {}), Text("so"))
    own = with_own_ids(AssistantMessage(parts, model="p:m"), {"0", "0-2"})
    assert [call.id for call in own.tool_calls] == ["0-3", "1", "1-2"]
    assert [call.name for call in own.tool_calls] == ["a", "b", "c"]
    assert (own.parts[0], own.parts[4], own.model) == (parts[0], parts[4], "p:m")


def test_a_message_whose_ids_are_its_own_stays_as_it_is():
    message = AssistantMessage((ToolCall("0", "a", {}),))
    assert with_own_ids(message, {"1"}) == message
