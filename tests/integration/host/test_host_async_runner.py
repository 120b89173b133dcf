"""Programs that run their asynchronous part in an event loop."""

import asyncio
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from scaffold.host.process.async_runner import run_async
from scaffold.host.process.command_runner import run_command


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """Restore the state that other tests rely on."""
    yield
    if sys.version_info < (3, 12):
        asyncio.set_child_watcher(None)


async def _run_a_command() -> int:
    """Return the number of threads while a command of ours runs."""
    command = asyncio.create_task(run_command(["sleep", "0.2"], cwd=Path.cwd(), env=os.environ, timeout_s=10))
    await asyncio.sleep(0.1)
    threads = threading.active_count()
    assert (await command).exit_code == 0
    return threads


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux: pidfd_open waits for a process without a thread")
def test_waiting_for_a_command_uses_no_thread() -> None:
    """A process with several threads cannot be forked safely."""
    before = threading.active_count()
    assert run_async(_run_a_command()) == before
    assert run_async(_run_a_command()) == before, "in the next loop neither"
