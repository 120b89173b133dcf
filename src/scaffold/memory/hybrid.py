"""Search of one collection by words and by vector at once; by words alone where there is no embedder."""

import re
import unicodedata
from collections.abc import Sequence
from itertools import pairwise
from typing import TypeVar

from msgspec import Struct

from scaffold.core.errors import EmbeddingError
from scaffold.core.knowledge import Chunk, ChunkFilter, CollectionName
from scaffold.memory.vector_port import Embedder, VectorSearches
from scaffold.plan.learning.words import terms_of, words_of
from scaffold.store.knowledge.tables import KnowledgeTables

MOST_WORDS = 80
MOST_PARTS = 24
MAX_CHARS = 4_000
"""What is read of a query: the beginning of a long message says what it is about."""
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\ua000-\ua4cf\uac00-\ud7af\U00020000-\U0003ffff]+"
)
"""Thai, Lao, Burmese, Khmer, Japanese, Chinese, Yi, and Korean, whose words have endings."""
_TATWEEL = "\u0640"
"""It makes an Arabic word longer, and is no part of it."""
Item = TypeVar("Item")
K = 10
"""How little the first places count more than later ones."""
VALID = ChunkFilter()
"""Only chunks that count have vectors, so this filter leaves none of these out."""
LEAST_COSINE = 0.15
"""Texts that are farther from the query have nothing to do with it."""
LEAST_WEIGHT = 0.2
"""How much a place among those found by words counts at least, beside one among those found by their vectors."""
LEG_RESULTS = 50
"""How many results of each leg are joined at least."""
LEG_FACTOR = 3
"""How many times the wanted results each leg finds, where that is more."""


class FoundChunk(Struct, frozen=True):
    """A chunk that was found."""

    chunk: Chunk
    cosine: float | None = None
    """How near its vector is to that of the query, from -1 to 1; None if it was not found by its vector."""
    by_words: bool = False
    """Whether it has one of the words of the query, or a part of one in a script without spaces."""


class VectorLeg(Struct, frozen=True):
    """What search by vector needs."""

    embedder: Embedder
    vectors: VectorSearches


class QueryVectors:
    """The vectors of one query; each model is asked once, however many databases are searched."""

    def __init__(self, query: str) -> None:
        self._query = query
        self._by_model: dict[str, bytes] = {}
        self.failure: EmbeddingError | None = None
        """Why the query has no vector; then it is looked for by its words alone."""

    async def by(self, embedder: Embedder) -> bytes:
        """Return the query's vector. Raises EmbeddingError."""
        if embedder.model not in self._by_model:
            (self._by_model[embedder.model],) = await embedder.embed([self._query])
        return self._by_model[embedder.model]


class HybridSearch:
    """Searches the collections of one database."""

    def __init__(self, knowledge: KnowledgeTables, leg: VectorLeg | None = None) -> None:
        """Without vectors, only words are searched."""
        self._knowledge = knowledge
        self._leg = leg

    async def find(
        self,
        collection: CollectionName,
        query: str,
        wanted: ChunkFilter = VALID,
        *,
        most: int = 10,
        vectors: QueryVectors | None = None,
    ) -> Sequence[FoundChunk]:
        """Return the chunks that fit the query best, the best first.

        Each leg ranks by itself, and the places are joined. If the embedder fails, words are searched alone.
        """
        depth = max(LEG_RESULTS, LEG_FACTOR * most)
        chunks = self._knowledge.chunks
        words = chunks.search(collection, search_terms(query), wanted, most=depth)
        parts = chunks.containing(collection, search_parts(query), wanted, most=depth)
        nearest = await self._nearest_chunks(collection, vectors or QueryVectors(query), wanted, depth)
        cosines = {number: cosine for number, cosine in nearest if cosine >= LEAST_COSINE}
        best = self._rank_chunks(query, words, parts, tuple(cosines))[:most]
        by_words = frozenset((*words, *parts))
        return [FoundChunk(chunk, cosines.get(chunk.seq), chunk.seq in by_words) for chunk in chunks.with_numbers(best)]

    def by_words(
        self, collection: CollectionName, query: str, wanted: ChunkFilter = VALID, *, most: int = 10
    ) -> Sequence[FoundChunk]:
        """Return what `find` returns without vectors, at once: for those that must not load a model."""
        depth, chunks = max(LEG_RESULTS, LEG_FACTOR * most), self._knowledge.chunks
        words = chunks.search(collection, search_terms(query), wanted, most=depth)
        parts = chunks.containing(collection, search_parts(query), wanted, most=depth)
        return [FoundChunk(chunk, by_words=True) for chunk in chunks.with_numbers(fuse(words, parts)[:most])]

    def _rank_chunks(
        self, query: str, words: Sequence[int], parts: Sequence[int], near: Sequence[int]
    ) -> Sequence[int]:
        # A chunk with few of the query's words counts less by them.
        if not near:
            return fuse(words, parts)
        stems = words_of(query[:MAX_CHARS])
        found = {
            each.seq: f"{each.title} {each.text}".casefold() for each in self._knowledge.chunks.with_numbers(words)
        }
        shares = {seq: sum(stem in text for stem in stems) / max(len(stems), 1) for seq, text in found.items()}
        weights = {seq: max(share, LEAST_WEIGHT) for seq, share in shares.items()}
        return fuse_weighted(
            [(each, weights.get(each, LEAST_WEIGHT)) for each in words],
            [(each, 1.0) for each in parts],
            [(each, 1.0) for each in near],
        )

    async def _nearest_chunks(
        self, collection: CollectionName, query: QueryVectors, wanted: ChunkFilter, most: int
    ) -> Sequence[tuple[int, float]]:
        if self._leg is None:
            return ()
        vectors = self._leg.vectors.search_of(collection, self._leg.embedder.model)
        if vectors is None and not self._knowledge.chunks.count(collection):
            return ()
        try:
            # Also where there are no vectors, as the model may be the reason for that.
            vector = await query.by(self._leg.embedder)
        except EmbeddingError as error:
            query.failure = error
            return ()
        if vectors is None:
            return ()
        among = None if wanted == VALID else self._knowledge.chunks.numbers(collection, wanted)
        return vectors.search(vector, most=most, among=among)


def fuse_weighted(*rankings: Sequence[tuple[Item, float]], k: int = K) -> tuple[Item, ...]:
    """Return the items of all rankings, the best first: each place counts weight / (k + place)."""
    scores: dict[Item, float] = {}
    for ranking in rankings:
        for place, (item, weight) in enumerate(ranking, start=1):
            scores[item] = scores.get(item, 0.0) + weight / (k + place)
    return tuple(sorted(scores, key=lambda item: -scores[item]))


def fuse(*rankings: Sequence[Item], k: int = K) -> tuple[Item, ...]:
    """Return the items of all rankings, the best first: each place counts 1 / (k + place).

    Of equal ones, the one that the earlier ranking has first. Source: Cormack, Clarke and Buettcher, SIGIR 2009.
    """
    return fuse_weighted(*([(item, 1.0) for item in dict.fromkeys(ranking)] for ranking in rankings), k=k)


def search_terms(text: str) -> Sequence[str]:
    """Return the words of a query, without those that say nothing."""
    start = f"{_normalized_start(text)} {_fold_letters(text)}"
    # Full-text search keeps letters such as `ß` that `casefold` replaces.
    lowered = (word for word in re.findall(r"[^\W_]+", start.lower()) if word != word.casefold())
    return tuple(dict.fromkeys((*terms_of(start), *lowered)))[:MOST_WORDS]


def search_parts(text: str) -> Sequence[str]:
    """Return pairs of characters of a query in scripts without spaces; a single character, or a symbol, by itself."""
    start = _normalized_start(text)
    runs = _UNSPACED.findall(start) + _UNSPACED.findall(_fold_letters(text))
    pairs = (one + other for run in runs for one, other in pairwise(run))
    symbols = (each for each in start if unicodedata.category(each) == "So")
    return tuple(dict.fromkeys((*pairs, *(run for run in runs if len(run) == 1), *symbols)))[:MOST_PARTS]


def _normalized_start(text: str) -> str:
    return unicodedata.normalize("NFC", text[:MAX_CHARS])


def _fold_letters(text: str) -> str:
    # Of full or half width, in ligatures, drawn out: letters in their usual form.
    return unicodedata.normalize("NFKC", text[:MAX_CHARS]).replace(_TATWEEL, "")
