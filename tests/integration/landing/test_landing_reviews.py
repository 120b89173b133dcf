"""Approvals on their way to facts: nothing moves, one transaction, and never about what has changed since."""

import json

import pytest

from fakes import GHOST, act, goal, open_site
from scaffold.core.errors import StaleFence
from scaffold.core.events import ActionLanded as LandedEvent
from scaffold.landing.merge_queue import CandidateLanded, CandidateRefused, MergeQueue, QueueIdle, ReviewRecorded
from scaffold.llm.cassette.model import CassetteEntry, RequestMatcher
from scaffold.orchestrator.owner.recovery import recover_run
from scaffold.run.assignment import read_assignment
from scaffold.worker.attempt import Worker
from talk import tape

CITED = [{"file": "list", "line": 2, "note": "has two"}]


async def begin(house, *actions):
    """Own a run of these actions and a review of `a`; return it and its queue."""
    run = await house.own(goal("g", act("a"), act("look", needs=["a_done"], role="reviewer"), *actions))
    queue = MergeQueue(house.site, run)
    await house.work(run, "a", "echo x > a")
    assert isinstance(await queue.step(), CandidateLanded)
    return run, queue


async def approve(house, run, attempt, citations=CITED):
    """Let the review of this attempt approve."""
    said = {"verdict": "approve", "citations": citations, "summary": "Sound."}
    entry = CassetteEntry(when=RequestMatcher(role="reviewer"), text=f"```json\n{json.dumps(said)}\n```")
    site = await open_site(house.repo, cache=house.site.cache, environ=house.site.environ)
    try:
        await Worker(site, read_assignment(site.store, attempt.id), tape(entry)).carry_out(GHOST, log_file="none")
    finally:
        site.store.close()


async def land(house, run, queue, key, command):
    """Have other work done and landed."""
    await house.work(run, key, command)
    assert isinstance(await queue.step(), CandidateLanded)


def fact_of(house, run, assertion):
    facts = house.store.facts.of_goal(house.action(run, "a").goal_id)
    return next((fact for fact in facts if fact.assertion == assertion), None)


async def test_an_approval_is_recorded_without_a_commit_and_its_effect_is_a_fact(house):
    """SC-7, BX-2: the evidence is the review with its citations, at the commit that was reviewed."""
    run, queue = await begin(house)
    tip = await house.tip(run)
    attempt = await house.queue(run, "look")
    await approve(house, run, attempt)
    assert await queue.step() == ReviewRecorded(tip)
    assert await house.tip(run) == tip
    fact = fact_of(house, run, "look_done")
    assert (fact.state, fact.commit, fact.weak, fact.paths) == ("holds", tip, False, ("a", "list"))
    (evidence,) = fact.evidence
    assert (evidence.kind, evidence.command, evidence.exit_code) == ("review", None, None)
    assert evidence.detail == "Sound.\n- list:2: has two"
    (recorded,) = house.attempts(run, "look")
    assert (recorded.phase, recorded.outcome, recorded.head_sha) == ("recorded", "recorded", tip)
    assert house.statuses(run) == {"a": "completed", "look": "completed"}
    assert house.action(run, "look").result == recorded.result
    landed = [each.event.action for each in house.store.events.since(run.id, 0) if isinstance(each.event, LandedEvent)]
    assert landed == ["a"]
    assert house.store.intents.open_of_run(run.id) == ()


@pytest.mark.parametrize("path", ["list", "a"], ids=["cited", "changed by what it judges"])
async def test_what_has_changed_since_is_judged_anew(house, path):
    """BX-2, SC-20: a conflict, which is nobody's failure; the next attempt begins on the new tip."""
    run, queue = await begin(house, act("b"))
    attempt = await house.queue(run, "look")
    await land(house, run, queue, "b", f"echo more >> {path}")
    await approve(house, run, attempt)
    assert await queue.step() == CandidateRefused("conflict", f"changed since it was reviewed: {path}")
    assert fact_of(house, run, "look_done") is None
    assert house.statuses(run)["look"] == "pending"
    assert house.store.actions.failures(house.action(run, "look").id) == 0
    again = await house.queue(run, "look")
    assert again.base_sha == await house.tip(run)
    assert f"changed since it was reviewed: {path}" in again.briefing
    assert "Its work" not in again.briefing
    await approve(house, run, again)
    assert isinstance(await queue.step(), ReviewRecorded)


async def test_what_has_changed_elsewhere_is_no_reason_to_look_again(house):
    """BX-2: it depends on what it cites and what it judges, on nothing else."""
    run, queue = await begin(house, act("b"))
    attempt = await house.queue(run, "look")
    await land(house, run, queue, "b", "echo more >> README")
    await approve(house, run, attempt)
    assert await queue.step() == ReviewRecorded(attempt.base_sha)
    assert fact_of(house, run, "look_done").commit == attempt.base_sha


async def test_a_fact_that_fell_refuses_the_approval_of_what_it_stood_for(house):
    """SC-4: preconditions are looked at once more."""
    run, queue = await begin(house)
    attempt = await house.queue(run, "look")
    await approve(house, run, attempt)
    with house.store.transaction():
        house.store.facts.invalidate(house.action(run, "a").goal_id, "a_done", "refuted")
    assert await queue.step() == CandidateRefused("conflict", "its preconditions no longer hold: a_done")


async def test_an_owner_that_was_overtaken_records_nothing(house):
    """BX-8: the transaction is fenced by the run."""
    run, queue = await begin(house)
    attempt = await house.queue(run, "look")
    await approve(house, run, attempt)
    house.orphan(run)
    with pytest.raises(StaleFence):
        await queue.step()
    assert fact_of(house, run, "look_done") is None
    assert house.statuses(run)["look"] == "landing"


async def test_a_candidate_survives_its_owner_and_is_recorded_once(house):
    """BX-15, SC-16: killed before the record, or after it."""
    run, queue = await begin(house)
    attempt = await house.queue(run, "look")
    await approve(house, run, attempt)
    await recover_run(house.site, run)
    assert house.statuses(run)["look"] == "landing"
    assert isinstance(await queue.step(), ReviewRecorded)
    await recover_run(house.site, run)
    assert await queue.step() == QueueIdle()
    assert [each.outcome for each in house.attempts(run, "look")] == ["recorded"]
