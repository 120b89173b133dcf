"""The temporary folders of a run's commands."""

import asyncio

from builders import bubblewrap_or_skip
from scaffold.core.ids import RunId
from scaffold.host.process.command_runner import Containment, run_command
from scaffold.run.resources.sandbox import open_sandbox, remove_temporary_folder
from support.harness import act, goal

LONGEST_SOCKET = 107
"""Most bytes of a Unix socket's path on Linux."""
CACHE = "/home/some-user-name/.cache/scaffold"
USUAL = "pytest-of-user/pytest-0/test_a_socket0/s"
"""Where a test makes its socket, relative to TMPDIR."""


async def test_a_unix_socket_has_room_in_the_temporary_folder(harness):
    """BX-9: tests that make one are common, and its path cannot be long."""
    await bubblewrap_or_skip()
    run = await harness.open_run(goal("g", act("a")))
    top = harness.context.repository.root
    async with open_sandbox(harness.context, run, top, name="12345678") as spec:
        assert spec is not None
        temporary = spec.confinement.temporary
        own = temporary.relative_to(harness.context.cache.resolve())
        assert len(f"{CACHE}/{own}/{USUAL}") <= LONGEST_SOCKET
        code = "import os, socket; os.chdir(os.environ['TMPDIR']); socket.socket(socket.AF_UNIX).bind('s')"
        env = {"PATH": "/usr/bin:/bin", "TMPDIR": str(temporary)}
        done = await run_command(
            ["python3", "-c", code], cwd=top, env=env, timeout_s=30, containment=Containment(sandbox=spec)
        )
        assert done.exit_code == 0, done.stderr
    await asyncio.to_thread(remove_temporary_folder, harness.context, run, name="12345678")
    assert list(harness.context.temporary_folder(RunId(run.id)).iterdir()) == []
