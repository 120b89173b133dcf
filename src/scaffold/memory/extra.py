"""Search by vector, where the extra `memory` is installed; without it, everything works by words alone."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from scaffold.core.errors import EmbeddingError, StoreError
from scaffold.core.knowledge import CollectionName
from scaffold.host.startup import lazy_import
from scaffold.memory.hybrid import VectorLeg
from scaffold.memory.ports import Embedder
from scaffold.store.database import Store
from scaffold.store.knowledge.tables import KnowledgeTables
from scaffold.store.user_store import UserStore

MINILM = "scaffold.memory.embedders.minilm:MiniLM"
SEARCHES = "scaffold.memory.vectors.searches:open_searches"
"""Both need libraries of the extra, which take long to load."""
PAGE = 64
"""How many chunks get their vectors in one transaction."""


def vector_leg(knowledge: KnowledgeTables, folder: Path) -> VectorLeg | None:
    """Return search by vector for a database with its indices in `folder`; None without the extra `memory`."""
    try:
        embedder = _embedder()
        open_searches: Callable[..., Any] = lazy_import(SEARCHES)
    except ImportError:
        return None
    return VectorLeg(embedder, open_searches(knowledge, folder))


@cache
def _embedder() -> Embedder:
    """Return the one model of this process, which takes long to load."""
    embedder: Embedder = lazy_import(MINILM)()
    return embedder


async def fill_in_vectors(database: Store | UserStore, leg: VectorLeg, name: CollectionName, *, most: int) -> int:
    """Give at most so many chunks without a vector theirs, and return how many got one; safe to kill and to repeat."""
    filled, knowledge = 0, database.knowledge
    while filled < most:
        chunks = knowledge.chunks.with_numbers(knowledge.embeddings.missing(name, most=min(PAGE, most - filled)))
        if not chunks:
            break
        try:
            vectors = await leg.embedder.embed([each.text for each in chunks])
            with database.transaction():
                knowledge.collections.set_model(name, leg.embedder.model, leg.embedder.dimension)
                knowledge.embeddings.put(leg.embedder.model, list(zip(chunks, vectors, strict=True)))
        except (EmbeddingError, StoreError):
            break  # they are found by their words, also in a database that cannot be written now
        filled += len(chunks)
    return filled
