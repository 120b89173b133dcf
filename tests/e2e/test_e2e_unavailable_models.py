"""Runs whose model is down or limited, by the real command against a loopback server."""

import asyncio
import json
import os
import re
import signal
import subprocess
import time

import pytest
from inline_snapshot import snapshot

from model_server.server import serve
from model_server.turn import Call, Turn
from support.harness import poll_until
from support.scenario import COMMAND_S, action, plan_of

KEYS = ("one", "two", "three", "four")
LIMITED = Turn(status=429, error=("rate_limit_error", "too many"), headers={"Retry-After": "4"})
LATER = [
    LIMITED,
    Turn(status=429, error=LIMITED.error, headers={"Retry-After": "4", "x-should-retry": "false"}),
    Turn(status=502, body="upstream", headers={"Retry-After": "4"}),
]
"""Each asks for some time, which is honoured for all agents."""
MOVED = Turn(status=302, headers={"Location": "http://127.0.0.1:1/"})
NO_KEY = Turn(status=401, error=("authentication_error", "invalid x-api-key"))


@pytest.fixture
def scenario(scenario):
    scenario.plan(
        plan_of(g=[action(key, effects=[key], check=f"test -f {key}.txt", files=[f"{key}.txt"]) for key in KEYS])
    )
    return scenario


def work(received):
    """Answer the agent of any action: write its file, then end."""
    asked = json.dumps(received.json["messages"])
    key = re.search(r"\b(one|two|three|four)\.txt", asked).group(1)
    if "write_file" in asked:
        return Turn(text="done")
    return Turn(calls=(Call("write_file", {"path": f"{key}.txt", "content": "x"}),))


class Trouble:
    """Answers with `turn` until it has lasted `seconds` since the first request, then as an honest agent."""

    def __init__(self, turn, seconds):
        self._turn = turn
        self._seconds = seconds
        self.began = None
        self.refused = 0

    def __call__(self, received):
        self.began = self.began or time.monotonic()
        if time.monotonic() - self.began < self._seconds:
            self.refused += 1
            return self._turn
        return work(received)


async def start(scenario, server, *args):
    return await scenario.spawn(*args, environ=server.environ, stderr=subprocess.STDOUT)


def plan_args(scenario, server, *more):
    return ("run", "--plan", str(scenario.home / "plan.yaml"), "--model", server.model, "--yes", "--yolo", *more)


async def finished(process, seconds=COMMAND_S):
    out, _ = await asyncio.wait_for(process.communicate(), seconds)
    return process.returncode, out.decode()


async def seen_while(process, scenario, known):
    """Return the first status of the run for which `known` is true; None if the process ends before."""
    while process.returncode is None:
        status = json.loads((await asyncio.to_thread(scenario.scaffold, "status", "--json")).stdout or "{}")
        if status.get("run") and known(status["run"]):
            return status["run"]
        await asyncio.sleep(0.2)
    return None


def read(scenario, query):
    """Return the first row of a query of the store."""
    return scenario.stored(query)[0]


def outcomes(scenario):
    (found,) = read(scenario, "SELECT group_concat(outcome) FROM (SELECT outcome FROM attempt ORDER BY queued_seq)")
    return found.split(",")


def failures(scenario):
    return read(scenario, "SELECT SUM(failures) FROM action")[0]


@pytest.mark.slow
@pytest.mark.parametrize("turn", LATER, ids=["429", "not-at-once", "502"])
async def test_agents_wait_out_a_rate_limit_in_their_attempts(scenario, turn):
    """AL-31: one 429 parks all agents; it counts against no action, and no conversation is begun again."""
    trouble = Trouble(turn, 1.0)
    async with serve("anthropic", trouble) as server:
        process = await start(scenario, server, *plan_args(scenario, server, "--agents", "3"))
        code, out = await finished(process)
    assert code == 0, out
    assert outcomes(scenario) == ["landed"] * 4
    assert len(server.requests) <= trouble.refused + 2 * len(KEYS)


@pytest.mark.slow
async def test_a_run_says_what_it_waits_for(scenario):
    trouble = Trouble(Turn(status=429, error=LIMITED.error, headers={"Retry-After": "9"}), 1.0)
    async with serve("anthropic", trouble) as server:
        process = await start(scenario, server, *plan_args(scenario, server))
        waiting = await seen_while(process, scenario, lambda run: (run["reason"] or "").startswith("waits for"))
        code, out = await finished(process)
    assert (code, waiting["status"]) == (0, "active"), out
    what = re.fullmatch(r"waits for (anthropic until \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC)", waiting["reason"])
    assert f"waiting for {what.group(1)}" in out
    assert "the model accepts requests again" in out
    assert json.loads(scenario.scaffold("status", "--json").stdout)["run"]["reason"] is None


@pytest.mark.slow
async def test_a_run_is_paused_for_a_long_limit_and_goes_on_by_itself(scenario):
    """AL-31, SC-16: its agents end, and nothing counts against an action."""
    scenario.configure(model_wait_s=1)
    trouble = Trouble(Turn(status=429, error=LIMITED.error, headers={"Retry-After": "9"}), 1.0)
    async with serve("anthropic", trouble) as server:
        process = await start(scenario, server, *plan_args(scenario, server))
        paused = await seen_while(process, scenario, lambda run: run["status"] == "paused")
        code, out = await finished(process)
    assert code == 0, out
    assert paused["reason"].startswith("waits for anthropic until ")
    assert set(outcomes(scenario)) == {"unavailable", "landed"}
    assert failures(scenario) == 0


@pytest.mark.slow
@pytest.mark.parametrize("wait_s", [3600, 1], ids=["agents-wait", "run-is-held"])
async def test_an_outage_is_survived_and_one_request_a_period_asks_for_all(scenario, wait_s):
    """AL-31, SC-16: nobody is woken, and no agent starts while nobody answers."""
    scenario.configure(model_wait_s=wait_s)
    trouble = Trouble(Turn(cut_at=-1), 12.0)
    async with serve("anthropic", trouble) as server:
        process = await start(scenario, server, *plan_args(scenario, server, "--agents", "4"))
        code, out = await finished(process)
    assert code == 0, out
    assert outcomes(scenario).count("landed") == len(KEYS)
    assert failures(scenario) == 0
    assert trouble.refused <= len(KEYS) + 6


@pytest.mark.slow
async def test_a_held_run_obeys_and_survives_its_owner(scenario):
    """SC-16, AL-27: it can be watched and stopped while it is held, and resumed after a kill."""
    scenario.configure(model_wait_s=1)
    trouble = Trouble(Turn(status=429, error=LIMITED.error, headers={"Retry-After": "3000"}), 1.0)
    async with serve("anthropic", trouble) as server:
        process = await start(scenario, server, *plan_args(scenario, server))
        held = await seen_while(process, scenario, lambda run: run["status"] == "paused")
        watching = await start(scenario, server, "attach")
        code, out = await finished(await start(scenario, server, "resume"))
        assert (code, f"Follow it with `scaffold attach {held['id']}`" in out) == (64, True), out
        process.kill()
        await finished(process)
        code, out = await finished(watching)
        assert (code, "was interrupted" in out) == (1, True), out
        run = json.loads(scenario.scaffold("status", "--json").stdout)["run"]
        assert (run["status"], run["reason"]) == ("interrupted", None)
        process = await start(scenario, server, "resume", held["id"])
        await poll_until(lambda: read(scenario, "SELECT fence, status FROM run") == (2, "paused"))
        assert (await finished(await start(scenario, server, "stop")))[0] == 0
        code, out = await finished(process)
        assert code == 130, out
        assert read(scenario, "SELECT status, reason FROM run") == snapshot(("paused", "stopped by the user"))
        assert "lets the next request ask" in (await finished(await start(scenario, server, "doctor")))[1]
        await finished(await start(scenario, server, "doctor", "--fix"))
        code, out = await finished(await start(scenario, server, "resume"))
    assert code == 0, out
    assert failures(scenario) == 0


@pytest.mark.slow
async def test_what_is_queued_while_the_model_is_limited_starts_when_it_is_back(scenario):
    """AL-31, AL-27: no agent is left that would ask, so the end of the limit has to wake the owner."""
    trouble = Trouble(Turn(status=429, error=LIMITED.error, headers={"Retry-After": "12"}), 1.0)
    async with serve("anthropic", trouble) as server:
        process = await start(scenario, server, *plan_args(scenario, server))
        await seen_while(process, scenario, lambda run: (run["reason"] or "").startswith("waits for"))
        scenario.kill_all_but()
        await finished(process)
        code, out = await finished(await start(scenario, server, "resume"))
    assert code == 0, out
    assert trouble.refused <= len(KEYS)
    assert failures(scenario) == 0


@pytest.mark.slow
async def test_a_detached_run_goes_on_although_its_owner_is_killed_while_it_is_held(scenario):
    """AL-27, AL-31: another owner holds it, and continues when the endpoint is back."""
    scenario.configure(model_wait_s=1)
    trouble = Trouble(Turn(status=429, error=LIMITED.error, headers={"Retry-After": "12"}), 1.0)
    async with serve("anthropic", trouble) as server:
        code, out = await finished(await start(scenario, server, *plan_args(scenario, server, "--detach")))
        assert code == 0, out
        await poll_until(lambda: read(scenario, "SELECT status FROM run") == ("paused",))
        os.kill(json.loads(read(scenario, "SELECT owner FROM run")[0])["pid"], signal.SIGKILL)
        code, out = await finished(await start(scenario, server, "attach"))
    assert code == 0, out
    assert "died (signal 9)" in out
    assert failures(scenario) == 0
    await poll_until(lambda: not scenario.processes())


PLANNED = (
    Call("goap_create_goal", {"name": "g", "description": "have one", "goal_state": ["one"]}),
    Call("goap_create_actions", {"goal": "g", "actions": [action("one", effects=["one"], check="test -f one.txt")]}),
)


def plan_and_work(received):
    """Answer the planner with a plan of one action, its agent as usual, and whoever judges it with praise."""
    tools = {tool["name"] for tool in received.json.get("tools", ())}
    if "goap_create_goal" in tools:
        planned = '"tool_result"' in json.dumps(received.json["messages"])
        return Turn(text="planned") if planned else Turn(calls=PLANNED)
    return work(received) if "write_file" in tools else Turn(text="Total: 9/9\nDONE")


@pytest.mark.slow
async def test_a_planner_that_gives_up_finds_its_run_held_and_not_stopped(scenario):
    """AL-31: only an endpoint that refuses the user is a human's matter, wherever it is at that moment."""
    scenario.configure(model_wait_s=1)
    began = time.monotonic()

    def down(received):
        return Turn(cut_at=-1) if time.monotonic() < began + 8.0 else plan_and_work(received)

    async with serve("anthropic", down) as server:
        code, out = await finished(
            await start(scenario, server, "run", "make one.txt", "--model", server.model, "--yes", "--yolo")
        )
    assert code == 0, out
    assert outcomes(scenario) == ["landed"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "code", "state"),
    [
        ("stop", 130, ("paused", "stopped by the user")),
        ("pause", 3, ("paused", "paused by the user")),
        ("cancel", 1, ("cancelled", None)),
    ],
)
async def test_a_run_that_is_held_before_it_has_a_plan_obeys(scenario, command, code, state):
    """SC-16, AL-31: and says why it does not go on by itself any more."""
    scenario.configure(model_wait_s=1)
    long = Turn(status=429, error=LIMITED.error, headers={"Retry-After": "3000"})
    async with serve("anthropic", [long, long, long]) as server:
        process = await start(scenario, server, "run", "make one.txt", "--model", server.model, "--yes", "--yolo")
        await seen_while(process, scenario, lambda run: run["status"] == "paused")
        assert (await finished(await start(scenario, server, command)))[0] == 0
        ended, out = await finished(process)
    assert (ended, "error:" in out) == (code, False), out
    assert read(scenario, "SELECT status, reason FROM run") == state


@pytest.mark.slow
@pytest.mark.parametrize("turn", [NO_KEY, MOVED, Turn(status=429, error=("insufficient_quota", "no credit left"))])
async def test_a_run_stops_at_an_endpoint_that_refuses_everybody(scenario, turn):
    """AL-31: a key or quota is a human's matter, not an action's failure; the run goes on once it is mended."""
    trouble = Trouble(turn, 10_000)
    async with serve("anthropic", trouble) as server:
        code, out = await finished(await start(scenario, server, *plan_args(scenario, server, "--agents", "2")))
        run = json.loads(scenario.scaffold("status", "--json").stdout)["run"]
        assert (code, run["status"]) == (3, "paused"), out
        assert run["reason"].startswith("its model accepts no requests: ")
        assert trouble.refused <= len(KEYS), "an action was tried again"
        assert failures(scenario) == 0
        trouble._seconds = 0
        code, out = await finished(await start(scenario, server, "resume"))
    assert code == 0, out
    assert outcomes(scenario).count("landed") == len(KEYS)


@pytest.mark.slow
async def test_another_model_of_the_size_does_the_work_while_the_first_is_limited(scenario):
    """AL-31: `models.medium: [a, b]`; a conversation that begins with one is continued by the other."""
    started = Trouble(Turn(), 0.0)

    def only_first(received):
        return LIMITED if started.began and time.monotonic() > started.began + 0.1 else started(received)

    async with serve("anthropic", only_first) as first, serve("chat", work) as second:
        scenario.configure(models={"medium": [first.model, second.model]})
        scenario.environ |= second.environ
        args = ("run", "--plan", str(scenario.home / "plan.yaml"), "--model", "medium", "--yes", "--yolo")
        code, out = await finished(await start(scenario, first, *args))
    assert code == 0, out
    assert outcomes(scenario) == ["landed"] * 4
    assert f"model {first.model} (billed to your API key, " in out
    assert f"), else {second.model} (billed to your API key, " in out
    assert len(second.requests) > 0
