"""Models whose context window is too small, by the real command against a server that refuses what is too long."""

import asyncio
import json
import re
import subprocess

import pytest

from model_server.server import serve
from model_server.turn import Call, Turn, Used
from support.scenario import COMMAND_S, action, plan_of

pytestmark = pytest.mark.slow
TOO_LONG = Turn(status=400, error=("context_length_exceeded", "This model's maximum context length is exceeded."))
LINES = "".join(f"line {n} of a long file, which fills the window\n" for n in range(400))


class SmallWindow:
    """Refuses requests of more than so many bytes; answers others by `answer`."""

    def __init__(self, window_bytes, answer):
        self.window_bytes = window_bytes
        self.answer = answer
        self.refused = 0

    def __call__(self, received):
        if len(json.dumps(received.json)) > self.window_bytes:
            self.refused += 1
            return TOO_LONG
        return self.answer(received)


def unasked(received):
    raise AssertionError("no request fits")


async def outcome(scenario, server, *args, model=None):
    """Run the command with the server's model; return its exit code and what it printed."""
    process = await scenario.spawn(
        "run", *args, "--model", model or server.model, "--yes", environ=server.environ, stderr=subprocess.STDOUT
    )
    out, _ = await asyncio.wait_for(process.communicate(), COMMAND_S)
    return process.returncode, re.sub(r"\s+", " ", out.decode())


async def test_a_worker_whose_task_does_not_fit_ends_once_with_the_reason(scenario):
    """SC-14, SC-20: the task is not cut, and a second attempt would be as long."""
    scenario.plan(plan_of(g=[action("a", effects=["a_done"], check="test -f a.txt")]))
    async with serve("chat", SmallWindow(2_000, unasked)) as server:
        code, printed = await outcome(scenario, server, "--plan", str(scenario.home / "plan.yaml"))
    assert code == 1
    (each,) = scenario.status()["actions"]
    assert [attempt["outcome"] for attempt in each["attempts"]] == ["executor_failed"]
    for said in (each["reason"], printed):
        assert "maximum context length is exceeded; the request has about" in said
        assert server.model in said
    assert "larger window with `--model`" in each["reason"]


async def test_a_planner_whose_request_does_not_fit_ends_once_with_the_reason(scenario):
    """SC-14"""
    window = SmallWindow(2_000, unasked)
    async with serve("chat", window) as server:
        code, printed = await outcome(scenario, server, "greet the world")
    assert (code, window.refused) == (1, 1)
    assert "has no plan: " in printed
    assert "maximum context length is exceeded; the request has about" in printed


async def test_a_supervisor_whose_turn_does_not_fit_fails_its_goal_once_with_the_reason(scenario):
    """SC-14, SC-16: neither repeated like a crash, nor three times like a plan that is refused."""
    goal = {"name": "g", "description": "have it", "goal_state": ["done"]}
    top = {"key": "top", "description": "all of it", "kind": "compound", "effects": ["done"]}
    plan = Turn(
        calls=(
            Call("goap_create_goal", goal, id="g"),
            Call("goap_create_actions", {"goal": "g", "actions": [top]}, id="a"),
        )
    )
    left = [plan, Turn(text="that is the plan")]
    refused = []

    def planner_only(received):
        if "goap_dispatch_action" in json.dumps(received.json):  # a tool of supervisors
            refused.append(received)
            return TOO_LONG
        return left.pop(0)

    async with serve("chat", planner_only) as server:
        code, printed = await outcome(scenario, server, "do it")
    assert (code, len(refused)) == (1, 1)
    assert "the supervisor's model cannot be used" in printed
    reason = scenario.status()["goals"][0]["reason"]
    assert "maximum context length is exceeded; the request has about" in reason


async def test_a_small_window_that_holds_the_task_is_enough(scenario):
    """RA-10, SC-14: of a server that names no size, the conversation is shortened until it fits."""
    (scenario.repo / "long.txt").write_text(LINES)
    scenario.commit("a long file")
    scenario.plan(plan_of(g=[action("a", effects=["a_done"], check="test -f a.txt")]))
    read = [Turn(calls=(Call("read_file", {"path": "long.txt"}, id=f"r{n}"),)) for n in range(4)]
    left = [*read, Turn(calls=(Call("write_file", {"path": "a.txt", "content": "1"}, id="w"),))]
    window = SmallWindow(45_000, lambda received: left.pop(0) if left else Turn(text="done 9/9. Total: 9/9"))
    async with serve("chat", window) as server:
        code, printed = await outcome(scenario, server, "--plan", str(scenario.home / "plan.yaml"))
    assert code == 0, printed
    assert window.refused > 0, "the window was never full"
    (each,) = scenario.status()["actions"]
    assert [attempt["outcome"] for attempt in each["attempts"]] == ["landed"]


async def test_a_worker_lets_its_model_write_the_summary_where_that_is_configured(scenario):
    """RA-10: what the model wrote replaces the dropped messages, and its requests count in the attempt."""
    (scenario.repo / "long.txt").write_text(LINES)
    scenario.commit("a long file")
    scenario.configure(compaction="model")
    scenario.plan(plan_of(g=[action("a", effects=["a_done"], check="test -f a.txt")]))
    looks = [Call("shell", {"command": f"cat long.txt; echo {n}"}, id=f"s{n}") for n in range(6)]
    left = [*looks, Call("write_file", {"path": "a.txt", "content": "1"}, id="w")]
    summaries, worked, tokens = [], [], []

    def answer(received):
        tokens.append(len(received.body) // 4)
        usage = Used(input=tokens[-1])
        if "tools" not in received.json:
            summaries.append(json.dumps(received.json))
            return Turn(text="- The line that matters is number 317.", usage=usage)
        worked.append(json.dumps(received.json))
        return Turn(calls=(left.pop(0),), usage=usage) if left else Turn(text="done", usage=usage)

    async with serve("chat", answer) as server:
        server.pages["/props"] = json.dumps({"default_generation_settings": {"n_ctx": 16_000}})
        plan = str(scenario.home / "plan.yaml")
        code, printed = await outcome(scenario, server, "--plan", plan, model=server.local_model)
    assert code == 0, printed
    assert summaries, "the window was never full"
    assert all("result of shell" in request for request in summaries)
    assert "- summary: - The line that matters is number 317." in worked[-1]
    (each,) = scenario.status()["actions"]
    assert [attempt["outcome"] for attempt in each["attempts"]] == ["landed"]
    assert each["attempts"][0]["tokens"] == sum(tokens) + 10 * len(tokens)
    assert "replaced by a summary that the model wrote" in scenario.journal("g", "a")
