"""The learnings of a repository and of its user, looked at together."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path

from msgspec import Struct

from scaffold.core.errors import StoreError, UsageError
from scaffold.core.knowledge import LEARNINGS, ChunkFilter, ChunkId
from scaffold.core.learning import Learning, LearningUse
from scaffold.host.user_dirs import user_dirs
from scaffold.memory.chunk_embedding import fill_in_vectors, vector_leg
from scaffold.memory.hybrid import FoundChunk, HybridSearch, QueryVectors, VectorLeg
from scaffold.memory.vectors.memory_cache import delete_index, index_folder, let_go
from scaffold.plan.learning.evidence import Score, scores_of
from scaffold.plan.learning.matching import Situation
from scaffold.plan.review_rates import ProbeStanding, standing_of
from scaffold.store.database import Store
from scaffold.store.driver.columns import TimeSource
from scaffold.store.knowledge.chunks import EVERYTHING
from scaffold.store.knowledge.tables import KnowledgeTables
from scaffold.store.learnings import Learnings
from scaffold.store.user_store import UserStore, user_database

MOST_FOUND = 50
CONFIRMED = ChunkFilter(states=("active",))
FILLED_BY_SEARCH = 64
"""How many learnings get their vectors when something is looked for by meaning."""
NEAR = 0.45
"""The cosine from which a learning is about the same as a text, without a word in common."""


class LearningStores(Struct, frozen=True):
    """Both databases; None for one that does not exist. Of the user's, only learnings are used."""

    repository: Store | None
    user: UserStore | None
    cache: Path | None = None
    """The user's cache, where index files are; without it, learnings are found by their words alone."""
    open_leg: Callable[[KnowledgeTables, Path], VectorLeg | None] = vector_leg

    @property
    def _open_stores(self) -> Sequence[Store | UserStore]:
        return [each for each in (self.repository, self.user) if each is not None]

    @property
    def _learning_tables(self) -> Sequence[Learnings]:
        return [each.learnings for each in self._open_stores]

    def all(self) -> tuple[Learning, ...]:
        """Return all learnings, the repository's first."""
        return tuple(learning for each in self._learning_tables for learning in each.all())

    def with_concept(self, concept: str) -> tuple[Learning, ...]:
        """Return the learnings about a concept."""
        return tuple(learning for each in self._learning_tables for learning in each.with_concept(concept))

    def concepts(self) -> Mapping[str, int]:
        """Return the number of learnings about each concept, by name."""
        counts: dict[str, int] = {}
        for each in self._learning_tables:
            for concept, ids in each.concepts().items():
                counts[concept] = counts.get(concept, 0) + len(ids)
        return dict(sorted(counts.items()))

    async def find(self, text: str) -> tuple[Learning, ...]:
        """Return the learnings that fit a text by words or by meaning, the best of each database first.

        Also those that do not count. Loads the embedding model where the extra `memory` is installed.
        """
        found: list[Learning] = []
        vectors = QueryVectors(text)
        for store in self._open_stores:
            leg = self._vector_leg(store)
            if leg is not None:
                await fill_in_vectors(store, leg, LEARNINGS, most=FILLED_BY_SEARCH)
            search = HybridSearch(store.knowledge, leg)
            hits = await search.find(LEARNINGS, text, EVERYTHING, most=MOST_FOUND, vectors=vectors)
            found += store.learnings.for_chunks(each.chunk.id for each in hits if each.by_words or _is_near(each))
        return tuple(found)

    async def near(self, text: str) -> Sequence[tuple[Learning, float]]:
        """Return the learnings that are near a text in meaning, with their cosines; none where there are no vectors."""
        found: list[tuple[Learning, float]] = []
        vectors = QueryVectors(text)
        for store in self._open_stores:
            # Without a vector there, the model is not even loaded.
            leg = self._vector_leg(store) if store.knowledge.embeddings.count(LEARNINGS) else None
            if leg is not None:
                search = HybridSearch(store.knowledge, leg)
                hits = await search.find(LEARNINGS, text, CONFIRMED, most=MOST_FOUND, vectors=vectors)
                cosines = {each.chunk.id: each.cosine or 0.0 for each in hits if _is_near(each)}
                found += ((each, cosines[ChunkId(each.id)]) for each in store.learnings.for_chunks(cosines))
        return found

    def candidates(self, situation: Situation) -> tuple[Learning, ...]:
        """Return the learnings that may fit a situation by its words; no model is loaded."""
        query = " ".join(situation.terms())
        found: dict[str, Learning] = {}
        for store in self._open_stores:
            hits = HybridSearch(store.knowledge).by_words(LEARNINGS, query, CONFIRMED, most=MOST_FOUND)
            learnings = store.learnings
            by_words = learnings.for_chunks(each.chunk.id for each in hits)
            for each in (*learnings.for_failure(situation.fingerprint), *learnings.preferences(), *by_words):
                found[each.id] = each
        return tuple(found.values())

    def by_prefix(self, text: str) -> tuple[Learning, ...]:
        """Return the learnings whose id starts with `text`."""
        return tuple(learning for each in self._learning_tables for learning in each.by_prefix(text))

    def uses(self, learning: Learning) -> tuple[LearningUse, ...]:
        """Return the uses of a learning in this repository, oldest first."""
        return self.repository.learning_uses.for_learnings([learning.id]) if self.repository is not None else ()

    def scores(self, learnings: Sequence[Learning], now: datetime) -> Mapping[str, Score]:
        """Return the score of each learning by id, from the attempts in this repository."""
        ids = [each.id for each in learnings]
        uses = self.repository.learning_uses.for_learnings(ids) if self.repository is not None else ()
        return scores_of(learnings, uses, now)

    def add(self, learning: Learning, *, supersedes: Learning | None = None) -> tuple[Learning, bool]:
        """Store a learning, unless one with the same condition and advice counts; return it, and whether it is new.

        It takes the place of the learning that it `supersedes`. UsageError if there are too many.
        """
        store = self._store_of(learning)
        with store.transaction():
            same = store.learnings.same(learning.triple)
            if same is None and store.knowledge.is_full(LEARNINGS):
                raise UsageError("the limit of learnings is reached", "Forget some of them first.")
            if same is None:
                store.learnings.put(learning)
        stored = same or learning
        if supersedes is not None and supersedes.id != stored.id:
            store = self._store_of(supersedes)
            with store.transaction():
                store.learnings.supersede(supersedes.id, by=stored.id)
        return stored, same is None

    def change(self, learning: Learning) -> None:
        """Store a learning in place of the one with its id; a former text is deleted for good."""
        store = self._store_of(learning)
        with store.transaction(durable=True):
            store.learnings.put(learning)
        self._wipe_index(store)

    def forget(self, learnings: Iterable[Learning]) -> bool:
        """Delete learnings for good; False if another process keeps their text in the database's log until it ends."""
        by_store: dict[str, list[Learning]] = {}
        for each in learnings:
            by_store.setdefault(self._store_of(each).name, []).append(each)
        emptied = []
        for group in by_store.values():
            store = self._store_of(group[0])
            with store.transaction(durable=True):
                store.knowledge.forget(ChunkId(each.id) for each in group)
            emptied.append(self._wipe_index(store))
        return all(emptied)

    def _vector_leg(self, store: Store | UserStore) -> VectorLeg | None:
        return None if self.cache is None else self.open_leg(store.knowledge, index_folder(self.cache, store.name))

    def _wipe_index(self, store: Store | UserStore) -> bool:
        if self.cache is not None:
            delete_index(index_folder(self.cache, store.name), LEARNINGS)
        let_go(store.name, LEARNINGS)
        return store.knowledge.empty_log()

    def _store_of(self, learning: Learning) -> Store | UserStore:
        """Return the database that has the learning, or gets it by its scope."""
        store = self.user if learning.scope == "global" else self.repository
        if store is None:
            raise LookupError(learning.scope)
        return store


def _is_near(hit: FoundChunk) -> bool:
    return hit.cosine is not None and hit.cosine >= NEAR


@contextmanager
def user_store_if_any(clock: TimeSource, *, create: bool = False) -> Iterator[UserStore | None]:
    """Open the user's database; yield None if it does not exist, unless `create`. Raises StoreError if it cannot be."""
    path = user_database(user_dirs().data)
    if not create and not path.exists():
        yield None
        return
    with closing(UserStore.open(path, clock=clock, create=create)) as store:
        yield store


def reviewer_standing(model: str, clock: TimeSource) -> ProbeStanding:
    """Return the reviewer's rates on planted faults; no rates without the user's database."""
    try:
        with user_store_if_any(clock) as user:
            return standing_of(user.reviewers.probes_of(model)) if user is not None else ProbeStanding()
    except StoreError:
        return ProbeStanding()
