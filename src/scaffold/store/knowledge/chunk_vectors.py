"""Embeddings: one vector for each chunk, stored with it or later."""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from scaffold.core.knowledge import Chunk, CollectionName
from scaffold.store.driver.columns import TimeSource
from scaffold.store.driver.connection import ColumnValue, Connection, Row
from scaffold.store.driver.gateway import TableGateway
from scaffold.store.knowledge.changes import Moment, has_been, last_moment, take_numbers
from scaffold.store.knowledge.server_vectors import ServerColumn, ServerVectors, shown

# A chunk that is superseded or pending is never found, so it gets no vector.
PUT = """
INSERT INTO embedding (seq, chunk_seq, collection, model, vector{near.name})
SELECT :seq, seq, collection, :model, :vector{near.value} FROM chunk
WHERE seq = :chunk AND sha256 = :sha256 AND state NOT IN ('superseded', 'pending')
ON CONFLICT (chunk_seq) DO UPDATE SET seq = excluded.seq, model = excluded.model, vector = excluded.vector{near.change}
"""
NOTE_REPLACED = """
INSERT INTO embedding_removal (embedding_seq, chunk_seq, seq, collection)
SELECT seq, chunk_seq, :seq, collection FROM embedding WHERE chunk_seq = :chunk
"""
BETWEEN = """
SELECT seq, chunk_seq, vector FROM embedding WHERE collection = :collection AND seq > :after AND seq <= :until
ORDER BY seq LIMIT :most
"""
REMOVED = "SELECT chunk_seq FROM embedding_removal WHERE collection = :collection AND seq > :after AND seq <= :until"
COUNT_AT = """
SELECT (SELECT COUNT(*) FROM embedding WHERE collection = :collection AND seq <= :number)
     + (SELECT COUNT(*) FROM embedding_removal
        WHERE collection = :collection AND embedding_seq <= :number AND seq > :number) AS vectors
"""
LAST_UNTIL = """
SELECT seq, chunk_seq, vector FROM embedding WHERE collection = :collection AND seq <= :number
ORDER BY seq DESC LIMIT :most
"""
OF_CHUNK = "SELECT vector FROM embedding WHERE chunk_seq = :chunk"
COUNT = "SELECT COUNT(*) AS vectors FROM embedding WHERE collection = :collection"
MISSING = """
SELECT chunk.seq AS seq FROM chunk LEFT JOIN embedding ON embedding.chunk_seq = chunk.seq
WHERE chunk.collection = :collection AND embedding.seq IS NULL AND chunk.state NOT IN ('superseded', 'pending')
ORDER BY chunk.seq LIMIT :most
"""
MISSING_SINCE = """
SELECT chunk.seq AS seq FROM (
    SELECT seq FROM chunk WHERE seq > :after
    UNION SELECT chunk_seq FROM embedding_removal WHERE collection = :collection AND seq > :after
) AS changed JOIN chunk ON chunk.seq = changed.seq LEFT JOIN embedding ON embedding.chunk_seq = chunk.seq
WHERE chunk.collection = :collection AND embedding.seq IS NULL AND chunk.state NOT IN ('superseded', 'pending')
ORDER BY chunk.seq LIMIT :most
"""
PAGE = 4_096


class StoredVector(Struct, frozen=True):
    """A vector as it is stored."""

    seq: int
    """The number of the change that stored it."""
    chunk: int
    """The number of its chunk."""
    vector: bytes


class Embeddings(TableGateway):
    """The vectors of one database."""

    def __init__(self, connection: Connection, clock: TimeSource) -> None:
        super().__init__(connection, clock)
        self.server = ServerVectors(connection, clock)

    def put(self, model: str, vectors: Sequence[tuple[Chunk, bytes]]) -> None:
        """Store the vector of each chunk, in place of an earlier one; not for a chunk whose text has changed since."""
        numbers = take_numbers(self._connection, len(vectors)) if vectors else range(0)
        rows = [(chunk, vector, seq) for (chunk, vector), seq in zip(vectors, numbers, strict=True)]
        self._connection.write_each(NOTE_REPLACED, [{"chunk": chunk.seq, "seq": seq} for chunk, _, seq in rows])
        near = self.server.column()
        self._connection.write_each(PUT.format(near=near), [_embedding_columns(*row, model, near=near) for row in rows])

    def between(self, collection: CollectionName, after: int, until: int) -> Iterator[Sequence[StoredVector]]:
        """Yield the vectors that were stored by the changes after one and up to another, in order, in pages."""
        while rows := self._connection.rows(BETWEEN, collection=collection, after=after, until=until, most=PAGE):
            yield [_stored_vector(row) for row in rows]
            after = rows[-1]["seq"]

    def removed_between(self, collection: CollectionName, after: int, until: int) -> frozenset[int]:
        """Return the numbers of the chunks whose vector was deleted or replaced by those changes."""
        rows = self._connection.rows(REMOVED, collection=collection, after=after, until=until)
        return frozenset(int(row["chunk_seq"]) for row in rows)

    def count_at(self, collection: CollectionName, number: int) -> int:
        """Return how many vectors a collection had after the change with this number."""
        return int(self._connection.rows(COUNT_AT, collection=collection, number=number)[0]["vectors"])

    def last_until(self, collection: CollectionName, number: int, *, most: int) -> tuple[StoredVector, ...]:
        """Return the last vectors of those that were stored up to that change and are still there."""
        rows = self._connection.rows(LAST_UNTIL, collection=collection, number=number, most=most)
        return tuple(map(_stored_vector, rows))

    def for_chunk(self, chunk: Chunk) -> bytes | None:
        """Return the chunk's vector; None if it has none."""
        row = self._connection.row(OF_CHUNK, chunk=chunk.seq)
        return None if row is None else bytes(row["vector"])

    def count(self, collection: CollectionName) -> int:
        """Return how many vectors a collection has."""
        return int(self._connection.rows(COUNT, collection=collection)[0]["vectors"])

    def missing(self, collection: CollectionName, *, most: int, after: int = 0) -> tuple[int, ...]:
        """Return the numbers of chunks that have no vector yet, the oldest first; `after`: none was missing then."""
        statement, values = (MISSING_SINCE, {"after": after}) if after else (MISSING, {})
        rows = self._connection.rows(statement, collection=collection, most=most, **values)
        return tuple(int(row["seq"]) for row in rows)

    def moment(self) -> Moment:
        """Return the present state of what is known."""
        return last_moment(self._connection)

    def has_been(self, moment: Moment) -> bool:
        """Return whether the database was in that state; False, too, if that is too long ago to tell."""
        return has_been(self._connection, moment)


def _embedding_columns(
    chunk: Chunk, vector: bytes, seq: int, model: str, *, near: ServerColumn
) -> Mapping[str, ColumnValue]:
    columns: dict[str, ColumnValue] = {
        "seq": seq,
        "chunk": chunk.seq,
        "sha256": chunk.sha256,
        "model": model,
        "vector": vector,
    }
    return columns | {"near": shown(vector)} if near.name else columns


def _stored_vector(row: Row) -> StoredVector:
    return StoredVector(row["seq"], row["chunk_seq"], bytes(row["vector"]))
