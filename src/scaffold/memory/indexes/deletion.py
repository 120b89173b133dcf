"""Delete chunks, or an index with all of them, for good: from the tables, the cache and the database's log."""

from collections.abc import Sequence

from scaffold.core.knowledge import ChunkId, CollectionName
from scaffold.memory.memories import Memories
from scaffold.memory.notes import MemoryScope


def delete_whole_index(memories: Memories, scope: MemoryScope, index: CollectionName) -> tuple[int, bool]:
    """Return how many chunks were deleted; and False if another process keeps old text in the log."""
    database = dict(memories.databases())[scope]
    with database.transaction(durable=True):
        chunks = database.knowledge.chunks.count(index)
        database.knowledge.forget_collection(index)
    return chunks, memories.wipe([scope], index)


def delete_chunks(memories: Memories, scope: MemoryScope, index: CollectionName, chunks: Sequence[ChunkId]) -> bool:
    """Return False if another process keeps old text in the log."""
    database = dict(memories.databases())[scope]
    with database.transaction(durable=True):
        database.knowledge.forget(chunks)
    return memories.wipe([scope], index)
