"""The budget of a run as its owner sees it: what the dead had sent, and attempts that would end at once."""

import pytest
from inline_snapshot import snapshot

from builders import OWNER, pay
from scaffold.core.model import Usage
from scaffold.core.run_settings import RunLimits
from scaffold.core.spending import Amount, Spender
from scaffold.core.states import reason_of, status_of
from scaffold.orchestrator.owner.processes.worker_exits import AttemptLauncher
from scaffold.orchestrator.owner.recovery.interrupted_run import recover_run
from scaffold.run.failures.attempt_end import AttemptEnd, end_attempt
from scaffold.store.spending.run_budget import RunBudget
from support.harness import act, goal

ASKED = Usage(input_tokens=400, cost_usd=0.5, requests=1)


class StartedAttempts:
    """An engine that starts nothing, and remembers what it was told to start."""

    def __init__(self):
        self.numbers = []

    async def start_attempt(self, attempt):
        self.numbers.append(attempt.number)


async def claimed(harness, run):
    attempt = await harness.queue(run, "a")
    harness.claim(attempt)
    return attempt


async def test_what_a_dead_process_had_sent_is_booked_when_its_run_is_recovered(harness):
    """BX-11, OR-8: once, not only when the next request starts."""
    run = await harness.own(goal("g", act("a")), budget_usd=9.0)
    attempt = await claimed(harness, run)
    spender, clock = Spender("implementation", "m1"), harness.context.clock
    dead = RunBudget(harness.store, attempt, spender, limits=RunLimits(), clock=clock, owner=OWNER)
    await dead.reserve(ASKED)
    dead.set_tries(await dead.reserve(ASKED), 0)
    for _ in range(2):
        await recover_run(harness.context, run)
    assert harness.store.reservations.for_account(run.id) == ()
    assert harness.store.accounts.totals(run.id).spent == Amount(0.5, 400)


async def test_at_100_percent_no_worker_is_started_for_what_ended_there_before(harness):
    """AL-21: the run ends with `limit` instead; an action that was not tried yet may need no request."""
    run = await harness.own(goal("g", act("a"), act("b")), budget_tokens=400)
    attempt = await claimed(harness, run)
    with harness.store.transaction():
        pay(harness.store, attempt, ASKED)
    engine, ends = StartedAttempts(), []
    launcher = AttemptLauncher(harness.store, run, engine, lambda: ends.append("limit"))
    await harness.queue(run, "b")
    await launcher.start_queued()
    assert (engine.numbers, ends) == ([1], [])
    end_attempt(harness.store, run, attempt.id, AttemptEnd("budget", "it is used up"))
    await harness.queue(run, "a")
    await launcher.start_queued()
    assert (engine.numbers, ends) == ([1], ["limit"])


@pytest.mark.slow
async def test_a_run_whose_first_three_actions_change_nothing_pauses_and_says_so(harness):
    """BX-12, AL-19: before all others are tried for the same reason; what changes nothing twice counts."""
    run = await harness.open_run(goal("g", *map(act, "abcde")), agents=1)
    ending = await harness.run_to_end(run, a=[], b=[], c=[], d=[], e=[])
    assert (ending.cause, status_of(ending.state)) == ("unchanged", "paused")
    assert reason_of(ending.state) == snapshot(
        "its first actions each ended with nothing changed (`a`, `b`, `c`): see what the agent said, or try another "
        "model; `scaffold resume` goes on"
    )
    # Another attempt of the third, and the first of the fourth, may have begun before.
    tried = [sum(each.outcome == "contract_failed" for each in harness.attempts(run, key)) for key in "abe"]
    assert tried == [3, 3, 0]
    resumed = await harness.run_to_end(run, c=["echo x > c"], d=["echo x > d"], e=["echo x > e"])
    assert resumed.cause == "done"
    assert sorted(await harness.landed(run)) == ["c", "d", "e"]


@pytest.mark.slow
async def test_actions_that_change_nothing_pause_no_run_in_which_another_changed_something(harness):
    """BX-12."""
    run = await harness.open_run(goal("g", *map(act, "abcd")), agents=1)
    ending = await harness.run_to_end(run, a=["echo x > a"], b=[], c=[], d=[])
    assert ending.cause == "done"
    assert harness.statuses(run) == {"a": "completed", "b": "failed", "c": "failed", "d": "failed"}
