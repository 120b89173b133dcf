"""Fixtures for the tests of sandboxes: a workspace, its confinement, and commands run in it."""

from pathlib import Path

import pytest
from msgspec import structs

from builders import bubblewrap_or_skip
from scaffold.host.process.command_runner import Containment, run_command
from scaffold.host.sandbox.confinement import Confinement, SandboxSpec


@pytest.fixture
def workspace(tmp_path):
    """A folder that a command may change, below the system's temporary folder."""
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder.resolve()


@pytest.fixture
def zone(workspace, tmp_path):
    """A confinement with git's folder, a settings file and a hooks folder sealed, though absent, and a hidden file."""
    (workspace / ".env").write_text("TOKEN=canary\n")
    sealed = (".git", ".mcp.json", ".claude/settings.json", "deep/er/hooks")
    return Confinement(
        writable=(workspace,),
        temporary=tmp_path.resolve() / "temporary",
        protected=tuple(workspace / name for name in sealed),
        hidden=(workspace / ".env", tmp_path.resolve() / "private"),
    )


@pytest.fixture
async def bubblewrapped():
    """Return the path of a working bubblewrap; skip the test if there is none."""
    return (await bubblewrap_or_skip()).program


@pytest.fixture
def inside(workspace, zone, env, bubblewrapped):
    """Run a script or command in the sandbox; `changes` adjust the confinement, other options go to `run_command`."""

    async def shell(script, *, changes=None, proxy=None, control=None, **options):
        argv = ["bash", "-c", script] if isinstance(script, str) else script
        sandbox = SandboxSpec("bubblewrap", structs.replace(zone, **(changes or {})), proxy, bubblewrapped)
        defaults = {"cwd": workspace, "env": env, "timeout_s": 30}
        containment = Containment(sandbox=sandbox, control=control)
        return await run_command(argv, containment=containment, **(defaults | options))

    return shell


@pytest.fixture
def said(inside):
    """Run a script in the sandbox and return its output, errors included."""

    async def output(script, **options):
        finished = await inside(f"exec 2>&1; {script}", **options)
        return finished.stdout.decode()

    return output


@pytest.fixture
def listing():
    """Return the names in a folder, to check that nothing was left in it."""

    def names(folder: Path):
        return sorted(path.name for path in folder.iterdir())

    return names
