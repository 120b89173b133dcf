import json

from scaffold.core.conversation import (
    AssistantMessage,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolCall,
    ToolCallDelta,
)
from scaffold.core.errors import ContextOverflow, ModelAccessDenied, ModelError
from scaffold.core.model import Usage
from scaffold.llm.wire.codec import ModelTarget, ServerSentEvent, WireReply
from scaffold.llm.wire.format import UNREADABLE_ARGUMENT
from scaffold.llm.wire.provider_errors import RequestRejected
from scaffold.llm.wire.responses import ResponsesCodec
from support.errors import error_of

TARGET = ModelTarget(name="gpt-5", model="openai:gpt-5")


def event(kind, **fields):
    return {"type": f"response.{kind}", "sequence_number": 1} | fields


def thought(*summary, seal="sealed", own="rs_1", content=None):
    parts = [{"type": "summary_text", "text": text} for text in summary]
    return {"type": "reasoning", "id": own, "summary": parts, "content": content, "encrypted_content": seal}


def message(*texts, refusal=None):
    content = [{"type": "output_text", "text": text, "annotations": []} for text in texts]
    refused = [{"type": "refusal", "refusal": refusal}] if refusal else []
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content + refused}


def call(own="call_1", name="look", arguments='{"x": 1}'):
    return {"type": "function_call", "id": "fc_1", "call_id": own, "name": name, "arguments": arguments}


def ended(*output, status="completed", **fields):
    return event(status, response={"id": "resp_1", "status": status, "output": list(output)} | fields)


def feed(*events):
    reader, deltas = ResponsesCodec().reader(TARGET), []
    for each in events:
        deltas += reader.feed(ServerSentEvent("", each if isinstance(each, str) else json.dumps(each)))
    return reader, deltas


def heard(*events) -> WireReply:
    return feed(*events)[0].end()


def parts(*events):
    return heard(*events).message.parts


def test_text_thinking_and_calls_are_streamed_as_they_are_written():
    """RA-2."""
    reader, deltas = feed(
        event("created", response={"id": "resp_1", "status": "in_progress", "output": []}),
        event("output_item.added", output_index=0, item=thought(seal="half")),
        event("reasoning_summary_part.added", output_index=0, summary_index=0),
        event("reasoning_summary_text.delta", output_index=0, summary_index=0, delta="Hm."),
        event("reasoning_summary_part.added", output_index=0, summary_index=1),
        event("reasoning_summary_text.delta", output_index=0, summary_index=1, delta="So."),
        event("output_item.done", output_index=0, item=thought("Hm.", "So.")),
        event("output_item.added", output_index=1, item=message()),
        event("output_text.delta", output_index=1, content_index=0, delta="Yes."),
        event("output_item.done", output_index=1, item=message("Yes.")),
        event("output_item.added", output_index=2, item=call(arguments="")),
        event("function_call_arguments.delta", output_index=2, delta='{"x":'),
        event("function_call_arguments.delta", output_index=2, delta=" 1}"),
        event("output_item.done", output_index=2, item=call()),
        ended(thought("Hm.", "So."), message("Yes."), call()),
    )
    assert deltas == [
        ThinkingDelta("Hm."),
        ThinkingDelta("\n\n"),
        ThinkingDelta("So."),
        TextDelta("Yes."),
        ToolCallDelta(0, "look", ""),
        ToolCallDelta(0, "look", '{"x":'),
        ToolCallDelta(0, "look", " 1}"),
    ]
    assert reader.complete
    said = reader.end()
    assert said.stop == "tool_calls"
    assert said.message == AssistantMessage(
        (Thinking("Hm.\n\nSo.", signature="sealed", id="rs_1"), Text("Yes."), ToolCall("call_1", "look", {"x": 1})),
        TARGET.model,
    )


def test_the_final_event_overrides_all_earlier_ones():
    events = (
        event("output_item.added", output_index=0, item=message()),
        event("output_text.delta", output_index=0, delta="Yas"),
        event("output_item.done", output_index=0, item=message("Yes?")),
    )
    assert parts(*events, ended(message("Yes."))) == (Text("Yes."),)
    assert parts(*events, ended()) == (Text("Yes?"),)


def test_codex_gives_whole_items_and_a_last_event_without_any():
    """RA-1: the Codex backend ends with an empty output."""
    reader, deltas = feed(
        event("output_item.done", output_index=1, item=call()),
        event("output_item.done", output_index=0, item=message("Yes.")),
        ended(),
    )
    assert deltas == [ToolCallDelta(0, "look", '{"x": 1}'), TextDelta("Yes.")]
    assert reader.end().message.parts == (Text("Yes."), ToolCall("call_1", "look", {"x": 1}))


def test_a_last_event_with_less_than_came_before_takes_nothing_away():
    """RA-2: pi#5819, 9router#705."""
    events = (event("output_text.delta", delta="Yes."), event("output_item.done", item=call()))
    for last in [(message(),), (message() | {"content": None},), (message("No."),), (thought("Hm."),)]:
        said = parts(*events, ended(*last))
        assert said == (Text("Yes."), ToolCall("call_1", "look", {"x": 1})), last


def test_items_without_an_index_are_taken_in_order():
    assert parts(
        event("output_item.done", item=thought("Hm.")),
        event("output_text.delta", delta="Ye"),
        event("output_item.done", item=message("Yes.")),
        event("output_item.done", item=call()),
        ended(),
    ) == (Thinking("Hm.", signature="sealed", id="rs_1"), Text("Yes."), ToolCall("call_1", "look", {"x": 1}))


def test_items_that_never_completed_are_built_from_their_deltas():
    said = heard(
        event("output_item.added", output_index=0, item=thought(seal="half")),
        event("reasoning_text.delta", output_index=0, delta="Hm."),
        event("output_text.delta", output_index=1, delta="Ye"),
        event("output_text.delta", output_index=1, delta="s."),
        event("output_item.added", output_index=2, item=call(arguments="")),
        event("function_call_arguments.delta", output_index=2, delta="{"),
        event("function_call_arguments.done", output_index=2, arguments='{"x": 2}'),
        ended(),
    )
    assert said.message.parts == (Thinking("Hm.", id="rs_1"), Text("Yes."), ToolCall("call_1", "look", {"x": 2}))


def test_text_of_which_only_deltas_came_is_no_refusal():
    said = heard(event("output_text.delta", output_index=0, delta="Yes."), ended())
    assert (said.message.text, said.stop) == ("Yes.", "end")


def test_thinking_that_comes_in_one_chunk_is_streamed_as_one():
    assert feed(event("output_item.done", output_index=0, item=thought("Hm.")))[1] == [ThinkingDelta("Hm.")]


def test_generated_ids_differ_between_replies():
    said = ended(call(own=None) | {"id": None})
    other = ended(call(own=None) | {"id": None}, id="resp_2")
    assert heard(said).message.tool_calls[0].id != heard(other).message.tool_calls[0].id


def test_open_reasoning_text_is_used_if_there_is_no_summary():
    content = [{"type": "reasoning_text", "text": "Hm."}]
    assert parts(ended(thought(seal=None, content=content))) == (Thinking("Hm.", id="rs_1"),)


def test_reasoning_with_only_encrypted_content_is_kept_and_empty_reasoning_is_not():
    """RA-1."""
    assert parts(ended(thought())) == (Thinking("", signature="sealed", id="rs_1", redacted=True),)
    assert parts(ended(thought(seal=None))) == ()


def test_each_message_is_one_text():
    assert parts(ended(message("Yes", "."), message("No."), message())) == (Text("Yes."), Text("No."))


def test_missing_or_repeated_ids_are_replaced_deterministically():
    """RA-1: ids of tool calls are unique."""
    last = ended(call(), call(), call(own=None), call(own=None) | {"id": None})
    first = heard(last).message.tool_calls
    assert len({made.id for made in first}) == 4
    assert (first[0].id, first[2].id) == ("call_1", "fc_1")
    assert heard(last).message.tool_calls == first


def test_non_object_arguments_reach_the_model_and_no_tool():
    (said,) = parts(ended(call(arguments="{x}")))
    assert isinstance(said, ToolCall)
    assert said.args.keys() == {UNREADABLE_ARGUMENT}


def test_a_call_truncated_by_the_length_limit_is_never_parsed():
    """RA-2: a truncated call may look complete, so the stop reason is checked first."""
    said = heard(
        event("output_item.added", output_index=0, item=call(arguments="")),
        event("function_call_arguments.delta", output_index=0, delta='{"path": "/tmp/a"}'),
        ended(call(), status="incomplete", incomplete_details={"reason": "max_output_tokens"}),
    )
    assert (said.stop, said.message.parts) == ("max_tokens", (ToolCall("call_1", "look", {}),))


def test_calls_of_a_filtered_reply_are_dropped():
    """RA-1: response.incomplete."""
    said = heard(ended(message("So"), call(), status="incomplete", incomplete_details={"reason": "content_filter"}))
    assert (said.stop, said.message.parts) == ("refused", (Text("So"),))


def test_a_reply_that_is_incomplete_for_an_unknown_reason_was_cut():
    said = heard(ended(message("So"), call(), status="incomplete", incomplete_details={"reason": "steered"}))
    assert (said.stop, said.message.parts) == ("max_tokens", (Text("So"), ToolCall("call_1", "look", {})))


def test_a_refusal_is_returned_as_text_and_stop_reason():
    pieces = [event("refusal.delta", output_index=0, delta=text) for text in ("I will ", "not.")]
    for last in [ended(), ended(message(refusal="I will not."))]:
        reader, deltas = feed(*pieces, last)
        assert deltas == [TextDelta("I will "), TextDelta("not.")]
        assert (reader.end().message.text, reader.end().stop) == ("I will not.", "refused")


def test_repeated_usage_counts_once():
    """RA-2: usage repeated within a message counts once."""
    usage = {"input_tokens": 100, "output_tokens": 3, "input_tokens_details": {"cached_tokens": 60}}
    response = {"id": "resp_1", "output": [], "usage": usage}
    said = heard(event("created", response=response), event("in_progress", response=response), ended(usage=usage))
    assert said.usage == Usage(input_tokens=100, cached_input_tokens=60, output_tokens=3, cost_usd=None, requests=1)


def test_no_input_counts_as_cached_unless_the_server_says_so():
    assert heard(ended(usage={"input_tokens": 9})).usage.cached_input_tokens == 0
    assert heard(ended(usage={"input_tokens": 9, "input_tokens_details": {"cached_tokens": 20}})).usage == Usage(
        input_tokens=9, cached_input_tokens=20, cost_usd=None, requests=1
    ), "judged in one place"


UNREADABLE = ["much", [1], 7, {"input_tokens": "a lot"}, {"input_tokens": True, "input_tokens_details": 3}]


def test_usage_may_be_missing_or_unreadable():
    """AL-21: the reply is good; its usage is estimated."""
    usages = [None, {}, {"input_tokens": None, "input_tokens_details": None}, *UNREADABLE]
    assert [usage for usage in usages if heard(ended(usage=usage)).usage != Usage(cost_usd=None, requests=1)] == []


def test_failures_within_the_stream_are_reported_in_the_servers_words():
    """RA-1, RA-21: response.failed and error."""
    rows = [
        (ended(status="failed", error={"code": "server_error", "message": "Oops."}), (RequestRejected, True)),
        (ended(status="failed", error={"code": "rate_limit_exceeded", "message": "Oops."}), (ModelError, True)),
        (
            ended(status="failed", error={"code": "context_length_exceeded", "message": "Oops."}),
            (ContextOverflow, False),
        ),
        (ended(status="failed", error={"code": "invalid_prompt", "message": "Oops."}), (RequestRejected, False)),
        ({"type": "error", "code": "server_error", "message": "Oops.", "param": None}, (RequestRejected, True)),
        ({"type": "error", "error": {"type": "usage_not_included", "message": "Oops."}}, (ModelAccessDenied, False)),
        ({"error": {"message": "Oops."}}, (RequestRejected, True)),
        ({"error": "Oops."}, (RequestRejected, True)),
    ]
    begun = event("output_text.delta", output_index=0, delta="a")
    errors = [(said, error_of(ModelError, feed, begun, said)) for said, _ in rows]
    assert [(said, error and (type(error), error.transient)) for said, error in errors] == rows
    assert [said for said, error in errors if "Oops" not in error.what] == []


def test_a_failure_without_a_message_is_one_too():
    error = error_of(ModelError, feed, ended(status="failed"))
    assert ("`failed`" in error.what, error.transient) == (True, True)


def test_a_stream_without_its_final_event_gives_no_reply():
    """RA-21: a truncated stream never becomes a reply; the request is retried."""
    for events in [[], [event("output_item.done", output_index=0, item=message("Yes."))], ["[DONE]"]]:
        reader, _ = feed(*events)
        assert not reader.complete, events
        assert error_of(ModelError, reader.end).transient, events


def test_an_event_that_is_not_json_is_an_error():
    for data in ["<html>", '{"type": ', "[" * 100_000]:
        error = error_of(ModelError, feed, data)
        assert error is not None, data[:99]
        assert error.transient, data[:99]


def test_unknown_events_items_and_fields_are_skipped():
    reader, deltas = feed(
        "",
        event("web_search_call.searching", output_index=0, item_id="ws_1"),
        event("audio.delta", delta={"not": "text"}),
        event("output_text.delta", output_index=0, delta=None),
        event("output_item.added", output_index=0, item=None),
        event("output_item.done", output_index=0, item=None),
        event("function_call_arguments.done", output_index=0, arguments=None),
        ended(
            {"type": "web_search_call", "id": "ws_1", "action": {"query": "x"}, "content": [{"text": "x"}]},
            message("Yes."),
            more=1,
        ),
    )
    assert deltas == []
    assert (reader.end().message.parts, reader.end().stop) == ((Text("Yes."),), "end")


def test_the_event_name_comes_from_the_stream_if_the_data_has_none():
    reader = ResponsesCodec().reader(TARGET)
    reader.feed(ServerSentEvent("response.completed", json.dumps({"response": {"output": [message("Yes.")]}})))
    assert reader.end().message.text == "Yes."


def test_a_whole_reply_is_parsed_like_a_stream():
    """RA-2: `--no-stream`."""
    last = ended(thought("Hm."), message("Yes."), call(), usage={"input_tokens": 9, "output_tokens": 2})
    said = ResponsesCodec().reader(TARGET).whole(json.dumps(last["response"]).encode())
    assert said == heard(last)


def test_a_body_without_a_reply_is_a_transient_error():
    bodies = [b"<html>", b"{}", b"\xff", b"[]", b'{"status": "cancelled"}', b'{"error": {"code": "server_error"}}']
    errors = {body: error_of(ModelError, ResponsesCodec().reader(TARGET).whole, body) for body in bodies}
    assert [body for body, error in errors.items() if error is None or not error.transient] == []


def test_received_items_are_sent_back_unchanged():
    """RA-1: thoughts are checked by the provider, and calls are what results refer to."""
    sent = ResponsesCodec().message(heard(ended(thought("Hm."), message("Yes."), call())).message, TARGET)
    assert json.loads(b"[%b]" % sent) == [
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "Hm."}],
            "encrypted_content": "sealed",
        },
        {"type": "message", "role": "assistant", "content": "Yes."},
        {"type": "function_call", "call_id": "call_1", "name": "look", "arguments": '{"x":1}'},
    ]
