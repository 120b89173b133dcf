"""The nearest chunks of a collection, by its index and by what was stored since."""

from collections.abc import Collection

from scaffold.core.knowledge import Collection as KnowledgeCollection
from scaffold.memory.vectors.exact import Nearest, VectorTable
from scaffold.memory.vectors.index_file import EXACT_UNTIL, IndexFile, IndexFolder, is_stale
from scaffold.store.knowledge.embeddings import Embeddings


class VectorSearch:
    """The vectors of one collection, kept up to date. Not safe for several threads."""

    def __init__(self, collection: KnowledgeCollection, embeddings: Embeddings, folder: IndexFolder) -> None:
        self._collection = collection
        self._embeddings = embeddings
        self._folder = folder
        self._index: IndexFile | None = None
        self._table = VectorTable(collection.name)
        self._open()

    @property
    def needs_index(self) -> bool:
        """Whether a new index would make it faster."""
        return is_stale(self._index, self._table)

    def make_index(self) -> bool:
        """Make a new index and use it; return False if another process makes one."""
        made = self._folder.make(self._collection, self._embeddings)
        if made:
            self._open()
        return made

    def search(self, query: bytes, *, most: int, among: Collection[int] | None = None) -> Nearest:
        """Return the nearest chunks with their cosines, the nearest first; `among`: only those."""
        self._table.refresh(self._embeddings)
        new = self._table.search(query, most=most, among=among)
        if self._index is None:
            return new
        old = self._index.search(query, most=most, among=among, without=self._table.removed)
        return tuple(sorted((*old, *new), key=lambda pair: (-pair[1], pair[0]))[:most])

    def _open(self) -> None:
        large = self._embeddings.count(self._collection.name) > EXACT_UNTIL
        self._index = self._folder.open(self._collection, self._embeddings) if large else None
        self._table = VectorTable(self._collection.name, after=self._index.header.seq if self._index else 0)
        self._table.refresh(self._embeddings)
