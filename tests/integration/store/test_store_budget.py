"""Budgets: reserved before a request, settled after it, one limit for all processes."""

import asyncio
import os
import signal
import subprocess  # noqa: TID251 - the test is about killing another process
import sys
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from inline_snapshot import snapshot

from builders import (
    ALIVE,
    ME,
    OWNER,
    an_action,
    an_attempt,
    claim,
    events_of,
    location_arguments,
    pass_time,
    run_ready_tasks,
    store_run,
)
from scaffold.core.errors import BudgetExceeded, StaleFence, StoreError
from scaffold.core.events import NoticeRaised
from scaffold.core.model import Usage
from scaffold.core.ports import Budget
from scaffold.core.run_settings import RunLimits
from scaffold.core.spending import Amount, PastCost, Spender
from scaffold.store.database import Store
from scaffold.store.driver.location import StoreLocation
from scaffold.store.spending.run_budget import RunBudget
from scaffold.store.spending.session_budget import session_budget
from scaffold.store.user_store import UserStore
from support.fake_clock import FakeClock

A, B = an_attempt(an_action("a")), an_attempt(an_action("b"))

RESERVE_AND_WAIT = """
import asyncio, sys
from builders import parse_location
from integration.store.test_store_budget import A, a_budget, cost
from support.fake_clock import FakeClock
from scaffold.host.process_identity import own_identity
from scaffold.store.database import Store

clock = FakeClock()
store = Store.open(parse_location(sys.argv[1:]), clock=clock)
asyncio.run(a_budget(store, clock, A, owner=own_identity()).reserve(cost(0.7)))
print("reserved", flush=True)
sys.stdin.read()
"""
BESIDE_TESTS = {"PYTHONPATH": str(Path(__file__).parents[2]), "SCAFFOLD_HOME": os.environ["SCAFFOLD_HOME"]}


def cost(usd: float | None) -> Usage:
    return Usage(input_tokens=10, cost_usd=usd, requests=1)


def a_budget(
    store: Store,
    clock: FakeClock,
    attempt=A,
    *,
    limit: float | None = 1.0,
    tokens=None,
    owner=ME,
    role="implementation",
    actions=10**9,
) -> RunBudget:
    """Return a budget of so many agreed actions that the share of one is nothing, unless a test is about shares."""
    limits = RunLimits(budget_usd=limit, budget_tokens=tokens, agreed_actions=actions)
    return RunBudget(store, attempt, Spender(role, "m1"), limits=limits, clock=clock, owner=owner)


@pytest.fixture
def run(store: Store) -> Store:
    """A run with an attempt at each of two actions."""
    store_run(store, an_action("a"), an_action("b"))
    claim(store, A)
    claim(store, B)
    return store


@pytest.fixture
def second(run: Store, place: StoreLocation, clock: FakeClock):
    """The same run as another process sees it."""
    with closing(Store.open(place, clock=clock)) as second:
        yield second


async def _spend(budget: Budget, usd: float) -> None:
    budget.settle(await budget.reserve(cost(usd)), cost(usd))


async def test_usage_is_settled_once_and_the_reservation_released(run: Store, clock: FakeClock) -> None:
    """BX-11: reserve before, settle after, on this run's account; a request without a reply costs nothing."""
    budget = a_budget(run, clock)
    reservation = await budget.reserve(cost(0.4))
    assert run.reservations.held("run-1").usd == 0.4
    assert run.reservations.held("run-2").usd == 0
    assert run.runs.spent("run-1") == Usage()
    for _ in range(2):
        budget.settle(reservation, cost(0.3))
    budget.settle(await budget.reserve(cost(0.4)), Usage())
    assert run.reservations.held("run-1").usd == 0
    assert run.accounts.totals("run-1").spent.usd == 0.3
    assert run.runs.spent("run-1") == run.attempts.get(A.id).usage == cost(0.3)


async def test_requests_start_until_the_budget_is_used_up(run: Store, clock: FakeClock) -> None:
    """At 100% no request starts, however cheap; before, one of any size does."""
    budget = a_budget(run, clock)
    await _spend(budget, 0.99)
    await _spend(budget, 5.0)
    for attempt in (A, B):
        with pytest.raises(BudgetExceeded) as caught:
            await a_budget(run, clock, attempt).reserve(cost(0.0))
        assert (caught.value.what, caught.value.fix) == snapshot(
            ("the budget of $1.00 is used up ($5.99 spent)", "Continue with `scaffold resume --budget-usd MORE`.")
        )
    assert run.reservations.held("run-1").usd == 0


async def test_a_sessions_request_above_its_whole_limit_is_refused(user: UserStore, clock: FakeClock) -> None:
    """BX-11: the first one, too; nothing is reserved for it."""
    budget = session_budget(user, "session-1", limit_usd=1.0, clock=clock, owner=ME)
    with pytest.raises(BudgetExceeded, match=r"\$1\.01"):
        await budget.reserve(cost(1.01))
    assert user.reservations.for_account("session-1") == ()
    await _spend(budget, 1.0)


async def test_a_limit_reached_except_for_rounding_is_reached(run: Store, clock: FakeClock) -> None:
    """Ten times 0.1 is a little less than 1 in floating point."""
    assert sum([0.1] * 10) < 1
    budget = a_budget(run, clock)
    reservations = [await budget.reserve(cost(0.1)) for _ in range(10)]
    waiting = asyncio.create_task(budget.reserve(cost(0.1)))
    await pass_time(clock, 0.2)
    assert not waiting.done()
    for reservation in reservations:
        budget.settle(reservation, cost(0.1))
    with pytest.raises(BudgetExceeded):
        await budget.reserve(cost(0.1))
    waiting.cancel()


async def test_a_limit_of_zero_allows_nothing(run: Store, clock: FakeClock) -> None:
    with pytest.raises(BudgetExceeded):
        await a_budget(run, clock, limit=0.0).reserve(cost(None))


async def test_without_a_limit_no_request_waits(run: Store, second: Store, clock: FakeClock) -> None:
    await a_budget(run, clock, limit=None).reserve(cost(1000.0))
    await a_budget(second, clock, B, limit=None, owner=ALIVE).reserve(cost(1000.0))
    assert run.reservations.held("run-1").usd == 2000


async def test_requests_wait_while_the_rest_of_the_budget_is_reserved(
    run: Store, second: Store, clock: FakeClock
) -> None:
    """BX-11: reservations of all processes count; a waiting request is refused when others spend the rest."""
    first = a_budget(run, clock)
    reservation = await first.reserve(cost(1.0))
    waiting = asyncio.create_task(a_budget(second, clock, B, owner=ALIVE).reserve(cost(0.8)))
    await pass_time(clock, 0.5)
    assert not waiting.done()
    assert run.reservations.held("run-1").usd == 1.0
    first.settle(reservation, cost(0.2))
    await pass_time(clock, 0.1)
    assert waiting.done()
    assert run.reservations.held("run-1").usd == 0.8
    late = asyncio.create_task(first.reserve(cost(0.5)))
    await pass_time(clock, 0.1)
    a_budget(second, clock, B, owner=ALIVE).settle(waiting.result(), cost(0.8))
    await pass_time(clock, 0.1)
    with pytest.raises(BudgetExceeded):
        await late
    assert run.reservations.for_account("run-1") == ()


async def test_the_longest_waiting_request_comes_first(run: Store, second: Store, clock: FakeClock) -> None:
    """No starvation: a new request queues behind the waiting ones, even if it could start at once."""
    first = a_budget(run, clock)
    reservation = await first.reserve(cost(1.0))
    order: list[str] = []

    async def wait(store: Store, name: str) -> None:
        budget = a_budget(store, clock, B)
        mine = await budget.reserve(cost(1.0))
        order.append(name)
        await clock.sleep(0.2)
        budget.settle(mine, cost(0.01))

    tasks = []
    for name in "abcdef":
        tasks.append(asyncio.create_task(wait(run if name in "ace" else second, name)))
        await run_ready_tasks()
    first.settle(reservation, cost(0.01))
    late = asyncio.create_task(wait(run, "late"))
    await pass_time(clock, 3)
    await asyncio.wait([*tasks, late])
    assert order == [*"abcdef", "late"]


async def test_a_cancelled_request_leaves_the_queue(run: Store, clock: FakeClock) -> None:
    first = a_budget(run, clock)
    reservation = await first.reserve(cost(1.0))
    gone = asyncio.create_task(a_budget(run, clock, B).reserve(cost(0.5)))
    next_one = asyncio.create_task(a_budget(run, clock, B).reserve(cost(0.5)))
    await pass_time(clock, 0.1)
    gone.cancel()
    await asyncio.wait([gone])
    first.settle(reservation, cost(0.2))
    await pass_time(clock, 0.1)
    assert next_one.done()
    assert [each.id for each in run.reservations.for_account("run-1")] == [next_one.result()]


async def test_waiting_does_not_lock_the_database(run: Store, second: Store, clock: FakeClock) -> None:
    await a_budget(run, clock).reserve(cost(1.0))
    waiting = asyncio.create_task(a_budget(run, clock, B).reserve(cost(0.5)))
    await run_ready_tasks()
    before = second.data_version()
    await pass_time(clock, 5)
    assert second.data_version() == before
    waiting.cancel()


async def test_an_unknown_price_is_stored_and_counts_as_zero(run: Store, clock: FakeClock) -> None:
    budget = a_budget(run, clock)
    reservation = await budget.reserve(cost(None))
    assert run.reservations.held("run-1").usd == 0
    assert [each.estimate.cost_usd for each in run.reservations.for_account("run-1")] == [None]
    budget.settle(reservation, cost(None))
    assert run.runs.spent("run-1") == cost(None)
    await _spend(a_budget(run, clock, B), 1.0)
    with pytest.raises(BudgetExceeded):
        await budget.reserve(cost(None))


async def test_reservations_of_the_dead_count_as_spent_once(run: Store, second: Store, clock: FakeClock) -> None:
    """BX-11, OR-8: they may have been billed; the run says so."""
    await a_budget(run, clock, A, owner=OWNER).reserve(cost(0.25))
    await a_budget(run, clock, A, owner=OWNER).reserve(cost(None))
    for store in (run, second):
        await a_budget(store, clock, B).reserve(cost(0.125))
    assert run.reservations.held("run-1").usd == 0.25
    assert run.attempts.get(A.id).usage == Usage(input_tokens=20, cost_usd=None, requests=2)
    notices = [event.text for event in events_of(run) if isinstance(event, NoticeRaised)]
    assert [("$0.25" in text, "10 tokens" in text, str(OWNER.pid) in text) for text in notices] == [
        (True, True, True),
        (False, True, True),
    ]


async def test_a_dead_process_in_the_queue_blocks_no_one(run: Store, clock: FakeClock) -> None:
    first = a_budget(run, clock)
    reservation = await first.reserve(cost(1.0))
    waiting = asyncio.create_task(a_budget(run, clock, B).reserve(cost(0.5)))
    await run_ready_tasks()
    dead = msgspec.structs.replace(run.reservations.for_account("run-1")[1], id="dead", owner=OWNER)
    with run.transaction():
        run.reservations.ask(dead)
        run._connection.write("UPDATE reservation SET position = 0 WHERE id = 'dead'")
    first.settle(reservation, cost(0.1))
    await pass_time(clock, 0.5)
    assert not waiting.done()
    await pass_time(clock, 1)
    assert waiting.done()
    assert run.accounts.totals("run-1").spent.usd == 0.1


@pytest.mark.slow
def test_a_killed_process_releases_its_reservations(run: Store, place: StoreLocation, clock: FakeClock) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", RESERVE_AND_WAIT, *location_arguments(place)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=BESIDE_TESTS,
    ) as child:
        assert child.stdout.readline() == b"reserved\n"
        budget = a_budget(run, clock, B)
        asyncio.run(budget.reserve(cost(0.1)))
        assert run.reservations.held("run-1").usd == pytest.approx(0.8)
        child.send_signal(signal.SIGKILL)
        child.wait(timeout=60)
    clock.advance(2)
    asyncio.run(budget.reserve(cost(0.1)))
    assert run.reservations.held("run-1").usd == pytest.approx(0.2)
    assert run.attempts.get(A.id).usage.cost_usd == 0.7


async def test_a_process_declared_dead_by_mistake_gets_an_error(run: Store, clock: FakeClock) -> None:
    await a_budget(run, clock).reserve(cost(1.0))
    waiting = asyncio.create_task(a_budget(run, clock, B).reserve(cost(0.5)))
    await run_ready_tasks()
    with run.transaction():
        run.reservations.free(run.reservations.for_account("run-1")[1].id)
    await pass_time(clock, 0.1)
    with pytest.raises(StoreError):
        await waiting


async def test_an_ended_attempt_starts_no_request(run: Store, clock: FakeClock) -> None:
    budget = a_budget(run, clock)
    with run.transaction():
        run.attempts.end(A.id, outcome="cancelled")
    with pytest.raises(StaleFence):
        await budget.reserve(cost(0.1))
    assert run.reservations.held("run-1").usd == 0


async def test_money_spent_by_an_attempt_that_ended_meanwhile_is_counted(run: Store, clock: FakeClock) -> None:
    """The money is gone, whatever the attempt's state; its worker is told to stop."""
    budget = a_budget(run, clock)
    reservation = await budget.reserve(cost(0.4))
    with run.transaction():
        run.attempts.end(A.id, outcome="cancelled")
    with pytest.raises(StaleFence):
        budget.settle(reservation, cost(0.3))
    assert run.attempts.get(A.id).usage == cost(0.3)
    assert run.reservations.held("run-1").usd == 0


async def test_a_sessions_agents_share_one_limit(user: UserStore, neighbour: UserStore, clock: FakeClock) -> None:
    """BX-11, `--max-budget-usd`: the same ledger, in the user's database."""
    mine = session_budget(user, "session-1", limit_usd=1.0, clock=clock, owner=ME)
    theirs = session_budget(neighbour, "session-1", limit_usd=1.0, clock=clock, owner=ALIVE)
    reservation = await mine.reserve(cost(1.0))
    waiting = asyncio.create_task(theirs.reserve(cost(0.5)))
    await pass_time(clock, 0.5)
    assert not waiting.done()
    mine.settle(reservation, cost(0.75))
    await pass_time(clock, 0.1)
    theirs.settle(waiting.result(), cost(0.5))
    theirs.settle(waiting.result(), cost(0.5))
    assert user.accounts.totals("session-1").spent.usd == 1.25
    with pytest.raises(BudgetExceeded) as caught:
        await mine.reserve(cost(0.1))
    assert (caught.value.what, caught.value.fix) == snapshot(
        ("the session's budget of $1.00 is used up ($1.25 spent)", "Continue with `ralph -c --max-budget-usd MORE`.")
    )
    tiny = session_budget(user, "session-1", limit_usd=0.0015, clock=clock, owner=ME)
    with pytest.raises(BudgetExceeded, match=r"\$0\.0015"):
        await tiny.reserve(cost(0.1))
    other = session_budget(user, "session-2", limit_usd=1.0, clock=clock, owner=ME)
    await other.reserve(cost(0.1))


async def test_reservations_of_a_dead_agent_of_a_session_count_as_spent(user: UserStore, clock: FakeClock) -> None:
    for usd in (0.75, None):
        await session_budget(user, "s", limit_usd=9.0, clock=clock, owner=OWNER).reserve(cost(usd))
    mine = session_budget(user, "s", limit_usd=9.0, clock=clock, owner=ME)
    mine.settle(await mine.reserve(cost(None)), cost(None))
    assert user.accounts.totals("s").spent.usd == 0.75
    assert user.reservations.for_account("s") == ()


def used(tokens: int, *, cached: int = 0, usd: float | None = 0.0, estimated: int = 0) -> Usage:
    return Usage(
        input_tokens=tokens + cached, cached_input_tokens=cached, cost_usd=usd, requests=1, estimated_tokens=estimated
    )


async def test_tokens_are_limited_like_money_without_what_a_cache_had(run: Store, clock: FakeClock) -> None:
    """AL-21, AL-28: one queue and one transaction for both limits."""
    budget = a_budget(run, clock, limit=1.0, tokens=1_000)
    budget.settle(await budget.reserve(used(900, cached=5_000)), used(900, cached=5_000))
    reservation = await budget.reserve(used(200))
    waiting = asyncio.create_task(a_budget(run, clock, B, limit=1.0, tokens=1_000).reserve(used(1)))
    await pass_time(clock, 0.2)
    assert not waiting.done(), "money is left, but no tokens"
    budget.settle(reservation, used(200))
    await pass_time(clock, 0.1)
    with pytest.raises(BudgetExceeded) as caught:
        await waiting
    assert (caught.value.what, caught.value.fix) == snapshot(
        ("the budget of 1,000 tokens is used up (1,100 used)", "Continue with `scaffold resume --budget-tokens MORE`.")
    )
    more = a_budget(run, clock, limit=1.0, tokens=2_000)
    await more.reserve(used(1))


async def test_what_waited_unsent_is_not_booked_when_its_process_dies(run: Store, clock: FakeClock) -> None:
    """BX-11: nobody billed it; what was sent twice counts twice, in money and tokens, and once as a request."""
    dead = a_budget(run, clock, limit=9.0, owner=OWNER)
    waits = await dead.reserve(used(100, usd=0.5))
    dead.set_tries(waits, 0)
    sent = await dead.reserve(used(30, usd=0.25))
    dead.set_tries(sent, 2)
    for _ in range(2):
        await a_budget(run, clock, B).reserve(used(1))
    totals = run.accounts.totals("run-1")
    assert (totals.spent, totals.estimated_tokens) == (Amount(0.5, 60), 60)
    assert run.attempts.get(A.id).usage.requests == 1
    notices = [event.text for event in events_of(run) if isinstance(event, NoticeRaised)]
    assert [("$0.50" in text, "60 tokens" in text) for text in notices] == [(True, True)]


async def test_the_user_is_warned_once_at_80_percent_of_each_limit(run: Store, second: Store, clock: FakeClock) -> None:
    """AL-21: in the transaction that books it, so by one process alone; a higher limit warns again."""

    def warnings() -> list[str]:
        return [event.text for event in events_of(run) if isinstance(event, NoticeRaised)]

    for store, tokens in ((run, 700), (second, 150), (run, 100)):
        budget = a_budget(store, clock, limit=2.0, tokens=1_000)
        budget.settle(await budget.reserve(used(1)), used(tokens))
    assert warnings() == snapshot(
        ["85% of the budget is used: $0.00 of $2.00 and 850 of 1,000 uncached tokens; at 100% no request starts"]
    )
    budget = a_budget(run, clock, limit=2.0, tokens=2_000)
    budget.settle(await budget.reserve(used(1)), used(700))
    assert len(warnings()) == 2


async def test_each_role_and_model_has_its_own_booking_and_an_unknown_price_hides_no_known_one(
    run: Store, clock: FakeClock
) -> None:
    """AL-21, BX-11: a known cost stays known to the limit when a request without a price follows."""
    for role, usd in (("implementation", 0.6), ("critic", 0.25), ("implementation", None)):
        budget = a_budget(run, clock, role=role)
        budget.settle(await budget.reserve(used(10, usd=usd)), used(10, usd=usd))
    bookings = {each.spender.role: each for each in run.bookings.for_run("run-1")}
    assert {role: (each.usage.requests, each.usage.cost_usd) for role, each in bookings.items()} == {
        "implementation": (2, None),
        "critic": (1, 0.25),
    }
    assert bookings["implementation"].known_usd == 0.6
    assert run.accounts.totals("run-1").spent.usd == pytest.approx(0.85)
    assert run.runs.spent("run-1").cost_usd is None


async def test_how_wrong_estimates_were_is_kept(run: Store, clock: FakeClock) -> None:
    """AL-21: only a reply that says what it used can show it."""
    budget = a_budget(run, clock)
    budget.settle(await budget.reserve(used(100)), used(130))
    budget.settle(await budget.reserve(used(100)), used(60, estimated=60))
    budget.settle(await budget.reserve(used(100)), Usage())
    totals = run.accounts.totals("run-1")
    assert (totals.spent.tokens, totals.estimated_tokens, totals.error_tokens) == (190, 60, 30)


async def test_what_an_action_cost_in_earlier_runs_is_known_for_each_model(run: Store, clock: FakeClock) -> None:
    """AL-21: an estimate follows from what this repository showed."""
    for attempt, tokens in ((A, 100), (B, 300)):
        budget = a_budget(run, clock, attempt)
        budget.settle(await budget.reserve(used(1)), used(tokens, usd=0.1))
    model = run.attempts.get(A.id).model
    assert run.bookings.past_costs(model, but="run-2") == (PastCost(200.0, pytest.approx(0.1)),)
    assert run.bookings.past_costs(model, but="run-1") == ()
    assert run.bookings.past_costs("another", but="run-2") == ()


async def test_a_run_that_used_no_tokens_says_nothing_of_costs(run: Store, clock: FakeClock) -> None:
    """AL-21: otherwise the next estimate would be 0."""
    budget = a_budget(run, clock, A)
    budget.settle(await budget.reserve(used(1)), Usage(requests=1, cost_usd=0.0))
    assert run.bookings.past_costs(run.attempts.get(A.id).model, but="run-2") == ()
