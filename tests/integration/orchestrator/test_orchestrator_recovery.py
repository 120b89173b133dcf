"""Whatever a dead owner leaves half done, work goes on from there."""

import asyncio

import pytest

from fakes import GHOST, Thoughtless, act, goal
from scaffold.core.errors import RepositoryError, StoreError
from scaffold.core.events import NoticeRaised
from scaffold.core.states import Completed, status_of
from scaffold.git import refs, worktree
from scaffold.host.identity import identify, is_alive
from scaffold.host.process.child import start_child
from scaffold.landing.merge_queue import MergeQueue
from scaffold.orchestrator.owner.recovery import ensure_session_branch, recover_run, release_attempt
from scaffold.orchestrator.supervisor.goal_loop import Supervisor
from scaffold.orchestrator.wakeup import Wakeup
from scaffold.run.attempt_end import end_attempt
from scaffold.store.database import Store


async def executing(house, run, key, *, worker=GHOST):
    """Return an attempt whose worker wrote `half` and got no further."""
    attempt = await house.queue(run, key)
    path = house.site.attempt_folder(run.id, attempt.id)
    await worktree.add(house.site.repository, path, attempt.base_sha)
    with house.store.transaction():
        store = house.store.attempts
        store.claim(attempt.id, fence=attempt.fence, worker=worker, worktree=str(path), log_file="")
        store.advance(attempt.id, fence=attempt.fence, phase="executing")
    (path / "half").write_text("done\n")
    return attempt


async def test_an_orphan_is_put_back_with_its_work_pinned(house):
    """SC-16, OR-10, BX-3, AL-19: `orphaned_by_crash`, no attempt lost to it, and the next one sees the work."""
    run = await house.own(goal("g", act("a")))
    attempt = await executing(house, run, "a")
    run = await house.take(house.orphan(run))
    assert await recover_run(house.site, run) == 1
    ended = house.attempt(attempt.id)
    assert (ended.outcome, ended.error) == ("lost", "orphaned_by_crash")
    assert await house.show(f"{ended.head_sha}:half") == "done"
    assert house.statuses(run) == {"a": "pending"}
    assert house.store.actions.failures(house.action(run, "a").id) == 0
    assert await house.worktrees() == 0
    assert isinstance(house.store.events.since(run.id, 0)[-1].event, NoticeRaised)
    assert "+done" in (await house.queue(run, "a")).briefing


async def test_recovery_may_be_repeated(house):
    run = await house.own(goal("g", act("a")))
    await executing(house, run, "a")
    assert [await recover_run(house.site, run) for _ in range(3)] == [1, 0, 0]


async def test_killed_between_pin_and_record_the_attempt_still_knows_its_work(house):
    """BX-3: the pin is found again though its worktree is gone."""
    run = await house.own(goal("g", act("a")))
    attempt = await executing(house, run, "a")
    await refs.pin(house.site.git, refs.rescue_ref(attempt.id), attempt.base_sha)
    await worktree.remove(house.site.repository, house.site.attempt_folder(run.id, attempt.id))
    await recover_run(house.site, run)
    assert house.attempt(attempt.id).head_sha == attempt.base_sha


async def test_a_worker_that_outlived_its_owner_is_killed_first(house, tmp_path):
    """OR-10, BX-8: nobody writes into a worktree that is being put away."""
    run = await house.own(goal("g", act("a")))
    child = await start_child(["sleep", "60"], cwd=tmp_path, env={"PATH": "/usr/bin:/bin"}, log=tmp_path / "log")
    await executing(house, run, "a", worker=child.identity)
    await recover_run(house.site, run)
    assert not is_alive(child.identity)
    assert await child.wait() == -9


async def test_a_candidate_of_a_dead_owner_stays_in_the_queue(house):
    """SC-16: what was verified is landed, not done again."""
    run = await house.own(goal("g", act("a")))
    await house.work(run, "a", "echo x > a")
    (attempt,) = house.attempts(run, "a")
    path = house.site.attempt_folder(run.id, attempt.id)
    await worktree.add(house.site.repository, path, attempt.head_sha)  # killed before it was removed
    house.orphan(run)
    assert (await house.carry_out(run)).state == Completed()
    assert [each.outcome for each in house.attempts(run, "a")] == ["landed"]
    assert await refs.list_refs(house.site.git, "refs/scaffold/") == {}
    assert await house.worktrees() == 0


async def test_what_a_workers_last_breath_handed_in_is_not_put_back(house):
    """BX-2: killed a moment too late, the candidate counts."""
    run = await house.own(goal("g", act("a")))
    attempt = await house.queue(run, "a")
    await house.carry_attempt_out(attempt, {"a": ["echo x > a"]})
    await release_attempt(house.site, run, attempt, outcome="lost", error="killed")
    assert house.statuses(run) == {"a": "landing"}
    assert house.attempt(attempt.id).status == "claimed"


async def test_a_worktree_that_no_attempt_knows_is_removed(house):
    run = await house.own(goal("g", act("a")))
    stray = house.site.run_folder(run.id) / "attempts" / "stray"
    await worktree.add(house.site.repository, stray, run.base_sha)
    await recover_run(house.site, run)
    assert not stray.exists()


async def test_an_attempt_that_nobody_claimed_is_put_back(house):
    run = await house.own(goal("g", act("a")))
    attempt = await house.queue(run, "a")
    await recover_run(house.site, run)
    assert (house.attempt(attempt.id).outcome, house.statuses(run)) == ("lost", {"a": "pending"})


async def test_the_session_branch_is_made_once_and_must_keep_what_landed(house):
    """BX-2, AL-12: nothing has landed, it is made; something has, it must be there with all of it."""
    run = await house.own(goal("g", act("a"), act("b", needs=["a_done"])))
    await house.sh(f"git branch -D {run.session_branch}")
    await ensure_session_branch(house.site, run)
    assert await house.tip(run) == run.base_sha
    for key in ("a", "b"):
        await house.work(run, key, f"echo x > {key}")
        await MergeQueue(house.site, run).step()
    tip = await house.tip(run)
    await ensure_session_branch(house.site, run)
    await house.sh(f"git branch -f {run.session_branch} {run.session_branch}~1")
    with pytest.raises(RepositoryError, match="no longer contains"):
        await ensure_session_branch(house.site, run)
    await house.sh(f"git branch -D {run.session_branch}")
    with pytest.raises(RepositoryError, match="does not exist any more") as caught:
        await ensure_session_branch(house.site, run)
    assert tip in caught.value.fix


async def test_nobody_writes_between_a_supervisors_look_and_its_decision(house):
    """OR-3, SC-16: a worker that gives up in that moment would be seen neither running nor pending."""
    run = await house.own(goal("g", act("a")))
    attempt = await house.queue(run, "a")
    rival = Store.open(house.repo / ".git/scaffold/state.db", clock=house.clock, patience_s=0.01)
    ready, refused = house.store.actions.ready, []

    def ready_then_rival(goal_id, limit):
        found = ready(goal_id, limit)
        try:
            end_attempt(rival, run, attempt.id, "lost", error="just now", fence=attempt.fence)
        except StoreError as trouble:
            refused.append(trouble)
        return found

    house.store.actions.ready = ready_then_rival
    (goal_id,) = (each.id for each in house.store.goals.of_run(run.id))
    supervisor = Supervisor(house.site, run, goal_id, Wakeup(), thinks=Thoughtless(), tell=lambda: None)
    pursuing = asyncio.create_task(supervisor.run())
    await asyncio.sleep(0)
    pursuing.cancel()
    rival.close()
    assert refused
    assert status_of(house.store.goals.get(goal_id).state) == "active"


async def test_identities_of_ghosts_are_dead(house):
    assert not is_alive(GHOST)
    assert identify(1) != GHOST
