"""Requests that wait for an endpoint that is down or limited, on a clock that only the test moves."""

import asyncio
from contextlib import contextmanager

import pytest

from scaffold.core.conversation import AssistantMessage, Caller, Reply, Request, Text
from scaffold.core.errors import ModelAccessDenied, ModelError, ModelUnavailable
from scaffold.core.model import Usage
from scaffold.llm.model_factory import FallbackModel
from scaffold.llm.transport.live_context import Patience
from scaffold.llm.transport.retry import LocalThrottle, RetryingModel
from support.fake_clock import FakeClock

REQUEST = Request(caller=Caller(role="implementation"), system="", messages=())
DOWN = ModelError("Nobody answers.", "Wait.", transient=True)
HOUR_S = 3_600.0


class NoJitter:
    def uniform(self, a, b, /):
        return b if a else 0.0


class Endpoint:
    """An endpoint that fails with `error` until the clock shows `until`; counts the requests it got."""

    def __init__(self, clock, until, error=DOWN, *, name="far", window_tokens=None):
        self.endpoint = name
        self.window_tokens = window_tokens
        self.slots = None
        self.clock = clock
        self.until = until
        self.error = error
        self.asked = []

    def estimate(self, request):
        return Usage(input_tokens=len(self.endpoint))

    async def attempt(self, request, try_number, on_delta, *, silence_s):
        self.asked.append(self.clock.monotonic())
        if self.clock.monotonic() < self.until:
            raise self.error
        return Reply(message=AssistantMessage((Text(f"{self.endpoint} here"),)), usage=Usage(), stop="end")


class Waiting:
    """Counts the seconds that requests say they wait."""

    def __init__(self, clock):
        self.clock = clock
        self.seconds = 0.0

    @contextmanager
    def __call__(self):
        began = self.clock.monotonic()
        yield
        self.seconds += self.clock.monotonic() - began


async def finished(tasks, clock, step_s=0.5):
    """Advance the clock until all have ended; return their results and errors."""
    while not all(task.done() for task in tasks):
        for _ in range(5 * len(tasks)):
            await asyncio.sleep(0)
        clock.advance(step_s)
    return [task.exception() or task.result() for task in tasks]


def ask(endpoint, clock, patience, agents=1):
    throttle = LocalThrottle(clock=clock, rng=NoJitter())
    models = [
        RetryingModel(endpoint, clock=clock, rng=NoJitter(), throttle=throttle, patience=patience)
        for _ in range(agents)
    ]
    return [asyncio.create_task(model.reply(REQUEST)) for model in models]


@pytest.mark.slow
async def test_an_outage_of_half_an_hour_is_waited_out_with_one_request_a_period():
    """AL-31, BX-23: twenty agents cost an endpoint that is back no storm."""
    clock = FakeClock()
    endpoint, waiting = Endpoint(clock, HOUR_S / 2), Waiting(clock)
    replies = await finished(ask(endpoint, clock, Patience(HOUR_S, waiting), agents=20), clock)
    assert {reply.message.text for reply in replies} == {"far here"}
    during = sum(1 for at in endpoint.asked if 60 < at < HOUR_S / 2)
    assert during <= HOUR_S / 2 / 15, "a period is half a minute at most, shortened by up to half"
    assert waiting.seconds >= 20 * (HOUR_S / 2 - 1)


async def test_a_quota_that_is_reset_in_time_is_waited_out():
    """AL-31."""
    clock = FakeClock()
    endpoint = Endpoint(
        clock, 3_000.0, ModelError("Later.", "Wait.", transient=True, limited=True, retry_after_s=3_000)
    )
    replies = await finished(ask(endpoint, clock, Patience(HOUR_S), agents=3), clock, step_s=5.0)
    assert {reply.message.text for reply in replies} == {"far here"}
    assert len([at for at in endpoint.asked if at < 3_000]) == 1


@pytest.mark.parametrize(
    "error", [DOWN, ModelError("Later.", "Wait.", transient=True, limited=True, retry_after_s=7_200)]
)
async def test_an_endpoint_that_stays_away_longer_is_unavailable(error):
    """AL-31: which says nothing about the request."""
    clock = FakeClock()
    (ended,) = await finished(ask(Endpoint(clock, 10 * HOUR_S, error), clock, Patience(HOUR_S)), clock)
    assert isinstance(ended, ModelUnavailable)
    assert ended.what.startswith(error.what)
    assert clock.monotonic() <= HOUR_S + 1


async def test_a_request_that_fails_alone_is_given_up_after_a_minute():
    """RA-21: others get replies, so it is the request's own fault, however patient it is."""
    clock = FakeClock()
    throttle = LocalThrottle(clock=clock, rng=NoJitter())
    poisoned, healthy = Endpoint(clock, 10 * HOUR_S), Endpoint(clock, 0.0)

    def model(endpoint):
        return RetryingModel(endpoint, clock=clock, rng=NoJitter(), throttle=throttle, patience=Patience(HOUR_S))

    async def others():
        while True:
            await model(healthy).reply(REQUEST)
            await clock.sleep(0.5)

    busy = asyncio.create_task(others())
    (ended,) = await finished([asyncio.create_task(model(poisoned).reply(REQUEST))], clock)
    busy.cancel()
    assert type(ended) is ModelError
    assert clock.monotonic() <= 90


class Silent(Endpoint):
    """An endpoint that takes requests and sends nothing, until the clock shows `until`."""

    async def attempt(self, request, try_number, on_delta, *, silence_s):
        if self.clock.monotonic() < self.until:
            await self.clock.sleep(silence_s)
        return await super().attempt(request, try_number, on_delta, silence_s=silence_s)


@pytest.mark.parametrize("agents", [1, 2, 20])
async def test_an_endpoint_that_takes_requests_and_never_answers_is_waited_out(agents):
    """AL-31: each request fails after a minute of silence, so a lone one fails only twice within its time."""
    clock = FakeClock()
    silent = Silent(clock, HOUR_S / 2)
    got = await finished(ask(silent, clock, Patience(HOUR_S), agents=agents), clock, step_s=10.0)
    assert {reply.message.text for reply in got} == {"far here"}


@pytest.mark.parametrize("patience_s", [3.0, HOUR_S])
async def test_who_gives_up_behind_the_request_that_asks_for_all_does_not_blame_its_own(patience_s):
    """AL-31: its time is used up in the queue of an endpoint that is away."""
    clock = FakeClock()
    asking = ask(Endpoint(clock, 10 * HOUR_S), clock, Patience(patience_s), agents=9)
    got = await finished(asking, clock, step_s=min(patience_s, 10.0))
    assert {type(each) for each in got} == {ModelUnavailable}


REFUSES = ModelAccessDenied("The key is not valid.", "Set it.")


def fallback(clock, *endpoints, patience=HOUR_S):
    throttle = LocalThrottle(clock=clock, rng=NoJitter())

    models = [
        RetryingModel(each, clock=clock, rng=NoJitter(), throttle=throttle, patience=Patience(0.0))
        for each in endpoints
    ]
    return FallbackModel(models, clock=clock, patience=Patience(patience))


async def replies(model, clock, count=1):
    """Return what a conversation's requests got, one after the other."""
    found = []
    for _ in range(count):
        found += await finished([asyncio.create_task(model.reply(REQUEST))], clock)
    return [each if isinstance(each, Exception) else each.message.text for each in found]


@pytest.mark.parametrize(
    "error",
    [DOWN, REFUSES, ModelError("Later.", "Wait.", transient=True, limited=True, retry_after_s=600)],
    ids=["down", "refuses", "limited"],
)
async def test_another_model_of_the_same_size_takes_the_place_of_one_that_is_away(error):
    """AL-31: `models.medium: [a, b]`."""
    clock = FakeClock()
    first, second = Endpoint(clock, HOUR_S, error, name="first"), Endpoint(clock, 0.0, name="second")
    model = fallback(clock, first, second)
    assert await replies(model, clock, 3) == ["second here"] * 3
    assert clock.monotonic() < 60
    clock.advance(HOUR_S)
    assert await replies(model, clock) == ["first here"]


async def test_the_first_model_that_may_be_back_is_waited_for():
    """AL-31."""
    clock = FakeClock()
    limits = [ModelError("Later.", "Wait.", transient=True, limited=True, retry_after_s=at) for at in (900, 300)]
    first, second = (Endpoint(clock, each.retry_after_s, each, name=f"{each.retry_after_s}") for each in limits)
    assert await replies(fallback(clock, first, second), clock) == ["300 here"]
    assert clock.monotonic() == pytest.approx(300, abs=2)


async def test_a_model_that_is_back_is_not_kept_waiting_by_one_that_is_not():
    """AL-31: one is down for long, so it is to be asked first again and again; the other one is back first."""
    clock = FakeClock()
    limited = ModelError("Later.", "Wait.", transient=True, limited=True, retry_after_s=120)
    first, second = Endpoint(clock, 120.0, limited, name="first"), Endpoint(clock, 10 * HOUR_S, name="second")
    assert await replies(fallback(clock, first, second), clock) == ["first here"]
    assert clock.monotonic() == pytest.approx(120, abs=6)


async def test_models_that_all_stay_away_are_waited_for_as_long_as_one():
    """AL-31."""
    clock = FakeClock()
    model = fallback(clock, *(Endpoint(clock, 10 * HOUR_S, name=name) for name in ("first", "second")))
    (ended,) = await replies(model, clock)
    assert isinstance(ended, ModelUnavailable)
    assert HOUR_S - 60 < clock.monotonic() < HOUR_S + 60


async def test_endpoints_that_all_refuse_are_not_waited_for():
    clock = FakeClock()
    model = fallback(clock, *(Endpoint(clock, HOUR_S, REFUSES, name=name) for name in ("first", "second")))
    assert await replies(model, clock) == [REFUSES]
    assert clock.monotonic() < 1


async def test_a_request_that_is_wrong_is_not_asked_of_others():
    clock = FakeClock()
    wrong = ModelError("Too long.", "Shorten it.")
    first, second = Endpoint(clock, HOUR_S, wrong, name="first"), Endpoint(clock, 0.0, name="second")
    assert await replies(fallback(clock, first, second), clock) == [wrong]
    assert second.asked == []


def test_a_conversation_has_to_fit_into_each_of_the_models():
    clock = FakeClock()
    model = fallback(clock, *(Endpoint(clock, 0.0, name="x", window_tokens=size) for size in (9_000, None, 8_000)))
    assert model.window_tokens == 8_000
    assert model.estimate(REQUEST).input_tokens == 1
