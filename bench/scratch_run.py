"""A repository made for one measurement, and the real command to run a plan in it with a recorded model."""

import json
import os
import resource
import subprocess  # noqa: TID251 - the real command is measured
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from scaffold.host.process.async_runner import run_async
from scaffold.host.sandbox.level import detect_level


class ScratchRun:
    """A repository in a folder, and the command that carries a plan out in it."""

    def __init__(
        self,
        folder: Path,
        *,
        goals: Sequence[Mapping[str, object]] = (),
        stories: Sequence[Mapping[str, object]] = (),
        replies: Sequence[object],
        agents: int,
        files: Mapping[str, str],
    ) -> None:
        """Make the repository; `replies` answer the workers' first requests, and their next ones are the last.

        The work is in `goals`, or in `stories` of a PRD.
        """
        self.repo = folder / "repo"
        self.repo.mkdir()
        self.environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "SCAFFOLD_HOME": str(folder / "home"),
            "GIT_CONFIG_NOSYSTEM": "1",
        }
        for args in (["init", "-q"], ["config", "user.name", "Ada"], ["config", "user.email", "ada@example.org"]):
            self._git(*args)
        for name, content in files.items():
            (self.repo / name).parent.mkdir(parents=True, exist_ok=True)
            (self.repo / name).write_text(content)
        self._git("add", "-A")
        self._git("commit", "-q", "--allow-empty", "-m", "start")
        plan, cassette = folder / "plan.yaml", folder / "cassette.json"
        plan.write_text(yaml.safe_dump({"version": 1, "goals": goals}))
        prd = folder / "prd.json"
        prd.write_text(json.dumps({"userStories": stories}))
        last = {"when": {"role": "implementation"}, "text": "done"}
        cassette.write_text(json.dumps({"version": 1, "replies": [*replies, last]}))
        self._command = [
            "run",
            *(("--prd", str(prd)) if stories else ("--plan", str(plan))),
            "--model",
            f"cassette:{cassette}",
            "--agents",
            str(agents),
            "--yes",
            *(("--sandbox", "off") if run_async(detect_level(os.environ)).level == "none" else ()),
        ]

    def finished(self, *wrapper: str) -> resource.struct_rusage:
        """Carry the plan out; return what was used by the command and all that it waited for, which is all of it."""
        _, status, used = os.wait4(self.start(*wrapper).pid, 0)
        if status:
            raise RuntimeError(f"the run ended with {os.waitstatus_to_exitcode(status)}")
        return used

    def start(self, *wrapper: str) -> "subprocess.Popen[bytes]":
        """Start the command that carries the plan out, by a program that runs it if there is one."""
        return self.scaffold(*self._command, wrapper=wrapper)

    def scaffold(self, *args: str, wrapper: Sequence[str] = ()) -> "subprocess.Popen[bytes]":
        """Start a command in the repository."""
        return subprocess.Popen(
            [*wrapper, sys.executable, "-m", "scaffold", *args],
            cwd=self.repo,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def _git(self, *args: str) -> None:
        subprocess.run(["git", *args], cwd=self.repo, env=self.environ, check=True)
