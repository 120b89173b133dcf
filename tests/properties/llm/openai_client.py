"""OpenAI's own client as an oracle for our wires, and random conversations for it."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

import httpx2
from hypothesis import strategies as st
from openai import OpenAI
from pydantic import TypeAdapter, ValidationError

from scaffold.core.conversation import (
    AssistantMessage,
    Caller,
    Image,
    Request,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    UserMessage,
)
from scaffold.core.errors import ModelError
from scaffold.core.tool import Tool, ToolOutput
from scaffold.llm.registry.thinking import thinking_support
from scaffold.llm.wire.codec import Codec, ModelTarget, WireReply
from scaffold.llm.wire.sse import SseDecoder

OURS, OTHERS = "openai:gpt-5", "anthropic:claude"
TARGET = ModelTarget(name="gpt-5", model=OURS, thinking=thinking_support("openai", "gpt-5"))


class Tape(httpx2.BaseTransport):
    """Records the client's request, and returns the given answer: no network."""

    def __init__(self, answer: bytes, media_type: str) -> None:
        self.sent: Any = None
        self._answer = answer
        self._headers = {"content-type": media_type}

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Answer `request`."""
        self.sent = json.loads(request.read())
        return httpx2.Response(200, headers=self._headers, content=self._answer)


def client(tape: Tape) -> OpenAI:
    """Return the official client, on a tape."""
    return OpenAI(api_key="none", base_url="http://oracle/v1", http_client=httpx2.Client(transport=tape), max_retries=0)


def is_declared(adapter: TypeAdapter[Any], body: Any) -> bool:
    """Return whether `body` has the types the client's authors declare."""
    try:
        exhaust(adapter.validate_python(body))
    except ValidationError:
        return False
    return True


def exhaust(value: Any) -> None:
    """Iterate over everything: values declared as iterables are validated only during iteration."""
    if isinstance(value, dict):
        exhaust(value.values())
    elif isinstance(value, Iterable) and not isinstance(value, str | bytes):
        for one in value:
            exhaust(one)


async def nothing(arguments: object) -> ToolOutput:
    """Run no tool."""
    del arguments
    return ToolOutput("")


words = st.text(max_size=12)
said = st.text(min_size=1, max_size=12)
names = st.from_regex(r"[A-Za-z0-9_-]{1,12}", fullmatch=True)
scalars = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | words
args = st.dictionaries(words, scalars | st.lists(scalars, max_size=2), max_size=3)
calls = st.builds(ToolCall, id=names.map("call_{}".format), name=names, args=args)
thoughts = st.builds(Thinking, text=words, signature=words, id=said)
pictures = st.builds(Image, media_type=st.sampled_from(["image/png", "image/jpeg"]), data=st.binary(max_size=9))
results = st.builds(ToolResult, call_id=names, name=names, content=words, failed=st.booleans())


def messages() -> st.SearchStrategy[tuple[UserMessage | AssistantMessage, ...]]:
    """Return any messages in any order, meaningful or not."""
    user = st.builds(UserMessage, st.lists(st.builds(Text, words) | pictures | results, max_size=4).map(tuple))
    parts = st.lists(st.builds(Text, words) | thoughts | calls, max_size=4).map(tuple)
    return st.lists(user | st.builds(AssistantMessage, parts, st.sampled_from([OURS, OTHERS, ""])), max_size=5).map(
        tuple
    )


schemas = st.sampled_from(
    [
        {"type": "object", "properties": {}, "required": [], "additionalProperties": False},
        {"type": "object", "properties": {"n": {"type": "integer"}}},
    ]
)
tools = st.builds(
    Tool, name=names, description=words, schema=schemas, category=st.just("file_read"), run=st.just(nothing)
)
requests = st.builds(
    Request,
    caller=st.just(Caller(role="agent")),
    system=said,
    context=words,
    messages=messages(),
    tools=st.lists(tools, max_size=2).map(tuple),
    answer_schema=st.none() | schemas,
    effort=st.none() | st.sampled_from(["low", "medium", "high"]),
    max_output_tokens=st.none() | st.integers(1, 1000),
)


def body_of(codec: Codec, request: Request) -> Any:
    """Return our request's body, decoded."""
    pieces = [codec.message(message, TARGET) for message in request.messages]
    return json.loads(codec.request(request, pieces, TARGET))


def read(codec: Codec, *pieces: bytes) -> WireReply:
    """Return our parse of a stream that comes in `pieces`."""
    events, reader = SseDecoder(), codec.reader(TARGET)
    for piece in pieces:
        for event in events.feed(piece):
            reader.feed(event)
    return reader.end()


def whole_or_none(codec: Codec, stream: bytes, whole: WireReply) -> Iterator[bool]:
    """Yield, for each length of a truncated stream, whether it gives the whole reply or a transient error."""
    for length in range(len(stream)):
        try:
            heard = read(codec, stream[:length])
        except ModelError as error:
            yield error.transient
        else:
            yield (heard.message, heard.stop) == (whole.message, whole.stop)


def cuts(stream: bytes) -> Iterator[tuple[bytes, ...]]:
    """Yield the stream in two pieces, cut at every byte, and in single bytes."""
    yield from ((stream[:place], stream[place:]) for place in range(len(stream) + 1))
    yield tuple(stream[place : place + 1] for place in range(len(stream)))


@st.composite
def split(draw: st.DrawFn, text: str) -> list[str]:
    """Draw `text` cut into a few pieces."""
    places = sorted(draw(st.lists(st.integers(0, len(text)), max_size=3)))
    return [text[start:end] for start, end in zip([0, *places], [*places, len(text)], strict=True)]
