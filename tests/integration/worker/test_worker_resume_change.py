"""Work that waited for a human to look at it: the next attempt goes on with it, where it can."""

import json

from integration.worker.builders import total, work
from scaffold.landing.merge_queue import MergeQueue
from scaffold.run.attempt_end import AttemptEnd
from scaffold.worker.attempt_record import CandidateReady
from support.harness import act, goal

ASKED = {"sandbox": "off", "allow": ("shell:cp",), "inbox_wait_s": 0.0, "planner": True}


async def begin(harness, *more, check="test -f login.sql"):
    """Have the work of `a` done, which changes what is protected; a human has approved of it since."""
    run = await harness.own(goal("g", act("a", check=check, files=("login.sql",)), *more), **ASKED)
    waits = await harness.work(run, "a", "cp README login.sql")
    assert isinstance(waits, AttemptEnd)
    assert waits.outcome == "waiting", waits.error
    with harness.store.transaction():
        harness.store.inbox.decide(waits.item, "approved")
    return run


async def pinned(harness, run):
    """Return what the last attempt made of the file."""
    return await harness.show(f"{harness.attempts(run, 'a')[-1].head_sha}:login.sql")


def prompts(harness):
    lines = (harness.repo / ".scaffold/logs/g/a.jsonl").read_text().splitlines()
    return [each["text"] for each in map(json.loads, lines) if each["type"] == "prompt"]


async def test_work_that_waited_for_a_human_goes_on_as_it_was(harness):
    """AL-9: nobody does it again, and what was agreed to is what is handed in."""
    run = await begin(harness)
    assert isinstance(await harness.work(run, "a", "cp list login.sql"), CandidateReady)
    attempt = harness.attempts(run, "a")[-1]
    assert await harness.show(f"{attempt.head_sha}:login.sql") == "sample"
    assert (attempt.result, attempt.iteration) == ("done with a", 1)
    assert len(prompts(harness)) == 1, "the agent was asked once"


async def test_work_that_waited_and_does_not_pass_any_more_is_done_anew(harness, tmp_path):
    """AL-9: an approval is no proof."""
    run = await begin(harness, check=f"test -f login.sql && ! test -e {tmp_path}/broken")
    (tmp_path / "broken").touch()
    ending = await harness.work(run, "a", "cp list login.sql")
    assert ending.outcome == "contract_failed"
    assert len(prompts(harness)) > 1


async def test_on_another_base_the_work_is_done_anew_and_looked_at_again(harness):
    """AL-9: what was agreed to is this change of that base."""
    run = await begin(harness, act("b"))
    await harness.work(run, "b", "cp list other")
    await MergeQueue(harness.site, run).step()
    waits = await harness.work(run, "a", "cp list login.sql")
    assert waits.outcome == "waiting"
    assert harness.store.inbox.get(waits.item).detail["base"] == await harness.tip(run)
    assert (await pinned(harness, run)).startswith("one")
    assert len(prompts(harness)) == 2


async def test_what_waited_on_the_way_is_not_taken_for_finished_work(harness):
    """AL-9: an approval of a command is none of a change."""
    run = await harness.own(goal("g", act("a", files=("login.sql",))), **ASKED, critic=True)
    waits = await work(harness, run, "a", ["cp README login.sql", "touch b"], {1: [total(3)]})
    assert "shell wants to run `touch b`" in waits.error
    assert await pinned(harness, run) == "sample"
    with harness.store.transaction():
        harness.store.inbox.decide(waits.item, "approved")
    again = await work(harness, run, "a", ["cp list login.sql"], {1: [total(9)]})
    assert "changes protected paths" in again.error
    assert (await pinned(harness, run)).startswith("one")
