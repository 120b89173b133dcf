"""All tables of what is known: the same in the database of a repository and in that of the user."""

from collections.abc import Iterable

from scaffold.core.knowledge import Chunk, ChunkId, CollectionName
from scaffold.store.driver.columns import TimeSource
from scaffold.store.driver.connection import Connection
from scaffold.store.knowledge.chunk_vectors import Embeddings
from scaffold.store.knowledge.chunks import Chunks
from scaffold.store.knowledge.collections import Collections, Documents


class KnowledgeTables:
    """The collections of a database, their chunks and vectors; the caller owns the transaction."""

    def __init__(self, connection: Connection, clock: TimeSource) -> None:
        self.collections = Collections(connection, clock)
        self.chunks = Chunks(connection, clock)
        self.embeddings = Embeddings(connection, clock)
        self.documents = Documents(connection, clock)
        self._connection = connection
        self.database = connection.driver.name
        """Which database it is, without secrets."""

    def is_full(self, name: CollectionName) -> bool:
        """Return whether a collection, which is created if it is missing, takes no more; needs a transaction."""
        return self.chunks.count(name) >= self.collections.ensure(name).capacity

    def forget(self, chunks: Iterable[ChunkId]) -> None:
        """Delete chunks with their words and vectors for good; then `empty_log` outside of the transaction."""
        self.chunks.forget(chunks)
        # Words of deleted text stay in the older parts of the index until it is rewritten.
        self._connection.driver.rewrite_words("chunk_words")

    def forget_collection(self, name: CollectionName) -> None:
        """Delete a collection with all it has for good; then `empty_log` outside of the transaction."""
        self.collections.forget(name)
        self._connection.driver.rewrite_words("chunk_words")

    def replace(self, chunk: Chunk) -> None:
        """Store a chunk in place of the one with its id, whose words are deleted for good; then `empty_log`."""
        self.chunks.change(chunk)
        self._connection.driver.rewrite_words("chunk_words")

    def empty_log(self) -> bool:
        """Remove deleted text from the write-ahead log; return False if it stays until other processes end."""
        return self._connection.driver.empty_log()
