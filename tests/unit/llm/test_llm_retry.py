import asyncio
from itertools import pairwise

import pytest

from scaffold.core.conversation import AssistantMessage, Caller, Reply, Request, RetryWait, StreamReset, Text, TextDelta
from scaffold.core.errors import ContextOverflow, ModelError
from scaffold.core.model import Usage
from scaffold.llm.deltas import DeltaListener
from scaffold.llm.transport.live_context import IMPATIENT, Hurry, Patience
from scaffold.llm.transport.retry import FULL, LocalThrottle, RetryingModel
from support.fake_clock import FakeClock

REQUEST = Request(caller=Caller(role="implementation"), system="", messages=())
BUSY = ModelError("Overloaded.", "Wait.", transient=True)
LIMITED = ModelError("Too many.", "Wait.", transient=True, limited=True)


class NoJitter:
    """Always the longest wait of a retry, and never extra jitter."""

    def uniform(self, a, b, /):
        return b if a else 0.0


class AllJitter:
    """Always the shortest wait."""

    def uniform(self, a, b, /):
        return a or b


class Flaky:
    """Fails `failures` times, then answers; records when each try began."""

    endpoint = "flaky http://127.0.0.1"
    window_tokens = 1_000
    slots = None

    def __init__(self, failures, *, clock=None, error=BUSY, hangs=False, says=()):
        self.clock = clock or FakeClock()
        self._failures = failures
        self._error = error
        self._hangs = hangs
        self._says = says
        self.tries = []
        self.silences = []

    def estimate(self, request):
        return Usage(input_tokens=7, cost_usd=None)

    async def attempt(self, request, try_number, on_delta, *, silence_s):
        self.tries.append((try_number, self.clock.monotonic()))
        self.silences.append(silence_s)
        for word in self._says:
            on_delta(TextDelta(word))
        if try_number > self._failures:
            return Reply(message=AssistantMessage((Text("here"),)), usage=Usage(), stop="end")
        if self._hangs:
            await self.clock.sleep(silence_s)
        raise self._error


async def settle(asking, clock):
    """Advance the clock by an eighth of a second a step until `asking` is done."""
    while not asking.done():
        for _ in range(3):
            await asyncio.sleep(0)
        clock.advance(0.125)
    return await asking


def retrying(flaky, jitter=None, throttle=None, **limits):
    jitter = jitter or NoJitter()
    throttle = throttle or LocalThrottle(clock=flaky.clock, rng=jitter)
    return RetryingModel(flaky, clock=flaky.clock, rng=jitter, throttle=throttle, **limits)


async def ask(flaky, jitter=None, heard=None, **limits):
    model = retrying(flaky, jitter, **limits)
    heard = [] if heard is None else heard
    return await settle(asyncio.create_task(model.reply(REQUEST, heard.append)), flaky.clock)


def waits(flaky):
    return [later - earlier for (_, earlier), (_, later) in pairwise(flaky.tries)]


async def test_waits_double_from_one_second():
    """RA-21."""
    flaky = Flaky(failures=4)
    reply = await ask(flaky)
    assert reply.message.text == "here"
    assert waits(flaky) == pytest.approx([1, 2, 4, 8], abs=0.3)
    assert [number for number, _ in flaky.tries] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(("held_s", "told"), [(4.0, []), (60.0, [RetryWait(0.0, FULL)])])
async def test_a_request_that_waits_for_a_slot_of_its_server_says_so_once_it_takes_long(held_s, told):
    """BX-30: once, and not if the slot is free soon."""
    flaky, heard = Flaky(failures=0), []
    throttle = LocalThrottle(clock=flaky.clock, rng=NoJitter())
    taken = await throttle.enter(flaky.endpoint, timeout_s=1.0)
    flaky.slots = 1

    async def hold():
        await flaky.clock.sleep(held_s)
        throttle.leave(taken, "ok")

    holding = asyncio.create_task(hold())
    assert (await ask(flaky, heard=heard, throttle=throttle)).message.text == "here"
    await holding
    assert heard == told


async def test_jitter_takes_up_to_half_of_a_wait():
    flaky = Flaky(failures=3)
    await ask(flaky, AllJitter())
    assert flaky.tries[-1][1] == pytest.approx(0.5 + 1 + 2, abs=0.5)


async def test_no_wait_is_longer_than_half_a_minute():
    flaky = Flaky(failures=8)
    await ask(flaky, patience=Patience(1_000.0))
    assert waits(flaky)[-1] == pytest.approx(30, abs=0.3)


@pytest.mark.parametrize(("jitter", "tries"), [(NoJitter(), 6), (AllJitter(), 8)])
async def test_all_tries_of_one_request_begin_within_a_minute(jitter, tries):
    """RA-21."""
    flaky = Flaky(failures=10_000)
    with pytest.raises(ModelError, match=rf"Overloaded\. \(tried {tries} times\)"):
        await ask(flaky, jitter)
    assert flaky.clock.monotonic() <= 60.25


async def test_the_minute_begins_with_the_first_failure():
    """RA-21: a first reply may take long; what is cut off afterwards is still repeated."""
    flaky = Flaky(failures=1, hangs=True)
    await ask(flaky, idle_s=300.0)
    assert [at for _, at in flaky.tries] == pytest.approx([0, 301], abs=0.5)


async def test_permanent_errors_are_not_retried():
    for error in (ModelError("Refused.", "Change it."), ContextOverflow("Too long.", "Shorten it.")):
        flaky = Flaky(failures=1, error=error)
        with pytest.raises(ModelError) as caught:
            await ask(flaky)
        assert (type(caught.value), caught.value.what, len(flaky.tries)) == (type(error), error.what, 1)


async def test_a_try_may_be_silent_no_longer_than_the_rest_of_the_minute():
    flaky = Flaky(failures=10, hangs=True)
    with pytest.raises(ModelError):
        await ask(flaky, idle_s=40.0)
    assert flaky.silences == pytest.approx([40, 40, 15], abs=0.5)
    assert flaky.clock.monotonic() == pytest.approx(100, abs=0.5)


@pytest.mark.parametrize("limited", [True, False])
async def test_a_retry_after_beyond_the_minute_fails_at_once_with_the_time(limited):
    """RA-21."""
    error = ModelError("Later.", "Wait.", transient=True, limited=limited, retry_after_s=120.0)
    flaky = Flaky(failures=1, error=error)
    with pytest.raises(ModelError, match=r"Later\. \(tried once, retry in 120 s\)") as caught:
        await ask(flaky)
    assert caught.value.retry_after_s == pytest.approx(120, abs=0.5)
    assert flaky.clock.monotonic() < 1.0


async def test_one_overload_response_starts_a_cooldown_for_the_others():
    """AL-31, BX-11."""
    clock = FakeClock()
    throttle = LocalThrottle(clock=clock, rng=NoJitter())
    error = ModelError("Too many.", "Wait.", transient=True, limited=True, retry_after_s=9.0)
    limited, other = Flaky(failures=1, error=error, clock=clock), Flaky(failures=0, clock=clock)
    asking = asyncio.create_task(retrying(limited, throttle=throttle).reply(REQUEST))
    for _ in range(5):
        await asyncio.sleep(0)
    late = asyncio.create_task(retrying(other, throttle=throttle).reply(REQUEST))
    await settle(asking, clock)
    await settle(late, clock)
    assert limited.tries[1][1] == pytest.approx(9, abs=0.5)
    assert other.tries[0][1] == pytest.approx(9, abs=0.5)


class Watched(LocalThrottle):
    """Records when a request wants to enter."""

    def __init__(self, clock):
        super().__init__(clock=clock, rng=NoJitter())
        self.clock = clock
        self.entered = []

    async def enter(self, endpoint, **how):
        self.entered.append(self.clock.monotonic())
        return await super().enter(endpoint, **how)


async def test_a_request_refused_for_overload_queues_with_the_others():
    """AL-31: it is the throttle that lets them back, one after the other."""
    clock = FakeClock()
    throttle = Watched(clock)
    await ask(Flaky(failures=1, error=LIMITED, clock=clock), throttle=throttle)
    assert throttle.entered == [0.0, 0.0]


class Crowded(LocalThrottle):
    """A throttle on which others keep a returning request waiting for `seconds`."""

    def __init__(self, clock, seconds):
        super().__init__(clock=clock, rng=NoJitter())
        self.clock = clock
        self.seconds = seconds
        self.left = []

    async def enter(self, endpoint, **how):
        if self.left:
            await self.clock.sleep(self.seconds)
        return await super().enter(endpoint, **how)

    def leave(self, ticket, verdict, *, retry_after_s=None):
        self.left.append(verdict)
        super().leave(ticket, verdict, retry_after_s=retry_after_s)


async def test_no_try_begins_after_a_minute_in_the_queue():
    """RA-21: retries of one request end within 60 s, and its place is free for others."""
    clock = FakeClock()
    flaky, throttle = Flaky(failures=1, clock=clock), Crowded(clock, 61.0)
    with pytest.raises(ModelError, match=r"^Overloaded\. \(tried once\)$"):
        await ask(flaky, throttle=throttle)
    assert len(flaky.tries) == 1
    assert throttle.left == ["unavailable", "failed"]


@pytest.mark.parametrize("error", [BUSY, LIMITED], ids=["busy", "limited"])
async def test_a_user_who_does_not_want_to_wait_has_the_request_sent_at_once(error):
    """RA-21: also while the endpoint is parked; the next failure waits anew, and errors are as before."""
    clock, hurry, heard = FakeClock(), Hurry(), asyncio.Queue()
    flaky = Flaky(failures=2, error=error, clock=clock)
    hurry.now()  # nothing waits
    asking = asyncio.create_task(retrying(flaky, patience=Patience(hurry=hurry)).reply(REQUEST, heard.put_nowait))
    for tries in (1, 2):
        assert isinstance(await heard.get(), RetryWait)
        assert len(flaky.tries) == tries
        await asyncio.sleep(0)  # it waits only after it has said so
        hurry.now()
    assert (await asking).message.text == "here"
    assert [at for _, at in flaky.tries] == [0.0] * 3
    refused = Flaky(failures=1, error=ModelError("No.", "Pay."), clock=clock)
    with pytest.raises(ModelError, match=r"No\."):
        await ask(refused, patience=Patience(hurry=hurry))


async def test_an_exhausted_quota_starts_no_cooldown():
    clock = FakeClock()
    throttle = Watched(clock)
    with pytest.raises(ModelError):
        await ask(
            Flaky(failures=1, error=ModelError("No credit.", "Pay.", limited=True), clock=clock), throttle=throttle
        )
    assert throttle.wait_s(Flaky.endpoint) == 0


async def test_an_endpoint_with_too_long_a_cooldown_is_not_asked():
    clock = FakeClock()
    throttle = LocalThrottle(clock=clock, rng=NoJitter())
    throttle.leave(await throttle.enter(Flaky.endpoint, timeout_s=0.0), "limited", retry_after_s=61.0)
    flaky = Flaky(failures=0, clock=clock)
    with pytest.raises(ModelError, match="retry in 61 s"):
        await retrying(flaky, throttle=throttle).reply(REQUEST)
    assert flaky.tries == []


async def test_a_failed_try_is_marked_as_void_before_its_text_is_repeated():
    """RA-21: a dropped stream is repeated whole."""
    heard = []
    await ask(Flaky(failures=1, says=("he", "re")), heard=heard)
    assert heard == [
        TextDelta("he"),
        TextDelta("re"),
        StreamReset("Overloaded."),
        RetryWait(1.0, "Overloaded."),
        TextDelta("he"),
        TextDelta("re"),
    ]


async def test_a_silent_failure_needs_no_mark_and_waits_are_reported():
    heard = []
    await ask(Flaky(failures=2, error=LIMITED), heard=heard)
    assert [type(delta) for delta in heard] == [RetryWait, RetryWait]
    assert [delta.seconds for delta in heard] == pytest.approx([1, 2], abs=0.3)


async def test_cancelling_ends_the_wait_between_two_tries_and_frees_the_place():
    flaky = Flaky(failures=5)
    asking = asyncio.create_task(retrying(flaky).reply(REQUEST))
    for _ in range(3):
        await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert len(flaky.tries) == 1


async def test_attributes_of_the_inner_model_are_passed_on():
    model = retrying(Flaky(failures=0))
    assert model.window_tokens == 1_000
    assert model.estimate(REQUEST).input_tokens == 7


NOBODY = ModelError("Connection refused.", "Start it.", transient=True, no_local_server=True)


async def test_a_local_server_that_is_not_there_is_given_up_within_three_seconds():
    """RA-21: for a user who waits; the endpoint is not parked, so that the next request does not wait either."""
    clock = FakeClock()
    throttle = LocalThrottle(clock=clock, rng=NoJitter())
    for _ in range(3):
        flaky, began = Flaky(99, error=NOBODY, clock=clock), clock.monotonic()
        with pytest.raises(ModelError, match="Connection refused"):
            await ask(flaky, AllJitter(), throttle=throttle, patience=IMPATIENT)
        assert clock.monotonic() - began <= 3.0
        assert len(flaky.tries) > 1


async def test_a_run_waits_for_a_local_server_as_for_any_other():
    """SC-12."""
    flaky = Flaky(12, error=NOBODY)
    assert (await ask(flaky, patience=Patience(1_000.0))).message.text == "here"


@pytest.mark.parametrize(("says", "billable"), [((), [0, 1]), (("half a reply",), [2])])
async def test_what_may_be_billed_is_told_before_each_wait_and_each_try(says, billable):
    """BX-11: a process that is killed while its request waits has sent nothing but what broke off."""
    told = []
    listener = DeltaListener(lambda _: None, told.append)
    flaky = Flaky(failures=1, says=says)
    model = retrying(flaky)
    await settle(asyncio.create_task(model.reply(REQUEST, listener)), flaky.clock)
    assert told == billable


async def test_a_request_that_is_sent_at_once_is_not_told():
    """BX-11: each word costs a transaction."""
    told = []
    await retrying(Flaky(failures=0)).reply(REQUEST, DeltaListener(lambda _: None, told.append))
    assert told == []


async def test_a_request_waits_unsent_for_an_endpoint_that_is_parked_or_full():
    """BX-11, AL-31."""
    clock, told = FakeClock(), []
    throttle = LocalThrottle(clock=clock, rng=NoJitter())
    first = await throttle.enter(Flaky.endpoint, timeout_s=1.0)
    throttle.leave(first, "limited", retry_after_s=5.0)
    model = retrying(Flaky(failures=0, clock=clock), throttle=throttle, patience=Patience(60.0))
    asking = asyncio.create_task(model.reply(REQUEST, DeltaListener(lambda _: None, told.append)))
    for _ in range(3):
        await asyncio.sleep(0)
    assert told == [0]
    await settle(asking, clock)
    assert told == [0, 1]
    # One request at a time after the limit: the next one waits for it, which is no cooldown.
    second = await throttle.enter(Flaky.endpoint, timeout_s=1.0)
    asking = asyncio.create_task(model.reply(REQUEST, DeltaListener(lambda _: None, told.append)))
    for _ in range(3):
        await asyncio.sleep(0)
    assert told == [0, 1, 0]
    throttle.leave(second, "ok")
    await settle(asking, clock)
    assert told == [0, 1, 0, 1]
