"""Learnings of both databases: found by words and by meaning, counting with the work they came from, really deleted."""

import asyncio
import struct
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from builders import HEAD, an_action, an_attempt, store_run
from scaffold.core.errors import UsageError
from scaffold.core.knowledge import LEARNINGS, CollectionName
from scaffold.core.learning import Learning, Triple
from scaffold.memory.hybrid import VectorLeg
from scaffold.memory.vectors.memory_cache import index_folder, index_path
from scaffold.plan.learning.matching import Situation, matches
from scaffold.run.learning.landed_memories import confirm_memories, doubt_memories
from scaffold.run.learning.stores import LearningStores
from scaffold.store.database import Store
from scaffold.store.knowledge.tables import KnowledgeTables
from scaffold.store.user_store import UserStore
from support.fake_clock import FakeClock

NOW = FakeClock().now()
TOPICS = (("sign", "login", "password"), ("slow", "latency", "fast"), ("colour", "theme"))


def a_learning(name: str, condition: str, advice: str = "do that", **fields) -> Learning:
    return Learning(id=name, triple=Triple(condition, advice), created_at=NOW, changed_at=NOW, **fields)


class TopicEmbedder:
    """An embedder without a model: a text is near another one if they are about the same topics."""

    model, dimension = "topics", len(TOPICS)

    async def embed(self, texts: Sequence[str]) -> Sequence[bytes]:
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> bytes:
        counts = [sum(word in text for word in topic) for topic in TOPICS]
        length = sum(count * count for count in counts) ** 0.5 or 1.0
        return struct.pack(f"{len(counts)}e", *(count / length for count in counts))


class ComparedVectors:
    """All vectors of a database, compared one by one."""

    def __init__(self, knowledge: KnowledgeTables) -> None:
        self._knowledge = knowledge

    def search_of(self, collection: CollectionName, model: str) -> "ComparedVectors":
        return self

    def make_index(self, collection: CollectionName, model: str) -> bool:
        return False

    def search(self, query: bytes, *, most: int, among: Collection[int] | None = None) -> tuple[tuple[int, float], ...]:
        one, embeddings = struct.unpack(f"{len(TOPICS)}e", query), self._knowledge.embeddings
        found = [
            (each.chunk, sum(a * b for a, b in zip(one, struct.unpack(f"{len(TOPICS)}e", each.vector), strict=True)))
            for page in embeddings.between(LEARNINGS, 0, embeddings.moment().number)
            for each in page
            if among is None or each.chunk in among
        ]
        return tuple(sorted(found, key=lambda each: -each[1])[:most])


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[LearningStores]:
    with (
        closing(Store.open(tmp_path / "git" / "state.db", clock=FakeClock())) as store,
        closing(UserStore.open(tmp_path / "home" / "user.db", clock=FakeClock())) as user,
    ):
        yield LearningStores(store, user, tmp_path / "cache", lambda knowledge, _: leg(knowledge))


def leg(knowledge: KnowledgeTables) -> VectorLeg:
    return VectorLeg(TopicEmbedder(), ComparedVectors(knowledge))


def add(stores: LearningStores, *learnings: Learning) -> None:
    for each in learnings:
        assert stores.add(each)[1]


def ids(learnings: Sequence[Learning]) -> list[str]:
    return [each.id for each in learnings]


async def test_a_query_finds_learnings_by_words_and_by_meaning_in_both_databases(stores: LearningStores) -> None:
    """AL-16: vectors are filled in by the search; what an attempt gets is found by words alone."""
    add(
        stores,
        a_learning("a", "users sign in"),
        a_learning("b", "the theme changes"),
        a_learning("c", "a password is stored", scope="global"),
        a_learning("d", "the login has expired", superseded_by="a"),
    )
    assert ids(await stores.find("password")) == ["a", "c"]
    assert ids(await stores.find("theme login")) == ["b", "a", "d", "c"]
    assert await stores.find("nothing at all") == ()
    assert stores.repository.knowledge.embeddings.count(LEARNINGS) == 2  # not of what is superseded
    assert ids(stores.candidates(Situation("the password is stored"))) == ["c"]


async def test_what_is_near_in_meaning_fits_a_request_in_other_words(stores: LearningStores) -> None:
    """AL-16: for planning; without a vector, no model is asked."""
    add(stores, a_learning("a", "users sign in"), a_learning("b", "the theme changes", scope="module", module="ui"))
    assert await stores.near("password") == []
    await stores.find("fill in")
    ((near, cosine),) = await stores.near("password")
    assert (near.id, cosine) == ("a", pytest.approx(1, abs=0.01))
    situation = Situation("reset the password", files=("src/x.py",))
    assert matches(stores.all(), situation) == ()
    fitting = matches(stores.all(), situation, {"a": 0.6, "b": 0.9})
    assert [(each.learning.id, each.relevance) for each in fitting] == [("a", 0.6)]  # the other is of another folder


def test_a_learning_of_an_attempt_counts_as_long_as_its_work_is_there(stores: LearningStores) -> None:
    """AL-16: from the landing on, until it is undone."""
    store = stores.repository
    store_run(store, action := an_action("x"))
    with store.transaction():
        store.attempts.open(an_attempt(action))
    add(stores, a_learning("a", "tests time out", source="agent", attempt="run-1/x#1", unconfirmed=True))
    situation = Situation("the tests time out here")
    assert stores.candidates(situation) == ()
    with store.transaction():
        store.attempts.end("run-1/x#1", outcome="landed", head_sha=HEAD)
        confirm_memories(store, "run-1/x#1")
    (counted,) = stores.candidates(situation)
    assert (counted.attempt, counted.source, counted.is_current(NOW)) == ("run-1/x#1", "agent", True)
    with store.transaction():
        doubt_memories(store, ["run-1/x#1"])
    assert stores.candidates(situation) == ()
    assert stores.all()[0].is_current(NOW) is False


def test_a_forgotten_learning_is_nowhere_in_the_file(stores: LearningStores, tmp_path: Path) -> None:
    """AL-16: nor is the former text of one that was edited; text, words, vector and index go at once."""
    store = stores.repository
    add(stores, a_learning("a", "zebra quagga", concepts=("okapi",)), a_learning("b", "walrus", "use narwhal"))
    add(stores, *(a_learning(f"n{n}", f"condition {n}") for n in range(50)))
    assert ids(asyncio.run(stores.find("zebra"))) == ["a"]
    index = index_path(index_folder(tmp_path / "cache", store.name), LEARNINGS)
    index.parent.mkdir(parents=True)
    index.touch()
    kept = [tmp_path / "git" / name for name in ("state.db", "state.db-wal")]
    assert holding(kept, b"zebra", b"quagga", b"okapi", b"walru", b"narwhal")
    assert stores.forget([store.learnings.get("a")])
    stores.change(a_learning("b", "seals", "use fish"))
    assert holding(kept, b"zebra", b"quagga", b"okapi", b"walru", b"narwhal") == set()
    assert not index.exists()
    assert ids(store.learnings.all())[:1] == ["b"]
    assert store.learnings.get("b").triple.advice == "use fish"


def holding(files: Sequence[Path], *words: bytes) -> set[bytes]:
    content = b"".join(path.read_bytes() for path in files)
    return {word for word in words if word in content}


def test_an_edit_keeps_the_state_and_drops_the_vector_of_the_former_text(stores: LearningStores) -> None:
    """AL-16: and one that changes no word keeps the vector."""
    knowledge = stores.repository.knowledge
    first = a_learning("a", "users sign in", source="agent", attempt="x", unconfirmed=True, triggers=2)
    add(stores, first)
    asyncio.run(stores.find("password"))
    stores.change(msgspec.structs.replace(first, outcome="reverted", unconfirmed=False, triggers=0))
    assert knowledge.embeddings.count(LEARNINGS) == 1
    stores.change(msgspec.structs.replace(first, concepts=("auth",)))
    assert knowledge.embeddings.count(LEARNINGS) == 0
    assert stores.all() == (msgspec.structs.replace(first, concepts=("auth",)),)


def test_no_more_learnings_are_kept_than_an_index_holds(stores: LearningStores) -> None:
    """AL-16."""
    with stores.repository.transaction():
        stores.repository.knowledge.collections.ensure(LEARNINGS, capacity=1)
    add(stores, a_learning("a", "one"))
    assert stores.add(a_learning("b", "one"))[0].id == "a"
    with pytest.raises(UsageError):
        stores.add(a_learning("c", "two"))
