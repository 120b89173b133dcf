"""Parsing of replies on the Anthropic wire; comparison with the official SDK is a property test."""

import json
from itertools import product
from typing import Any

from scaffold.core.conversation import Delta, Text, TextDelta, Thinking, ThinkingDelta, ToolCall, ToolCallDelta
from scaffold.core.errors import ContextOverflow, ModelError
from scaffold.core.model import Usage
from scaffold.llm.wire.anthropic import AnthropicCodec
from scaffold.llm.wire.codec import ModelTarget, ServerSentEvent, WireReply
from scaffold.llm.wire.format import UNREADABLE_ARGUMENT
from support.errors import error_of

TARGET = ModelTarget(name="claude-sonnet-4-6", model="anthropic:claude-sonnet-4-6")


def event(kind: str, **fields: Any) -> ServerSentEvent:
    return ServerSentEvent(kind, json.dumps({"type": kind, **fields}))


def start(**usage: int | None) -> ServerSentEvent:
    message = {"type": "message", "id": "msg_1", "role": "assistant", "content": [], "stop_reason": None}
    return event("message_start", message=message | {"usage": {"input_tokens": 3, "output_tokens": 1} | usage})


def opens(index: int, kind: str, **fields: Any) -> ServerSentEvent:
    return event("content_block_start", index=index, content_block={"type": kind, **fields})


def grows(index: int, kind: str, **fields: Any) -> ServerSentEvent:
    return event("content_block_delta", index=index, delta={"type": kind, **fields})


def stops(reason: str | None, **usage: int | None) -> list[ServerSentEvent]:
    delta = {"stop_reason": reason, "stop_sequence": None}
    return [event("message_delta", delta=delta, usage={"output_tokens": 9} | usage), event("message_stop")]


def call(index: int, text: str, *, call_id: str = "toolu_1", name: str = "read") -> list[ServerSentEvent]:
    return [
        opens(index, "tool_use", id=call_id, name=name, input={}),
        grows(index, "input_json_delta", partial_json=""),
        *(grows(index, "input_json_delta", partial_json=char) for char in text),
        event("content_block_stop", index=index),
    ]


def hear(*events: ServerSentEvent) -> tuple[WireReply, list[Delta]]:
    reader = AnthropicCodec().reader(TARGET)
    deltas = [delta for event in events for delta in reader.feed(event)]
    return reader.end(), deltas


def heard(*events: ServerSentEvent) -> WireReply:
    return hear(*events)[0]


def error(*events: ServerSentEvent) -> ModelError:
    return error_of(ModelError, hear, *events)


def test_text_thinking_and_calls_are_streamed_and_returned_as_a_whole():
    """RA-2."""
    whole, deltas = hear(
        start(),
        event("ping"),
        opens(0, "thinking", thinking="", signature=""),
        grows(0, "thinking_delta", thinking="Hm"),
        grows(0, "thinking_delta", thinking="m."),
        grows(0, "signature_delta", signature="sig"),
        event("content_block_stop", index=0),
        opens(1, "redacted_thinking", data="opaque"),
        opens(2, "text", text="I "),
        grows(2, "text_delta", text="read."),
        opens(3, "tool_use", id="toolu_1", name="read", input={}),
        grows(3, "input_json_delta", partial_json='{"path": '),
        grows(3, "input_json_delta", partial_json='"a.py"}'),
        opens(4, "tool_use", id="toolu_2", name="find", input={}),
        *stops("tool_use"),
    )
    assert deltas == [
        ThinkingDelta("Hm"),
        ThinkingDelta("m."),
        TextDelta("I "),
        TextDelta("read."),
        ToolCallDelta(0, "read", ""),
        ToolCallDelta(0, "read", '{"path": '),
        ToolCallDelta(0, "read", '"a.py"}'),
        ToolCallDelta(1, "find", ""),
    ]
    assert whole.message.parts == (
        Thinking("Hmm.", signature="sig"),
        Thinking("", signature="opaque", redacted=True),
        Text("I read."),
        ToolCall("toolu_1", "read", {"path": "a.py"}),
        ToolCall("toolu_2", "find", {}),
    )
    assert whole.message.model == TARGET.model
    assert whole.stop == "tool_calls"


def test_counts_that_the_end_repeats_as_0_are_those_of_the_beginning():
    """AL-21: proxies do so."""
    events = [start(input_tokens=5_000, cache_read_input_tokens=2_000), *stops("end_turn", input_tokens=0)]
    used = heard(*events).usage
    assert (used.input_tokens, used.cached_input_tokens, used.output_tokens) == (7_000, 2_000, 9)


def test_usage_may_be_unreadable():
    """AL-21: the reply is good; its usage is estimated."""
    for usage in ["much", [1], 7, {"input_tokens": "a lot"}]:
        message = {"type": "message", "content": [], "stop_reason": "end_turn", "usage": usage}
        assert AnthropicCodec().reader(TARGET).whole(body(**message)).usage == Usage(cost_usd=None, requests=1), usage
        started = event("message_start", message=message)
        assert heard(started, *stops("end_turn")).usage == Usage(output_tokens=9, cost_usd=None, requests=1), usage
        end = event("message_delta", delta={"stop_reason": "end_turn"}, usage=usage)
        assert heard(start(), end, event("message_stop")).usage.input_tokens == 3, usage


def test_usage_is_counted_once_with_all_input():
    """Trap (b): the numbers are totals, however often they come."""
    whole = heard(
        start(input_tokens=3, cache_creation_input_tokens=20, cache_read_input_tokens=100, output_tokens=1),
        event("message_delta", delta={"stop_reason": None}, usage={"output_tokens": 5}),
        *stops("end_turn", output_tokens=9),
    )
    assert whole.usage == Usage(
        input_tokens=123, cached_input_tokens=100, cache_write_tokens=20, output_tokens=9, cost_usd=None, requests=1
    )


def test_a_later_total_replaces_an_earlier_one_unless_it_is_missing():
    whole = heard(start(cache_read_input_tokens=100), *stops("end_turn", input_tokens=4, cache_read_input_tokens=None))
    assert whole.usage.input_tokens == 104


def test_stop_reasons_of_a_text_reply_map_to_ours():
    expected = {
        "end_turn": "end",
        "stop_sequence": "end",
        "pause_turn": "paused",
        "tool_use": "end",
        "max_tokens": "max_tokens",
        "model_context_window_exceeded": "max_tokens",
        "refusal": "refused",
        "something_new": "end",
    }
    assert {reason: heard(start(), opens(0, "text", text="hi"), *stops(reason)).stop for reason in expected} == expected


def test_a_reported_stop_reason_is_not_overwritten():
    more = event("message_delta", delta={"stop_reason": None}, usage={"output_tokens": 9})
    reason, end = stops("max_tokens")
    assert heard(start(), reason, more, end).stop == "max_tokens"


def test_calls_of_a_truncated_reply_have_no_arguments():
    """Trap (a), RA-2: arguments that look complete could be half a file."""
    reasons = ["max_tokens", "model_context_window_exceeded", "length"]
    for reason, text in product(reasons, ["", "{}", '{"path": "a.py"}', '{"path": "a.p']):
        whole = heard(start(), *call(0, text), *stops(reason))
        found = (whole.stop, whole.message.tool_calls)
        assert found == ("max_tokens", (ToolCall("toolu_1", "read", {}),)), (reason, text)


def test_a_reply_with_calls_stops_for_calls_whatever_the_server_says():
    reasons = ["end_turn", "stop_sequence", "pause_turn", "tool_use", "stop", "tool_calls", "something_new"]
    assert [reason for reason in reasons if heard(start(), *call(0, "{}"), *stops(reason)).stop != "tool_calls"] == []


def test_a_refused_reply_has_no_calls():
    """They would get no results, and the wire refuses a history with calls that have none."""
    whole = heard(start(), opens(0, "text", text="I was"), *call(1, "{}"), *stops("refusal"))
    assert whole.message.parts == (Text("I was"),)


def test_non_object_arguments_reach_the_agent_as_such():
    """The model gets a useful message, and the call is not run."""
    [unreadable] = heard(start(), *call(0, '{"path": '), *stops("tool_use")).message.tool_calls
    assert list(unreadable.args) == [UNREADABLE_ARGUMENT]


def test_arguments_may_come_with_the_start_of_the_call():
    events = [opens(0, "tool_use", id="toolu_1", name="read", input={"path": "a.py"})]
    assert heard(start(), *events, *stops("tool_use")).message.tool_calls[0].args == {"path": "a.py"}


def test_call_ids_are_made_unique_if_the_server_repeats_them():
    """Trap (e)."""
    ids = ["toolu_1", "toolu_2", "toolu_1", "toolu_1_2", "toolu_2_5", "toolu_2", None, None]
    events = [event for index, call_id in enumerate(ids) for event in call(index, "{}", call_id=call_id)]
    calls = heard(start(), *events, *stops("tool_use")).message.tool_calls
    assert [call.id for call in calls[:2]] == ["toolu_1", "toolu_2"]
    assert len({call.id for call in calls}) == len(ids)
    assert all(call.id for call in calls)


def test_data_after_the_end_is_ignored():
    reader = AnthropicCodec().reader(TARGET)
    for each in (start(), opens(0, "text", text="hi"), *stops("end_turn")):
        assert not reader.complete
        reader.feed(each)
    assert reader.complete
    assert reader.feed(ServerSentEvent("error", "garbage")) == ()
    assert reader.end().message.text == "hi"


def test_unknown_events_and_fields_are_ignored():
    whole = heard(
        ServerSentEvent("", ""),
        ServerSentEvent("ping", ""),
        ServerSentEvent("brand_new", "no json"),
        start(),
        ServerSentEvent("", json.dumps({"type": "newer", "index": 3})),
        opens(0, "server_tool_use", id="x", name="web_search", input={}),
        grows(0, "input_json_delta", partial_json="{"),
        opens(1, "text", text=""),
        grows(1, "citations_delta", citation={"cited_text": "x"}),
        grows(1, "text_delta", text="hi"),
        grows(1, "thinking_delta", thinking="a thought"),
        opens(2, "text", text=""),
        *stops("end_turn"),
    )
    assert whole.message.parts == (Text("hi"), Thinking("a thought"))


def test_garbage_is_a_transient_error():
    """RA-21."""
    rows = [
        [ServerSentEvent("message_start", "{")],
        [ServerSentEvent("message_start", "[]")],
        [ServerSentEvent("message_delta", '{"type": "message_delta", "delta": "?"}')],
        [ServerSentEvent("content_block_delta", "[" * 100_000)],
        [grows(0, "text_delta", text="no end")],
        [start(), opens(0, "text", text="a"), start()],
        [start(), grows(0, "input_json_delta", partial_json="{}"), *stops("tool_use")],
        [start(), *stops(None)],
    ]
    assert [events for events in rows if error(*events) is None or not error(*events).transient] == []


def test_errors_within_the_stream_are_reported():
    """RA-21."""
    overloaded = error(start(), event("error", error={"type": "overloaded_error", "message": "Overloaded"}))
    assert (overloaded.transient, overloaded.limited) == (True, True)
    assert "Overloaded" in overloaded.what
    final = error(event("error", error={"type": "invalid_request_error", "message": "no"}))
    assert not final.transient
    long = error(event("error", error={"type": "invalid_request_error", "message": "prompt is too long: 2 > 1"}))
    assert isinstance(long, ContextOverflow)


def test_errors_of_an_unusual_shape_are_reported_too():
    rows = ["upstream gone", '"upstream gone"', '{"message": "upstream gone"}', '{"detail": "upstream gone"}']
    assert [data for data in rows if "upstream gone" not in error(ServerSentEvent("error", data)).what] == []


def body(**fields: Any) -> bytes:
    message = {"type": "message", "content": [], "stop_reason": "end_turn", "usage": {"input_tokens": 3}}
    return json.dumps(message | fields).encode()


def test_a_whole_reply_is_parsed_like_a_streamed_one():
    """RA-2: `--no-stream`."""
    content = [
        {"type": "thinking", "thinking": "Hm", "signature": "sig"},
        {"type": "redacted_thinking", "data": "opaque"},
        {"type": "text", "text": "I read.", "citations": None},
        {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {"path": "a.py"}},
    ]
    usage = {"input_tokens": 3, "cache_read_input_tokens": 10, "output_tokens": 5}
    whole = AnthropicCodec().reader(TARGET).whole(body(content=content, stop_reason="tool_use", usage=usage))
    assert whole.message.parts == (
        Thinking("Hm", signature="sig"),
        Thinking("", signature="opaque", redacted=True),
        Text("I read."),
        ToolCall("toolu_1", "read", {"path": "a.py"}),
    )
    assert whole.stop == "tool_calls"
    assert whole.usage == Usage(input_tokens=13, cached_input_tokens=10, output_tokens=5, cost_usd=None, requests=1)


def test_calls_of_a_truncated_whole_reply_have_no_arguments_either():
    """Trap (a)."""
    content = [{"type": "tool_use", "id": "toolu_1", "name": "read", "input": {"path": "a.p"}}]
    whole = AnthropicCodec().reader(TARGET).whole(body(content=content, stop_reason="max_tokens"))
    assert whole.message.tool_calls == (ToolCall("toolu_1", "read", {}),)
    assert whole.stop == "max_tokens"


def test_a_body_without_a_message_is_a_transient_error():
    rows = [b"", b"{", b"[]", b"{}", b"\xff", b'{"content": 7}', body(stop_reason=None)]
    errors = [(data, error_of(ModelError, AnthropicCodec().reader(TARGET).whole, data)) for data in rows]
    assert [data for data, error in errors if error is None or not error.transient] == []


def test_an_error_with_status_200_is_reported():
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    assert error_of(ModelError, AnthropicCodec().reader(TARGET).whole, json.dumps(error).encode()).limited
