"""What a worker's agent remembers and recalls: memories of the repository, confirmed once its work has landed."""

from scaffold.core.errors import ScaffoldError
from scaffold.core.ids import AttemptId
from scaffold.core.knowledge import MEMORIES, ChunkFilter
from scaffold.core.tool import ToolOutput
from scaffold.memory.memories import Memories, MemoryDatabases
from scaffold.memory.notes import type_of
from scaffold.memory.recall import recalled_text, remembered_text
from scaffold.run.learning.landed_memories import source_of
from scaffold.worker.attempt_records import AttemptRecords

MOST = 5
"""Memories of one attempt: one that notes down more has not chosen."""
CONFIRMED = ChunkFilter(states=("active",))


class AttemptMemories:
    """The memories of one attempt's agent. Implements `tools.memory.NotedMemories`."""

    def __init__(self, records: AttemptRecords) -> None:
        run = records.run_context
        self._store = run.store
        self._attempt: AttemptId = records.task.attempt.id
        # By words alone: many workers may share this machine.
        databases = MemoryDatabases(run.store, None, run.cache, by_meaning=False)
        self._memories = Memories(databases, clock=run.clock, redactor=run.redactor)
        self._clean = run.redactor.clean

    def remember(self, content: str, kind: str, scope: str, supersedes: str) -> ToolOutput:
        """Store a memory of this repository, which is unconfirmed until the attempt has landed."""
        source = source_of(self._attempt)
        own = self._store.knowledge.chunks.newest(MEMORIES, ChunkFilter(source=source), most=MOST)
        if len(own) >= MOST:
            return ToolOutput(f"Not remembered: this attempt has {MOST} memories already.", failed=True)
        if scope == "user":
            return ToolOutput("Not remembered: an agent of a run remembers for its repository alone.", failed=True)
        if supersedes:
            return ToolOutput("Not remembered: only a human can let it take another one's place.", failed=True)
        try:
            done = self._memories.remember(content, source=source, scope="project", kind=type_of(kind))
        except ScaffoldError as error:
            return ToolOutput(f"Not remembered: {error.in_full}", failed=True)
        return ToolOutput(self._clean(remembered_text(done)))

    async def recall(self, query: str, most: int) -> ToolOutput:
        """Return the confirmed memories that fit a query, as data."""
        try:
            found = [each.memory for each in await self._memories.find(query, most=most, wanted=CONFIRMED)]
        except ScaffoldError as error:
            return ToolOutput(f"Memories cannot be read: {error.in_full}", failed=True)
        return ToolOutput(self._clean(recalled_text(found)))
