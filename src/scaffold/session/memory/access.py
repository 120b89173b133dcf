"""Memories of a session, loaded when they are first needed: most sessions have none, and start faster without."""

import os
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from scaffold.core.errors import NotInRepository, ScaffoldError
from scaffold.core.tool import Tool, ToolOutput
from scaffold.git.common_dir import find_common_dir
from scaffold.host.startup import lazy_import
from scaffold.policy.secret.redaction import Redactor
from scaffold.session.conversation import OpenConversation
from scaffold.session.options import SessionOptions
from scaffold.store.driver.location import existing_state_location
from scaffold.store.user_store import UserStore
from scaffold.tools.memory import MemoryActions, memory_tools, recall_memories

ACTIONS = "scaffold.session.memory.actions:OpenedMemories"


class MemoryAccess(Struct, frozen=True, kw_only=True):
    """Where a session's memories are, and who it is."""

    cwd: Path
    store: UserStore
    redactor: Redactor
    source: str = "user"
    """Who remembers: `user`, or `session:ID`."""

    def may_have_any(self) -> bool:
        """Return whether there may be memories; False only if there are none."""
        if self.store.knowledge.collections.all():
            return True
        try:
            return existing_state_location(find_common_dir(self.cwd), os.environ) is not None
        except NotInRepository:
            return False


def memory_access(options: SessionOptions, conversation: OpenConversation, redactor: Redactor) -> MemoryAccess:
    """Return the access of a session's agent."""
    source = f"session:{conversation.id}"
    return MemoryAccess(cwd=options.cwd, store=conversation.store, redactor=redactor, source=source)


class SessionMemories(MemoryActions, Protocol):
    """What the agent's tools do, and what the agent is told."""

    async def context_for(self, message: str) -> str:
        """Return the memories that go with a message."""
        ...


class LazyMemories:
    """The memories of one session. Implements `tools.memory.MemoryActions`."""

    def __init__(self, access: MemoryAccess) -> None:
        self._access = access
        self._loaded: SessionMemories | None = None

    def tools(self, *, subagent: bool) -> tuple[Tool, ...]:
        """Return the agent's tools; a subagent only recalls, as its session decides what is worth remembering."""
        return (recall_memories(self),) if subagent else memory_tools(self)

    def remember(self, content: str, kind: str, scope: str, supersedes: str) -> ToolOutput:
        """Store a memory."""
        return self._actions().remember(content, kind, scope, supersedes)

    async def recall(self, query: str, most: int) -> ToolOutput:
        """Return the memories that fit a query."""
        return await self._actions().recall(query, most)

    def forget(self, memory_id: str) -> ToolOutput:
        """Delete a memory."""
        return self._actions().forget(memory_id)

    async def context_for(self, message: str) -> str | ScaffoldError:
        """Return the memories that go with a message, without secrets; the error if they cannot be read."""
        try:
            if not self._access.may_have_any():
                return ""
            found = await self._actions().context_for(message)
        except ScaffoldError as error:
            return error
        return self._access.redactor.clean(found)

    def _actions(self) -> SessionMemories:
        if self._loaded is None:
            self._loaded = lazy_import(ACTIONS)(self._access)
        return self._loaded
