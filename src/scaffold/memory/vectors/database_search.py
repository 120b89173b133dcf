"""The vector searches of one database."""

from collections.abc import Collection
from pathlib import Path

from msgspec import Struct

from scaffold.core.knowledge import Collection as KnowledgeCollection
from scaffold.core.knowledge import CollectionName
from scaffold.memory.vectors.exact import Nearest
from scaffold.memory.vectors.index_file import EXACT_UNTIL, IndexFolder
from scaffold.memory.vectors.memory_cache import Key, kept
from scaffold.memory.vectors.nearest_chunks import VectorSearch
from scaffold.store.knowledge.chunk_vectors import Embeddings
from scaffold.store.knowledge.server_vectors import ServerVectors
from scaffold.store.knowledge.tables import KnowledgeTables


class OpenVectorSearch(Struct, frozen=True):
    """The vectors of one collection of an open database. Implements `ports.NearestChunks`."""

    vectors: VectorSearch
    embeddings: Embeddings

    def search(self, query: bytes, *, most: int, among: Collection[int] | None = None) -> Nearest:
        """Return the nearest chunks with their cosines, the nearest first; `among`: only those."""
        return self.vectors.search(self.embeddings, query, most=most, among=among)


class ServerSearch(Struct, frozen=True):
    """The vectors of one collection, compared by the server that has them. Implements `ports.NearestChunks`."""

    collection: KnowledgeCollection
    server: ServerVectors

    def search(self, query: bytes, *, most: int, among: Collection[int] | None = None) -> Nearest:
        """Return the nearest chunks with their cosines, the nearest first; `among`: only those."""
        return self.server.search(self.collection.name, self.collection.model, query, most=most, among=among)


class OpenVectorSearches:
    """Implements `ports.VectorSearches`."""

    def __init__(self, knowledge: KnowledgeTables, folder: Path, *, exact_until: int) -> None:
        self._knowledge = knowledge
        self._folder = folder
        self._exact_until = exact_until

    def of(self, collection: CollectionName, model: str) -> OpenVectorSearch | ServerSearch | None:
        """Return the vectors of a collection; None if it has none by this model."""
        stored = self._stored(collection, model)
        if stored is None:
            return None
        server = self._knowledge.embeddings.server
        return ServerSearch(stored, server) if server.compares(collection) else self._here(stored)

    def _stored(self, collection: CollectionName, model: str) -> KnowledgeCollection | None:
        stored = self._knowledge.collections.get(collection)
        return None if stored is None or stored.model != model or not stored.dimension else stored

    def _here(self, stored: KnowledgeCollection) -> OpenVectorSearch:
        key = Key(self._knowledge.database, stored.name, f"{stored.model} {stored.dimension}", str(self._folder))
        vectors = kept(key, lambda: VectorSearch(stored, IndexFolder(self._folder, exact_until=self._exact_until)))
        return OpenVectorSearch(vectors, self._knowledge.embeddings)

    def make_index(self, collection: CollectionName, model: str) -> bool:
        """Make a new index of a collection if that makes it faster; return whether one was made."""
        stored = self._stored(collection, model)
        if stored is None:
            return False
        server = self._knowledge.embeddings.server
        if server.is_possible:
            server.complete(collection)
        if server.compares(collection):
            is_large = self._knowledge.embeddings.count(collection) > self._exact_until
            return is_large and server.make_index(collection, model, stored.dimension)
        search = self._here(stored)
        return search.vectors.needs_index(search.embeddings) and search.vectors.make_index(search.embeddings)


def open_searches(knowledge: KnowledgeTables, folder: Path, *, exact_until: int = EXACT_UNTIL) -> OpenVectorSearches:
    """Return the vector searches of a database, whose index files are in `folder`."""
    return OpenVectorSearches(knowledge, folder, exact_until=exact_until)
