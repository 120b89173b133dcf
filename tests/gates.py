"""Gates tried for real: a folder of files, a command, and what one run of it showed."""

import os
import subprocess  # noqa: TID251 - a checkout is one of a real commit
import sys
from pathlib import Path

from scaffold.core.gates import Gate, GateRun
from scaffold.core.ids import Commit
from scaffold.git.command import Git
from scaffold.host.environment import child_environment
from scaffold.host.process.command import CommandResult
from scaffold.verify.contract.checks import Tree
from scaffold.verify.gates.run import run_gate

BARE = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
"""Without the plugins that happen to be installed here: as fast as pytest can be."""
COMMIT = (
    "git init -q && git add -A && git -c user.name=t -c user.email=t@example.org commit -q --allow-empty -m files"
    " && git rev-parse HEAD"
)


def lay_out(folder: Path, files: dict[str, str]) -> Path:
    """Write files by their paths below a folder."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return folder


def tree_in(folder: Path, **variables: str) -> Tree:
    """Return a folder as a checkout to be judged, of a commit of all that is in it, with our own Python first."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environ = child_environment(os.environ, {**BARE, "PATH": path, **variables})
    done = subprocess.run(["sh", "-c", COMMIT], cwd=folder, check=True, capture_output=True, text=True)
    commit = Commit(done.stdout.strip())
    return Tree(git=Git(folder, environ=os.environ, top=True), base=commit, commit=commit, environ=environ)


async def tried(
    folder: Path, gate: Gate, *, only: tuple[str, ...] = (), timeout_s: float = 60, **variables: str
) -> GateRun:
    """Run a gate once in a folder."""
    return await run_gate(gate, tree_in(folder, **variables), only=only, environment="here", timeout_s=timeout_s)


def finished(exit_code=0, *, out="", err="", signal=None, timed_out=False) -> CommandResult:
    """Return how a command ended and what it printed."""
    ended = timed_out or signal is not None
    return CommandResult(
        exit_code=None if ended else exit_code,
        signal=signal,
        timed_out=timed_out,
        stdout=out.encode(),
        stderr=err.encode(),
        stdout_sha256="0" * 64,
        truncated=False,
        duration_s=0.1,
    )
