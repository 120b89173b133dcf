"""Models for commands: opened with all they need, and refused before work where they cannot answer."""

import importlib
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from random import SystemRandom  # noqa: TID251 - jitter needs no seed
from typing import Any

from scaffold.core.errors import UsageProblem
from scaffold.core.money import dollars
from scaffold.core.ports import Model
from scaffold.host.clock import SystemClock
from scaffold.host.dirs import user_dirs
from scaffold.host.identity import own_identity
from scaffold.llm.catalog import cassette_digest, open_model
from scaffold.llm.endpoint import find_endpoint
from scaffold.llm.line import Line, Wire
from scaffold.llm.naming import needs_line, parse_model, pinned_model
from scaffold.llm.registry import card
from scaffold.store.throttle import SharedThrottle
from scaffold.store.user import UserStore, user_database

TRANSPORT = "scaffold.llm.transport:Transport"


def open_user_store() -> UserStore:
    """Open the user's own database: conversations, and how fast endpoints may be asked."""
    return UserStore.open(user_database(user_dirs(os.environ).data), clock=SystemClock())


@asynccontextmanager
async def opened_model(text: str, user: UserStore | None = None, *, stream: bool = True) -> AsyncIterator[Model]:
    """Hold the model behind a model string open, with a connection of its own where it is a live one.

    `user` is the user's database if it is open already: all processes share there how fast an endpoint may be asked.
    UsageProblem for a string that means nothing and for keys that are missing, ModelTrouble for a broken cassette.
    """
    clock, rng = SystemClock(), SystemRandom()
    if not needs_line(text):
        yield open_model(text, clock=clock, rng=rng, stream=stream)
        return
    async with AsyncExitStack() as stack:
        if user is None:
            user = open_user_store()
            stack.callback(user.close)
        wire = await stack.enter_async_context(_transport(os.environ))
        throttle = SharedThrottle(user, clock=clock, me=own_identity())
        line = Line(wire=wire, throttle=throttle, environ=os.environ)
        yield open_model(text, clock=clock, rng=rng, line=line, stream=stream)


def _transport(environ: Mapping[str, str]) -> AbstractAsyncContextManager[Wire]:
    """Return the way to live models, imported when there is one to ask: the import costs more than `status` may."""
    transport: AbstractAsyncContextManager[Wire] = load_transport()(environ)
    return transport


def load_transport() -> Any:
    """Import and return what makes the way to live models of an environment."""
    module, _, name = TRANSPORT.partition(":")
    return getattr(importlib.import_module(module), name)


def usable_model(text: str) -> tuple[str, str]:
    """Return a model string that means the same from everywhere, and the digest of its cassette ("" for others).

    What cannot answer is refused here, before work, and not by every worker: UsageProblem, ModelTrouble.
    """
    pinned = pinned_model(text)
    if needs_line(pinned):
        find_endpoint(parse_model(pinned), os.environ)
    return pinned, cassette_digest(pinned)


def unheld(model: str, limit_usd: float | None) -> str:
    """Return what to say of a limit in dollars that nobody can hold, empty if it is held.

    UsageProblem if the price is unknown of a model for which somebody sends a bill.
    """
    name = parse_model(model)
    if limit_usd is None or name.provider == "cassette" or card(name).prices is not None:
        return ""
    what = f"nobody knows what {model} costs, so a limit of {dollars(limit_usd)} cannot be held"
    if name.provider != "local":
        raise UsageProblem(
            what, "Leave the limit out, or choose a model with a known price: `ralph /model` lists them."
        )
    return what
