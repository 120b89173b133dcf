"""An agent under the watchdog: scripted replies, tools that hang or fail, and a clock that only the test moves."""

import asyncio

import pytest
from inline_snapshot import snapshot

from fakes import RecordingModel, ScriptedModel, agent, text_reply, tool
from scaffold.core.conversation import Text, ToolCall
from scaffold.core.errors import HumanDecisionRequired
from scaffold.core.tool import ToolOutput
from scaffold.run.attempts.time_limit import TimeLimit
from scaffold.worker.activity_clock import ActivityClock
from scaffold.worker.agent.watchdog import NoProgress, RepeatGuard, WatchedAgent
from support.fake_clock import FakeClock

IDLE_S = 300.0
CALLS = iter(range(10_000))


def calls(*names):
    return text_reply(*(ToolCall(f"c{next(CALLS)}", name, {}) for name in names), stop="tool_calls")


class Bench:
    """A watched agent with these replies and tools; `tree` is the state of its worktree."""

    def __init__(self, *replies, **tools):
        self.clock = FakeClock()
        self.tree = "as it was"
        pulse = ActivityClock(self.clock, idle_s=IDLE_S, limit=TimeLimit(self.clock, 10 * IDLE_S))
        circles = RepeatGuard(self._tree)
        self.model = RecordingModel(ScriptedModel(*replies))
        made = [pulse.guard(tool(name, work)) for name, work in tools.items()]
        self.watched = WatchedAgent(
            agent(self.model, *made, on_delta=pulse.on_delta, incoming=circles, watch=circles.watch),
            pulse,
            circles,
            idle_s=IDLE_S,
        )

    async def _tree(self):
        return self.tree

    async def turn(self, *, silences=0):
        """Run a turn in which the idle time passes this many times."""
        turn = asyncio.create_task(self.watched.turn("Go."))
        for _ in range(silences):
            await self._settled()
            self.clock.advance(IDLE_S)
        return await turn

    def said(self):
        """Return the text of the last request's last message."""
        return " ".join(part.text for part in self.model.requests[-1].messages[-1].parts if isinstance(part, Text))

    async def _settled(self):
        for _ in range(50):
            await asyncio.sleep(0)


async def hang():
    await asyncio.Event().wait()


async def fail():
    return ToolOutput("exit code 1 after 0.1 s", failed=True)


async def look():
    return ToolOutput("a b c")


async def test_a_silent_tool_is_cancelled_and_the_agent_continues():
    """BX-12: first a nudge; earlier calls are reported as having an unknown outcome."""
    bench = Bench(calls("hang"), text_reply(Text("done")), hang=hang)
    assert (await bench.turn(silences=1)).text == "done"
    assert "no activity for 300 s" in bench.said()
    assert "was interrupted" in bench.said()


async def test_a_second_silence_ends_the_attempt_as_a_timeout_with_the_cause():
    """BX-12."""
    bench = Bench(calls("hang"), calls("hang"), hang=hang)
    stuck = await bench.turn(silences=2)
    assert (stuck.outcome, stuck.cause) == snapshot(("timeout", "no output, no tool call and no model reply for 300 s"))


async def test_a_silent_model_request_is_cancelled_too():
    """BX-12: requests as well as tools."""

    class Mute(ScriptedModel):
        async def reply(self, request, on_delta=None):
            await hang()

    bench = Bench()
    bench.model._inner = Mute()
    assert (await bench.turn(silences=2)).outcome == "timeout"


async def test_the_same_failure_in_three_turns_ends_the_attempt():
    """BX-12: a warning at the second, the end at the third."""
    bench = Bench(calls("fail"), calls("fail"), calls("fail"), text_reply(Text("never")), fail=fail)
    stuck = await bench.turn()
    assert (stuck.outcome, stuck.cause) == snapshot(
        (
            "executor_failed",
            "no progress: fail failed the same way in 3 turns without any change in between: exit code 1 after 0.1 s",
        )
    )
    assert bench.said().partition(". ")[2] == snapshot(
        "Try a different approach: one more turn like this ends the attempt."
    )


async def test_calls_of_a_tool_that_does_not_exist_are_failures_too():
    """BX-12: a call that reaches no tool."""
    bench = Bench(*(calls("nothing") for _ in range(3)), look=look)
    assert (await bench.turn()).cause.startswith("no progress: nothing failed the same way in 3 turns")


async def test_the_same_call_three_times_in_one_turn_is_one_failure():
    """BX-12."""
    bench = Bench(calls("fail", "fail", "fail"), text_reply(Text("done")), fail=fail)
    assert (await bench.turn()).text == "done"


async def test_read_only_calls_in_between_are_no_progress():
    """BX-12: a call that changes nothing does not reset the count."""
    bench = Bench(*(calls(name) for name in ("fail", "look", "fail", "look", "fail")), fail=fail, look=look)
    assert isinstance(await bench.turn(), NoProgress)


async def test_a_change_in_between_is_progress():
    """BX-12."""

    async def change():
        bench.tree += "!"
        return ToolOutput("ok")

    steps = ("fail", "fail", "change", "fail", "fail")
    bench = Bench(*map(calls, steps), text_reply(Text("done")), fail=fail, change=change)
    assert (await bench.turn()).text == "done"


async def test_different_failures_are_no_loop():
    """BX-12."""

    async def different():
        return ToolOutput("abcdefgh"[: len(bench.model.requests)], failed=True)

    bench = Bench(*(calls("different") for _ in range(6)), text_reply(Text("done")), different=different)
    assert (await bench.turn()).text == "done"


async def test_errors_of_the_agent_pass_through():
    """BX-13."""

    async def ask():
        raise HumanDecisionRequired("Waits.", "Decide.", item="i")

    with pytest.raises(HumanDecisionRequired):
        await Bench(calls("ask"), ask=ask).turn()


async def test_a_cancelled_turn_leaves_nothing_running():
    """BX-3: a deadline ends the agent and its watchdog."""
    bench = Bench(calls("hang"), hang=hang)
    before = asyncio.all_tasks()
    turn = asyncio.create_task(bench.turn())
    await bench._settled()
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn
    await bench._settled()
    assert asyncio.all_tasks() == before
