"""What an action may use of its run's budget, what one request may, and what is booked of one that ended early."""

import math

import pytest
from inline_snapshot import snapshot
from msgspec import structs

from builders import OWNER
from integration.store.test_store_budget import B, a_budget, run, used
from scaffold.core.errors import ShareUsed
from scaffold.core.spending import UNLIMITED_TOKENS, Amount
from scaffold.core.states import Cancelled
from scaffold.store.database import Store
from support.fake_clock import FakeClock

__all__ = ["run"]  # a fixture


async def test_an_action_that_has_used_its_share_leaves_the_others_theirs(run: Store, clock: FakeClock) -> None:
    """AL-21: whatever it needs more waits until another one has ended, or has had its share as well."""
    mine = a_budget(run, clock, limit=None, tokens=1_000, actions=2)
    mine.settle(await mine.reserve(used(499)), used(499))
    mine.settle(await mine.reserve(used(1)), used(1))
    with pytest.raises(ShareUsed) as caught:
        await mine.reserve(used(1))
    assert caught.value.what == snapshot(
        "its share of the budget is used up (500 tokens), and the rest is kept for the other actions"
    )
    other = a_budget(run, clock, B, limit=None, tokens=1_000, actions=2)
    other.settle(await other.reserve(used(200)), used(200))
    with pytest.raises(ShareUsed):
        await mine.reserve(used(1))
    with run.transaction():
        run.attempts.end(B.id, outcome="landed")
        run.actions.move(B.action_id, Cancelled())
    mine.settle(await mine.reserve(used(100)), used(100))
    more = a_budget(run, clock, limit=None, tokens=9_000, actions=2)
    await more.reserve(used(1))


async def test_dollars_are_shared_like_tokens(run: Store, clock: FakeClock) -> None:
    """AL-21."""
    mine = a_budget(run, clock, limit=1.0, actions=2)
    mine.settle(await mine.reserve(used(1, usd=0.5)), used(1, usd=0.5))
    with pytest.raises(ShareUsed, match=r"\(\$0\.50\)"):
        await mine.reserve(used(1))


async def test_a_request_is_told_what_the_others_leave_of_the_budget(run: Store, clock: FakeClock) -> None:
    """RA-10, AL-21: its own reservation is part of that."""
    budget = a_budget(run, clock, limit=1.0, tokens=1_000)
    budget.settle(await budget.reserve(used(100)), used(100))
    await a_budget(run, clock, B, limit=1.0, tokens=1_000).reserve(used(250, usd=0.25))
    own = await budget.reserve(used(300, usd=0.125))
    assert budget.left_for(own) == Amount(pytest.approx(0.75), 650)
    free = a_budget(run, clock, limit=None)
    assert free.left_for(own) == Amount(math.inf, UNLIMITED_TOKENS - 250)


async def test_a_reply_that_grew_beyond_its_estimate_is_booked_as_it_was_when_its_process_died(
    run: Store, clock: FakeClock
) -> None:
    """BX-11: the last that was noted of it counts, not the usual size of a reply."""
    dead = a_budget(run, clock, limit=9.0, owner=OWNER)
    dead.set_tries(await dead.reserve(used(100, usd=0.5)), 1, structs.replace(used(100, usd=2.0), output_tokens=6_900))
    await a_budget(run, clock, B, limit=9.0).reserve(used(1))
    totals = run.accounts.totals("run-1")
    assert (totals.spent, totals.estimated_tokens) == (Amount(2.0, 7_000), 7_000)
