"""A third-party mock provider speaks all three wires: it accepts our requests, and we parse its replies."""

import json
from random import Random  # noqa: TID251 - seeded
from typing import Any
from urllib.request import urlopen

import pytest

from scaffold.core.conversation import (
    Caller,
    Delta,
    Image,
    Message,
    Request,
    Text,
    TextDelta,
    Thinking,
    ToolResult,
    UserMessage,
)
from scaffold.core.errors import ModelError
from scaffold.core.ports import Model
from scaffold.core.tool import Tool, ToolOutput
from scaffold.host.clock import SystemClock
from scaffold.llm.model_factory import open_model
from scaffold.llm.transport.live_context import LiveContext

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("wire_name", ["anthropic", "openai", "openai-chat", "local"])]

SYSTEM = "You are an agent."
CONTEXT = "Today is Sunday."
DOT = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108020000009077"
    "53de0000000c49444154789c63f8cfc0000003010100c9fe92ef0000000049454e44ae426082"
)


async def _look(args: Any) -> ToolOutput:
    return ToolOutput("rain")


WEATHER = Tool(
    name="get_weather",
    description="Tell the weather of a city.",
    schema={
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
    category="network",
    run=_look,
)


def opened(wire_name: str, mock: str, line: LiveContext, *, stream: bool = True) -> Model:
    name = {"local": f"local:some-model@{mock}/v1", "anthropic": "anthropic:claude-sonnet-4-5"}.get(wire_name)
    return open_model(name or f"{wire_name}:gpt-5", clock=SystemClock(), rng=Random(1), line=line, stream=stream)


def asked(*messages: Message, **more: Any) -> Request:
    given: dict[str, Any] = {"tools": (WEATHER,), "context": CONTEXT} | more
    return Request(caller=Caller(role="agent"), system=SYSTEM, messages=messages, **given)


def user(text: str) -> UserMessage:
    return UserMessage((Text(text),))


def taken(mock: str) -> dict[str, Any]:
    """Return the provider's own parse of the last request, in the same form for each wire."""
    with urlopen(f"{mock}/v1/_requests") as answer:
        body: dict[str, Any] = json.load(answer)[-1]["body"]
    return body


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
async def test_a_tool_is_called_and_its_result_is_understood(
    wire_name: str, mock: str, line: LiveContext, stream: bool
) -> None:
    """RA-1, RA-2: the same conversation on each wire, both ways."""
    model = opened(wire_name, mock, line, stream=stream)
    question = user("What is the weather?")
    reply = await model.reply(asked(question))
    (call,) = reply.message.tool_calls
    assert (reply.stop, call.name, call.args) == ("tool_calls", "get_weather", {"city": "Paris"})
    assert reply.message.text == "I look."

    result = UserMessage((ToolResult(call.id, call.name, "rain"),))
    final = await model.reply(asked(question, reply.message, result))
    assert (final.message.text, final.stop) == ("It rains in Paris.", "end")
    found = [message for message in taken(mock)["messages"] if message["role"] == "tool"]
    assert [(message["tool_call_id"], message["content"]) for message in found] == [(call.id, "rain")]


async def test_the_provider_parses_our_request_correctly(wire_name: str, mock: str, line: LiveContext) -> None:
    await opened(wire_name, mock, line).reply(asked(user("Say hello.")))
    body = taken(mock)
    words = json.dumps(body["messages"])
    assert SYSTEM in words
    assert CONTEXT in words
    assert words.index(SYSTEM) < words.index("Say hello.")
    (tool,) = body["tools"]
    assert (tool["function"]["name"], tool["function"]["parameters"]["required"]) == ("get_weather", ["city"])


async def test_text_is_streamed(wire_name: str, mock: str, line: LiveContext) -> None:
    """RA-2: the provider sends twenty characters at a time."""
    heard: list[Delta] = []
    reply = await opened(wire_name, mock, line).reply(asked(user("Say hello.")), heard.append)
    pieces = [delta.text for delta in heard if isinstance(delta, TextDelta)]
    assert "".join(pieces) == reply.message.text
    assert len(pieces) > 1


async def test_thinking_is_separated_from_the_answer(wire_name: str, mock: str, line: LiveContext) -> None:
    """RA-2."""
    reply = await opened(wire_name, mock, line).reply(asked(user("Now think."), effort="low"))
    thoughts = [part.text for part in reply.message.parts if isinstance(part, Thinking)]
    assert (reply.message.text, thoughts) == ("Four.", ["Two and two."])


async def test_an_image_is_sent(wire_name: str, mock: str, line: LiveContext) -> None:
    """RA-20."""
    said = UserMessage((Text("What is in this picture?"), Image("image/png", DOT)))
    reply = await opened(wire_name, mock, line).reply(asked(said))
    assert reply.message.text == "A red dot."


async def test_a_wrong_key_is_reported_and_not_retried(wire_name: str, mock: str, line: LiveContext) -> None:
    """RA-21."""
    with pytest.raises(ModelError, match=r"HTTP 401.* key") as caught:
        await opened(wire_name, mock, line).reply(asked(user("This is wrong.")))
    assert not caught.value.transient
