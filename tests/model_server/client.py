"""A client for models, as an agent would use them, on a clock that skips waits."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from random import Random  # noqa: TID251 - seeded below
from typing import Any

from model_server.server import Server
from scaffold.core.conversation import Caller, Delta, Message, Reply, Request, Text, UserMessage
from scaffold.core.ports import Model
from scaffold.llm.model_factory import open_model
from scaffold.llm.transport.http_client import Transport
from scaffold.llm.transport.live_context import Deadlines, LearnedWindows, LiveContext
from scaffold.llm.transport.retry import LocalThrottle

SHORT = Deadlines(connect_s=1.0, idle_s=0.15, total_s=0.6)
"""Deadlines a test can wait for."""


class SkippingClock:
    """A clock on which every sleep ends at once, and counts with its full length."""

    def __init__(self) -> None:
        self.slept_s = 0.0

    def now(self) -> datetime:
        """Return a day in November, plus the time slept."""
        return datetime(2026, 11, 1, tzinfo=UTC) + timedelta(seconds=self.slept_s)

    def monotonic(self) -> float:
        """Return the time slept."""
        return self.slept_s

    async def sleep(self, seconds: float) -> None:
        """Return after other tasks have run."""
        self.slept_s += seconds
        await asyncio.sleep(0)


class ModelClient:
    """A model, and all deltas received from it."""

    def __init__(self, model: Model, clock: SkippingClock) -> None:
        self.model = model
        self.clock = clock
        self.heard: list[Delta] = []

    async def reply(self, *messages: Message, **fields: Any) -> Reply:
        """Send a request; without `messages` an arbitrary one."""
        given: dict[str, Any] = {"caller": Caller(role="agent"), "system": "Be brief.", **fields}
        said = messages or (UserMessage((Text("go"),)),)
        return await self.model.reply(Request(messages=said, **given), self.heard.append)


@asynccontextmanager
async def open_client(
    server: Server,
    *,
    model: str | None = None,
    provider: str = "",
    environ: Mapping[str, str] | None = None,
    deadlines: Deadlines | None = SHORT,
    stream: bool = True,
    windows: Mapping[str, int] | None = None,
    learned: LearnedWindows | None = None,
) -> AsyncIterator[ModelClient]:
    """Open the server's model, or another one, as a `local` one if so said, with a separate transport."""
    model = server.local_model if provider == "local" else model
    clock, rng = SkippingClock(), Random(7)
    given = server.environ if environ is None else environ
    async with Transport(given) as wire:
        line = LiveContext(
            wire=wire,
            throttle=LocalThrottle(clock=clock, rng=rng),
            environ=given,
            deadlines=deadlines,
            windows=windows or {},
            learned=learned or LearnedWindows(),
        )
        yield ModelClient(open_model(model or server.model, clock=clock, rng=rng, line=line, stream=stream), clock)
