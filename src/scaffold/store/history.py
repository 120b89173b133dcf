"""The history of a conversation that goes on."""

from scaffold.core.conversation import Message
from scaffold.core.ids import ConversationId
from scaffold.core.model import ProcessIdentity, Usage
from scaffold.core.ports import NOTHING
from scaffold.store.user import UserStore


class ConversationHistory:
    """Keeps each message of one conversation as it comes. Implements `core.ports.History`.

    What it was told outlives the process. ConversationBusy once another process has taken the conversation over.
    """

    def __init__(self, store: UserStore, conversation_id: ConversationId, me: ProcessIdentity) -> None:
        """Take a conversation that `me` claimed."""
        self._store = store
        self._id = conversation_id
        self._me = me

    def add(self, message: Message, usage: Usage = NOTHING) -> None:
        """Keep the conversation's next message and what it cost; both are safe when this returns."""
        with self._store.transaction():
            self._store.conversations.add(self._id, message, usage, me=self._me)

    def compact(self, kept: int, summary: str) -> None:
        """From now on `summary` and the last `kept` messages stand for the conversation; nothing is deleted."""
        with self._store.transaction():
            self._store.conversations.compact(self._id, kept, summary, me=self._me)
