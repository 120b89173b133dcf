"""Responses as we speak it, against OpenAI's own client."""

import json
from base64 import b64encode
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.responses import Response
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming
from pydantic import TypeAdapter

from properties.llm.openai_client import (
    OURS,
    TARGET,
    Tape,
    body_of,
    calls,
    client,
    cuts,
    is_declared,
    read,
    requests,
    said,
    split,
    whole_or_none,
    words,
)
from scaffold.core.conversation import AssistantMessage, Image, Request, Text, Thinking, ToolCall, ToolResult
from scaffold.llm.wire.codec import WireReply
from scaffold.llm.wire.responses import ResponsesCodec
from support.property_examples import up_to

DECLARED: TypeAdapter[Any] = TypeAdapter(ResponseCreateParamsStreaming)
STOPS = {"max_output_tokens": "max_tokens", "content_filter": "refused"}
QUICK = settings(max_examples=up_to(60))
FEW = settings(max_examples=6)
MANY = settings(max_examples=500)
LONG = settings(max_examples=150)


def sent_by_client(request: Request, cache_key: str) -> Any:
    """Return the body the client sends when it is asked for the same, in its own terms."""
    wanted: dict[str, Any] = {"input": [item for message in request.messages for item in theirs(message)]}
    if request.context:
        wanted["input"].append(spoken("developer", [{"type": "input_text", "text": request.context}]))
    if request.tools:
        wanted["tools"] = [
            {"type": "function", "name": t.name, "description": t.description, "parameters": t.schema, "strict": False}
            for t in request.tools
        ]
    if request.answer_schema:
        schema = {"name": "answer", "schema": request.answer_schema, "strict": "required" in request.answer_schema}
        wanted["text"] = {"format": {"type": "json_schema"} | schema}
    if request.effort:
        wanted["reasoning"] = {"effort": request.effort, "summary": "auto"}
    if request.max_output_tokens:
        wanted["max_output_tokens"] = request.max_output_tokens
    tape = Tape(b"", "text/event-stream")
    client(tape).responses.create(
        model="gpt-5",
        instructions=request.system,
        store=False,
        include=["reasoning.encrypted_content"],
        prompt_cache_key=cache_key,
        stream=True,
        **wanted,
    ).close()
    return tape.sent


def theirs(message) -> list[dict[str, Any]]:
    if isinstance(message, AssistantMessage):
        return reply(message)
    results = [part for part in message.parts if isinstance(part, ToolResult)]
    items = [{"type": "function_call_output", "call_id": part.call_id, "output": part.content} for part in results]
    content: list[dict[str, Any]] = []
    for part in message.parts:
        if isinstance(part, Image):
            url = f"data:{part.media_type};base64,{b64encode(part.data).decode()}"
            content.append({"type": "input_image", "detail": "auto", "image_url": url})
        elif isinstance(part, Text) and part.text:
            content.append({"type": "input_text", "text": part.text})
    return items + ([{"type": "message", "role": "user", "content": content}] if content else [])


def reply(message: AssistantMessage) -> list[dict[str, Any]]:
    """Return a reply's items in reverse and back: reasoning stays if an item follows it."""
    items: list[dict[str, Any]] = []
    for part in reversed(message.parts):
        if isinstance(part, Text) and part.text:
            items.append(spoken("assistant", part.text))
        elif isinstance(part, ToolCall):
            written = json.dumps(part.args, ensure_ascii=False, separators=(",", ":"))
            items.append({"type": "function_call", "call_id": part.id, "name": part.name, "arguments": written})
        elif isinstance(part, Thinking) and part.signature and message.model == OURS and items:
            summary = [{"type": "summary_text", "text": part.text}] if part.text else []
            thought = {"type": "reasoning", "summary": summary, "encrypted_content": part.signature}
            items.append(thought | ({"id": part.id} if part.id else {}))
    return items[::-1]


def spoken(role: str, content: object) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": content}


@st.composite
def reasonings(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Return the events of a reasoning item, the last with the whole item."""
    summary = [{"type": "summary_text", "text": text} for text in draw(st.lists(said, max_size=2))]
    item = {
        "type": "reasoning",
        "id": f"rs_{draw(st.integers(0, 9))}",
        "summary": summary,
        "encrypted_content": draw(said),
        "status": "completed",
    }
    events = [happens("output_item.added", item=item | {"summary": [], "encrypted_content": "half"})]
    for index, part in enumerate(summary):
        place = {"item_id": item["id"], "summary_index": index}
        events.append(happens("reasoning_summary_part.added", part={"type": "summary_text", "text": ""}, **place))
        events += [happens("reasoning_summary_text.delta", delta=d, **place) for d in draw(split(part["text"]))]
        events.append(happens("reasoning_summary_text.done", text=part["text"], **place))
    return [*events, happens("output_item.done", item=item)]


@st.composite
def spoken_items(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Return the events of a message, text or a refusal, the last with the whole item."""
    text, kind = draw(words), draw(st.sampled_from(["output_text", "refusal"]))
    field = "text" if kind == "output_text" else "refusal"
    more = {"annotations": []} if kind == "output_text" else {}
    item = {"type": "message", "id": f"msg_{draw(st.integers(0, 9))}", "role": "assistant", "status": "completed"}
    place = {"item_id": item["id"], "content_index": 0}
    events = [happens("output_item.added", item=item | {"content": [], "status": "in_progress"})]
    events.append(happens("content_part.added", part={"type": kind, field: "", **more}, **place))
    events += [happens(f"{kind}.delta", delta=piece, **place) for piece in draw(split(text))]
    events.append(happens(f"{kind}.done", **{field: text}, **place))
    return [*events, happens("output_item.done", item=item | {"content": [{"type": kind, field: text, **more}]})]


@st.composite
def call_items(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Return the events of a function call, the last with the whole item."""
    call = draw(calls)
    written = json.dumps(call.args)
    item = {"type": "function_call", "id": f"fc_{call.id}", "call_id": call.id, "name": call.name}
    place = {"item_id": item["id"]}
    events = [happens("output_item.added", item=item | {"arguments": "", "status": "in_progress"})]
    events += [happens("function_call_arguments.delta", delta=piece, **place) for piece in draw(split(written))]
    events.append(happens("function_call_arguments.done", arguments=written, name=call.name, **place))
    return [*events, happens("output_item.done", item=item | {"arguments": written, "status": "completed"})]


def happens(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}"} | fields


@st.composite
def streams(draw: st.DrawFn) -> bytes:
    """Return a stream in the provider's format; with Codex's habit the last event has no output."""
    items = draw(st.lists(reasonings() | spoken_items() | call_items(), max_size=3, unique_by=identity))
    output = [events[-1]["item"] for events in items]
    reason = draw(st.sampled_from([None, None, "max_output_tokens", "content_filter"]))
    status = "incomplete" if reason else "completed"
    counts = {"input_tokens": draw(st.integers(10, 99)), "output_tokens": draw(st.integers(0, 99))}
    usage = counts | {
        "total_tokens": sum(counts.values()),
        "input_tokens_details": {"cached_tokens": draw(st.integers(0, 9)), "cache_write_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    }
    head = {"id": "resp_1", "object": "response", "created_at": 1, "model": "gpt-5", "output": []}
    last = head | {"status": status, "usage": usage, "output": draw(st.sampled_from([output, None]))}
    events = [happens("created", response=head | {"status": "in_progress"})]
    events += [event | {"output_index": place} for place, item in enumerate(items) for event in item]
    events.append(happens(status, response=last | {"incomplete_details": {"reason": reason} if reason else None}))
    numbered = [event | {"sequence_number": number} for number, event in enumerate(events)]
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in numbered).encode()


def identity(events: list[dict[str, Any]]) -> str:
    return str(events[-1]["item"]["id"])


def clients_reading(stream: bytes) -> Response:
    """Return the response the client accumulates."""
    tape = Tape(stream, "text/event-stream")
    with client(tape).responses.stream(model="gpt-5", input="") as events:
        last = [event.response for event in events if event.type in {"response.completed", "response.incomplete"}]
    return last[-1]


def expect_the_same(heard: WireReply, theirs: Response) -> None:
    made = [item for item in theirs.output if item.type == "function_call"]
    said_no = any(part.type == "refusal" and part.refusal for part in contents(theirs))
    reason = theirs.incomplete_details and theirs.incomplete_details.reason
    stop = STOPS[reason] if reason else "tool_calls" if made else "refused" if said_no else "end"
    assert heard.stop == stop
    texts = [
        "".join(getattr(part, "text", "") or getattr(part, "refusal", "") for part in item.content)
        for item in theirs.output
        if item.type == "message"
    ]
    assert heard.message.text == "\n".join(filter(None, texts))
    assert [(part.text, part.signature, part.id) for part in heard.message.parts if isinstance(part, Thinking)] == [
        ("\n\n".join(part.text for part in item.summary), item.encrypted_content, item.id)
        for item in theirs.output
        if item.type == "reasoning"
    ]
    wanted = (
        []
        if stop == "refused"
        else [
            ToolCall(call.call_id, call.name, {} if stop == "max_tokens" else json.loads(call.arguments))
            for call in made
        ]
    )
    assert list(heard.message.tool_calls) == wanted
    assert theirs.usage is not None
    assert (heard.usage.input_tokens, heard.usage.output_tokens, heard.usage.cached_input_tokens) == (
        theirs.usage.input_tokens,
        theirs.usage.output_tokens,
        theirs.usage.input_tokens_details.cached_tokens,
    )


def contents(response: Response) -> list[Any]:
    return [part for item in response.output if item.type == "message" for part in item.content]


def expect_the_same_reading_at_every_cut(stream: bytes) -> None:
    whole = read(ResponsesCodec(), stream)
    expect_the_same(whole, clients_reading(stream))
    assert all(read(ResponsesCodec(), *pieces) == whole for pieces in cuts(stream))
    assert all(whole_or_none(ResponsesCodec(), stream, whole))


def expect_the_same_body(request: Request) -> None:
    ours = body_of(ResponsesCodec(), request)
    assert ours == sent_by_client(request, ours["prompt_cache_key"])
    assert is_declared(DECLARED, ours)


@QUICK
@given(requests)
def test_the_client_sends_the_same_body_for_the_same_conversation(request):
    """RA-1."""
    expect_the_same_body(request)


@pytest.mark.slow
@FEW
@given(streams())
def test_the_client_parses_the_same_from_the_same_stream_wherever_it_is_cut(stream):
    """RA-2, RA-21: a truncated stream gives the whole reply or none."""
    expect_the_same_reading_at_every_cut(stream)


@QUICK
@given(streams())
def test_a_whole_response_is_parsed_like_the_client_does(stream):
    """RA-2: `--no-stream`."""
    last = json.loads(stream.decode().rsplit("data: ", 1)[1])["response"]
    body = json.dumps(last | {"output": last["output"] or []}).encode()
    theirs = client(Tape(body, "application/json")).responses.create(model="gpt-5", input="")
    expect_the_same(ResponsesCodec().reader(TARGET).whole(body), theirs)


@pytest.mark.slow
@MANY
@given(requests)
def test_many_bodies_are_the_same(request):
    """RA-1."""
    expect_the_same_body(request)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@LONG
@given(streams())
def test_many_streams_are_parsed_the_same(stream):
    """RA-2, RA-21."""
    expect_the_same_reading_at_every_cut(stream)
