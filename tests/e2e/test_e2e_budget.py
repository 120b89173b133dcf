"""Budgets in tokens, with the real command: the warning, the end, more of it, and what a killed worker has used."""

import json
import os
import signal

import pytest
import yaml
from inline_snapshot import snapshot

from support.scenario import COMMAND_S, action, plan_of, wait_until, write


def chain(scenario, *keys, usage, **faults):
    """Store a plan of actions one after the other, each of two requests that use so many tokens, with prices."""
    acts = [
        action(key, effects=[f"{key}_done"], needs=[f"{before}_done"] if before else [], check=f"test -f {key}")
        for before, key in zip((None, *keys), keys, strict=False)
    ]
    scenario.plan(plan_of(g=acts))
    used = {"input_tokens": usage + 50, "cached_input_tokens": 50, "output_tokens": 0}
    replies = []
    for key in keys:
        if key in faults:
            replies.append({"when": {"action": key, "attempt": 1}, "usage": used, "text": "", "fault": faults[key]})
        replies.append({"when": {"action": key, "turn": 1}, "usage": used, "tool_calls": [write(key, key)]})
        replies.append({"when": {"action": key}, "usage": used, "text": "done"})
    document = {"version": 1, "replies": replies, "prices": {"input_per_mtok": 1_000.0, "output_per_mtok": 0.0}}
    (scenario.home / "cassette.yaml").write_text(yaml.safe_dump(document))


@pytest.mark.slow
def test_a_limit_in_tokens_warns_at_80_percent_and_pauses_at_100(scenario):
    """AL-21, AL-28: what a cache had is not counted; the next command names the flag that continues."""
    chain(scenario, "a", "b", "c", usage=250)
    done = scenario.run("--yes", "--budget-tokens", "1000", code=2)
    assert "the run may use at most 1,000 tokens" in done.stderr, "said before the first request"
    assert (
        done.stdout.count("warning  100% of the budget is used: 1,000 of 1,000 uncached tokens; no request starts") == 1
    )
    run = scenario.status()["run"]
    assert (run["status"], run["reason"]) == snapshot(("paused", "the budget is used up"))
    budget = run["budget"]
    assert (budget["limit_tokens"], budget["spent_tokens"], budget["tokens"]) == (1_000, 1_000, 1_200)
    assert (budget["confidence"], budget["limit_usd"], budget["spent_usd"]) == (1.0, None, pytest.approx(1.2))
    by_key = {each["key"]: each for each in scenario.status()["actions"]}
    assert (by_key["b"]["status"], by_key["c"]["status"]) == ("completed", "pending")
    assert f"scaffold resume {run['id']} --budget-tokens 2000" in done.stdout

    less = scenario.scaffold("resume", "--budget-tokens", "900", code=2)
    assert "a limit of 900 tokens would let no request" in less.stderr
    scenario.scaffold("resume", "--budget-tokens", "2000", code=0)
    assert scenario.status()["run"]["budget"]["spent_tokens"] == 1_500
    costs = json.loads(scenario.scaffold("cost", "--json").stdout)
    assert (costs["purposes"][0]["name"], costs["purposes"][0]["counted_tokens"]) == ("work", 1_500)


@pytest.mark.slow
def test_an_action_that_loops_leaves_the_others_their_share(scenario):
    """AL-21: it waits until no other action could go on, and then has what is left."""
    scenario.plan(plan_of(g=[action(key, effects=[f"{key}_done"], check=f"test -f {key}") for key in "ab"]))
    used = {"input_tokens": 250, "output_tokens": 0}
    looks = [
        {"when": {"action": "a", "attempt": 1, "turn": turn}, "usage": used, "tool_calls": [write("a", f"{turn}")]}
        for turn in range(1, 12)
    ]
    work = [
        {"when": {"action": key, "turn": turn}, "usage": used, **said}
        for key in "ab"
        for turn, said in ((1, {"tool_calls": [write(key, key)]}), (2, {"text": "done"}))
    ]
    document = {"version": 1, "replies": [*looks, *work]}
    (scenario.home / "cassette.yaml").write_text(yaml.safe_dump(document))
    done = scenario.run("--yes", "--budget-tokens", "2000", "--agents", "1", code=0)
    assert "ended    a: attempt 1, budget: its share of the budget is used up (1,000 tokens)" in done.stdout
    assert done.stdout.index("landed   b") < done.stdout.index("start    a (attempt 2")
    assert scenario.status()["run"]["budget"]["spent_tokens"] == 2_000


@pytest.mark.slow
def test_a_worker_that_is_killed_during_a_request_has_used_its_estimate_once(scenario):
    """BX-11, OR-8: kill -9 between the reservation and its end; the estimate is booked, as an estimate."""
    chain(scenario, "a", usage=250, a={"kind": "hang", "times": 9})
    owner = scenario.start(scenario.run_command("--yes"))

    def reserved():
        run = scenario.status()["run"]
        return bool(run) and run["budget"]["reserved_tokens"] == 250

    assert wait_until(reserved)
    rows = json.loads(scenario.scaffold("agents", "--json").stdout)["agents"]
    (worker,) = (row["pid"] for row in rows if row["attempt"] is not None)
    os.kill(worker, signal.SIGKILL)
    assert owner.wait(COMMAND_S) == 0, scenario.said()
    budget = scenario.status()["run"]["budget"]
    assert (budget["spent_tokens"], budget["reserved_tokens"]) == (3 * 250, 0)
    assert 0.5 < budget["confidence"] <= 1.0
    assert scenario.said().count("died during a request; its reservation, $0.30 and 250 tokens, counts as spent") == 1
