"""How long a search takes from the question to the memories, and what an index finds of what exact search does."""

import asyncio
import statistics
import time
from collections.abc import Callable
from contextlib import closing
from itertools import islice, product

import numpy as np

from knowledge.filled import clustered, opened, stored
from knowledge.question_set import SETS, Text, read_set
from knowledge.texts import documentation
from scaffold.memory.embedders.vector_bytes import unpacked
from scaffold.memory.memories import Memories, MemoryDatabases
from scaffold.memory.vectors.exact import nearest
from scaffold.memory.vectors.index_file import IndexFile, IndexHeader, built
from scaffold.policy.secret.redaction import Redactor
from scaffold.store.database import Store
from support.fake_clock import FakeClock

FIRST, ASKED = 10, 200
LEGS = 50
"""Results that a search asks of each leg."""


def milliseconds(count: int, *, rounds: int) -> tuple[float, float]:
    """Return the medians of a search in so many memories, for which a chat opens the database, and of embedding."""
    texts = _texts(count)
    queries = [each.query for each in read_set(SETS / "faq.jsonl").questions]
    with opened(texts) as filled:
        filled.fill(stored(clustered(count)))
        path = filled.folder / "state.db"

        def search(query: str) -> None:
            with closing(Store.open(path, clock=FakeClock())) as store:
                databases = MemoryDatabases(store, None, filled.folder / "cache")
                memories = Memories(databases, clock=FakeClock(), redactor=Redactor())
                asyncio.run(memories.find(query, most=FIRST))

        def embed(query: str) -> None:
            asyncio.run(filled.leg.embedder.embed([query]))  # type: ignore[arg-type]

        search(queries[0])
        taken = [(_ms(search, query), _ms(embed, query)) for query in islice(queries, 1, 1 + rounds)]
    whole, part = zip(*taken, strict=True)
    return statistics.median(whole), statistics.median(part)


def hnsw_recall(count: int) -> tuple[float, float]:
    """Return which share of the nearest vectors an index finds: of all, and of one in a hundred.

    The vectors are those of real texts by the model; in quick runs ones around centres.
    """
    rows = _real(count + ASKED) if count > 1_000 else clustered(count + ASKED)
    vectors, chunks = rows[ASKED:], np.arange(1, len(rows) - ASKED + 1)
    header = IndexHeader(seq=1, count=len(vectors), model="", dimension=rows.shape[1], sha256="")
    index = IndexFile(header, built(rows.shape[1], chunks, vectors))
    few = np.random.default_rng(1).choice(chunks, max(len(chunks) // 100, FIRST), replace=False)
    rows_of_few = vectors[few - 1]
    among = {int(each) for each in few}
    found, wanted = [0, 0], [0, 0]
    for query in stored(rows[:ASKED]):
        asked = unpacked([query])
        for place, (matrix, numbers, only) in enumerate(((vectors, chunks, None), (rows_of_few, few, among))):
            exact = {number for number, _ in nearest(asked, matrix, numbers, FIRST)}
            got = index.search(query, most=LEGS, among=only, without=())[:FIRST]
            found[place] += len(exact & {number for number, _ in got})
            wanted[place] += len(exact)
    return found[0] / wanted[0], found[1] / wanted[1]


def _real(count: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    texts = [Text(str(number), text) for number, text in enumerate(documentation(count))]
    with opened(texts) as filled:
        return unpacked(filled.embedded())


def _texts(count: int) -> list[Text]:
    """Return so many different texts of a sentence or two."""
    paragraphs = documentation(min(count, 2_000))
    pairs = product(range(count // len(paragraphs) + 1), enumerate(paragraphs))
    chosen = islice(pairs, count)
    return [
        Text(f"t{number}", text if not turn else f"{text} {paragraphs[(place + 7 * turn) % len(paragraphs)]}")
        for number, (turn, (place, text)) in enumerate(chosen)
    ]


def _ms(work: Callable[[str], None], query: str) -> float:
    start = time.perf_counter()
    work(query)
    return (time.perf_counter() - start) * 1000
