"""Which chunks have no vector yet, without looking at all of them for each search."""

from scaffold.core.knowledge import CollectionName
from scaffold.store.knowledge.changes import Moment
from scaffold.store.knowledge.tables import KnowledgeTables

_complete: dict[tuple[str, CollectionName, str], Moment] = {}
"""When no chunk of a collection was without a vector of a model, by database: only what changed since may be."""


def missing_vectors(knowledge: KnowledgeTables, name: CollectionName, model: str, *, most: int) -> tuple[int, ...]:
    """Return the numbers of chunks that have no vector yet, the oldest first, at most so many."""
    now, key = knowledge.embeddings.moment(), (knowledge.database, name, model)
    complete = _complete.get(key)
    if complete == now:
        return ()
    after = complete.number if complete is not None and knowledge.embeddings.has_been(complete) else 0
    found = knowledge.embeddings.missing(name, most=most, after=after)
    if not found:
        _complete[key] = now
    return found
