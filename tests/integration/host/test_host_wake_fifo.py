"""Wake-up pipes between processes: real pipes, real processes."""

import asyncio
import stat
import sys

import pytest

from scaffold.host.process.command_runner import run_command
from scaffold.host.wake_fifo import WakeFifo, has_pending_wake, wake_up
from support.harness import poll_until

RING = "import sys; from pathlib import Path; from scaffold.host.wake_fifo import wake_up; wake_up(Path(sys.argv[1]))"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "bells" / "owner"


@pytest.fixture
async def rings(path):
    """Listen at `path`; the list grows with each wake-up."""
    heard = []
    bell = WakeFifo(path, lambda: heard.append(1))
    yield heard
    bell.close()


async def test_another_process_wakes_us(path, rings):
    """SC-14: a notification carries no data."""
    rang = await run_command([sys.executable, "-c", RING, str(path)], cwd=path.parent, env={}, timeout_s=30)
    assert rang.exit_code == 0
    await poll_until(lambda: rings)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.slow
async def test_many_wake_ups_arrive_and_none_blocks(path, rings):
    for _ in range(100_000):
        wake_up(path)
    await poll_until(lambda: rings)
    before = len(rings)
    wake_up(path)
    await poll_until(lambda: len(rings) > before)
    assert len(rings) < 100


async def test_a_wake_up_before_the_wait_is_not_missed(path):
    heard = asyncio.Event()
    bell = WakeFifo(path, heard.set)
    wake_up(path)
    wake_up(path)
    await poll_until(heard.is_set)
    bell.close()
    assert heard.is_set()


async def test_waking_without_a_listener_is_no_error(path, rings, tmp_path):
    wake_up(tmp_path / "nowhere")
    (tmp_path / "file").write_text("precious")
    wake_up(tmp_path / "file")
    (tmp_path / "link").symlink_to(path)
    wake_up(tmp_path / "link")
    await asyncio.sleep(0)
    assert (tmp_path / "file").read_text() == "precious"
    assert rings == []


async def test_a_closed_pipe_can_be_opened_again(path):
    first = WakeFifo(path, lambda: None)
    first.close()
    wake_up(path)
    heard = asyncio.Event()
    second = WakeFifo(path, heard.set)
    wake_up(path)
    async with asyncio.timeout(5):
        await heard.wait()
    second.close()
    assert [each.name for each in path.parent.iterdir()] == ["owner"]


async def test_an_unresponsive_listener_is_detected(path):
    """SC-16: a stopped or stuck process leaves the wake-up in the pipe."""
    assert not has_pending_wake(path), "nobody listens"
    heard = asyncio.Event()
    bell = WakeFifo(path, heard.set)
    assert not has_pending_wake(path), "nobody rang"
    wake_up(path)
    assert has_pending_wake(path)
    assert has_pending_wake(path), "to look is not to hear"
    await poll_until(heard.is_set)
    assert not has_pending_wake(path)
    wake_up(path)
    bell.close()
    assert not has_pending_wake(path), "nobody listens any more"
