"""Vectors in a column of pgvector, where a PostgreSQL server has that extension: then the server compares them.

The column is written by the statement that writes the bytes, so that the two cannot disagree. It is there as soon as
the extension is, or this user may create it; without it, vectors are compared in our process.
"""

import hashlib
import struct
from collections.abc import Collection, Mapping

from msgspec import Struct

from scaffold.core.knowledge import CollectionName
from scaffold.store.driver.connection import ColumnValue
from scaffold.store.driver.gateway import TableGateway

EXTENSION = """
SELECT nspname AS schema FROM pg_extension JOIN pg_namespace ON pg_namespace.oid = extnamespace WHERE extname = 'vector'
"""
CREATE_EXTENSION = "SELECT pg_advisory_xact_lock(7322); CREATE EXTENSION IF NOT EXISTS vector SCHEMA public"
"""Not in our schema, which goes with its repository. The lock is since IF NOT EXISTS is not atomic."""
ADD_COLUMN = """
ALTER TABLE embedding ADD COLUMN near {schema}.halfvec;
CREATE INDEX embedding_without_near ON embedding (collection, seq) WHERE near IS NULL
"""
HAS_COLUMN = """
SELECT COUNT(*) AS columns FROM pg_attribute
WHERE attrelid = to_regclass('embedding') AND attname = 'near' AND NOT attisdropped
"""
LACKING = "SELECT seq, vector FROM embedding WHERE collection = :collection AND near IS NULL ORDER BY seq LIMIT :most"
FILL_IN = "UPDATE embedding SET near = CAST(:near AS {schema}.halfvec) WHERE seq = :seq AND near IS NULL"
SEARCH = """
SELECT chunk_seq, 1 - (CAST(near AS {schema}.halfvec({dimension})) OPERATOR({schema}.<=>)
                       CAST(:query AS {schema}.halfvec({dimension}))) AS cosine
FROM embedding WHERE collection = {collection} AND model = {model}
ORDER BY CAST(near AS {schema}.halfvec({dimension})) OPERATOR({schema}.<=>)
         CAST(:query AS {schema}.halfvec({dimension})) LIMIT :most
"""
SEARCH_AMONG = """
WITH fits AS MATERIALIZED (
    SELECT chunk_seq, near FROM embedding
    WHERE collection = :collection AND chunk_seq = ANY (CAST(:among AS INTEGER[]))
)
SELECT chunk_seq, 1 - (near OPERATOR({schema}.<=>) CAST(:query AS {schema}.halfvec)) AS cosine FROM fits
ORDER BY near OPERATOR({schema}.<=>) CAST(:query AS {schema}.halfvec) LIMIT :most
"""
"""Exact, whatever index there is."""
LOOK_AT = "SELECT set_config('hnsw.ef_search', :count, false)"
MAKE_INDEX = """
CREATE INDEX CONCURRENTLY IF NOT EXISTS {name} ON embedding
USING hnsw ((CAST(near AS {schema}.halfvec({dimension}))) {schema}.halfvec_cosine_ops)
WITH (m = 16, ef_construction = 200) WHERE collection = {collection} AND model = {model}
"""
INDICES = """
SELECT relname AS name, indisvalid AS valid FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
WHERE indrelid = to_regclass('embedding') AND relname LIKE :prefix
"""
LEAST_LOOKED_AT, MOST_LOOKED_AT = 128, 1_000
"""How many neighbours a search by index follows; the server allows no more."""
PAGE = 500


class ServerColumn(Struct, frozen=True):
    """What the column adds to the statement that stores a vector, whose text is `:near`; nothing without one."""

    name: str = ""
    value: str = ""
    change: str = ""


class ServerVectors(TableGateway):
    """The vectors of one database, compared by its server."""

    _schema: str | None = None
    _refused = False
    """Whether the server did not let this connection make the column."""

    @property
    def is_possible(self) -> bool:
        """Whether the database is one that may have the extension."""
        return self._connection.driver.dialect == "postgres"

    def column(self) -> ServerColumn:
        """Return the column for the statement that stores a vector, made if possible. Needs a transaction."""
        schema = self._vector_column() or self._make_column()
        return (
            ServerColumn()
            if schema is None
            else ServerColumn(
                name=", near", value=f", CAST(:near AS {schema}.halfvec)", change=", near = excluded.near"
            )
        )

    def compares(self, collection: CollectionName) -> bool:
        """Return whether the server can compare all vectors of a collection."""
        return self._vector_column() is not None and not self._connection.rows(LACKING, collection=collection, most=1)

    def search(
        self, collection: CollectionName, model: str, vector: bytes, *, most: int, among: Collection[int] | None = None
    ) -> tuple[tuple[int, float], ...]:
        """Return the numbers of the nearest chunks with their cosines; exact without an index, and `among` some."""
        schema = self._vector_column()
        if schema is None or most <= 0:
            return ()
        values: Mapping[str, ColumnValue] = {"query": shown(vector), "most": most}
        if among is None:
            # With fewer neighbours than are wanted, the index would return fewer chunks.
            looked_at = min(max(LEAST_LOOKED_AT, 2 * most), MOST_LOOKED_AT)
            self._connection.rows(LOOK_AT, count=str(looked_at))
            rows = self._connection.rows(_with_constants(SEARCH, schema, collection, model, vector), **values)
        else:
            numbers = "{" + ",".join(map(str, among)) + "}"
            statement = SEARCH_AMONG.format(schema=schema)
            rows = self._connection.rows(statement, collection=collection, among=numbers, **values)
        return tuple((int(row["chunk_seq"]), float(row["cosine"])) for row in rows)

    def complete(self, collection: CollectionName) -> None:
        """Put the vectors into the column that are older than it, some in each of our own transactions."""
        while True:
            with self._connection.transaction():
                if not self.column().name:
                    return
                rows = self._connection.rows(LACKING, collection=collection, most=PAGE)
                vectors = [{"seq": row["seq"], "near": shown(bytes(row["vector"]))} for row in rows]
                self._connection.write_each(FILL_IN.format(schema=self._schema), vectors)
            if len(rows) < PAGE:
                return

    def make_index(self, collection: CollectionName, model: str, dimension: int) -> bool:
        """Make the server's index of a collection, outside of a transaction; return False if there is one."""
        schema, prefix = self._vector_column(), f"embedding_near_{_short_hash(collection)}_"
        name = f"{prefix}{_short_hash(f'{model} {dimension}')}"
        found = {row["name"]: row["valid"] for row in self._connection.rows(INDICES, prefix=f"{prefix}%")}
        # One of another model, or one that was not completed.
        for former in (each for each in found if each != name or not found[each]):
            self._connection.driver.change(f"DROP INDEX CONCURRENTLY IF EXISTS {former}", {})
        if schema is None or found.get(name):
            return False
        statement = _with_constants(MAKE_INDEX, schema, collection, model, bytes(2 * dimension)).replace("{name}", name)
        self._connection.driver.change(statement, {})
        return True

    def _vector_column(self) -> str | None:
        # Looked up until it is there: another process may make it.
        if self._schema is None and self.is_possible and self._connection.rows(HAS_COLUMN)[0]["columns"]:
            self._schema = self._find_extension()
        return self._schema

    def _find_extension(self) -> str | None:
        row = self._connection.row(EXTENSION)
        return None if row is None else f'"{row["schema"]}"'

    def _make_column(self) -> str | None:
        driver = self._connection.driver
        if self._refused or not self.is_possible:
            return None
        if self._find_extension() is None:
            driver.attempt(CREATE_EXTENSION)
        schema = self._find_extension()
        if schema is None or not driver.attempt(ADD_COLUMN.format(schema=schema)):
            self._refused = True
            return None
        return self._vector_column()


def shown(vector: bytes) -> str:
    """Return a stored vector as pgvector reads it."""
    return f"[{','.join(map(str, struct.unpack(f'<{len(vector) // 2}e', vector)))}]"


def _with_constants(statement: str, schema: str, collection: CollectionName, model: str, vector: bytes) -> str:
    # With names as constants: an index is used only if its condition is seen to hold.
    return statement.format(
        schema=schema,
        dimension=len(vector) // 2,
        collection=_quote_text(collection),
        model=_quote_text(model),
        name="{name}",
    )


def _quote_text(text: str) -> str:
    return "'" + text.replace("\0", "").replace("'", "''") + "'"


def _short_hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]
