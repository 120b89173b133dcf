"""Search by vector, where the extra `memory` is installed; without it, everything works by words alone."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from scaffold.core.errors import EmbeddingError, StoreError
from scaffold.core.knowledge import Chunk, CollectionName
from scaffold.host.startup import importing
from scaffold.memory.hybrid import VALID, VectorLeg
from scaffold.memory.vector_port import Embedder
from scaffold.store.database import Store
from scaffold.store.knowledge.changes import Moment
from scaffold.store.knowledge.tables import KnowledgeTables
from scaffold.store.user_store import UserStore

_complete: dict[tuple[str, CollectionName, str], Moment] = {}
"""When no chunk of a collection was without a vector of a model, by database: only what changed since may be."""
EXTRA_FIX = "Install the extra: `pip install 'ralph-scaffold[memory]'`."
NUMBER_BYTES = 2
"""Of a number in a stored vector."""
PAGE = 64
"""How many chunks get their vectors in one transaction."""


def ignore_count(_count: int) -> None:
    """Do nothing."""


def vector_leg(knowledge: KnowledgeTables, folder: Path, embedder: Embedder | None = None) -> VectorLeg | None:
    """Return search by vector for a database with its indices in `folder`; None without the extra `memory`.

    Without an `embedder` it is the model of the extra.
    """
    try:
        embedder = embedder or _local_embedder()
        with importing():  # needs libraries of the extra, which take long to load
            from scaffold.memory.vectors.database_search import open_searches
    except ImportError:
        return None
    return VectorLeg(embedder, open_searches(knowledge, folder))


@cache
def _local_embedder() -> Embedder:
    # One for the process, as its model takes long to load.
    with importing():
        from scaffold.memory.embedders.minilm import MiniLM
    return MiniLM()


async def fill_in_vectors(database: Store | UserStore, leg: VectorLeg, name: CollectionName, *, most: int) -> None:
    """Call `compute_vectors`, ignoring its failures: chunks without a vector are found by their words."""
    with suppress(EmbeddingError, StoreError):
        await compute_vectors(database, leg, name, most=most)


async def compute_vectors(
    database: Store | UserStore,
    leg: VectorLeg,
    name: CollectionName,
    *,
    most: int,
    again: bool = False,
    tell: Callable[[int], None] = ignore_count,
) -> int:
    """Embed up to `most` chunks that have no vector, and return how many; safe to kill and to repeat.

    Vectors of another model than the embedder's are recomputed, with `again` all are. `tell` gets the number so far.
    Raises EmbeddingError, and StoreError for a database that cannot be written now; finished pages stay.
    """
    filled = 0
    while filled < most:
        first, room = again and not filled, min(PAGE, most - filled)
        knowledge, model = database.knowledge, leg.embedder.model
        stored = knowledge.collections.get(name)
        if stored is None or stored.has_given_vectors:
            break  # given vectors come from a model that we do not know
        if first or stored.model not in {"", model}:
            chunks = knowledge.chunks.newest(name, most=room, wanted=VALID)
        else:
            chunks = knowledge.chunks.with_numbers(missing_vectors(knowledge, name, model, most=room))
        if not chunks:
            break
        await embed_chunks(database, leg, name, chunks, again=first)
        filled += len(chunks)
        tell(filled)
    return filled


async def embed_chunks(
    database: Store | UserStore, leg: VectorLeg, name: CollectionName, chunks: Sequence[Chunk], *, again: bool = False
) -> None:
    """Embed these chunks of a collection; with `again`, drop all its other vectors. Raises as `compute_vectors`."""
    for start in range(0, len(chunks), PAGE):
        page = chunks[start : start + PAGE]
        vectors = await leg.embedder.embed([each.text for each in page])
        with database.transaction():
            if again and start == 0:
                # Only now: a server that fails leaves the vectors that there are.
                database.knowledge.collections.set_model(name, "", 0)
            model, knowledge, dimension = leg.embedder.model, database.knowledge, len(vectors[0]) // NUMBER_BYTES
            stored = knowledge.collections.get(name)
            if stored is None or stored.has_given_vectors:
                continue  # deleted meanwhile
            if stored.model == model and stored.dimension not in {0, dimension}:
                raise EmbeddingError(
                    f"{model} returned {dimension:,} dimensions, {stored.dimension:,} before",
                    "If its server runs another model now, recompute all vectors: `scaffold memory index --again`.",
                )
            knowledge.collections.set_model(name, model, dimension)
            knowledge.embeddings.put(model, list(zip(page, vectors, strict=True)))


def missing_vectors(knowledge: KnowledgeTables, name: CollectionName, model: str, *, most: int) -> tuple[int, ...]:
    """Return the numbers of up to `most` chunks without a vector, oldest first."""
    now, key = knowledge.embeddings.moment(), (knowledge.database, name, model)
    complete = _complete.get(key)
    if complete == now:
        return ()
    after = complete.number if complete is not None and knowledge.embeddings.has_been(complete) else 0
    found = knowledge.embeddings.missing(name, most=most, after=after)
    if not found:
        _complete[key] = now  # only later changes can lack vectors, so the next search looks at these alone
    return found
