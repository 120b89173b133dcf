"""Slots limit how many heavy tasks run at once on this machine."""

import asyncio
import contextlib
import os
import sys

import pytest

from scaffold.host.process.child import start_child
from scaffold.host.slots import Slots

HOLD = """
import asyncio, sys
from pathlib import Path
from scaffold.host.slots import Slots

async def hold():
    async with Slots(Path(sys.argv[1]), 1).taken():
        print("held", flush=True)
        await asyncio.Event().wait()

asyncio.run(hold())
"""


class Room:
    """Counts concurrent holders."""

    def __init__(self):
        self.inside = 0
        self.most = 0

    async def visit(self, slots):
        async with slots.taken():
            self.inside += 1
            self.most = max(self.most, self.inside)
            await asyncio.sleep(0.01)
            self.inside -= 1


@pytest.mark.parametrize("count", [1, 3])
async def test_at_most_the_limit_is_in_at_once_and_all_get_in(tmp_path, count):
    """BX-4: heavy gates share machine-wide slots."""
    room = Room()
    async with asyncio.TaskGroup() as group:
        for _ in range(8):
            group.create_task(room.visit(Slots(tmp_path / "slots", count)))
    assert (room.most, room.inside) == (count, 0)


async def test_a_limit_below_one_counts_as_one(tmp_path):
    room = Room()
    async with asyncio.timeout(20):
        await room.visit(Slots(tmp_path, 0))
    assert room.most == 1


async def test_the_slot_of_a_killed_holder_is_free(tmp_path, eventually):
    log = tmp_path / "log"
    argv = [sys.executable, "-c", HOLD, str(tmp_path / "slots")]
    holder = await start_child(argv, cwd=tmp_path, env=dict(os.environ), log=log)
    await eventually(lambda: log.read_text() == "held\n", within_s=20)
    room = Room()
    waiting = asyncio.create_task(room.visit(Slots(tmp_path / "slots", 1)))
    await asyncio.sleep(0.1)
    assert room.most == 0
    holder.kill()
    await holder.wait()
    async with asyncio.timeout(20):
        await waiting
    assert room.most == 1


async def test_a_waiting_task_can_be_cancelled_and_takes_no_slot(tmp_path):
    slots = Slots(tmp_path, 1)
    async with slots.taken():
        waiting = asyncio.create_task(Room().visit(slots))
        await asyncio.sleep(0.03)
        waiting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await waiting
    room = Room()
    async with asyncio.timeout(20):
        await room.visit(slots)
    assert (waiting.cancelled(), room.most) == (True, 1)


async def test_a_slot_is_free_again_after_an_error(tmp_path):
    slots, room = Slots(tmp_path, 1), Room()
    with pytest.raises(LookupError):
        async with slots.taken():
            raise LookupError
    async with asyncio.timeout(20):
        await room.visit(slots)
    assert room.most == 1
