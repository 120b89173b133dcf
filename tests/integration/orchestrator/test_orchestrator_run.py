"""Whole runs: supervisors, workers and landings together, in one process, without a clock that matters."""

import asyncio

import pytest

from builders import with_settings
from scaffold.core.errors import RunBusy, ScaffoldError
from scaffold.core.plan import ActionSpec
from scaffold.core.states import WORKER_PHASES, Active, Cancelled, Completed, Failed, Paused, status_of
from scaffold.host.identity import identify
from scaffold.orchestrator.dispatch import queue_attempt
from scaffold.orchestrator.owner.attempt_launcher import MAX_STARTUP_RETRIES
from scaffold.orchestrator.owner.control import retry_action
from scaffold.orchestrator.owner.run_lease import take_over_run
from scaffold.orchestrator.owner.run_loop import RunEnding, recover_run_owner
from scaffold.orchestrator.owner.task_engine import TaskEngine
from support.harness import UNHELD, act, goal, until

TRIES = 1 + MAX_STARTUP_RETRIES


def phase(*children: ActionSpec, **fields):
    return act("phase", kind="compound", **fields), *children


def goals(harness, run):
    return {each.name: status_of(each.state) for each in harness.store.goals.of_run(run.id)}


async def test_a_plan_is_carried_out_in_the_order_of_its_needs(harness):
    """SC-3, SC-4, OR-3: no edges are given; facts open the way, and the goal is reached when all hold."""
    run = await harness.lay_out(
        goal("shop", act("ui", needs=["api_done"]), act("api", needs=["store_done"]), act("store")),
        goal("docs", act("guide")),
    )
    ending = await harness.carry_out(
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


async def test_a_compound_opens_its_children_and_completes_with_them(harness):
    """SC-5: children wait for it; it is done when they are and its effects hold."""
    run = await harness.lay_out(
        goal(
            "g",
            *phase(act("one", parent="phase"), act("two", parent="phase", needs=["one_done"]), effects=("two_done",)),
        )
    )
    assert (await harness.carry_out(run, one=["echo 1 > 1"], two=["echo 2 > 2"])).state == Completed()
    assert harness.statuses(run) == {"phase": "completed", "one": "completed", "two": "completed"}


async def test_a_compound_whose_children_end_without_its_effects_fails_with_the_reason(harness):
    """SC-5, SC-20: without a planner the gap cannot be closed; what needs it is blocked."""
    run = await harness.lay_out(
        goal(
            "g",
            *phase(act("one", parent="phase", check="false"), effects=("one_done",)),
            act("after", needs=["one_done"]),
        ),
        attempts=1,
    )
    ending = await harness.carry_out(run, one=["echo 1 > 1"])
    assert isinstance(ending.state, Failed)
    assert harness.statuses(run) == {"phase": "failed", "one": "failed", "after": "blocked"}
    assert "without `one_done`" in harness.action(run, "phase").state.reason


async def test_what_a_reached_goal_does_not_need_is_skipped(harness):
    """SC-3: complete when the goal state holds, mechanically."""
    run = await harness.lay_out(goal("g", act("a"), act("more", needs=["a_done"]), wants=["a_done"]))
    assert (await harness.carry_out(run, a=["echo x > a"])).state == Completed()
    assert harness.statuses(run) == {"a": "completed", "more": "skipped"}


async def test_a_failed_goal_does_not_keep_another_from_its_end(harness):
    """OR-8, AL-19: each goal for itself; the run tells which one failed."""
    run = await harness.lay_out(
        goal("bad", act("b", check="false")), goal("good", act("g1"), act("g2", needs=["g1_done"])), attempts=1
    )
    ending = await harness.carry_out(run, b=["echo x > b"], g1=["echo x > g1"], g2=["echo x > g2"])
    assert isinstance(ending.state, Failed)
    assert ending.state.reason.startswith("bad: `b_done` cannot be reached: `b` failed for good")
    assert goals(harness, run) == {"bad": "failed", "good": "completed"}


async def test_own_failures_use_up_the_attempts_and_what_is_left_lands(harness):
    """SC-20: the third attempt may still succeed, with what the second one showed."""
    tries = "n=$(GIT_CONFIG_GLOBAL=/dev/null git for-each-ref refs/scaffold/rescue | wc -l); echo $n > a"
    run = await harness.lay_out(goal("g", act("a", check="grep -q 2 a")))
    assert (await harness.carry_out(run, a=[tries])).state == Completed()
    attempts = harness.attempts(run, "a")
    assert [each.outcome for each in attempts] == ["contract_failed", "contract_failed", "landed"]
    assert "Attempt 2 ended: contract_failed" in attempts[2].briefing
    assert "+1" in attempts[2].briefing


async def test_as_many_agents_work_as_the_run_and_the_goal_allow_and_no_more(harness):
    """SC-15: three for a goal, four for this run; the caps hold in the transaction that fills them."""
    run = await harness.lay_out(
        goal("g", *(act(f"g{n}") for n in range(5))), goal("h", *(act(f"h{n}") for n in range(3))), agents=4
    )
    names = {action.id: action.key for action in harness.store.actions.of_run(run.id)}
    crowds: list[list[str]] = []
    full = asyncio.Event()

    async def work(attempt):
        attempts = harness.store.attempts.open_of_run(run.id)
        crowds.append([names[each.action_id] for each in attempts if each.phase in WORKER_PHASES])
        if len(crowds[-1]) == 4:
            full.set()
        await full.wait()
        key = names[attempt.action_id]
        await harness.carry_attempt_out(attempt, {key: [f"echo x > {key}"]})
        return 0

    conductor = await recover_run_owner(
        harness.site, take_over_run(harness.site, run.id), TaskEngine(work, harness.pursue)
    )
    async with asyncio.timeout(30):
        assert (await conductor.execute()).state == Completed()
    assert max(len(crowd) for crowd in crowds) == 4
    assert max(sum(key.startswith("g") for key in crowd) for crowd in crowds) <= 3


async def test_a_spent_budget_pauses_the_run_and_more_money_finishes_it(harness):
    """SC-16: start and resume are the same thing."""
    run = await harness.lay_out(goal("g", act("a"), act("b", needs=["a_done"])), budget_usd=1.5)
    turns = {"a": ["echo x > a"], "b": ["echo x > b"]}
    ending = await harness.carry_out(run, usd=1.0, **turns)
    assert (ending.cause, harness.statuses(run)) == ("limit", {"a": "completed", "b": "pending"})
    assert ending.state == Paused("the budget is used up")
    assert harness.attempts(run, "b")[0].outcome == "budget"
    assert (await harness.carry_out(run, **turns)).cause == "limit"
    with harness.store.transaction():
        harness.store.runs.configure(run.id, with_settings(run.settings, budget_usd=100.0))
    assert (await harness.carry_out(run, usd=1.0, **turns)).state == Completed()


async def test_stopping_pins_what_runs_and_resuming_finishes_it(harness):
    """SC-16, BX-3."""
    run = await harness.lay_out(goal("g", act("a"), act("b")), **UNHELD)
    mark = harness.repo.parent / "begun"
    conductor = await harness.conductor(run, {"a": ["echo x > a"], "b": [f"echo half > b; touch '{mark}'; sleep 60"]})
    carried = asyncio.create_task(conductor.execute())
    await until(lambda: mark.exists() and harness.statuses(run)["a"] == "completed")
    conductor.request_stop("stopped")
    assert (await carried) == RunEnding(state=Paused("stopped by the user"), cause="stopped")
    (stopped,) = harness.attempts(run, "b")
    assert stopped.outcome == "cancelled"
    assert await harness.show(f"{stopped.head_sha}:b") == "half"
    assert await harness.worktrees() == 0
    assert (await harness.carry_out(run, b=["echo x > b"])).state == Completed()


async def test_pausing_lets_what_runs_finish_and_land(harness):
    run = await harness.lay_out(goal("g", act("a"), act("b", needs=["a_done"])))
    conductor = await harness.conductor(run, {"a": ["sleep 0.2; echo x > a"], "b": ["echo x > b"]})
    carried = asyncio.create_task(conductor.execute())
    await until(lambda: harness.statuses(run)["a"] == "running")
    with harness.store.transaction():
        harness.store.runs.ask(run.id, "pause")
    conductor.request_stop("paused")
    assert (await carried).cause == "paused"
    assert harness.statuses(run) == {"a": "completed", "b": "pending"}


async def test_a_run_is_put_down_though_a_supervisor_queued_what_nobody_began(harness):
    """SC-16: an attempt without a worker is not waited for; it starts anew with the run."""
    run = await harness.lay_out(goal("g", act("a")))
    conductor = await harness.conductor(run, {"a": ["echo x > a"]})
    action = harness.action(run, "a")
    with harness.store.transaction():
        harness.store.goals.move(action.goal_id, Active())
    assert await queue_attempt(harness.site, harness.store.runs.get(run.id), action.goal_id, action.id)
    conductor.request_stop("paused")
    async with asyncio.timeout(30):
        assert (await conductor.execute()).cause == "paused"
    assert [each.outcome for each in harness.attempts(run, "a")] == ["cancelled"]
    assert (await harness.carry_out(run, a=["echo x > a"])).state == Completed()


async def test_nothing_starts_for_an_action_that_was_cancelled_since_it_was_decided(harness):
    """BX-8, SC-16"""
    run = await harness.own(goal("g", act("a")))
    action = harness.action(run, "a")
    with harness.store.transaction():
        harness.store.actions.move(action.id, Cancelled())
    assert await queue_attempt(harness.site, run, action.goal_id, action.id) is None
    assert harness.attempts(run, "a") == ()


async def test_cancelling_is_final_and_keeps_what_landed(harness):
    run = await harness.lay_out(goal("g", act("a"), act("b", needs=["a_done"])))
    conductor = await harness.conductor(run, {"a": ["echo x > a"], "b": ["sleep 60"]})
    carried = asyncio.create_task(conductor.execute())
    await until(lambda: harness.statuses(run)["b"] == "running")
    conductor.request_stop("cancelled")
    assert (await carried).cause == "cancelled"
    assert harness.statuses(run) == {"a": "completed", "b": "cancelled"}
    assert await harness.landed(run) == ["a"]


async def test_a_branch_that_stays_checked_out_puts_the_run_down_and_its_release_finishes_it(harness, tmp_path):
    """AL-12: landing waits for the user, the run does not."""
    run = await harness.lay_out(goal("g", act("a")))
    await harness.sh(f"git branch {run.session_branch}; git worktree add -q '{tmp_path}/mine' {run.session_branch}")
    ending = await harness.carry_out(run, a=["echo x > a"])
    assert ending.cause == "held"
    assert harness.statuses(run) == {"a": "landing"}
    await harness.sh(f"git worktree remove '{tmp_path}/mine'")
    assert (await harness.carry_out(run)).state == Completed()
    assert [each.outcome for each in harness.attempts(run, "a")] == ["landed"]


async def test_what_is_ready_but_not_needed_keeps_no_held_run_waiting(harness, tmp_path):
    """AL-12: the goal is reached, a candidate is held, and nobody will ever start the rest."""
    wanted = goal("g", act("a"), act("x"), act("y", needs=["a_done"]), wants=["a_done"])
    run = await harness.lay_out(wanted, agents=2, **UNHELD)
    go = tmp_path / "go"
    slow = f"while ! test -f '{go}'; do sleep 0.05; done; echo x > x"
    conductor = await harness.conductor(run, {"a": ["echo x > a"], "x": [slow]})
    carried = asyncio.create_task(conductor.execute())
    await until(lambda: harness.statuses(run)["a"] == "completed")
    await harness.sh(f"git worktree add -q '{tmp_path}/mine' {run.session_branch}")
    go.write_text("")
    async with asyncio.timeout(10):
        assert (await carried).cause == "held"
    assert harness.statuses(run) == {"a": "completed", "x": "landing", "y": "pending"}


async def test_a_goal_that_is_retried_while_the_run_goes_on_is_taken_up_again(harness):
    """SC-16: a supervisor of every active goal, though it had ended before."""
    run = await harness.lay_out(
        goal("bad", act("b", check=f"test -f '{harness.repo}/now'")), goal("slow", act("s")), attempts=1, **UNHELD
    )
    go = harness.repo.parent / "go"
    slow = f"while ! test -f '{go}'; do sleep 0.05; done; echo x > s"
    conductor = await harness.conductor(run, {"b": ["date +%N > b"], "s": [slow]})
    carried = asyncio.create_task(conductor.execute())
    await until(lambda: goals(harness, run)["bad"] == "failed")
    (harness.repo / "now").write_text("")
    retry_action(harness.store, run, harness.action(run, "b"))
    conductor._wakeup.notify_all()
    await until(lambda: harness.statuses(run)["b"] == "completed")
    go.write_text("")
    assert (await carried).state == Completed()


async def test_a_worker_that_fails_without_a_word_is_accounted_for(harness):
    """SC-20, AL-20: an exit code is its own failure, a signal nobody's; who never began is started again unseen."""
    run = await harness.lay_out(goal("g", act("a")))
    codes = iter([*[-9] * TRIES, *[3] * TRIES, 0])

    async def work(attempt):
        if code := next(codes):
            return code
        await harness.carry_attempt_out(attempt, {"a": ["echo x > a"]})
        return 0

    conductor = await recover_run_owner(
        harness.site, take_over_run(harness.site, run.id), TaskEngine(work, harness.pursue)
    )
    assert (await conductor.execute()).state == Completed()
    lost, failed, landed = harness.attempts(run, "a")
    assert (lost.outcome, failed.outcome, landed.outcome) == ("lost", "executor_failed", "landed")
    assert lost.error == "the worker exited with signal 9 in phase workspace."
    assert failed.error == "the worker exited with exit code 3 in phase workspace."


async def test_a_worker_that_is_killed_every_time_is_given_up(harness):
    """The loop ends: after many losses in a row it is the action's own failure."""
    run = await harness.lay_out(goal("g", act("a")), attempts=1)

    async def work(attempt):
        return -9

    conductor = await recover_run_owner(
        harness.site, take_over_run(harness.site, run.id), TaskEngine(work, harness.pursue)
    )
    assert isinstance((await conductor.execute()).state, Failed)
    outcomes = [each.outcome for each in harness.attempts(run, "a")]
    assert outcomes == ["lost"] * 19 + ["executor_failed"]


@pytest.mark.slow
async def test_a_worker_that_does_not_notice_its_deadline_is_ended(harness):
    run = await harness.lay_out(goal("g", act("a")), attempts=1, attempt_timeout_s=-120.0)

    async def work(attempt):
        await asyncio.Event().wait()
        return 0

    conductor = await recover_run_owner(
        harness.site, take_over_run(harness.site, run.id), TaskEngine(work, harness.pursue)
    )
    carried = asyncio.create_task(conductor.execute())
    assert isinstance((await carried).state, Failed)
    assert harness.attempts(run, "a")[0].outcome == "timeout"


async def test_a_machine_that_gives_no_process_is_an_error_that_can_be_resumed(harness):
    """No child, no task, no candidate is left behind; the run goes on later."""

    class Barren(TaskEngine):
        async def start_attempt(self, attempt):
            raise OSError(11, "Resource temporarily unavailable")

    run = await harness.lay_out(goal("g", act("a")))
    before = asyncio.all_tasks()
    conductor = await recover_run_owner(harness.site, take_over_run(harness.site, run.id), Barren(None, harness.pursue))
    with pytest.raises(ScaffoldError, match=r"cannot continue: .*temporarily unavailable") as caught:
        await conductor.execute()
    assert "scaffold resume" in caught.value.fix
    assert asyncio.all_tasks() == before
    assert (await harness.carry_out(run, a=["echo x > a"])).state == Completed()
    assert [each.outcome for each in harness.attempts(run, "a")] == ["lost", "landed"]


async def test_a_run_that_a_living_process_owns_is_busy(harness):
    """OR-8, BX-8: one owner."""
    run = await harness.lay_out(goal("g", act("a")))
    with harness.store.transaction():
        harness.store.runs.take(run.id, identify(1), expected_fence=0)
    with pytest.raises(RunBusy, match=r"process 1 is executing run"):
        take_over_run(harness.site, run.id)


async def test_taking_over_forgets_what_was_asked_of_the_owner_before(harness):
    run = await harness.lay_out(goal("g", act("a")))
    harness.orphan(run)
    with harness.store.transaction():
        harness.store.runs.ask(run.id, "stop")
    assert (await harness.carry_out(run, a=["echo x > a"])).state == Completed()


async def test_what_is_asked_between_taking_over_and_starting_is_heeded(harness):
    run = await harness.lay_out(goal("g", act("a")))
    conductor = await harness.conductor(run, {"a": ["echo x > a"]})
    with harness.store.transaction():
        harness.store.runs.ask(run.id, "stop")
    assert (await conductor.execute()).cause == "stopped"
