"""Replies that were paid for work that has not ended: nobody pays again for the same request."""

import hashlib
from pathlib import Path

import msgspec

from scaffold.core.conversation import Reply, Request
from scaffold.store.database import Store

FOLDER = "<worktree>"
"""Stands for the folder that the work is in, which each attempt has another one of."""


class PaidReplies:
    """The replies for one work. Implements `core.ports.ReplyMemory`."""

    def __init__(self, store: Store, scope: str, model: str, folder: Path | None = None) -> None:
        """`scope` names the work; `model` is the model's string."""
        self._store = store
        self._scope = scope
        self._model = model
        self._folder = "" if folder is None else msgspec.json.encode(str(folder)).decode()[1:-1]

    def find(self, request: Request) -> Reply | None:
        """Return the reply to an equal request; None if none was paid."""
        found = self._store.paid_replies.find(self._scope, self._key(request))
        if found is None or not self._folder:
            return found
        text = msgspec.json.encode(found).decode()
        return msgspec.json.decode(text.replace(FOLDER, self._folder), type=Reply)

    def keep(self, request: Request, reply: Reply) -> None:
        """Store a reply."""
        stored = msgspec.json.decode(self._portable(msgspec.json.encode(reply).decode()), type=Reply)
        with self._store.transaction():
            self._store.paid_replies.keep(self._scope, self._key(request), stored)

    def _key(self, request: Request) -> str:
        # Not what may differ from one moment to the next: todos, the time, the number of the attempt.
        asked = (self._model, request.caller.role, request.caller.event, request.system, request.messages)
        text = self._portable(msgspec.json.encode(asked).decode(errors="replace"))
        return hashlib.sha256(text.encode()).hexdigest()

    def _portable(self, text: str) -> str:
        return text.replace(self._folder, FOLDER) if self._folder else text
