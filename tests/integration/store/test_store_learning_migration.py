"""Learnings of a database from before they were chunks: all of them are kept, with their ids, uses and scores."""

from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from builders import HEAD, an_action, an_attempt, store_run
from integration.store.builders import older
from scaffold.core.knowledge import LEARNINGS, MEMORIES, Chunk
from scaffold.core.learning import Learning, Triple
from scaffold.host.clock import FakeClock
from scaffold.memory.hybrid import HybridSearch
from scaffold.run.learning.stores import LearningStores
from scaffold.store.database import Store
from scaffold.store.driver.columns import format_time
from scaffold.store.driver.location import StoreLocation
from scaffold.store.driver.schema import MIGRATIONS
from scaffold.store.user_store import MIGRATIONS as USER_MIGRATIONS
from scaffold.store.user_store import UserStore
from support.postgres import new_location

START = FakeClock().now()
ADD = """
INSERT INTO learning (id, condition, advice, result, scope, module, preference, outcome, commit_sha, log, fingerprint,
                      source, attempt_id, contradicts, superseded_by, triggers, triggered_at, created_at, changed_at)
VALUES (:id, :condition, :advice, :result, :scope, :module, :preference, :outcome, :commit_sha, :log, :fingerprint,
        :source, :attempt_id, :contradicts, :superseded_by, :triggers, :triggered_at, :created_at, :changed_at)
"""
ADD_MEMORY = """
INSERT INTO chunk (seq, id, collection, text, title, sha256, start_char, end_char, page, source, meta, state,
                   valid_from, created_at)
SELECT number, :id, :collection, 'a memory', '', :id, 0, 0, 0, '', '{}', 'active', :at, :at FROM knowledge_change
"""


def a_learning(name: str, place: int, **fields) -> Learning:
    at = START + timedelta(hours=place - 9)
    triple = Triple(f"condition {name} it's", fields.pop("advice", f"advice {name}"), fields.pop("result", ""))
    return Learning(id=name, triple=triple, created_at=at, changed_at=at + timedelta(minutes=1), **fields)


KEPT = (
    a_learning("a", 0, result="they pass", scope="module", module="src/my auth", concepts=("ci", "tests.py")),
    a_learning("b", 1, outcome="tests_pass", commit=HEAD, log="logs/x", triggers=3, triggered_at=START),
    a_learning("c", 2, source="agent", attempt="run-1/x#1", fingerprint="f1", contradicts="b"),
    a_learning("d", 3, source="agent", attempt="run-1/x#2", unconfirmed=True),
    a_learning("e", 4, superseded_by="f", concepts=("ci",)),
    a_learning("f", 5, advice="advice e"),
    a_learning("g", 6, advice="advice e", source="agent"),
)
"""The last two say the same, as an edit could make them."""
OF_USER = (
    a_learning("p", 0, scope="global", preference=True, concepts=("style",)),
    a_learning("q", 1, scope="global", superseded_by="gone"),
)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=[pytest.mark.postgres, pytest.mark.slow])])
def place(request: pytest.FixtureRequest, path: Path) -> StoreLocation:
    return path if request.param == "sqlite" else new_location(request.getfixturevalue("postgres_url"))


def write_former(store: Store | UserStore, learnings: tuple[Learning, ...]) -> None:
    """Write learnings as programs of the former schema did."""
    write = store._connection.write
    for each in learnings:
        write(
            ADD,
            id=each.id,
            condition=each.triple.condition,
            advice=each.triple.advice,
            result=each.triple.result,
            scope=each.scope,
            module=each.module,
            preference=int(each.preference),
            outcome=each.outcome,
            commit_sha=each.commit,
            log=each.log,
            fingerprint=each.fingerprint,
            source=each.source,
            attempt_id=each.attempt,
            contradicts=each.contradicts,
            superseded_by=each.superseded_by,
            triggers=each.triggers,
            triggered_at=format_time(each.triggered_at),
            created_at=format_time(each.created_at),
            changed_at=format_time(each.changed_at),
        )
        for concept in each.concepts:
            write("INSERT INTO learning_concept VALUES (:id, :concept)", id=each.id, concept=concept)
        words = " ".join((each.triple.condition, each.triple.advice, each.triple.result, each.module, *each.concepts))
        write("INSERT INTO learning_text (id, words) VALUES (:id, :words)", id=each.id, words=words)


def a_memory(name: str) -> Chunk:
    return Chunk(id=name, collection=MEMORIES, text=f"memory {name}", sha256=name, valid_from=START, created_at=START)


def make_former(place: StoreLocation, migrations: Path) -> None:
    """Make a database with learnings, their uses and a memory, as the former schema has them."""
    action = an_action("x")
    with closing(Store.open(place, clock=FakeClock(), migrations=migrations)) as store:
        store_run(store, action)
        with store.transaction():
            write_former(store, KEPT)
            for number, outcome in ((1, "landed"), (2, "contract_failed")):
                store.attempts.open(an_attempt(action, number))
                store.learning_uses.add(f"run-1/x#{number}", "start", given=["b"], withheld=["a"])
                store.attempts.end(f"run-1/x#{number}", outcome=outcome, head_sha=HEAD)
            store.knowledge.collections.ensure(MEMORIES)
            # Not by our code, which writes what a later schema has.
            store._connection.write("UPDATE knowledge_change SET number = number + 1")
            store._connection.write(ADD_MEMORY, id="m", collection=MEMORIES, at=format_time(START))


def test_learnings_from_before_they_were_chunks_are_kept_with_their_uses(place: StoreLocation, tmp_path: Path) -> None:
    """AL-16, BX-16: schema 29. Only what counts is found; that two say the same is no obstacle."""
    make_former(place, older(MIGRATIONS, tmp_path / "older", 28))
    with closing(Store.open(place, clock=FakeClock())) as store:
        assert store.learnings.all() == KEPT
        assert store.learnings.concepts() == {"ci": ("a", "e"), "tests.py": ("a",)}
        stores = LearningStores(store, None)
        score = stores.scores([KEPT[1]], START + timedelta(days=1))["b"]
        assert (score.used, score.helped, score.expected) == (2, 1, pytest.approx(0.5))
        uses = stores.uses(KEPT[1])
        assert [(each.given, each.helped) for each in uses] == [(True, True), (True, False)]
        search = HybridSearch(store.knowledge)
        assert {hit.chunk.id for hit in search.by_words(LEARNINGS, "condition")} == {"a", "b", "c", "d", "f", "g"}
        assert [hit.chunk.id for hit in search.by_words(LEARNINGS, "auth")] == ["a"]
        assert [hit.chunk.id for hit in search.by_words(LEARNINGS, "ci")] == ["a"]
        superseded = store.knowledge.chunks.get("e")
        assert (superseded.state, superseded.valid_until) == ("superseded", KEPT[5].created_at)
        with store.transaction():
            (later,) = store.knowledge.chunks.add([a_memory("later")])
            store.learnings.put(a_learning("h", 7))
            store.knowledge.forget(["a"])
        assert later.seq > max(store.knowledge.chunks.get(each.id).seq for each in KEPT[1:])
        assert store.knowledge.chunks.get("m") is not None
        assert [each.id for each in store.learnings.all()] == ["b", "c", "d", "e", "f", "g", "h"]


def test_a_migration_of_learnings_that_fails_leaves_them_as_they_were(place: StoreLocation, tmp_path: Path) -> None:
    """AL-16: and the next one begins anew."""
    former = older(MIGRATIONS, tmp_path / "older", 28)
    make_former(place, former)
    broken = older(MIGRATIONS, tmp_path / "broken", 29)
    (step,) = broken.glob("0029_*.sql")
    step.write_text(step.read_text() + "INSERT INTO nowhere VALUES (1);\n")
    with pytest.raises(Exception, match="nowhere"):
        Store.open(place, clock=FakeClock(), migrations=broken)
    with closing(Store.open(place, clock=FakeClock(), migrations=former)) as store:
        rows = store._connection.rows("SELECT id, advice FROM learning ORDER BY created_at")
        assert [(row["id"], row["advice"]) for row in rows] == [(each.id, each.triple.advice) for each in KEPT]
        assert store.knowledge.chunks.count(LEARNINGS) == 0
    with closing(Store.open(place, clock=FakeClock())) as store:
        assert store.learnings.all() == KEPT


def test_the_users_learnings_from_before_they_were_chunks_are_kept(user_path: Path, tmp_path: Path) -> None:
    """AL-16: schema 9 of the user's database. Words of forgotten ones, which the former index still had, are gone."""
    migrations = older(USER_MIGRATIONS, tmp_path / "older", 8)
    with closing(UserStore.open(user_path, clock=FakeClock(), migrations=migrations)) as user, user.transaction():
        write_former(user, OF_USER)
        user._connection.write("INSERT INTO learning_text (id, words) VALUES ('x', 'quagga')")
        user._connection.write("DELETE FROM learning_text WHERE id = 'x'")
    assert b"quagga" in user_path.read_bytes()
    with closing(UserStore.open(user_path, clock=FakeClock())) as user:
        assert user.learnings.all() == OF_USER
        assert user.learnings.preferences() == OF_USER[:1]
        assert [hit.chunk.id for hit in HybridSearch(user.knowledge).by_words(LEARNINGS, "style")] == ["p"]
    assert b"quagga" not in user_path.read_bytes()


def test_a_database_without_learnings_gets_no_collection_of_them(place: StoreLocation, tmp_path: Path) -> None:
    """AL-16."""
    Store.open(place, clock=FakeClock(), migrations=older(MIGRATIONS, tmp_path / "older", 28)).close()
    with closing(Store.open(place, clock=FakeClock())) as store:
        assert (store.learnings.all(), store.knowledge.collections.all()) == ((), ())
