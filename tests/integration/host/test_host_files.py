"""Files and locks."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from scaffold.core.errors import ScaffoldError
from scaffold.host.atomic_files import FileLock, delete_folder_if_possible, delete_path, write_atomic
from scaffold.host.folder_tree import walk
from scaffold.host.process.child import start_child
from scaffold.host.process_identity import own_identity

HOLDER = """
import asyncio, pathlib, sys
from scaffold.host.atomic_files import FileLock
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


async def test_a_lock_does_not_empty_what_a_link_leads_to(tmp_path):
    """BX-9: a received repository may have a link in place of a lock."""
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "lock").symlink_to("mine")
    with pytest.raises(OSError, match="symbolic link"):
        await FileLock(tmp_path / "lock", timeout_s=1).__aenter__()
    assert (tmp_path / "mine").read_text() == "mine"


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


@pytest.fixture
def deep(tmp_path):
    """A folder with 1,500 folders in each other, the lowest without any right."""
    top = tmp_path / "deep"
    top.mkdir()
    here = os.open(top, os.O_PATH)
    for _ in range(1500):
        os.mkdir("d", dir_fd=here)
        os.close(os.open("f", os.O_CREAT, dir_fd=here))
        below = os.open("d", os.O_PATH, dir_fd=here)
        os.close(here)
        here = below
    Path(f"/proc/self/fd/{here}").chmod(0)
    os.close(here)
    yield top
    delete_path(top) if top.exists() else None


@pytest.mark.slow
@pytest.mark.parametrize("delete", [delete_path, delete_folder_if_possible])
def test_a_folder_of_any_depth_is_deleted(deep, delete):
    """BX-9: a command can make one, and must not end us with it."""
    outside = deep.parent / "outside"
    outside.mkdir()
    (deep / "d" / "link").symlink_to(outside)
    delete(deep)
    assert [path.name for path in deep.parent.iterdir()] == ["outside"]


@pytest.mark.slow
def test_a_folder_of_any_depth_is_walked(deep):
    assert sum(len(names) for _, _, names in walk(deep)) == 1500


def test_walking_is_as_in_the_standard_library(tmp_path):
    for name in ("b/c", "b/a", "a/x"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "file").touch()
    (tmp_path / "b" / "link").symlink_to(tmp_path / "a")
    (tmp_path / "b" / "broken").symlink_to("missing")
    (tmp_path / "a" / "circle").symlink_to("circle")
    expected = [(folder, set(folders), set(names)) for folder, folders, names in os.walk(tmp_path)]  # noqa: TID251
    assert [(folder, set(folders), set(names)) for folder, folders, names in walk(tmp_path)] == expected
