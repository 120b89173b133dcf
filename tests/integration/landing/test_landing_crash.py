"""A landing whose process died between two steps, and its recovery."""

from contextlib import closing, suppress

import pytest
from msgspec.structs import replace

from fakes import Cut, CutClock
from integration.landing.builders import interrupted_landing
from scaffold.core.events import NoticeRaised
from scaffold.core.states import status_of
from scaffold.git import refs
from scaffold.landing.facts.landing_record import record_recovered_landing, resolve_intent
from scaffold.landing.queue.merge_queue import MergeQueue
from scaffold.landing.queue.step_result import BatchLanded
from scaffold.orchestrator.owner.recovery.interrupted_run import recover_run
from scaffold.store.database import Store
from support.harness import UNSANDBOXED, act, goal


@pytest.fixture
async def died(harness):
    """A run, and the intent of a landing that stopped there."""
    run = await harness.own(goal("g", act("a", check="test -f a")), **UNSANDBOXED)
    await harness.work(run, "a", "echo x > a")
    return run, await interrupted_landing(harness, run, "a")


async def moved(harness, intent, new=None):
    await refs.move(harness.context.git, intent.ref, new=new or intent.new, old=intent.old)


def expect_landed_once(harness, run):
    assert harness.facts(run) == {"a_done"}
    assert [attempt.outcome for attempt in harness.attempts(run, "a")] == ["landed"]
    assert harness.store.intents.open_of_run(run.id) == ()


async def test_a_superseded_owner_cannot_finish_a_recovered_landing(harness, died):
    """BX-8, BX-2: no fence stops a git command; it lands nothing, because the candidate is pinned elsewhere by then.

    The branch had not moved: it is as if nothing had happened, and the same candidate lands later, once.
    """
    run, intent = died
    (attempt,) = harness.attempts(run, "a")
    assert await resolve_intent(harness.context, run, intent) == "redone"
    work = refs.work_ref(attempt.id)
    landed = await refs.move_and_delete(
        harness.context.git, intent.ref, new=intent.new, old=intent.old, drop={work: attempt.head_sha}
    )
    assert (landed, harness.facts(run), await harness.landed(run)) == (False, set(), [])
    (now,) = harness.attempts(run, "a")
    assert await refs.resolve(harness.context.git, work) == now.head_sha != attempt.head_sha
    assert isinstance(await MergeQueue(harness.context, run).step(), BatchLanded)
    expect_landed_once(harness, run)


async def test_died_after_the_branch_moved(harness, died):
    """BX-2, SC-16: what is on the branch is recorded, with the evidence stored before."""
    run, intent = died
    await moved(harness, intent)
    assert await resolve_intent(harness.context, run, intent) == "recorded"
    expect_landed_once(harness, run)
    assert status_of(harness.action(run, "a").state) == "completed"
    (fact,) = harness.store.facts.for_goal(harness.action(run, "a").goal_id)
    assert [each.command for each in fact.evidence] == ["test -f a"]


# The worktree of the attempt has another one's work by then.
COLLECTING = "rm -rf .git/worktrees; git reflog expire --expire=all --all; git gc -q --prune=now"


async def published(harness, run, intent):
    """Move the branch as a landing does, which deletes the ref that keeps the candidate."""
    (attempt,) = harness.attempts(run, "a")
    work, head = refs.work_ref(attempt.id), attempt.head_sha
    assert await refs.move_and_delete(
        harness.context.git, intent.ref, new=intent.new, old=intent.old, drop={work: head}
    )


async def test_a_candidate_that_was_collected_after_it_landed_is_not_needed(harness, died):
    """BX-2, BX-10, SC-16: the user's `git gc --prune=now` between the death and the recovery."""
    run, intent = died
    await published(harness, run, intent)
    await harness.sh(COLLECTING)
    assert await resolve_intent(harness.context, run, intent) == "recorded"
    expect_landed_once(harness, run)


@pytest.mark.slow
async def test_a_landing_that_was_collected_before_the_branch_moved_is_redone(harness, died):
    """BX-2, BX-10: no ref leads to the commit that would have landed."""
    run, intent = died
    await harness.sh(COLLECTING)
    assert await resolve_intent(harness.context, run, intent) == "redone"
    assert isinstance(await MergeQueue(harness.context, run).step(), BatchLanded)
    expect_landed_once(harness, run)


async def test_work_that_the_user_removed_and_collected_ends_as_lost(harness, died):
    """BX-3: the run goes on, and says what happened."""
    run, intent = died
    await published(harness, run, intent)
    await harness.sh(f"git checkout -q --orphan other; git commit -qm other; git branch -f {run.session_branch}")
    await harness.sh(COLLECTING)
    assert await resolve_intent(harness.context, run, intent) == "lost"
    (attempt,) = harness.attempts(run, "a")
    assert (attempt.outcome, harness.statuses(run)) == ("lost", {"a": "pending"})
    last = harness.store.events.since(run.id, 0)[-1].event
    assert "`git gc`" in last.text


@pytest.mark.slow
async def test_died_after_the_landing_was_recorded(harness, died):
    """SC-16: the ref that pinned the work is deleted by the next cleanup; recovery may itself be killed."""
    run, intent = died
    await moved(harness, intent)
    (attempt,) = harness.attempts(run, "a")
    await record_recovered_landing(harness.context, run, intent)
    for _ in range(2):
        await refs.pin(harness.context.git, refs.work_ref(attempt.id), attempt.head_sha)
        await recover_run(harness.context, run)
        expect_landed_once(harness, run)
    assert await refs.list_refs(harness.context.git, "refs/scaffold/") == {}


@pytest.mark.slow
@pytest.mark.parametrize("was_moved", [True, False])
async def test_the_user_committed_before_the_landing_was_recorded(harness, died, was_moved):
    """If the branch contains the new commit, it landed; else the candidate lands on top of the user's."""
    run, intent = died
    if was_moved:
        await moved(harness, intent)
    await harness.sh(f"git checkout -q {run.session_branch}; git commit -q --allow-empty -m mine; git checkout -q main")
    assert await resolve_intent(harness.context, run, intent) == ("recorded" if was_moved else "redone")
    if not was_moved:
        assert isinstance(await MergeQueue(harness.context, run).step(), BatchLanded)
    expect_landed_once(harness, run)


@pytest.mark.slow
async def test_the_user_rewrote_the_branch(harness, died):
    """AL-19, BX-3: the attempt is returned without counting as a failure, its work is pinned, with a notice."""
    run, intent = died
    await harness.sh(f"git checkout -q --orphan other; git commit -qm other; git branch -f {run.session_branch}")
    assert await resolve_intent(harness.context, run, intent) == "lost"
    (attempt,) = harness.attempts(run, "a")
    assert (attempt.outcome, harness.statuses(run)) == ("lost", {"a": "pending"})
    assert await refs.resolve(harness.context.git, refs.work_ref(attempt.id)) == attempt.head_sha
    last = harness.store.events.since(run.id, 0)[-1].event
    assert isinstance(last, NoticeRaised)
    assert "Another process rewrote" in last.text


@pytest.mark.slow
async def test_a_recovery_that_is_killed_ends_a_lost_attempt_with_its_intent_or_not_at_all(harness, died):
    """SC-16, BX-3: killed at every reading of a clock; no attempt is left landing without an intent."""
    run, intent = died
    await harness.sh(f"git checkout -q --orphan other; git commit -qm other; git branch -f {run.session_branch}")
    looks, cut = 0, True
    while cut:
        clock = CutClock(looks)
        store = Store.open(harness.repo / ".git" / "scaffold" / "state.db", clock=clock)
        with closing(store), suppress(Cut):
            await resolve_intent(replace(harness.context, store=store, clock=clock), run, intent)
        cut = clock.cut
        (attempt,) = harness.attempts(run, "a")
        told = [text for text in harness.notices(run) if "Another process" in text]
        ended = (attempt.outcome, harness.statuses(run), len(told))
        left = harness.store.intents.open_of_run(run.id)
        assert ended == ((None, {"a": "landing"}, 0) if left else ("lost", {"a": "pending"}, 1))
        looks += 1
    assert looks > 3, "it was killed in several places"
    assert left == ()


@pytest.mark.slow
async def test_a_batch_lands_whole_or_not_at_all_wherever_its_owner_dies(harness):
    """BX-2, BX-3, BX-6, SC-16: killed at every reading of a clock; nothing is lost or repeated."""
    keys = ("a", "b", "c")
    run = await harness.own(goal("g", *(act(key, check=f"test -f {key}") for key in keys)), **UNSANDBOXED)
    attempts = [await harness.queue(run, key) for key in keys]
    for key, attempt in zip(keys, attempts, strict=True):
        await harness.run_attempt(attempt, {key: [f"echo x > {key}"]})
    looks, cut, seen = 0, True, set()
    while cut:
        clock = CutClock(looks)
        store = Store.open(harness.repo / ".git" / "scaffold" / "state.db", clock=clock)
        queue = MergeQueue(replace(harness.context, store=store, clock=clock), run)
        with closing(store), suppress(Cut):
            while store.attempts.waiting_to_land(run.id):
                await queue.step()
            await queue.end_proofs()
        cut = clock.cut
        landed = await harness.landed(run)
        seen.add((len(landed), len(harness.facts(run)), len(harness.store.intents.open_of_run(run.id))))
        # What has not landed is pinned, and what has landed is on the branch, before any recovery.
        pinned = await refs.list_refs(harness.context.git, "refs/scaffold/work/")
        assert len(pinned) + len(landed) == len(keys)
        run = await harness.take(harness.orphan(run))
        await recover_run(harness.context, run)
        assert harness.facts(run) == {f"{key}_done" for key in landed}
        looks += 1
    await MergeQueue(harness.context, run).close()
    assert await harness.landed(run) == list(keys)
    assert {(0, 0, 0), (3, 0, 3), (3, 3, 0)} <= seen
    assert {len(harness.attempts(run, key)) for key in keys} == {1}
