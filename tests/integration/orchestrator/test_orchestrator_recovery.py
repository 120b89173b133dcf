"""Recovery of what a dead owner left half done."""

import asyncio

import pytest

from scaffold.core.errors import RepositoryError
from scaffold.core.events import NoticeRaised
from scaffold.core.states import Completed, status_of
from scaffold.git import refs
from scaffold.git.checkouts import worktree
from scaffold.host.process.child import start_child
from scaffold.host.process_identity import is_alive
from scaffold.landing.queue.merge_queue import MergeQueue
from scaffold.orchestrator.owner.recovery.interrupted_run import ensure_session_branch, recover_run, release_attempt
from scaffold.orchestrator.supervisor.goal_loop import Supervisor
from scaffold.orchestrator.supervisor.wakeup import Wakeup
from scaffold.run.failures.attempt_end import AttemptEnd, end_attempt
from scaffold.store.database import Store
from support.harness import DEAD_PROCESS, NoPlanner, act, goal


async def executing(harness, run, key, *, worker=DEAD_PROCESS):
    """Return an attempt whose worker wrote `half` and stopped there."""
    attempt = await harness.queue(run, key)
    path = harness.context.attempt_folder(run.id, attempt.id)
    await worktree.add(harness.context.repository, path, attempt.base_sha)
    harness.claim(attempt, "executing", worktree=str(path), worker=worker)
    (path / "half").write_text("done\n")
    return attempt


async def test_an_orphaned_attempt_is_returned_with_its_work_pinned(harness):
    """SC-16, OR-10, BX-3, AL-19: `orphaned_by_crash`, which does not count as a failure; the next one sees the work."""
    run = await harness.own(goal("g", act("a")))
    attempt = await executing(harness, run, "a")
    run = await harness.take(harness.orphan(run))
    assert [await recover_run(harness.context, run) for _ in range(3)] == [1, 0, 0]
    ended = harness.attempt(attempt.id)
    assert (ended.outcome, ended.error) == ("lost", "orphaned_by_crash")
    assert await harness.show(f"{ended.head_sha}:half") == "done"
    assert harness.statuses(run) == {"a": "pending"}
    assert harness.store.actions.failures(harness.action(run, "a").id) == 0
    assert await harness.worktrees() == 0
    assert isinstance(harness.store.events.since(run.id, 0)[-1].event, NoticeRaised)
    assert "+done" in (await harness.queue(run, "a")).briefing


async def test_an_attempt_killed_between_pin_and_record_keeps_its_work(harness):
    """BX-3: the pin is found again although its worktree is gone."""
    run = await harness.own(goal("g", act("a")))
    attempt = await executing(harness, run, "a")
    await refs.pin(harness.context.git, refs.rescue_ref(attempt.id), attempt.base_sha)
    await worktree.remove(harness.context.repository, harness.context.attempt_folder(run.id, attempt.id))
    await recover_run(harness.context, run)
    assert harness.attempt(attempt.id).head_sha == attempt.base_sha


async def test_a_worker_that_outlived_its_owner_is_killed_first(harness, tmp_path):
    """OR-10, BX-8: no process may write into a worktree that is removed."""
    run = await harness.own(goal("g", act("a")))
    child = await start_child(["sleep", "60"], cwd=tmp_path, env={"PATH": "/usr/bin:/bin"}, log=tmp_path / "log")
    await executing(harness, run, "a", worker=child.identity)
    await recover_run(harness.context, run)
    assert not is_alive(child.identity)
    assert await child.wait() == -9


@pytest.mark.slow
async def test_a_candidate_of_a_dead_owner_stays_in_the_queue(harness):
    """SC-16: verified work lands, and is not redone."""
    run = await harness.own(goal("g", act("a")))
    await harness.work(run, "a", "echo x > a")
    (attempt,) = harness.attempts(run, "a")
    path = harness.context.attempt_folder(run.id, attempt.id)
    await worktree.add(harness.context.repository, path, attempt.head_sha)  # killed before it was removed
    harness.orphan(run)
    assert (await harness.run_to_end(run)).state == Completed()
    assert [each.outcome for each in harness.attempts(run, "a")] == ["landed"]
    assert await refs.list_refs(harness.context.git, "refs/scaffold/") == {}
    assert await harness.worktrees() == 0


@pytest.mark.slow
async def test_a_candidate_submitted_just_before_the_kill_is_kept(harness):
    """BX-2: killed a moment too late, the candidate counts."""
    run = await harness.own(goal("g", act("a")))
    attempt = await harness.queue(run, "a")
    await harness.run_attempt(attempt, {"a": ["echo x > a"]})
    await release_attempt(harness.context, run, attempt, outcome="lost", error="killed")
    assert harness.statuses(run) == {"a": "landing"}
    assert harness.attempt(attempt.id).status == "claimed"


@pytest.mark.slow
async def test_the_session_branch_is_created_once_and_must_keep_landed_work(harness):
    """BX-2, AL-12: without landings it is created; otherwise it must exist and contain them."""
    run = await harness.own(goal("g", act("a")))
    await harness.sh(f"git branch -D {run.session_branch}")
    await ensure_session_branch(harness.context, run)
    assert await harness.tip(run) == run.base_sha
    await harness.work(run, "a", "echo x > a")
    await MergeQueue(harness.context, run).step()
    tip = await harness.tip(run)
    await ensure_session_branch(harness.context, run)
    await harness.sh(f"git branch -f {run.session_branch} {run.session_branch}~1")
    with pytest.raises(RepositoryError, match="no longer contains"):
        await ensure_session_branch(harness.context, run)
    await harness.sh(f"git branch -D {run.session_branch}")
    with pytest.raises(RepositoryError, match="no longer exists") as caught:
        await ensure_session_branch(harness.context, run)
    assert tip in caught.value.fix


@pytest.fixture
def rival(harness):
    """Return the store of another process, which does not wait for a lock."""
    opened = Store.open(harness.repo / ".git/scaffold/state.db", clock=harness.clock, timeout_s=0.01)
    yield opened
    opened.close()


async def decide_once(harness, run):
    """Let a supervisor look at the run's goal once, and return the goal as it is then."""
    (the_goal,) = harness.store.goals.for_run(run.id)
    supervisor = Supervisor(harness.context, run, the_goal.id, Wakeup(), planner=NoPlanner(), tell=lambda: None)
    pursuing = asyncio.create_task(supervisor.run())
    await asyncio.sleep(0)
    pursuing.cancel()
    await asyncio.wait([pursuing])
    return harness.store.goals.get(the_goal.id)


async def test_a_supervisor_decides_on_one_state_and_holds_up_nobody_who_writes(harness, rival):
    """OR-3, SC-16: without a snapshot, the attempt that ends meanwhile would be seen neither running nor pending."""
    run = await harness.own(goal("g", act("a")), agents=2)
    attempt = await harness.queue(run, "a")
    ready, written = harness.store.scheduling.ready, []

    def ready_then_rival(goal_id):
        found = [*ready(goal_id)]
        end_attempt(rival, run, attempt.id, AttemptEnd("lost", "just now"), fence=attempt.fence)
        written.append(True)
        harness.store.scheduling.ready = ready
        return iter(found)

    harness.store.scheduling.ready = ready_then_rival
    assert status_of((await decide_once(harness, run)).state) == "active"
    assert written, "the write lock was free"


async def test_what_others_write_after_the_decision_counts_when_it_is_stored(harness, rival):
    """OR-3, SC-3: a goal is not completed by a decision that is no longer right."""
    run = await harness.own(goal("g", act("a")))
    (the_goal,) = harness.store.goals.for_run(run.id)
    with harness.store.transaction():
        harness.store.facts.record(the_goal.id, "a_done", commit=run.base_sha, paths=(), evidence=())
    transaction, refuted = harness.store.transaction, []

    def rival_then_transaction(**given):
        if not refuted:
            with rival.transaction():
                rival.facts.invalidate(the_goal.id, "a_done", "refuted")
            refuted.append(True)
        return transaction(**given)

    harness.store.transaction = rival_then_transaction
    assert status_of((await decide_once(harness, run)).state) == "active"
    assert refuted
    with transaction():
        harness.store.facts.record(the_goal.id, "a_done", commit=run.base_sha, paths=(), evidence=())
    assert status_of((await decide_once(harness, run)).state) == "completed"
