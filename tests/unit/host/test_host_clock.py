"""Clocks."""

import asyncio
from datetime import UTC, datetime, timedelta

from scaffold.host.clock import SystemClock
from support.fake_clock import FakeClock


def test_the_system_clock_is_aware_and_utc():
    assert SystemClock().now().utcoffset() == timedelta(0)


def test_a_fake_clock_does_not_move_until_it_is_advanced():
    clock = FakeClock(datetime(2031, 5, 1, tzinfo=UTC))
    assert (clock.now(), clock.monotonic()) == (datetime(2031, 5, 1, tzinfo=UTC), 0.0)
    clock.advance(90)
    assert (clock.now(), clock.monotonic()) == (datetime(2031, 5, 1, 0, 1, 30, tzinfo=UTC), 90.0)


async def test_advancing_a_fake_clock_wakes_due_sleepers_in_order():
    clock, woken = FakeClock(), []

    async def sleeper(seconds):
        await clock.sleep(seconds)
        woken.append(seconds)

    async with asyncio.TaskGroup() as group:
        for seconds in (3, 1, 2):
            group.create_task(sleeper(seconds))
        await asyncio.sleep(0)
        clock.advance(2.5)
        await asyncio.sleep(0.001)
        assert woken == [1, 2]
        clock.advance(0.5)
    assert woken == [1, 2, 3]


async def test_a_cancelled_sleeper_does_not_disturb_the_others():
    clock = FakeClock()
    impatient = asyncio.create_task(clock.sleep(1))
    patient = asyncio.create_task(clock.sleep(1))
    await asyncio.sleep(0)
    impatient.cancel()
    await asyncio.sleep(0)
    clock.advance(1)
    await asyncio.wait_for(patient, 1)
    assert impatient.cancelled()


async def test_sleeping_for_zero_seconds_needs_no_advance():
    clock = FakeClock()
    before = clock.monotonic()
    await asyncio.wait_for(clock.sleep(0), 1)
    assert clock.monotonic() == before
