"""The budget of a run as its owner sees it: what the dead had sent, and attempts that would end at once."""

from builders import OWNER, pay
from scaffold.core.model import Usage
from scaffold.core.run_settings import RunLimits
from scaffold.core.spending import Amount, Spender
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
