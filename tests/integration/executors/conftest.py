"""Fixtures for the tests of executors: recorded streams, played by a small program in the place of the real one."""

import os
import sys
from pathlib import Path

import pytest

from scaffold.executors.port import ProgramTurn
from scaffold.executors.turn import take_program_turn
from scaffold.host.child_environment import child_environment
from scaffold.host.process.piped_process import PipedCommand

PLAYER = Path(__file__).parents[2] / "support" / "program_player.py"


@pytest.fixture
def worktree(tmp_path):
    folder = tmp_path / "worktree"
    folder.mkdir()
    return folder.resolve()


@pytest.fixture
def play(worktree, tmp_path):
    """Let `protocol` take a turn of a program that plays `stream`, a file or its text; return how it ended."""

    async def turn(protocol, stream, listener, *, sandbox=None, start_s=60.0, **fields):
        if isinstance(stream, str):
            (tmp_path / "stream.txt").write_text(stream)
            stream = tmp_path / "stream.txt"
        command = PipedCommand(
            argv=(sys.executable, "-I", "-S", str(PLAYER), str(stream)),
            cwd=worktree,
            env=child_environment(os.environ),
            sandbox=sandbox,
        )
        prompt = ProgramTurn(**{"prompt": "Fix calc.py", "folder": worktree} | fields)
        return await take_program_turn(protocol, command, prompt, listener, start_s=start_s)

    return turn
