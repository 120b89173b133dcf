import asyncio
import json
from contextlib import asynccontextmanager

import msgspec
import pytest
from inline_snapshot import snapshot

from scaffold.core.conversation import Caller, Request, Text, TextDelta, UserMessage
from scaffold.core.errors import ModelError
from scaffold.llm.model_factory import open_model
from scaffold.llm.transport.live_context import Deadlines, LiveContext
from scaffold.llm.transport.retry import LocalThrottle
from support.fake_clock import FakeClock

ENVIRON = {"ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k"}
REQUEST = Request(caller=Caller(role="agent"), system="", messages=(UserMessage((Text("go"),)),))


class NoJitter:
    """A source of chance without jitter."""

    def uniform(self, a, b, /):
        return a


class Refusing:
    """A transport that refuses and records what it was given."""

    def __init__(self):
        self.posts = []

    @asynccontextmanager
    async def post(self, post):
        self.posts.append(post)
        raise ModelError("Nowhere.", "Turn back.")
        yield

    @asynccontextmanager
    async def get(self, asked):
        raise ModelError("Nowhere.", "Turn back.")
        yield


class Silent:
    """A transport on which no data ever arrives."""

    @asynccontextmanager
    async def post(self, post):
        await asyncio.Event().wait()
        yield


class Hello:
    """A transport on which "hello" arrives at once; also its own response."""

    status = 200
    headers = {"content-type": "application/json"}  # noqa: RUF012 - never changed

    @asynccontextmanager
    async def post(self, post):
        message = {"role": "assistant", "content": "hello"}
        body = {"choices": [{"message": message, "finish_reason": "stop"}], "usage": {"prompt_tokens": 1}}
        self._left = [json.dumps(body).encode()]
        yield self

    async def read(self):
        return self._left.pop() if self._left else b""


class SlowLine(Hello):
    """A transport that needs longer to send the request than a reply may be silent."""

    @asynccontextmanager
    async def post(self, post):
        for _ in range(12):
            await asyncio.sleep(0.1)
            post.on_sent()
        async with super().post(post) as answer:
            yield answer


def opened(model, wire, *, deadlines=None, stream=True):
    clock = FakeClock()
    throttle = LocalThrottle(clock=clock, rng=NoJitter())
    line = LiveContext(wire=wire, throttle=throttle, environ=ENVIRON, deadlines=deadlines)
    return open_model(model, clock=clock, rng=NoJitter(), line=line, stream=stream)


async def posted(model, request=REQUEST, **options):
    """Return what the model's wire was given to send."""
    wire = Refusing()
    with pytest.raises(ModelError):
        await opened(model, wire, **options).reply(request)
    [post] = wire.posts
    return post


async def test_a_model_that_thinks_silently_is_given_more_time():
    """RA-21."""
    expected = {
        ("anthropic:claude-sonnet-4-5", True): 300,
        ("anthropic:claude-3-5-haiku-latest", True): 60,
        ("openai-chat:gpt-4.1", True): 60,
        ("openai:gpt-5", True): 300,
        ("openai:o3", True): 300,
        ("local:tiny@http://h/v1", True): 300,
        ("anthropic:claude-sonnet-4-5", False): 600,
    }
    given = {row: (await posted(row[0], stream=row[1])).deadlines for row in expected}
    assert {row: deadlines.idle_s for row, deadlines in given.items()} == expected
    assert {deadlines.total_s for deadlines in given.values()} == {1_800}


async def test_a_request_hides_its_key_in_its_repr():
    post = await posted("openai:gpt-5")
    assert post.headers["Authorization"] == "Bearer k"
    assert "Bearer" not in repr(post)


async def test_a_silent_connection_is_closed_after_the_idle_time():
    heard = asyncio.Queue()
    model = opened("openai:gpt-5", Silent(), deadlines=Deadlines(idle_s=0.02))
    asking = asyncio.create_task(model.reply(REQUEST, heard.put_nowait))
    async with asyncio.timeout(30.0):
        wait = await heard.get()
    assert wait.reason == snapshot("openai:gpt-5 did not answer within 0.02 s")
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking


async def test_a_screen_that_times_out_is_not_a_silent_model():
    """A TimeoutError of what shows the reply must not be retried as if the model had not answered."""

    shown = []

    def show(delta):
        shown.append(delta)
        raise TimeoutError(110, "the screen did not answer")

    with pytest.raises(TimeoutError, match="the screen"):
        await opened("openai-chat:gpt-4.1", Hello()).reply(REQUEST, show)
    assert shown == [TextDelta("hello")]


async def test_the_output_limit_does_not_exceed_the_rest_of_the_window():
    """RA-10: some providers refuse a request that might exceed it."""
    for model, words, wanted, max_tokens in [
        ("anthropic:claude-sonnet-4-5", 10, None, 64_000),
        ("anthropic:claude-sonnet-4-5", 600_000, None, 35_000),
        ("anthropic:claude-sonnet-4-5", 600_000, 500, 500),
        ("anthropic:claude-sonnet-4-5", 900_000, None, 1_000),
        ("anthropic:claude-unheard-of-9", 900_000, None, 64_000),
        ("openai-chat:gpt-4.1", 900_000, None, None),
    ]:
        said = (UserMessage((Text("x" * words),)),)
        post = await posted(model, msgspec.structs.replace(REQUEST, messages=said, max_output_tokens=wanted))
        assert json.loads(post.body).get("max_tokens") == pytest.approx(max_tokens, abs=100), (model, words, wanted)


@pytest.mark.slow
async def test_the_time_to_send_a_long_request_is_no_silence():
    """RA-21: on a slow line each try would be given up before the server has read the request."""
    deadlines = Deadlines(connect_s=1.0, idle_s=1.0, total_s=60.0)
    reply = await opened("openai-chat:gpt-4.1", SlowLine(), deadlines=deadlines).reply(REQUEST)
    assert reply.message.text == "hello"
