"""An agent as `ralph` puts it together, with a tool that finds as much each time."""

import itertools
import math
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random  # noqa: TID251 - seeded
from tempfile import TemporaryDirectory
from typing import Any

from msgspec import Struct

from scaffold.agent.agent_spec import AgentRecords, AgentSpec
from scaffold.agent.io_port import NullHistory
from scaffold.agent.turn_loop import Agent
from scaffold.core.conversation import Caller
from scaffold.core.ids import ConversationId, ReservationId
from scaffold.core.model import Usage
from scaffold.core.spending import UNLIMITED_TOKENS, Amount
from scaffold.core.tool import Tool, ToolOutput
from scaffold.host.clock import SystemClock
from scaffold.host.process_identity import own_identity
from scaffold.host.random_ids import new_id
from scaffold.llm.model_factory import open_model
from scaffold.llm.transport.http_client import Transport
from scaffold.llm.transport.live_context import LiveContext
from scaffold.store.shared_throttle import SharedThrottle
from scaffold.store.user_store import ConversationHistory, UserStore

SYSTEM = "You are an agent. Look before you act.\n" * 50
FOUND = "A line of the notes that were asked for.\n" * 10
LOOKS = itertools.count(100)


async def _look(_: Mapping[str, Any]) -> ToolOutput:
    # Another answer each time: the same one again and again ends the turn as a loop.
    return ToolOutput(f"{next(LOOKS)} {FOUND}")


LOOK = Tool(
    name="read_file",
    description="Read a file.",
    schema={
        "type": "object",
        "properties": {"path": {"type": "string"}},
        "required": ["path"],
        "additionalProperties": False,
    },
    category="file_read",
    run=_look,
)


class NullJournal:
    """A journal nobody reads."""

    def note(self, kind: str, **fields: Any) -> None:
        """Write nothing."""


class UnlimitedBudget:
    """A budget without an end."""

    async def reserve(self, _: Usage) -> ReservationId:
        """Return at once."""
        return ReservationId("")

    def left_for(self, _: ReservationId) -> Amount:
        """Return more than is needed."""
        return Amount(math.inf, UNLIMITED_TOKENS)

    def set_tries(self, reservation: ReservationId, tries: int, estimate: Usage | None = None) -> None:
        """Note nothing."""

    def settle(self, reservation: ReservationId, usage: Usage) -> None:
        """Book nothing."""


class AgentHost(Struct, frozen=True):
    """What all agents of a process share."""

    store: UserStore
    line: LiveContext

    async def converse(self, model: str, *, kept: bool = True) -> None:
        """Hold one conversation to its end; `kept`: each message is in the database before the next request."""
        agent = Agent(
            model=open_model(model, clock=SystemClock(), rng=Random(1), line=self.line),
            tools=(LOOK,),
            brief=AgentSpec(caller=Caller(role="agent"), system=SYSTEM, max_requests=1000),
            records=AgentRecords(
                journal=NullJournal(), budget=UnlimitedBudget(), history=self._history(model) if kept else NullHistory()
            ),
        )
        await agent.turn("Go on.")

    def _history(self, model: str) -> ConversationHistory:
        conversation, me = ConversationId(new_id()), own_identity()
        with self.store.transaction():
            self.store.conversations.begin(conversation, cwd="/nowhere", model=model, title="")
            self.store.conversations.claim(conversation, me)
        return ConversationHistory(self.store, conversation, me)


@asynccontextmanager
async def open_agent_host(port: int) -> AsyncIterator[AgentHost]:
    """Hold a database of a user of its own, and a line to the provider at `port`."""
    environ = {
        "OPENAI_API_KEY": "none",
        "OPENAI_BASE_URL": f"http://127.0.0.1:{port}/v1",
        "ANTHROPIC_API_KEY": "none",
        "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{port}",
    }
    clock = SystemClock()
    with TemporaryDirectory(prefix="scaffold-bench-") as folder:
        store = UserStore.open(Path(folder) / "user.db", clock=clock)
        async with Transport({}) as wire:
            throttle = SharedThrottle(store, clock=clock, me=own_identity())
            yield AgentHost(store, LiveContext(wire=wire, throttle=throttle, environ=environ))
        store.close()
