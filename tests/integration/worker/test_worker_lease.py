"""Signs of life of a worker."""

import asyncio

import msgspec
import pytest

from fakes import GHOST, act, goal
from scaffold.host.clock import FakeClock
from scaffold.run.lease import HEARTBEAT_S, send_heartbeats


@pytest.fixture
async def attempt(house):
    run = await house.own(goal("g", act("a")))
    return await house.queue(run, "a")


async def passed(clock, seconds):
    for _ in range(3):
        await asyncio.sleep(0)
    clock.advance(seconds)
    for _ in range(3):
        await asyncio.sleep(0)


async def test_a_worker_beats_while_it_works_and_no_longer(house, attempt):
    """BX-12: whoever owns the run sees that it lives, by a clock that does not jump."""
    clock = FakeClock()
    with house.store.transaction():
        house.store.attempts.claim(attempt.id, fence=attempt.fence, worker=GHOST, worktree="/tree", log_file="/log")
    async with send_heartbeats(house.store, attempt, clock):
        await passed(clock, HEARTBEAT_S)
        assert house.attempt(attempt.id).heartbeat_at == HEARTBEAT_S
        await passed(clock, HEARTBEAT_S)
        assert house.attempt(attempt.id).heartbeat_at == 2 * HEARTBEAT_S
    await passed(clock, HEARTBEAT_S)
    assert house.attempt(attempt.id).heartbeat_at == 2 * HEARTBEAT_S


async def test_an_attempt_that_is_over_ends_nobodys_heart(house, attempt):
    """The next write of the worker itself finds out."""
    clock = FakeClock()
    stranger = msgspec.structs.replace(attempt, fence=attempt.fence + 1)
    async with send_heartbeats(house.store, stranger, clock):
        await passed(clock, HEARTBEAT_S)
        await passed(clock, HEARTBEAT_S)
    assert house.attempt(attempt.id).heartbeat_at is None
