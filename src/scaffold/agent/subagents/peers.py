"""A session's subagents, its messages with other sessions, and the tools for both."""

from collections.abc import Callable, Mapping
from typing import Any

from scaffold.agent.io_port import Incoming
from scaffold.agent.messages.mailbox import ClaimedSession, Mailbox
from scaffold.agent.messages.messaging_tools import MessagingContext, messaging_tools
from scaffold.agent.subagents.approval_relay import CallDecider
from scaffold.agent.subagents.process_pool import SubagentLimits, SubagentPool, SubagentStarter
from scaffold.agent.subagents.spawn_tools import subagent_tools
from scaffold.core.model import Usage
from scaffold.core.ports import History
from scaffold.core.tool import Tool
from scaffold.policy.secret.redaction import Redactor
from scaffold.store.user.subagents import StoredSubagent
from scaffold.store.user_store import SESSIONS


class Peers:
    """The subagents and messages of one session, which this process has claimed."""

    def __init__(
        self,
        session: ClaimedSession,
        *,
        starter: SubagentStarter,
        decider: CallDecider,
        about: Callable[[], Mapping[str, Any]],
        warn: Callable[[str], None],
        limits: SubagentLimits,
        redactor: Redactor,
    ) -> None:
        """`starter` starts subagents, `decider` decides their requests.

        `about` returns what the agent may know about itself, `warn` shows the user a one-line warning, `redactor`
        removes secrets from incoming messages.
        """
        self._store = session.store
        self._pool = SubagentPool(session, starter=starter, decider=decider, warn=warn, limits=limits)
        self._mailbox = Mailbox(session, ring=self._pool.poller.ring, redactor=redactor)
        context = MessagingContext(session=session, mailbox=self._mailbox, about=about)
        self.incoming: Incoming = self._mailbox
        self.tools: tuple[Tool, ...] = (
            *subagent_tools(self._pool, self._mailbox, session.clock),
            *messaging_tools(context),
        )
        """Without an approval gate."""

    @property
    def running(self) -> int:
        """The number of running subagents."""
        return self._pool.running

    @property
    def used(self) -> Usage:
        """The usage of ended subagents that this process started."""
        return self._pool.used

    @property
    def waiting(self) -> bool:
        """Whether undelivered messages wait for the agent."""
        return self._mailbox.waiting

    def subagents(self) -> tuple[StoredSubagent, ...]:
        """Return all subagents of the session, in the order they were started."""
        return self._pool.subagents()

    def kept(self, history: History) -> History:
        """Wrap the agent's history so that messages delivered by tools are consumed once they are stored in it."""
        return self._mailbox.kept(history)

    async def open(self) -> None:
        """Clean up after an earlier process of the session; ScaffoldError if one of its subagents cannot be ended."""
        with self._store.transaction():
            self._store.messages.expire(SESSIONS)
        await self._pool.recover()

    async def arrival(self) -> None:
        """Return once messages wait; StoreError if a subagent's end cannot be stored."""
        poller = self._pool.poller
        tick = poller.tick()
        while not self.waiting:
            self._pool.settle()
            tick = await poller.past(tick)

    async def cancel(self) -> None:
        """End the running subagents, recorded as cancelled: the user stopped the work that they are part of."""
        await self._pool.cancel()

    async def close(self) -> None:
        """End all subagents; running ones are recorded as cancelled."""
        await self._pool.close()
