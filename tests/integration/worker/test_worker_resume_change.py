"""Work that waited for a human's approval: the next attempt continues with it if possible."""

import pytest

from integration.worker.builders import critique_text, run_criticised
from scaffold.landing.queue.merge_queue import MergeQueue
from scaffold.run.failures.attempt_end import AttemptEnd
from scaffold.worker.attempt_records import CandidateReady
from support.harness import act, goal

ASKED = {"sandbox": "off", "allow": ("shell:cp",), "inbox_wait_s": 0.0, "planner": True}


async def begin(harness, *more, check="test -f login.sql"):
    """Have `a` done, with a protected change that a human has approved since."""
    run = await harness.own(goal("g", act("a", check=check, files=("login.sql",)), *more), **ASKED)
    waits = await harness.work(run, "a", "cp README login.sql")
    assert isinstance(waits, AttemptEnd)
    assert waits.outcome == "waiting", waits.error
    with harness.store.transaction():
        harness.store.inbox.decide(waits.item, "approved")
    return run


async def pinned(harness, run):
    """Return the last attempt's version of the file."""
    return await harness.show(f"{harness.attempts(run, 'a')[-1].head_sha}:login.sql")


@pytest.mark.slow
async def test_approved_work_continues_unchanged(harness):
    """AL-9: it is not redone, and what was approved is submitted."""
    run = await begin(harness)
    assert isinstance(await harness.work(run, "a", "cp list login.sql"), CandidateReady)
    attempt = harness.attempts(run, "a")[-1]
    assert await harness.show(f"{attempt.head_sha}:login.sql") == "sample"
    assert (attempt.result, attempt.iteration) == ("done with a", 1)
    assert len(harness.prompts()) == 1, "the agent was asked once"


@pytest.mark.slow
async def test_approved_work_that_no_longer_passes_is_redone(harness, tmp_path):
    """AL-9: an approval is no proof."""
    run = await begin(harness, check=f"test -f login.sql && ! test -e {tmp_path}/broken")
    (tmp_path / "broken").touch()
    ending = await harness.work(run, "a", "cp list login.sql")
    assert ending.outcome == "contract_failed"
    assert len(harness.prompts()) > 1


@pytest.mark.slow
async def test_on_another_base_the_work_is_checked_and_approved_again(harness):
    """AL-9, BX-15: the approval is for this change of that base; the agent is not asked to make it once more."""
    run = await begin(harness, act("b"))
    await harness.work(run, "b", "cp list other")
    await MergeQueue(harness.context, run).step()
    waits = await harness.work(run, "a", "cp list login.sql")
    assert waits.outcome == "waiting"
    assert harness.store.inbox.get(waits.item).detail["base"] == await harness.tip(run)
    assert await pinned(harness, run) == "sample"
    assert len(harness.prompts()) == 1


@pytest.mark.slow
async def test_unfinished_work_is_not_taken_for_approved_work(harness):
    """AL-9: an approval of a command does not cover a change."""
    run = await harness.own(goal("g", act("a", files=("login.sql",))), **ASKED, critic=True)
    waits = await run_criticised(harness, run, ["cp README login.sql", "touch b"], {1: [critique_text(3)]})
    assert "`touch b`" in waits.error
    assert await pinned(harness, run) == "sample"
    with harness.store.transaction():
        harness.store.inbox.decide(waits.item, "approved")
        harness.store.kept_turns.forget(harness.action(run, "a").id)
    again = await run_criticised(harness, run, ["cp list login.sql"], {1: [critique_text(9)]})
    assert "login.sql" in again.error
    assert (await pinned(harness, run)).startswith("one")
