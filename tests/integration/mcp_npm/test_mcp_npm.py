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
from scaffold.extensions.mcp.offers import ask_nobody
from scaffold.extensions.mcp.pool import LocalPool, PoolSetup, tell_withheld
from scaffold.extensions.mcp.server_config import read_servers
from scaffold.extensions.mcp.stdio import ServerPlace
from scaffold.host.sandbox.confinement import SandboxSpec
from scaffold.policy.command_sandbox import SandboxInputs
from scaffold.policy.sandbox_profile import workspace_profile
from support.mcp_conformance_client import NoApprovals
from support.mcp_npm import HOME, NODE, PACKAGES, SUITE, needs_packages

CLIENT = Path(__file__).parents[2] / "support" / "mcp_conformance_client.py"
PASSED = re.compile(r"^\S ([\w/-]+): (\d+) passed, (\d+) failed", re.MULTILINE)
SCENARIOS = {
    "core": {
        *("initialize", "tools_call", "elicitation-sep1034-client-defaults", "sse-retry"),
        *(f"auth/metadata-{name}" for name in ("default", "var1", "var2", "var3")),
        *(f"auth/token-endpoint-auth-{name}" for name in ("basic", "post", "none")),
        *(
            f"auth/scope-{name}"
            for name in ("from-www-authenticate", "from-scopes-supported", "omitted-when-undefined")
        ),
        *("auth/scope-step-up", "auth/scope-retry-limit", "auth/basic-cimd", "auth/pre-registration"),
    },
    "draft": {"auth/resource-mismatch", "auth/offline-access-scope", "auth/offline-access-not-supported"},
    "backcompat": {"auth/2025-03-26-oauth-endpoint-fallback"},
}
"""Of each part of the suite those that pass; they run side by side. The suite counts some checks for each request."""

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


@pytest.mark.timeout(240)
@pytest.mark.parametrize("suite", SCENARIOS)
def test_the_client_conforms_to_the_protocol(suite, tmp_path):
    """RA-15: each client scenario of the suite passes, with each of its checks, but for the four that 060 names."""
    said = run_suite(tmp_path, suite)
    assert {name for name, passed, failed in PASSED.findall(said) if passed != "0" == failed} == SCENARIOS[suite], said


def run_suite(folder, suite):
    """Run the client through a part of the suite, without a network if that can be, and return what it says."""
    command = [*SUITE, "client", "--suite", suite, "--timeout", "150000", "--command", f"{sys.executable} {CLIENT}"]
    if shutil.which("unshare") and subprocess.run(["unshare", "-rn", "true"], check=False).returncode == 0:
        command = ["unshare", "-rn", "sh", "-c", 'ip link set lo up; exec "$@"', "sh", *command]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=180, check=False)
    return done.stdout + done.stderr
