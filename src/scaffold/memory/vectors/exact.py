"""Exact search: the cosine of the query with every vector of a collection, which are kept in memory."""

from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import TypeAlias

import numpy as np

from scaffold.core.knowledge import CollectionName
from scaffold.memory.embedders.vector_bytes import STORED, Matrix, unpacked
from scaffold.store.knowledge.changes import Moment
from scaffold.store.knowledge.chunk_vectors import Embeddings, StoredVector

SPARE_ROWS = 1_024
"""How much room a matrix has at least for vectors to come; half as much again as it has, up to MOST_SPARE_ROWS."""
MOST_SPARE_ROWS = 20_000
KEPT_MOST = 200_000
"""So many vectors are kept in memory; those of a larger collection are read for each search."""
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

    def refresh(self, embeddings: Embeddings, now: Moment) -> None:
        """Take in what was stored and deleted up to `now`; reads only that."""
        if now.number == self._seen:
            return
        if self._seen:
            removed = embeddings.removed_between(self._collection, self._seen, now.number)
            self.removed |= set(removed)
            kept = ~np.isin(self.chunks, _number_array(removed))
            count = int(kept.sum())
            if count < self._used:
                self._matrix[:count] = self._matrix[: self._used][kept]
                self._matrix[count : self._used] = 0  # what was forgotten leaves the memory, too
                self._chunks[:count] = self.chunks[kept]
                self._used = count
        else:
            # The first matrix has room for all.
            self._chunks = np.zeros(embeddings.count(self._collection) + SPARE_ROWS, dtype=np.int64)
        for page in embeddings.between(self._collection, self._seen, now.number):
            # In parts of one dimension each: it may change within a page when the model does.
            ends = (n for n in range(1, len(page)) if len(page[n].vector) != len(page[n - 1].vector))
            for start, end in pairwise((0, *ends, len(page))):
                self._append_page(page[start:end])
        self._seen = now.number

    def search(self, query: bytes, *, most: int, among: Collection[int] | None = None) -> Nearest:
        """Return the nearest chunks, at most so many; `among`: only those."""
        vectors, chunks = self.vectors, self.chunks
        if among is not None:
            fits = np.isin(chunks, _number_array(among))
            vectors, chunks = vectors[fits], chunks[fits]
        return nearest(unpacked([query]), vectors, chunks, most)

    def clear(self) -> None:
        """Overwrite all vectors: what was forgotten is not kept in memory either."""
        self._matrix[:] = 0
        self._used = 0

    def _append_page(self, page: Sequence[StoredVector]) -> None:
        vectors = unpacked([each.vector for each in page])
        dimension = vectors.shape[1]
        if self._used and self._matrix.shape[1] != dimension:
            # The collection has another model since: the vectors of the former one have been deleted.
            self.clear()
        need = self._used + len(page)
        if need > len(self._matrix) or self._matrix.shape[1] != dimension:
            # More room than is needed, so that few pages copy the matrix.
            spare = min(max(self._used // 2, SPARE_ROWS), MOST_SPARE_ROWS)
            room = max(need, len(self._chunks)) + spare
            # Not `np.empty`, whose room for later ones may hold vectors that this process had freed.
            matrix, numbers = np.zeros((room, dimension), dtype=np.float32), np.zeros(room, dtype=np.int64)
            if self._used:
                matrix[: self._used], numbers[: self._used] = self.vectors, self.chunks
                self._matrix[:] = 0
            self._matrix, self._chunks = matrix, numbers
        self._matrix[self._used : need] = vectors
        self._chunks[self._used : need] = [each.chunk for each in page]
        self._used = need


def nearest(query: Matrix, vectors: Matrix, chunks: Numbers, most: int) -> Nearest:
    """Return the rows of `vectors` that are nearest to the only row of `query`, by the numbers of their chunks."""
    if not len(chunks) or query.shape[1] != vectors.shape[1] or most <= 0:
        return ()
    # Ten times faster than `@` for one query: BLAS wakes its threads for it.
    cosines = np.einsum("ij,j->i", vectors, query[0])
    count = min(most, len(chunks))
    best = np.argpartition(-cosines, count - 1)[:count]
    best = best[np.lexsort((chunks[best], -cosines[best]))]
    return tuple((int(chunks[place]), float(cosines[place])) for place in best)


def nearest_stored(
    embeddings: Embeddings, collection: CollectionName, query: bytes, *, most: int, among: Collection[int] | None
) -> Nearest:
    """Return the nearest chunks of a collection without keeping its vectors: they are read page by page."""
    wanted = unpacked([query])
    best: Nearest = ()
    only = None if among is None else _number_array(among)
    for page in embeddings.between(collection, 0, embeddings.moment().number):
        chunks = np.fromiter((each.chunk for each in page), dtype=np.int64, count=len(page))
        fits = np.array([len(each.vector) == wanted.shape[1] * STORED.itemsize for each in page])
        if only is not None:
            fits &= np.isin(chunks, only)
        if fits.any():
            vectors = unpacked([each.vector for each, fit in zip(page, fits, strict=True) if fit])
            best = joined(best, nearest(wanted, vectors, chunks[fits], most), most)
    return best


def joined(one: Nearest, other: Nearest, most: int) -> Nearest:
    """Return the nearest of two lists of different chunks."""
    return tuple(sorted((*one, *other), key=lambda pair: (-pair[1], pair[0]))[:most])


def _number_array(values: Collection[int]) -> Numbers:
    return np.fromiter(values, dtype=np.int64, count=len(values))
