"""The vector searches of one database, opened when they are first used."""

from pathlib import Path

from scaffold.core.knowledge import CollectionName
from scaffold.memory.vectors.index_file import IndexFolder
from scaffold.memory.vectors.search import VectorSearch
from scaffold.store.knowledge.tables import KnowledgeTables


class OpenVectorSearches:
    """Implements `ports.VectorSearches`."""

    def __init__(self, knowledge: KnowledgeTables, folder: IndexFolder) -> None:
        self._knowledge = knowledge
        self._folder = folder
        self._open: dict[CollectionName, tuple[str, VectorSearch]] = {}

    def of(self, collection: CollectionName, model: str) -> VectorSearch | None:
        """Return the vectors of a collection; None if it has none by this model."""
        stored = self._knowledge.collections.get(collection)
        if stored is None or stored.model != model or not stored.dimension:
            self._open.pop(collection, None)
            return None
        opened = self._open.get(collection)
        if opened is None or opened[0] != model:
            opened = (model, VectorSearch(stored, self._knowledge.embeddings, self._folder))
            self._open[collection] = opened
        return opened[1]

    def make_index(self, collection: CollectionName, model: str) -> bool:
        """Make a new index of a collection if that makes it faster; return whether one was made."""
        search = self.of(collection, model)
        if search is None or not search.needs_index:
            return False
        return search.make_index()


def open_searches(knowledge: KnowledgeTables, folder: Path) -> OpenVectorSearches:
    """Return the vector searches of a database, whose index files are in `folder`."""
    return OpenVectorSearches(knowledge, IndexFolder(folder))
