"""Model strings: what they may say, and the model behind them."""

from pathlib import Path
from typing import Literal, get_args

from msgspec import Struct

from scaffold.core.errors import UsageProblem
from scaffold.core.ports import Clock, Model
from scaffold.llm.cassette import CassetteModel
from scaffold.llm.cassettefile import load_cassette
from scaffold.llm.retry import Jitter, RetryingModel

Provider = Literal["anthropic", "openai", "openai-chat", "codex", "local", "cassette"]
PROVIDERS: tuple[Provider, ...] = get_args(Provider)

FORMS = (
    "Write anthropic:NAME, openai:NAME, openai-chat:NAME, codex:NAME, local:NAME@http://HOST:PORT/v1 or cassette:PATH."
)
CASSETTE_IDLE_S = 10.0
"""Seconds; a cassette answers at once, so what has not come by then hangs."""


class ModelName(Struct, frozen=True):
    """A model string, understood; `name` is the file's path for cassettes, `url` is set for `local` alone."""

    provider: Provider
    name: str
    url: str | None = None

    def __str__(self) -> str:
        at = f"@{self.url}" if self.url else ""
        return f"{self.provider}:{self.name}{at}"


def parse_model(text: str) -> ModelName:
    """Return what the model string `text` means; UsageProblem that lists the forms if it means nothing."""
    word, _, rest = text.strip().partition(":")
    provider = next((known for known in PROVIDERS if known == word), None)
    if provider is None or not rest:
        raise UsageProblem(f"`{text}` names no model.", FORMS)
    if provider != "local":
        return ModelName(provider, rest)
    name, _, url = rest.partition("@")
    if not name or not url.startswith(("http://", "https://")):
        raise UsageProblem(f"`{text}` does not say where the local model is.", FORMS)
    return ModelName(provider, name, url)


def pinned_model(text: str) -> str:
    """Return the model string so that it means the same from every directory: a cassette's path is made absolute.

    Opens no file. UsageProblem as `parse_model`.
    """
    model = parse_model(text)
    if model.provider != "cassette":
        return str(model)
    return str(ModelName("cassette", str(Path(model.name).expanduser().absolute())))


def cassette_digest(text: str) -> str:
    """Return the SHA-256 of the cassette's bytes, in hex; empty for models that are no cassettes.

    The cassette is read whole: ModelTrouble if it cannot be used, UsageProblem as `parse_model`.
    """
    model = parse_model(text)
    return load_cassette(Path(model.name).expanduser()).digest if model.provider == "cassette" else ""


def open_model(text: str, *, clock: Clock, rng: Jitter) -> Model:
    """Return the model behind a model string, with retries.

    UsageProblem if the string means nothing or its provider is not served yet; ModelTrouble if a cassette cannot be
    read.
    """
    model = parse_model(text)
    if model.provider != "cassette":
        raise UsageProblem(
            f"`{model}` cannot answer: this version speaks to no live provider, only to cassettes.",
            "Use `cassette:PATH` with a YAML file of written replies; `scaffold demo` shows one at work.",
        )
    cassette = load_cassette(Path(model.name).expanduser())
    return RetryingModel(CassetteModel(cassette), clock=clock, rng=rng, idle_s=CASSETTE_IDLE_S)
