"""Sitting down to a conversation: begun or taken up in the user's database, claimed while this process is at it."""

from collections.abc import Iterator
from contextlib import contextmanager

from msgspec import Struct

from scaffold.agent.conversation import Conversation
from scaffold.core.ids import ConversationId
from scaffold.core.model import ProcessIdentity, Usage
from scaffold.host.ids import new_id
from scaffold.store.conversations import StoredConversation
from scaffold.store.user import UserStore

TITLE = 200
"""Characters of a task that a conversation is known by."""


class Sitting(Struct, frozen=True, kw_only=True):
    """A conversation that this process goes on with, and the model that answers in it."""

    id: ConversationId
    model: str
    conversation: Conversation
    store: UserStore
    me: ProcessIdentity
    before: StoredConversation | None
    """The conversation as it was found, None for a new one."""

    @property
    def used_before(self) -> Usage:
        """Return what all requests of the conversation took before this sitting."""
        return self.before.usage if self.before else Usage()


@contextmanager
def sitting(
    store: UserStore, stored: StoredConversation | None, *, cwd: str, model: str, title: str, me: ProcessIdentity
) -> Iterator[Sitting]:
    """Hold a conversation claimed: `stored`, or a new one where that is None; it goes on with `model`.

    One in which nothing was said is not kept. ConversationBusy if another process that is alive has it.
    """
    session = stored.id if stored else ConversationId(new_id(12))
    with store.transaction():
        if stored is None:
            store.conversations.begin(session, cwd=cwd, model=model, title=title[:TITLE])
        store.conversations.claim(session, me)
        if stored is not None and stored.model != model:
            store.conversations.switch_model(session, model, me=me)
    summary, messages = store.conversations.load(session)
    try:
        yield Sitting(
            id=session,
            model=model,
            conversation=Conversation(messages, summary or ""),
            store=store,
            me=me,
            before=stored,
        )
    finally:
        with store.transaction():
            store.conversations.release(session, me)
            if stored is None:
                store.conversations.forget_if_empty(session)
