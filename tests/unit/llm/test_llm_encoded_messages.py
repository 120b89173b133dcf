from scaffold.core.conversation import Image, Text, UserMessage
from scaffold.llm.wire.codec import IMAGE_TOKENS, EncodedMessages, ModelTarget


class Counting:
    """A codec that records what it encodes."""

    def __init__(self):
        self.encoded = []

    def message(self, message, target):
        self.encoded.append(message)
        return b"x" * 40


def said(text):
    return UserMessage((Text(text),))


def pieces():
    codec = Counting()
    return codec, EncodedMessages(codec, ModelTarget(name="m", model="p:m"))


def test_a_turn_encodes_only_new_messages():
    codec, encoded = pieces()
    messages = [said("a"), said("b")]
    encoded.encode(messages)
    messages.append(said("c"))
    assert len(encoded.encode(messages)) == 3
    assert codec.encoded == messages
    encoded.encode(tuple(messages))
    assert len(codec.encoded) == 3


def test_a_rewritten_conversation_is_encoded_again():
    codec, encoded = pieces()
    first, last = said("a"), said("b")
    encoded.encode([first, last])
    encoded.encode([said("summary"), last])
    assert len(codec.encoded) == 4
    assert encoded.tokens([last]) == 10
    assert len(codec.encoded) == 5


def test_a_rewound_conversation_loses_its_end():
    _, encoded = pieces()
    messages = [said("a"), said("b")]
    encoded.encode(messages)
    assert len(encoded.encode(messages[:1])) == 1


def test_equal_messages_are_not_taken_for_the_same_object():
    codec, encoded = pieces()
    encoded.encode([said("a")])
    encoded.encode([said("a")])
    assert len(codec.encoded) == 2


def test_tokens_are_estimated_by_bytes_and_by_image():
    _, encoded = pieces()
    assert encoded.tokens([said("a"), said("b")]) == 20
    assert encoded.tokens([UserMessage((Image("image/png", b"x" * 3_000_000),))]) == IMAGE_TOKENS
