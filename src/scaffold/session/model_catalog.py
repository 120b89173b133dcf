"""The models that the user's keys and servers offer, asked when they are wanted and remembered for a while."""

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct, structs

from scaffold.agent.model_access import ask_for_models, load_transport_class
from scaffold.config.schema.parsers import SIZES
from scaffold.config.settings import load_settings
from scaffold.core.errors import ScaffoldError, UsageError
from scaffold.core.printable_text import format_usd
from scaffold.host.clock import SystemClock
from scaffold.llm.registry.cards import known_models, model_card
from scaffold.llm.registry.model_name import USD_PER_MILLION, ModelName, Provider, is_live, parse_model
from scaffold.llm.transport.live_context import HttpClient, ServerFacts

REMEMBERED_S = 300.0
"""How long an answer counts; who did not answer is asked each time."""
ALWAYS_ASKED: Sequence[Provider] = ("anthropic", "openai", "codex")
FREE: Mapping[Provider, str] = {"local": "free", "codex": "part of your subscription", "cassette": "prepared replies"}
NOTHING_KNOWN = "price unknown"


class ModelOffer(Struct, frozen=True, kw_only=True):
    """One model as it is offered."""

    model: str
    """The model string; for an endpoint that offers nothing, how it is named."""
    about: str = ""
    """Its window and prices, as far as they are known; of an endpoint, the models that it is known to have."""
    why_not: str = ""
    """Why it cannot be used; empty if it can."""
    thinks: bool = False
    """Whether the user can say how much."""


class EndpointAnswer(Struct, frozen=True):
    """What an endpoint said when it was asked for its models."""

    models: Mapping[str, ServerFacts]
    problem: str
    """Why it cannot be used; empty if it can."""
    at_s: float


class ModelCatalog:
    """What is offered in a folder; nothing is asked or read before `ask`."""

    def __init__(self, cwd: Path) -> None:
        self._cwd = cwd
        self._clock = SystemClock()
        self._configured: Mapping[str, str] = {}
        self._answers: dict[str, EndpointAnswer] = {}
        self.waiting = 0
        """How many endpoints have not answered yet."""
        self.numbered: Sequence[str] = ()
        """The models as the user has last seen them in a numbered list."""

    async def ask(self, current: str, told: Callable[[], object] = lambda: None) -> None:
        """Ask all endpoints at once, each within its time; `told` is called at once and after each answer."""
        settings = load_settings(self._cwd, os.environ, {})
        sizes = {model: size for size in SIZES for model in settings.models(size)}
        chosen = settings.text("model")
        self._configured = sizes if chosen is None or chosen in SIZES else {chosen: "", **sizes}
        fresh_s = self._clock.monotonic() - REMEMBERED_S
        known = {place for place, answer in self._answers.items() if not answer.problem and answer.at_s > fresh_s}
        asked = [model for model in self._known_endpoints(current) if _endpoint_key(model) not in known]
        self.waiting = len(asked)
        told()
        async with load_transport_class()(os.environ) as wire, asyncio.TaskGroup() as group:
            for model in asked:
                group.create_task(self._ask_one(model, wire, told))

    def offers(self, current: str) -> Sequence[ModelOffer]:
        """Return the models as far as they are known now: the current and the configured ones first."""
        found: dict[str, ModelOffer] = {}
        for name in (current, *self._configured):
            with suppress(UsageError):
                found[name] = self._offer_of(parse_model(name), self._configured.get(name, ""))
        for endpoint in self._known_endpoints(current):
            for offer in self._offers_at(endpoint):
                found[offer.model] = found.get(offer.model, offer)
        told = {offer.model: offer.why_not for offer in found.values() if offer.why_not}
        for endpoint in self._known_endpoints(current):
            # Said once: of a model that the user has named, or else of the whole endpoint.
            problem = self._problem_at(endpoint)
            if problem and problem not in told.values():
                name, known = str(structs.replace(endpoint, name="NAME")), ", ".join(_known_names(endpoint))
                found[name] = ModelOffer(model=name, about=known, why_not=problem)
        # Those that cannot be used come last.
        return sorted(found.values(), key=lambda offer: bool(offer.why_not) and offer.model != current)

    def _problem_at(self, endpoint: ModelName) -> str:
        answer = self._answers.get(_endpoint_key(endpoint))
        if answer is not None and not answer.problem and not answer.models and not _known_names(endpoint):
            return "it lists no models; name one"
        return answer.problem if answer else ""

    def _known_endpoints(self, current: str) -> Sequence[ModelName]:
        """Return a model of each endpoint: of the providers, of each server that a model names."""
        named: list[ModelName] = []
        for text in (current, *self._configured, *(f"{provider}:NAME" for provider in ALWAYS_ASKED)):
            with suppress(UsageError):
                named += [parse_model(text)] if text and is_live(text) else []
        return list({_endpoint_key(model): model for model in reversed(named)}.values())[::-1]

    async def _ask_one(self, model: ModelName, wire: HttpClient, told: Callable[[], object]) -> None:
        models: Mapping[str, ServerFacts] = {}
        problem = ""
        try:
            models = await ask_for_models(model, wire)
        except ScaffoldError as error:
            problem = error.what
        self._answers[_endpoint_key(model)] = EndpointAnswer(models, problem, self._clock.monotonic())
        self.waiting -= 1
        told()

    def _offers_at(self, endpoint: ModelName) -> Sequence[ModelOffer]:
        """Return what an endpoint lists, those with a known window first; without a list, what is known of it."""
        answer = self._answers.get(_endpoint_key(endpoint))
        if answer is not None and answer.problem:
            return ()
        names = list(answer.models) if answer and answer.models else _known_names(endpoint)
        offers = [self._offer_of(structs.replace(endpoint, name=name)) for name in names]
        return sorted(offers, key=lambda offer: offer.about.startswith(NOTHING_KNOWN))

    def _offer_of(self, model: ModelName, size: str = "") -> ModelOffer:
        answer, card = self._answers.get(_endpoint_key(model)), model_card(model)
        facts = (answer.models.get(model.name) if answer else None) or ServerFacts()
        window = card.window_tokens or facts.window
        about = [size, f"window {window:,}" if window else "", _price_text(model)]
        if facts.tools is False and model.provider == "local":
            about.append("no tools of its own: they are offered as text")
        why_not = answer.problem if answer else ""
        if facts.chat is False or model.name in USD_PER_MILLION:
            why_not = "makes embeddings, and answers nothing"
        elif facts.tools is False and model.provider != "local":
            why_not = "has no tools"
        return ModelOffer(
            model=str(model),
            about=", ".join(filter(None, about)),
            why_not=why_not,
            thinks=card.thinking.form not in {"none", "fixed"},
        )


def _known_names(endpoint: ModelName) -> Sequence[str]:
    if endpoint.provider == "local":
        return ()
    family = "anthropic" if endpoint.provider == "anthropic" else "openai"
    return [card.name for card in known_models() if card.model.startswith(f"{family}:")]


def _endpoint_key(model: ModelName) -> str:
    return f"{model.provider} {model.url or ''}".strip()


def _price_text(model: ModelName) -> str:
    if model.provider in FREE:
        return FREE[model.provider]
    prices = model_card(model).prices
    if prices is None:
        return NOTHING_KNOWN
    rate = prices.on(SystemClock().now().date())[0]
    return f"{format_usd(rate.input)} / {format_usd(rate.output)} per M"
