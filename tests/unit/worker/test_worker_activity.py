"""Silence, on a clock that only the test moves."""

import asyncio

import pytest

from fakes import tool
from scaffold.core.conversation import RetryWait, TextDelta
from scaffold.core.model import Usage
from scaffold.core.tool import ToolOutput
from scaffold.host.clock import FakeClock
from scaffold.worker.activity import ActivityClock, WaitAwareBudget

IDLE_S = 300.0


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
async def listening(clock):
    """A pulse, and the task that ends with silence."""
    pulse = ActivityClock(clock, idle_s=IDLE_S)
    silence = asyncio.create_task(pulse.wait_until_idle())
    await settled()
    yield pulse, silence
    silence.cancel()


async def settled():
    """Let every task do what it can without the clock."""
    for _ in range(10):
        await asyncio.sleep(0)


async def passes(clock, seconds):
    clock.advance(seconds)
    await settled()


async def test_without_a_sign_of_life_it_is_silent_after_the_limit(clock, listening):
    """BX-12."""
    _, silence = listening
    await passes(clock, IDLE_S - 1)
    assert not silence.done()
    await passes(clock, 1)
    assert silence.done()


@pytest.mark.parametrize(
    "sign", [lambda pulse: pulse.beat(), lambda pulse: pulse.on_delta(TextDelta("x"))], ids=["output", "stream"]
)
async def test_each_sign_of_life_begins_the_limit_anew(clock, listening, sign):
    """BX-12: what a command prints, and what a model says."""
    pulse, silence = listening
    for _ in range(3):
        await passes(clock, IDLE_S - 1)
        sign(pulse)
    await passes(clock, IDLE_S - 1)
    assert not silence.done()
    await passes(clock, 1)
    assert silence.done()


async def test_a_wait_that_is_told_has_its_time(clock, listening):
    """BX-12: a parked endpoint is no loop."""
    pulse, silence = listening
    pulse.on_delta(RetryWait(1000.0, "too much to do"))
    pulse.beat()
    await passes(clock, 1000 + IDLE_S - 1)
    assert not silence.done()
    await passes(clock, 1)
    assert silence.done()


async def test_who_waits_for_a_human_is_not_silent_however_long_it_takes(clock, listening):
    """BX-12: a live wait is no loop; nested ones neither."""
    pulse, silence = listening
    with pulse.waiting(), pulse.waiting():
        await passes(clock, 10 * IDLE_S)
    await passes(clock, IDLE_S - 1)
    assert not silence.done()
    await passes(clock, 1)
    assert silence.done()


async def test_who_waits_for_money_is_not_silent(clock, listening):
    """BX-12."""
    pulse, silence = listening
    paid = asyncio.Event()

    class Slow:
        async def reserve(self, estimate):
            await paid.wait()
            return "reservation"

    waiting = asyncio.create_task(WaitAwareBudget(Slow(), pulse).reserve(Usage()))
    await settled()
    await passes(clock, 3 * IDLE_S)
    assert not silence.done()
    paid.set()
    assert await waiting == "reservation"


async def test_a_tool_is_a_sign_of_life_when_it_begins_and_when_it_ends(clock, listening):
    """BX-12."""
    pulse, silence = listening

    async def work():
        await passes(clock, IDLE_S - 1)
        return ToolOutput("done")

    guarded = pulse.guard(tool("work", work))
    await passes(clock, IDLE_S - 1)
    assert (await guarded.run({})).content == "done"
    await passes(clock, IDLE_S - 1)
    assert not silence.done()
