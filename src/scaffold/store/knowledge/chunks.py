"""Chunks: stored once, found by their words, by time and by where they come from, and really deleted."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from scaffold.core.knowledge import (
    DECIDED_BY,
    LEARNINGS,
    NOTED_IN,
    Chunk,
    ChunkFilter,
    ChunkId,
    ChunkState,
    CollectionName,
    Span,
)
from scaffold.store.driver.columns import OBJECT, format_time, parse_optional_time, parse_time, struct_columns
from scaffold.store.driver.connection import ColumnValue, Connection, Row
from scaffold.store.driver.gateway import TableGateway
from scaffold.store.knowledge.changes import take_numbers

EVERYTHING = ChunkFilter(states=("active", "unconfirmed", "superseded"))
MOST_RANKED = 4_000
"""So many chunks are ranked at most, if rarer words leave it at that: each takes about a microsecond."""
COUNT_WORDS: Mapping[str, str] = {
    "sqlite": """
        SELECT COUNT(*) AS chunks FROM (
            SELECT 1 FROM chunk_words WHERE chunk_words MATCH :query LIMIT :most
        ) AS found""",
    "postgres": """
        SELECT COUNT(*) AS chunks FROM (
            SELECT 1 FROM chunk WHERE words @@ websearch_to_tsquery('english', :query) LIMIT :most
        ) AS found""",
}
"""How many chunks a query finds, counted up to a limit, by dialect."""
ADD = """
INSERT INTO chunk (seq, id, collection, text, title, sha256, document_id, start_char, end_char, page, source, meta,
                   state, valid_from, valid_until, superseded_by, created_at)
VALUES (:seq, :id, :collection, :text, :title, :sha256, :document_id, :start_char, :end_char, :page, :source, :meta,
        :state, :valid_from, :valid_until, :superseded_by, :created_at)
ON CONFLICT DO NOTHING
"""
CHANGE = """
UPDATE chunk SET text = :text, title = :title, sha256 = :sha256, meta = :meta, state = :state, source = :source,
       valid_from = :valid_from, valid_until = :valid_until, superseded_by = :superseded_by WHERE id = :id
"""
ADD_META = "INSERT INTO chunk_meta (chunk_id, name, value) VALUES (:id, :name, :value)"
FORGET_META = "DELETE FROM chunk_meta WHERE chunk_id = :id"
GET = "SELECT * FROM chunk WHERE id = :id"
BY_SEQ = "SELECT * FROM chunk WHERE seq = :seq"
SAME = "SELECT * FROM chunk WHERE collection = :collection AND sha256 = :sha256 AND valid_until IS NULL ORDER BY seq"
BY_PREFIX = """
SELECT * FROM chunk WHERE collection = :collection AND substr(id, 1, length(:text)) = :text ORDER BY id LIMIT :most
"""
COUNT = "SELECT COUNT(*) AS chunks FROM chunk WHERE collection = :collection"
COUNT_STATES = (
    "SELECT state, COUNT(*) AS chunks FROM chunk WHERE collection = :collection GROUP BY state ORDER BY state"
)
MOVE_ALL_OF = """
UPDATE chunk SET state = :after WHERE source = :source AND state = :before
AND NOT EXISTS (SELECT 1 FROM chunk_meta WHERE chunk_meta.chunk_id = chunk.id AND chunk_meta.name = :decided_by)
"""
NOTE_REMOVAL = """
INSERT INTO embedding_removal (embedding_seq, chunk_seq, seq, collection)
SELECT embedding.seq, embedding.chunk_seq, :seq, embedding.collection
FROM embedding JOIN chunk ON chunk.seq = embedding.chunk_seq WHERE chunk.id = :id
"""
NOTE_RETURN = """
INSERT INTO embedding_removal (embedding_seq, chunk_seq, seq, collection)
SELECT :seq, seq, :seq, collection FROM chunk WHERE id = :id
"""
"""For a chunk that counts again: it has no vector since it was superseded, and needs one."""
FORGET_EMBEDDING = "DELETE FROM embedding WHERE chunk_seq = (SELECT seq FROM chunk WHERE id = :id)"
FORGET = "DELETE FROM chunk WHERE id = :id"
SEARCH: Mapping[str, tuple[str, str]] = {
    "sqlite": (
        """SELECT chunk.seq AS seq FROM chunk_words JOIN chunk ON chunk.seq = chunk_words.rowid
        WHERE chunk_words MATCH :query AND chunk.collection = :collection""",
        "ORDER BY bm25(chunk_words, 2.0, 1.0), chunk.seq LIMIT :most",
    ),
    "postgres": (
        """SELECT chunk.seq AS seq FROM chunk WHERE chunk.words @@ websearch_to_tsquery('english', :query)
        AND chunk.collection = :collection""",
        """ORDER BY ts_rank(chunk.words, websearch_to_tsquery('english', :query), 1) DESC, chunk.seq LIMIT :most""",
    ),
}
"""How chunks are found by their words, by dialect: what comes before the conditions of a filter, and what after."""
MOST_AT_ONCE = 64
"""How many chunks one statement asks for by their numbers."""
POSITION: Mapping[str, str] = {"sqlite": "instr", "postgres": "strpos"}
"""The function that finds a text in another one, by dialect."""


class Conditions(Struct, frozen=True):
    """Conditions on the table `chunk`, each beginning with AND, and the values that they name."""

    text: str
    values: Mapping[str, ColumnValue]


class Chunks(TableGateway):
    """The chunks of one database."""

    def add(self, chunks: Sequence[Chunk]) -> tuple[Chunk, ...]:
        """Store chunks and return them with their numbers; one whose text is stored already is returned as it is."""
        numbers = take_numbers(self._connection, len(chunks)) if chunks else range(0)
        self._connection.write_each(ADD, [_chunk_columns(each, seq) for each, seq in zip(chunks, numbers, strict=True)])
        stored = []
        for chunk, seq in zip(chunks, numbers, strict=True):
            row = self._connection.row(BY_SEQ, seq=seq)
            # Without a row of its own, the text was stored before.
            same = self.same(chunk.collection, chunk.sha256) if row is None else (_read_chunk(row),)
            stored.append(next(each for each in same if row is not None or each.place == chunk.place))
        new = [each for each, seq in zip(stored, numbers, strict=True) if each.seq == seq]
        self._connection.write_each(ADD_META, [row for each in new for row in _meta_rows(each)])
        return tuple(stored)

    def change(self, chunk: Chunk) -> None:
        """Store a chunk in place of the one with its id; its vector is gone with another text, or when superseded."""
        before = self.get(chunk.id)
        is_other_text = before is not None and (before.text, before.title) != (chunk.text, chunk.title)
        if is_other_text or chunk.state == "superseded":
            self._drop_embeddings([chunk.id])
        elif before is not None and before.state == "superseded":
            number = take_numbers(self._connection, 1)[0]
            self._connection.write(NOTE_RETURN, id=chunk.id, seq=number)
        self._connection.write(CHANGE, **_chunk_columns(chunk, 0))
        self._connection.write(FORGET_META, id=chunk.id)
        self._connection.write_each(ADD_META, _meta_rows(chunk))

    def forget(self, chunks: Iterable[ChunkId]) -> None:
        """Delete chunks with their words and vectors."""
        ids = list(chunks)
        self._drop_embeddings(ids)
        self._connection.write_each(FORGET, [{"id": each} for each in ids])

    def move_all_of(self, source: str, *, before: ChunkState, after: ChunkState) -> None:
        """Move the chunks of a source from one state to another, but for those about which someone decided."""
        self._connection.write(MOVE_ALL_OF, source=source, before=before, after=after, decided_by=DECIDED_BY)

    def get(self, chunk: ChunkId) -> Chunk | None:
        """Return the chunk; None if there is none."""
        row = self._connection.row(GET, id=chunk)
        return None if row is None else _read_chunk(row)

    def with_numbers(self, numbers: Iterable[int]) -> tuple[Chunk, ...]:
        """Return the chunks with these numbers, in that order, without those that are gone."""
        wanted = tuple(numbers)
        found: dict[int, Row] = {}
        for start in range(0, len(wanted), MOST_AT_ONCE):
            values = {f"seq{place}": seq for place, seq in enumerate(wanted[start : start + MOST_AT_ONCE])}
            names = ", ".join(f":{name}" for name in values)
            rows = self._connection.rows(f"SELECT * FROM chunk WHERE seq IN ({names})", **values)  # noqa: S608 - our names
            found |= {row["seq"]: row for row in rows}
        return tuple(_read_chunk(found[each]) for each in wanted if each in found)

    def by_prefix(self, collection: CollectionName, text: str, most: int = 10) -> tuple[Chunk, ...]:
        """Return chunks of a collection whose id starts with `text`."""
        return tuple(map(_read_chunk, self._connection.rows(BY_PREFIX, collection=collection, text=text, most=most)))

    def same(self, collection: CollectionName, sha256: str) -> tuple[Chunk, ...]:
        """Return the chunks of a collection that have the text with this hash, without those that were superseded."""
        return tuple(map(_read_chunk, self._connection.rows(SAME, collection=collection, sha256=sha256)))

    def count(self, collection: CollectionName) -> int:
        """Return how many chunks a collection has."""
        return int(self._connection.rows(COUNT, collection=collection)[0]["chunks"])

    def counts_by_state(self, collection: CollectionName) -> dict[ChunkState, int]:
        """Return how many chunks of a collection are in each state."""
        rows = self._connection.rows(COUNT_STATES, collection=collection)
        return {row["state"]: int(row["chunks"]) for row in rows}

    def search(
        self, collection: CollectionName, words: Sequence[str], wanted: ChunkFilter, *, most: int
    ) -> tuple[int, ...]:
        """Return the numbers of the chunks that have any of the words, the best first; empty without words."""
        # No learning that an attempt may need is left out for having common words only; there are fewer of them.
        query = any_of(words) if collection == LEARNINGS else word_query(self._connection, words)
        if not query:
            return ()
        before, after = SEARCH[self._connection.driver.dialect]
        conditions = conditions_of(wanted)
        rows = self._connection.rows(
            f"{before} {conditions.text} {after}", query=query, collection=collection, most=most, **conditions.values
        )
        return tuple(int(row["seq"]) for row in rows)

    def containing(
        self, collection: CollectionName, parts: Sequence[str], wanted: ChunkFilter, *, most: int
    ) -> tuple[int, ...]:
        """Return the numbers of the chunks whose text contains any of the parts, those with the most of them first.

        For scripts that are written without spaces, in which full-text search takes a sentence for one word.
        """
        if not parts:
            return ()
        position = POSITION[self._connection.driver.dialect]
        count = " + ".join(f"CASE WHEN {position}(text, :part{n}) > 0 THEN 1 ELSE 0 END" for n in range(len(parts)))
        conditions = conditions_of(wanted)
        statement = (
            f"SELECT seq FROM (SELECT chunk.*, {count} AS parts FROM chunk WHERE collection = :collection) AS chunk "  # noqa: S608 - our names
            f"WHERE parts > 0 {conditions.text} ORDER BY parts DESC, seq LIMIT :most"
        )
        values = {f"part{n}": part for n, part in enumerate(parts)}
        rows = self._connection.rows(statement, collection=collection, most=most, **conditions.values, **values)
        return tuple(int(row["seq"]) for row in rows)

    def newest(
        self, collection: CollectionName, wanted: ChunkFilter = EVERYTHING, *, most: int, before: int | None = None
    ) -> tuple[Chunk, ...]:
        """Return the chunks that were stored last, the newest first; `before`: only those with a smaller number."""
        conditions = conditions_of(wanted)
        older = "AND chunk.seq < :before" if before is not None else ""
        values = {**conditions.values, **({} if before is None else {"before": before})}
        rows = self._connection.rows(
            f"SELECT * FROM chunk WHERE collection = :collection {conditions.text} {older} "  # noqa: S608 - our conditions
            "ORDER BY created_at DESC, seq DESC LIMIT :most",
            collection=collection,
            most=most,
            **values,
        )
        return tuple(map(_read_chunk, rows))

    def numbers(self, collection: CollectionName, wanted: ChunkFilter) -> frozenset[int]:
        """Return the numbers of all chunks that fit a filter."""
        conditions = conditions_of(wanted)
        statement = f"SELECT seq FROM chunk WHERE collection = :collection {conditions.text}"  # noqa: S608 - our conditions
        rows = self._connection.rows(statement, collection=collection, **conditions.values)
        return frozenset(int(row["seq"]) for row in rows)

    def _drop_embeddings(self, ids: Sequence[ChunkId]) -> None:
        if not ids:
            return
        number = take_numbers(self._connection, 1)[0]
        self._connection.write_each(NOTE_REMOVAL, [{"id": each, "seq": number} for each in ids])
        self._connection.write_each(FORGET_EMBEDDING, [{"id": each} for each in ids])


def _chunk_columns(chunk: Chunk, seq: int) -> dict[str, ColumnValue]:
    return struct_columns(
        chunk,
        seq=seq,
        document_id=chunk.document,
        start_char=chunk.span.start,
        end_char=chunk.span.end,
        page=chunk.span.page,
        meta=OBJECT.write(chunk.meta),
    )


def _meta_rows(chunk: Chunk) -> Iterator[Mapping[str, ColumnValue]]:
    return ({"id": chunk.id, "name": name, "value": value} for name, value in chunk.meta.items())


def _read_chunk(row: Row) -> Chunk:
    return Chunk(
        id=row["id"],
        collection=row["collection"],
        text=row["text"],
        title=row["title"],
        sha256=row["sha256"],
        document=row["document_id"],
        span=Span(row["start_char"], row["end_char"], row["page"]),
        source=row["source"],
        meta=OBJECT.read(row["meta"]),
        state=row["state"],
        valid_from=parse_time(row["valid_from"]),
        valid_until=parse_optional_time(row["valid_until"]),
        superseded_by=row["superseded_by"],
        created_at=parse_time(row["created_at"]),
        seq=row["seq"],
    )


def any_of(words: Iterable[str]) -> str:
    """Return the query for texts with any of the words; empty without words. In quotes, no word is an operator."""
    return " OR ".join(f'"{word}"' for word in words if word.isalnum())


def all_of(words: Iterable[str]) -> str:
    """Return the query for texts with all of the words; empty without words."""
    return " ".join(f'"{word}"' for word in words if word.isalnum())


def word_query(connection: Connection, words: Sequence[str]) -> str:
    """Return the query for chunks with any of the words; empty without words.

    Of many chunks, those with the rarer words are ranked; if all words are common, those that have several of them.
    """
    counts = {word: _count_matches(connection, any_of([word])) for word in words if any_of([word])}
    if sum(counts.values()) <= MOST_RANKED:
        return any_of(counts)
    rarest = sorted((word for word in counts if counts[word]), key=lambda word: counts[word])
    kept, ranked = [], 0
    for word in rarest:
        ranked += counts[word]
        if ranked > MOST_RANKED:
            break
        kept.append(word)
    return any_of(kept) if kept else _several_of(connection, rarest)


def _several_of(connection: Connection, rarest: Sequence[str]) -> str:
    """Return the query for chunks with so many of the words that few enough have them; with the rarest if none has."""
    best = any_of(rarest[:1])
    for count in range(2, len(rarest) + 1):
        query = all_of(rarest[:count])
        found = _count_matches(connection, query)
        if not found:
            return best
        best = query
        if found <= MOST_RANKED:
            return best
    return best


def _count_matches(connection: Connection, query: str) -> int:
    """Return how many chunks fit a query; one more than MOST_RANKED for all larger numbers."""
    statement = COUNT_WORDS[connection.driver.dialect]
    return int(connection.rows(statement, query=query, most=MOST_RANKED + 1)[0]["chunks"])


def conditions_of(wanted: ChunkFilter) -> Conditions:
    """Return the conditions of a filter; all of its words are values, none is part of the statement."""
    values: dict[str, ColumnValue] = {f"state{place}": state for place, state in enumerate(wanted.states)}
    parts = [f"AND chunk.state IN ({', '.join(f':{name}' for name in values)})" if values else "AND 1 = 0"]
    if wanted.document is not None:
        parts.append("AND chunk.document_id = :document")
        values["document"] = wanted.document
    if wanted.source:
        parts.append("AND substr(chunk.source, 1, length(:source)) = :source")
        values["source"] = wanted.source
    if wanted.since is not None:
        parts.append("AND chunk.created_at >= :since")
        values["since"] = format_time(wanted.since)
    if wanted.until is not None:
        parts.append("AND chunk.created_at < :until")
        values["until"] = format_time(wanted.until)
    if wanted.told_in is not None:
        # Those of older versions say who is unconfirmed, but not where.
        noted = "(SELECT value FROM chunk_meta WHERE chunk_id = chunk.id AND name = :noted_in)"
        parts.append(f"AND COALESCE({noted}, CASE chunk.state WHEN 'unconfirmed' THEN '' ELSE :told_in END) = :told_in")
        values |= {"noted_in": NOTED_IN, "told_in": wanted.told_in}
    for place, (name, value) in enumerate(wanted.meta.items()):
        fits = f"chunk_id = chunk.id AND name = :name{place} AND value = :value{place}"
        parts.append(f"AND EXISTS (SELECT 1 FROM chunk_meta WHERE {fits})")  # noqa: S608 - names of our own
        values |= {f"name{place}": name, f"value{place}": value}
    return Conditions(" ".join(parts), values)
