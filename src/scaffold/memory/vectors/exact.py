"""Exact search: the cosine of the query with every vector of a collection, which are kept in memory."""

from collections.abc import Collection, Iterator
from typing import TypeAlias

import numpy as np

from scaffold.core.knowledge import CollectionName
from scaffold.memory.vectors.numbers import Matrix, unpacked
from scaffold.store.knowledge.embeddings import Embeddings, StoredVector

GROWTH = 1.5
"""How much room a matrix has for vectors to come, as a factor."""
PAGE = 4_096
Numbers: TypeAlias = np.ndarray[tuple[int, ...], np.dtype[np.int64]]
Nearest = tuple[tuple[int, float], ...]
"""Numbers of chunks with their cosines, the nearest first."""


class VectorTable:
    """The vectors of one collection that were stored after some change, as of the last refresh.

    Not safe for several threads.
    """

    def __init__(self, collection: CollectionName, *, after: int = 0) -> None:
        self._collection = collection
        self._seen = after
        """The number of the last change that is in the table."""
        self._used = 0
        self._matrix: Matrix = np.zeros((0, 0), dtype=np.float32)
        self._chunks: Numbers = np.zeros(0, dtype=np.int64)
        self.removed: set[int] = set()
        """The chunks whose vectors were deleted or replaced since `after`."""

    def __len__(self) -> int:
        return self._used

    @property
    def chunks(self) -> Numbers:
        """The numbers of the chunks whose vectors are in the table."""
        return self._chunks[: self._used]

    @property
    def vectors(self) -> Matrix:
        """The vectors, in the order of `chunks`."""
        return self._matrix[: self._used]

    def refresh(self, embeddings: Embeddings) -> None:
        """Take in what was stored and deleted since; reads only that."""
        now = embeddings.last_change()
        if now == self._seen:
            return
        removed = embeddings.removed_after(self._collection, self._seen)
        if removed:
            self.removed |= removed
            self._keep(~np.isin(self.chunks, _numbers(removed)))
        for page in _pages(embeddings, self._collection, self._seen):
            self._append(page)
        self._seen = now

    def search(self, query: bytes, *, most: int, among: Collection[int] | None = None) -> Nearest:
        """Return the nearest chunks, at most so many; `among`: only those."""
        vectors, chunks = self.vectors, self.chunks
        if among is not None:
            fits = np.isin(chunks, _numbers(among))
            vectors, chunks = vectors[fits], chunks[fits]
        return nearest(unpacked([query]), vectors, chunks, most)

    def _keep(self, kept: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> None:
        count = int(kept.sum())
        self._matrix[:count] = self._matrix[: self._used][kept]
        self._chunks[:count] = self.chunks[kept]
        self._used = count

    def _append(self, page: list[StoredVector]) -> None:
        vectors = unpacked([each.vector for each in page])
        need, dimension = self._used + len(page), vectors.shape[1]
        if self._matrix.shape[1] != dimension:
            # The collection has another model since: the vectors of the former one have been deleted.
            self._matrix, self._used, need = np.zeros((0, dimension), dtype=np.float32), 0, len(page)
        if need > len(self._matrix):
            room = int(need * GROWTH)
            self._matrix = np.resize(self._matrix, (room, dimension))
            self._chunks = np.resize(self._chunks, room)
        self._matrix[self._used : need] = vectors
        self._chunks[self._used : need] = [each.chunk for each in page]
        self._used = need


def nearest(query: Matrix, vectors: Matrix, chunks: Numbers, most: int) -> Nearest:
    """Return the rows of `vectors` that are nearest to the only row of `query`, by the numbers of their chunks."""
    if not len(chunks) or query.shape[1] != vectors.shape[1] or most <= 0:
        return ()
    cosines = vectors @ query[0]
    count = min(most, len(chunks))
    best = np.argpartition(-cosines, count - 1)[:count]
    best = best[np.lexsort((chunks[best], -cosines[best]))]
    return tuple((int(chunks[place]), float(cosines[place])) for place in best)


def _numbers(values: Collection[int]) -> Numbers:
    return np.fromiter(values, dtype=np.int64, count=len(values))


def _pages(embeddings: Embeddings, collection: CollectionName, after: int) -> Iterator[list[StoredVector]]:
    """Yield the new vectors in lists of one dimension."""
    page: list[StoredVector] = []
    for each in embeddings.after(collection, after):
        if page and (len(page) >= PAGE or len(page[0].vector) != len(each.vector)):
            yield page
            page = []
        page.append(each)
    if page:
        yield page
