"""The memories of a repository and of its user: written, found and forgotten. No model is asked to remember."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from msgspec import Struct, field, structs

from scaffold.core.errors import EmbeddingError, ForeignState, UsageError
from scaffold.core.knowledge import (
    DECIDED_BY,
    LEARNINGS,
    MEMORIES,
    NOTED_IN,
    Chunk,
    ChunkFilter,
    ChunkId,
    ChunkState,
    Collection,
    CollectionName,
)
from scaffold.core.model import Usage
from scaffold.core.printable_text import utf8_safe
from scaffold.host.random_ids import new_id
from scaffold.memory.chunk_embedding import compute_vectors, fill_in_vectors, ignore_count, vector_leg
from scaffold.memory.hybrid import VALID, FoundChunk, HybridSearch, QueryVectors, VectorLeg, fuse, search_terms
from scaffold.memory.notes import Memory, MemoryScope, MemoryType, Remembered, checked, contradictions, fingerprint
from scaffold.memory.vector_port import Embedder
from scaffold.memory.vectors.memory_cache import delete_index, index_folder, let_go
from scaffold.plan.message_text import quoted, quoted_list
from scaffold.policy.secret.redaction import Redactor
from scaffold.store.database import Store
from scaffold.store.driver.columns import TimeSource
from scaffold.store.knowledge.chunks import EVERYTHING
from scaffold.store.user_store import UserStore

COMPARED = 20
"""A new memory is compared with this many that share words with it."""
USER = "user"
"""The source of what the user says: it counts at once."""
FILLED_BY_SEARCH = 64
"""A search computes at most this many missing vectors."""


class MemoryDatabases(Struct, frozen=True):
    """The databases; None for one that does not exist, or is not wanted."""

    project: Store | None
    user: UserStore | None
    cache: Path
    """The user's cache, for index files."""
    folder: str = ""
    """Of the repository, or the current one outside of any: where what an agent notes of the user is told."""
    by_meaning: bool = True
    """Whether a search looks at vectors, too, which takes more memory."""
    embedder: Embedder | None = None
    """None for the model that comes with the extra `memory`."""
    left_out: ForeignState | None = None
    """Why the repository's is not there although it exists: someone else made it."""
    legs: dict[MemoryScope, VectorLeg | None] = field(default_factory=dict)
    """Search by vector in each, once it is open: it takes long to load."""

    def all(self) -> Iterator[tuple[MemoryScope, Store | UserStore]]:
        """Yield the databases, that of the repository first."""
        if self.project is not None:
            yield "project", self.project
        if self.user is not None:
            yield "user", self.user

    def get(self, scope: MemoryScope, what: str = "memory") -> Store | UserStore:
        """Return a database; UsageError, which says `what` cannot be stored, if there is none."""
        for name, database in self.all():
            if name == scope:
                return database
        where = "this is not in a git repository" if scope == "project" else "there is no database of the user"
        raise UsageError(f"a {what} of the {scope} cannot be stored: {where}", "Choose the other scope.")

    def leg(self, scope: MemoryScope) -> VectorLeg | None:
        """Return search by vector in a database; None if it is not possible here."""
        if scope not in self.legs:
            database = self.get(scope)
            folder = index_folder(self.cache, database.name)
            self.legs[scope] = vector_leg(database.knowledge, folder, self.embedder) if self.by_meaning else None
        return self.legs[scope]

    def told(self, scope: MemoryScope, wanted: ChunkFilter = VALID) -> ChunkFilter:
        """Return the filter of what agents are told in this folder."""
        return structs.replace(wanted, told_in=self.folder) if scope == "user" else wanted

    def noted(self, scope: MemoryScope) -> Mapping[str, str]:
        """Return the fields of `meta` that bind what an agent stores to this folder."""
        return {NOTED_IN: self.folder} if scope == "user" else {}

    def wipe(self, scopes: Iterable[MemoryScope], collection: CollectionName) -> bool:
        """Delete what is left outside of the tables of deleted chunks; False if another process keeps some of it."""
        emptied = []
        for scope in scopes:
            database = self.get(scope)
            # Text of a deleted chunk can be guessed from its vector.
            delete_index(index_folder(self.cache, database.name), collection)
            let_go(database.name, collection)
            emptied.append(database.knowledge.empty_log())
        return all(emptied)


class FoundMemory(Struct, frozen=True):
    """A memory that fits a query."""

    memory: Memory
    hit: FoundChunk


class IndexState(Struct, frozen=True, kw_only=True):
    """How full a collection of one database is."""

    scope: MemoryScope
    collection: Collection
    chunks: int
    vectors: int
    by_state: Mapping[ChunkState, int]


class Memories:
    """The memories of both databases. Each change is one transaction of its own."""

    def __init__(self, databases: MemoryDatabases, *, clock: TimeSource, redactor: Redactor) -> None:
        self.databases = databases
        self._clock = clock
        self._redactor = redactor
        self.search_failure: EmbeddingError | None = None
        """Why the last search was by words alone, although there is a model."""

    @property
    def has_project(self) -> bool:
        """Whether memories of a repository can be stored."""
        return self.databases.project is not None

    def now(self) -> datetime:
        """Return the present time, by the clock of the databases."""
        return self._clock.now()

    def remember(
        self,
        text: str,
        *,
        source: str,
        scope: MemoryScope | None = None,
        kind: MemoryType = "fact",
        supersedes: Memory | None = None,
    ) -> Remembered:
        """Store a memory, by default in the repository's database; it replaces the one it `supersedes`.

        A memory from the user counts at once, any other is unconfirmed. UsageError for a text that may not be stored.
        """
        content = checked(text, self._redactor)
        known = self._find_same(content)
        if known is not None:
            is_confirmed = source == USER and known.chunk.state == "unconfirmed"
            memory = self.edit(known, state="active") if is_confirmed else known
        else:
            memory = self._add_memory(content, source, scope or ("project" if self.has_project else "user"), kind)
        if supersedes is not None and supersedes.id != memory.id:
            database, now = self.databases.get(supersedes.scope), self._clock.now()
            with database.transaction(durable=True):
                former = database.knowledge.chunks.get(supersedes.chunk.id)
                if former is not None and former.state != "superseded":
                    former = structs.replace(former, state="superseded", valid_until=now, superseded_by=memory.chunk.id)
                    database.knowledge.chunks.change(former)
        rivals = self.rivals(memory, everywhere=source == USER) if known is None else ()
        return Remembered(memory=memory, is_new=known is None, contradicts=rivals, superseded=supersedes)

    def edit(self, memory: Memory, **changes: Any) -> Memory:
        """Change `text`, `type` or `state` of a memory; a former text is deleted for good."""
        chunk = memory.chunk
        if "text" in changes:
            content = checked(changes["text"], self._redactor)
            known = self._find_same(content)
            if known is not None and known.id != memory.id:
                raise UsageError(f"{known.id} says that already", f"Forget one of them: `forget {memory.id}`.")
            meta = {**chunk.meta, DECIDED_BY: USER}
            chunk = structs.replace(
                chunk, text=content, sha256=fingerprint(content), source=USER, state="active", meta=meta
            )
        if "type" in changes:
            chunk = structs.replace(chunk, meta={**chunk.meta, "type": changes["type"]})
        if "state" in changes:
            chunk = structs.replace(chunk, state=changes["state"], meta={**chunk.meta, DECIDED_BY: USER})
        if chunk.meta.get(DECIDED_BY) == USER:
            chunk = structs.replace(chunk, meta={name: each for name, each in chunk.meta.items() if name != NOTED_IN})
        if chunk.state != "superseded" and memory.chunk.state == "superseded":
            chunk = structs.replace(chunk, valid_until=None, superseded_by=None, valid_from=self._clock.now())
        database = self.databases.get(memory.scope)
        with database.transaction(durable=True):
            if database.knowledge.chunks.get(chunk.id) is None:
                raise UsageError(f"memory {memory.id} was deleted meanwhile", "Add it again if you still want it.")
            if chunk.text == memory.chunk.text:
                database.knowledge.chunks.change(chunk)
            else:
                database.knowledge.replace(chunk)
        if chunk.text != memory.chunk.text:  # the former text must be gone from the file, too
            self.databases.wipe([memory.scope], MEMORIES)
        return Memory(chunk, memory.scope)

    def forget(self, memories: Iterable[Memory]) -> bool:
        """Delete memories: text, words, vectors and index; False if another process keeps old text in the log."""
        ids: dict[MemoryScope, list[ChunkId]] = {}
        for each in memories:
            ids.setdefault(each.scope, []).append(each.chunk.id)
        for scope, chunks in ids.items():
            database = self.databases.get(scope)
            with database.transaction(durable=True):
                database.knowledge.forget(chunks)
        return self.databases.wipe(ids, MEMORIES)

    def newest(self, wanted: ChunkFilter = EVERYTHING, *, most: int) -> tuple[Memory, ...]:
        """Return the latest memories, newest first."""
        found = [
            Memory(chunk, scope)
            for scope, database in self.databases.all()
            for chunk in database.knowledge.chunks.newest(MEMORIES, wanted, most=most)
        ]
        return tuple(sorted(found, key=lambda each: each.chunk.created_at, reverse=True)[:most])

    def by_prefix(self, text: str, collection: CollectionName = MEMORIES) -> tuple[Memory, ...]:
        """Return the memories whose id starts with `text`; of another collection, its chunks."""
        return tuple(
            Memory(chunk, scope)
            for scope, database in self.databases.all()
            for chunk in database.knowledge.chunks.by_prefix(collection, text)
        )

    async def find(
        self, query: str, *, most: int, wanted: ChunkFilter = VALID, everywhere: bool = False
    ) -> Sequence[FoundMemory]:
        """Return the best matches for a query, best first; on a tie, the repository's before the user's.

        `everywhere`, which is for the user alone: also what agents noted about the user in other folders.
        """
        found: dict[str, FoundMemory] = {}
        rankings, vectors = [], QueryVectors(query)
        for scope, _ in self.databases.all():
            told = wanted if everywhere else self.databases.told(scope, wanted)
            hits = await self.find_in(scope, MEMORIES, query, told, most=most, vectors=vectors)
            found |= {hit.chunk.id: FoundMemory(Memory(hit.chunk, scope), hit) for hit in hits}
            rankings.append([hit.chunk.id for hit in hits])
        self.search_failure = vectors.failure
        return [found[each] for each in fuse(*rankings)[:most]]

    async def find_in(
        self,
        scope: MemoryScope,
        collection: CollectionName,
        query: str,
        wanted: ChunkFilter,
        *,
        most: int,
        vectors: QueryVectors,
    ) -> Sequence[FoundChunk]:
        """Return the chunks of a collection in one database that fit a query best."""
        database, leg = self.databases.get(scope), self.databases.leg(scope)
        if leg is not None:
            await fill_in_vectors(database, leg, collection, most=FILLED_BY_SEARCH)
        return await HybridSearch(database.knowledge, leg).find(collection, query, wanted, most=most, vectors=vectors)

    @property
    def embedding_cost(self) -> Usage | None:
        """The cost of all vectors so far; None if they are computed on this machine."""
        return None if self.databases.embedder is None else self.databases.embedder.used

    @property
    def has_vectors(self) -> bool:
        """Whether memories are found by their meaning, too: the extra `memory` is installed."""
        return all(self.databases.leg(scope) is not None for scope, _ in self.databases.all())

    async def index(self, *, again: bool = False, tell: Callable[[int], None] = ignore_count) -> tuple[int, int]:
        """Compute all missing vectors, build index files where they pay off, and return both counts.

        `again` recomputes all vectors. `tell` gets the number computed so far. Raises EmbeddingError.
        """
        filled, files = 0, 0
        for scope, database in self.databases.all():
            if (leg := self.databases.leg(scope)) is None:
                continue
            for each in database.knowledge.collections.all():
                before = filled

                def so_far(count: int, before: int = before) -> None:
                    tell(before + count)

                filled += await compute_vectors(database, leg, each.name, most=sys.maxsize, again=again, tell=so_far)
                model = "" if each.has_given_vectors else leg.embedder.model
                files += leg.vectors.make_index(each.name, model)
        return filled, files

    def rivals(self, memory: Memory, *, everywhere: bool = False) -> tuple[Memory, ...]:
        """Return memories that seem to contradict this one; `everywhere` as in `find`."""
        if memory.chunk.state == "superseded":
            return ()
        alike: list[Memory] = []
        for scope, database in self.databases.all():
            chunks = database.knowledge.chunks
            wanted = VALID if everywhere else self.databases.told(scope)
            numbers = chunks.search(MEMORIES, search_terms(memory.chunk.text), wanted, most=COMPARED)
            alike += (Memory(chunk, scope) for chunk in chunks.with_numbers(numbers))
        return contradictions(memory, alike)

    def states(self) -> tuple[IndexState, ...]:
        """Return how full each collection is."""
        return tuple(
            IndexState(
                scope=scope,
                collection=collection,
                chunks=knowledge.chunks.count(collection.name),
                vectors=knowledge.embeddings.count(collection.name),
                by_state=knowledge.chunks.counts_by_state(collection.name),
            )
            for scope, database in self.databases.all()
            for knowledge in (database.knowledge,)
            for collection in knowledge.collections.all()
        )

    def _add_memory(self, content: str, source: str, scope: MemoryScope, kind: MemoryType) -> Memory:
        database, now = self.databases.get(scope), self._clock.now()
        knowledge = database.knowledge
        chunk = Chunk(
            id=ChunkId(new_id()),
            collection=MEMORIES,
            text=content,
            sha256=fingerprint(content),
            source=source,
            meta={"type": kind} if source == USER else {"type": kind, **self.databases.noted(scope)},
            state="active" if source == USER else "unconfirmed",
            valid_from=now,
            created_at=now,
        )
        with database.transaction(durable=True):
            if knowledge.is_full(MEMORIES):
                most = knowledge.chunks.count(MEMORIES)
                raise UsageError(f"the limit of {most:,} memories is reached", "Forget some of them first.")
            (stored,) = knowledge.chunks.add([chunk])
        return Memory(stored, scope)

    def _find_same(self, content: str) -> Memory | None:
        """Return the memory that says the same, but for white space and the end of the sentence."""
        for scope, database in self.databases.all():
            for chunk in database.knowledge.chunks.same(MEMORIES, fingerprint(content)):
                if chunk.state != "superseded":  # a replaced text may be remembered again
                    return Memory(chunk, scope)
        return None


def find_memory(memories: Memories, name: str) -> Memory:
    """Return the memory whose id starts with `name`; UsageError if none does, or several do."""
    plain = utf8_safe(name.strip()).replace("\0", "")
    found = memories.by_prefix(plain) if plain else ()
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(
            f"{quoted(name)} is the start of several memories", f"Say which: {quoted_list([e.id for e in found])}."
        )
    # Both have ids of one kind, and lists of both are shown side by side.
    if plain and memories.by_prefix(plain, LEARNINGS):
        raise UsageError(f"{quoted(name)} is a learning, not a memory", f"`scaffold learn show {plain}` shows it.")
    raise UsageError(f"there is no memory {quoted(name)}", "`memory list` shows their ids.")
