"""MCP servers that somebody else wrote, and the conformance suite of the protocol, from what `setup` makes."""

import json
import os
import re
import shutil
import subprocess  # noqa: TID251 - the suite is a real process
import sys
from pathlib import Path

import pytest
from msgspec import structs

from builders import machine_sandbox
from scaffold.extensions.mcp.config import read_servers
from scaffold.extensions.mcp.launch import ServerPlace
from scaffold.extensions.mcp.offers import ask_nobody
from scaffold.extensions.mcp.pool import LocalPool, PoolSetup, tell_withheld
from scaffold.host.sandbox.confinement import SandboxSpec
from scaffold.policy.sandbox import SandboxInputs, workspace_profile
from support.mcp_conformance_client import NoApprovals
from support.mcp_npm import HOME, NODE, PACKAGES, SUITE, needs_packages

CLIENT = Path(__file__).parents[2] / "support" / "mcp_conformance_client.py"
PASSED = re.compile(r"Passed: (\d+)/(\d+), (\d+) failed")
SCENARIOS = {"initialize": 1, "tools_call": 1, "elicitation-sep1034-client-defaults": 5, "sse-retry": 3}
"""Those that need no login, with the number of their checks."""

pytestmark = [pytest.mark.slow, needs_packages]


async def test_servers_from_npm_work_in_the_sandbox(tmp_path):
    """RA-15: everything, filesystem and memory, which write only where their entry says."""
    sandbox = await machine_sandbox()
    work, notes = tmp_path / "work", tmp_path / "notes"
    work.mkdir()
    notes.mkdir()
    (work / "here").touch()
    if sandbox.level == "none":
        pytest.skip("no sandbox works here")

    def entry(name, *args, **more):
        program = str(PACKAGES / f"server-{name}" / "dist" / "index.js")
        return {"command": str(NODE), "args": [program, *args], "reads": [str(HOME)], **more}

    entries = {
        "everything": entry("everything"),
        "files": entry("filesystem", "."),
        "memory": entry("memory", env={"MEMORY_FILE_PATH": str(notes / "m.json")}, writes=[str(notes)]),
    }
    found = read_servers(json.dumps({"mcpServers": entries}).encode(), file="mcp.json", scope="user")
    told = []
    place = ServerPlace(cwd=work, environ=os.environ, sandbox=sandbox_for(sandbox, work, tmp_path))
    setup = PoolSetup(place=place, approvals=NoApprovals(), tell=told.append, withheld=tell_withheld(told.append))
    pool = LocalPool(found.servers, setup)
    try:
        tools = {tool.called: tool for tool in await pool.tools()}

        async def call(name, **args):
            output = await pool.call(tools[name], args, ask_nobody)
            assert not output.failed, output
            return output.content

        assert await call("mcp_everything_echo", message="hi") == "Echo: hi"
        assert "an image that cannot be shown: image/png" in await call("mcp_everything_get-tiny-image")
        assert "[FILE] here" in await call("mcp_files_list_directory", path=".")
        await call("mcp_memory_create_entities", entities=[{"name": "a", "entityType": "b", "observations": ["c"]}])
        assert '"observations"' in await call("mcp_memory_read_graph")
    finally:
        await pool.close()
    assert told == []
    assert (notes / "m.json").exists()


def sandbox_for(machine, work, folder):
    """Return the sandbox of commands in a folder."""
    from_machine = SandboxInputs(root=work, home=folder / "home", temporary=folder / "temporary")
    (folder / "home").mkdir()
    zone = workspace_profile(from_machine, os.environ)
    return SandboxSpec(machine.level, structs.replace(zone, network="none"), program=machine.program)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_client_conforms_to_the_protocol(scenario, tmp_path):
    """RA-15: every client scenario of the suite that needs no login passes, each of its checks."""
    command = [*SUITE, "client", "--scenario", scenario, "--command", f"{sys.executable} {CLIENT}"]
    if shutil.which("unshare") and subprocess.run(["unshare", "-rn", "true"], check=False).returncode == 0:
        command = ["unshare", "-rn", "sh", "-c", 'ip link set lo up; exec "$@"', "sh", *command]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=90, check=False)
    (passed,) = PASSED.findall(done.stdout + done.stderr)
    assert tuple(map(int, passed)) == (SCENARIOS[scenario], SCENARIOS[scenario], 0), done.stdout + done.stderr
