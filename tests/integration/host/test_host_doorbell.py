"""Doorbells between processes: real pipes, real processes."""

import asyncio
import stat
import sys

import pytest

from fakes import until
from scaffold.host.doorbell import Doorbell, ring, unheard
from scaffold.host.process import run as run_command

RING = "import sys; from pathlib import Path; from scaffold.host.doorbell import ring; ring(Path(sys.argv[1]))"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "bells" / "owner"


@pytest.fixture
async def rings(path):
    """Listen at `path`; the list grows with each time something was heard."""
    heard = []
    bell = Doorbell(path, lambda: heard.append(1))
    yield heard
    bell.close()


async def test_another_process_wakes_us(path, rings):
    """SC-14: a notification only wakes."""
    rang = await run_command([sys.executable, "-c", RING, str(path)], cwd=path.parent, env={}, timeout_s=30)
    assert rang.exit_code == 0
    await until(lambda: rings)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_many_rings_are_heard_and_none_blocks(path, rings):
    for _ in range(100_000):
        ring(path)
    await until(lambda: rings)
    before = len(rings)
    ring(path)
    await until(lambda: len(rings) > before)
    assert len(rings) < 100


async def test_a_ring_before_anybody_looks_is_not_missed(path):
    heard = asyncio.Event()
    bell = Doorbell(path, heard.set)
    ring(path)
    ring(path)
    await until(heard.is_set)
    bell.close()
    assert heard.is_set()


async def test_ringing_where_nobody_listens_is_no_error(path, rings, tmp_path):
    ring(tmp_path / "nowhere")
    (tmp_path / "file").write_text("precious")
    ring(tmp_path / "file")
    (tmp_path / "link").symlink_to(path)
    ring(tmp_path / "link")
    await asyncio.sleep(0)
    assert (tmp_path / "file").read_text() == "precious"
    assert rings == []


async def test_a_bell_that_was_closed_can_be_opened_again(path):
    first = Doorbell(path, lambda: None)
    first.close()
    ring(path)
    heard = asyncio.Event()
    second = Doorbell(path, heard.set)
    ring(path)
    async with asyncio.timeout(5):
        await heard.wait()
    second.close()
    assert [each.name for each in path.parent.iterdir()] == ["owner"]


async def test_it_can_be_told_whether_a_listener_hears(path):
    """SC-16: whoever is stopped, or stuck, leaves the ring where it is."""
    assert not unheard(path), "nobody listens"
    heard = asyncio.Event()
    bell = Doorbell(path, heard.set)
    assert not unheard(path), "nobody rang"
    ring(path)
    assert unheard(path)
    assert unheard(path), "to look is not to hear"
    await until(heard.is_set)
    assert not unheard(path)
    ring(path)
    bell.close()
    assert not unheard(path), "nobody listens any more"
