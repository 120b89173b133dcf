"""What search needs of vectors, so that it works without the libraries that compare them."""

from collections.abc import Collection, Sequence
from typing import Protocol

from scaffold.core.errors import EmbeddingError
from scaffold.core.knowledge import CollectionName
from scaffold.core.model import Usage


class NearestChunks(Protocol):
    """The vectors of one collection."""

    def search(self, query: bytes, *, most: int, among: Collection[int] | None = None) -> tuple[tuple[int, float], ...]:
        """Return the numbers of the nearest chunks with their cosines, the nearest first; `among`: only those."""


class VectorSearches(Protocol):
    """The vectors of a database, by collection."""

    def search_of(self, collection: CollectionName, model: str) -> NearestChunks | None:
        """Return the vectors of a collection; None if it has none by this model."""

    def make_index(self, collection: CollectionName, model: str) -> bool:
        """Make a new index of a collection if that makes it faster; return whether one was made."""


class Embedder(Protocol):
    """A model that turns texts into vectors of one dimension."""

    @property
    def model(self) -> str:
        """The model's name: vectors of different models do not compare."""

    @property
    def dimension(self) -> int:
        """How many numbers its vectors have; 0 if that is known only from the first one."""

    @property
    def used(self) -> Usage | None:
        """What was paid for by now; None for a model that runs in this process."""

    @property
    def trouble(self) -> EmbeddingError | None:
        """Why the last texts have no vectors; None if they have, or if that is never said."""

    async def embed(self, texts: Sequence[str]) -> Sequence[bytes]:
        """Return the vector of each text: half-precision numbers, scaled to length 1. Raises EmbeddingError."""
