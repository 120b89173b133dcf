"""Approvals that become facts: no commit, one transaction, and never about lines that have changed since."""

import json

import pytest

from fakes import cassette_model
from scaffold.core.errors import StaleFence
from scaffold.core.events import ActionLanded as LandedEvent
from scaffold.landing.queue.merge_queue import MergeQueue
from scaffold.landing.queue.step_result import BatchLanded, CandidateRefused, QueueIdle, ReviewRecorded
from scaffold.llm.cassette_model import CassetteEntry, RequestMatcher
from scaffold.orchestrator.owner.recovery.interrupted_run import recover_run
from support.harness import act, goal

CITED = [{"file": "list", "line": 2, "note": "has two"}]


async def begin(harness, *actions):
    """Own a run of these actions and a review of `a`; return it and its queue."""
    run = await harness.own(goal("g", act("a"), act("look", needs=["a_done"], role="reviewer"), *actions))
    queue = MergeQueue(harness.context, run)
    await harness.work(run, "a", "echo x > a")
    assert isinstance(await queue.step(), BatchLanded)
    return run, queue


async def approve(harness, run, attempt, citations=CITED):
    """Let the review of this attempt approve."""
    said = {"verdict": "approve", "citations": citations, "summary": "Sound."}
    entry = CassetteEntry(when=RequestMatcher(role="reviewer"), text=f"```json\n{json.dumps(said)}\n```")
    await harness.execute(attempt, cassette_model(entry))


async def land(harness, run, queue, key, command):
    """Have another action done and landed."""
    await harness.work(run, key, command)
    assert isinstance(await queue.step(), BatchLanded)


def fact_of(harness, run, assertion):
    facts = harness.store.facts.for_goal(harness.action(run, "a").goal_id)
    return next((fact for fact in facts if fact.assertion == assertion), None)


@pytest.mark.slow
async def test_an_approval_is_recorded_without_a_commit_and_makes_a_fact(harness):
    """SC-7, BX-2: the evidence is the review with its citations, at the reviewed commit."""
    run, queue = await begin(harness)
    tip = await harness.tip(run)
    attempt = await harness.queue(run, "look")
    await approve(harness, run, attempt)
    assert await queue.step() == ReviewRecorded(tip)
    assert await harness.tip(run) == tip
    fact = fact_of(harness, run, "look_done")
    assert (fact.state, fact.commit, fact.strength, fact.paths) == ("holds", tip, "proven", ("a", "list"))
    (evidence,) = fact.evidence
    assert (evidence.kind, evidence.command, evidence.exit_code) == ("review", None, None)
    assert evidence.detail == "Sound.\n- list:2: has two"
    (recorded,) = harness.attempts(run, "look")
    assert (recorded.phase, recorded.outcome, recorded.head_sha) == ("recorded", "recorded", tip)
    assert harness.statuses(run) == {"a": "completed", "look": "completed"}
    assert harness.action(run, "look").result == recorded.result
    assert [event.action for event in harness.events(run, LandedEvent)] == ["a"]
    assert harness.store.intents.open_of_run(run.id) == ()


@pytest.mark.parametrize("path", ["list", "a"], ids=["cited", "changed by what it judges"])
@pytest.mark.slow
async def test_an_approval_of_changed_lines_is_repeated(harness, path):
    """BX-2, SC-20: a conflict, which does not count as a failure; the next attempt begins on the new tip."""
    run, queue = await begin(harness, act("b"))
    attempt = await harness.queue(run, "look")
    await land(harness, run, queue, "b", f"echo more >> {path}")
    await approve(harness, run, attempt)
    refused = await queue.step()
    assert (type(refused), refused.outcome, path in refused.why) == (CandidateRefused, "conflict", True)
    assert fact_of(harness, run, "look_done") is None
    assert harness.statuses(run)["look"] == "pending"
    assert harness.store.actions.failures(harness.action(run, "look").id) == 0
    again = await harness.queue(run, "look")
    assert again.base_sha == await harness.tip(run)
    assert refused.why in again.briefing
    assert "Its work" not in again.briefing
    await approve(harness, run, again)
    assert isinstance(await queue.step(), ReviewRecorded)


@pytest.mark.slow
async def test_an_approval_is_not_repeated_for_other_changes(harness):
    """BX-2: it depends only on its citations and the reviewed change."""
    run, queue = await begin(harness, act("b"))
    attempt = await harness.queue(run, "look")
    await land(harness, run, queue, "b", "echo more >> README")
    await approve(harness, run, attempt)
    assert await queue.step() == ReviewRecorded(attempt.base_sha)
    assert fact_of(harness, run, "look_done").commit == attempt.base_sha


@pytest.mark.slow
async def test_a_refuted_precondition_refuses_the_approval(harness):
    """SC-4: preconditions are checked once more."""
    run, queue = await begin(harness)
    attempt = await harness.queue(run, "look")
    await approve(harness, run, attempt)
    with harness.store.transaction():
        harness.store.facts.invalidate(harness.action(run, "a").goal_id, "a_done", "refuted")
    refused = await queue.step()
    assert (type(refused), refused.outcome) == (CandidateRefused, "conflict")


@pytest.mark.slow
async def test_a_superseded_owner_records_nothing(harness):
    """BX-8: the transaction is fenced by the run."""
    run, queue = await begin(harness)
    attempt = await harness.queue(run, "look")
    await approve(harness, run, attempt)
    harness.orphan(run)
    with pytest.raises(StaleFence):
        await queue.step()
    assert fact_of(harness, run, "look_done") is None
    assert harness.statuses(run)["look"] == "landing"


@pytest.mark.slow
async def test_an_approval_survives_its_owner_and_is_recorded_once(harness):
    """BX-15, SC-16: killed before the record, or after it."""
    run, queue = await begin(harness)
    attempt = await harness.queue(run, "look")
    await approve(harness, run, attempt)
    await recover_run(harness.context, run)
    assert harness.statuses(run)["look"] == "landing"
    assert isinstance(await queue.step(), ReviewRecorded)
    await recover_run(harness.context, run)
    assert await queue.step() == QueueIdle()
    assert [each.outcome for each in harness.attempts(run, "look")] == ["recorded"]
