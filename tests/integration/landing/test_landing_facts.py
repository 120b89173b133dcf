"""Facts while the branch moves: kept, shown again, stale, refuted; refuted ones send their provider back to work."""

import pytest

from integration.landing.builders import interrupted_landing
from integration.landing.test_landing_reviews import approve
from scaffold.core.events import FactStateChanged
from scaffold.core.proof.contract import Check, CheckResult, Contract
from scaffold.core.states import Active, Completed, Failed, Running, status_of
from scaffold.git import commits, refs
from scaffold.landing.facts.landing_record import resolve_intent
from scaffold.landing.facts.stale_facts import affected_facts
from scaffold.landing.proving.checkout import Checkouts
from scaffold.landing.proving.fact_refresh import FactRefresher
from scaffold.landing.queue.merge_queue import BatchLanded, CandidateRefused, FactsSettled, MergeQueue, QueueIdle
from scaffold.landing.queue.step_result import ReviewRecorded
from scaffold.verify.contract.base_checks import CheckResultCache
from support.harness import UNSANDBOXED, act, goal

MORE = "grep -q more list"


async def begin(harness, *goals, **settings):
    """Own a run of these goals; return it and its queue."""
    run = await harness.own(*goals, **settings)
    return run, MergeQueue(harness.context, run)


async def land(harness, run, queue, key, command):
    await harness.work(run, key, command)
    step = await queue.step()
    assert isinstance(step, BatchLanded), step
    return step.commit


async def others_commit(harness, run, command):
    """Commit on the session branch as its user may; return the commit."""
    await harness.sh(f"git checkout -q {run.session_branch}; {command}; git add -A; git commit -qm mine")
    await harness.sh("git checkout -q main")
    return await harness.tip(run)


def fact(harness, run, key):
    facts = [each for one in harness.store.goals.for_run(run.id) for each in harness.store.facts.for_goal(one.id)]
    return next(each for each in facts if each.assertion == f"{key}_done")


def states(harness, run, key):
    """Return the fact's states by the events of the run, in order."""
    return [each.state for each in harness.events(run, FactStateChanged) if each.assertion == f"{key}_done"]


@pytest.mark.slow
async def test_a_candidate_that_breaks_a_fact_is_refused_with_the_reason(harness):
    """BX-1, SC-4: the sealed contract of each fact whose paths it touches runs on the merged tree."""
    run, queue = await begin(harness, goal("g", act("a", check=MORE)), goal("h", act("b", check="test -f b")))
    await land(harness, run, queue, "a", "echo more >> list")
    before = await harness.tip(run)
    await harness.work(run, "b", "echo x > b; echo > list")
    refused = await queue.step()
    assert isinstance(refused, CandidateRefused)
    assert refused.outcome == "gate_failed"
    assert refused.why.startswith(f"It breaks what `a` had shown (a_done). The check `{MORE}` failed.")
    assert await harness.tip(run) == before
    assert fact(harness, run, "a").state == "holds"
    assert "It breaks what `a` had shown (a_done)." in (await harness.queue(run, "b")).briefing


@pytest.mark.slow
async def test_a_touched_fact_that_still_holds_gets_new_evidence(harness):
    """BX-1: at the new commit, depending on the same paths; a fact depends only on what its landing changed.

    BX-5: no check can show a weak fact again, and none speaks against it.
    """
    other, weak, last = act("other", check="test ! -f b"), act("weak"), act("b", check="test -f b")
    run, queue = await begin(harness, goal("g", act("a", check=MORE), other, weak, last))
    await land(harness, run, queue, "a", "echo more >> list")
    apart = await land(harness, run, queue, "other", "echo x > other")
    unchecked = await land(harness, run, queue, "weak", "echo more >> README")
    landed = await land(harness, run, queue, "b", "echo x > b; echo again >> list; echo again >> README")
    found = fact(harness, run, "a")
    assert (found.state, found.commit, found.paths, found.strength) == ("holds", landed, ("list",), "proven")
    assert [(each.command, each.commit) for each in found.evidence] == [(MORE, landed)]
    assert states(harness, run, "a") == ["holds", "holds"]
    assert (fact(harness, run, "other").state, fact(harness, run, "other").commit) == ("holds", apart)
    found = fact(harness, run, "weak")
    assert (found.state, found.strength, found.commit) == ("holds", "weak", unchecked)


@pytest.mark.slow
async def test_a_check_that_fails_without_the_candidate_does_not_refuse_it(harness, tmp_path):
    """BX-1: a check that fails at the tip as well refutes the fact, and the candidate lands."""
    gate = tmp_path / "gate"
    gate.touch()
    contract = Contract(commands=(Check(command=f"test -f {gate}"),))
    run, queue = await begin(
        harness, goal("g", act("a", contract=contract), act("b", check="test -f b")), **UNSANDBOXED
    )
    await land(harness, run, queue, "a", "echo more >> list")
    gate.unlink()
    await land(harness, run, queue, "b", "echo x > b; echo again >> list")
    assert fact(harness, run, "a").state == "refuted"
    assert harness.statuses(run) == {"a": "pending", "b": "completed"}


@pytest.mark.slow
async def test_a_users_commit_that_breaks_a_fact_reopens_its_provider(harness):
    """BX-1, SC-4: stale, then refuted; its provider is pending again, and its dependents wait again."""
    run, queue = await begin(harness, goal("g", act("a", check=MORE), act("b", needs=["a_done"]), act("c")))
    await land(harness, run, queue, "a", "echo more >> list")
    assert harness.action(run, "b").unmet == 0
    await others_commit(harness, run, "echo > list")
    await queue.recheck_facts()
    assert states(harness, run, "a") == ["holds", "stale", "refuted"]
    assert harness.statuses(run) == {"a": "pending", "b": "pending", "c": "pending"}
    assert harness.action(run, "b").unmet == 1
    briefing = (await harness.queue(run, "a")).briefing
    assert "no longer valid" in briefing
    assert "did not land" not in briefing


@pytest.mark.slow
async def test_a_users_commit_that_breaks_nothing_leads_to_new_evidence(harness):
    """BX-1: stale until it is rechecked, then it holds at the new tip; rechecked once."""
    run, queue = await begin(harness, goal("g", act("a", check=MORE), act("b")))
    await land(harness, run, queue, "a", "echo more >> list")
    tip = await others_commit(harness, run, "echo again >> list")
    for _ in range(2):
        await queue.recheck_facts()
    assert states(harness, run, "a") == ["holds", "stale", "holds"]
    assert fact(harness, run, "a").commit == tip
    await MergeQueue(harness.context, run).recheck_facts()
    assert states(harness, run, "a") == ["holds", "stale", "holds"], "another owner sees that it was shown there"


@pytest.mark.slow
async def test_work_that_reverts_a_users_commit_lands(harness):
    """BX-1: against the last landed tip it changes nothing; the current tip counts."""
    run, queue = await begin(harness, goal("g", act("a", check=MORE), act("b")))
    await land(harness, run, queue, "a", "echo more >> list")
    await others_commit(harness, run, "sed -i s/more/less/ list")
    await queue.recheck_facts()
    assert fact(harness, run, "a").state == "refuted"
    await land(harness, run, queue, "a", "sed -i s/less/more/ list")
    assert (fact(harness, run, "a").state, harness.store.actions.failures(harness.action(run, "a").id)) == ("holds", 0)


@pytest.mark.slow
async def test_a_candidate_lands_on_a_users_commit_once_facts_are_settled(harness):
    """SC-4: a precondition has fallen meanwhile, so it is returned."""
    run, queue = await begin(harness, goal("g", act("a", check=MORE), act("b", needs=["a_done"])))
    await land(harness, run, queue, "a", "echo more >> list")
    await harness.work(run, "b", "echo x > b")
    await others_commit(harness, run, "echo > list")
    fresh = MergeQueue(harness.context, run)
    refused = await fresh.step()
    assert (type(refused), refused.outcome) == (CandidateRefused, "conflict")
    assert harness.statuses(run) == {"a": "pending", "b": "pending"}


@pytest.mark.slow
async def test_a_completed_goal_reopens_when_its_fact_is_refuted(harness):
    """BX-1: staleness crosses goals; a goal is complete only while its state holds."""
    run, queue = await begin(harness, goal("g", act("a", check=MORE)), goal("h", act("b")))
    await land(harness, run, queue, "a", "echo more >> list")
    reached = harness.store.goals.by_name(run.id, "g")
    harness.move(reached, Completed())
    await others_commit(harness, run, "echo > list")
    await queue.recheck_facts()
    assert harness.store.goals.get(reached.id).state == Active()
    assert harness.statuses(run)["a"] == "pending"


@pytest.mark.slow
async def test_a_compound_runs_again_when_an_effect_of_its_child_is_refuted(harness):
    """SC-5: parents first, so that its children may start."""
    parts = act("whole", kind="compound"), act("a", check=MORE, parent="whole", effects=("whole_done", "a_done"))
    run, queue = await begin(harness, goal("g", *parts, act("b")))
    harness.move(harness.action(run, "whole"), Running())
    await land(harness, run, queue, "a", "echo more >> list")
    harness.move(harness.action(run, "whole"), Completed())
    await others_commit(harness, run, "echo > list")
    await queue.recheck_facts()
    assert harness.statuses(run) == {"whole": "running", "a": "pending", "b": "pending"}
    assert harness.action(run, "a").unmet == 0


@pytest.mark.slow
async def test_a_recovered_landing_leaves_no_touched_fact_unchecked(harness):
    """SC-16, BX-1: recovered from the branch alone, the facts it touches are stale until they are checked."""
    run, queue = await begin(harness, goal("g", act("a", check=MORE), act("b", check="test -f b")))
    await land(harness, run, queue, "a", "echo more >> list")
    await harness.work(run, "b", "echo x > b; echo again >> list")
    moved = await land_without_recording(harness, run, "b")
    assert fact(harness, run, "a").state == "stale"
    again = MergeQueue(harness.context, run)
    assert await again.step() == FactsSettled()
    assert (fact(harness, run, "a").state, fact(harness, run, "a").commit) == ("holds", moved)
    assert await again.step() == QueueIdle()


async def land_without_recording(harness, run, key):
    """Let the owner die once the branch has moved; the next owner recovers the landing."""
    intent = await interrupted_landing(harness, run, key)
    await refs.move(harness.context.git, intent.ref, new=intent.new, old=intent.old)
    assert await resolve_intent(harness.context, run, intent) == "recorded"
    return intent.new


async def approve_again(harness, run, queue):
    """Have the review of `a` approved and recorded."""
    await approve(harness, run, await harness.queue(run, "look"))
    assert isinstance(await queue.step(), ReviewRecorded)


@pytest.mark.slow
async def test_a_review_is_repeated_when_cited_lines_have_changed(harness):
    """SC-7, BX-1: stale, and its action pending again; once per landing, so that it comes to an end."""
    run, queue = await begin(harness, goal("g", act("a"), act("look", needs=["a_done"], role="reviewer"), act("b")))
    await land(harness, run, queue, "a", "echo x > a")
    await approve_again(harness, run, queue)
    await land(harness, run, queue, "b", "echo more >> list")
    assert fact(harness, run, "look").state == "stale"
    assert harness.statuses(run)["look"] == "pending"
    assert await queue.step() == QueueIdle(), "nothing here can settle a review"
    await approve_again(harness, run, queue)
    assert (fact(harness, run, "look").state, fact(harness, run, "look").commit) == ("holds", await harness.tip(run))
    assert status_of(harness.action(run, "look").state) == "completed"


@pytest.mark.slow
async def test_a_fact_refuted_in_a_failed_goal_is_provided_again_after_a_retry(harness):
    """SC-5: no action waits for one that will not run."""
    run, queue = await begin(harness, goal("g", act("a", check=MORE), act("b")))
    await land(harness, run, queue, "a", "echo more >> list")
    (one,) = harness.store.goals.for_run(run.id)
    harness.move(one, Failed("for a reason"))
    await others_commit(harness, run, "echo > list")
    await queue.recheck_facts()
    assert harness.statuses(run)["a"] == "pending"
    assert harness.store.goals.get(one.id).state == Failed("for a reason")


@pytest.mark.slow
async def test_a_fact_refuted_in_an_ended_goal_that_does_not_need_it_is_left(harness):
    """BX-1: refuted, and not needed."""
    run, queue = await begin(harness, goal("g", act("a", check=MORE), act("b"), wants=["b_done"]))
    await land(harness, run, queue, "a", "echo more >> list")
    await land(harness, run, queue, "b", "echo x > b")
    (one,) = harness.store.goals.for_run(run.id)
    harness.move(one, Completed())
    await others_commit(harness, run, "echo > list")
    await queue.recheck_facts()
    assert fact(harness, run, "a").state == "refuted"
    assert harness.statuses(run)["a"] == "completed"
    assert harness.store.goals.get(one.id).state == Completed()


@pytest.mark.slow
async def test_a_check_that_was_slow_on_the_base_gets_the_same_time_again(harness):
    """BX-1: a slow check does not refute its fact."""
    run, queue = await begin(harness, goal("g", act("a", check=MORE)))
    await land(harness, run, queue, "a", "echo more >> list")
    (claim,) = affected_facts(harness.store, run, ["list"])
    attempt = harness.store.attempts.get(claim.attempt_id)
    slow = CheckResult(name=MORE, verdict="fail", exit_code=1, duration_s=40.0)
    tree = await commits.tree_of(harness.context.git, attempt.base_sha)
    CheckResultCache(harness.store).keep(Check(command=MORE), attempt.base_sha, tree, slow)
    upkeep = FactRefresher(harness.context, run, Checkouts(harness.context, run, ["landing"]), lambda: None)
    assert [check.timeout_s for check in (await upkeep.contract(claim)).commands] == [120.0]
