"""A real small model on a real llama.cpp server."""

from random import Random  # noqa: TID251 - seeded

import msgspec
import pytest

from fakes import JournalList, MemoryHistory, agent
from scaffold.agent.context.conversation_window import Conversation
from scaffold.core.conversation import AssistantMessage, Caller, Delta, Message, Request, Text, TextDelta, UserMessage
from scaffold.core.errors import ContextOverflow
from scaffold.core.ports import Model
from scaffold.host.clock import SystemClock
from scaffold.llm.model_factory import open_model
from scaffold.llm.transport.live_context import LiveContext

pytestmark = pytest.mark.slow

SYSTEM = "You answer in one short sentence."
CITY = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 40}, "sure": {"type": "boolean"}},
    "required": ["city", "sure"],
    "additionalProperties": False,
}


class City(msgspec.Struct, forbid_unknown_fields=True):
    """The type that the schema describes."""

    city: str
    sure: bool


def opened(url: str, line: LiveContext, *, stream: bool = True) -> Model:
    return open_model(f"local:smollm2@{url}", clock=SystemClock(), rng=Random(1), line=line, stream=stream)


def asked(*messages: Message, **more: object) -> Request:
    given = {"max_output_tokens": 60} | more
    return Request(caller=Caller(role="agent"), system=SYSTEM, messages=messages, **given)


def user(text: str) -> UserMessage:
    return UserMessage((Text(text),))


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
async def test_a_local_model_answers_and_counts_its_tokens(llama: str, line: LiveContext, stream: bool) -> None:
    """RA-1, RA-2: chosen by URL, streamed or whole."""
    heard: list[Delta] = []
    reply = await opened(llama, line, stream=stream).reply(asked(user("What is the capital of France?")), heard.append)
    assert reply.message.text
    assert reply.stop in {"end", "max_tokens"}
    assert reply.usage.input_tokens > 20
    assert 1 < reply.usage.output_tokens <= 60
    assert reply.usage.cost_usd is None or reply.usage.cost_usd == 0
    pieces = [delta.text for delta in heard if isinstance(delta, TextDelta)]
    assert "".join(pieces).strip() == reply.message.text.strip()
    assert len(pieces) == 1 or stream


async def test_a_streamed_reply_comes_in_many_chunks(llama: str, line: LiveContext) -> None:
    heard: list[Delta] = []
    await opened(llama, line).reply(asked(user("Count from one to ten.")), heard.append)
    assert len(heard) > 3


async def test_an_answer_matches_its_schema(llama: str, line: LiveContext) -> None:
    """RA-2: JSON output; a model this small would not keep to a form by itself."""
    request = asked(user("Which city is the capital of France?"), answer_schema=CITY, max_output_tokens=200)
    reply = await opened(llama, line).reply(request)
    assert msgspec.json.decode(reply.message.text, type=City).city


async def test_a_conversation_continues_from_the_cached_prefix(llama: str, line: LiveContext) -> None:
    """RA-3: the server had processed the beginning before."""
    model = opened(llama, line)
    first = asked(user("My name is Ada. " * 8 + "Say hello."), max_output_tokens=10)
    reply = await model.reply(first)
    more = AssistantMessage(reply.message.parts), user("What is my name?")
    second = await model.reply(asked(*first.messages, *more, max_output_tokens=10))
    assert second.usage.input_tokens > reply.usage.input_tokens
    assert second.usage.cached_input_tokens > reply.usage.input_tokens // 2


async def test_a_reply_is_truncated_at_the_requested_length(llama: str, line: LiveContext) -> None:
    request = asked(user("Tell a long story of the sea."), max_output_tokens=5)
    reply = await opened(llama, line).reply(request)
    assert reply.stop == "max_tokens"
    assert reply.usage.output_tokens == 5


async def test_a_context_overflow_is_reported_as_such(llama: str, line: LiveContext) -> None:
    """RA-21: classified, whatever this server's wording."""
    with pytest.raises(ContextOverflow):
        await opened(llama, line).reply(asked(user("word " * 6000)))


async def test_the_window_of_one_slot_is_asked_for(llama: str, line: LiveContext) -> None:
    """RA-1, RA-10: 4,096 tokens for two slots."""
    model = opened(llama, line)
    await model.reply(asked(user("Say hello."), max_output_tokens=5))
    assert model.window_tokens == 2048


async def test_a_refusal_teaches_the_window(llama: str, line: LiveContext) -> None:
    """RA-10, RA-21: in this server's words."""
    model = opened(llama, msgspec.structs.replace(line, windows={"smollm2": 100_000}))
    with pytest.raises(ContextOverflow) as caught:
        await model.reply(asked(user("word " * 6000)))
    assert caught.value.window_tokens == model.window_tokens == 2048


async def test_a_conversation_longer_than_the_window_goes_on(llama: str, line: LiveContext) -> None:
    """RA-1, RA-10: compacted to what the server tells, with a summary by the model itself."""
    said = [UserMessage((Text("Tell me more of the sea. " * 40),)), AssistantMessage((Text("It is deep. " * 60),))]
    history, journal = MemoryHistory(), JournalList()
    worker = agent(
        opened(llama, line), conversation=Conversation(said * 8), history=history, journal=journal, compaction="model"
    )
    await worker.turn("What is the capital of France? Answer in one word.")
    assert worker.window_tokens == 2048
    assert worker.tokens < 2048
    assert len(history.compactions) == 1
    assert "- summary: " in worker.conversation.summary
