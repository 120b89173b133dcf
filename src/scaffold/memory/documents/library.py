"""The documents of a repository and of its user: stored, listed, searched and deleted."""

import sys
from collections.abc import Sequence

from msgspec import Struct

from scaffold.core.errors import UsageError
from scaffold.core.knowledge import CollectionName, Document
from scaffold.memory.chunk_embedding import fill_in_vectors
from scaffold.memory.documents.source_files import SOURCE
from scaffold.memory.hybrid import FoundChunk, HybridSearch, QueryVectors, fuse
from scaffold.memory.memories import FILLED_BY_SEARCH, MemoryDatabases
from scaffold.memory.notes import MemoryScope
from scaffold.plan.message_text import quoted, quoted_list
from scaffold.store.database import Store
from scaffold.store.user_store import UserStore


class StoredDocument(Struct, frozen=True, kw_only=True):
    """A document, and how much of it can be found."""

    document: Document
    scope: MemoryScope
    chunks: int
    vectors: int


class FoundPassage(Struct, frozen=True):
    """A chunk that fits a query."""

    hit: FoundChunk
    scope: MemoryScope

    @property
    def place(self) -> str:
        """Its document and page, or place in it."""
        chunk = self.hit.chunk
        name = chunk.source.removeprefix(SOURCE)
        return f"{name}:{chunk.span.page}" if chunk.span.page else name


EMBEDDED = 0.9
"""The share of chunks with a vector from which vectors are searched: those that have one yet would win by that."""


class DocumentLibrary:
    """The documents of both databases."""

    def __init__(self, databases: MemoryDatabases) -> None:
        self.databases = databases

    @property
    def usual_scope(self) -> MemoryScope:
        """Where documents are stored unless the user says."""
        return "user" if self.databases.project is None else "project"

    async def fill(self, scope: MemoryScope, index: CollectionName, *, most: int = sys.maxsize) -> int:
        """Compute vectors that are missing, at most so many, and return how many; 0 without the extra `memory`."""
        database, leg = self.database(scope), self.databases.leg(scope)
        if leg is None:
            return 0
        before = database.knowledge.embeddings.count(index)
        await fill_in_vectors(database, leg, index, most=most)
        return database.knowledge.embeddings.count(index) - before

    def has_vectors(self, scope: MemoryScope) -> bool:
        """Whether documents are found by their meaning, too: the extra `memory` is installed."""
        return self.databases.leg(scope) is not None

    async def find(self, index: CollectionName, query: str, *, most: int) -> Sequence[FoundPassage]:
        """Return the chunks of an index that fit a query best, the best first."""
        found: dict[str, FoundPassage] = {}
        rankings, vectors = [], QueryVectors(query)
        for scope, database in self.databases.all():
            if (leg := self.databases.leg(scope)) is not None:
                await fill_in_vectors(database, leg, index, most=FILLED_BY_SEARCH)
            stored = database.knowledge
            # Else those without a vector would be found too seldom.
            fair = leg if stored.embeddings.count(index) >= EMBEDDED * stored.chunks.count(index) else None
            hits = await HybridSearch(database.knowledge, fair).find(index, query, most=most, vectors=vectors)
            found |= {hit.chunk.id: FoundPassage(hit, scope) for hit in hits}
            rankings.append([hit.chunk.id for hit in hits])
        return [found[each] for each in fuse(*rankings)[:most]]

    def all(self, index: CollectionName | None = None) -> list[StoredDocument]:
        """Return the documents of an index, or of all, by their names."""
        return [
            self._stored_document(scope, document)
            for scope, database in self.databases.all()
            for document in database.knowledge.documents.all(index)
        ]

    def named(self, name: str) -> StoredDocument:
        """Return the document with this name, or whose id starts so; UsageError if it is none, or several."""
        known = [
            (scope, each) for scope, database in self.databases.all() for each in database.knowledge.documents.all()
        ]
        exact = [(scope, each) for scope, each in known if name in {each.name, each.id}]
        found = exact or [(scope, each) for scope, each in known if name and each.id.startswith(name)]
        if len(found) == 1:
            return self._stored_document(*found[0])
        if found:
            ids = quoted_list([document.id for _, document in found])
            raise UsageError(f"{quoted(name)} is the name of several documents", f"Say which: {ids}.")
        raise UsageError(f"there is no document {quoted(name)}", "`memory documents` shows them.")

    def forget(self, stored: StoredDocument) -> bool:
        """Delete a document with its text, words and vectors; False if another process keeps old text in the log."""
        database, document = self.database(stored.scope), stored.document
        with database.transaction(durable=True):
            database.knowledge.documents.forget_for_good(document.id)
        return self.databases.wipe([stored.scope], document.collection)

    def indices(self) -> frozenset[str]:
        """Return the names of all indices."""
        return frozenset(
            each.name for _, database in self.databases.all() for each in database.knowledge.collections.all()
        )

    def database(self, scope: MemoryScope) -> Store | UserStore:
        """Return a database; UsageError if there is none."""
        return self.databases.get(scope, "document")

    def _stored_document(self, scope: MemoryScope, document: Document) -> StoredDocument:
        documents = self.database(scope).knowledge.documents
        chunks, vectors = documents.chunks(document.id), documents.vectors(document.id)
        return StoredDocument(document=document, scope=scope, chunks=chunks, vectors=vectors)
