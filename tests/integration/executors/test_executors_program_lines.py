"""The end of a program that we talk to."""

import asyncio
import os
from pathlib import Path

import pytest

from scaffold.executors.program_lines import ProgramLines
from scaffold.host.process.piped_process import PipedCommand


def started(script: str, folder: Path) -> ProgramLines:
    command = PipedCommand(argv=("/bin/sh", "-c", script), cwd=folder, env=os.environ)
    return ProgramLines(command, lambda _text: None, start_s=60)


async def test_a_program_ends_by_the_end_of_its_input_with_its_own_exit_code(tmp_path):
    """AL-24"""
    lines = started("echo {}; cat; exit 7", tmp_path)
    await lines.receive()

    await lines.close()

    assert lines.exit_code == 7


async def test_a_program_is_killed_even_if_its_end_is_interrupted(tmp_path):
    """BX-19: a second Ctrl-C comes while we wait for it."""
    lines = started("""trap '' TERM; echo "{\\"pid\\": $$}"; while :; do sleep 1; done""", tmp_path)
    pid = (await lines.receive())["pid"]
    closing = asyncio.create_task(lines.close())
    await asyncio.sleep(0)
    closing.cancel()
    await asyncio.wait([closing])

    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
