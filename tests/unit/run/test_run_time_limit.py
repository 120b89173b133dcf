"""The time of an attempt or a turn, on a clock that only the test moves."""

import asyncio

import pytest

from scaffold.run.attempts.time_limit import TimeLimit
from support.fake_clock import FakeClock


@pytest.fixture
def clock():
    return FakeClock()


async def passes(clock, seconds):
    """Advance the clock in steps of half a second, and let every task run."""
    for _ in range(int(seconds * 2)):
        clock.advance(0.5)
        for _ in range(5):
            await asyncio.sleep(0)


async def ended_by(limit):
    """Wait in the limit for ever; return whether its end was the reason to stop."""
    try:
        async with limit.enforced() as enforced:
            await asyncio.Event().wait()
    except TimeoutError:
        return enforced.expired()


async def test_a_limit_ends_its_block_in_time(clock):
    """AL-5: an attempt has the time of its tier."""
    task = asyncio.create_task(ended_by(TimeLimit(clock, 10.0)))
    await passes(clock, 9)
    assert not task.done()
    await passes(clock, 2)
    assert await task


async def test_a_block_may_leave_time_for_what_follows(clock):
    """AL-31: that is no time of the wall clock either: an outage would use it up."""

    async def spare(limit):
        try:
            async with limit.enforced(spare_s=4.0) as enforced:
                await asyncio.Event().wait()
        except TimeoutError:
            return enforced.expired()

    limit = TimeLimit(clock, 10.0)
    task = asyncio.create_task(spare(limit))
    with limit.paused():
        await passes(clock, 1_000)
    await passes(clock, 5)
    assert not task.done()
    await passes(clock, 2)
    assert (await task, limit.left_s > 0) == (True, True)


async def test_no_time_passes_while_it_is_paused(clock):
    """AL-31: "later" is no failure, and costs an attempt no time."""
    limit = TimeLimit(clock, 10.0)
    task = asyncio.create_task(ended_by(limit))
    await passes(clock, 4)
    with limit.paused():
        await passes(clock, 5)
        with limit.paused():
            await passes(clock, 1_000)
        assert (limit.left_s, limit.ends_at) == (6.0, clock.monotonic() + 6.0)
    await passes(clock, 5)
    assert not task.done()
    await passes(clock, 2)
    assert (await task, limit.left_s < 0) == (True, True)


async def test_an_end_in_time_leaves_nothing_behind(clock):
    async with TimeLimit(clock, 10.0).enforced():
        await asyncio.sleep(0)
    await passes(clock, 20)
    assert len(asyncio.all_tasks()) == 1
