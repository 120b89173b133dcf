"""A worker's commands in the background."""

import asyncio
import os

import pytest

from scaffold.host.process_identity import identify
from scaffold.tools.command.background_commands import BackgroundCommands, background
from scaffold.tools.command.shell import shell
from scaffold.tools.workspace import Workspace
from scaffold.worker.agent.native_executor import AgentWithoutLeftovers


class Starter:
    """An agent whose turn starts a command and does not wait for it."""

    def __init__(self, folder, commands):
        self._shell = shell(Workspace(folder, {"PATH": os.environ["PATH"]}), None, commands)
        self._background = background(commands)
        self.process = 0

    async def turn(self, prompt, /):
        await self._shell.run({"command": "echo $$; exec sleep 600", "background": True})
        async with asyncio.timeout(60):
            while "--- output" not in (said := (await self._background.run({"id": "bg-1"})).content):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        self.process = int(said.splitlines()[-1])
        if prompt == "fail":
            raise ValueError("its fault")


@pytest.mark.parametrize("prompt", ["go", "fail"])
async def test_nothing_runs_on_when_a_turn_has_ended(tmp_path, prompt):
    """RA-4: what lands is what was checked, so nothing may change the worktree after the agent's turn."""
    commands = BackgroundCommands(tmp_path / "outputs")
    starter = Starter(tmp_path, commands)
    agent = AgentWithoutLeftovers(starter, commands)
    if prompt == "fail":
        with pytest.raises(ValueError, match="its fault"):
            await agent.turn(prompt)
    else:
        await agent.turn(prompt)
    assert starter.process
    assert identify(starter.process) is None
