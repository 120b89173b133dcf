"""What only the server of a reply understands comes back to it, unchanged, and to no other."""

import json
from typing import Any

import msgspec
import pytest

from scaffold.core.conversation import AssistantMessage, Caller, Request, ToolResult, UserMessage
from scaffold.llm.wire.anthropic import AnthropicCodec
from scaffold.llm.wire.chat_completions import ChatCodec
from scaffold.llm.wire.codec import OPAQUE, Codec, ModelTarget, ServerSentEvent
from scaffold.llm.wire.responses import ResponsesCodec

TARGET = ModelTarget(name="m", model="local:m@http://127.0.0.1:1/v1")
OTHER = ModelTarget(name="n", model="local:n@http://127.0.0.1:1/v1")
SIGNED = {"extra_content": {"google": {"thought_signature": "SIG"}}}


def call(own: str = "c1", **fields: Any) -> dict[str, Any]:
    return {
        "index": int(own[1]),
        "id": own,
        "type": "function",
        "function": {"name": "look", "arguments": "{}"},
        **fields,
    }


def streamed(codec: Codec, *events: dict[str, Any]) -> AssistantMessage:
    """Return the reply as a conversation that was stored gives it back."""
    reader = codec.reader(TARGET)
    for event in events:
        reader.feed(ServerSentEvent("", json.dumps(event)))
    stored = msgspec.json.encode(reader.end().message)
    return msgspec.json.decode(stored, type=AssistantMessage)


def said(*deltas: dict[str, Any]) -> AssistantMessage:
    chunks = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    return streamed(ChatCodec(), *chunks, {"choices": [{"index": 0, "finish_reason": "stop"}]})


def sent(message: AssistantMessage, target: ModelTarget = TARGET, codec: Codec | None = None) -> list[dict[str, Any]]:
    return json.loads(b"[%b]" % (codec or ChatCodec()).message(message, target))


@pytest.mark.parametrize(
    "fields",
    [
        SIGNED,
        {"extra_content": {"vertex": {"thought_signature": "SIG"}}},
        {"provider_specific_fields": {"thought_signature": "SIG"}},
        {"thought_signature": "SIG", "unheard_of": [1, {"a": None}]},
    ],
)
def test_what_a_call_brings_goes_back_with_it_and_to_no_other_model(fields):
    """RA-1: Gemini refuses a call without its thought signature (opencode#4832, pi#6733)."""
    message = said({"content": "So."}, {"tool_calls": [call("c0", **fields)]}, {"tool_calls": [call("c1")]})
    ((own,), (others,), (refused,)) = (sent(message, target) for target in (TARGET, OTHER, TARGET.without(OPAQUE)))
    first, second = own["tool_calls"]
    assert {name: first[name] for name in fields} == fields
    assert first.keys() - fields.keys() == second.keys() == {"id", "type", "function"}
    assert [each["tool_calls"][0].keys() for each in (others, refused)] == [second.keys()] * 2


def test_what_a_function_brings_goes_back_in_it():
    function = {"name": "look", "arguments": "{}", "thought_signature": "SIG"}
    (reply,) = sent(said({"tool_calls": [call("c0") | {"function": function}]}))
    assert reply["tool_calls"][0]["function"] == function


def test_what_a_reply_brings_goes_back_with_it_whenever_it_came():
    """RA-1: the signature of a text, in a chunk of its own (any-llm#1320)."""
    message = said({"content": "So."}, SIGNED, {"reasoning_opaque": "x"})
    assert sent(message) == [{"role": "assistant", "content": "So.", **SIGNED, "reasoning_opaque": "x"}]
    assert sent(message, OTHER) == [{"role": "assistant", "content": "So."}]


def test_details_of_thoughts_come_in_pieces_and_go_back_whole():
    """RA-1: half a thought does not fit its signature (agno#8794, pydantic-ai#7214)."""
    pieces = [
        {"type": "reasoning.text", "text": "Let", "format": "f", "index": 0},
        {"type": "reasoning.text", "text": " me", "format": "f", "index": 0},
        {"type": "reasoning.text", "signature": "SIG", "index": 0},
        {"type": "reasoning.encrypted", "data": "abc", "id": "rs", "index": 1},
        {"type": "reasoning.summary", "summary": "ha", "index": 2},
        {"type": "reasoning.summary", "summary": "ha", "index": 2},
    ]
    whole = [
        {"type": "reasoning.text", "text": "Let me", "format": "f", "index": 0, "signature": "SIG"},
        pieces[3],
        {"type": "reasoning.summary", "summary": "haha", "index": 2},
    ]
    message = said(*({"reasoning_details": [piece]} for piece in pieces), {"content": "So."})
    assert sent(message)[0]["reasoning_details"] == whole
    assert sent(said({"content": "So.", "reasoning_details": whole}))[0]["reasoning_details"] == whole
    assert "reasoning_details" not in sent(message, OTHER)[0]


def test_pieces_without_an_index_end_with_their_signature():
    """RA-1: LiteLLM's blocks."""
    blocks = [
        [{"type": "thinking", "thinking": "a", "signature": None}],
        [{"type": "thinking", "thinking": "b", "signature": "S1"}],
        [{"type": "thinking", "thinking": "c", "signature": "S2"}],
    ]
    message = said(*({"thinking_blocks": block} for block in blocks), {"content": "So."})
    assert sent(message)[0]["thinking_blocks"] == [
        {"type": "thinking", "thinking": "ab", "signature": "S1"},
        {"type": "thinking", "thinking": "c", "signature": "S2"},
    ]


def test_a_thought_that_is_an_object_goes_back_as_one():
    message = said({"reasoning": {"text": "H"}}, {"reasoning": {"text": "m", "seal": "x"}}, {"content": "So."})
    assert sent(message)[0]["reasoning"] == {"text": "Hm", "seal": "x"}


def test_blocks_of_messages_keep_what_they_brought():
    """RA-1: `caller` of Anthropic, signatures of servers that imitate it."""
    block = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}, "caller": {"type": "direct"}}
    thoughts = [{"type": "thinking", "thinking": "Hm", "signature": "SIG"}, {"type": "redacted_thinking", "data": "x"}]
    body = {"type": "message", "content": [*thoughts, block], "stop_reason": "tool_use"}
    message = AnthropicCodec().reader(TARGET).whole(json.dumps(body).encode()).message
    assert sent(message, codec=AnthropicCodec())[0]["content"] == [*thoughts, block]
    plain = {name: block[name] for name in ("type", "id", "name", "input")}
    for target in (OTHER, TARGET.without(OPAQUE)):
        assert sent(message, target, AnthropicCodec())[0]["content"] == [plain]


def test_items_of_responses_keep_what_they_brought():
    """RA-1: the phase of a text; ids that only a provider's own storage knows do not go back."""
    texts = [
        {"type": "message", "id": "msg", "content": [{"type": "output_text", "text": text}], "phase": phase}
        for text, phase in (("Looking.", "commentary"), ("So.", "final_answer"))
    ]
    made = {"type": "function_call", "id": "fc", "call_id": "c1", "name": "look", "arguments": "{}", "namespace": "n"}
    thought = {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "sealed"}
    body = {"status": "completed", "output": [thought, *texts, made]}
    message = ResponsesCodec().reader(TARGET).whole(json.dumps(body).encode()).message
    back = sent(message, codec=ResponsesCodec())
    assert back[0] == thought
    assert [item.get("phase") for item in back[1:]] == ["commentary", "final_answer", None]
    assert back[3] == {name: made[name] for name in ("type", "call_id", "name", "arguments", "namespace")}
    for target in (OTHER, TARGET.without(OPAQUE)):
        assert [
            item.keys() & {"phase", "namespace", "summary"} for item in sent(message, target, ResponsesCodec())
        ] == [set()] * 3


def test_signatures_of_calls_that_are_split_go_with_them():
    """BX-30: each with its call; what belongs to the whole reply goes with the first."""
    signed = [call(f"c{at}", extra_content=f"SIG {at}") for at in range(2)]
    message = said({"reasoning_details": ["Hm."]}, *({"tool_calls": [each]} for each in signed))
    results = UserMessage(tuple(ToolResult(each.id, each.name, "x") for each in message.tool_calls))
    request = Request(caller=Caller(role="agent"), system="", messages=(message, results))
    codec = ChatCodec(local=True, one_call=True)
    body = json.loads(codec.request(request, [codec.message(each, TARGET) for each in request.messages], TARGET))
    replies = [each for each in body["messages"] if each["role"] == "assistant"]
    assert [each["tool_calls"][0]["extra_content"] for each in replies] == ["SIG 0", "SIG 1"]
    assert [each.get("reasoning_details") for each in replies] == [["Hm."], None]
