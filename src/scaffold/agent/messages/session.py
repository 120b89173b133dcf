"""The session that this process has claimed, as its messages and subagents see it."""

from msgspec import Struct

from scaffold.core.ids import ConversationId
from scaffold.core.ports import Clock
from scaffold.store.user_store import UserStore


class ClaimedSession(Struct, frozen=True):
    """A session that this process has claimed in the store."""

    store: UserStore
    id: ConversationId
    cwd: str
    """The working directory of the session and its subagents."""
    clock: Clock
