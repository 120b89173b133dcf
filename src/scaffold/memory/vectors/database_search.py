"""The vector searches of one database."""

from collections.abc import Collection
from pathlib import Path
from threading import Lock

from msgspec import Struct

from scaffold.core.knowledge import Collection as KnowledgeCollection
from scaffold.core.knowledge import CollectionName
from scaffold.memory.vectors.exact import KEPT_MOST, Nearest, VectorTable, joined, nearest_stored
from scaffold.memory.vectors.index_file import EXACT_UNTIL, IndexFile, IndexFolder, is_stale
from scaffold.memory.vectors.memory_cache import Key, kept
from scaffold.store.knowledge.changes import Moment
from scaffold.store.knowledge.chunk_vectors import Embeddings
from scaffold.store.knowledge.server_vectors import ServerVectors
from scaffold.store.knowledge.tables import KnowledgeTables

NEVER = Moment(-1, "")


class VectorSearch:
    """The vectors of one collection, which stay in memory when its database is closed.

    Each use reads the changes since the last one. It reads everything again if the database was replaced, e.g. by a
    backup, or if its index file was changed or deleted, e.g. because something was forgotten.
    """

    def __init__(self, collection: KnowledgeCollection, folder: IndexFolder, *, most_kept: int = KEPT_MOST) -> None:
        """`most_kept`: a collection with more vectors is read for each search."""
        self._collection = collection
        self._folder = folder
        self._most_kept = most_kept
        self._lock = Lock()
        self._seen = NEVER
        self._count = 0
        self._index: IndexFile | None = None
        self._version: object = None
        """Of the index file that was opened, or was not fit to be."""
        self._table = VectorTable(collection.name)

    def __len__(self) -> int:
        """How many vectors are in memory."""
        return len(self._table) + (0 if self._index is None else self._index.header.count)

    def needs_index(self, embeddings: Embeddings) -> bool:
        """Return whether a new index would make it faster."""
        with self._lock:
            return self._read_changes(embeddings) and is_stale(
                self._index, self._table, exact_until=self._folder.exact_until
            )

    def make_index(self, embeddings: Embeddings) -> bool:
        """Make a new index; return False if another process makes one."""
        return self._folder.make(self._collection, embeddings)

    def search(
        self, embeddings: Embeddings, query: bytes, *, most: int, among: Collection[int] | None = None
    ) -> Nearest:
        """Return the nearest chunks with their cosines, the nearest first; `among`: only those."""
        with self._lock:
            if not self._read_changes(embeddings):
                return nearest_stored(embeddings, self._collection.name, query, most=most, among=among)
            new = self._table.search(query, most=most, among=among)
            if self._index is None:
                return new
            old = self._index.search(query, most=most, among=among, without=self._table.removed)
            return joined(old, new, most)

    def clear(self) -> None:
        """Let go of all vectors: the next use reads them anew."""
        with self._lock:
            self._start_anew()

    def _read_changes(self, embeddings: Embeddings) -> bool:
        """Take in what has changed; return False if there are too many vectors to keep them in memory."""
        now = embeddings.moment()
        is_same = self._seen == now or embeddings.has_been(self._seen)
        is_large = self._index is not None or len(self._table) > self._folder.exact_until
        if not is_same or (is_large and self._folder.version(self._collection.name) != self._version):
            self._start_anew()
        if self._seen == now:
            return self._count <= self._most_kept
        self._count = embeddings.count(self._collection.name)
        if self._count > self._most_kept:
            self._start_anew()
        else:
            if self._seen == NEVER and self._count > self._folder.exact_until:
                self._version = self._folder.version(self._collection.name)
                self._index = self._folder.open(self._collection, embeddings)
                if self._index is not None:
                    self._table = VectorTable(self._collection.name, after=self._index.header.seq)
            self._table.refresh(embeddings, now)
        self._seen = now
        return self._count <= self._most_kept

    def _start_anew(self) -> None:
        self._table.clear()
        self._table, self._index, self._seen = VectorTable(self._collection.name), None, NEVER


class OpenVectorSearch(Struct, frozen=True):
    """The vectors of one collection of an open database. Implements `vector_port.NearestChunks`."""

    vectors: VectorSearch
    embeddings: Embeddings

    def search(self, query: bytes, *, most: int, among: Collection[int] | None = None) -> Nearest:
        """Return the nearest chunks with their cosines, the nearest first; `among`: only those."""
        return self.vectors.search(self.embeddings, query, most=most, among=among)


class ServerSearch(Struct, frozen=True):
    """The vectors of one collection, compared by the server that has them. Implements `vector_port.NearestChunks`."""

    collection: KnowledgeCollection
    server: ServerVectors

    def search(self, query: bytes, *, most: int, among: Collection[int] | None = None) -> Nearest:
        """Return the nearest chunks with their cosines, the nearest first; `among`: only those."""
        return self.server.search(self.collection.name, self.collection.model, query, most=most, among=among)


class OpenVectorSearches:
    """The vectors of an open database, by collection. Implements `vector_port.VectorSearches`."""

    def __init__(self, knowledge: KnowledgeTables, folder: Path, *, exact_until: int) -> None:
        self._knowledge = knowledge
        self._folder = folder
        self._exact_until = exact_until

    def search_of(self, collection: CollectionName, model: str) -> OpenVectorSearch | ServerSearch | None:
        """Return the vectors of a collection; None if it has none by this model."""
        stored = self._stored_collection(collection, model)
        if stored is None:
            return None
        server = self._knowledge.embeddings.server
        return ServerSearch(stored, server) if server.compares(collection) else self._local_search(stored)

    def _stored_collection(self, collection: CollectionName, model: str) -> KnowledgeCollection | None:
        stored = self._knowledge.collections.get(collection)
        return None if stored is None or stored.model != model or not stored.dimension else stored

    def _local_search(self, stored: KnowledgeCollection) -> OpenVectorSearch:
        # Without the dimension, vectors of a server that has another model now would be taken for the same.
        key = Key(self._knowledge.database, stored.name, f"{stored.model} {stored.dimension}", str(self._folder))
        vectors = kept(key, lambda: VectorSearch(stored, IndexFolder(self._folder, exact_until=self._exact_until)))
        return OpenVectorSearch(vectors, self._knowledge.embeddings)

    def make_index(self, collection: CollectionName, model: str) -> bool:
        """Make a new index of a collection if that makes it faster; return whether one was made."""
        stored = self._stored_collection(collection, model)
        if stored is None:
            return False
        server = self._knowledge.embeddings.server
        if server.is_possible:
            server.complete(collection)
        if server.compares(collection):  # then it has an index of its own
            is_large = self._knowledge.embeddings.count(collection) > self._exact_until
            return is_large and server.make_index(collection, model, stored.dimension)
        search = self._local_search(stored)
        return search.vectors.needs_index(search.embeddings) and search.vectors.make_index(search.embeddings)


def open_searches(knowledge: KnowledgeTables, folder: Path, *, exact_until: int = EXACT_UNTIL) -> OpenVectorSearches:
    """Return the vector searches of a database, whose index files are in `folder`."""
    return OpenVectorSearches(knowledge, folder, exact_until=exact_until)
