"""How long a reply may be, on all wires: what is sent, what ends it, and what an ended one is taken to have used."""

import re

import msgspec
import pytest

from model_server.client import open_client
from model_server.server import serve
from model_server.turn import Turn, Used
from scaffold.core.conversation import AssistantMessage, Caller, Request, Text, UserMessage
from scaffold.core.errors import ModelError
from scaffold.core.model import Usage
from scaffold.core.spending import UNLIMITED_TOKENS, Amount
from scaffold.llm.deltas import DeltaListener
from scaffold.llm.live_model import MAX_OUTPUT_TOKENS, MIN_OUTPUT_TOKENS

FIELDS = {"anthropic": "max_tokens", "chat": "max_completion_tokens", "responses": "max_output_tokens"}
FINE = Turn(text="ok", usage=Used(input=2_000, output=30))
ROWS = " ".join(f"row {at} has {at * at % 9973}." for at in range(20_000))


async def limits_sent(wire, *left, model=None, **fields):
    """Return the limits that are sent with requests for which the budget has these amounts left."""
    async with serve(wire, [FINE] * len(left)) as server, open_client(server, model=model, **fields) as asked:
        for each in left:
            await asked.reply(left=each)
    return [received.json[FIELDS[wire]] for received in server.requests]


@pytest.mark.parametrize("wire", FIELDS)
async def test_each_request_names_a_limit_that_its_budget_has_room_for(wire):
    """RA-10, AL-21: less its own input; even the last of a budget pays for a short reply."""
    free, some, none = await limits_sent(wire, None, Amount(9.0, 9_000), Amount(9.0, 0))
    assert free in {32_768, MAX_OUTPUT_TOKENS}
    # The first reply said how many tokens such an input has.
    assert (some, none) == (7_000, MIN_OUTPUT_TOKENS)


async def test_dollars_limit_a_reply_by_its_price():
    """AL-21: gpt-4.1 takes 8 dollars for a million tokens of output."""
    (cents,) = await limits_sent("chat", Amount(0.04, UNLIMITED_TOKENS))
    assert 4_500 < cents < 5_000


async def test_the_rest_of_the_window_limits_a_reply():
    """RA-10."""
    (limit,) = await limits_sent("chat", None, windows={"gpt-4.1": 9_000})
    assert 8_900 < limit < 9_000


async def streamed_until_it_ends(text, left=None, **fields):
    """Return the error that ended a reply, and what the budget was told of it."""
    told = []
    async with serve("chat", [Turn(text=text, **fields)]) as server, open_client(server, deadlines=None) as asked:
        request = msgspec.structs.replace(a_request(), left=left)
        estimate = asked.model.estimate(request)
        listener = DeltaListener(asked.heard.append, lambda *each: told.append(each), estimate)
        with pytest.raises(ModelError) as caught:
            await asked.model.reply(request, listener)
    return caught.value.what, listener.void_usage, told


def a_request(*messages):
    return Request(caller=Caller(role="agent"), system="Be brief.", messages=messages or (UserMessage((Text("go"),)),))


async def test_a_reply_that_costs_more_than_is_left_is_ended():
    """AL-21: whatever the server makes of the limit; what was streamed is booked, as an estimate, with its price."""
    error, used, told = await streamed_until_it_ends(ROWS, Amount(9.0, 5_000))
    assert re.search(r"went on beyond its limit, and was ended after about (4,9|5,0)\d\d tokens", error)
    assert 4_900 < used.output_tokens < 5_200
    assert used.estimated_tokens == used.counted_tokens
    assert used.cost_usd == pytest.approx((used.input_tokens * 2 + used.output_tokens * 8) / 1e6)
    # While it streams, each thousand tokens beyond the estimate, for the case that this process is killed.
    assert [tries for tries, _ in told] == [1] * len(told)
    assert 2 <= len(told) <= 4
    assert told[-1][1].output_tokens > 3_500


async def test_a_reply_that_breaks_off_early_is_booked_with_what_arrived():
    """BX-11: less than a usual reply."""
    _, used, told = await streamed_until_it_ends("abcd" * 100, error=("invalid_request_error", "It broke."), status=200)
    assert used == Usage() or used.output_tokens <= 100
    assert told == []


async def test_a_conversation_remembers_how_its_server_counts():
    """RA-10, BX-11: another process that continues it estimates as well, unless another model answers there."""
    start = UserMessage((Text("word " * 400),))
    async with serve("chat", [FINE]) as server, open_client(server) as asked:
        reply = await asked.reply(start)
        again = a_request(start, reply.message)
        known = asked.model.estimate(again).input_tokens
    stored = msgspec.json.decode(msgspec.json.encode(reply.message), type=AssistantMessage)
    again = a_request(start, stored)
    foreign = a_request(start, msgspec.structs.replace(stored, model="other:m"))
    async with serve("chat", [FINE]) as server, open_client(server) as asked:
        assert asked.model.estimate(again).input_tokens == pytest.approx(known, rel=0.01)
        assert asked.model.estimate(foreign).input_tokens < known / 2
