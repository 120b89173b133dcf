"""Budgets with many random spenders: the limit holds, nothing is lost, no starvation."""

import asyncio
import itertools
import os
import subprocess  # noqa: TID251 - spenders are real processes
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from builders import ME, a_goal, a_run, an_action, an_attempt, claim, location_arguments, parse_location
from scaffold.core.errors import BudgetExceeded
from scaffold.core.model import Usage
from scaffold.core.ports import Budget
from scaffold.core.run_settings import RunLimits
from scaffold.core.spending import Spender, SpendingLimits
from scaffold.host.clock import SystemClock
from scaffold.host.process_identity import own_identity
from scaffold.store.database import Store
from scaffold.store.driver.location import StoreLocation
from scaffold.store.spending.run_budget import RunBudget
from scaffold.store.spending.session_budget import SessionBudgetAccount
from scaffold.store.spending.shared_budget import SharedBudget
from scaffold.store.user_store import UserStore
from support.fake_clock import FakeClock
from support.postgres import new_location
from support.property_examples import up_to

NUMBERS = itertools.count()
BESIDE_TESTS = {"PYTHONPATH": str(Path(__file__).parents[1]), "SCAFFOLD_HOME": os.environ["SCAFFOLD_HOME"]}

cents = st.integers(0, 40)
requests = st.lists(st.tuples(cents, cents, st.integers(0, 30)), max_size=6)
"""What each request is thought to cost and costs, in cents and in as many tokens, and its hundredths of a second."""

SPEND = """
import sys
from properties.test_store_budget_properties import spend_for_real
spend_for_real(int(sys.argv[1]), sys.argv[2:])
"""


def _usage(cents: int) -> Usage:
    return Usage(cost_usd=cents / 100, output_tokens=cents, requests=1)


class Spenders:
    """Several agents of one account; every step is checked against the promise."""

    def __init__(self, budget: Budget, clock: FakeClock, limit: int, limit_tokens: int) -> None:
        self.budget = budget
        self.clock = clock
        self.limit = min(limit, limit_tokens)  # each cent is a token, too
        self.spent = 0
        self.held: dict[str, int] = {}
        self.largest_step = 0
        self.surprise = 0

    async def spend(self, requests: list[tuple[int, int, int]]) -> None:
        for estimated, real, hundredths in requests:
            try:
                reservation = await self.budget.reserve(_usage(estimated))
            except BudgetExceeded:
                assert self.spent >= self.limit, "refused before 100%"
                return
            assert self.spent < self.limit, "a request started at 100%"
            assert self.spent + sum(self.held.values()) < self.limit, "what others had set aside did not count"
            self.held[reservation] = estimated
            self.largest_step = max(self.largest_step, estimated)
            await self.clock.sleep(hundredths / 100)
            self.budget.settle(reservation, _usage(real))
            del self.held[reservation]
            self.spent += real
            self.surprise += max(0, real - estimated)


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UserStore]:
    path = tmp_path_factory.mktemp("properties") / "user.db"
    with closing(UserStore.open(path, clock=FakeClock())) as user:
        yield user


@settings(max_examples=up_to(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(limit=st.integers(1, 200), tokens=st.integers(1, 200), agents=st.lists(requests, min_size=1, max_size=8))
def test_many_spenders_respect_both_limits(user: UserStore, limit: int, tokens: int, agents: list) -> None:
    """BX-11, AL-21: only the request that reaches a limit, and underestimated ones, exceed it."""
    clock = FakeClock()
    account = SessionBudgetAccount(user, f"session-{next(NUMBERS)}", limit_usd=limit / 100)
    account.limits, account.largest_usd = SpendingLimits(usd=limit / 100, tokens=tokens), None
    budget = SharedBudget(account, payer=account.id, spender=Spender("agent", "m1"), clock=clock, owner=ME)
    spenders = Spenders(budget, clock, limit, tokens)

    async def spend_together() -> None:
        tasks = [asyncio.create_task(spenders.spend(requests)) for requests in agents]
        for _ in range(2_000):
            if all(task.done() for task in tasks):
                break
            await asyncio.sleep(0)
            clock.advance(0.01)
        for task in tasks:
            assert task.done(), "somebody starves"
            await task

    asyncio.run(spend_together())
    assert user.reservations.for_account(account.id) == ()
    spent = user.accounts.totals(account.id).spent
    assert (spent.usd, spent.tokens) == (pytest.approx(spenders.spent / 100), spenders.spent)
    assert spenders.spent < spenders.limit + spenders.largest_step + spenders.surprise + 1


def _expect_processes_to_keep_to_one_limit(place: StoreLocation) -> None:
    """Have four processes of three agents each use 100 tokens in steps of 1 to 3; the limit of $9 is not reached."""
    with closing(Store.open(place, clock=SystemClock())) as store:
        actions = [an_action(f"key-{number}") for number in range(4)]
        with store.transaction():
            store.runs.add(a_run())
            store.goals.add(a_goal())
            store.actions.add(actions)
        for action in actions:
            claim(store, an_attempt(action))
        children = [
            subprocess.Popen(
                [sys.executable, "-c", SPEND, str(number), *location_arguments(place)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=BESIDE_TESTS,
                text=True,
            )
            for number in range(4)
        ]
        assert [child.stdout.readline() for child in children] == ["ready\n"] * 4
        for child in children:
            child.stdin.write("go\n")
            child.stdin.flush()
        said = [child.communicate(timeout=60)[0] for child in children]
        assert [child.returncode for child in children] == [0] * 4
        spent = [sum(map(int, words.split())) for words in said]
        assert store.accounts.totals("run-1").spent.usd == pytest.approx(sum(spent) / 100)
        assert store.accounts.totals("run-1").spent.tokens == sum(spent)
        assert store.runs.spent("run-1").requests == sum(len(words.split()) for words in said)
        assert store.reservations.for_account("run-1") == ()
        assert 100 <= sum(spent) <= 102
        assert all(spent), "somebody starves"


def spend_for_real(number: int, words: list[str]) -> None:
    """Run as one of several processes: spend until nothing is left, and print each request's cents."""
    clock = SystemClock()
    store = Store.open(parse_location(words), clock=clock)
    attempt = an_attempt(an_action(f"key-{number}"))
    budget = RunBudget(
        store,
        attempt,
        Spender("implementation", "m1"),
        limits=RunLimits(budget_usd=9.0, budget_tokens=100),
        clock=clock,
        owner=own_identity(),
    )

    async def spend(usd_cents: int) -> None:
        usage = _usage(usd_cents)
        while True:
            try:
                reservation = await budget.reserve(usage)
            except BudgetExceeded:
                return
            await clock.sleep(0.02)
            budget.settle(reservation, usage)
            print(usd_cents)

    async def spend_all() -> None:
        async with asyncio.TaskGroup() as together:
            for usd_cents in (1, 2, 3):
                together.create_task(spend(usd_cents))

    print("ready", flush=True)
    sys.stdin.readline()
    asyncio.run(spend_all())


@pytest.mark.slow
def test_many_processes_respect_one_limit(tmp_path: Path) -> None:
    """BX-11, AL-21, OR-8: all processes of a run share one ledger; its end is exceeded by one request at most."""
    _expect_processes_to_keep_to_one_limit(tmp_path / "state.db")


@pytest.mark.slow
@pytest.mark.postgres
def test_many_processes_respect_one_limit_on_a_server_too(postgres_url: str) -> None:
    """BX-11: the same on PostgreSQL."""
    _expect_processes_to_keep_to_one_limit(new_location(postgres_url))
