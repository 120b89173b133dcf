"""The shared backoff: one refusal stops all processes of the user, and they return step by step."""

import asyncio
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from builders import ALIVE, ME, OWNER, pass_time, run_ready_tasks
from scaffold.core.errors import ModelError
from scaffold.core.throttling import MAX_COOLDOWN_S, SUCCESSES_PER_STEP, UNTHROTTLED
from scaffold.store.shared_throttle import SharedThrottle
from scaffold.store.user_store import UserStore
from support.fake_clock import FakeClock

HOST = "api.example.org"


@pytest.fixture
def mine(user: UserStore, clock: FakeClock) -> SharedThrottle:
    return SharedThrottle(user, clock=clock, me=ME)


@pytest.fixture
def theirs(neighbour: UserStore, clock: FakeClock) -> SharedThrottle:
    """The throttle of another living process."""
    return SharedThrottle(neighbour, clock=clock, me=ALIVE)


@pytest.fixture
def observer(user: UserStore, user_path: Path, clock: FakeClock) -> Iterator[UserStore]:
    with closing(UserStore.open(user_path, clock=clock)) as observer:
        yield observer


async def _enter(throttle: SharedThrottle, count: int = 1, endpoint: str = HOST) -> list[str]:
    return [await throttle.enter(endpoint, timeout_s=0) for _ in range(count)]


async def _limit(throttle: SharedThrottle, in_flight: int, retry_after_s: float | None = 5.0) -> list[str]:
    """Have one of several requests refused, and return the tickets of the others."""
    refused, *others = await _enter(throttle, in_flight)
    throttle.leave(refused, "limited", retry_after_s=retry_after_s)
    return others


def _start(throttle: SharedThrottle, count: int, timeout_s: float = 60) -> list[asyncio.Task]:
    return [asyncio.create_task(throttle.enter(HOST, timeout_s=timeout_s)) for _ in range(count)]


def _admitted(tasks: list[asyncio.Task]) -> list[str]:
    return [task.result() for task in tasks if task.done()]


async def test_without_a_refusal_nothing_is_written_or_waited_for(mine: SharedThrottle, observer: UserStore) -> None:
    """AL-31: an unused backoff costs next to nothing."""
    before = observer.data_version()
    with observer.transaction():
        tickets = await _enter(mine, 50)
        for ticket, verdict in zip(tickets, ["ok", "failed"] * 25, strict=True):
            mine.leave(ticket, verdict)
        assert mine.wait_s(HOST) == 0.0
    assert len(set(tickets)) == 50
    assert observer.data_version() == before


async def test_one_refusal_starts_a_cooldown_for_all_processes(
    mine: SharedThrottle, theirs: SharedThrottle, clock: FakeClock
) -> None:
    """AL-31: one 429 stops them all, for as long as Retry-After says."""
    theirs.leave((await _enter(theirs))[0], "ok")
    await _limit(mine, 1, retry_after_s=7.0)
    tasks = _start(mine, 1) + _start(theirs, 1)
    assert theirs.wait_s(HOST) == mine.wait_s(HOST) == 7
    await pass_time(clock, 6.9)
    assert _admitted(tasks) == []
    assert theirs.wait_s(HOST) == pytest.approx(0.1)
    await pass_time(clock, 0.5)
    assert len(_admitted(tasks)) == 1
    assert theirs.wait_s(HOST) == 0


async def test_a_cooldown_that_is_lifted_ends_for_all_processes(
    mine: SharedThrottle, theirs: SharedThrottle, clock: FakeClock
) -> None:
    """AL-31, RA-21: the user does not want to wait; the limit of requests stays."""
    await _limit(mine, 4, retry_after_s=30.0)
    assert theirs.wait_s(HOST) == 30.0
    mine.lift(HOST)
    assert (mine.wait_s(HOST), theirs.wait_s(HOST)) == (0.0, 0.0)
    mine.lift("another.example.org")


async def test_other_endpoints_continue(mine: SharedThrottle, theirs: SharedThrottle) -> None:
    await _limit(mine, 1)
    assert theirs.wait_s("elsewhere") == 0
    await _enter(mine, 3, "elsewhere")
    await _enter(theirs, 3, "elsewhere")


async def test_cooldowns_without_retry_after_double_for_all_processes(
    mine: SharedThrottle, theirs: SharedThrottle, clock: FakeClock
) -> None:
    """AL-31: shared exponential with jitter, 1 s doubling to 30 s."""
    for strike, throttle in enumerate([mine, theirs] * 4):
        await _limit(throttle, 1, retry_after_s=None)
        longest = min(2.0**strike, MAX_COOLDOWN_S)
        assert longest / 2 <= mine.wait_s(HOST) <= longest
        assert theirs.wait_s(HOST) == pytest.approx(mine.wait_s(HOST))
        clock.advance(longest)


async def test_half_as_many_requests_as_were_in_flight_return(mine: SharedThrottle, clock: FakeClock) -> None:
    """AL-31: concurrency lowered."""
    others = await _limit(mine, 8, retry_after_s=1.0)
    for ticket in others:
        mine.leave(ticket, "failed")
    tasks = _start(mine, 20)
    await pass_time(clock, 3)
    assert len(_admitted(tasks)) == 4


async def test_requests_still_in_flight_count_towards_the_limit(mine: SharedThrottle, clock: FakeClock) -> None:
    others = await _limit(mine, 8, retry_after_s=1.0)
    tasks = _start(mine, 20)
    await pass_time(clock, 3)
    assert _admitted(tasks) == []
    for ticket in others[:5]:
        mine.leave(ticket, "failed")
    await pass_time(clock, 1)
    assert len(_admitted(tasks)) == 2


async def test_all_processes_together_respect_the_limit(
    mine: SharedThrottle, theirs: SharedThrottle, clock: FakeClock
) -> None:
    for ticket in await _limit(mine, 8, retry_after_s=1.0):
        mine.leave(ticket, "failed")
    tasks = _start(mine, 10) + _start(theirs, 10)
    most = 0
    for _ in range(40):
        await pass_time(clock, 0.1)
        most = max(most, len(_admitted(tasks)))
        assert most <= 4
    assert most == 4


async def test_requests_of_others_from_before_the_refusal_count_once_they_learn_of_it(
    mine: SharedThrottle, theirs: SharedThrottle, user: UserStore, clock: FakeClock
) -> None:
    old = await _enter(theirs, 3)
    for ticket in await _limit(mine, 4, retry_after_s=1.0):
        mine.leave(ticket, "failed")
    assert user.endpoints.in_flight(HOST) == 0
    clock.advance(2)
    tasks = _start(theirs, 1)
    await pass_time(clock, 1)
    assert user.endpoints.in_flight(HOST) == 3
    assert _admitted(tasks) == []
    theirs.leave(old[0], "ok")
    theirs.leave(old[1], "ok")
    await pass_time(clock, 1)
    assert len(_admitted(tasks)) == 1


async def test_many_simultaneous_refusals_count_once(mine: SharedThrottle, user: UserStore) -> None:
    tickets = await _enter(mine, 16)
    for ticket in tickets:
        mine.leave(ticket, "limited")
    pace = user.endpoints.state(HOST)
    assert (pace.cooldowns, pace.max_in_flight, pace.restore_at) == (1, 8, 16)
    assert user.endpoints.in_flight(HOST) == 0


async def test_answers_raise_the_limit_until_the_endpoint_is_free_and_forgotten(
    mine: SharedThrottle, theirs: SharedThrottle, observer: UserStore, clock: FakeClock
) -> None:
    """AL-31: and raised again, until nothing is written any more."""
    for ticket in await _limit(mine, 4, retry_after_s=1.0):
        mine.leave(ticket, "failed")
    clock.advance(2)
    widths = []
    while observer.endpoints.state(HOST) != UNTHROTTLED:
        widths.append(observer.endpoints.state(HOST).max_in_flight)
        for throttle, _ in zip([mine, theirs] * 5, range(SUCCESSES_PER_STEP), strict=False):
            (ticket,) = await _enter(throttle)
            throttle.leave(ticket, "ok")
    assert widths == [2, 3, 4]
    assert observer.endpoints.in_flight(HOST) == 0
    before = observer.data_version()
    for throttle in (mine, theirs):
        for ticket in await _enter(throttle, 20):
            throttle.leave(ticket, "ok")
    assert observer.data_version() == before


async def test_a_second_refusal_counts_requests_in_flight_again(
    mine: SharedThrottle, user: UserStore, clock: FakeClock
) -> None:
    await _limit(mine, 1, retry_after_s=1.0)
    clock.advance(2)
    for _ in range(SUCCESSES_PER_STEP):
        mine.leave((await _enter(mine))[0], "ok")
    assert user.endpoints.state(HOST) == UNTHROTTLED
    await _limit(mine, 6, retry_after_s=1.0)
    assert user.endpoints.in_flight(HOST) == 5
    assert user.endpoints.state(HOST).max_in_flight == 3


async def test_requests_started_since_the_last_refusal_count_in_the_next(
    mine: SharedThrottle, theirs: SharedThrottle, user: UserStore, clock: FakeClock
) -> None:
    old = await _limit(theirs, 4, retry_after_s=1.0)
    assert user.endpoints.in_flight(HOST) == 3
    clock.advance(2)
    with user.transaction():
        user.endpoints.set_state(HOST, UNTHROTTLED)
    assert user.endpoints.in_flight(HOST) == 0
    theirs.leave(old[0], "limited")
    assert user.endpoints.in_flight(HOST) == 2
    assert user.endpoints.state(HOST).restore_at == 3


async def test_a_failure_of_another_kind_does_not_change_the_limit(
    mine: SharedThrottle, user: UserStore, clock: FakeClock
) -> None:
    others = await _limit(mine, 4, retry_after_s=1.0)
    clock.advance(2)
    before = user.endpoints.state(HOST)
    for ticket in others:
        mine.leave(ticket, "failed")
    assert user.endpoints.state(HOST) == before
    assert user.endpoints.in_flight(HOST) == 0


async def test_a_cooldown_longer_than_the_time_limit_is_reported_at_once(
    mine: SharedThrottle, theirs: SharedThrottle
) -> None:
    """RA-21: no request waits in vain, and the error says when to retry."""
    await _limit(mine, 1, retry_after_s=90.0)
    with pytest.raises(ModelError) as caught:
        await theirs.enter(HOST, timeout_s=60)
    error = caught.value
    assert (error.what, error.fix) == snapshot(
        (
            "api.example.org accepts no requests until 2030-01-01 00:01:30 UTC, in 90 s",
            "Continue after that time, or use another model; `scaffold doctor --fix` asks at once.",
        )
    )
    assert (error.limited, error.transient, error.retry_after_s) == (True, False, 90)


async def test_cooldowns_of_one_call_add_up(mine: SharedThrottle, theirs: SharedThrottle, clock: FakeClock) -> None:
    """RA-21: Retry-After is honoured up to a total for each request."""
    others = await _limit(mine, 2, retry_after_s=40.0)
    (waiting,) = _start(theirs, 1)
    await pass_time(clock, 39.9)
    mine.leave(others[0], "limited", retry_after_s=30.0)
    await pass_time(clock, 1)
    with pytest.raises(ModelError) as caught:
        await waiting
    assert caught.value.limited


async def test_waiting_for_a_free_place_does_not_count_against_the_time_limit(
    mine: SharedThrottle, clock: FakeClock
) -> None:
    others = await _limit(mine, 2, retry_after_s=1.0)
    (waiting,) = _start(mine, 1, timeout_s=2)
    await pass_time(clock, 100)
    assert not waiting.done()
    mine.leave(others[0], "ok")
    await pass_time(clock, 1)
    assert waiting.done()


async def test_waiting_requests_do_not_return_at_the_same_moment(mine: SharedThrottle, clock: FakeClock) -> None:
    others = await _limit(mine, 100, retry_after_s=1.0)
    for ticket in others:
        mine.leave(ticket, "failed")
    tasks = _start(mine, 50)
    counts = []
    for _ in range(150):
        await pass_time(clock, 0.01)
        counts.append(len(_admitted(tasks)))
    assert counts[-1] == 50
    assert len(set(counts)) > 5


async def test_dead_processes_do_not_count(user: UserStore, mine: SharedThrottle, clock: FakeClock) -> None:
    """OR-8: a process that died during a request blocks no one."""
    dead = SharedThrottle(user, clock=clock, me=OWNER)
    await _limit(dead, 4, retry_after_s=1.0)
    assert user.endpoints.in_flight(HOST) == 3
    tasks = _start(mine, 4)
    await pass_time(clock, 4)
    assert len(_admitted(tasks)) == 2
    assert user.endpoints.owners(HOST) == (ME,)


async def test_a_cancelled_wait_leaves_nothing_behind(mine: SharedThrottle, user: UserStore, clock: FakeClock) -> None:
    others = await _limit(mine, 2, retry_after_s=1.0)
    (waiting,) = _start(mine, 1)
    await pass_time(clock, 2)
    waiting.cancel()
    await run_ready_tasks()
    mine.leave(others[0], "failed")
    assert user.endpoints.in_flight(HOST) == 0


async def test_no_more_requests_start_than_the_server_works_on(
    user: UserStore, mine: SharedThrottle, theirs: SharedThrottle, clock: FakeClock
) -> None:
    """AL-31, BX-30: a local server with two slots; a third request would wait there in silence, and count as lost."""
    before = [await each.enter(HOST, timeout_s=0, most=2) for each in (mine, theirs)]
    waiting = [asyncio.create_task(each.enter(HOST, timeout_s=0, most=2)) for each in (mine, theirs)]
    await pass_time(clock, 100)
    assert _admitted(waiting) == []
    mine.leave(before[0], "ok")
    await pass_time(clock, 1)
    assert len(_admitted(waiting)) == 1
    theirs.leave(before[1], "failed")
    await pass_time(clock, 1)
    assert len(_admitted(waiting)) == 2
    for each, ticket in zip((mine, theirs), _admitted(waiting), strict=True):
        each.leave(ticket, "ok")
    assert user.endpoints.in_flight(HOST) == 0
    assert user.endpoints.states() == {}
