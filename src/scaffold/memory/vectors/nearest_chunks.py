"""The nearest chunks of a collection, by its index and by what was stored since."""

from collections.abc import Collection
from threading import Lock

from scaffold.core.knowledge import Collection as KnowledgeCollection
from scaffold.memory.vectors.exact import KEPT_MOST, Nearest, VectorTable, joined, nearest_stored
from scaffold.memory.vectors.index_file import IndexFile, IndexFolder, is_stale
from scaffold.store.knowledge.changes import Moment
from scaffold.store.knowledge.chunk_vectors import Embeddings

NEVER = Moment(-1, "")


class VectorSearch:
    """The vectors of one collection, which stay in memory when its database is closed.

    Each use reads what has changed since the last one; everything anew if the database is not the one that it was,
    as after a backup was restored, or if its index file has changed or gone, as when something is forgotten.
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
            return self._refresh(embeddings) and is_stale(
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
            if not self._refresh(embeddings):
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

    def _refresh(self, embeddings: Embeddings) -> bool:
        """Take in what has changed; return False if there are too many vectors to keep them in memory."""
        now = embeddings.moment()
        is_same = self._seen == now or embeddings.has_been(self._seen)
        if not is_same or self._has_other_file():
            self._start_anew()
        if self._seen == now:
            return self._count <= self._most_kept
        self._count = embeddings.count(self._collection.name)
        if self._count > self._most_kept:
            self._start_anew()
        else:
            if self._seen == NEVER and self._count > self._folder.exact_until:
                self._open_index(embeddings)
            self._table.refresh(embeddings, now)
        self._seen = now
        return self._count <= self._most_kept

    def _has_other_file(self) -> bool:
        is_large = self._index is not None or len(self._table) > self._folder.exact_until
        return is_large and self._folder.version(self._collection.name) != self._version

    def _open_index(self, embeddings: Embeddings) -> None:
        self._version = self._folder.version(self._collection.name)
        self._index = self._folder.open(self._collection, embeddings)
        if self._index is not None:
            self._table = VectorTable(self._collection.name, after=self._index.header.seq)

    def _start_anew(self) -> None:
        self._table.clear()
        self._table, self._index, self._seen = VectorTable(self._collection.name), None, NEVER
