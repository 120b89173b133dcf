"""Files and locks."""

import asyncio
import sys

import pytest

from scaffold.core.errors import ScaffoldError
from scaffold.host.files import FileLock, append_line, write_atomic
from scaffold.host.identity import own_identity
from scaffold.host.process.child import start_child

HOLDER = """
import asyncio, pathlib, sys
from scaffold.host.files import FileLock
async def main():
    async with FileLock(pathlib.Path("lock"), timeout_s=10):
        pathlib.Path("held").touch()
        await asyncio.sleep(60)
asyncio.run(main())
"""


def test_a_file_is_written_whole_without_leftovers(tmp_path):
    target = tmp_path / "new" / "file"
    write_atomic(target, b"one")
    write_atomic(target, b"two")
    assert target.read_bytes() == b"two"
    assert list(target.parent.iterdir()) == [target]


def test_a_failed_write_leaves_the_old_file(tmp_path):
    target = tmp_path / "folder"
    target.mkdir()
    with pytest.raises(IsADirectoryError):
        write_atomic(target, b"data")
    assert list(tmp_path.iterdir()) == [target]


def test_lines_are_appended_to_a_file_created_on_demand(tmp_path):
    log = tmp_path / "new" / "log"
    append_line(log, b"one")
    append_line(log, b"two")
    assert log.read_bytes() == b"one\ntwo\n"


async def test_a_lock_lets_one_task_in_at_a_time(tmp_path):
    inside, most = 0, 0

    async def enter():
        nonlocal inside, most
        async with FileLock(tmp_path / "lock", timeout_s=10):
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0.005)
            inside -= 1

    async with asyncio.TaskGroup() as group:
        for _ in range(8):
            group.create_task(enter())
    assert most == 1


async def test_a_timeout_for_a_lock_names_its_holder(tmp_path):
    async with FileLock(tmp_path / "lock", timeout_s=1):
        with pytest.raises(ScaffoldError) as caught:
            async with FileLock(tmp_path / "lock", timeout_s=0.05):
                pass
    assert f"by process {own_identity().pid}" in caught.value.what


async def test_a_cancelled_wait_leaves_the_lock_to_others(tmp_path):
    async with FileLock(tmp_path / "lock", timeout_s=1):
        waiting = asyncio.create_task(FileLock(tmp_path / "lock", timeout_s=5).__aenter__())
        await asyncio.sleep(0.02)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert waiting.cancelled()
    async with FileLock(tmp_path / "lock", timeout_s=1):
        assert (tmp_path / "lock").exists()


async def test_a_lock_is_released_when_its_holder_dies(tmp_path, env, eventually):
    holder = await start_child([sys.executable, "-c", HOLDER], cwd=tmp_path, env=env, log=tmp_path / "log")
    await eventually((tmp_path / "held").exists)
    with pytest.raises(ScaffoldError, match=f"by process {holder.identity.pid}"):
        async with FileLock(tmp_path / "lock", timeout_s=0.05):
            pass
    holder.kill()
    await holder.wait()
    async with FileLock(tmp_path / "lock", timeout_s=1):
        pass
