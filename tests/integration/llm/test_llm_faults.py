"""Faults between us and a model, over real sockets, on all three wires."""

import asyncio
import re
from itertools import pairwise, product

import pytest

from model_server import rendering
from model_server.client import open_client
from model_server.server import KEY, serve
from model_server.turn import Call, Turn, Used
from scaffold.core.conversation import RetryWait, StreamReset, Text, TextDelta, UserMessage
from scaffold.core.errors import ContextOverflow, ModelError
from scaffold.llm.transport.live_context import Deadlines

WIRES = ("anthropic", "chat", "responses")
CALL = Turn(text="Now.", calls=(Call("shell", {"cmd": "rm -r b"}, id="c1"),))
FINE = Turn(text="here I am")


def size(wire, turn, model="m" * 20):
    return sum(len(event) for event in rendering.events(wire, turn, model))


class EveryOther:
    """Answers badly and well by turns; the bad answer is set from outside."""

    def __init__(self):
        self.bad = CALL
        self.number = 0

    def __call__(self, received):
        self.number += 1
        return self.bad if self.number % 2 else CALL


async def expect_the_whole_reply_after_drops(wire, framing, bytes_to_drop_at):
    """Let a stream drop at each of the bytes; check that the final reply is always the undisturbed one."""
    script = EveryOther()
    async with serve(wire, script) as server, open_client(server, deadlines=None) as asked:
        whole = await asked.reply()
        assert (whole.message.tool_calls[0].args, whole.stop) == ({"cmd": "rm -r b"}, "tool_calls")
        for byte in bytes_to_drop_at:
            script.bad = Turn(text=CALL.text, calls=CALL.calls, cut_at=byte, framing=framing)
            script.number = 0
            asked.heard.clear()
            reply = await asked.reply()
            assert (reply.message.parts, reply.stop) == (whole.message.parts, whole.stop)
            assert reply.usage.input_tokens > 0
            assert said_last(asked.heard) == ["Now."], byte
            assert script.number in {1, 2}


def said_last(heard):
    """Return the text that was not voided; each retry is reported, and voids what was shown."""
    said = []
    for before, delta in pairwise([None, *heard]):
        match delta:
            case TextDelta(text):
                said.append(text)
            case StreamReset():
                said.clear()
            case RetryWait():
                assert isinstance(before, StreamReset) or not said
    return said


@pytest.mark.parametrize("framing", ["chunked", "close"])
@pytest.mark.parametrize("wire", WIRES)
async def test_a_dropped_stream_is_retried_whole_and_no_call_is_partial(wire, framing):
    """RA-21, RA-2: its shown text is voided, and the reply is the complete one."""
    await expect_the_whole_reply_after_drops(wire, framing, range(-1, size(wire, CALL), 61))


@pytest.mark.slow
@pytest.mark.parametrize("framing", ["chunked", "close"])
@pytest.mark.parametrize("wire", WIRES)
async def test_a_stream_may_drop_at_every_byte(wire, framing):
    """RA-21, RA-2."""
    await expect_the_whole_reply_after_drops(wire, framing, range(-1, size(wire, CALL)))


async def reply_after(wire, *turns, stream=True, deadlines=None):
    """Return the server and the reply that follows `turns`."""
    async with serve(wire, [*turns, FINE]) as server:
        kind = {"deadlines": deadlines} if deadlines else {}
        async with open_client(server, stream=stream, **kind) as asked:
            reply = await asked.reply()
    assert reply.message.text == "here I am"
    assert len(server.requests) == sum(turn.times for turn in turns) + 1
    assert len({request.body for request in server.requests}) == 1
    return asked


async def error_of(wire, *turns, stream=True, environ=None, **options):
    """Return the server and the error that a request to it ends with."""
    async with serve(wire, turns) as server, open_client(server, stream=stream, **options) as asked:
        with pytest.raises(ModelError) as caught:
            await asked.reply()
    assert caught.value.what
    assert caught.value.fix
    assert "\n" not in caught.value.what
    assert KEY not in caught.value.what + caught.value.fix
    return server, caught.value, asked


@pytest.mark.parametrize("wire", WIRES)
async def test_a_transient_refusal_is_retried(wire):
    """RA-21: which statuses are transient is in `tests/unit/llm/test_llm_provider_errors.py`."""
    for stream, status in ((True, 429), (False, 500)):
        asked = await reply_after(wire, Turn(status=status), stream=stream)
        assert 0.5 <= asked.clock.slept_s <= 1.5
        assert [type(delta) for delta in asked.heard][:1] == [RetryWait]


async def test_retry_after_is_honoured():
    """RA-21, AL-31."""
    refusals = [
        ("anthropic", 529, {"Retry-After": "17"}, 17.0),
        ("anthropic", 503, {"Retry-After": "Sun, 01 Nov 2026 00:00:21 GMT"}, 21.0),
        ("chat", 429, {"retry-after-ms": "2500"}, 2.5),
        ("responses", 429, {"Retry-After": "soon"}, 0.75),
    ]
    for wire, status, headers, wait_s in refusals:
        asked = await reply_after(wire, Turn(status=status, headers=headers), deadlines=Deadlines())
        assert asked.clock.slept_s == pytest.approx(wait_s, abs=0.3)


async def test_a_truncated_refusal_is_classified_by_its_status():
    asked = await reply_after("anthropic", Turn(status=529, cut_at=9))
    assert "529" in next(delta.reason for delta in asked.heard if isinstance(delta, RetryWait))
    _, error, _ = await error_of("anthropic", Turn(status=401, body="x" * 100_000, cut_at=90_000))
    assert "_API_KEY" in error.fix


@pytest.mark.parametrize("wire", WIRES)
async def test_a_wrong_key_or_model_is_reported_at_once_with_the_fix_and_no_key(wire):
    wrong_key = Turn(status=401, error=("authentication_error", f"Incorrect API key provided: {KEY}"))
    server, error, _ = await error_of(wire, wrong_key)
    assert (len(server.requests), "_API_KEY" in error.fix, "--model" in error.fix) == (1, True, True)
    server, error, _ = await error_of(wire, Turn(status=404, error=("not_found_error", "model: nobody")))
    assert (len(server.requests), "nobody" in error.what, "model" in error.fix) == (1, True, True)


async def test_a_request_that_is_surely_too_long_is_not_sent():
    """SC-14, RA-10: the error names the model, its window and the size needed."""
    async with serve("anthropic", ()) as server, open_client(server, model="anthropic:claude-sonnet-4-5") as asked:
        with pytest.raises(ContextOverflow) as caught:
            await asked.reply(UserMessage((Text("word " * 400_000),)))
    assert server.requests == []
    assert re.search(r"about [\d,]+ tokens.*anthropic:claude-sonnet-4-5 [\d,]+", caught.value.what)


@pytest.mark.parametrize(("wire", "stream"), [(wire, True) for wire in WIRES] + [("chat", False), ("responses", False)])
async def test_an_error_event_within_a_reply_is_retried(wire, stream):
    """RA-1: errors at HTTP 200 are reported; RA-21: and transient ones retried."""
    for kind in ("overloaded_error", "api_error", "rate_limit_error", "server_error"):
        asked = await reply_after(wire, Turn(text="I was go", error=(kind, "Sorry.")), stream=stream)
        if stream:
            heard = [delta for delta in asked.heard if isinstance(delta, TextDelta | StreamReset)][:2]
            assert (heard[0], type(heard[1])) == (TextDelta("I was go"), StreamReset)


@pytest.mark.parametrize("wire", WIRES)
async def test_a_permanent_error_event_is_reported_with_its_message(wire):
    server, error, _ = await error_of(wire, Turn(text="I", error=("invalid_request_error", "No such tool.")))
    assert "No such tool" in error.what
    assert len(server.requests) == 1


@pytest.mark.parametrize("wire", WIRES)
async def test_an_unreadable_reply_is_retried(wire):
    """RA-21."""
    for garbage in (
        Turn(body="data: {not json}\n\n", content_type="text/event-stream"),
        Turn(body="data: [1, 2]\n\n", content_type="text/event-stream"),
        Turn(body="data: 7\n\n", content_type="text/event-stream"),
        Turn(body="what?", content_type="application/json"),
        Turn(body="{}", content_type="application/json"),
        Turn(body="[]", content_type="application/json"),
        Turn(body="null", content_type="application/json"),
        Turn(body="", content_type="text/event-stream"),
        Turn(body="", content_type="application/json"),
        Turn(body="\x00\x01\x02", content_type="text/event-stream"),
    ):
        asked = await reply_after(wire, garbage, deadlines=Deadlines(idle_s=20.0))
        assert "".join(said_last(asked.heard)) == FINE.text
        assert len([delta for delta in asked.heard if isinstance(delta, RetryWait)]) == 1


@pytest.mark.parametrize("wire", WIRES)
async def test_a_stream_is_read_whatever_the_server_calls_it(wire):
    """RA-1: also with status 201, as some gateways answer each POST."""
    body = b"".join(rendering.events(wire, CALL, "m")).decode()
    for content_type in ("text/plain", "application/octet-stream", "application/json"):
        turn = Turn(body=body, content_type=content_type, status=201)
        async with serve(wire, [turn]) as server, open_client(server) as asked:
            reply = await asked.reply()
        assert (content_type, reply.message.tool_calls[0].args) == (content_type, {"cmd": "rm -r b"})


@pytest.mark.parametrize("wire", WIRES)
async def test_a_server_that_counts_wrongly_does_not_lower_what_was_spent(wire):
    """BX-11, AL-21: it is taken for a reply that says nothing, and an estimate is booked, as such."""
    wrong = Used(input=5, cached=-7, output=-1_000_000)
    async with (
        serve(wire, [Turn(text="a", usage=wrong), Turn(text="b", usage=Used(output=2**70))]) as server,
        open_client(server) as asked,
    ):
        low, high = (await asked.reply()).usage, (await asked.reply()).usage
    for usage in (low, high):
        assert (usage.cached_input_tokens, usage.estimated_tokens) == (0, usage.counted_tokens)
        assert 0 < usage.counted_tokens < 10_000
        assert usage.cost_usd > 0


@pytest.mark.parametrize("wire", WIRES)
async def test_more_cached_tokens_than_input_count_as_none(wire):
    """BX-11, AL-21: otherwise such a server would be free."""
    wrong = Used(input=1_000, cached=5_000, output=10)
    async with serve(wire, [Turn(text="a", usage=wrong)]) as server, open_client(server) as asked:
        usage = (await asked.reply()).usage
    assert (usage.cached_input_tokens, usage.counted_tokens) == (0, 1_010)


@pytest.mark.parametrize("content_type", ["text/html; charset=utf-8", "application/json"])
async def test_a_web_page_instead_of_a_reply_ends_the_request_at_once(content_type):
    """RA-21: asking again would bring it again; the error says whose address to check."""
    page = Turn(body="\n<!doctype html><html>log in to this hotel</html>", content_type=content_type)
    server, error, _ = await error_of("chat", page)
    assert "answers with a web page" in error.what
    assert "OPENAI_BASE_URL" in error.fix
    assert (len(server.requests), error.transient) == (1, False)


@pytest.mark.parametrize("wire", WIRES)
async def test_a_complete_reply_is_returned_even_if_the_server_keeps_the_connection_open(wire):
    def never_ending(received):
        whole = size(wire, FINE, received.json["model"])
        return Turn(text=FINE.text, stall_at=whole)

    async with serve(wire, never_ending) as server, open_client(server, deadlines=Deadlines(idle_s=5.0)) as asked:
        async with asyncio.timeout(2.0):
            reply = await asked.reply()
    assert reply.message.text == "here I am"


async def at_once(*asking):
    """Await all of them concurrently: most of the time each of them waits for a deadline."""
    async with asyncio.TaskGroup() as group:
        for each in asking:
            group.create_task(each)


async def test_a_stalled_stream_is_abandoned_after_the_idle_time():
    """RA-21: idle deadline."""

    async def ask(wire, byte):
        async with serve(wire, [Turn(text="x" * 400, stall_at=byte), FINE]) as server, open_client(server) as asked:
            await asked.reply()
            assert server.open_connections == 1
        assert len(server.requests) == 2

    await at_once(*(ask(wire, byte) for wire, byte in product(WIRES, [-1, 0, 60, 400])))


async def test_a_slow_stream_that_makes_progress_is_not_cut():
    slow = Turn(text="slow but sure, as they say", drip_s=0.05)

    async def ask(wire):
        deadlines = Deadlines(idle_s=0.3, total_s=10.0)
        async with serve(wire, [slow]) as server, open_client(server, deadlines=deadlines) as asked:
            reply = await asked.reply()
        assert (reply.message.text, len(server.requests)) == (slow.text, 1)

    await at_once(*map(ask, WIRES))


async def test_an_endless_stream_is_ended_by_the_total_deadline():
    """RA-21: total deadline."""

    async def ask(wire):
        asked = await reply_after(wire, Turn(text="and so on ", endless=True, drip_s=0.01))
        (reason,) = [delta.reason for delta in asked.heard if isinstance(delta, StreamReset)]
        assert "0.6 s" in reason

    await at_once(*map(ask, WIRES))


@pytest.mark.parametrize("wire", WIRES)
async def test_a_reply_that_repeats_itself_is_ended(wire):
    """RA-10: nobody pays for the rest of it, and the same request is not sent again."""
    server, error, _ = await error_of(wire, Turn(text="and so on ", endless=True), deadlines=Deadlines())
    assert 'repeated "' in error.what
    assert len(server.requests) == 1


async def test_an_endless_stream_without_content_is_ended_by_its_size():
    nothing = Turn(body=(":" + "x" * 2**20 + "\n") * 65, content_type="text/event-stream")
    asked = await reply_after("anthropic", nothing, deadlines=Deadlines())
    assert any("more than 67,108,864 bytes" in delta.reason for delta in asked.heard if isinstance(delta, RetryWait))


async def test_a_redirect_is_not_followed_because_it_would_carry_the_key():
    async with serve("anthropic", [FINE]) as elsewhere:
        moved = Turn(status=307, headers={"Location": f"{elsewhere.base_url}/v1/messages"})
        server, error, _ = await error_of("anthropic", moved)
    assert "307" in error.what
    assert (elsewhere.connections, len(server.requests)) == (0, 1)


@pytest.mark.parametrize("wire", WIRES)
async def test_an_unreachable_server_is_named_without_secrets(wire):
    async with serve(wire, []) as server:
        pass
    async with open_client(server) as asked:
        with pytest.raises(ModelError, match="Connection refused") as caught:
            await asked.reply()
    assert f"127.0.0.1:{server.port}" in caught.value.what
    assert KEY not in repr(caught.value.__cause__)
    assert asked.clock.slept_s <= 60


KEEP_ALIVES = {
    "anthropic": 'event: ping\ndata: {"type": "ping"}\n\n',
    "chat": ": PROCESSING\n\n",
    "responses": 'event: keepalive\ndata: {"type":"keepalive","sequence_number":3}\n\n',
}


async def test_keep_alives_alone_end_a_try_after_the_idle_time():
    """RA-21: a server that only shows that it is there is asked again."""

    async def ask(wire, sent):
        def stalled_once(received):
            begun = b"".join(list(rendering.events(wire, FINE, received.json["model"]))[:sent])
            first = len(server.requests) == 1
            return Turn(text=FINE.text, stall_at=len(begun) if first else None, keep_alive=KEEP_ALIVES[wire])

        async with serve(wire, stalled_once) as server, open_client(server, deadlines=Deadlines(idle_s=0.4)) as asked:
            reply = await asked.reply()
        assert reply.message.text == FINE.text
        (waited,) = (delta.reason for delta in asked.heard if isinstance(delta, RetryWait))
        assert "0.4 s" in waited

    async def ask_for_a_whole_reply():
        stalled = Turn(text="x", stall_at=0, keep_alive="\n")
        asked = await reply_after("chat", stalled, stream=False, deadlines=Deadlines(idle_s=0.4))
        assert sum(isinstance(delta, RetryWait) for delta in asked.heard) == 1

    await at_once(*(ask(wire, sent) for wire, sent in product(WIRES, [0, 2])), ask_for_a_whole_reply())
