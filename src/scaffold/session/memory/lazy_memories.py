"""Memories of a session, loaded when they are first needed: most sessions have none, and start faster without."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from scaffold.core.errors import ForeignState, ScaffoldError
from scaffold.core.ports import Budget, History
from scaffold.core.tool import Tool, ToolOutput
from scaffold.host.startup import importing
from scaffold.session.memory.embedding import MemoryAccess
from scaffold.tools.memory_tools import MemoryActions, memory_tools, recall_memories
from scaffold.tools.vector_db import DocumentActions, VectorDatabase, vector_db_tools
from scaffold.tools.workspace import Workspace


class SessionMemories(MemoryActions, Protocol):
    """The agent's memory: its tools, and the texts that go with its messages."""

    left_out: ForeignState | None
    """Why the repository's memories did not go with the last message."""

    async def context_for(self, message: str) -> str:
        """Return the memories that go with a message."""
        ...


class LazyMemories:
    """The memories of one session. Implements `tools.memory.MemoryActions` and `tools.vector_db.VectorDatabase`."""

    def __init__(self, access: MemoryAccess) -> None:
        self._access = access
        self._loaded: SessionMemories | None = None
        self._told_left_out = False
        self._indexes: VectorDatabase | None = None

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
            with importing():
                from scaffold.session.memory.vector_database import OpenedVectorDatabase
            self._indexes = OpenedVectorDatabase(self._access)
        return await self._indexes.call(tool, args)

    async def close(self) -> None:
        """End what the tools do in the background."""
        if self._indexes is not None:
            await self._indexes.close()

    def documents(self, workspace: Workspace) -> DocumentActions:
        """Return what stores documents of a workspace."""
        return _LazyDocuments(self._access, workspace)

    def remember(self, content: str, kind: str, scope: str, supersedes: str) -> ToolOutput:
        """Store a memory."""
        return self._loaded_actions().remember(content, kind, scope, supersedes)

    async def recall(self, query: str, most: int) -> ToolOutput:
        """Return the memories that fit a query."""
        return await self._loaded_actions().recall(query, most)

    def forget(self, memory_id: str) -> ToolOutput:
        """Delete a memory."""
        return self._loaded_actions().forget(memory_id)

    async def context_for(self, message: str, tell: Callable[[str], object]) -> str:
        """Return the memories that go with a message, without secrets; `tell` receives what went wrong."""
        found = ""
        try:
            if self._access.may_have_any():
                found = await self._loaded_actions().context_for(message)
        except ScaffoldError as error:
            tell(f"no memories go with this message: {error.what}")
        if self._loaded and self._loaded.left_out and not self._told_left_out:
            self._told_left_out = True  # once is enough in a session
            tell(self._loaded.left_out.in_full)
        embedding = self._access.embedding
        if embedding is not None and (trouble := embedding.first_trouble()):
            tell(f"memories are found by their words alone: {trouble}")
        return self._access.redactor.clean(found)

    def _loaded_actions(self) -> SessionMemories:
        if self._loaded is None:
            with importing():
                from scaffold.session.memory.opened_memories import OpenedMemories
            self._loaded = OpenedMemories(self._access)
        return self._loaded


class _LazyDocuments:
    """Stores documents of a workspace. Implements `tools.documents.DocumentActions`."""

    def __init__(self, access: MemoryAccess, workspace: Workspace) -> None:
        self._access = access
        self._workspace = workspace

    async def add_pdf_document(self, path: str, index: str, pages: str, chunk_size: int | None) -> ToolOutput:
        """Store a PDF in an index."""
        with importing():
            from scaffold.session.memory.pdf_documents import PdfDocuments
        return await PdfDocuments(self._access, self._workspace).add_pdf_document(path, index, pages, chunk_size)
