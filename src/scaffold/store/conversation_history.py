"""Stores a running conversation, message by message."""

from collections.abc import Callable, Mapping

from scaffold.core.conversation import Message
from scaffold.core.ids import ConversationId
from scaffold.core.model import ProcessIdentity, Usage
from scaffold.core.ports import NO_USAGE
from scaffold.store.user_store import UserStore


def no_versions() -> Mapping[str, str | None]:
    """Return nothing: no file was read or written."""
    return {}


class ConversationHistory:
    """Stores each message of one conversation as it is added. Implements `core.ports.History`.

    Added messages survive the process. Raises ConversationBusy once another process has claimed the conversation.
    """

    def __init__(
        self,
        store: UserStore,
        conversation_id: ConversationId,
        me: ProcessIdentity,
        *,
        seen: Callable[[], Mapping[str, str | None]] = no_versions,
    ) -> None:
        """Take a conversation that the process `me` has claimed.

        `seen` returns what changed since the last call in what it knows of files, as `store.seen_files.keep` takes it:
        that is stored with the message that contains the results, or with a compaction.
        """
        self._store = store
        self._id = conversation_id
        self._me = me
        self._seen = seen

    def add(self, message: Message, usage: Usage = NO_USAGE) -> None:
        """Store the next message and its usage; both are durable when this returns."""
        with self._store.transaction():
            self._store.conversations.add(self._id, message, usage, me=self._me)
            self._store.seen_files.keep(self._id, self._seen())

    def spend(self, usage: Usage) -> None:
        """Store usage that no message came of; durable when this returns."""
        with self._store.transaction():
            self._store.conversations.spend(self._id, usage, me=self._me)

    def compact(self, kept: int, summary: str) -> None:
        """Replace all but the last `kept` messages with `summary` from now on; the stored messages stay."""
        with self._store.transaction():
            self._store.conversations.compact(self._id, kept, summary, me=self._me)
            self._store.seen_files.keep(self._id, self._seen())
