"""An approximate index (HNSW) of a large collection in a file: a cache, which can be deleted at any time.

The file is never changed in place. What was stored or deleted after it was made is searched exactly beside it, until
a new one is made. A file that does not fit the database, or is not whole, is not used.
"""

import hashlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import numpy as np
import onnxruntime  # noqa: F401 - the process crashes if it is loaded after usearch
from msgspec import Struct
from usearch.index import Index

from scaffold.core.knowledge import Collection as KnowledgeCollection
from scaffold.core.knowledge import CollectionName
from scaffold.host.atomic_files import try_lock, write_atomic
from scaffold.memory.embedders.vector_bytes import Matrix, unpacked
from scaffold.memory.vectors.exact import Nearest, Numbers, VectorTable, nearest
from scaffold.memory.vectors.memory_cache import delete_index, index_path
from scaffold.store.knowledge.changes import Moment
from scaffold.store.knowledge.chunk_vectors import Embeddings

CONNECTIVITY = 16
EXPANSION_ADD = 200
EXPANSION_SEARCH = 128
BUILDING_THREADS = 1
"""With more, some vectors can be reached from no other one and are never found: in 5 to 8 of 3,000 small indices."""
EXACT_UNTIL = 20_000
"""Up to so many vectors, an exact search is fast enough: no index is made, nor asked for smaller selections."""
SPARE = 2
"""How many times the wanted number of neighbours the index is asked for, as some of them are gone or do not fit."""
STALE_SHARE = 0.1
"""The share of vectors stored since, above which a new index is made."""
COMPARED = 64
"""How many of the last vectors are compared with those in the database when a file is opened."""


class IndexHeader(Struct, frozen=True, kw_only=True):
    """What a file contains; written beside it, after it."""

    seq: int
    """The number of the last change that is in it."""
    count: int
    model: str
    dimension: int
    sha256: str
    """Of the file."""
    mark: str = ""
    """Of that change; a database with another mark for its number is not the one that it was."""


class IndexFile:
    """The index of one collection, opened."""

    def __init__(self, header: IndexHeader, index: Index) -> None:
        self.header = header
        self._index = index

    def search(self, query: bytes, *, most: int, among: Collection[int] | None, without: Collection[int]) -> Nearest:
        """Return the nearest chunks among those that fit; exact if these are few."""
        if among is not None and len(among) <= EXACT_UNTIL:
            vectors, kept = self.vectors_of([each for each in among if each not in without])
            return nearest(unpacked([query]), vectors, np.array(kept, dtype=np.int64), most)
        wanted = unpacked([query])
        share = 1.0 if among is None else max(len(among), 1) / max(len(self._index), 1)
        asked = min(len(self._index), int(SPARE * most / share) + len(without))
        if asked <= 0 or wanted.shape[1] != self._index.ndim:
            return ()
        found = self._index.search(wanted[0], asked)
        pairs = ((int(key), 1 - float(distance)) for key, distance in zip(found.keys, found.distances, strict=True))
        fits = [(key, near) for key, near in pairs if key not in without and (among is None or key in among)]
        return tuple(fits[:most])

    def vectors_of(self, chunks: Collection[int]) -> tuple[Matrix, list[int]]:
        """Return the vectors of those chunks that are in the index, with their numbers."""
        kept = [each for each in chunks if each in self._index]
        if not kept:
            return np.zeros((0, self._index.ndim), dtype=np.float32), []
        return np.asarray(self._index.get(np.array(kept, dtype=np.uint64)), dtype=np.float32), kept


class IndexFolder:
    """Where the indices of one database are. Only one process makes them at a time."""

    def __init__(self, folder: Path, *, exact_until: int = EXACT_UNTIL) -> None:
        """`exact_until`: so many vectors are compared without an index."""
        self._folder = folder
        self.exact_until = exact_until

    def version(self, collection: CollectionName) -> object:
        """Return a value that is another one when the index is made again or deleted; None if there is none."""
        try:
            header = self._file_path(collection).with_suffix(".json").stat()
        except OSError:
            return None
        return header.st_ino, header.st_mtime_ns

    def open(self, collection: KnowledgeCollection, embeddings: Embeddings) -> IndexFile | None:
        """Return the collection's index; None if there is none that is whole and fits the database."""
        path = self._file_path(collection.name)
        try:
            header = msgspec.json.decode(path.with_suffix(".json").read_bytes(), type=IndexHeader)
            content = path.read_bytes()
        except (OSError, msgspec.MsgspecError):
            return None
        if (header.model, header.dimension) != (collection.model, collection.dimension):
            return None
        if hashlib.sha256(content).hexdigest() != header.sha256 or header.seq > embeddings.moment().number:
            return None
        index = Index.restore(content, expansion_search=EXPANSION_SEARCH)
        if index is None or not _fits_database(index, header, collection.name, embeddings):
            return None
        return IndexFile(header, index)

    def make(self, collection: KnowledgeCollection, embeddings: Embeddings) -> bool:
        """Write a new index of all vectors; return False if another process does, or if something speaks against it.

        There are too few of them, or some were deleted meanwhile.
        """
        with self._only_writer() as only:
            if not only:
                return False
            now = embeddings.moment()
            table = VectorTable(collection.name)
            table.refresh(embeddings, now)
            if len(table) <= self.exact_until:
                self.delete(collection.name)
                return False
            index = built(collection.dimension, table.chunks, table.vectors)
            try:
                self._write_files(collection, index, now)
            except FileNotFoundError:
                return False  # something was forgotten meanwhile, and the file deleted as it may have it
            # Or it was forgotten before the file was there: the process that forgot it found nothing to delete.
            if embeddings.removed_between(collection.name, now.number, embeddings.moment().number):
                self.delete(collection.name)
                return False
            return True

    def delete(self, collection: CollectionName) -> None:
        """Delete the collection's index: the vectors in it may be of text that was forgotten."""
        delete_index(self._folder, collection)

    def _write_files(self, collection: KnowledgeCollection, index: Index, now: Moment) -> None:
        content = bytes(index.save() or b"")
        header = IndexHeader(
            seq=now.number,
            mark=now.mark,
            count=len(index),
            model=collection.model,
            dimension=collection.dimension,
            sha256=hashlib.sha256(content).hexdigest(),
        )
        path = self._file_path(collection.name)
        # In this order: with a header of another file, or none, the file does not count.
        write_atomic(path, content)
        write_atomic(path.with_suffix(".json"), msgspec.json.encode(header))

    def _file_path(self, collection: CollectionName) -> Path:
        return index_path(self._folder, collection)

    @contextmanager
    def _only_writer(self) -> Iterator[bool]:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (self._folder / "writer.lock").open("w") as lock:
            yield try_lock(lock.fileno())


def built(dimension: int, chunks: Numbers, vectors: Matrix) -> Index:
    """Return a new index of vectors, by the numbers of their chunks."""
    index = Index(
        ndim=dimension,
        metric="cos",
        dtype="f16",
        connectivity=CONNECTIVITY,
        expansion_add=EXPANSION_ADD,
        expansion_search=EXPANSION_SEARCH,
    )
    index.add(chunks.astype(np.uint64), vectors, threads=BUILDING_THREADS)
    return index


def is_stale(index: IndexFile | None, table: VectorTable, *, exact_until: int = EXACT_UNTIL) -> bool:
    """Return whether a new index is worth making; `table` has what is not in the index."""
    if index is None:
        return len(table) > exact_until
    return len(table) + len(table.removed) > STALE_SHARE * index.header.count


def _fits_database(index: Index, header: IndexHeader, collection: CollectionName, embeddings: Embeddings) -> bool:
    # A backup may have been restored since.
    if len(index) != header.count or embeddings.count_at(collection, header.seq) != header.count:
        return False
    if index.ndim != header.dimension:
        return False
    last = embeddings.last_until(collection, header.seq, most=COMPARED)
    for each in last:
        vector, expected = index.get(each.chunk), unpacked([each.vector])[0]
        if vector is None or not np.allclose(np.asarray(vector, dtype=np.float32), expected, atol=1e-3):
            return False
    return True
