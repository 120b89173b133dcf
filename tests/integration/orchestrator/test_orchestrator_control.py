"""Control requests of a human from outside, with and without an owner."""

import asyncio
from contextlib import closing

import pytest
from inline_snapshot import snapshot

from scaffold.core.errors import UsageError
from scaffold.core.states import Cancelled, Completed, Failed, Paused, Running, Saved, status_of
from scaffold.git.checkouts import worktree
from scaffold.host.process_identity import identify
from scaffold.orchestrator.owner.run_end import finish_run, save_run, state_from_goals
from scaffold.orchestrator.user_control.execution_control import (
    halt_run,
    retry_action,
    retry_goal,
    retry_run,
    withdraw_pause,
)
from scaffold.run.failures.attempt_end import AttemptEnd, end_attempt
from scaffold.views.run_view import read_summary
from support.harness import act, goal, open_context, poll_until

CHAIN = (act("b", check="false"), act("c", needs=["b_done"]), act("d", needs=["c_done"]))


async def failed(harness, *actions, keys=("b",)):
    """Return a run that has failed because actions have used up their attempts, as its owner leaves it."""
    run = await harness.own(goal("g", *(actions or CHAIN)), attempts=1)
    with harness.store.transaction():
        for each in harness.store.actions.for_run(run.id):
            if each.kind == "compound":
                harness.store.actions.move(each.id, Running())
    for key in keys:
        attempt = await harness.queue(run, key)
        end_attempt(harness.store, run, attempt.id, AttemptEnd("contract_failed", "a check failed"))
    with harness.store.transaction():
        for each in harness.store.actions.for_run(run.id):
            if each.kind == "compound":
                harness.store.actions.move(each.id, Failed("its child failed"))
        harness.store.goals.move(harness.goal(run).id, Failed("an action failed"))
    assert isinstance(finish_run(harness.store, run, "done"), Failed)
    return harness.store.runs.get(run.id)


async def test_a_run_with_a_dead_owner_is_stopped_here(harness):
    """SC-16, AL-15: what it left is recovered, its worktrees are removed, and `resume` continues."""
    run = await harness.own(goal("g", act("a")))
    for kind, reason in (("stop", "stopped by the user"), ("pause", "paused by the user")):
        attempt = await harness.queue(run, "a")
        await worktree.add(harness.context.repository, harness.context.landing_folder(run.id), run.base_sha)
        run = harness.orphan(run)
        assert await halt_run(harness.context, run, kind, timeout_s=0.1) == Paused(reason)
        assert harness.attempt(attempt.id).outcome == "lost"
        assert harness.store.runs.get(run.id).owner is None
        assert await harness.worktrees() == 0
        run = await harness.take(run)
    assert (await harness.run_to_end(run, a=["echo x > a"])).state == Completed()


async def test_cancelling_without_an_owner_ends_everything_and_keeps_the_candidates_pin(harness):
    """BX-3, AL-15: candidates in the queue stay pinned; no worktree is left, nor that of the merge queue."""
    run = await harness.own(goal("g", act("a"), act("b", needs=["a_done"])))
    await harness.work(run, "a", "echo x > a")
    await worktree.add(harness.context.repository, harness.context.landing_folder(run.id), run.base_sha)
    run = harness.orphan(run)
    assert await halt_run(harness.context, run, "cancel", timeout_s=0.1) == Cancelled()
    assert harness.statuses(run) == {"a": "cancelled", "b": "cancelled"}
    assert await harness.sh("git for-each-ref --format='%(refname)' refs/scaffold/work") != ""
    assert await harness.worktrees() == 0
    with pytest.raises(UsageError, match="already cancelled"):
        await halt_run(harness.context, harness.store.runs.get(run.id), "stop", timeout_s=0.1)


async def test_a_failed_run_can_only_be_cancelled(harness):
    run = await failed(harness)
    with pytest.raises(UsageError, match="already failed"):
        await halt_run(harness.context, run, "pause", timeout_s=0.1)
    assert await halt_run(harness.context, run, "cancel", timeout_s=0.1) == Cancelled()
    with pytest.raises(UsageError, match="cancelled"):
        retry_action(harness.store, run, harness.action(run, "b"))
    assert harness.statuses(run)["b"] == "failed", "the refusal left no trace"


async def test_a_request_whose_owner_dies_is_executed_here(harness):
    """OR-10: the user does not have to repeat it, although the owner lived when it was asked."""
    run = await harness.open_run(goal("g", act("a")))
    with harness.store.transaction():
        harness.store.runs.take(run.id, identify(1), expected_fence=0)
    assert await halt_run(harness.context, harness.store.runs.get(run.id), "stop", timeout_s=0.05) is None
    assert harness.store.runs.control_request(run.id) == "stop"
    asked = asyncio.create_task(halt_run(harness.context, harness.store.runs.get(run.id), "cancel", timeout_s=10))
    await poll_until(lambda: harness.store.runs.control_request(run.id) == "cancel")
    harness.orphan(run)
    assert await asked == Cancelled()


async def test_a_living_owner_executes_a_request(harness):
    run = await harness.open_run(goal("g", act("a")))
    run_owner = await harness.recover_owner(run, {"a": ["sleep 60"]})
    carried = asyncio.create_task(run_owner.execute())
    await poll_until(lambda: [each.phase for each in harness.attempts(run, "a")] == ["executing"])
    # by its own connection, as another process: the owner looks for requests when another connection has written
    context = await open_context(harness.repo, cache=harness.context.cache, environ=harness.context.environ)
    with closing(context.store):
        assert await halt_run(context, context.store.runs.get(run.id), "cancel", timeout_s=10) == Cancelled()
    assert (await carried).cause == "cancelled"


@pytest.mark.slow
async def test_a_pause_is_withdrawn_as_long_as_work_is_running(harness):
    """SC-17, SC-19: `pause; resume` goes on with the same run."""
    run = await harness.open_run(goal("g", act("a"), act("b", needs=["a_done"])))
    waits = "until [ -e go ]; do sleep 0.05; done; rm go; echo x > a"
    run_owner = await harness.recover_owner(run, {"a": [waits], "b": ["echo x > b"]})
    carried = asyncio.create_task(run_owner.execute())
    await poll_until(lambda: [each.phase for each in harness.attempts(run, "a")] == ["executing"])
    context = await open_context(harness.repo, cache=harness.context.cache, environ=harness.context.environ)
    with closing(context.store):
        assert not await withdraw_pause(context, context.store.runs.get(run.id)), "nothing was asked for"
        assert await halt_run(context, context.store.runs.get(run.id), "pause", timeout_s=0.5) is None
        await poll_until(lambda: status_of(harness.goal(run).state) == "paused")
        assert read_summary(context, run).ending == snapshot("pausing, 1 agent is finishing")
        assert await withdraw_pause(context, context.store.runs.get(run.id))
        assert read_summary(context, run).ending == ""
    (harness.context.attempt_folder(run.id, harness.attempts(run, "a")[0].id) / "go").touch()
    assert (await carried).state == Completed()


async def test_a_pause_that_has_taken_effect_is_not_withdrawn(harness):
    run = await harness.open_run(goal("g", act("a")))
    await halt_run(harness.context, run, "pause", timeout_s=0.1)
    assert not await withdraw_pause(harness.context, harness.store.runs.get(run.id))
    assert harness.status(run) == "paused"


@pytest.mark.parametrize("retry", ["action", "goal", "run"])
async def test_a_retried_action_has_all_attempts_again_and_unblocks_its_dependents(harness, retry):
    """SC-20: also with its whole goal or run; the run is paused then, and can be resumed."""
    run = await failed(harness)
    assert harness.statuses(run) == {"b": "failed", "c": "blocked", "d": "blocked"}
    match retry:
        case "action":
            retry_action(harness.store, run, harness.action(run, "b"))
        case "goal":
            retry_goal(harness.store, run, harness.goal(run))
        case "run":
            retry_run(harness.store, run)
    assert harness.statuses(run) == {"b": "pending", "c": "pending", "d": "pending"}
    assert harness.store.actions.failures(harness.action(run, "b").id) == 0
    assert (harness.status(run), status_of(harness.goal(run).state)) == ("paused", "paused")


async def test_actions_blocked_by_another_failure_stay_blocked(harness):
    """AL-19: the reason names the remaining failure."""
    run = await failed(
        harness,
        act("b", check="false"),
        act("e", check="false"),
        act("c", needs=["b_done"]),
        act("d", needs=["c_done", "e_done"]),
        keys="be",
    )
    (e, b) = (harness.action(run, key) for key in "eb")
    assert status_of(e.state) == status_of(b.state) == "failed"
    retry_action(harness.store, run, b)
    assert harness.statuses(run) == {"b": "pending", "e": "failed", "c": "pending", "d": "blocked"}
    assert harness.action(run, "d").state.reason == f"dependency_failed:{e.id}"
    with pytest.raises(UsageError, match="`d` is blocked") as caught:
        retry_action(harness.store, run, harness.action(run, "d"))
    assert caught.value.fix == "Retry `e` instead."


@pytest.mark.parametrize("key", ["phase", "b"])
async def test_a_compound_and_its_children_are_retried_together(harness, key):
    """SC-5: a child cannot run while its parent has failed, and a parent not succeed while its child has."""
    run = await failed(
        harness, act("phase", kind="compound", effects=("b_done",)), act("b", parent="phase", check="false")
    )
    assert harness.statuses(run) == {"phase": "failed", "b": "failed"}
    retry_action(harness.store, run, harness.action(run, key))
    assert harness.statuses(run) == {"phase": "pending", "b": "pending"}


async def test_only_failures_can_be_retried(harness):
    run = await failed(harness)
    with pytest.raises(UsageError, match="`c` is blocked") as caught:
        retry_action(harness.store, run, harness.action(run, "c"))
    assert caught.value.fix == "Retry `b` instead."
    retry_run(harness.store, run)
    for again, named in (
        (lambda: retry_action(harness.store, run, harness.action(run, "b")), "`b` is pending, not failed"),
        (lambda: retry_goal(harness.store, run, harness.goal(run)), "the goal `g` is paused, not failed"),
        (lambda: retry_run(harness.store, harness.store.runs.get(run.id)), "is paused, not failed"),
    ):
        with pytest.raises(UsageError, match=named):
            again()


async def test_the_end_of_a_run_follows_from_its_goals(harness):
    """SC-3: completed when all are, failed when one is, open while one is."""
    run = await harness.own(goal("g", act("a")), goal("h", act("b")))
    first, second = harness.store.goals.for_run(run.id)
    assert state_from_goals(harness.store, run.id) is None
    harness.move(first, Completed())
    assert state_from_goals(harness.store, run.id) is None
    harness.move(second, Failed("no way"))
    assert state_from_goals(harness.store, run.id) == Failed("h: no way")
    assert finish_run(harness.store, run, "stopped") == Failed("h: no way"), "the verdict counts, whatever the cause"
    assert harness.store.runs.get(run.id).owner is None


@pytest.mark.slow
async def test_a_saved_run_waits_and_can_be_started(harness):
    """SC-19: it is no paused run, which `resume` alone continues."""
    run = await harness.open_run(goal("g", act("a")))
    save_run(harness.context, run.id)
    assert (harness.status(run), status_of(harness.goal(run).state)) == ("saved", "paused")
    assert await halt_run(harness.context, run, "pause", timeout_s=0.1) == Saved()
    assert (await harness.run_to_end(run, a=["echo x > a"])).state == Completed()


async def test_a_run_cancelled_before_its_final_gates_is_cancelled(harness):
    """SC-16: its goals are over, but it is not proven as a whole; a pause that was asked for instead pauses it."""
    for cause, expected in (("cancelled", Cancelled()), ("paused", Paused("paused by the user"))):
        run = await harness.own(goal("g", act("a")))
        harness.move(harness.goal(run), Completed())
        assert finish_run(harness.store, run, cause) == expected
        assert harness.store.runs.get(run.id).state == expected
        assert harness.goal(run).state == Completed()


async def test_a_goal_retried_during_a_cancellation_is_cancelled_too(harness):
    """SC-16: it was open when the run ended."""
    run = await harness.own(goal("g", act("a")))
    assert finish_run(harness.store, run, "cancelled", "proven") == Cancelled()
    assert (harness.statuses(run), harness.goal(run).state) == ({"a": "cancelled"}, Cancelled())
