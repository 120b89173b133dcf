import json
from itertools import pairwise

import pytest

from scaffold.core.conversation import Text, TextDelta, Thinking, ThinkingDelta, ToolCall, ToolCallDelta
from scaffold.core.errors import ContextOverflow, ModelAccessDenied, ModelError
from scaffold.core.model import Usage
from scaffold.llm.wire.chat_completions import ChatCodec
from scaffold.llm.wire.codec import ModelTarget, ServerSentEvent, WireReply
from scaffold.llm.wire.format import UNREADABLE_ARGUMENT
from scaffold.llm.wire.provider_errors import RequestRejected
from support.errors import error_of

TARGET = ModelTarget(name="gpt-5", model="openai-chat:gpt-5")
TAGGED = ModelTarget(name="qwen", model="local:qwen@http://127.0.0.1:1/v1", thinking_tags=True)
DONE = "[DONE]"


def chunk(*, finish=None, usage=None, **delta):
    return {"id": "chatcmpl-1", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], "usage": usage}


def piece(index=None, *, own=None, name=None, arguments=None):
    return {"tool_calls": [{"index": index, "id": own, "function": {"name": name, "arguments": arguments}}]}


def used(prompt, completion, cached=0):
    details = {"cached_tokens": cached}
    return {"prompt_tokens": prompt, "completion_tokens": completion, "prompt_tokens_details": details}


def feed(*chunks, target=TARGET):
    reader, deltas = ChatCodec().reader(target), []
    for each in chunks:
        deltas += reader.feed(ServerSentEvent("", each if isinstance(each, str) else json.dumps(each)))
    return reader, deltas


def heard(*chunks, target=TARGET) -> WireReply:
    return feed(*chunks, target=target)[0].end()


def calls(*chunks) -> tuple[ToolCall, ...]:
    return heard(*chunks).message.tool_calls


def test_text_is_streamed_in_chunks_and_returned_whole():
    """RA-2."""
    reader, deltas = feed(
        chunk(role="assistant", content=""), chunk(content="Hel"), chunk(content="lo"), chunk(finish="stop"), DONE
    )
    assert deltas == [TextDelta("Hel"), TextDelta("lo")]
    assert reader.complete
    said = reader.end()
    assert (said.message.parts, said.message.model, said.stop) == ((Text("Hello"),), TARGET.model, "end")


def test_thinking_is_separated_from_text():
    """RA-2."""
    for field in ["reasoning_content", "reasoning"]:
        reader, deltas = feed(chunk(**{field: " Hm.\n"}), chunk(content="Yes."), chunk(finish="stop"))
        assert deltas == [ThinkingDelta(" Hm.\n"), TextDelta("Yes.")], field
        assert reader.end().message.parts == (Thinking(" Hm.\n", field=field), Text("Yes."))


def test_thinking_sent_under_both_names_counts_once():
    assert heard(chunk(reasoning="Hm.", reasoning_content="Hm."), chunk(finish="stop")).message.parts == (
        Thinking("Hm.", field="reasoning_content"),
    )


def test_call_arguments_are_streamed_as_they_are_written():
    """RA-2."""
    reader, deltas = feed(
        chunk(**piece(0, own="call_1", name="look")),
        chunk(**piece(0, arguments='{"at":')),
        chunk(**piece(0, arguments=' "a"}')),
        chunk(finish="tool_calls"),
    )
    assert deltas == [
        ToolCallDelta(0, "look", ""),
        ToolCallDelta(0, "look", '{"at":'),
        ToolCallDelta(0, "look", ' "a"}'),
    ]
    assert reader.end().message.parts == (ToolCall("call_1", "look", {"at": "a"}),)


def test_parallel_calls_keep_their_order_however_their_chunks_interleave():
    assert calls(
        chunk(**piece(0, own="a", name="look", arguments="{")),
        chunk(**piece(1, own="b", name="shell", arguments='{"x"')),
        chunk(**piece(0, arguments="}")),
        chunk(**piece(1, arguments=":1}")),
        chunk(finish="tool_calls"),
    ) == (ToolCall("a", "look", {}), ToolCall("b", "shell", {"x": 1}))


def test_missing_or_repeated_ids_are_replaced_deterministically():
    """RA-1: ids of tool calls are unique."""
    for one, two in [(0, 0), (0, 1), (None, None)]:
        for own in [None, "", "same"]:
            chunks = [
                chunk(**piece(one, own=own, name="look", arguments='{"x":1}')),
                chunk(**piece(two, own=own, name="look", arguments='{"x":2}')),
                chunk(finish="tool_calls"),
            ]
            first, second = calls(*chunks)
            assert (first.args, second.args) == ({"x": 1}, {"x": 2}), (one, two, own)
            assert len({first.id, second.id, ""}) == 3, (one, two, own)
            assert calls(*chunks) == (first, second), (one, two, own)


def test_calls_with_one_index_are_distinguished_by_their_ids():
    """A server may repeat the id in each chunk of a call."""
    assert calls(
        chunk(**piece(0, own="a", name="look", arguments="")),
        chunk(**piece(0, own="b", name="look", arguments='{"x"')),
        chunk(**piece(0, own="b", name="look", arguments=":1}")),
        chunk(**piece(0, own="c", name="look", arguments='{"x":2}')),
        chunk(finish="tool_calls"),
    ) == (ToolCall("a", "look", {}), ToolCall("b", "look", {"x": 1}), ToolCall("c", "look", {"x": 2}))


def test_an_id_may_come_late_and_arguments_may_be_empty():
    assert calls(
        chunk(**piece(0, name="look", arguments="{")),
        chunk(**piece(0, own="a", arguments="}")),
        chunk(**piece(0, arguments="")),
        chunk(finish="tool_calls"),
    ) == (ToolCall("a", "look", {}),)


def test_generated_ids_differ_between_replies_with_and_without_an_id():
    said = chunk(**piece(0, name="look", arguments="{}"), finish="tool_calls")
    ids = {calls(said | {"id": own})[0].id for own in ("chatcmpl-1", "chatcmpl-2", None)}
    assert (len(ids), {each[:5] for each in ids}) == (3, {"call_"})


def test_calls_in_one_chunk_without_an_index_are_ordered_by_position():
    both = {"tool_calls": [*piece(name="look")["tool_calls"], *piece(name="ls")["tool_calls"]]}
    assert [call.name for call in calls(chunk(**both), chunk(finish="tool_calls"))] == ["look", "ls"]


def test_arguments_may_come_as_an_object():
    assert calls(chunk(**piece(0, own="a", name="look", arguments={"x": 1})), chunk(finish="stop"))[0].args == {"x": 1}


def test_a_reply_stops_for_calls_if_it_has_some_whatever_the_server_says():
    assert heard(chunk(**piece(0, own="a", name="look", arguments="{}")), chunk(finish="stop")).stop == "tool_calls"
    assert heard(chunk(content="Hm."), chunk(finish="tool_calls")).stop == "end"


def test_a_call_truncated_by_the_length_limit_is_never_parsed():
    """RA-2: a truncated call may look complete, so the stop reason is checked first."""
    said = heard(chunk(**piece(0, own="a", name="rm", arguments='{"path": "/tmp/a"}')), chunk(finish="length"))
    assert (said.stop, said.message.parts) == ("max_tokens", (ToolCall("a", "rm", {}),))


def test_non_object_arguments_reach_the_model_and_no_tool():
    (call,) = calls(chunk(**piece(0, own="a", name="look", arguments="{x}")), chunk(finish="tool_calls"))
    assert call.args.keys() == {UNREADABLE_ARGUMENT}


def test_a_refusal_is_returned_as_text_and_stop_reason():
    reader, deltas = feed(chunk(refusal="I will "), chunk(refusal="not."), chunk(finish="stop"))
    assert deltas == [TextDelta("I will "), TextDelta("not.")]
    assert (reader.end().message.text, reader.end().stop) == ("I will not.", "refused")


def test_calls_of_a_filtered_reply_are_dropped():
    said = heard(
        chunk(content="So"), chunk(**piece(0, own="a", name="look", arguments="{}")), chunk(finish="content_filter")
    )
    assert (said.stop, said.message.parts) == ("refused", (Text("So"),))


def test_usage_repeated_in_every_chunk_counts_once():
    """RA-2: usage repeated within a message counts once."""
    said = heard(
        chunk(content="a", usage=used(100, 1, 60)),
        chunk(content="b", usage=used(100, 2, 60)),
        chunk(finish="stop", usage=used(100, 3, 60)),
        {"id": "chatcmpl-1", "choices": [], "usage": used(100, 3, 60)},
        DONE,
    )
    assert said.usage == Usage(input_tokens=100, cached_input_tokens=60, output_tokens=3, cost_usd=None, requests=1)


def test_usage_may_come_after_the_last_text():
    reader, _ = feed(chunk(content="a"), chunk(finish="stop"))
    assert not reader.complete
    reader.feed(ServerSentEvent("", json.dumps({"choices": [], "usage": used(7, 1)})))
    assert reader.end().usage.input_tokens == 7


UNREADABLE = ["much", [1], 7, {"prompt_tokens": "a lot"}, {"prompt_tokens": True, "prompt_tokens_details": 3}]


def test_usage_may_be_missing_or_unreadable():
    """AL-21: the reply is good; its usage is estimated."""
    usages = [None, {}, {"prompt_tokens": None, "prompt_tokens_details": None}, *UNREADABLE]
    assert [
        usage
        for usage in usages
        if heard(chunk(content="a", usage=usage), chunk(finish="stop")).usage != Usage(cost_usd=None, requests=1)
    ] == []


def test_no_input_counts_as_cached_unless_the_server_says_so():
    assert heard(chunk(usage={"prompt_tokens": 9}, finish="stop")).usage.cached_input_tokens == 0
    assert heard(chunk(usage=used(9, 1, 20), finish="stop")).usage.cached_input_tokens == 20, "judged in one place"


def test_a_stream_without_a_finish_reason_gives_no_reply():
    """RA-21: a truncated stream never becomes a reply; the request is retried."""
    for chunks in [[], [chunk(content="a")], [DONE], [chunk(content="a"), chunk(finish="abort")]]:
        error = error_of(ModelError, heard, *chunks)
        assert error is not None, chunks
        assert error.transient, chunks
    assert "`abort`" in error.what


def test_an_error_event_within_the_stream_is_raised():
    """RA-21."""
    rows = [
        ({"error": {"message": "No.", "type": "x", "code": "model_not_found"}}, (ModelAccessDenied, False)),
        ({"error": {"message": "Slow down.", "code": 429}}, (ModelError, True)),
        (
            {"error": {"message": "Too long.", "type": "exceed_context_size_error", "code": 400}},
            (ContextOverflow, False),
        ),
        ({"error": "the model crashed"}, (RequestRejected, True)),
        ({"error": {"message": "Oops."}}, (RequestRejected, True)),
        ({"object": "error", "message": "No.", "type": "BadRequestError", "code": 400}, (RequestRejected, False)),
    ]
    errors = [(said, error_of(ModelError, feed, chunk(content="a"), said)) for said, _ in rows]
    assert [(said, error and (type(error), error.transient)) for said, error in errors] == rows


def test_a_chunk_that_is_not_json_is_an_error():
    for data in ["<html>", "[" * 100_000, '{"choices": [', '{"choices": [{"delta": {"content": "\\ud83d"}}]}']:
        error = error_of(ModelError, feed, data)
        assert error is not None, data[:99]
        assert error.transient, data[:99]


def test_nulls_unknown_fields_other_choices_and_empty_events_are_skipped():
    nulls = {"index": None, "delta": None, "finish_reason": None, "logprobs": {"content": []}}
    other = {"index": 1, "delta": {"content": "other"}, "finish_reason": "stop"}
    said = heard("", {"choices": None, "x": {}}, {"choices": [nulls, other]}, chunk(content="a"), chunk(finish="stop"))
    assert said.message.parts == (Text("a"),)


def test_data_after_done_is_ignored():
    assert heard(chunk(finish="stop"), DONE, "<html>").stop == "end"


def test_a_whole_reply_is_parsed_like_a_stream():
    """RA-2: `--no-stream`."""
    function = {"name": "look", "arguments": '{"x": 1}'}
    message = {
        "role": "assistant",
        "content": "So.",
        "reasoning_content": "Hm.",
        "refusal": None,
        "tool_calls": [{"id": "a", "type": "function", "function": function}, {"id": "b", "function": function}],
    }
    body = {
        "id": "1",
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}],
        "usage": used(9, 2),
    }
    said = ChatCodec().reader(TARGET).whole(json.dumps(body).encode())
    assert said.message.parts == (
        Thinking("Hm.", field="reasoning_content"),
        Text("So."),
        ToolCall("a", "look", {"x": 1}),
        ToolCall("b", "look", {"x": 1}),
    )
    assert (said.stop, said.usage.tokens, said.message.model) == ("tool_calls", 11, TARGET.model)


def test_thoughts_that_are_counted_only_in_the_total_are_counted_as_output():
    """RA-1: providers charge for them."""
    usage = {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 61}
    assert heard(chunk(content="Yes.", finish="stop"), {"choices": [], "usage": usage}).message.text == "Yes."
    reader, _ = feed(chunk(content="Yes.", finish="stop"), {"choices": [], "usage": usage})
    assert (reader.end().usage.input_tokens, reader.end().usage.output_tokens) == (9, 52)


def test_a_body_without_a_reply_is_a_transient_error():
    for body in [b"<html>", b"{}", b'{"choices": []}', b'{"error": {"code": 503}}', b"\xff", b"[]"]:
        error = error_of(ModelError, ChatCodec().reader(TARGET).whole, body)
        assert error is not None, body
        assert error.transient, body
    assert "`choices`" in error_of(ModelError, ChatCodec().reader(TARGET).whole, b"{}").what


TAGGED_REPLIES = [
    ("<think>Hm.</think>Yes.", "Hm.", "Yes."),
    ("<think>\nHm.\n</think>\n\nYes.\n", "Hm.", "Yes.\n"),
    ("<think></think>Yes.", "", "Yes."),
    ("Hm.</think>Yes.", "Hm.", "Yes."),
    ("<think>Hm.", "Hm.", ""),
    ("Yes.", "", "Yes."),
    ("a < b </ c <thing>", "", "a < b </ c <thing>"),
    ("Yes.<thi", "", "Yes.<thi"),
    ("<think>a</thin</think>b", "a</thin", "b"),
    ("<think>a</think>b<think>c</think>d", "a\nc", "bd"),
    ("<think>a</think>The tag </think> ends thoughts.", "a", "The tag </think> ends thoughts."),
]


def test_thinking_tags_are_recognised_wherever_the_stream_is_cut():
    """RA-1: thinking tags."""
    for content, thought, text in TAGGED_REPLIES:
        parts = (*((Thinking(thought),) if thought else ()), *((Text(text),) if text else ()))
        for first in range(len(content) + 1):
            for second in range(first, len(content) + 1):
                cuts = pairwise((0, first, second, len(content)))
                chunks = [chunk(content=content[start:end]) for start, end in cuts]
                assert heard(*chunks, chunk(finish="stop"), target=TAGGED).message.parts == parts, content


def test_a_possible_tag_is_held_back_until_it_is_clear():
    for last in (chunk(content="ing"), chunk(finish="stop")):
        _, deltas = feed(chunk(content="a <th"), last, target=TAGGED)
        assert deltas == [TextDelta("a "), TextDelta("<thing" if last == chunk(content="ing") else "<th")]


def test_tags_are_text_if_the_model_does_not_use_them_for_thinking():
    assert heard(chunk(content="<think>a</think>"), chunk(finish="stop")).message.text == "<think>a</think>"


@pytest.mark.parametrize("field", ["content", "unheard_of", "reasoning", "tool_calls"])
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"text":', "}")])
@pytest.mark.parametrize("levels", [480, 950, 100_000])
def test_a_reply_without_a_bottom_is_unreadable_and_ends_nothing_else(field, opening, closing, levels):
    """RA-1: a server's mistake is an error that is asked again, however deep what it sent is nested."""
    piece = f'{{"choices":[{{"delta":{{"{field}":{opening * levels}"x"{closing * levels}}}}}]}}'
    with pytest.raises(ModelError, match="cannot be read") as caught:
        ChatCodec().reader(TARGET).feed(ServerSentEvent("", piece))
    assert caught.value.transient
