"""The learnings of a repository and of its user, looked at together."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import datetime

from msgspec import Struct

from scaffold.core.ids import AttemptId
from scaffold.core.learning import Learning, LearningUse
from scaffold.host.user_dirs import user_dirs
from scaffold.plan.learning.evidence import Score, scores_of
from scaffold.plan.learning.matching import Situation
from scaffold.plan.learning.words import terms_of
from scaffold.store.database import Store
from scaffold.store.driver.columns import TimeSource
from scaffold.store.learnings import Learnings
from scaffold.store.user_store import UserStore, user_database


class LearningStores(Struct, frozen=True):
    """Both databases; None for one that does not exist. Of the user's, only learnings are used."""

    repository: Store | None
    user: UserStore | None

    @property
    def _gateways(self) -> Sequence[Learnings]:
        return [each.learnings for each in (self.repository, self.user) if each is not None]

    def all(self) -> tuple[Learning, ...]:
        """Return all learnings, those of the repository first."""
        return tuple(learning for each in self._gateways for learning in each.all())

    def with_concept(self, concept: str) -> tuple[Learning, ...]:
        """Return the learnings about a concept."""
        return tuple(learning for each in self._gateways for learning in each.with_concept(concept))

    def concepts(self) -> Mapping[str, int]:
        """Return how many learnings there are about each concept, by name."""
        counts: dict[str, int] = {}
        for each in self._gateways:
            for concept, ids in each.concepts().items():
                counts[concept] = counts.get(concept, 0) + len(ids)
        return dict(sorted(counts.items()))

    def search(self, text: str) -> tuple[Learning, ...]:
        """Return the learnings with any of the words in `text`, the best of each database first."""
        return tuple(learning for each in self._gateways for learning in each.search(terms_of(text)))

    def candidates(self, situation: Situation) -> tuple[Learning, ...]:
        """Return the learnings that may fit a situation, but for those from work that has not landed."""
        terms = situation.terms()
        found = [
            learning
            for each in self._gateways
            for learning in (*each.of_failure(situation.fingerprint), *each.preferences(), *each.search(terms))
        ]
        return tuple({each.id: each for each in found if self.has_landed(each)}.values())

    def has_landed(self, learning: Learning) -> bool:
        """Return whether the work that a learning was drawn from has landed; True for one that a human wrote."""
        if not learning.attempt:
            return True
        attempt = self.repository.attempts.get(AttemptId(learning.attempt)) if self.repository is not None else None
        return attempt is not None and attempt.outcome == "landed"

    def by_prefix(self, text: str) -> tuple[Learning, ...]:
        """Return the learnings whose id starts with `text`."""
        return tuple(learning for each in self._gateways for learning in each.by_prefix(text))

    def uses(self, learning: Learning) -> tuple[LearningUse, ...]:
        """Return the uses of a learning in this repository, oldest first."""
        return self.repository.learning_uses.of_learnings([learning.id]) if self.repository is not None else ()

    def scores(self, learnings: Sequence[Learning], now: datetime) -> Mapping[str, Score]:
        """Return the score of each learning by id, from the attempts in this repository."""
        ids = [each.id for each in learnings]
        uses = self.repository.learning_uses.of_learnings(ids) if self.repository is not None else ()
        return scores_of(learnings, uses, now)

    def add(self, learning: Learning, *, supersedes: Learning | None = None) -> tuple[Learning, bool]:
        """Store a learning, unless one with the same condition and advice counts; return it, and whether it is new.

        It takes the place of the learning that it `supersedes`.
        """
        store = self._store_of(learning)
        with store.transaction():
            same = store.learnings.same(learning.triple)
            if same is None:
                store.learnings.put(learning)
        stored = same or learning
        if supersedes is not None and supersedes.id != stored.id:
            store = self._store_of(supersedes)
            with store.transaction():
                store.learnings.supersede(supersedes.id, by=stored.id)
        return stored, same is None

    def change(self, learning: Learning) -> None:
        """Store a learning in place of the one with its id."""
        store = self._store_of(learning)
        with store.transaction():
            store.learnings.put(learning)

    def forget(self, learnings: Iterable[Learning]) -> None:
        """Delete learnings for good."""
        for each in learnings:
            store = self._store_of(each)
            with store.transaction():
                store.learnings.forget(each.id)

    def _store_of(self, learning: Learning) -> Store | UserStore:
        """Return the database that has the learning, or gets it by its scope."""
        store = self.user if learning.scope == "global" else self.repository
        if store is None:
            raise LookupError(learning.scope)
        return store


@contextmanager
def user_store_if_any(clock: TimeSource, *, create: bool = False) -> Iterator[UserStore | None]:
    """Open the user's database; yield None if it does not exist, unless `create`. Raises StoreError if it cannot be."""
    path = user_database(user_dirs().data)
    if not create and not path.exists():
        yield None
        return
    with closing(UserStore.open(path, clock=clock, create=create)) as store:
        yield store
