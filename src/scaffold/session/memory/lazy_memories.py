"""Memories of a session, loaded when they are first needed: most sessions have none, and start faster without."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct

from scaffold.core.errors import NotInRepository, ScaffoldError
from scaffold.core.ports import Budget, History
from scaffold.core.tool import Tool, ToolOutput
from scaffold.git.common_dir import find_common_dir
from scaffold.host.startup import lazy_import
from scaffold.memory.vector_port import Embedder
from scaffold.policy.secret.redaction import Redactor
from scaffold.session.memory.embedding import EmbedderSource
from scaffold.store.driver.location import existing_state_location
from scaffold.store.user_store import UserStore
from scaffold.tools.memory_tools import MemoryActions, memory_tools, recall_memories
from scaffold.tools.vector_db import DocumentActions, VectorDatabase, vector_db_tools
from scaffold.tools.workspace import Workspace

ACTIONS = "scaffold.session.memory.opened_memories:OpenedMemories"
PDF_DOCUMENTS = "scaffold.session.memory.pdf_documents:PdfDocuments"
VECTOR_DATABASE = "scaffold.session.memory.vector_database:OpenedVectorDatabase"


class MemoryAccess(Struct, frozen=True, kw_only=True):
    """Where a session's memories are, and who it is."""

    cwd: Path
    store: UserStore
    redactor: Redactor
    source: str = "user"
    """Who remembers: `user`, or `session:ID`."""
    embedding: EmbedderSource | None = None
    """None for the model of the extra `memory`."""

    def embedder(self) -> Embedder | None:
        """Return the configured embedder; None for the one that comes with the extra."""
        return None if self.embedding is None else self.embedding.get()

    def may_have_any(self) -> bool:
        """Return whether there may be memories; False only if there are none."""
        if self.store.knowledge.collections.all():
            return True
        try:
            return existing_state_location(find_common_dir(self.cwd), os.environ) is not None
        except NotInRepository:
            return False


class SessionMemories(MemoryActions, Protocol):
    """The agent's memory: its tools, and the texts that go with its messages."""

    async def context_for(self, message: str) -> str:
        """Return the memories that go with a message."""
        ...


class LazyMemories:
    """The memories of one session. Implements `tools.memory.MemoryActions` and `tools.vector_db.VectorDatabase`."""

    def __init__(self, access: MemoryAccess) -> None:
        self._access = access
        self._loaded: SessionMemories | None = None
        self._indexes: VectorDatabase | None = None

    def first_trouble(self) -> str:
        """Return why search goes by words alone, once; empty if it does not, or that was told."""
        return "" if self._access.embedding is None else self._access.embedding.first_trouble()

    def pay_by(self, budget: Budget, history: History) -> None:
        """Let the session's budget pay for vectors."""
        if self._access.embedding is not None:
            self._access.embedding.pay_by(budget, history)

    def tools(self, *, subagent: bool) -> tuple[Tool, ...]:
        """Return the agent's tools; a subagent only recalls, as its session decides what is worth remembering."""
        own = (recall_memories(self),) if subagent else memory_tools(self)
        return (*own, *vector_db_tools(self))

    async def call(self, tool: str, args: Mapping[str, Any]) -> ToolOutput:
        """Return the answer of a tool of the vector database."""
        if self._indexes is None:
            self._indexes = lazy_import(VECTOR_DATABASE)(self._access)
        return await self._indexes.call(tool, args)

    def documents(self, workspace: Workspace) -> DocumentActions:
        """Return what stores documents of a workspace."""
        return _LazyDocuments(self._access, workspace)

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


class _LazyDocuments:
    """Stores documents of a workspace. Implements `tools.documents.DocumentActions`."""

    def __init__(self, access: MemoryAccess, workspace: Workspace) -> None:
        self._access = access
        self._workspace = workspace

    async def add_pdf_document(self, path: str, index: str, pages: str, chunk_size: int | None) -> ToolOutput:
        """Store a PDF in an index."""
        actions: DocumentActions = lazy_import(PDF_DOCUMENTS)(self._access, self._workspace)
        return await actions.add_pdf_document(path, index, pages, chunk_size)
