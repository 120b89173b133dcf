"""Chat Completions as we speak it, against OpenAI's own client."""

import json
from base64 import b64encode
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
from pydantic import TypeAdapter

from properties.llm.openai_client import (
    TARGET,
    Tape,
    args,
    body_of,
    calls,
    client,
    cuts,
    is_declared,
    names,
    read,
    requests,
    said,
    split,
    whole_or_none,
    words,
)
from scaffold.core.conversation import AssistantMessage, Image, Request, Text, Thinking, ToolCall, ToolResult
from scaffold.llm.wire.chat_completions import ChatCodec
from scaffold.llm.wire.codec import WireReply
from support.property_examples import up_to

DECLARED: TypeAdapter[Any] = TypeAdapter(CompletionCreateParamsStreaming)
STOPS = {"stop": "end", "tool_calls": "tool_calls", "length": "max_tokens", "content_filter": "refused"}
QUICK = settings(max_examples=up_to(60))
FEW = settings(max_examples=8)
MANY = settings(max_examples=500)
LONG = settings(max_examples=150)


def sent_by_client(request: Request) -> Any:
    """Return the body the client sends when it is asked for the same, in its own terms."""
    wanted: dict[str, Any] = {"messages": [{"role": "system", "content": request.system}]}
    if request.context:
        wanted["messages"].append({"role": "system", "content": request.context})
    for message in request.messages:
        wanted["messages"] += theirs(message)
    if request.tools:
        functions = [{"name": t.name, "description": t.description, "parameters": t.schema} for t in request.tools]
        wanted["tools"] = [{"type": "function", "function": function} for function in functions]
    if request.answer_schema:
        schema = {"name": "answer", "schema": request.answer_schema, "strict": "required" in request.answer_schema}
        wanted["response_format"] = {"type": "json_schema", "json_schema": schema}
    if request.effort:
        wanted["reasoning_effort"] = request.effort
    if request.max_output_tokens:
        wanted["max_completion_tokens"] = request.max_output_tokens
    tape = Tape(b"data: [DONE]\n\n", "text/event-stream")
    client(tape).chat.completions.create(
        model="gpt-5", stream=True, stream_options={"include_usage": True}, **wanted
    ).close()
    return tape.sent


def theirs(message) -> list[dict[str, Any]]:
    if isinstance(message, AssistantMessage):
        text = "\n".join(part.text for part in message.parts if isinstance(part, Text) and part.text) or None
        made = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": dumped(call.args)}}
            for call in message.parts
            if isinstance(call, ToolCall)
        ]
        reply = {"role": "assistant", "content": text} | ({"tool_calls": made} if made else {})
        return [reply] if text or made else []
    result = [part for part in message.parts if isinstance(part, ToolResult)]
    rest = [part for part in message.parts if isinstance(part, Image) or (isinstance(part, Text) and part.text)]
    content: Any = "\n".join(part.text for part in rest if isinstance(part, Text))
    if any(isinstance(part, Image) for part in rest):
        content = [
            {"type": "text", "text": part.text}
            if isinstance(part, Text)
            else {
                "type": "image_url",
                "image_url": {"url": f"data:{part.media_type};base64,{b64encode(part.data).decode()}"},
            }
            for part in rest
        ]
    results = [{"role": "tool", "tool_call_id": part.call_id, "content": part.content} for part in result]
    return results + ([{"role": "user", "content": content}] if content else [])


def dumped(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


@st.composite
def streams(draw: st.DrawFn) -> bytes:
    """Return a stream in the provider's format: chunks of text and calls, one finish reason, usage, `[DONE]`."""
    made = draw(st.lists(calls, max_size=3, unique_by=lambda call: call.id))
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"reasoning_content": piece} for piece in draw(split(draw(words)))]
    deltas += [{"content": piece} for piece in draw(split(draw(words)))]
    deltas += [{"refusal": piece} for piece in draw(split(draw(st.just("") | said))) if piece]
    for index, call in enumerate(made):
        first, *more = draw(split(dumped(call.args)))
        function = {"name": call.name, "arguments": first}
        deltas.append({"tool_calls": [{"index": index, "id": call.id, "type": "function", "function": function}]})
        deltas += [{"tool_calls": [{"index": index, "function": {"arguments": piece}}]} for piece in more]
    finish = draw(st.sampled_from(["length", "content_filter", "tool_calls" if made else "stop"]))
    counts = {"prompt_tokens": draw(st.integers(10, 99)), "completion_tokens": draw(st.integers(0, 99))}
    usage = counts | {
        "total_tokens": sum(counts.values()),
        "prompt_tokens_details": {"cached_tokens": draw(st.integers(0, 9))},
    }
    choices = [[{"index": 0, "delta": delta, "finish_reason": None}] for delta in deltas]
    choices.append([{"index": 0, "delta": {}, "finish_reason": finish}])
    chunks = [{"choices": choice, "usage": None} for choice in choices] + [{"choices": [], "usage": usage}]
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "gpt-5"}
    end = draw(st.sampled_from(["\n\n", "\r\n\r\n"]))
    lines = [json.dumps(head | chunk, ensure_ascii=draw(st.booleans())) for chunk in chunks]
    return "".join(f"data: {line}{end}" for line in [*lines, "[DONE]"]).encode()


def clients_reading(stream: bytes) -> Any:
    """Return the completion the client accumulates."""
    state: ChatCompletionStreamState[None] = ChatCompletionStreamState()
    tape = Tape(stream, "text/event-stream")
    for chunk in client(tape).chat.completions.create(model="gpt-5", messages=[], stream=True):
        state.handle_chunk(chunk)
    return state.current_completion_snapshot


def expect_the_same(heard: WireReply, theirs: Any) -> None:
    (choice,) = theirs.choices
    message = choice.message
    stop = STOPS[choice.finish_reason]
    stop = "refused" if message.refusal and stop == "end" else stop
    assert heard.stop == stop
    assert heard.message.text == (message.content or "") + (message.refusal or "")
    thought = "".join(part.text for part in heard.message.parts if isinstance(part, Thinking))
    assert thought == (message.model_extra.get("reasoning_content") or "")
    made = [] if stop == "refused" else message.tool_calls or []
    assert [(call.id, call.name) for call in heard.message.tool_calls] == [(c.id, c.function.name) for c in made]
    read_args = [{} if stop == "max_tokens" else json.loads(call.function.arguments) for call in made]
    assert [call.args for call in heard.message.tool_calls] == read_args
    assert (heard.usage.input_tokens, heard.usage.output_tokens, heard.usage.cached_input_tokens) == (
        theirs.usage.prompt_tokens,
        theirs.usage.completion_tokens,
        theirs.usage.prompt_tokens_details.cached_tokens,
    )


def expect_the_same_reading_at_every_cut(stream: bytes) -> None:
    whole = read(ChatCodec(), stream)
    expect_the_same(whole, clients_reading(stream))
    for pieces in cuts(stream):
        assert read(ChatCodec(), *pieces) == whole
    assert all(whole_or_none(ChatCodec(), stream, whole))


@QUICK
@given(requests)
def test_the_client_sends_the_same_body_for_the_same_conversation(request):
    """RA-1."""
    ours = body_of(ChatCodec(), request)
    assert ours == sent_by_client(request)
    assert is_declared(DECLARED, ours)


@pytest.mark.slow
@FEW
@given(streams())
def test_the_client_parses_the_same_from_the_same_stream_wherever_it_is_cut(stream):
    """RA-2, RA-21: a truncated stream gives the whole reply or none."""
    expect_the_same_reading_at_every_cut(stream)


@pytest.mark.slow
@MANY
@given(requests)
def test_many_bodies_are_the_same(request):
    """RA-1."""
    ours = body_of(ChatCodec(), request)
    assert ours == sent_by_client(request)
    assert is_declared(DECLARED, ours)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@LONG
@given(streams())
def test_many_streams_are_parsed_the_same(stream):
    """RA-2, RA-21."""
    expect_the_same_reading_at_every_cut(stream)


@QUICK
@given(args, names, words)
def test_a_whole_completion_is_parsed_like_the_client_does(arguments, name, text):
    """RA-2: `--no-stream`."""
    function = {"name": name, "arguments": dumped(arguments)}
    message = {
        "role": "assistant",
        "content": text,
        "tool_calls": [{"id": "call_1", "type": "function", "function": function}],
    }
    usage = {
        "prompt_tokens": 9,
        "completion_tokens": 2,
        "total_tokens": 11,
        "prompt_tokens_details": {"cached_tokens": 4},
    }
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    body = json.dumps({"id": "1", "object": "chat.completion", "choices": [choice], "usage": usage}).encode()
    theirs = client(Tape(body, "application/json")).chat.completions.create(model="gpt-5", messages=[])
    expect_the_same(ChatCodec().reader(TARGET).whole(body), theirs)
