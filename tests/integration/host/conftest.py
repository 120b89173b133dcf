"""Fixtures for the tests of `host`."""

import asyncio
import os
from pathlib import Path

import pytest

from scaffold.host.child_environment import child_environment
from scaffold.host.process.command_runner import run_command
from scaffold.host.process_identity import identify


@pytest.fixture
def env():
    return child_environment(os.environ)


@pytest.fixture
def sh(tmp_path, env):
    """Run a shell script in the temporary directory; options are those of `run_command`."""

    async def shell(script, **options):
        return await run_command(["sh", "-c", script], **({"cwd": tmp_path, "env": env, "timeout_s": 20} | options))

    return shell


@pytest.fixture
def eventually():
    """Wait until a condition holds; fail after some seconds."""

    async def wait(condition, within_s=5.0):
        async with asyncio.timeout(within_s):
            while not condition():  # noqa: ASYNC110 - the other processes cannot set an event of ours
                await asyncio.sleep(0.01)

    return wait


@pytest.fixture
def process_in(eventually):
    """Wait for a file that contains a pid; return the identity of that process."""

    def pid(path: Path) -> int | None:
        content = path.read_text() if path.exists() else ""
        return int(content) if content.endswith("\n") else None

    async def read(path: Path):
        await eventually(lambda: pid(path))
        return identify(pid(path))

    return read
