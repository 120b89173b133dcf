"""The conformance suite of the Model Context Protocol against our way of serving."""

import asyncio
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.mcp_npm import SUITE, needs_packages
from support.scenario import COMMAND_S, PATIENCE_S

SERVER = Path(__file__).parents[1] / "support" / "conformance_server.py"


@pytest.mark.slow
@needs_packages
async def test_every_server_scenario_of_the_suite_passes(tmp_path):
    """BX-19: with the demo server that the suite asks for; the figures are in docs/mcp-server.md."""
    server = await asyncio.create_subprocess_exec(
        sys.executable, SERVER, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=tmp_path
    )
    try:
        url = (await asyncio.wait_for(server.stdout.readline(), PATIENCE_S)).decode().strip()
        suite = await asyncio.create_subprocess_exec(
            *SUITE, "server", "--url", url, "--suite", "all", stdout=subprocess.PIPE, cwd=tmp_path
        )
        said = (await asyncio.wait_for(suite.communicate(), COMMAND_S))[0].decode()
    finally:
        server.kill()
        await server.wait()
    plain = re.sub(r"\x1b\[[0-9;]*m", "", said)
    assert re.search(r"Total: (4[4-9]|[5-9]\d) passed, 0 failed", plain), plain[-4000:]
