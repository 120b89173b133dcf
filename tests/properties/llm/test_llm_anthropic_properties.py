"""The official SDK is the oracle: the same conversation gives the same request, the same stream the same reply."""

import base64
import json
from collections.abc import Iterator, Sequence
from typing import Any

import anthropic
import httpx2
import pytest
from anthropic.types import Message as SdkMessage
from hypothesis import given, settings
from hypothesis import strategies as st

from scaffold.core.conversation import (
    AssistantMessage,
    Caller,
    Image,
    Request,
    StopReason,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolCall,
    ToolCallDelta,
    ToolResult,
    UserMessage,
)
from scaffold.core.errors import ModelError
from scaffold.core.model import Usage
from scaffold.core.tool import Tool, ToolOutput
from scaffold.llm.registry.thinking import thinking_support
from scaffold.llm.wire.anthropic import AnthropicCodec
from scaffold.llm.wire.codec import ModelTarget, WireReply
from scaffold.llm.wire.sse import SseDecoder
from support.property_examples import up_to

CODEC = AnthropicCodec()
ME = "anthropic:claude-sonnet-4-6"
TARGET = ModelTarget(
    name="claude-sonnet-4-6",
    model=ME,
    max_output_tokens=64_000,
    thinking=thinking_support("anthropic", "claude-sonnet-4-6"),
)
CACHED = {"cache_control": {"type": "ephemeral"}}

Json = dict[str, Any]


class Sdk:
    """The official client, whose requests go nowhere and whose replies are given."""

    def __init__(self) -> None:
        self._sent = b""
        self._chunks: Sequence[bytes] = ()
        transport = httpx2.MockTransport(self._answer)
        self._client = anthropic.Anthropic(
            api_key="none", max_retries=0, http_client=httpx2.Client(transport=transport, trust_env=False)
        )

    def sends(self, **given: Any) -> Json:
        """Return the body the SDK sends for `messages.create(**given)`."""
        self._chunks = ()
        self._client.messages.create(**given).close()
        body: Json = json.loads(self._sent)
        return body

    def hears(self, *chunks: bytes) -> SdkMessage:
        """Return the SDK's parse of a stream."""
        self._chunks = chunks
        with self._client.messages.stream(model="m", max_tokens=1, messages=[]) as stream:
            return stream.get_final_message()

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        self._sent = request.content
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=iter(self._chunks))


@pytest.fixture(scope="module")
def sdk() -> Sdk:
    return Sdk()


# Replies, as the wire's own blocks

TEXTS = st.text(max_size=12)
NAMES = st.from_regex(r"[a-zA-Z0-9_-]{1,10}", fullmatch=True)
SEALS = st.text("abcABC123+/=", min_size=1, max_size=10)
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)
BLOCKS = st.one_of(
    st.fixed_dictionaries({"type": st.just("text"), "text": TEXTS}),
    st.fixed_dictionaries({"type": st.just("thinking"), "thinking": TEXTS, "signature": SEALS}),
    st.fixed_dictionaries({"type": st.just("redacted_thinking"), "data": SEALS}),
    st.fixed_dictionaries(
        {"type": st.just("tool_use"), "name": NAMES, "input": st.dictionaries(TEXTS, VALUES, max_size=3)}
    ),
)
COUNTS = st.integers(0, 10**6)
START_USAGES = st.fixed_dictionaries(
    {"input_tokens": COUNTS, "output_tokens": COUNTS},
    optional={"cache_read_input_tokens": COUNTS | st.none(), "cache_creation_input_tokens": COUNTS | st.none()},
)
LAST_COUNTS = st.integers(1, 10**6)
"""Without zero: unlike the SDK, we do not believe that a count became none."""
LAST_USAGES = st.fixed_dictionaries(
    {"output_tokens": LAST_COUNTS},
    optional={
        name: LAST_COUNTS | st.none()
        for name in ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    },
)


@st.composite
def replies(draw: st.DrawFn) -> tuple[list[Json], str]:
    """Draw the blocks of a whole reply and its stop reason; the ids of its calls are unique."""
    blocks = draw(st.lists(BLOCKS, max_size=3))
    prefix = draw(st.uuids())
    calls = [block for block in blocks if block["type"] == "tool_use"]
    for place, call in enumerate(calls):
        call["id"] = f"toolu_{prefix}_{place}"
    reason = "tool_use" if calls else draw(st.sampled_from(["end_turn", "stop_sequence", "pause_turn", "max_tokens"]))
    return blocks, reason


@st.composite
def streams(draw: st.DrawFn) -> bytes:
    """Draw the bytes of a whole streamed reply."""
    blocks, reason = draw(replies())
    return streamed(
        blocks,
        reason,
        first=draw(START_USAGES),
        last=draw(LAST_USAGES),
        piece=draw(st.integers(3, 9)),
        end=draw(st.sampled_from(["\n", "\r\n"])),
    )


def streamed(blocks: Sequence[Json], reason: str, *, first: Json, last: Json, piece: int, end: str = "\n") -> bytes:
    """Return a reply as the bytes of its events, whose deltas have `piece` characters."""
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": first}
    parts = [{"type": "message_start", "message": message | {"stop_reason": None}}, {"type": "ping"}]
    for index, block in enumerate(blocks):
        parts += [{"index": index, **event} for event in block_events(block, piece)]
    parts += [{"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": last}]
    parts += [{"type": "message_stop"}]
    lines = [f"event: {event['type']}{end}data: {json.dumps(event, ensure_ascii=piece % 2 == 0)}" for event in parts]
    return "".join(f"{line}{end}{end}" for line in lines).encode()


def block_events(block: Json, piece: int) -> Iterator[Json]:
    grows = {"text": "text", "thinking": "thinking", "tool_use": "input"}
    field = grows.get(block["type"], "")
    empty = {"text": "", "thinking": "", "signature": "", "input": {}}
    yield {"type": "content_block_start", "content_block": block | {k: v for k, v in empty.items() if k in block}}
    whole = json.dumps(block[field]) if field == "input" else block.get(field, "")
    kind, name = ("input_json_delta", "partial_json") if field == "input" else (f"{field}_delta", field)
    for start in range(0, len(whole), piece):
        yield {"type": "content_block_delta", "delta": {"type": kind, name: whole[start : start + piece]}}
    if "signature" in block:
        signed = {"type": "signature_delta", "signature": block["signature"]}
        yield {"type": "content_block_delta", "delta": signed}
    yield {"type": "content_block_stop"}


# Reading

STOPS: dict[str, StopReason] = {
    "end_turn": "end",
    "stop_sequence": "end",
    "pause_turn": "paused",
    "max_tokens": "max_tokens",
    "tool_use": "tool_calls",
}


def hear(*chunks: bytes) -> WireReply:
    """Return our parse of a stream, after checking that the deltas add up to it."""
    events, reader = SseDecoder(), CODEC.reader(TARGET)
    deltas = [delta for chunk in chunks for event in events.feed(chunk) for delta in reader.feed(event)]
    heard = reader.end()
    parts = heard.message.parts
    for part_type, delta_type in ((Text, TextDelta), (Thinking, ThinkingDelta)):
        said = "".join(part.text for part in parts if isinstance(part, part_type))
        assert "".join(delta.text for delta in deltas if isinstance(delta, delta_type)) == said
    for order, call in enumerate(heard.message.tool_calls):
        result = [delta for delta in deltas if isinstance(delta, ToolCallDelta) and delta.index == order]
        assert {delta.name for delta in result} == {call.name}
        assert json.loads("".join(delta.arguments for delta in result) or "{}") == call.args
    return heard


def as_ours(message: SdkMessage) -> WireReply:
    """Return the SDK's parse in our types."""
    parts: list[Text | Thinking | ToolCall] = []
    for block in message.content:
        if block.type == "text" and block.text:
            parts.append(Text(block.text))
        elif block.type == "thinking":
            parts.append(Thinking(block.thinking, signature=block.signature))
        elif block.type == "redacted_thinking":
            parts.append(Thinking("", signature=block.data, redacted=True))
        elif block.type == "tool_use":
            parts.append(ToolCall(block.id, block.name, block.input))
    cached, written = message.usage.cache_read_input_tokens or 0, message.usage.cache_creation_input_tokens or 0
    usage = Usage(
        input_tokens=message.usage.input_tokens + cached + written,
        cached_input_tokens=cached,
        cache_write_tokens=written,
        output_tokens=message.usage.output_tokens,
        cost_usd=None,
        requests=1,
    )
    stop = STOPS[message.stop_reason or "none"]
    return WireReply(AssistantMessage(tuple(parts), ME), usage, stop)


@pytest.mark.slow
@given(stream=streams())
@settings(max_examples=100)
def test_many_streams_cut_anywhere_are_parsed_like_the_sdk_does(sdk, stream):
    """RA-1, RA-2."""
    assert hear(stream) == as_ours(sdk.hears(stream))
    whole = SseDecoder().feed(stream)
    for cut in range(1, len(stream)):
        events = SseDecoder()
        assert events.feed(stream[:cut]) + events.feed(stream[cut:]) == whole


@pytest.mark.slow
def test_the_sdk_also_parses_the_same_wherever_the_stream_is_cut(sdk):
    blocks = [{"type": "text", "text": "Grüße 🦊"}, {"type": "tool_use", "id": "t", "name": "f", "input": {"é": [1.5]}}]
    stream = streamed(
        blocks, "tool_use", first={"input_tokens": 1, "output_tokens": 1}, last={"output_tokens": 2}, piece=3
    )
    for cut in range(1, len(stream)):
        assert as_ours(sdk.hears(stream[:cut], stream[cut:])) == hear(stream)


@given(stream=streams())
@settings(max_examples=30)
def test_a_stream_dropped_anywhere_is_no_reply(stream):
    """RA-21, trap (f): retried whole, never half executed."""
    events, reader = SseDecoder(), CODEC.reader(TARGET)
    for place in range(len(stream)):
        assert not reader.complete
        if b'"message_delta"' in stream[:place]:  # its stop reason says that nothing is missing
            break
        with pytest.raises(ModelError) as caught:
            reader.end()
        assert caught.value.transient
        for event in events.feed(stream[place : place + 1]):
            reader.feed(event)
    for event in events.feed(stream[place:]):
        reader.feed(event)
    assert reader.end() == hear(stream)


# Sending


async def nothing(args: object) -> ToolOutput:
    return ToolOutput("")


SCHEMAS = st.fixed_dictionaries(
    {
        "type": st.just("object"),
        "properties": st.dictionaries(NAMES, st.just({"type": "string"}), max_size=2),
        "additionalProperties": st.just(False),
    }
)
TOOLS = st.lists(
    st.builds(Tool, name=NAMES, description=TEXTS, schema=SCHEMAS, category=st.just("file_read"), run=st.just(nothing)),
    max_size=3,
)
IMAGES = st.builds(
    Image,
    media_type=st.sampled_from(["image/png", "image/jpeg", "image/gif", "image/webp"]),
    data=st.binary(max_size=9),
)
WORDS = st.builds(Text, text=TEXTS)
OTHERS = "openai:gpt-5"


def user_turn(parts: Sequence[Text | Image | ToolResult]) -> Json:
    """Return the turn as a user of the SDK would write it."""
    content: list[Json] = []
    for part in parts:
        if isinstance(part, ToolResult):
            block: Json = {"type": "tool_result", "tool_use_id": part.call_id}
            block |= {"content": part.content} if part.content.strip() else {}
            content.append(block | {"is_error": True} if part.failed else block)
    for part in parts:
        if isinstance(part, Text) and part.text.strip():
            content.append({"type": "text", "text": part.text})
        elif isinstance(part, Image):
            data = base64.b64encode(part.data).decode()
            source = {"type": "base64", "media_type": part.media_type, "data": data}
            content.append({"type": "image", "source": source})
    return {"role": "user", "content": content or [{"type": "text", "text": "(no words)"}]}


def reply_turn(message: SdkMessage, *, mine: bool) -> list[Json]:
    """Return the SDK's own reply as its user hands it back, without what the API refuses."""
    thoughts = ("thinking", "redacted_thinking")
    kept = [block for block in message.content if block.type != "text" or block.text.strip()]
    kept = [block for block in kept if mine or block.type not in thoughts]
    while kept and kept[-1].type in thoughts:
        kept.pop()
    return [{"role": "assistant", "content": kept}] if kept else []


@st.composite
def user_parts(draw: st.DrawFn, calls: Sequence[ToolCall] = ()) -> tuple[Text | Image | ToolResult, ...]:
    """Draw the parts of a user message, with a result for each of `calls` anywhere in it."""
    parts: list[Text | Image | ToolResult] = draw(st.lists(WORDS | IMAGES, max_size=3))
    results = [ToolResult(call.id, call.name, draw(TEXTS), draw(st.booleans())) for call in calls]
    return tuple(draw(st.permutations([*parts, *results])))


def expect_the_sdks_request(sdk: Sdk, data: st.DataObject) -> None:
    parts = data.draw(user_parts())
    ours: list[UserMessage | AssistantMessage] = [UserMessage(parts)]
    theirs: list[Json] = [user_turn(parts)]
    for blocks, reason in data.draw(st.lists(replies(), max_size=3)):
        usage = {"input_tokens": 1, "output_tokens": 1}
        stream = streamed(blocks, reason, first=usage, last={"output_tokens": 1}, piece=5)
        model = data.draw(st.sampled_from([ME, ME, OTHERS]))
        reply = hear(stream).message
        parts = data.draw(user_parts(reply.tool_calls))
        ours += [AssistantMessage(reply.parts, model), UserMessage(parts)]
        theirs += [*reply_turn(sdk.hears(stream), mine=model == ME), user_turn(parts)]
    for turn in [turn for turn in theirs if turn["role"] == "user"][-2:]:
        turn["content"][-1] |= CACHED
    request = data.draw(
        st.builds(
            Request,
            caller=st.just(Caller(role="agent")),
            system=TEXTS,
            context=TEXTS,
            messages=st.just(tuple(ours)),
            tools=TOOLS,
            answer_schema=st.none() | SCHEMAS,
            effort=st.sampled_from([None, "low", "medium", "high"]),
            max_output_tokens=st.none() | st.integers(1, 64_000),
        )
    )
    pieces = [CODEC.message(message, TARGET) for message in ours]
    assert json.loads(CODEC.request(request, pieces, TARGET)) == sdk.sends(messages=theirs, **sdk_options(request))


def sdk_options(request: Request) -> Json:
    """Return the options a user of the SDK would pass, besides the messages."""
    given: Json = {"model": "claude-sonnet-4-6", "max_tokens": request.max_output_tokens or 64_000, "stream": True}
    system = [{"type": "text", "text": request.system} | CACHED] if request.system.strip() else []
    system += [{"type": "text", "text": request.context}] if request.context.strip() else []
    if system:
        given["system"] = system
    if request.tools:
        given["tools"] = [
            {"name": tool.name, "description": tool.description, "input_schema": tool.schema} for tool in request.tools
        ]
        given["tools"][-1] |= CACHED
    config: Json = {"effort": request.effort} if request.effort else {}
    config |= {"format": {"type": "json_schema", "schema": request.answer_schema}} if request.answer_schema else {}
    if config:
        given["output_config"] = config
    if request.effort:
        given["thinking"] = {"type": "adaptive", "display": "summarized"}
    return given


@given(data=st.data())
@settings(max_examples=up_to(50))
def test_a_conversation_is_sent_like_the_sdk_sends_it(sdk, data):
    """RA-1, RA-2, RA-3: received blocks go back as the SDK's own blocks would."""
    expect_the_sdks_request(sdk, data)


@pytest.mark.slow
@given(data=st.data())
@settings(max_examples=800)
def test_many_conversations_are_sent_like_the_sdk_sends_them(sdk, data):
    """RA-1, RA-2, RA-3."""
    expect_the_sdks_request(sdk, data)
