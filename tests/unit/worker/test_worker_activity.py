"""Silence, on a clock that only the test moves."""

import asyncio

import pytest

from fakes import tool
from scaffold.core.conversation import RetryWait, TextDelta
from scaffold.core.model import Usage
from scaffold.core.tool import ToolOutput
from scaffold.run.attempts.time_limit import TimeLimit
from scaffold.worker.activity_clock import ActivityClock, WaitAwareBudget
from support.fake_clock import FakeClock

IDLE_S = 300.0
LIMIT_S = 3_000.0


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
async def listening(clock):
    """An activity monitor, and the task that ends when it detects silence."""
    pulse = ActivityClock(clock, idle_s=IDLE_S, limit=TimeLimit(clock, LIMIT_S))
    silence = asyncio.create_task(pulse.wait_until_idle())
    await settled()
    yield pulse, silence
    silence.cancel()


async def settled():
    """Let every task run as far as it can without the clock."""
    for _ in range(10):
        await asyncio.sleep(0)


async def passes(clock, seconds):
    clock.advance(seconds)
    await settled()


async def test_without_activity_it_is_silent_after_the_limit(clock, listening):
    """BX-12."""
    _, silence = listening
    await passes(clock, IDLE_S - 1)
    assert not silence.done()
    await passes(clock, 1)
    assert silence.done()


@pytest.mark.parametrize(
    "sign", [lambda pulse: pulse.beat(), lambda pulse: pulse.on_delta(TextDelta("x"))], ids=["output", "stream"]
)
async def test_each_activity_restarts_the_limit(clock, listening, sign):
    """BX-12: what a command prints, and what a model says."""
    pulse, silence = listening
    for _ in range(3):
        await passes(clock, IDLE_S - 1)
        sign(pulse)
    await passes(clock, IDLE_S - 1)
    assert not silence.done()
    await passes(clock, 1)
    assert silence.done()


async def test_an_announced_wait_does_not_count_as_silence(clock, listening):
    """BX-12: a cooldown is no hang."""
    pulse, silence = listening
    pulse.on_delta(RetryWait(1000.0, "too much to do"))
    pulse.beat()
    await passes(clock, 1000 + IDLE_S - 1)
    assert not silence.done()
    await passes(clock, 1)
    assert silence.done()


async def test_waiting_for_a_human_is_never_silence(clock, listening):
    """BX-12: nested waits neither."""
    pulse, silence = listening
    with pulse.waiting(), pulse.waiting():
        await passes(clock, 10 * IDLE_S)
    await passes(clock, IDLE_S - 1)
    assert not silence.done()
    await passes(clock, 1)
    assert silence.done()


async def test_waiting_for_money_is_not_silence(clock, listening):
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


async def test_a_tool_is_active_when_it_begins_and_when_it_ends(clock, listening):
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
