"""The conversation a talk is at: taken up, left, and changed for another one without a moment in between."""

from collections.abc import Callable
from contextlib import AsyncExitStack

import msgspec

from scaffold.agent.recap import recap
from scaffold.cli.order import Order
from scaffold.cli.repl.narrator import Narrator
from scaffold.cli.session import Onlooker, Session, opened_session
from scaffold.cli.sitting import TITLE, sitting
from scaffold.host.identity import own_identity
from scaffold.policy.consent import Ask
from scaffold.store.conversations import StoredConversation
from scaffold.store.user import UserStore

LISTED = 20
"""Conversations that are listed."""


class Chair:
    """One conversation at a time."""

    def __init__(
        self, order: Order, store: UserStore, narrator: Narrator, *, ask: Ask, onlooker: Callable[[], Onlooker]
    ) -> None:
        self.order = order
        self.store = store
        self.session: Session
        self._narrator = narrator
        self._ask = ask
        self._onlooker = onlooker
        self._held = AsyncExitStack()

    async def take(self, stored: StoredConversation | None, model: str) -> None:
        """Go on with `stored`, or begin a conversation where that is None; then leave the one before.

        ConversationBusy, UsageProblem and ModelTrouble leave everything as it was.
        """
        async with AsyncExitStack() as stack:
            place = sitting(self.store, stored, cwd=str(self.order.cwd), model=model, title="", me=own_identity())
            seat = stack.enter_context(place)
            opened = opened_session(self.order, seat, self._narrator, ask=self._ask, onlooker=self._onlooker())
            session = await stack.enter_async_context(opened)
            before, self._held = self._held, stack.pop_all()
        self.session = session
        self.order = msgspec.structs.replace(self.order, mode=None)  # a flag speaks of the first one
        self._narrator.begin(session.model)
        session.todos.watch(self._narrator.todos)
        await before.aclose()

    async def leave(self) -> None:
        """Give the conversation back."""
        await self._held.aclose()

    def entitle(self, words: str) -> None:
        """Let a conversation without a title be known by what was said first."""
        seat = self.session.sitting
        with self.store.transaction():
            self.store.conversations.entitle(seat.id, " ".join(words.split())[:TITLE], me=seat.me)

    def recap(self) -> str:
        """Return where the conversation stands, empty for a new one."""
        seat = self.session.sitting
        return recap(seat.conversation, seat.used_before, model=seat.model) if seat.before else ""

    def listed(self) -> tuple[StoredConversation, ...]:
        """Return this directory's conversations, what was gone on with last first."""
        return self.store.conversations.listed(str(self.order.cwd), limit=LISTED)

    @property
    def kept(self) -> bool:
        """Tell whether something was said, so that one can go on with it."""
        seat = self.session.sitting
        return bool(seat.conversation.kept or seat.conversation.summary)
