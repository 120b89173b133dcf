"""What a session has around its agent: subagents, other sessions, and what reaches it from both."""

from collections.abc import Callable, Mapping
from typing import Any

from scaffold.agent.crew import Crew, Limits, Staff
from scaffold.agent.mailbox import Mailbox
from scaffold.agent.messaging import Desk, messaging_tools
from scaffold.agent.outside import News
from scaffold.agent.referral import Judge
from scaffold.agent.subagents import subagent_tools
from scaffold.core.ids import ConversationId
from scaffold.core.model import Usage
from scaffold.core.ports import Clock, History
from scaffold.core.tool import Tool
from scaffold.store.subagents import Subagent
from scaffold.store.user import SESSIONS, UserStore


class Company:
    """The subagents and messages of one session, which this process has claimed."""

    def __init__(
        self,
        store: UserStore,
        me: ConversationId,
        *,
        cwd: str,
        staff: Staff,
        judge: Judge,
        about: Callable[[], Mapping[str, Any]],
        warn: Callable[[str], None],
        clock: Clock,
        limits: Limits,
    ) -> None:
        """`staff` starts subagents, `judge` decides for them, `about` says what the agent may know of itself.

        `warn` tells the user a line about what goes wrong meanwhile.
        """
        self._store = store
        self._crew = Crew(store, me, cwd=cwd, staff=staff, judge=judge, warn=warn, clock=clock, limits=limits)
        self._mailbox = Mailbox(store, me, clock, ring=self._crew.poller.ring)
        desk = Desk(store=store, me=me, cwd=cwd, mailbox=self._mailbox, about=about)
        self.news: News = self._mailbox
        self.tools: tuple[Tool, ...] = (*subagent_tools(self._crew, self._mailbox, clock), *messaging_tools(desk))
        """Unguarded."""

    @property
    def running(self) -> int:
        """Return how many subagents have not ended."""
        return self._crew.running

    @property
    def used(self) -> Usage:
        """Return what subagents used that this process started and that ended."""
        return self._crew.used

    @property
    def waiting(self) -> bool:
        """Return whether there is news that the agent does not know of."""
        return self._mailbox.waiting

    def roster(self) -> tuple[Subagent, ...]:
        """Return all subagents the session ever had, in the order they were started."""
        return self._crew.roster()

    def kept(self, history: History) -> History:
        """Return the agent's history so wrapped that messages its tools told of are gone once they stand there."""
        return self._mailbox.kept(history)

    async def open(self) -> None:
        """Settle what an earlier process of the session left; ScaffoldError if a subagent of it cannot be ended."""
        with self._store.transaction():
            self._store.messages.expire(SESSIONS)
        await self._crew.recover()

    async def arrival(self) -> None:
        """Return when there is news, at once if there is some.

        StoreTrouble if a subagent ended, and that cannot be written down.
        """
        poller = self._crew.poller
        tick = poller.tick()
        while not self.waiting:
            self._crew.settle()
            tick = await poller.past(tick)

    async def close(self) -> None:
        """End all subagents; those who had not ended are noted as cancelled."""
        await self._crew.close()
