"""The baseline of a run and the gates at its end: real gates in a small repository."""

import asyncio

import pytest
from inline_snapshot import snapshot

from scaffold.core.errors import EnvironmentNotReady, StaleFence
from scaffold.core.events import AttemptQueued, BaselineCaptured
from scaffold.core.proof.gates import Gate
from scaffold.core.states import Completed, Failed, Paused, Skipped
from scaffold.landing.queue.merge_queue import MergeQueue
from scaffold.landing.queue.step_result import BatchLanded
from scaffold.orchestrator.owner.run_baseline import ensure_baseline
from scaffold.orchestrator.supervisor.goal_view import read_goal_view
from scaffold.orchestrator.user_control.execution_control import retry_run
from scaffold.plan.decide import Dispatch, decide
from support.harness import UNSANDBOXED, act, goal

GATE = Gate(kind="test", command="grep -q two list", runner="exit")
MORE = "grep -q more list"


def gated(command=GATE.command, **settings):
    """Return the settings of a run whose one gate is a command."""
    given = Gate(kind="test", command=command, runner="exit")
    return {"given_gates": (given,), **UNSANDBOXED, **settings}


async def test_a_repository_without_gates_has_an_empty_baseline_and_needs_no_worktree(harness, tmp_path):
    """AL-10: stored all the same, so that detection runs once; gates that are disabled do not run either."""
    for settings in ({}, gated(f"touch {tmp_path}/ran") | {"gates": False}):
        run = await harness.own(goal("g", act("a")), **settings)
        await ensure_baseline(harness.context, run)
        assert harness.store.baselines.for_run(run.id).runs == ()
        assert not harness.context.landing_folder(run.id).exists()
    assert not (tmp_path / "ran").exists()


@pytest.mark.slow
async def test_the_gates_are_known_before_the_first_attempt(harness):
    """AL-10: captured at the base, reported, mirrored for people, and the worktree is removed.

    BX-1, AL-9: a gate that allows the work is evidence beside its contract.
    """
    run = await harness.open_run(goal("g", act("a", check=MORE)), **gated())
    ending = await harness.run_to_end(run, a=["echo more >> list"])
    assert ending.state == Completed()
    kept = harness.events(run)
    captured = next(at for at, event in enumerate(kept) if isinstance(event, BaselineCaptured))
    assert captured < next(at for at, event in enumerate(kept) if isinstance(event, AttemptQueued))
    assert (kept[captured].gate, kept[captured].commit, kept[captured].reused) == ("test", run.base_sha, False)
    assert (harness.context.projections.path / "baselines" / f"{run.id}.json").read_bytes().startswith(b"{")
    (fact,) = harness.store.facts.for_goal(harness.action(run, "a").goal_id)
    assert [(each.kind, each.command) for each in fact.evidence] == [("contract", MORE), ("gate", GATE.command)]
    assert await harness.worktrees(spare=False) == 0


async def test_a_known_baseline_is_not_captured_again(harness, tmp_path):
    """AL-10: a resumed run does not run the gates at its base again, nor does another run of the same base."""
    count = tmp_path / "count"
    settings = gated(f"echo x >> {count}")
    run = await harness.own(goal("g", act("a")), **settings)
    await ensure_baseline(harness.context, run)
    await ensure_baseline(harness.context, run)
    other = await harness.own(goal("g", act("a")), **settings)
    await ensure_baseline(harness.context, other)
    assert count.read_text() == "x\n"
    assert [each.reused for each in harness.events(other, BaselineCaptured)] == [True]


@pytest.mark.slow
async def test_a_gate_that_cannot_run_ends_the_run_before_money_is_spent(harness, tmp_path):
    """AL-10: environment_not_ready; nothing was queued; once fixed, it can be retried and resumed."""
    tool = tmp_path / "gate-tool"
    run = await harness.open_run(goal("g", act("a", check=MORE)), **gated(str(tool)))
    with pytest.raises(EnvironmentNotReady) as caught:
        await harness.run_to_end(run, a=["echo more >> list"])
    assert caught.value.what.startswith("environment_not_ready: ")
    assert f"scaffold retry {run.id}" in caught.value.fix
    assert isinstance(harness.store.runs.get(run.id).state, Failed)
    assert harness.store.runs.get(run.id).owner is None
    assert harness.events(run, AttemptQueued) == []
    assert harness.store.baselines.for_run(run.id) is None
    assert await harness.worktrees() == 0
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    retry_run(harness.store, harness.store.runs.get(run.id))
    assert isinstance(harness.store.runs.get(run.id).state, Paused)
    assert (await harness.run_to_end(run, a=["echo more >> list"])).state == Completed()


@pytest.mark.slow
async def test_an_interrupted_baseline_leaves_a_run_that_can_continue(harness, tmp_path):
    """AL-10, SC-18: no comparison uses half a baseline."""
    go, begun = tmp_path / "go", tmp_path / "begun"
    run = await harness.open_run(goal("g", act("a")), **gated(f"touch {begun}; test -f {go} || sleep 60"))
    run_owner = await harness.recover_owner(run, {"a": ["echo more >> list"]})
    carried = asyncio.create_task(run_owner.execute())
    while not begun.exists():  # noqa: ASYNC110 - a command rings no bell
        await asyncio.sleep(0.01)
    run_owner.request_stop("stopped")
    ending = await asyncio.wait_for(carried, 10)
    assert isinstance(ending.state, Paused)
    assert harness.store.baselines.for_run(run.id) is None
    assert await harness.worktrees() == 0
    go.touch()
    assert (await harness.run_to_end(run, a=["echo more >> list"])).state == Completed()


async def landed(harness, run):
    """Have `a` landed and its goal completed, by an owner that stops there."""
    mine = await harness.take(run)
    await ensure_baseline(harness.context, mine)
    queue = MergeQueue(harness.context, mine)
    await harness.work(mine, "a", "echo x > a")
    step = await queue.step()
    assert isinstance(step, BatchLanded), step
    await queue.close()
    with harness.store.transaction():
        harness.store.goals.move(harness.action(mine, "a").goal_id, Completed())


async def others_commit(harness, run, command):
    await harness.sh(f"git checkout -q {run.session_branch}; {command}; git commit -qam mine; git checkout -q main")


@pytest.mark.slow
async def test_a_failing_final_gate_fails_the_run_until_it_is_fixed(harness):
    """AL-11, AL-14: all gates once at the end; the branch and the facts stay, and retry runs the gates again."""
    run = await harness.open_run(goal("g", act("a", check="test -f a")), **gated())
    await landed(harness, run)
    await others_commit(harness, run, "echo > list")
    ending = await harness.run_to_end(run)
    assert isinstance(ending.state, Failed)
    assert ending.state.reason.startswith("gates: ")
    assert harness.facts(run) == {"a_done"}
    await others_commit(harness, run, "echo two > list")
    retry_run(harness.store, harness.store.runs.get(run.id))
    assert (await harness.run_to_end(run)).state == Completed()


@pytest.mark.slow
async def test_gates_that_ran_completely_at_the_landing_are_not_run_again_at_the_end(harness, tmp_path):
    """AL-11, AL-14: outside of the worker they run once at the base and once at the landing."""
    count = tmp_path / "count"
    run = await harness.open_run(
        goal("g", act("a", check=MORE)), **gated(f"grep -q one list && echo $SCAFFOLD_ATTEMPT- >> {count}")
    )
    assert (await harness.run_to_end(run, a=["echo more >> list"])).state == Completed()
    assert count.read_text().split().count("-") == 2


@pytest.mark.slow
async def test_a_run_stopped_before_its_final_gates_is_not_completed(harness):
    """AL-11: paused, although all its goals are complete."""
    run = await harness.open_run(goal("g", act("a", check="test -f a")), **gated())
    await landed(harness, run)
    run_owner = await harness.recover_owner(run, {})
    run_owner.request_stop("stopped")
    assert isinstance((await run_owner.execute()).state, Paused)
    assert (await harness.run_to_end(run)).state == Completed()


@pytest.mark.slow
async def test_a_fact_broken_by_a_user_is_provided_again_before_the_run_ends(harness):
    """BX-1: an action whose effect a commit on the session branch broke is redone."""
    run = await harness.open_run(goal("g", act("a", check="test -f a")), **gated())
    await landed(harness, run)
    await others_commit(harness, run, "git rm -q a")
    ending = await harness.run_to_end(run, a=["echo x > a"])
    assert ending.state == Completed()
    assert [each.outcome for each in harness.attempts(run, "a")] == ["landed", "landed"]
    assert await harness.show(f"{run.session_branch}:a") == "x"


@pytest.mark.slow
async def test_a_candidate_that_fails_a_gate_is_refused(harness):
    """AL-9, AL-10: a regression against the baseline blocks, reported as such."""
    run = await harness.open_run(goal("g", act("a", check=MORE)), **gated(attempts=1))
    ending = await harness.run_to_end(run, a=["echo more > list"])
    assert isinstance(ending.state, Failed)
    assert [each.outcome for each in harness.attempts(run, "a")] == ["gate_failed"]
    assert harness.facts(run) == set()


async def test_a_superseded_owner_captures_nothing(harness):
    """BX-8."""
    run = await harness.own(goal("g", act("a")), **gated())
    harness.orphan(run)
    with pytest.raises(StaleFence):
        await ensure_baseline(harness.context, run)
    assert harness.store.baselines.for_run(run.id) is None


async def test_a_goal_is_not_given_up_while_one_of_its_facts_is_rechecked(harness):
    """BX-1: a stale fact counts neither as true nor as lost; once it is refuted, its provider can start."""
    run = await harness.open_run(goal("g", act("a", check="test -f a"), act("b")), **gated())
    mine = await harness.take(run)
    queue = MergeQueue(harness.context, mine)
    await harness.work(mine, "a", "echo x > a")
    assert isinstance(await queue.step(), BatchLanded)
    with harness.store.transaction():
        harness.store.actions.move(harness.action(mine, "b").id, Skipped("not needed"))
        harness.store.facts.invalidate(harness.action(mine, "a").goal_id, "a_done", "stale")
    (one,) = harness.store.goals.for_run(mine.id)
    assert decide(read_goal_view(harness.store, mine, one)) == ()
    await others_commit(harness, mine, "git rm -q a")
    await queue.recheck_facts()
    assert decide(read_goal_view(harness.store, mine, one)) == (Dispatch(harness.action(mine, "a").id),)


@pytest.mark.slow
async def test_a_weak_fact_is_shown_again_by_the_gates(harness):
    """BX-1, BX-5: a weak fact whose paths are touched stays weak, and says which gates allowed the change."""
    run = await harness.open_run(goal("g", act("a"), act("b", needs=["a_done"], check="grep -q again list")), **gated())
    await harness.run_to_end(run, a=["echo more >> list"], b=["echo again >> list"])
    facts = {each.assertion: each for each in harness.store.facts.for_goal(harness.action(run, "a").goal_id)}
    assert facts["a_done"].strength == "weak"
    assert facts["a_done"].commit == facts["b_done"].commit
    assert [(each.kind, each.commit == facts["b_done"].commit) for each in facts["a_done"].evidence] == [
        ("gate", True),
        ("change", False),
    ]


async def test_a_slow_setup_is_announced_before_it_runs(harness):
    """AL-10: the user can see what a run waits for."""
    run = await harness.own(goal("g", act("a")), setup=("true",), trusted=True, **UNSANDBOXED)
    await ensure_baseline(harness.context, run)
    assert harness.notices(run) == snapshot(["Setting up the check environment: true"])
