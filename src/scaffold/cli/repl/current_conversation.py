"""The conversation a talk is at: taken up, left, and changed for another one without a moment in between."""

from collections.abc import Callable
from contextlib import AsyncExitStack

import msgspec

from scaffold.agent.context.recap import recap
from scaffold.cli.repl.transcript import Transcript
from scaffold.host.identity import own_identity
from scaffold.policy.permission.approval_gate import ApprovalPrompt
from scaffold.session.agent_session import Session, SessionObserver, open_session
from scaffold.session.conversation import MAX_TITLE_CHARACTERS, open_conversation
from scaffold.session.options import SessionOptions
from scaffold.store.user.conversations import StoredConversation
from scaffold.store.user_store import UserStore

MAX_LISTED = 20
"""Conversations that are listed."""


class CurrentConversation:
    """One conversation at a time."""

    def __init__(
        self,
        order: SessionOptions,
        store: UserStore,
        narrator: Transcript,
        *,
        ask: ApprovalPrompt,
        onlooker: Callable[[], SessionObserver],
    ) -> None:
        self.order = order
        self.store = store
        self.session: Session
        self._narrator = narrator
        self._ask = ask
        self._onlooker = onlooker
        self._held = AsyncExitStack()

    async def switch_to(self, stored: StoredConversation | None, model: str) -> None:
        """Go on with `stored`, or begin a conversation where that is None; then leave the one before.

        ConversationBusy, UsageProblem and ModelTrouble leave everything as it was.
        """
        async with AsyncExitStack() as stack:
            place = open_conversation(
                self.store, stored, cwd=str(self.order.cwd), model=model, title="", me=own_identity()
            )
            seat = stack.enter_context(place)
            opened = open_session(self.order, seat, self._narrator, ask=self._ask, observer=self._onlooker())
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

    def set_title(self, words: str) -> None:
        """Let a conversation without a title be known by what was said first."""
        seat = self.session.open_conversation
        with self.store.transaction():
            self.store.conversations.set_title_if_empty(
                seat.id, " ".join(words.split())[:MAX_TITLE_CHARACTERS], me=seat.owner
            )

    def recap(self) -> str:
        """Return where the conversation stands, empty for a new one."""
        seat = self.session.open_conversation
        return recap(seat.conversation, seat.prior_usage, model=seat.model) if seat.stored else ""

    def listed(self) -> tuple[StoredConversation, ...]:
        """Return this directory's conversations, what was gone on with last first."""
        return self.store.conversations.listed(str(self.order.cwd), limit=MAX_LISTED)

    @property
    def has_messages(self) -> bool:
        """Tell whether something was said, so that one can go on with it."""
        seat = self.session.open_conversation
        return bool(seat.conversation.kept or seat.conversation.summary)
