"""Whole runs: supervisors, workers and landings together, in one process, independent of real time."""

import asyncio

import pytest
from inline_snapshot import snapshot

from builders import with_settings
from scaffold.core.errors import ScaffoldError
from scaffold.core.plan import ActionSpec
from scaffold.core.states import WORKER_PHASES, Active, Cancelled, Completed, Failed, Paused, status_of
from scaffold.orchestrator.dispatch import queue_attempt
from scaffold.orchestrator.owner.processes.worker_exits import MAX_STARTUP_RETRIES
from scaffold.orchestrator.owner.run_lease import take_over_run
from scaffold.orchestrator.owner.run_loop import RunEnding, recover_run_owner
from scaffold.orchestrator.owner.watch.faults import FaultRepeater
from scaffold.orchestrator.user_control.execution_control import retry_action
from support.harness import UNSANDBOXED, act, goal, poll_until
from support.task_engine import TaskEngine

TRIES = 1 + MAX_STARTUP_RETRIES


def phase(*children: ActionSpec, **fields):
    return act("phase", kind="compound", **fields), *children


async def owner_of(harness, run, work):
    """Own a run whose workers are this function, and return its owner."""
    owned = take_over_run(harness.context, run.id)
    return await recover_run_owner(harness.context, owned, TaskEngine(work, harness.supervise))


def goals(harness, run):
    return {each.name: status_of(each.state) for each in harness.store.goals.for_run(run.id)}


@pytest.mark.slow
async def test_a_plan_is_executed_in_the_order_of_its_preconditions(harness):
    """SC-3, SC-4, OR-3: no edges are given; facts make actions ready, and the goal is reached when all hold."""
    run = await harness.open_run(
        goal("shop", act("ui", needs=["api_done"]), act("api", needs=["store_done"]), act("store")),
        goal("docs", act("guide")),
    )
    ending = await harness.run_to_end(
        run,
        store=["echo x > store"],
        api=["test -f store && echo x > api"],
        ui=["test -f api && echo x > ui"],
        guide=["echo x > guide"],
    )
    assert ending == RunEnding(state=Completed(), cause="done")
    order = await harness.landed(run)
    assert sorted(order) == ["api", "guide", "store", "ui"]
    assert [key for key in order if key != "guide"] == ["store", "api", "ui"]
    assert goals(harness, run) == {"shop": "completed", "docs": "completed"}
    assert (harness.status(run), harness.store.runs.get(run.id).owner) == ("completed", None)
    assert await harness.worktrees() == 0


@pytest.mark.slow
async def test_a_compound_whose_children_end_without_its_effects_fails_with_the_reason(harness):
    """SC-5, SC-20: without a planner the gap cannot be closed; its dependents are blocked."""
    run = await harness.open_run(
        goal(
            "g",
            *phase(act("one", parent="phase", check="false"), effects=("one_done",)),
            act("after", needs=["one_done"]),
        ),
        attempts=1,
    )
    ending = await harness.run_to_end(run, one=["echo 1 > 1"])
    assert isinstance(ending.state, Failed)
    assert harness.statuses(run) == {"phase": "failed", "one": "failed", "after": "blocked"}
    assert "without `one_done`" in harness.action(run, "phase").state.reason


@pytest.mark.slow
async def test_a_failed_goal_does_not_stop_another(harness):
    """OR-8, AL-19: goals are independent; the run says which one failed."""
    run = await harness.open_run(
        goal("bad", act("b", check="false")), goal("good", act("g1"), act("g2", needs=["g1_done"])), attempts=1
    )
    ending = await harness.run_to_end(run, b=["echo x > b"], g1=["echo x > g1"], g2=["echo x > g2"])
    assert isinstance(ending.state, Failed)
    assert ending.state.reason.startswith("bad: `b_done` cannot be reached: `b` failed permanently")
    assert goals(harness, run) == {"bad": "failed", "good": "completed"}


@pytest.mark.slow
async def test_own_failures_use_up_the_attempts_and_a_later_success_lands(harness):
    """SC-20: the third attempt may still succeed, with the lessons of the second."""
    tries = "n=$(GIT_CONFIG_GLOBAL=/dev/null git for-each-ref refs/scaffold/rescue | wc -l); echo $n > a"
    run = await harness.open_run(goal("g", act("a", check="grep -q 2 a")))
    assert (await harness.run_to_end(run, a=[tries])).state == Completed()
    attempts = harness.attempts(run, "a")
    assert [each.outcome for each in attempts] == ["contract_failed", "contract_failed", "landed"]
    assert "+1" in attempts[2].briefing


@pytest.mark.slow
async def test_the_caps_of_run_and_goal_limit_the_agents(harness):
    """SC-15: three for a goal, four for this run; the caps hold in the transaction that fills them."""
    run = await harness.open_run(
        goal("g", *(act(f"g{n}") for n in range(5))), goal("h", *(act(f"h{n}") for n in range(3))), agents=4
    )
    names = {action.id: action.key for action in harness.store.actions.for_run(run.id)}
    crowds: list[list[str]] = []
    full = asyncio.Event()

    async def work(attempt):
        attempts = harness.store.attempts.open_of_run(run.id)
        crowds.append([names[each.action_id] for each in attempts if each.phase in WORKER_PHASES])
        if len(crowds[-1]) == 4:
            full.set()
        await full.wait()
        key = names[attempt.action_id]
        await harness.run_attempt(attempt, {key: [f"echo x > {key}"]})
        return 0

    run_owner = await owner_of(harness, run, work)
    async with asyncio.timeout(30):
        assert (await run_owner.execute()).state == Completed()
    assert max(len(crowd) for crowd in crowds) == 4
    assert max(sum(key.startswith("g") for key in crowd) for crowd in crowds) <= 3


@pytest.mark.slow
async def test_an_exhausted_budget_pauses_the_run_and_a_higher_one_finishes_it(harness):
    """SC-16: start and resume are the same operation."""
    run = await harness.open_run(goal("g", act("a"), act("b", needs=["a_done"])), budget_usd=1.5)
    turns = {"a": ["echo x > a"], "b": ["echo x > b"]}
    ending = await harness.run_to_end(run, usd=1.0, **turns)
    assert (ending.cause, harness.statuses(run)) == ("limit", {"a": "completed", "b": "pending"})
    assert isinstance(ending.state, Paused)
    assert harness.attempts(run, "b")[0].outcome == "budget"
    assert (await harness.run_to_end(run, **turns)).cause == "limit"
    with harness.store.transaction():
        harness.store.runs.configure(run.id, with_settings(run.settings, budget_usd=100.0))
    assert (await harness.run_to_end(run, usd=1.0, **turns)).state == Completed()


@pytest.mark.slow
async def test_stopping_pins_running_work_and_resuming_finishes_it(harness):
    """SC-16, BX-3."""
    run = await harness.open_run(goal("g", act("a"), act("b")), **UNSANDBOXED)
    mark = harness.repo.parent / "begun"
    run_owner = await harness.recover_owner(
        run, {"a": ["echo x > a"], "b": [f"echo half > b; touch '{mark}'; sleep 60"]}
    )
    carried = asyncio.create_task(run_owner.execute())
    await poll_until(lambda: mark.exists() and harness.statuses(run)["a"] == "completed")
    run_owner.request_stop("stopped")
    ending = await carried
    assert (type(ending.state), ending.cause) == (Paused, "stopped")
    (stopped,) = harness.attempts(run, "b")
    assert stopped.outcome == "cancelled"
    assert await harness.show(f"{stopped.head_sha}:b") == "half"
    assert await harness.worktrees() == 0
    assert (await harness.run_to_end(run, b=["echo x > b"])).state == Completed()


async def test_pausing_lets_running_attempts_finish_and_land(harness):
    run = await harness.open_run(goal("g", act("a"), act("b", needs=["a_done"])))
    run_owner = await harness.recover_owner(run, {"a": ["sleep 0.2; echo x > a"], "b": ["echo x > b"]})
    carried = asyncio.create_task(run_owner.execute())
    await poll_until(lambda: [each.phase for each in harness.attempts(run, "a")] == ["executing"])
    with harness.store.transaction():
        harness.store.runs.ask(run.id, "pause")
    run_owner.request_stop("paused")
    assert (await carried).cause == "paused"
    assert harness.statuses(run) == {"a": "completed", "b": "pending"}


async def test_a_run_stops_although_a_queued_attempt_never_began(harness):
    """SC-16: an attempt without a worker is not waited for; it starts again with the run."""
    run = await harness.open_run(goal("g", act("a")))
    run_owner = await harness.recover_owner(run, {"a": ["echo x > a"]})
    action = harness.action(run, "a")
    with harness.store.transaction():
        harness.store.goals.move(action.goal_id, Active())
    assert await queue_attempt(harness.context, harness.store.runs.get(run.id), action.goal_id, action.id)
    run_owner.request_stop("paused")
    async with asyncio.timeout(30):
        assert (await run_owner.execute()).cause == "paused"
    assert [each.outcome for each in harness.attempts(run, "a")] == ["cancelled"]
    assert (await harness.run_to_end(run, a=["echo x > a"])).state == Completed()


async def test_an_action_cancelled_after_the_decision_does_not_start(harness):
    """BX-8, SC-16"""
    run = await harness.own(goal("g", act("a")))
    action = harness.action(run, "a")
    harness.move(action, Cancelled())
    assert await queue_attempt(harness.context, run, action.goal_id, action.id) is None
    assert harness.attempts(run, "a") == ()


@pytest.mark.slow
async def test_cancelling_is_final_and_keeps_landed_work(harness):
    run = await harness.open_run(goal("g", act("a"), act("b", needs=["a_done"])))
    run_owner = await harness.recover_owner(run, {"a": ["echo x > a"], "b": ["sleep 60"]})
    carried = asyncio.create_task(run_owner.execute())
    await poll_until(lambda: harness.statuses(run)["b"] == "running")
    run_owner.request_stop("cancelled")
    assert (await carried).cause == "cancelled"
    assert harness.statuses(run) == {"a": "completed", "b": "cancelled"}
    assert await harness.landed(run) == ["a"]


@pytest.mark.slow
async def test_a_branch_that_stays_checked_out_pauses_the_run_until_its_release(harness, tmp_path):
    """AL-12: landing waits for the user, the run does not."""
    run = await harness.open_run(goal("g", act("a")))
    await harness.sh(f"git branch {run.session_branch}; git worktree add -q '{tmp_path}/mine' {run.session_branch}")
    ending = await harness.run_to_end(run, a=["echo x > a"])
    assert ending.cause == "held"
    assert harness.statuses(run) == {"a": "landing"}
    await harness.sh(f"git worktree remove '{tmp_path}/mine'")
    assert (await harness.run_to_end(run)).state == Completed()
    assert [each.outcome for each in harness.attempts(run, "a")] == ["landed"]


@pytest.mark.slow
async def test_a_ready_but_unneeded_action_does_not_keep_a_held_run_waiting(harness, tmp_path):
    """AL-12: the goal is reached, a candidate is held, and the rest will never start."""
    wanted = goal("g", act("a"), act("x"), act("y", needs=["a_done"]), wants=["a_done"])
    run = await harness.open_run(wanted, agents=2, **UNSANDBOXED)
    go = tmp_path / "go"
    slow = f"while ! test -f '{go}'; do sleep 0.05; done; echo x > x"
    run_owner = await harness.recover_owner(run, {"a": ["echo x > a"], "x": [slow]})
    carried = asyncio.create_task(run_owner.execute())
    await poll_until(lambda: harness.statuses(run)["a"] == "completed")
    await harness.sh(f"git worktree add -q '{tmp_path}/mine' {run.session_branch}")
    go.write_text("")
    async with asyncio.timeout(10):
        assert (await carried).cause == "held"
    assert harness.statuses(run) == {"a": "completed", "x": "landing", "y": "pending"}


@pytest.mark.slow
async def test_a_goal_retried_during_the_run_is_supervised_again(harness):
    """SC-16: a supervisor for every active goal, although it had ended before."""
    run = await harness.open_run(
        goal("bad", act("b", check=f"test -f '{harness.repo}/now'")), goal("slow", act("s")), attempts=1, **UNSANDBOXED
    )
    go = harness.repo.parent / "go"
    slow = f"while ! test -f '{go}'; do sleep 0.05; done; echo x > s"
    run_owner = await harness.recover_owner(run, {"b": ["date +%N > b"], "s": [slow]})
    carried = asyncio.create_task(run_owner.execute())
    await poll_until(lambda: goals(harness, run)["bad"] == "failed")
    (harness.repo / "now").write_text("")
    retry_action(harness.store, run, harness.action(run, "b"))
    run_owner._wakeup.notify_all()
    await poll_until(lambda: harness.statuses(run)["b"] == "completed")
    go.write_text("")
    assert (await carried).state == Completed()


@pytest.mark.slow
async def test_a_worker_that_dies_silently_is_accounted_for(harness):
    """SC-20, AL-20: it has died, by a signal or an exit code, and did not fail; one that never began starts again."""
    run = await harness.open_run(goal("g", act("a")))
    codes = iter([*[-9] * TRIES, *[3] * TRIES, 0])

    async def work(attempt):
        if code := next(codes):
            return code
        await harness.run_attempt(attempt, {"a": ["echo x > a"]})
        return 0

    run_owner = await owner_of(harness, run, work)
    assert (await run_owner.execute()).state == Completed()
    killed, exited, landed = harness.attempts(run, "a")
    assert (killed.outcome, exited.outcome, landed.outcome) == ("lost", "lost", "landed")
    assert killed.error == snapshot("the worker exited with signal 9 in phase workspace.")
    assert exited.error == snapshot("the worker exited with exit code 3 in phase workspace.")
    assert harness.store.actions.failures(landed.action_id) == 0


async def test_a_run_waits_for_what_its_workers_write_after_their_attempts(harness):
    """DR-9: patches and notes, though nothing else is left to do."""
    run = await harness.open_run(goal("g", act("a", check="false")), attempts=1)
    written = []

    async def work(attempt):
        await harness.run_attempt(attempt, {"a": ["echo x > a"]})
        await poll_until(lambda: isinstance(harness.goal(run).state, Failed))
        # The owner has seen the end of its last goal by the time that this loop is over.
        for _ in range(1_000):
            await asyncio.sleep(0)
        written.append(attempt.id)
        return 0

    ending = await (await owner_of(harness, run, work)).execute()
    assert isinstance(ending.state, Failed)
    assert written == [each.id for each in harness.attempts(run, "a")]


@pytest.mark.slow
async def test_a_worker_that_misses_its_deadline_is_ended(harness):
    run = await harness.open_run(goal("g", act("a")), attempts=1, attempt_timeout_s=-120.0)

    async def work(attempt):
        await asyncio.Event().wait()
        return 0

    run_owner = await owner_of(harness, run, work)
    assert isinstance((await run_owner.execute()).state, Failed)
    assert harness.attempts(run, "a")[0].outcome == "timeout"


@pytest.mark.slow
async def test_a_machine_that_cannot_start_processes_is_an_error_that_can_be_resumed(harness):
    """No child, task or candidate is left behind; the run can continue later."""

    class Barren(TaskEngine):
        async def start_attempt(self, attempt):
            raise OSError(11, "Resource temporarily unavailable")

    run = await harness.open_run(goal("g", act("a")))
    before = asyncio.all_tasks()
    owned = take_over_run(harness.context, run.id)
    run_owner = await recover_run_owner(
        harness.context,
        owned,
        Barren(None, harness.supervise),
        faults=FaultRepeater(harness.context, owned, fault_s=1.0),
    )
    with pytest.raises(ScaffoldError, match=r"cannot continue: .*temporarily unavailable") as caught:
        await run_owner.execute()
    assert "scaffold resume" in caught.value.fix
    assert asyncio.all_tasks() == before
    assert (await harness.run_to_end(run, a=["echo x > a"])).state == Completed()
    assert [each.outcome for each in harness.attempts(run, "a")] == ["lost", "landed"]


async def test_a_request_between_takeover_and_start_is_executed(harness):
    run = await harness.open_run(goal("g", act("a")))
    run_owner = await harness.recover_owner(run, {"a": ["echo x > a"]})
    with harness.store.transaction():
        harness.store.runs.ask(run.id, "stop")
    assert (await run_owner.execute()).cause == "stopped"
