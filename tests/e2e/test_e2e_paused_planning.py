"""A pause while the planner works, by the real commands against a loopback server."""

import asyncio
import itertools
import json
import subprocess

import pytest

from model_server.server import serve
from model_server.turn import Call, Turn
from support.planner_cassettes import create_actions_call, create_goal_call
from support.scenario import COMMAND_S, Scenario, action

MADE = action("one", effects=["one_there"], check="test -f one.txt", files=["one.txt"])
PLAN = (create_goal_call("files", "one_there"), create_actions_call("files", MADE))


class Model:
    """A planner that looks around until it is let go, then plans one action; and the agent of that action."""

    def __init__(self):
        self.released = False
        self._numbers = itertools.count()
        self._planned = False

    def __call__(self, received):
        offered = {tool["name"] for tool in received.json.get("tools", ())}
        if not offered:
            return Turn(text="Total: 9/9\nDONE")  # the critic
        if "goap_create_goal" not in offered:
            said = json.dumps(received.json["messages"])
            wrote = Call("write_file", {"path": "one.txt", "content": "x"})
            return Turn(text="done") if "write_file" in said else Turn(calls=(wrote,))
        if not self.released:
            return Turn(calls=(Call("glob", {"pattern": f"*.{next(self._numbers)}"}),), delay_s=1.0)
        if not self._planned:
            self._planned = True
            return Turn(calls=tuple(Call(each["name"], each["args"]) for each in PLAN))
        return Turn(text="all is laid out")


async def command(scenario, *args):
    done = await asyncio.to_thread(scenario.scaffold, *args)
    assert done.returncode == 0, done.stderr
    return done.stdout


async def status(scenario):
    return json.loads(await command(scenario, "status", "--json"))


async def planning(scenario, server):
    """Start a run and return its process once the planner works."""
    args = ("run", "write a file", "--model", server.model, "--yes", "--yolo", "--sandbox", "off")
    process = await scenario.spawn(*args, stderr=subprocess.STDOUT)
    async with asyncio.timeout(COMMAND_S):
        while not ((await status(scenario))["run"] or {}).get("planning"):  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    return process


async def ended(process):
    out, _ = await asyncio.wait_for(process.communicate(), COMMAND_S)
    return process.returncode, out.decode()


@pytest.mark.slow
async def test_a_pause_lets_the_planner_finish_and_the_plan_waits(tmp_path):
    """SC-17, SC-19: the turn that was paid for is not thrown away."""
    scenario, model = Scenario(tmp_path), Model()
    async with serve("anthropic", model) as server:
        scenario.environ |= server.environ
        process = await planning(scenario, server)
        assert ": pausing, 1 agent is finishing; " in await command(scenario, "pause")
        model.released = True
        code, out = await ended(process)
        assert (code, "paused with its plan; `scaffold resume " in out) == (3, True), out
        paused = await status(scenario)
        assert (paused["run"]["status"], [each["status"] for each in paused["actions"]]) == ("paused", ["pending"])
        asked = len(server.requests)
        await command(scenario, "resume")
    assert (await status(scenario))["run"]["status"] == "completed"
    assert not any("goap_create_goal" in each.body.decode() for each in server.requests[asked:]), "planned once"
    assert scenario.processes() == []


@pytest.mark.slow
async def test_a_pause_of_the_planner_is_withdrawn(tmp_path):
    """SC-17, SC-19: the run goes on as if nobody had paused it."""
    scenario, model = Scenario(tmp_path), Model()
    async with serve("anthropic", model) as server:
        scenario.environ |= server.environ
        process = await planning(scenario, server)
        await command(scenario, "pause")
        assert " goes on: its pause was withdrawn; " in await command(scenario, "resume")
        model.released = True
        code, out = await ended(process)
    assert code == 0, out
    assert (await status(scenario))["run"]["status"] == "completed"
    assert scenario.processes() == []
