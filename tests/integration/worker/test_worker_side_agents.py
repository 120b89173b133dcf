"""Agents that advise on an attempt: who pays for them, and what is told while their model is away."""

from inline_snapshot import snapshot
from msgspec import structs

from fakes import cassette_model
from integration.worker.builders import REVIEWED, claimed_attempt
from scaffold.core.conversation import RetryWait
from scaffold.core.run_settings import ModelSettings
from scaffold.llm.cassette_model import CassetteEntry, CassetteUsage, RequestMatcher
from scaffold.worker.agent.side_agent import SideAgent
from support.harness import act, goal


class Away:
    """A model whose endpoint is waited for before each of the script's replies."""

    window_tokens = None
    is_small = False

    def __init__(self, inner):
        self._inner = inner
        self.estimate = inner.estimate

    async def reply(self, request, on_delta):
        for seconds in (2.0, 30.0, 60.0):
            on_delta(RetryWait(seconds, "it does not answer"))
        return await self._inner.reply(request, on_delta)


def judge():
    used = CassetteUsage(input_tokens=300, output_tokens=10)
    return Away(cassette_model(CassetteEntry(when=RequestMatcher(role="reviewer"), text="fine", usage=used)))


async def test_a_reviewers_own_model_is_waited_for_in_the_open_and_booked_as_its(harness):
    """AL-31, AL-21: nobody watches its endpoint, so its attempt says once what it waits for."""
    own = structs.replace(REVIEWED["reviewer"], model=ModelSettings(name="cassette:/judge.yaml"))
    run = await harness.own(goal("g", act("a")), **(REVIEWED | {"reviewer": own}))
    async with claimed_attempt(harness, run, "a") as made:
        agent = SideAgent(made.place.workspace, made.records, judge(), "reviewer")
        for _ in range(2):
            await agent.turn("Is it right?")
    assert harness.notices(run) == snapshot(
        ["a waits for the model of its reviewer, for 30 s at least: it does not answer"]
    )
    (booking,) = harness.store.bookings.for_run(run.id)
    assert (booking.spender.role, booking.spender.model) == ("reviewer", "cassette:/judge.yaml")
    assert (booking.usage.requests, booking.usage.counted_tokens) == (2, 620)


async def test_the_models_that_the_run_watches_are_not_told_twice(harness):
    run = await harness.own(goal("g", act("a")), **REVIEWED)
    async with claimed_attempt(harness, run, "a") as made:
        await SideAgent(made.place.workspace, made.records, judge(), "reviewer").turn("Is it right?")
    assert harness.notices(run) == []
