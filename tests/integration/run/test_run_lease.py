"""Heartbeats of a worker."""

import asyncio

import msgspec
import pytest

from scaffold.run.attempts.lease import HEARTBEAT_S, send_heartbeats
from scaffold.run.attempts.time_limit import TimeLimit
from support.fake_clock import FakeClock
from support.harness import act, goal


@pytest.fixture
async def attempt(harness):
    run = await harness.own(goal("g", act("a")))
    return await harness.queue(run, "a")


async def passed(clock, seconds):
    for _ in range(3):
        await asyncio.sleep(0)
    clock.advance(seconds)
    for _ in range(3):
        await asyncio.sleep(0)


async def test_a_worker_sends_heartbeats_while_it_works(harness, attempt):
    """BX-12: the owner of the run sees that it lives, by a monotonic clock."""
    clock = FakeClock()
    harness.claim(attempt)
    async with send_heartbeats(harness.store, attempt, clock, TimeLimit(clock, 60.0)):
        await passed(clock, HEARTBEAT_S)
        assert harness.attempt(attempt.id).heartbeat_at == HEARTBEAT_S
        await passed(clock, HEARTBEAT_S)
        assert harness.attempt(attempt.id).heartbeat_at == 2 * HEARTBEAT_S
    await passed(clock, HEARTBEAT_S)
    assert harness.attempt(attempt.id).heartbeat_at == 2 * HEARTBEAT_S


async def test_heartbeats_of_an_ended_attempt_raise_no_error(harness, attempt):
    """The next write of the worker itself is refused."""
    clock = FakeClock()
    stranger = msgspec.structs.replace(attempt, fence=attempt.fence + 1)
    async with send_heartbeats(harness.store, stranger, clock, TimeLimit(clock, 60.0)):
        await passed(clock, HEARTBEAT_S)
        await passed(clock, HEARTBEAT_S)
    assert harness.attempt(attempt.id).heartbeat_at is None
