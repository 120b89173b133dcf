"""Work that waited for a human to look at it: the next attempt goes on with it, where it can."""

import json

from fakes import act, goal
from integration.worker.critics import total, work
from scaffold.landing.merge_queue import MergeQueue
from scaffold.worker.outcome import CandidateReady, NoCandidate

ASKED = {"sandbox": "off", "allow": ("shell:cp",), "inbox_wait_s": 0.0, "planner": True}


async def begin(house, *more, check="test -f login.sql"):
    """Have the work of `a` done, which changes what is protected; a human has approved of it since."""
    run = await house.own(goal("g", act("a", check=check, files=("login.sql",)), *more), **ASKED)
    waits = await house.work(run, "a", "cp README login.sql")
    assert isinstance(waits, NoCandidate)
    assert waits.outcome == "waiting", waits.error
    with house.store.transaction():
        house.store.inbox.decide(waits.item, "approved")
    return run


async def pinned(house, run):
    """Return what the last attempt made of the file."""
    return await house.show(f"{house.attempts(run, 'a')[-1].head_sha}:login.sql")


def prompts(house):
    lines = (house.repo / ".scaffold/logs/g/a.jsonl").read_text().splitlines()
    return [each["text"] for each in map(json.loads, lines) if each["type"] == "prompt"]


async def test_work_that_waited_for_a_human_goes_on_as_it_was(house):
    """AL-9: nobody does it again, and what was agreed to is what is handed in."""
    run = await begin(house)
    assert isinstance(await house.work(run, "a", "cp list login.sql"), CandidateReady)
    attempt = house.attempts(run, "a")[-1]
    assert await house.show(f"{attempt.head_sha}:login.sql") == "sample"
    assert (attempt.result, attempt.iteration) == ("done with a", 1)
    assert len(prompts(house)) == 1, "the agent was asked once"


async def test_work_that_waited_and_does_not_pass_any_more_is_done_anew(house, tmp_path):
    """AL-9: an approval is no proof."""
    run = await begin(house, check=f"test -f login.sql && ! test -e {tmp_path}/broken")
    (tmp_path / "broken").touch()
    ending = await house.work(run, "a", "cp list login.sql")
    assert ending.outcome == "contract_failed"
    assert len(prompts(house)) > 1


async def test_on_another_base_the_work_is_done_anew_and_looked_at_again(house):
    """AL-9: what was agreed to is this change of that base."""
    run = await begin(house, act("b"))
    await house.work(run, "b", "cp list other")
    await MergeQueue(house.site, run).step()
    waits = await house.work(run, "a", "cp list login.sql")
    assert waits.outcome == "waiting"
    assert house.store.inbox.get(waits.item).detail["base"] == await house.tip(run)
    assert (await pinned(house, run)).startswith("one")
    assert len(prompts(house)) == 2


async def test_what_waited_on_the_way_is_not_taken_for_finished_work(house):
    """AL-9: an approval of a command is none of a change."""
    run = await house.own(goal("g", act("a", files=("login.sql",))), **ASKED, critic=True)
    waits = await work(house, run, "a", ["cp README login.sql", "touch b"], {1: [total(3)]})
    assert "shell wants to run `touch b`" in waits.error
    assert await pinned(house, run) == "sample"
    with house.store.transaction():
        house.store.inbox.decide(waits.item, "approved")
    again = await work(house, run, "a", ["cp list login.sql"], {1: [total(9)]})
    assert "changes protected paths" in again.error
    assert (await pinned(house, run)).startswith("one")
