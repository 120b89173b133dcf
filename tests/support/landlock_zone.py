"""A workspace in which tests run commands under Landlock."""

import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest
from msgspec import structs

from scaffold.host.child_environment import child_environment
from scaffold.host.process.command_runner import Containment, run_command
from scaffold.host.sandbox.confinement import Confinement
from scaffold.host.sandbox.landlock import sandboxed_command as landlock

SECRET = "canary-4711"
SYSTEM_PYTHON = shutil.which("python3", path="/usr/bin:/usr/local/bin")
MAY_RUN_AS_NOBODY = pytest.mark.skipif(
    os.getuid() != 0 or SYSTEM_PYTHON is None or shutil.which("setpriv") is None,
    reason="needs root, setpriv, and a python3 in /usr/bin or /usr/local/bin",
)


class Zone:
    """A workspace with a repository and secrets, and files beside it."""

    def __init__(self, top: Path) -> None:
        self.outside = top / "outside"
        self.work = top / "work"
        self.temporary = top / "temporary"
        for folder in (self.outside, self.work / ".git" / "hooks", self.work / "src", self.temporary):
            folder.mkdir(parents=True)
        (self.work / ".env").write_text(SECRET)
        (self.work / ".git" / "config").write_text("[core]\n")
        (self.work / ".git" / "hooks" / "pre-commit.sample").write_text("#!/bin/sh\n")
        (self.work / "README").write_text("hello\n")
        (self.outside / "secret").write_text(SECRET)
        self.confinement = Confinement(
            writable=(self.work,),
            temporary=self.temporary,
            protected=(self.work / ".git", self.work / ".mcp.json"),
            hidden=(self.work / ".env", self.outside),
            network="none",
        )

    async def run(self, *command, **options):
        env = child_environment(os.environ) | {"TMPDIR": str(self.temporary)}
        argv = landlock.argv(self.confinement, command)
        return await run_command(
            argv, **({"cwd": self.work, "env": env, "timeout_s": 30, "containment": Containment()} | options)
        )

    async def python(self, code, **options):
        return await self.run(sys.executable, "-I", "-c", f"import ctypes, os, socket\n{code}", **options)

    def give_to(self, user):
        for path in (self.work.parent, *self.work.parent.rglob("*")):
            os.chown(path, user, user)

    def content(self):
        """Return all content that a command must not change."""
        kept = [*(self.work / ".git").rglob("*"), self.work / ".env", *self.outside.rglob("*")]
        return {str(path): path.read_text() if path.is_file() else None for path in kept}


async def run_as_nobody(command, *, network="none", within=()):
    """Run a command under Landlock as an ordinary user, in a new zone; skip the test if that user cannot read us."""
    with tempfile.TemporaryDirectory() as folder:
        zone = Zone(Path(folder))
        zone.confinement = structs.replace(zone.confinement, network=network)
        zone.give_to(65534)
        argv = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *within, SYSTEM_PYTHON]
        argv += landlock.argv(zone.confinement, command)[1:]
        finished = await run_command(argv, cwd=zone.work, env={"PATH": os.environ["PATH"]}, timeout_s=20)
    if b"No module named" in finished.stderr:
        pytest.skip("the user nobody cannot read this checkout")
    return finished
