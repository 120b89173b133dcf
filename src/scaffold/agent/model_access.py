"""Models for commands: opened with all they need, and checked before work begins."""

import os
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, closing, suppress
from random import SystemRandom  # noqa: TID251 - jitter needs no seed

from scaffold.core.errors import ModelError, UsageError
from scaffold.core.ports import Model
from scaffold.core.printable_text import format_usd
from scaffold.core.run_settings import ModelProfile, ModelSettings
from scaffold.host.clock import SystemClock
from scaffold.host.process_identity import own_identity
from scaffold.host.startup import importing
from scaffold.host.user_dirs import user_dirs
from scaffold.llm.model_factory import NO_PROFILES, cassette_digest, open_first_available, open_model
from scaffold.llm.registry.cards import model_card
from scaffold.llm.registry.model_name import ModelName, absolute_model, is_live, parse_model
from scaffold.llm.transport.live_context import (
    IMPATIENT,
    HttpClient,
    LearnedWindows,
    LiveContext,
    Patience,
    ServerFacts,
)
from scaffold.login.state import CODEX
from scaffold.login.token_source import Login
from scaffold.store.shared_throttle import SharedThrottle
from scaffold.store.user_store import UserStore, user_database

# The windows that servers reported to this process, so that its next conversation does not ask again.
LEARNED_WINDOWS = LearnedWindows()


def open_user_store() -> UserStore:
    """Open the user's database: conversations and endpoint rate limits."""
    return UserStore.open(user_database(user_dirs().data), clock=SystemClock())


@asynccontextmanager
async def connect_model(
    text: str,
    user: UserStore | None = None,
    *,
    stream: bool = True,
    patience: Patience = IMPATIENT,
    windows: Mapping[str, int] | None = None,
    profiles: Mapping[str, ModelProfile] = NO_PROFILES,
) -> AsyncIterator[Model]:
    """Yield the model for a model string, with its own connection if it is a live one.

    `user` is the user's database if already open; all processes share rate limits in it. `patience` says
    how long requests wait for an endpoint that is down or limited. `windows` are the configured context windows, in
    tokens; a local server is asked for its own before the first request. Raises UsageError for an invalid string or a
    missing key, ModelError for a broken cassette.
    """
    clock, rng = SystemClock(), SystemRandom()
    if not is_live(text):
        yield open_model(text, clock=clock, rng=rng, stream=stream, patience=patience, profiles=profiles)
        return
    async with _live_context(user, windows) as line:
        await load_window(text, line)
        yield open_model(text, clock=clock, rng=rng, line=line, stream=stream, patience=patience, profiles=profiles)


@asynccontextmanager
async def connect_run_model(settings: ModelSettings, *, patience: Patience) -> AsyncIterator[Model]:
    """Yield a run's model, or another of its size while its endpoint is down; raises as `connect_model` does."""
    if not settings.others:
        async with connect_model(
            settings.name, patience=patience, windows=settings.windows, profiles=settings.profiles
        ) as model:
            yield model
        return
    async with _live_context(windows=settings.windows) as line:
        names = (settings.name, *settings.others)
        for name in names:
            await load_window(name, line)
        yield open_first_available(
            names, clock=SystemClock(), rng=SystemRandom(), line=line, patience=patience, profiles=settings.profiles
        )


@asynccontextmanager
async def _live_context(
    user: UserStore | None = None, windows: Mapping[str, int] | None = None
) -> AsyncIterator[LiveContext]:
    async with AsyncExitStack() as stack:
        if user is None:
            user = open_user_store()
            stack.callback(user.close)
        wire = await stack.enter_async_context(load_transport_class()(os.environ))
        throttle = SharedThrottle(user, clock=SystemClock(), me=own_identity())
        yield LiveContext(
            wire=wire,
            throttle=throttle,
            environ=os.environ,
            windows=windows or {},
            learned=LEARNED_WINDOWS,
            login=Login(user, wire, os.environ),
        )


async def ask_servers(models: Iterable[str]) -> Mapping[str, ServerFacts]:
    """Return what the servers of local models say of them; without those that say nothing or cannot be used."""
    local = [name for each in dict.fromkeys(models) if (name := parse_model(each)).provider == "local"]
    if not local:
        return {}
    with importing():
        from scaffold.llm.model_window import LOOK_S, ModelWindow
        from scaffold.llm.transport.endpoint import find_endpoint
    found: dict[str, ServerFacts] = {}
    async with load_transport_class()(os.environ) as wire:
        for name in local:
            with suppress(UsageError):
                asked = ModelWindow(model_card(name), find_endpoint(name, os.environ), {}, LEARNED_WINDOWS)
                await asked.look(wire, LOOK_S)
                found[str(name)] = asked.facts
    return {model: facts for model, facts in found.items() if facts.text}


async def ask_for_models(model: ModelName, wire: HttpClient) -> Mapping[str, ServerFacts]:
    """Return what the endpoint of a model offers, by name, with what it says of each; nothing if it has no list.

    UsageError and ModelError say why it cannot be used.
    """
    _find_endpoint(str(model))
    with importing():
        from scaffold.llm.model_window import offered_models
        from scaffold.llm.transport.endpoint import find_endpoint
    return {} if model.provider == CODEX else await offered_models(find_endpoint(model, os.environ), wire)


async def load_window(text: str, line: LiveContext) -> None:
    """Ask a local server for the window of its model, so that the first prompt fits; others are not asked."""
    with importing():
        from scaffold.llm.model_window import LOOK_S, ModelWindow
        from scaffold.llm.transport.endpoint import find_endpoint
    name = parse_model(text)
    if name.provider == "local":
        window = ModelWindow(model_card(name), find_endpoint(name, line.environ), line.windows, line.learned)
        await window.look(line.wire, LOOK_S, most=1)


def load_transport_class() -> Callable[[Mapping[str, str]], AbstractAsyncContextManager[HttpClient]]:
    """Import and return the HTTP transport: only live models need it, and the import is too slow for `status`."""
    with importing():
        from scaffold.llm.transport.http_client import Transport
    return Transport


def endpoint_name(text: str) -> str | None:
    """Return the name by which processes share an endpoint's limits; None for a cassette or an unusable model.

    For a program that stands in its place it is the text itself.
    """
    with suppress(UsageError, ModelError):
        if parse_model(text).provider == "executor":
            return text
        if is_live(text):
            return _find_endpoint(text)
    return None


def _find_endpoint(text: str) -> str:
    # Sends nothing; its errors say why a model cannot be used.
    with importing():
        from scaffold.llm.transport.endpoint import find_endpoint
    model = parse_model(text)
    if model.provider != CODEX:
        return find_endpoint(model, os.environ).name
    with closing(open_user_store()) as user:
        login = Login(user, None, os.environ)
        endpoint = find_endpoint(model, os.environ, login)
        if endpoint.login is not None:
            login.require_usable()
        return endpoint.name


def resolve_model(text: str) -> tuple[str, str]:
    """Return the absolute model string and its cassette's digest, or ""; UsageError, ModelError if unusable."""
    pinned = absolute_model(text)
    if (name := parse_model(pinned)).provider == "executor":
        raise UsageError(f"`{pinned}` is no model", f"Choose the program with `--executor {name.name}`.")
    if is_live(pinned):
        # Only for its errors: a missing key or login, or an invalid base URL.
        _find_endpoint(pinned)
    return pinned, cassette_digest(pinned)


def has_known_price(model: str) -> bool:
    """Return whether the cost of a request to the model will be known; a cassette says it itself."""
    name = parse_model(model)
    return name.provider == "cassette" or model_card(name).prices is not None


def unenforced_limit_notice(model: str, limit_usd: float | None) -> str:
    """Return a warning if the limit cannot be enforced, else ""; UsageError if an unknown price may cost money."""
    if limit_usd is None or has_known_price(model):
        return ""
    what = f"the price of {model} is unknown, so a limit of {format_usd(limit_usd)} cannot be enforced"
    if parse_model(model).provider != "local":
        raise UsageError(what, "Leave the limit out, or choose a model with a known price: `ralph /model` lists them.")
    return what
