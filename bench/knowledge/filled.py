"""A database with chunks and their vectors, and the searches in it."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from knowledge.question_set import Text
from scaffold.core.knowledge import MEMORIES, Chunk, ChunkId
from scaffold.memory.chunk_embedding import vector_leg
from scaffold.memory.embedders.vector_bytes import Matrix, packed
from scaffold.memory.hybrid import VectorLeg
from scaffold.store.database import Store
from support.fake_clock import FakeClock

HERE = MEMORIES
BATCH = 1_000


class Filled:
    """The texts in a database, with vectors: by the model, or given ones."""

    def __init__(self, store: Store, leg: VectorLeg, texts: Sequence[Text], folder: Path) -> None:
        self.store = store
        self.folder = folder
        self.leg = leg
        self._texts = texts

    def fill(self, vectors: Sequence[bytes]) -> None:
        """Store all texts, with these vectors."""
        knowledge, model = self.store.knowledge, self.leg.embedder.model
        for start in range(0, len(self._texts), BATCH):
            part = self._texts[start : start + BATCH]
            with self.store.transaction():
                knowledge.collections.ensure(HERE)
                chunks = knowledge.chunks.add([_chunk(each) for each in part])
                knowledge.collections.set_model(HERE, model, len(vectors[0]) // 2)
                found = zip(chunks, vectors[start : start + len(part)], strict=True)
                knowledge.embeddings.put(model, list(found))

    def embedded(self) -> Sequence[bytes]:
        """Return the vectors of the texts by the model."""
        return asyncio.run(_embed(self.leg, [each.text for each in self._texts]))


@contextmanager
def opened(texts: Sequence[Text]) -> Iterator[Filled]:
    """Yield an empty database for the texts."""
    with (
        TemporaryDirectory(prefix="scaffold-bench-") as folder,
        closing(Store.open(Path(folder) / "state.db", clock=FakeClock())) as store,
    ):
        leg = vector_leg(store.knowledge, Path(folder) / "cache")
        if leg is None:
            raise RuntimeError("the extra `memory` is not installed")
        yield Filled(store, leg, texts, Path(folder))


def clustered(count: int, *, dimension: int = 384, seed: int = 1) -> Matrix:
    """Return vectors of length 1 around centres, as those of texts are around subjects."""
    random = np.random.default_rng(seed)
    centres = random.standard_normal((max(count // 100, 1), dimension)).astype(np.float32)
    rows = centres[random.integers(0, len(centres), count)]
    rows += 0.6 * random.standard_normal(rows.shape).astype(np.float32)
    found: Matrix = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return found


def stored(rows: Matrix) -> list[bytes]:
    """Return vectors as they are stored."""
    return packed(rows)


async def _embed(leg: VectorLeg, texts: Sequence[str]) -> Sequence[bytes]:
    return await leg.embedder.embed(texts)


def _chunk(text: Text) -> Chunk:
    now = FakeClock().now()
    return Chunk(
        id=ChunkId(text.id),
        collection=HERE,
        text=text.text,
        title=text.title,
        sha256=text.id,
        valid_from=now,
        created_at=now,
    )
