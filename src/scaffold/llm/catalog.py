"""The model behind a model string."""

from pathlib import Path

from scaffold.core.errors import UsageProblem
from scaffold.core.ports import Clock, Model
from scaffold.llm.cassette import CassetteModel
from scaffold.llm.cassettefile import load_cassette
from scaffold.llm.endpoint import find_endpoint
from scaffold.llm.line import Deadlines, Line
from scaffold.llm.live import LiveModel
from scaffold.llm.naming import ModelName, parse_model
from scaffold.llm.registry import ModelCard, card
from scaffold.llm.retry import RetryingModel
from scaffold.llm.throttle import Jitter, Unshared

CASSETTE_IDLE_S = 10.0
"""Seconds; a cassette answers at once, so what has not come by then hangs."""

LIVELY = Deadlines()
THOUGHTFUL = Deadlines(idle_s=300.0)
"""For models that may think for minutes before the first byte comes."""
WHOLE = Deadlines(idle_s=600.0)
"""For replies that come in one piece: nothing is heard until the last word is found."""


def cassette_digest(text: str) -> str:
    """Return the SHA-256 of the cassette's bytes, in hex; empty for models that are no cassettes.

    The cassette is read whole: ModelTrouble if it cannot be used, UsageProblem as `parse_model`.
    """
    model = parse_model(text)
    return load_cassette(Path(model.name).expanduser()).digest if model.provider == "cassette" else ""


def open_model(text: str, *, clock: Clock, rng: Jitter, line: Line | None = None, stream: bool = True) -> Model:
    """Return the model behind a model string, with retries; one object for each conversation. Nothing is asked yet.

    Cassettes need no `line`. Without `stream` a reply comes in one piece. UsageProblem if the string means nothing or
    a key is missing, ModelTrouble if a cassette cannot be read.
    """
    model = parse_model(text)
    if model.provider == "cassette":
        tape = CassetteModel(load_cassette(Path(model.name).expanduser()))
        unshared = Unshared(clock=clock, rng=rng)
        return RetryingModel(tape, clock=clock, rng=rng, throttle=unshared, idle_s=CASSETTE_IDLE_S)
    if line is None:
        raise UsageProblem(f"`{model}` is live, and only cassettes can be used here.", "Use `cassette:PATH`.")
    known = card(model)
    deadlines = line.deadlines or _usual_deadlines(model, known, stream=stream)
    live = LiveModel(
        find_endpoint(model, line.environ), known, wire=line.wire, clock=clock, deadlines=deadlines, stream=stream
    )
    return RetryingModel(live, clock=clock, rng=rng, throttle=line.throttle, idle_s=deadlines.idle_s)


def _usual_deadlines(model: ModelName, known: ModelCard, *, stream: bool) -> Deadlines:
    if not stream:
        return WHOLE
    return THOUGHTFUL if known.thinking and model.provider != "anthropic" else LIVELY
