"""Create the model for a model string."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from scaffold.core.conversation import DeltaHandler, Reply, Request, RetryWait, StreamReset, ignore_delta
from scaffold.core.errors import ModelAccessDenied, ModelUnavailable, UsageError
from scaffold.core.model import Usage
from scaffold.core.ports import Clock, Model
from scaffold.core.run_settings import ModelProfile
from scaffold.host.startup import importing
from scaffold.llm.deltas import DeltaListener
from scaffold.llm.registry.model_name import parse_model
from scaffold.llm.transport.live_context import IMPATIENT, LiveContext, Patience
from scaffold.llm.transport.retry import LocalThrottle, RandomSource, RetryingModel

MAX_SMALL_WINDOW = 32_768.0
"""A local model with a window of at most so many tokens is a small one."""
NO_PROFILES: Mapping[str, ModelProfile] = {}
CASSETTE_IDLE_S = 10.0
"""A cassette answers at once, so a longer wait means it hangs."""


def cassette_digest(text: str) -> str:
    """Return the hex SHA-256 of the cassette file; empty for other models.

    The cassette is parsed: ModelError if it is invalid, UsageError as in `parse_model`.
    """
    model = parse_model(text)
    if model.provider != "cassette":
        return ""
    with importing():  # for tests and demonstrations
        from scaffold.llm.cassette_file import load_cassette
    return load_cassette(Path(model.name).expanduser()).digest


def open_model(
    text: str,
    *,
    clock: Clock,
    rng: RandomSource,
    line: LiveContext | None = None,
    stream: bool = True,
    patience: Patience = IMPATIENT,
    profiles: Mapping[str, ModelProfile] = NO_PROFILES,
) -> Model:
    """Return the model for a model string, with retries; one object for each conversation. Sends nothing yet.

    Cassettes need no `line`. Without `stream` a reply arrives as a whole. `patience` is for an endpoint that is down or
    limited, `profiles` are the configured ones. UsageError if the string is invalid or a key
    is missing, ModelError if a cassette cannot be read.
    """
    model, small = parse_model(text), small_window(text, profiles)
    if model.provider == "cassette":
        with importing():
            from scaffold.llm.cassette_file import load_cassette
            from scaffold.llm.cassette_model import CassetteModel
        tape = CassetteModel(load_cassette(Path(model.name).expanduser()))
        unshared = LocalThrottle(clock=clock, rng=rng)
        return RetryingModel(
            tape, clock=clock, rng=rng, throttle=unshared, idle_s=CASSETTE_IDLE_S, patience=patience, small_window=small
        )
    if model.provider == "executor":
        what = f"`{model.name}` is a program, and an agent of ours needs a model"
        raise UsageError(what, "Pass `--model MODEL`, or choose a program for every role.")
    if line is None:
        raise UsageError(f"`{model}` is a live model, but only cassettes can be used here", "Use `cassette:PATH`.")
    with importing():
        from scaffold.llm.live_model import open_live_model
    live, idle_s = open_live_model(model, clock, line, stream=stream)
    return RetryingModel(
        live, clock=clock, rng=rng, throttle=line.throttle, idle_s=idle_s, patience=patience, small_window=small
    )


def small_window(text: str, profiles: Mapping[str, ModelProfile]) -> float:
    """Return the largest window with which the model counts as small: none, any, or one of local models."""
    model = parse_model(text)
    match profiles.get(str(model)) or profiles.get(model.name) or "auto":
        case "small":
            return math.inf
        case "full":
            return 0.0
        case "auto":
            return MAX_SMALL_WINDOW if model.provider == "local" else 0.0


def open_first_available(
    names: Sequence[str],
    *,
    clock: Clock,
    rng: RandomSource,
    line: LiveContext,
    patience: Patience,
    profiles: Mapping[str, ModelProfile] = NO_PROFILES,
) -> Model:
    """Return a model that is the first of several live ones whose endpoint accepts requests.

    Raises UsageError as `open_model` does, for any of them.
    """
    # Each gives up when its endpoint is parked, and the next one is asked.
    impatient = Patience(0.0, patience.waiting)
    models: list[RetryingModel] = []
    with importing():
        from scaffold.llm.live_model import open_live_model
    for name in names:
        live, idle_s = open_live_model(parse_model(name), clock, line, stream=True)
        models.append(
            RetryingModel(
                live,
                clock=clock,
                rng=rng,
                throttle=line.throttle,
                idle_s=idle_s,
                patience=impatient,
                small_window=small_window(name, profiles),
            )
        )
    return FallbackModel(models, clock=clock, patience=patience)


MIN_POLL_S, MAX_POLL_S = 1.0, 5.0
"""Bounds of the time after which all endpoints are looked at again; any of them may be back early."""


class FallbackModel:
    """Asks the first model whose endpoint accepts requests; waits until one of them does if none does.

    Implements `core.ports.Model`. A request that fails for another reason than its endpoint is not asked again.
    """

    def __init__(self, models: Sequence[RetryingModel], *, clock: Clock, patience: Patience) -> None:
        """Take at least one model, the preferred one first, each of which gives up when its endpoint is parked.

        `patience` is for the time in which no endpoint accepts requests.
        """
        self._models = tuple(models)
        self._clock = clock
        self._patience = patience

    @property
    def window_tokens(self) -> int | None:
        """Return the smallest context window: a conversation has to fit into each of them. None if none is known."""
        return min(filter(None, (each.window_tokens for each in self._models)), default=None)

    @property
    def is_small(self) -> bool:
        """Return whether one of the models is small: each may be asked next."""
        return any(each.is_small for each in self._models)

    def estimate(self, request: Request) -> Usage:
        """Return the estimated usage of the request at the model that would be asked now."""
        return next((each for each in self._models if not each.parked_s), self._models[0]).estimate(request)

    async def reply(self, request: Request, on_delta: DeltaHandler = ignore_delta) -> Reply:
        """Return the first complete reply; ModelUnavailable if all endpoints stay away, or refuse this user."""
        listener = on_delta if isinstance(on_delta, DeltaListener) else DeltaListener(on_delta)
        waiting, refusal = list(self._models), None
        until_s: float | None = None
        while True:
            for model in [each for each in waiting if not each.parked_s]:
                try:
                    return await model.reply(request, listener)
                except ModelUnavailable as error:
                    if isinstance(error, ModelAccessDenied):
                        waiting.remove(model)
                        refusal = refusal or error
                    if listener.has_output:
                        listener(StreamReset(error.what))
            if not waiting and refusal is not None:
                raise refusal
            until_s = until_s or self._clock.monotonic() + self._patience.wait_s
            nearest = min(waiting, key=lambda each: each.parked_s)
            if self._clock.monotonic() + nearest.parked_s > until_s:
                return await nearest.reply(request, listener)  # which says until when it is parked
            listener(RetryWait(nearest.parked_s, "none of the models' endpoints accepts requests"))
            listener.waits()
            with self._patience.waiting():
                await self._clock.sleep(min(max(nearest.parked_s, MIN_POLL_S), MAX_POLL_S))
