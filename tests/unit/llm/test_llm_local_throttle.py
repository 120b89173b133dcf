import asyncio

import pytest

from scaffold.core.errors import ModelError
from scaffold.llm.transport.retry import LocalThrottle
from support.fake_clock import FakeClock

HERE = "anthropic https://api.anthropic.com"


class NoJitter:
    """A source of chance without jitter."""

    def uniform(self, a, b, /):
        return 0.0


def throttle(clock):
    return LocalThrottle(clock=clock, rng=NoJitter())


async def entered(way, count, endpoint=HERE):
    return [await way.enter(endpoint, timeout_s=60.0) for _ in range(count)]


async def settle():
    for _ in range(30):
        await asyncio.sleep(0)


async def test_without_a_refusal_any_number_enters_at_once():
    assert len(set(await entered(throttle(FakeClock()), 500))) == 500


async def test_one_refusal_starts_a_cooldown_for_that_endpoint_only():
    """AL-31."""
    clock = FakeClock()
    way = throttle(clock)
    [ticket] = await entered(way, 1)
    way.leave(ticket, "limited", retry_after_s=5.0)
    assert way.wait_s(HERE) == 5.0
    assert way.wait_s("elsewhere") == 0.0
    waiting = asyncio.create_task(way.enter(HERE, timeout_s=60.0))
    await entered(way, 1, "elsewhere")
    clock.advance(4.9)
    await settle()
    assert not waiting.done()
    clock.advance(0.2)
    await settle()
    assert waiting.done()
    await waiting


async def test_cooldowns_without_retry_after_double():
    """AL-31."""
    clock = FakeClock()
    way = throttle(clock)
    parks = []
    for _ in range(7):
        [ticket] = await entered(way, 1)
        way.leave(ticket, "limited")
        parks.append(way.wait_s(HERE))
        clock.advance(parks[-1])
    assert parks == pytest.approx([1, 2, 4, 8, 16, 30, 30])


async def test_after_a_refusal_half_as_many_enter_until_answers_come():
    """AL-31: concurrency is lowered and raised again."""
    clock = FakeClock()
    way = throttle(clock)
    first, *others = await entered(way, 8)
    way.leave(first, "limited")
    for ticket in others:
        way.leave(ticket, "failed")
    clock.advance(1.0)
    inside = await entered(way, 4)
    waiting = asyncio.create_task(way.enter(HERE, timeout_s=60.0))
    await settle()
    assert not waiting.done()
    for ticket in inside:
        way.leave(ticket, "ok")
    clock.advance(0.3)
    await settle()
    await waiting


async def test_a_request_with_less_time_than_the_cooldown_fails_at_once():
    clock = FakeClock()
    way = throttle(clock)
    [ticket] = await entered(way, 1)
    way.leave(ticket, "limited", retry_after_s=90.0)
    with pytest.raises(ModelError, match="retry in 90 s") as caught:
        await way.enter(HERE, timeout_s=60.0)
    assert caught.value.limited
    assert not caught.value.transient
    assert caught.value.retry_after_s == 90.0
