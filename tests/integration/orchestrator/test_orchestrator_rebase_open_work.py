"""`rebase` with work that has not landed: it goes on from the new base, without the commits of the former one."""

import pytest
from inline_snapshot import snapshot

from integration.orchestrator.test_orchestrator_steps import story
from integration.worker.test_worker_continued_turn import begin, continued, waited
from scaffold.core.errors import UsageError
from scaffold.core.ids import Commit
from scaffold.core.learning import Learning, Triple
from scaffold.core.states import Running
from scaffold.git.commits import changed_paths
from scaffold.landing.queue.forecast import Forecaster
from scaffold.landing.queue.merge_queue import BatchLanded, CandidateRefused, MergeQueue
from scaffold.landing.queue.step_result import StepRecorded
from scaffold.landing.taking.land import LandWish, prepare
from scaffold.landing.taking.rebase import keep_former, plan_rebase
from scaffold.landing.taking.revert import move_session_branch
from scaffold.orchestrator.briefing import attempt_briefing
from scaffold.orchestrator.owner.run_lease import release_run
from scaffold.orchestrator.user_control.session_changes import rebase_run
from scaffold.worker.attempt_records import CandidateReady
from support.harness import UNSANDBOXED, act, goal

MOVED_ON = "echo theirs > other; echo top > README"
UNRELATED = "git checkout -q --orphan anew; git branch -M main; echo theirs > other; echo top > README"
"""A base branch without any commit of the former one, as after a force-push of a new history."""


def actions(**of_b):
    return act("a", check="test -f a"), act("b", check="test -f b", **of_b)


async def with_candidate(harness, *specs, lands="echo x > a", waits="echo y > b"):
    """Land `a`, hand in `b`, and release the run; return it."""
    run = await harness.own(goal("g", *specs))
    await harness.work(run, "a", lands)
    assert isinstance(await MergeQueue(harness.context, run).step(), BatchLanded)
    assert isinstance(await harness.work(run, "b", waits), CandidateReady)
    release_run(harness.store, run)
    return run


async def rebased(harness, run, command):
    """Commit on the base branch, and carry the run over; return what changed, and the run with a new owner."""
    await harness.sh(f"{command}; git add -A; git commit -qm theirs")
    done = await rebase_run(harness.context, harness.store.runs.get(run.id))
    return done, await harness.take(run)


@pytest.mark.parametrize("command", [MOVED_ON, UNRELATED])
@pytest.mark.slow
async def test_a_candidate_lands_on_the_new_base_with_its_own_change_alone(harness, command):
    """BX-2, BX-1: proven there, whether the base branch moved on or has another history; the worker's proof is old."""
    run = await with_candidate(harness, *actions())
    before = harness.attempts(run, "b")[-1]
    done, run = await rebased(harness, run, command)
    assert [(each.action, each.kind, each.conflicts) for each in done.open_work] == [("b", "candidate", ())]
    waits = harness.attempts(run, "b")[-1]
    assert (waits.base_sha, waits.head_sha, waits.phase) == (before.base_sha, before.head_sha, "candidate")
    queue = MergeQueue(harness.context, run)
    assert isinstance(await queue.step(), BatchLanded)
    tip = await harness.tip(run)
    assert await changed_paths(harness.context.git, f"{tip}^", tip) == ("b",)
    assert await changed_paths(harness.context.git, run.base_sha, tip) == ("a", "b")
    assert (await harness.show(f"{tip}:other"), harness.facts(run)) == ("theirs", {"a_done", "b_done"})
    (fact,) = [fact for fact in harness.store.facts.for_goal(waits_goal(harness, run)) if fact.assertion == "b_done"]
    assert fact.commit == tip
    release_run(harness.store, run)
    assert (await prepare(harness.context, run, LandWish(how="ff", message=""))).is_proven


def waits_goal(harness, run):
    return harness.action(run, "b").goal_id


@pytest.mark.slow
async def test_work_of_an_action_that_conflicts_does_not_come_back_with_a_candidate(harness):
    """BX-2, AL-16: the candidate was made on top of it, and lands without it; what it taught counts no more."""
    run = await with_candidate(harness, *actions(), lands="echo ours > a; echo ours > shared")
    now, gone = harness.clock.now(), harness.attempts(run, "a")[-1].id
    learning = Learning(id="l", triple=Triple("x", "y"), source="agent", attempt=gone, created_at=now, changed_at=now)
    with harness.store.transaction():
        harness.store.learnings.put(learning)
    done, run = await rebased(harness, run, "echo theirs > shared")
    assert harness.store.learnings.get("l").unconfirmed
    assert (done.open_again, [each.action for each in done.open_work]) == (("a",), ["b"])
    assert isinstance(await MergeQueue(harness.context, run).step(), BatchLanded)
    tip = await harness.tip(run)
    assert await changed_paths(harness.context.git, run.base_sha, tip) == ("b",)
    assert await harness.show(f"{tip}:shared") == "theirs"


@pytest.mark.slow
async def test_a_candidate_that_builds_on_work_that_is_done_again_is_not_blamed_for_its_absence(harness):
    """BX-1: it would fail its own checks there; its work is pinned, and no failure is counted."""
    run = await with_candidate(harness, *actions(needs=["a_done"]), lands="echo ours > a")
    done, run = await rebased(harness, run, "echo theirs > a")
    assert (done.open_again, dict(done.withdrawn), done.open_work) == snapshot(
        (("a",), {"b": "builds on work that is done again: a_done"}, ())
    )
    last = harness.attempts(run, "b")[-1]
    assert (last.outcome, harness.statuses(run)["b"], harness.store.actions.failures(last.action_id)) == (
        "conflict",
        "pending",
        0,
    )
    assert f"refs/scaffold/work/{last.id}" in await harness.sh("git for-each-ref")


@pytest.mark.slow
async def test_a_candidate_that_conflicts_with_the_new_base_is_told_and_done_again_with_both_changes(harness):
    """AL-13: as each conflict, by the queue; the next attempt sees what both sides changed."""
    run = await with_candidate(harness, *actions(), waits="sed -i s/two/mine/ list; echo y > b")
    done, run = await rebased(harness, run, "sed -i s/two/theirs/ list")
    assert [(each.action, each.conflicts) for each in done.open_work] == [("b", ("list",))]
    step = await MergeQueue(harness.context, run).step()
    assert isinstance(step, CandidateRefused)
    assert step.outcome == "conflict"
    told = await attempt_briefing(harness.context, harness.attempts(run, "b"), await harness.tip(run))
    assert ("+mine" in told, "+theirs" in told, "y > b" in told) == (True, True, False)


@pytest.mark.slow
async def test_work_that_waited_for_a_human_continues_on_the_new_base(harness):
    """BX-13: its files are there with those of the new base, whose changes it is told about."""
    run = await begin(harness)
    await waited(harness, run, ("ask_human", {"question": "Which word?"}))
    release_run(harness.store, run)
    done, run = await rebased(harness, run, UNRELATED)
    assert [(each.action, each.kind, each.conflicts) for each in done.open_work] == [("a", "continued", ())]
    ending, (request, *_) = await continued(harness, run)
    assert isinstance(ending, CandidateReady)
    assert "other" in str(request.messages[-1])
    last = harness.attempts(run, "a")[-1]
    assert await changed_paths(harness.context.git, last.base_sha, last.head_sha) == ("a",)


@pytest.mark.slow
async def test_forecasts_compare_changes_and_not_bases(harness):
    """AL-4: work of both bases conflicts only where the changes do."""
    run = await with_candidate(harness, *actions(), act("c"))
    _, run = await rebased(harness, run, UNRELATED)
    assert isinstance(await harness.work(run, "c", "echo z > c"), CandidateReady)
    candidates = harness.store.attempts.waiting_to_land(run.id)
    assert len(candidates) == 2
    folder = harness.context.temporary_folder(run.id)
    forecaster = Forecaster(harness.context.git, folder=folder, is_union=lambda _: False, rebased=True)
    found = await forecaster.conflicts(candidates, await harness.tip(run))
    assert not any(found.values())


@pytest.mark.parametrize("rewritten", [False, True])
async def test_a_forecast_takes_no_change_of_the_new_base_for_one_of_the_work(harness, tmp_path, rewritten):
    """AL-4: one side was made on the former base, the other on the new one, which changed the same lines."""

    async def committed(change, start):
        await harness.sh(f"git checkout -q --detach {start}; {change}; git add -A; git commit -qm work")
        return Commit(await harness.sh("git rev-parse HEAD"))

    before = await committed("seq 20 > list", "HEAD")
    former = await committed("sed -i '10s/.*/X/' list", before)
    new = await committed("sed -i '10s/.*/Y/' list", before if rewritten else former)
    old_work, new_work = await committed("echo w > w", former), await committed("sed -i '10s/.*/Z/' list", new)
    git, bases = harness.context.git, {old_work: former, new_work: new}
    for one, other in ((old_work, new_work), (new_work, old_work)):
        forecaster = Forecaster(git, folder=tmp_path, is_union=lambda _: False, rebased=True)
        assert await forecaster.between(one, other, new, bases=(bases[one], bases[other])) == ()


async def test_a_run_without_any_work_is_refused(harness):
    """BX-2: neither landed nor open."""
    run = await harness.own(goal("g", *actions()))
    release_run(harness.store, run)
    with pytest.raises(UsageError, match="no work"):
        await rebased(harness, run, MOVED_ON)


@pytest.mark.slow
async def test_a_run_whose_only_work_is_a_candidate_is_carried_over(harness):
    """BX-2: nothing has landed yet."""
    run = await harness.own(goal("g", *actions()))
    await harness.work(run, "b", "echo y > b")
    release_run(harness.store, run)
    done, run = await rebased(harness, run, MOVED_ON)
    assert (done.carried, done.commit) == ((), done.base)
    assert isinstance(await MergeQueue(harness.context, run).step(), BatchLanded)
    assert await changed_paths(harness.context.git, run.base_sha, await harness.tip(run)) == ("b",)


@pytest.mark.slow
async def test_a_candidate_whose_change_the_new_base_has_is_done_once_its_checks_pass_there(harness):
    """BX-1, BX-2: an agent would find nothing to change, and fail; it has no commit of its own, as landed work then."""
    run = await with_candidate(harness, *actions())
    done, run = await rebased(harness, run, "echo y > b")
    assert ([each.action for each in done.in_base], done.open_work) == (["b"], ())
    assert (harness.statuses(run)["b"], harness.attempts(run, "b")[-1].head_sha) == ("completed", None)
    assert harness.facts(run) == set()
    await MergeQueue(harness.context, run).step()
    assert harness.facts(run) == {"a_done", "b_done"}
    assert await changed_paths(harness.context.git, run.base_sha, await harness.tip(run)) == ("a",)


@pytest.mark.slow
async def test_a_compound_whose_steps_have_begun_lands_what_they_made_alone(harness):
    """DR-10, BX-2: steps that are done stay done, and what else the former base had is no part of their work."""
    run = await harness.own(goal("g", act("a", check="test -f a"), *story()), **UNSANDBOXED)
    await harness.work(run, "a", "echo x > a; echo ours > shared")
    assert isinstance(await MergeQueue(harness.context, run).step(), BatchLanded)
    harness.move(harness.action(run, "s"), Running())
    for key, command in (("look", "echo found > notes"), ("write", "echo six >> list")):
        await harness.work(run, f"s/{key}", command)
        assert isinstance(await MergeQueue(harness.context, run).step(), StepRecorded)
    release_run(harness.store, run)
    done, run = await rebased(harness, run, f"{UNRELATED}; echo theirs > shared")
    assert (done.open_again, [(each.action, each.kind, each.conflicts) for each in done.open_work]) == (
        ("a",),
        [("s/write", "step", ())],
    )
    assert isinstance(await harness.work(run, "s/finish", "true"), CandidateReady)
    assert isinstance(await MergeQueue(harness.context, run).step(), BatchLanded)
    tip = await harness.tip(run)
    assert await changed_paths(harness.context.git, run.base_sha, tip) == ("list", "notes")


@pytest.mark.slow
async def test_a_kill_after_the_branch_was_carried_over_is_made_up_for(harness):
    """BX-15: the same command records it, and tells what becomes of the candidates, those in the new base included."""
    run = await with_candidate(harness, *actions(), act("c"))
    run = await harness.take(run)
    assert isinstance(await harness.work(run, "c", "echo z > c"), CandidateReady)
    await harness.sh("echo y > b; git add -A; git commit -qm theirs")
    move = await plan_rebase(harness.context, run)
    await keep_former(harness.context, run, move)
    await move_session_branch(harness.context, run, move)
    release_run(harness.store, run)
    done = await rebase_run(harness.context, harness.store.runs.get(run.id))
    assert ([each.action for each in done.in_base], [each.action for each in done.open_work]) == (["b"], ["c"])
    assert await rebase_run(harness.context, harness.store.runs.get(run.id)) is None
