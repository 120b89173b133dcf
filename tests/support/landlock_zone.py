"""A workspace in which tests run commands under Landlock."""

import os
import sys
from pathlib import Path

from scaffold.host.environment import child_environment
from scaffold.host.process.command import Containment, run_command
from scaffold.host.sandbox.confinement import Confinement
from scaffold.host.sandbox.landlock import command as landlock

SECRET = "canary-4711"


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
