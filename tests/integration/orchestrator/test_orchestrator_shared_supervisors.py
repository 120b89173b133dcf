"""Supervisors that share a process: each wakes for its own goal, and ends for itself."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from builders import run_ready_tasks
from scaffold.core.errors import BudgetExceeded, GitError, ModelAccessDenied, ModelUnavailable, StoreUnavailable
from scaffold.core.states import Active, Cancelled, Failed, Paused, Pending
from scaffold.host.wake_fifo import wake_up
from scaffold.orchestrator.planning.turn import PlanRejected
from scaffold.orchestrator.supervisor.goal_process import (
    BUDGET_EXIT_CODE,
    DONE_EXIT_CODE,
    NO_ACCESS_EXIT_CODE,
    UNAVAILABLE_EXIT_CODE,
    faulty_goal,
    goal_with_fault,
    supervise_goals,
)
from scaffold.orchestrator.supervisor.wakeup import GoalChanges
from scaffold.run.context import FAULT_EXIT_CODE
from support.harness import NoPlanner, act, goal, open_context, poll_until

BIG = act("big", kind="compound", effects=("x",))


class SlowPlanner(NoPlanner):
    """Thinks about each compound until it is told what comes out."""

    def __init__(self):
        self.thinking, self.cancelled, self.errors, self.failing = [], [], {}, asyncio.Event()
        self.result = None

    async def decompose(self, goal_id, compound):
        self.thinking.append(goal_id)
        try:
            await self.failing.wait()
            if goal_id in self.errors:
                raise self.errors[goal_id]
            if self.result is not None:
                return self.result
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled.append(goal_id)
            raise


class Decisions:
    """Counts how often each goal was decided on."""

    def __init__(self, store):
        self.goals = []
        get = store.goals.get

        def counted(goal_id):
            self.goals.append(goal_id)
            return get(goal_id)

        store.goals.get = counted

    def taken(self):
        found, self.goals[:] = set(self.goals), []
        return found


@pytest.fixture
def supervised(harness):
    @asynccontextmanager
    async def supervised(run, planner=None):
        """Supervise all goals of a run in one process; yield its exit code to come, its errors, and its decisions."""
        context = await open_context(harness.repo, cache=harness.context.cache, environ=harness.context.environ)
        goals, errors = [each.id for each in context.store.goals.for_run(run.id)], []
        decisions = Decisions(context.store)
        task = asyncio.create_task(supervise_goals(context, run, goals, planner or NoPlanner(), errors.append))
        try:
            yield task, errors, decisions
        finally:
            task.cancel()
            await asyncio.wait([task])
            context.store.close()

    return supervised


def move(harness, goal_id, state):
    with harness.store.transaction():
        harness.store.goals.move(goal_id, state)


async def ended(task):
    async with asyncio.timeout(20):
        return await task


async def test_a_cancelled_goal_ends_its_own_turn_alone(harness, supervised):
    """SC-17, OR-8: the other goals of the process go on."""
    run = await harness.own(goal("one", BIG), goal("two", act("b", kind="compound", effects=("y",))), planner=True)
    one, two = (each.id for each in harness.store.goals.for_run(run.id))
    planner = SlowPlanner()
    async with supervised(run, planner) as (task, _, _):
        await poll_until(lambda: len(planner.thinking) == 2)
        move(harness, one, Cancelled())
        wake_up(harness.context.wake_fifo(run.id, one))
        await poll_until(lambda: planner.cancelled == [one])
        assert not task.done()
        move(harness, two, Cancelled())
        wake_up(harness.context.wake_fifo(run.id, one))
        assert await ended(task) == DONE_EXIT_CODE


async def test_a_paused_goal_finishes_the_turn_that_it_is_in(harness, supervised):
    """SC-17: a turn costs money, and is no more lost than the work of an agent."""
    run = await harness.own(goal("one", BIG), planner=True)
    (one,) = (each.id for each in harness.store.goals.for_run(run.id))
    planner = SlowPlanner()
    planner.result = PlanRejected((), "no")
    async with supervised(run, planner) as (task, _, _):
        await poll_until(lambda: planner.thinking)
        move(harness, one, Paused("a break"))
        wake_up(harness.context.wake_fifo(run.id, one))
        await run_ready_tasks()
        assert not task.done()
        planner.failing.set()
        assert await ended(task) == DONE_EXIT_CODE
        assert planner.thinking == [one], "no other turn starts"
        assert planner.cancelled == []


async def test_a_goal_that_is_active_again_is_supervised_by_the_same_process(harness, supervised):
    """SC-16: paused and resumed while another goal keeps the process alive."""
    run = await harness.own(goal("one", act("a")), goal("two", act("b")), agents=1)
    one = harness.store.goals.for_run(run.id)[0].id
    move(harness, one, Paused("a break"))
    async with supervised(run) as (task, _, _):
        await poll_until(lambda: harness.statuses(run)["b"] == "running")
        with harness.store.transaction():
            harness.store.attempts.end(harness.attempts(run, "b")[0].id, outcome="lost")
            harness.store.goals.move(one, Active())
        wake_up(harness.context.wake_fifo(run.id, one))
        await poll_until(lambda: harness.statuses(run)["a"] == "running")
        assert not task.done()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("error", "code"),
    [
        (BudgetExceeded("spent", "More."), BUDGET_EXIT_CODE),
        (ModelUnavailable("away", "Wait."), UNAVAILABLE_EXIT_CODE),
        (ModelAccessDenied("no key", "Set it."), NO_ACCESS_EXIT_CODE),
        (StoreUnavailable("away", "Wait."), FAULT_EXIT_CODE),
        (GitError("gone", "Wait."), 65),
        (OSError(28, "No space left on device"), 65),
        (LookupError(), 33),
    ],
)
async def test_the_exit_code_says_which_goal_ended_the_process(harness, supervised, error, code):
    """SC-16, AL-21: the owner need not search for the culprit."""
    run = await harness.own(goal("one", BIG), goal("two", act("b", kind="compound", effects=("y",))), planner=True)
    goals = [each.id for each in harness.store.goals.for_run(run.id)]
    planner = SlowPlanner()
    async with supervised(run, planner) as (task, errors, _):
        await poll_until(lambda: len(planner.thinking) == 2)
        planner.errors[goals[1]] = error
        planner.failing.set()
        assert await ended(task) == code
    assert errors == ([error] if code == 33 else [])
    assert faulty_goal(goals, code) == (goals[1] if code == 33 else None)
    assert goal_with_fault(goals, code) == (goals[1] if code == 65 else None)
    assert [text.startswith("The supervisor of two ") for text in harness.notices(run)] == [True] * (code == 65)
    assert planner.cancelled == [goals[0]]
    assert [faulty_goal(goals, other) for other in (-9, 0, 1, 31, 34)] == [None] * 5


@pytest.mark.slow
async def test_a_commit_wakes_the_goal_it_concerns_and_one_that_waits_for_a_slot(harness, supervised):
    """OR-8: the others stay asleep, however many there are."""
    run = await harness.own(*(goal(f"g{n}", act(f"a{n}"), act(f"b{n}")) for n in range(6)), agents=2)
    goals = [each.id for each in harness.store.goals.for_run(run.id)]
    async with supervised(run) as (_, _, decisions):
        await poll_until(lambda: len(harness.store.attempts.open_of_run(run.id)) == 2)
        wake_up(harness.context.wake_fifo(run.id, goals[0]))
        await quiet(decisions)
        attempt = harness.attempts(run, "a0")[0]
        with harness.store.transaction():
            harness.store.attempts.end(attempt.id, outcome="lost")
            harness.store.actions.move(attempt.action_id, Pending())
        wake_up(harness.context.wake_fifo(run.id, goals[0]))
        await poll_until(lambda: len(harness.store.attempts.open_of_run(run.id)) == 2)
        await quiet(decisions, expected={goals[0], goals[2]})
        assert harness.statuses(run)["a2"] == "running", "it has waited longest"
        wake_up(harness.context.wake_fifo(run.id, goals[0]))
        await quiet(decisions, expected={goals[2]})
        with harness.store.transaction():
            harness.store.runs.record_heartbeat(run.id, fence=run.fence, at=1.0)
        wake_up(harness.context.wake_fifo(run.id, goals[0]))
        await quiet(decisions, expected=set())


async def quiet(decisions, expected=None):
    """Wait until no goal is decided on any more; check which were until then."""
    taken, idle = set(), 0
    while idle < 20:
        await asyncio.sleep(0.01)
        await run_ready_tasks()
        new = decisions.taken()
        taken, idle = taken | new, 0 if new else idle + 1
    assert expected is None or taken == expected


async def test_changes_are_read_from_the_events_alone(harness):
    """OR-8: a heartbeat concerns no goal, an action its goal, a new owner all of them."""
    run = await harness.own(goal("one", act("a")), goal("two", act("b")))
    one, two = (each.id for each in harness.store.goals.for_run(run.id))
    changes = GoalChanges(harness.store, run.id)
    with harness.store.transaction():
        harness.store.runs.record_heartbeat(run.id, fence=run.fence, at=1.0)
    assert (changes.read().goals, changes.read().statuses) == (frozenset(), False)
    await harness.queue(run, "b")
    assert (found := changes.read()).goals == {two}
    assert not found.statuses
    move(harness, one, Failed("why"))
    assert (found := changes.read()).goals == {one}
    assert found.statuses
    await harness.take(harness.orphan(run))
    assert changes.read().goals == {one, two}
    assert changes.read().goals == frozenset()
