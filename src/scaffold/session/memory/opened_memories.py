"""The agent's memory tools, and the memories in its prompts."""

from contextlib import AbstractContextManager

from scaffold.core.errors import ForeignState, ScaffoldError, UsageError
from scaffold.core.knowledge import NOTED_IN
from scaffold.core.tool import ToolOutput
from scaffold.memory.memories import Memories, find_memory
from scaffold.memory.notes import Memory, scope_of, type_of
from scaffold.memory.opening import open_memories
from scaffold.memory.recall import recalled_for, recalled_text, remembered_text
from scaffold.session.memory.embedding import MemoryAccess


class OpenedMemories:
    """Opens the databases for each call, so that a session holds no lock on them. Implements `SessionMemories`."""

    def __init__(self, access: MemoryAccess) -> None:
        self._access = access
        self.left_out: ForeignState | None = None

    def remember(self, content: str, kind: str, scope: str, supersedes: str) -> ToolOutput:
        """Store a memory of the agent, which is unconfirmed."""
        try:
            with self._open_memories(create=scope != "user") as memories:
                done = memories.remember(
                    content,
                    source=self._access.source,
                    scope=scope_of(scope),
                    kind=type_of(kind),
                    supersedes=_changeable_memory(memories, supersedes) if supersedes else None,
                )
        except ScaffoldError as error:
            return ToolOutput(f"Not remembered: {error.in_full}", failed=True)
        return ToolOutput(self._clean_text(remembered_text(done)))

    async def recall(self, query: str, most: int) -> ToolOutput:
        """Return the memories that fit a query, as data."""
        try:
            with self._open_memories() as memories:
                found = [each.memory for each in await memories.find(query, most=most)]
        except ScaffoldError as error:
            return ToolOutput(f"Memories cannot be read: {error.in_full}", failed=True)
        return ToolOutput(self._clean_text(recalled_text(found)))

    def forget(self, memory_id: str) -> ToolOutput:
        """Delete a memory."""
        try:
            with self._open_memories() as memories:
                memory = _changeable_memory(memories, memory_id)
                memories.forget([memory])
        except ScaffoldError as error:
            return ToolOutput(f"Not forgotten: {error.in_full}", failed=True)
        return ToolOutput(f"Forgot {memory.id}.")

    async def context_for(self, message: str) -> str:
        """Return the memories that go with a message."""
        with self._open_memories() as memories:
            self.left_out = memories.databases.left_out
            return await recalled_for(memories, message)

    def _open_memories(self, *, create: bool = False) -> AbstractContextManager[Memories]:
        access = self._access
        embedder = access.embedder()
        return open_memories(access.cwd, access.store, access.redactor, create=create, embedder=embedder)

    def _clean_text(self, text: str) -> str:
        return self._access.redactor.clean(text)


def _changeable_memory(memories: Memories, name: str) -> Memory:
    memory = find_memory(memories, name)
    # What an agent changes there, agents of all other repositories would be told, or told no longer.
    is_noted_here = memory.chunk.meta.get(NOTED_IN) == memories.databases.folder
    if memory.scope == "user" and not (memory.chunk.state == "unconfirmed" and is_noted_here):
        fix = f"The user can: `/memory edit {memory.id} text TEXT`, `/memory forget {memory.id}`."
        raise UsageError(f"{memory.id} is the user's, for all folders: no agent replaces or deletes it", fix)
    return memory
