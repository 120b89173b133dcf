"""Create the model for a model string."""

from collections.abc import Sequence
from pathlib import Path

from scaffold.core.errors import UsageError
from scaffold.core.ports import Clock, Model
from scaffold.llm.cassette_file import load_cassette
from scaffold.llm.cassette_model import CassetteModel
from scaffold.llm.fallback import FallbackModel
from scaffold.llm.live_model import LiveModel
from scaffold.llm.model_window import ModelWindow
from scaffold.llm.registry.cards import ModelCard, model_card
from scaffold.llm.registry.model_name import ModelName, parse_model
from scaffold.llm.transport.endpoint import find_endpoint
from scaffold.llm.transport.live_context import IMPATIENT, Deadlines, LiveContext, Patience
from scaffold.llm.transport.login_client import LoginClient
from scaffold.llm.transport.retry import LocalThrottle, RandomSource, RetryingModel

CASSETTE_IDLE_S = 10.0
"""A cassette answers at once, so a longer wait means it hangs."""

DEFAULT_DEADLINES = Deadlines()
REASONING_DEADLINES = Deadlines(idle_s=300.0)
"""For models that may think for minutes before they send the first byte."""
UNSTREAMED_DEADLINES = Deadlines(idle_s=600.0)
"""For replies without streaming: nothing arrives before the whole reply is generated."""


def cassette_digest(text: str) -> str:
    """Return the hex SHA-256 of the cassette file; empty for other models.

    The cassette is parsed: ModelError if it is invalid, UsageError as in `parse_model`.
    """
    model = parse_model(text)
    return load_cassette(Path(model.name).expanduser()).digest if model.provider == "cassette" else ""


def open_model(
    text: str,
    *,
    clock: Clock,
    rng: RandomSource,
    line: LiveContext | None = None,
    stream: bool = True,
    patience: Patience = IMPATIENT,
) -> Model:
    """Return the model for a model string, with retries; one object for each conversation. Sends nothing yet.

    Cassettes need no `line`. Without `stream` a reply arrives as a whole. `patience` is for an endpoint that is down or
    limited. UsageError if the string is invalid or a key
    is missing, ModelError if a cassette cannot be read.
    """
    model = parse_model(text)
    if model.provider == "cassette":
        tape = CassetteModel(load_cassette(Path(model.name).expanduser()))
        unshared = LocalThrottle(clock=clock, rng=rng)
        return RetryingModel(tape, clock=clock, rng=rng, throttle=unshared, idle_s=CASSETTE_IDLE_S, patience=patience)
    if line is None:
        raise UsageError(f"`{model}` is a live model, but only cassettes can be used here", "Use `cassette:PATH`.")
    live, idle_s = _live_model(model, clock, line, stream=stream)
    return RetryingModel(live, clock=clock, rng=rng, throttle=line.throttle, idle_s=idle_s, patience=patience)


def open_first_available(
    names: Sequence[str], *, clock: Clock, rng: RandomSource, line: LiveContext, patience: Patience
) -> Model:
    """Return a model that is the first of several live ones whose endpoint accepts requests.

    Raises UsageError as `open_model` does, for any of them.
    """
    models = [_impatient_model(parse_model(name), clock, rng, line, patience) for name in names]
    return FallbackModel(models, clock=clock, patience=patience)


def _impatient_model(
    model: ModelName, clock: Clock, rng: RandomSource, line: LiveContext, patience: Patience
) -> RetryingModel:
    """Return a model that gives up when its endpoint is parked."""
    live, idle_s = _live_model(model, clock, line, stream=True)
    impatient = Patience(0.0, patience.waiting)
    return RetryingModel(live, clock=clock, rng=rng, throttle=line.throttle, idle_s=idle_s, patience=impatient)


def _live_model(model: ModelName, clock: Clock, line: LiveContext, *, stream: bool) -> tuple[LiveModel, float]:
    """Return the model without retries, and the seconds that it may send nothing."""
    card = model_card(model)
    deadlines = line.deadlines or _default_deadlines(card, stream=stream)
    endpoint = find_endpoint(model, line.environ, line.login)
    wire = line.wire if endpoint.login is None else LoginClient(line.wire, endpoint.login)
    window = ModelWindow(card, endpoint, line.windows, line.learned)
    live = LiveModel(endpoint, card, wire=wire, clock=clock, deadlines=deadlines, window=window, stream=stream)
    return live, deadlines.idle_s


def _default_deadlines(card: ModelCard, *, stream: bool) -> Deadlines:
    if not stream:
        return UNSTREAMED_DEADLINES
    return REASONING_DEADLINES if card.may_think else DEFAULT_DEADLINES
