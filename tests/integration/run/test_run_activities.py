"""The recorder of steps: what lasts is stored while it lasts, and its duration afterwards."""

import asyncio
import sqlite3
from contextlib import closing

import msgspec
import pytest

from scaffold.core.model import Activity
from scaffold.run.activity_recorder import SHOWN_AFTER_S, ActivityRecorder
from scaffold.store.database import Store
from support.fake_clock import FakeClock
from support.harness import act, goal

GATE = Activity(label="test", command="pytest -q")
OUTER = Activity(label="set-up", command="npm ci")


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def context(harness, clock):
    return msgspec.structs.replace(harness.context, clock=clock)


@pytest.fixture
async def run(harness):
    return await harness.own(goal("g", act("x")))


async def settle():
    for _ in range(5):
        await asyncio.sleep(0)


def shown(context, run):
    return [step.work for step in context.store.activities.for_run(run.id, fence=run.fence)]


async def test_what_lasts_is_recorded_while_it_lasts(context, run, clock):
    """AL-26."""
    async with ActivityRecorder(context, run, stage="preparing").during(GATE):
        await settle()
        assert shown(context, run) == []
        clock.advance(SHOWN_AFTER_S)
        await settle()
        assert shown(context, run) == [GATE]
        clock.advance(41)
    assert shown(context, run) == []
    assert context.store.activities.duration(GATE) == 41 + SHOWN_AFTER_S


async def test_what_ends_at_once_costs_no_write(context, run, clock):
    """AL-26: also if it waited for nothing."""
    with closing(sqlite3.connect(context.repository.common_dir / "scaffold" / "state.db")) as another:
        before = another.execute("PRAGMA data_version").fetchone()
        async with ActivityRecorder(context, run).during(GATE):
            await settle()
        assert (shown(context, run), context.store.activities.duration(GATE)) == ([], None)
        assert another.execute("PRAGMA data_version").fetchone() == before


async def test_an_inner_step_is_shown_until_it_ends(context, run, clock):
    recorder = ActivityRecorder(context, run)
    async with recorder.during(OUTER):
        await settle()
        clock.advance(SHOWN_AFTER_S)
        await settle()
        async with recorder.during(GATE):
            await settle()
            clock.advance(SHOWN_AFTER_S)
            await settle()
            assert shown(context, run) == [GATE]
        assert shown(context, run) == [OUTER]
    assert shown(context, run) == []


async def test_what_failed_or_was_cancelled_says_nothing_about_the_next_time(context, run, clock):
    """AL-26: no duration is guessed."""

    async def fail():
        async with ActivityRecorder(context, run).during(GATE):
            await settle()
            clock.advance(5)
            await settle()
            raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        await fail()
    assert (shown(context, run), context.store.activities.duration(GATE)) == ([], None)


async def test_a_store_that_cannot_be_written_does_not_stop_the_work(context, run, clock):
    """AL-27."""
    place = context.repository.common_dir / "scaffold" / "state.db"
    with closing(Store.open(place, clock=clock, timeout_s=0.01)) as store, context.store.transaction():
        async with ActivityRecorder(msgspec.structs.replace(context, store=store), run).during(GATE):
            await settle()
            clock.advance(5)
            await settle()
    assert (shown(context, run), context.store.activities.duration(GATE)) == ([], None)
