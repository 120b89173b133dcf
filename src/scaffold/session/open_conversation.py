"""A conversation of the user's database, claimed by this process; its changes are stored as soon as they are made."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import get_args

from msgspec import Struct

from scaffold.agent.context.conversation_window import Conversation
from scaffold.agent.modes import CurrentMode, Mode, find_mode
from scaffold.core.conversation import TodoList
from scaffold.core.ids import ConversationId
from scaffold.core.model import ProcessIdentity, Usage
from scaffold.core.printable_text import utf8_safe
from scaffold.core.run_settings import Effort
from scaffold.host.process_identity import own_identity
from scaffold.host.random_ids import new_id
from scaffold.store.user.conversations import StoredConversation
from scaffold.store.user_store import UserStore
from scaffold.tools.content.seen_files import SeenFiles
from scaffold.tools.todos import Todos

MAX_TITLE_CHARACTERS = 200


class OpenConversation(Struct, frozen=True, kw_only=True):
    """A conversation that this process has claimed, and the model that answers in it."""

    id: ConversationId
    model: str
    conversation: Conversation
    store: UserStore
    owner: ProcessIdentity
    stored: StoredConversation | None
    """The stored conversation when it was claimed; None for a new one."""

    @property
    def prior_usage(self) -> Usage:
        """The usage of all requests before this session."""
        return self.stored.usage if self.stored else Usage()

    def elsewhere(self, cwd: Path) -> str:
        """Return the directory in which the conversation began; empty if that is `cwd`."""
        began = self.stored.cwd if self.stored else ""
        return "" if began == utf8_safe(str(cwd)) else began

    def set_title_if_empty(self, words: str) -> None:
        """Store `words` as the title of a conversation that has none."""
        title = " ".join(words.split())[:MAX_TITLE_CHARACTERS]
        with self.store.transaction():
            self.store.conversations.set_title_if_empty(self.id, title, me=self.owner)


@contextmanager
def open_conversation(
    store: UserStore, stored: StoredConversation | None, *, cwd: str, model: str, title: str, me: ProcessIdentity
) -> Iterator[OpenConversation]:
    """Claim a conversation while the context lasts: `stored`, or a new one if that is None; `model` answers.

    A new one that stays empty is deleted at the end. ConversationBusy if another live process has claimed it.
    """
    session = stored.id if stored else ConversationId(new_id(12))
    with store.transaction():
        if stored is None:
            store.conversations.begin(session, cwd=cwd, model=model, title=title[:MAX_TITLE_CHARACTERS])
        store.conversations.claim(session, me)
        if stored is not None and stored.model != model:
            store.conversations.switch_model(session, model, me=me)
    # Loaded after the claim: until then another process may have been adding messages.
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
        # The claim is in the transaction that creates the conversation, so that
        # no other process can resume it in between.
        with store.transaction():
            store.conversations.release(session, me)
            if stored is None:
                store.conversations.forget_if_empty(session)


def change_stored(
    store: UserStore,
    conversation: ConversationId,
    *,
    model: str | None = None,
    mode: Mode | None = None,
    effort: Effort | None = None,
) -> None:
    """Change the model, the mode or the effort of a conversation; ConversationBusy if a live process has claimed it."""
    conversations, me = store.conversations, own_identity()
    with store.transaction():
        conversations.claim(conversation, me)
        if model is not None:
            conversations.switch_model(conversation, model, me=me)
        if mode is not None:
            conversations.keep_mode(conversation, mode, me=me)
        if effort is not None:
            conversations.keep_effort(conversation, effort, me=me)
        conversations.release(conversation, me)


def stored_modes(opened: OpenConversation, wanted: Mode | None) -> CurrentMode:
    """Return the conversation's mode, switched to `wanted` unless that is None; an unknown mode becomes the default."""

    def keep(mode: Mode) -> None:
        with opened.store.transaction():
            opened.store.conversations.keep_mode(opened.id, mode, me=opened.owner)

    modes = CurrentMode(find_mode(opened.store.conversations.state(opened.id).mode) or "default", keep)
    modes.switch(wanted or modes.current)
    return modes


def store_effort(opened: OpenConversation, effort: Effort) -> None:
    """Store how much the model thinks in the conversation from now on."""
    with opened.store.transaction():
        opened.store.conversations.keep_effort(opened.id, effort, me=opened.owner)


def first_effort(opened: OpenConversation, chosen: Effort | None) -> Effort | None:
    """Return how much the model thinks from the start on, after storing what was chosen; None if nobody has said."""
    if chosen is not None:
        store_effort(opened, chosen)
    return stored_effort(opened.store, opened.id)


def stored_effort(store: UserStore, conversation: ConversationId) -> Effort | None:
    """Return how much the model thinks, as the user chose it for the conversation; None if that was never chosen."""
    stored = store.conversations.state(conversation).effort
    return next((effort for effort in get_args(Effort) if effort == stored), None)


def stored_todos(opened: OpenConversation) -> Todos:
    """Return the conversation's todo list."""

    def keep(todos: TodoList) -> None:
        with opened.store.transaction():
            opened.store.conversations.keep_todos(opened.id, todos, me=opened.owner)

    return Todos(opened.store.conversations.state(opened.id).todos, keep)


def stored_seen_files(opened: OpenConversation) -> SeenFiles:
    """Return what the conversation knows of files; its history stores the changes."""
    return SeenFiles(opened.store.seen_files.versions_in(opened.id))
