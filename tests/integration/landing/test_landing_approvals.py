"""The merge queue asks a human about each change, and its landing transaction looks for the answer."""

from datetime import timedelta

import pytest
from inline_snapshot import snapshot

from builders import make_settings
from integration.worker.builders import run_reviewed
from scaffold.git import refs
from scaffold.landing.facts.landing_record import session_tip
from scaffold.landing.integration import integrate
from scaffold.landing.proving.candidate_line import Line
from scaffold.landing.queue.change_approvals import ChangeApprovals
from scaffold.landing.queue.merge_queue import MergeQueue
from scaffold.landing.queue.publish import Proven, Unpublished, publish
from scaffold.landing.queue.step_result import BatchLanded, CandidateRefused, QueueIdle
from support.harness import UNSANDBOXED, act, goal


async def begin(harness, *keys, **settings):
    settings = {"tier": "architect", **UNSANDBOXED} | settings
    run = await harness.own(goal("g", *(act(key) for key in keys)), **settings)
    return run, MergeQueue(harness.context, run)


def open_items(harness):
    return {item.detail["action"]: item for item in harness.store.inbox.open()}


def decide(harness, item, to="approved", **how):
    with harness.store.transaction():
        harness.store.inbox.decide(item.id, to, scope="call", **how)


@pytest.mark.slow
async def test_a_candidate_waits_while_another_one_that_was_approved_lands(harness):
    """AL-22, BX-13: the one that waits is shown in the queue, holds no lane, and is asked about once."""
    run, queue = await begin(harness, "a", "b")
    await run_reviewed(harness, run, "a", ["echo one > a"], [])
    await run_reviewed(harness, run, "b", ["echo two > b"], [])
    assert isinstance(await queue.step(), QueueIdle)
    asked = open_items(harness)
    assert {*asked} == {"a", "b"}
    decide(harness, asked["b"])
    assert isinstance(await queue.step(), BatchLanded)
    assert isinstance(await queue.step(), QueueIdle)
    assert open_items(harness) == {"a": asked["a"]}, "what landed elsewhere changes nothing of it"
    (place,) = harness.store.merge_queues.for_run(run.id)
    assert (place.state, place.detail, place.lane) == ("approval", asked["a"].id, None)
    assert await refs.resolve(harness.context.git, refs.review_ref(place.attempt_id)) is not None
    await queue.close()


async def test_another_owner_asks_nothing_again(harness):
    """AL-22, BX-15: what was asked and answered is in the store."""
    run, queue = await begin(harness, "a")
    await run_reviewed(harness, run, "a", ["echo one > a"], [])
    await queue.step()
    await queue.close()
    (item,) = harness.store.inbox.open()
    second = MergeQueue(harness.context, run)
    await second.step()
    assert harness.store.inbox.open() == (item,)
    decide(harness, item)
    assert isinstance(await MergeQueue(harness.context, run).step(), BatchLanded)
    fact = harness.store.facts.for_goal(harness.action(run, "a").goal_id)[0]
    assert (fact.reviewed, [each.kind for each in fact.evidence][-1]) == (True, "human")


async def test_a_rejection_returns_the_change_and_counts_as_no_failure(harness):
    """AL-22."""
    run, queue = await begin(harness, "a")
    await run_reviewed(harness, run, "a", ["echo one > a"], [])
    await queue.step()
    decide(harness, *harness.store.inbox.open(), to="rejected", answer="say two")
    refused = await queue.step()
    assert refused == CandidateRefused("rejected", snapshot("a human rejected the change: say two"))
    assert harness.store.actions.failures(harness.action(run, "a").id) == 0
    await queue.close()


async def test_an_approval_that_is_over_is_asked_anew_and_the_old_one_is_told(harness):
    """AL-22."""
    run, queue = await begin(harness, "a")
    await run_reviewed(harness, run, "a", ["echo one > a"], [])
    await queue.step()
    (item,) = harness.store.inbox.open()
    decide(harness, item, valid_until=harness.context.clock.now() - timedelta(hours=1))
    assert isinstance(await queue.step(), QueueIdle)
    (again,) = harness.store.inbox.open()
    assert again.id != item.id
    await queue.close()


@pytest.mark.parametrize("answer", [None, "another base", "rejected"])
async def test_nothing_lands_without_an_approval_in_the_landing_transaction(harness, answer):
    """AL-22: however the candidate came there, and whatever was approved before."""
    run, queue = await begin(harness, "a")
    await run_reviewed(harness, run, "a", ["echo one > a"], [])
    context, (attempt,) = harness.context, harness.attempts(run, "a")
    tip = await session_tip(context, run)
    if answer is not None:
        await queue.step()
        (item,) = harness.store.inbox.open()
        decide(harness, item, to="rejected" if answer == "rejected" else "approved")
    if answer == "another base":
        with harness.store.transaction():
            harness.store.inbox.end_validity(item.id)
    action = harness.action(run, "a")
    merged = await integrate(context, run, action, head=attempt.head_sha, tip=tip)
    candidate = await Line(context, None).candidate(action, attempt, merged, tip)
    proven = Proven(candidate=candidate, verification=attempt.verification)
    found = await publish(context, run, [proven], (), ChangeApprovals(context, run))
    assert found == Unpublished(attempt_id=attempt.id, cause="unapproved")
    assert await session_tip(context, run) == tip
    await queue.close()


ASKS = {
    ("architect", "tier"): True,
    ("architect", "never"): False,
    ("builder", "tier"): False,
    ("builder", "always"): True,
    ("quick", "always"): True,
}


def test_tier_and_setting_say_whether_a_human_is_asked():
    """AL-22: `--yolo` does not change that."""
    settings = {(tier, human): make_settings(tier=tier, human_review=human, yolo=True) for tier, human in ASKS}
    assert {each: made.human_reviews for each, made in settings.items()} == ASKS


async def test_where_no_human_is_asked_work_lands_at_once(harness):
    """AL-22."""
    run, queue = await begin(harness, "a", human_review="never")
    await run_reviewed(harness, run, "a", ["echo one > a"], [])
    assert isinstance(await queue.step(), BatchLanded)
    assert harness.store.inbox.open() == ()
    await queue.close()
