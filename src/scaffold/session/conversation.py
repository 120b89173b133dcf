"""Sitting down to a conversation: begun or taken up in the user's database, claimed while this process is at it."""

from collections.abc import Iterator
from contextlib import contextmanager

from msgspec import Struct

from scaffold.agent.context.conversation import Conversation
from scaffold.core.ids import ConversationId
from scaffold.core.model import ProcessIdentity, Usage
from scaffold.host.random_ids import new_id
from scaffold.store.user.conversations import StoredConversation
from scaffold.store.user_store import UserStore

MAX_TITLE_CHARACTERS = 200
"""Characters of a task that a conversation is known by."""


class OpenConversation(Struct, frozen=True, kw_only=True):
    """A conversation that this process goes on with, and the model that answers in it."""

    id: ConversationId
    model: str
    conversation: Conversation
    store: UserStore
    owner: ProcessIdentity
    stored: StoredConversation | None
    """The conversation as it was found, None for a new one."""

    @property
    def prior_usage(self) -> Usage:
        """Return what all requests of the conversation took before this sitting."""
        return self.stored.usage if self.stored else Usage()


@contextmanager
def open_conversation(
    store: UserStore, stored: StoredConversation | None, *, cwd: str, model: str, title: str, me: ProcessIdentity
) -> Iterator[OpenConversation]:
    """Hold a conversation claimed: `stored`, or a new one where that is None; it goes on with `model`.

    One in which nothing was said is not kept. ConversationBusy if another process that is alive has it.
    """
    session = stored.id if stored else ConversationId(new_id(12))
    with store.transaction():
        if stored is None:
            store.conversations.begin(session, cwd=cwd, model=model, title=title[:MAX_TITLE_CHARACTERS])
        store.conversations.claim(session, me)
        if stored is not None and stored.model != model:
            store.conversations.switch_model(session, model, me=me)
    summary, messages = store.conversations.load(session)
    try:
        yield OpenConversation(
            id=session,
            model=model,
            conversation=Conversation(messages, summary or ""),
            store=store,
            owner=me,
            stored=stored,
        )
    finally:
        with store.transaction():
            store.conversations.release(session, me)
            if stored is None:
                store.conversations.forget_if_empty(session)
