"""Indexes of both databases, as agents use them: created, filled, searched and deleted. One transaction a change."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct, structs

from scaffold.core.errors import EmbeddingError, StoreError, UsageError
from scaffold.core.knowledge import LEARNINGS, MEMORIES, Chunk, ChunkFilter, ChunkId, Collection, CollectionName, Span
from scaffold.host.random_ids import new_id
from scaffold.host.startup import importing
from scaffold.memory.chunk_embedding import EXTRA_FIX, embed_chunks
from scaffold.memory.chunking.split import TextKind, split_text
from scaffold.memory.chunking.text_pieces import TextPiece
from scaffold.memory.hybrid import VALID, FoundChunk, QueryVectors, fuse
from scaffold.memory.indexes.argument_checks import (
    checked_dimension,
    checked_metadata,
    checked_text,
    checked_time,
    checked_vector,
    index_name,
    item_hash,
)
from scaffold.memory.memories import IndexState, Memories
from scaffold.memory.notes import MemoryScope
from scaffold.plan.message_text import quoted, quoted_list
from scaffold.policy.secret.redaction import Redactor
from scaffold.store.database import Store
from scaffold.store.driver.columns import TimeSource
from scaffold.store.knowledge.chunks import EVERYTHING
from scaffold.store.user_store import UserStore

MAX_TEXT_CHARS = 8_000
"""Of one item; embedding models read hardly more."""
MAX_CHUNKED_CHARS = 1_000_000
ONLY_THEIR_OWN: Mapping[CollectionName, str] = {
    MEMORIES: "Use `remember`, which says what is known already, and `forget_memory`.",
    LEARNINGS: "Learnings follow from the outcome of work; the user changes them with `scaffold learn`.",
}
"""The advice for each built-in index, which these tools cannot change."""


class Place(Struct, frozen=True):
    """An index in the database that has it."""

    scope: MemoryScope
    database: Store | UserStore
    collection: Collection

    @property
    def has_given_vectors(self) -> bool:
        """Whether vectors come with the items, instead of being computed from their texts."""
        return self.collection.has_given_vectors


class Added(Struct, frozen=True):
    """The result of adding items."""

    chunks: Sequence[Chunk]
    new: int
    """The number of chunks that were not stored before."""
    problem: str = ""
    """Why they have no vectors yet; empty if they have, or need none."""


class Indexes:
    """The indexes of the databases that are open."""

    def __init__(
        self,
        memories: Memories,
        *,
        clock: TimeSource,
        redactor: Redactor,
        source: str,
        tell: Callable[[Added], object] = lambda _: None,
    ) -> None:
        """`source`: who adds items, as with memories. `tell` gets texts that are stored, before their vectors are."""
        self._memories = memories
        self._clock = clock
        self._redactor = redactor
        self._source = source
        self._tell = tell

    def create(self, name: str, dimension: int | None) -> Place:
        """Create an index: of texts, or of vectors of this dimension that its user computes."""
        wanted = _changeable_name(name)
        scope, database = next(iter(self._memories.databases.all()))
        numbers = None if dimension is None else checked_dimension(dimension)
        with database.transaction(durable=True):
            if taken := self._find_places(wanted):
                there = taken[0].collection
                kind = f"vectors of {there.dimension} numbers" if there.has_given_vectors else "texts"
                fix = f"It is one of {kind}; use it, or choose another name."
                raise UsageError(f"there is an index {quoted(wanted)} already", fix)
            database.knowledge.collections.ensure(wanted)
            if numbers is not None:
                database.knowledge.collections.set_model(wanted, "", numbers)
            made = database.knowledge.collections.ensure(wanted)
        return Place(scope, database, made)

    def delete(self, name: str) -> tuple[Place, int, bool]:
        """Delete an index for good; return it, how many items it had, and whether the database's log has none left."""
        place = self._first_place(_changeable_name(name))
        items, emptied = delete_whole_index(self._memories, place.scope, place.collection.name)
        return place, items, emptied

    def states(self) -> tuple[IndexState, ...]:
        """Return how full each index is."""
        return self._memories.states()

    async def add_text(self, name: str, text: str, metadata: Mapping[str, Any]) -> Added:
        """Add one text."""
        place = self._place_of_texts(name)
        fields = checked_metadata(metadata, self._redactor)
        fix = "Add it with `vector_db_add_chunked_text`, in pieces."
        content = checked_text(text, self._redactor, MAX_TEXT_CHARS, fix)
        piece = TextPiece(content, 0, len(content))
        return await self._with_vectors(place, self._add_chunks(place, [self._new_chunk(place, piece, fields)]))

    async def add_chunked_text(
        self, name: str, text: str, kind: TextKind, source: str, metadata: Mapping[str, Any]
    ) -> Added:
        """Add a long text in pieces, all or none."""
        place = self._place_of_texts(name)
        fields = checked_metadata({**metadata, **({"source": source} if source else {})}, self._redactor)
        content = checked_text(text, self._redactor, MAX_CHUNKED_CHARS, "Add it in several parts.")
        chunks = [self._new_chunk(place, piece, fields) for piece in split_text(content, kind)]
        return await self._with_vectors(place, self._add_chunks(place, chunks))

    def add_vector(self, name: str, vector: Sequence[float], text: str, metadata: Mapping[str, Any]) -> Added:
        """Add a vector computed by the caller, with its text, if any."""
        place = self._first_place(_changeable_name(name))
        if not place.has_given_vectors:
            raise _computed_here(place)
        packed = _pack_vector(vector, place.collection)
        fields = checked_metadata(metadata, self._redactor)
        content = self._optional_text(text)
        chunk = self._new_chunk(place, TextPiece(content, 0, len(content)), fields, packed)
        return self._add_chunks(place, [chunk], packed)

    def update(
        self, name: str, item: str, vector: Sequence[float] | None, text: str | None, metadata: Mapping[str, Any] | None
    ) -> Chunk:
        """Change the given parts of an item; a replaced text is deleted for good."""
        place = self._first_place(_changeable_name(name))
        if vector is not None and not place.has_given_vectors:
            raise _computed_here(place)
        packed = None if vector is None else _pack_vector(vector, place.collection)
        fields = None if metadata is None else checked_metadata(metadata, self._redactor)
        knowledge = place.database.knowledge
        with place.database.transaction(durable=True):
            _require_unchanged(place)
            before = self._require_item(place, item)
            if packed is None and place.has_given_vectors:
                packed = knowledge.embeddings.for_chunk(before)  # another text does not take it away
            content = before.text
            if text is not None and place.has_given_vectors:
                content = self._optional_text(text)
            elif text is not None:
                content = checked_text(text, self._redactor, MAX_TEXT_CHARS, "Add it in pieces.")
            # What another agent has made of an item, the user has not confirmed.
            meta = {**(before.meta if fields is None else fields), **self._memories.databases.noted(place.scope)}
            sha256 = item_hash(content, meta, packed or b"")
            same = knowledge.chunks.same(place.collection.name, sha256)
            if any(each.id != before.id and each.place == before.place for each in same):
                raise UsageError("another item says exactly that already", "Delete one of them.")
            after = structs.replace(before, text=content, meta=meta, sha256=sha256)
            (knowledge.chunks.change if content == before.text else knowledge.replace)(after)
            if packed is not None:
                knowledge.embeddings.put(place.collection.model, [(after, packed)])
        self._memories.databases.wipe([place.scope], place.collection.name)
        return after

    def delete_items(self, name: str, items: Sequence[str]) -> tuple[Sequence[ChunkId], bool]:
        """Delete items for good, all or none; return their ids, and whether the database's log has none left."""
        place = self._first_place(_changeable_name(name))
        # An agent that names none by mistake must not take the answer for a success.
        if not items:
            raise UsageError("no item is named", "Give the ids of the items.")
        ids = list(dict.fromkeys(self._require_item(place, each).id for each in items))
        return ids, delete_chunks(self._memories, place.scope, place.collection.name, ids)

    def item(self, name: str, item: str) -> tuple[Chunk, Sequence[float] | None]:
        """Return an item and its vector; None if it has none."""
        for place in self._require_places(index_name(name)):
            if (chunk := self._find_item(place, item)) is not None:
                vector = place.database.knowledge.embeddings.for_chunk(chunk)
                return chunk, None if vector is None else _unpack_vector(vector)
        raise _no_item(item, name)

    def nearest(
        self, name: str, vector: Sequence[float], metadata: Mapping[str, Any], most: int
    ) -> Sequence[FoundChunk]:
        """Return the items nearest to a vector, the nearest first."""
        wanted, found = self._metadata_filter(metadata), []
        for place in self._require_places(index_name(name)):
            stored, knowledge = place.collection, place.database.knowledge
            if not stored.dimension:
                continue  # nothing in it has a vector
            query = _pack_vector(vector, stored)
            vectors = self._vector_leg(place).vectors.search_of(stored.name, stored.model)
            told = self._memories.databases.told(place.scope, wanted)
            among = None if told == VALID else knowledge.chunks.numbers(stored.name, told)
            near = dict(vectors.search(query, most=most, among=among)) if vectors is not None else {}
            found += [FoundChunk(chunk, near[chunk.seq]) for chunk in knowledge.chunks.with_numbers(near)]
        return sorted(found, key=lambda each: -(each.cosine or 0.0))[:most]

    async def fitting(self, name: str, query: str, metadata: Mapping[str, Any], most: int) -> Sequence[FoundChunk]:
        """Return the items that fit a query best, by words and by meaning."""
        wanted = self._metadata_filter(metadata)
        found: dict[str, FoundChunk] = {}
        rankings, vectors = [], QueryVectors(query)
        for place in self._require_places(index_name(name)):
            named = place.collection.name
            told = self._memories.databases.told(place.scope, wanted)
            hits = await self._memories.find_in(place.scope, named, query, told, most=most, vectors=vectors)
            found |= {hit.chunk.id: hit for hit in hits}
            rankings.append([hit.chunk.id for hit in hits])
        return [found[each] for each in fuse(*rankings)[:most]]

    def by_time(
        self, name: str, since: str | None, until: str | None, metadata: Mapping[str, Any], most: int
    ) -> Sequence[FoundChunk]:
        """Return the items that were stored in a period, the newest first."""
        wanted = structs.replace(
            self._metadata_filter(metadata),
            since=None if since is None else checked_time("since", since),
            until=None if until is None else checked_time("until", until),
        )
        found = [
            chunk
            for place in self._require_places(index_name(name))
            for told in (self._memories.databases.told(place.scope, wanted),)
            for chunk in place.database.knowledge.chunks.newest(place.collection.name, told, most=most)
        ]
        newest = sorted(found, key=lambda each: (each.created_at, each.seq), reverse=True)
        return [FoundChunk(each) for each in newest[:most]]

    def _new_chunk(self, place: Place, piece: TextPiece, fields: Mapping[str, str], vector: bytes = b"") -> Chunk:
        now, fields = self._clock.now(), {**fields, **self._memories.databases.noted(place.scope)}
        return Chunk(
            id=ChunkId(new_id()),
            collection=place.collection.name,
            text=piece.text,
            title=piece.title,
            sha256=item_hash(piece.text, fields, vector),
            span=Span(piece.start, piece.end),
            source=self._source,
            meta=fields,
            valid_from=now,
            created_at=now,
        )

    def _add_chunks(self, place: Place, chunks: Sequence[Chunk], vector: bytes = b"") -> Added:
        name, knowledge = place.collection.name, place.database.knowledge
        with place.database.transaction(durable=True):
            capacity, same = _require_unchanged(place).capacity, knowledge.chunks.same
            # Items that are stored already take no room.
            new = [each for each in chunks if all(one.place != each.place for one in same(name, each.sha256))]
            if knowledge.chunks.count(name) + len(new) > capacity:
                raise UsageError(
                    f"{quoted(name)} has no room for {len(new):,} more: it holds {capacity:,} items",
                    "Delete items that are not needed, or create another index.",
                )
            stored = knowledge.chunks.add(chunks)
            if vector:
                knowledge.embeddings.put("", [(each, vector) for each in stored])
        ids = {each.id for each in chunks}
        return Added(stored, sum(each.id in ids for each in stored))

    async def _with_vectors(self, place: Place, added: Added) -> Added:
        # It is stored, and found by its words, even if that fails.
        self._tell(added)
        try:
            embeddings = place.database.knowledge.embeddings
            bare = [each for each in added.chunks if embeddings.for_chunk(each) is None]
            await embed_chunks(place.database, self._vector_leg(place), place.collection.name, bare)
        except (EmbeddingError, StoreError, UsageError) as error:
            return structs.replace(added, problem=error.in_full)
        return added

    def _optional_text(self, text: str) -> str:
        return checked_text(text, self._redactor, MAX_TEXT_CHARS, "Give a shorter one.") if text else ""

    def _metadata_filter(self, metadata: Mapping[str, Any]) -> ChunkFilter:
        return ChunkFilter(meta=checked_metadata(metadata, self._redactor))

    def _require_item(self, place: Place, item: str) -> Chunk:
        found = self._find_item(place, item)
        if found is None:
            raise _no_item(item, place.collection.name)
        return found

    def _find_item(self, place: Place, item: str) -> Chunk | None:
        chunks, told = place.database.knowledge.chunks, self._memories.databases.told(place.scope, EVERYTHING)
        found = chunks.get(ChunkId(item.replace("\0", "")))
        if found is None or found.collection != place.collection.name:
            return None
        return found if place.scope == "project" or found.seq in chunks.numbers(found.collection, told) else None

    def _vector_leg(self, place: Place) -> Any:
        leg = self._memories.databases.leg(place.scope)
        if leg is None:
            raise UsageError("vector search is not installed", EXTRA_FIX)
        return leg

    def _place_of_texts(self, name: str) -> Place:
        place = self._first_place(_changeable_name(name))
        if place.has_given_vectors:
            raise UsageError(
                f"{quoted(name)} is an index of vectors that you compute",
                "Use `vector_db_add_vector`; it takes a text.",
            )
        return place

    def _first_place(self, name: CollectionName) -> Place:
        return self._require_places(name)[0]

    def _require_places(self, name: CollectionName) -> Sequence[Place]:
        # Of a name that the repository and the user both use, both indexes are searched.
        found = self._find_places(name)
        if not found and name != MEMORIES:
            known = sorted({each.collection.name for each in self.states()})
            there = f"There is {quoted_list(known)}" if known else "There is none"
            raise UsageError(f"there is no index {quoted(name)}", f"{there}; `vector_db_create_index` creates one.")
        return found

    def _find_places(self, name: CollectionName) -> Sequence[Place]:
        found = [(*each, each[1].knowledge.collections.get(name)) for each in self._memories.databases.all()]
        return [Place(scope, database, collection) for scope, database, collection in found if collection is not None]


def _changeable_name(name: str) -> CollectionName:
    """Return the name of an index that agents may change; UsageError for one that is built in."""
    wanted = index_name(name)
    if (fix := ONLY_THEIR_OWN.get(wanted)) is not None:
        raise UsageError(f"{quoted(wanted)} is built in: this tool can search it, but not change it", fix)
    return wanted


def _require_unchanged(place: Place) -> Collection:
    """Return the index as it is in a transaction; UsageError if it was deleted since, also if it is there again."""
    before, found = place.collection, place.database.knowledge.collections.get(place.collection.name)
    if found is None or (found.has_given_vectors, found.created_at) != (before.has_given_vectors, before.created_at):
        raise UsageError(f"the index {quoted(before.name)} was deleted meanwhile", "List the indexes, and try again.")
    return found


def _pack_vector(vector: Sequence[float], collection: Collection) -> bytes:
    numbers = checked_vector(vector, collection.dimension)
    try:
        with importing():
            from scaffold.memory.embedders.vector_bytes import packed
    except ImportError as error:
        raise UsageError("vector search is not installed", EXTRA_FIX) from error
    return packed([numbers])[0]


def _unpack_vector(vector: bytes) -> Sequence[float] | None:
    try:
        with importing():
            from scaffold.memory.embedders.vector_bytes import unpacked
    except ImportError:
        return None
    return [float(each) for each in unpacked([vector])[0]]


def _computed_here(place: Place) -> UsageError:
    return UsageError(
        f"the vectors of {quoted(place.collection.name)} are computed here, from its texts",
        "Use `vector_db_add_text`; or create an index with `dimension` for vectors that you compute.",
    )


def _no_item(item: str, name: str) -> UsageError:
    return UsageError(f"{quoted(name)} has no item {quoted(item)}", "Searches show the ids of items.")


def delete_whole_index(memories: Memories, scope: MemoryScope, index: CollectionName) -> tuple[int, bool]:
    """Return how many chunks were deleted; and False if another process keeps old text in the log."""
    database = memories.databases.get(scope)
    with database.transaction(durable=True):
        chunks = database.knowledge.chunks.count(index)
        database.knowledge.forget_collection(index)
    return chunks, memories.databases.wipe([scope], index)


def delete_chunks(memories: Memories, scope: MemoryScope, index: CollectionName, chunks: Sequence[ChunkId]) -> bool:
    """Return False if another process keeps old text in the log."""
    database = memories.databases.get(scope)
    with database.transaction(durable=True):
        database.knowledge.forget(chunks)
    return memories.databases.wipe([scope], index)
