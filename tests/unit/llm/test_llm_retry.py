import asyncio
from itertools import pairwise

import pytest

from scaffold.core.conversation import AssistantMessage, Caller, Reply, Request, Text
from scaffold.core.errors import ModelTrouble
from scaffold.core.model import Usage
from scaffold.host.clock import FakeClock
from scaffold.llm.retry import RetryingModel

REQUEST = Request(caller=Caller(role="implementation"), system="", messages=())


class NoJitter:
    """Always the longest wait."""

    def uniform(self, a, b, /):
        return b


class AllJitter:
    """Always the shortest wait."""

    def uniform(self, a, b, /):
        return a


class Flaky:
    """Fails `failures` times, then answers; notes when each try began."""

    def __init__(self, clock, failures, *, transient=True, hangs=False):
        self._clock = clock
        self._failures = failures
        self._transient = transient
        self._hangs = hangs
        self.tries = []

    async def attempt(self, request, try_number):
        self.tries.append((try_number, self._clock.monotonic()))
        if try_number > self._failures:
            return Reply(message=AssistantMessage((Text("here"),)), usage=Usage(), stop="end")
        if self._hangs:
            await asyncio.Event().wait()
        raise ModelTrouble("Overloaded.", "Wait.", transient=self._transient)


async def settle(asking, clock):
    """Let time pass, a tenth of a second a step, until `asking` is over."""
    while not asking.done():
        await asyncio.sleep(0)
        clock.advance(0.125)
    return await asking


async def ask(flaky, clock, jitter=None, **limits):
    model = RetryingModel(flaky, clock=clock, rng=jitter or NoJitter(), **limits)
    return await settle(asyncio.create_task(model.reply(REQUEST)), clock)


async def test_waits_double_from_one_second():
    """RA-21."""
    clock = FakeClock()
    flaky = Flaky(clock, failures=4)
    reply = await ask(flaky, clock)
    assert reply.message.text == "here"
    began = [at for _, at in flaky.tries]
    waits = [later - earlier for earlier, later in pairwise(began)]
    assert waits == pytest.approx([1, 2, 4, 8], abs=0.3)
    assert [number for number, _ in flaky.tries] == [1, 2, 3, 4, 5]


async def test_jitter_takes_up_to_half_of_a_wait():
    clock = FakeClock()
    flaky = Flaky(clock, failures=3)
    await ask(flaky, clock, AllJitter())
    assert flaky.tries[-1][1] == pytest.approx(0.5 + 1 + 2, abs=0.5)


async def test_no_wait_is_longer_than_half_a_minute():
    clock = FakeClock()
    flaky = Flaky(clock, failures=8)
    await ask(flaky, clock, total_s=1_000.0)
    assert flaky.tries[-1][1] - flaky.tries[-2][1] == pytest.approx(30, abs=0.3)


@pytest.mark.parametrize(("jitter", "tries"), [(NoJitter(), 6), (AllJitter(), 8)])
async def test_all_tries_of_one_request_end_within_a_minute(jitter, tries):
    """RA-21."""
    clock = FakeClock()
    flaky = Flaky(clock, failures=10_000)
    with pytest.raises(ModelTrouble, match=rf"Overloaded\. \(tried {tries} times\)"):
        await ask(flaky, clock, jitter)
    assert clock.monotonic() <= 60.25


async def test_what_will_not_get_better_is_not_tried_again():
    clock = FakeClock()
    flaky = Flaky(clock, failures=1, transient=False)
    with pytest.raises(ModelTrouble, match=r"^Overloaded\.$"):
        await ask(flaky, clock)
    assert len(flaky.tries) == 1


async def test_a_hang_is_cut_at_its_deadline_and_tried_again():
    clock = FakeClock()
    flaky = Flaky(clock, failures=1, hangs=True)
    model = RetryingModel(flaky, clock=clock, rng=NoJitter(), idle_s=0.02)
    asking = asyncio.create_task(model.reply(REQUEST))
    await asyncio.sleep(0.1)
    assert [number for number, _ in flaky.tries] == [1]
    reply = await settle(asking, clock)
    assert reply.message.text == "here"
    assert [number for number, _ in flaky.tries] == [1, 2]


async def test_a_hang_without_end_says_how_long_was_waited():
    clock = FakeClock()
    flaky = Flaky(clock, failures=1, hangs=True)
    model = RetryingModel(flaky, clock=clock, rng=NoJitter(), idle_s=0.01, total_s=0.5)
    with pytest.raises(ModelTrouble, match=r"did not answer within 0 s\. \(tried once\)") as caught:
        await model.reply(REQUEST)
    assert caught.value.transient


async def test_a_try_gets_no_more_time_than_the_request_has_left():
    clock = FakeClock()
    flaky = Flaky(clock, failures=1, hangs=True)
    model = RetryingModel(flaky, clock=clock, rng=NoJitter(), idle_s=60.0, total_s=0.01)
    async with asyncio.timeout(5):
        with pytest.raises(ModelTrouble, match="did not answer"):
            await model.reply(REQUEST)


async def test_cancelling_ends_the_wait_between_two_tries():
    clock = FakeClock()
    flaky = Flaky(clock, failures=5)
    asking = asyncio.create_task(RetryingModel(flaky, clock=clock, rng=NoJitter()).reply(REQUEST))
    await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert len(flaky.tries) == 1
