"""Chunks in both databases: text, words and vector change together, and what is forgotten is nowhere in the file."""

from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from scaffold.core.knowledge import MEMORIES, Chunk, ChunkFilter, ChunkId
from scaffold.store.database import Store
from scaffold.store.user_store import UserStore
from support.fake_clock import FakeClock

EVERY_CHUNK_THAT_COUNTS = ChunkFilter()
VECTOR = b"\x00\x3c\x00\x00"


def a_chunk(name: str, text: str = "the tests need redis", **fields) -> Chunk:
    now = FakeClock().now()
    given = {"source": "user", "sha256": text, "valid_from": now, "created_at": now, **fields}
    return Chunk(id=ChunkId(name), collection=MEMORIES, text=text, **given)


def put(store: Store | UserStore, *chunks: Chunk) -> tuple[Chunk, ...]:
    with store.transaction():
        store.knowledge.collections.ensure(MEMORIES)
        return store.knowledge.chunks.add(chunks)


def found(store: Store | UserStore, *words: str, wanted: ChunkFilter = EVERY_CHUNK_THAT_COUNTS) -> list[str]:
    chunks = store.knowledge.chunks
    return [each.id for each in chunks.with_numbers(chunks.search(MEMORIES, words, wanted, most=9))]


def test_a_chunk_is_stored_once_found_changed_and_deleted(store: Store) -> None:
    """RA-6."""
    first, again = put(store, a_chunk("a", meta={"type": "fact"}), a_chunk("b"))
    assert (first.id, again.id) == ("a", "a")
    assert store.knowledge.chunks.get(ChunkId("a")) == first
    assert store.knowledge.chunks.count(MEMORIES) == 1
    assert found(store, "redis") == found(store, "TESTS") == found(store, "test", "nothing") == ["a"]
    with store.transaction():
        store.knowledge.replace(msgspec.structs.replace(first, text="builds need make", sha256="2", meta={"type": "x"}))
    assert (found(store, "redis"), found(store, "makes")) == ([], ["a"])
    assert found(store, "make", wanted=ChunkFilter(meta={"type": "x"})) == ["a"]
    assert found(store, "make", wanted=ChunkFilter(meta={"type": "fact"})) == []
    with store.transaction():
        store.knowledge.forget([ChunkId("a")])
    assert store.knowledge.empty_log()
    assert (store.knowledge.chunks.count(MEMORIES), found(store, "make")) == (0, [])


def test_a_text_may_come_back_after_it_was_superseded(store: Store) -> None:
    """RA-6: both stay, each with the time in which it counted."""
    (old,) = put(store, a_chunk("a"))
    with store.transaction():
        store.knowledge.chunks.change(
            msgspec.structs.replace(old, state="superseded", valid_until=old.created_at, superseded_by=ChunkId("b"))
        )
    (new,) = put(store, a_chunk("b"))
    assert new.id == "b"
    assert found(store, "redis") == ["b"]
    assert found(store, "redis", wanted=ChunkFilter(states=("superseded",))) == ["a"]
    assert store.knowledge.chunks.counts_by_state(MEMORIES) == {"active": 1, "superseded": 1}


def test_scripts_without_spaces_are_found_by_parts_of_their_words(store: Store) -> None:
    """RA-6: full-text search takes a sentence for one word there."""
    put(store, a_chunk("a", "データベースの移行は夜間に行う"), a_chunk("b", "テストは夜間"))
    chunks = store.knowledge.chunks
    numbers = chunks.containing(MEMORIES, ["夜間", "移行"], ChunkFilter(), most=5)
    assert [each.id for each in chunks.with_numbers(numbers)] == ["a", "b"]
    assert chunks.containing(MEMORIES, [], ChunkFilter(), most=5) == ()


def test_no_word_of_a_query_is_an_operator(store: Store) -> None:
    """RA-6."""
    put(store, a_chunk("a", 'NEAR the "AND" gate'))
    for words in (['"'], ["*"], ["a:b"], ["^"], ["(", ")"], ["x' OR 1=1 --"]):
        assert found(store, *words) == []
    assert found(store, "near") == found(store, "GATE", "OR") == ["a"]


def test_a_vector_comes_later_and_goes_with_its_text(store: Store) -> None:
    """RA-7: a vector of a text that changed meanwhile is not stored."""
    one, other = put(store, a_chunk("a"), a_chunk("b", "builds need make"))
    knowledge, embeddings = store.knowledge, store.knowledge.embeddings
    assert embeddings.missing(MEMORIES, most=9) == (one.seq, other.seq)
    with store.transaction():
        knowledge.collections.set_model(MEMORIES, "m", 2)
        embeddings.put("m", [(one, VECTOR), (msgspec.structs.replace(other, sha256="older"), VECTOR)])
    assert embeddings.for_chunk(one) == VECTOR
    assert embeddings.missing(MEMORIES, most=9) == (other.seq,)
    seen = embeddings.moment().number
    with store.transaction():
        knowledge.forget([ChunkId("a")])
    assert (embeddings.count(MEMORIES), embeddings.removed_between(MEMORIES, seen, seen + 9)) == (0, {one.seq})
    with store.transaction():
        embeddings.put("m", [(other, VECTOR)])
        knowledge.collections.set_model(MEMORIES, "another", 3)
    assert embeddings.count(MEMORIES) == 0, "vectors of different models do not compare"


def test_a_filter_looks_at_time_and_source(store: Store) -> None:
    """RA-7."""
    now = FakeClock().now()
    put(store, a_chunk("a", source="session:x"), a_chunk("b", "later", created_at=now + timedelta(hours=1)))
    newest = store.knowledge.chunks.newest
    assert [each.id for each in newest(MEMORIES, most=9)] == ["b", "a"]
    assert [each.id for each in newest(MEMORIES, ChunkFilter(since=now + timedelta(seconds=1)), most=9)] == ["b"]
    assert [each.id for each in newest(MEMORIES, ChunkFilter(until=now + timedelta(seconds=1)), most=9)] == ["a"]
    assert [each.id for each in newest(MEMORIES, ChunkFilter(source="session:"), most=9)] == ["a"]


def test_the_users_database_has_chunks_of_its_own(user: UserStore) -> None:
    """RA-6."""
    put(user, a_chunk("p"))
    assert found(user, "redis") == ["p"]
    assert [each.name for each in user.knowledge.collections.all()] == [MEMORIES]


@pytest.mark.parametrize("count", [1, 400])
def test_what_is_forgotten_is_nowhere_in_the_file(file_store: Store, path: Path, count: int) -> None:
    """RA-6: neither text, nor word, nor vector; also in pages that became free, and in the log."""
    vector = b"VECTORVECTOR" * 64
    stored = put(
        file_store,
        *(a_chunk(f"c{n}", f"zanzibar{n} " + "quagga " * 200) for n in range(count)),
        a_chunk("kept", "this one stays"),
    )
    with file_store.transaction():
        file_store.knowledge.embeddings.put("m", [(each, vector) for each in stored[:-1]])
    with file_store.transaction():
        file_store.knowledge.forget([each.id for each in stored[:-1]])
    assert file_store.knowledge.empty_log()
    content = b"".join(each.read_bytes() for each in path.parent.glob("state.db*"))
    for word in (b"zanzibar", b"quagga", b"VECTORVECTOR"):
        assert word not in content
    assert b"this one stays" in content
    assert found(file_store, "stays") == ["kept"]


def test_a_reader_keeps_the_log_and_that_is_told(file_store: Store, path: Path, clock: FakeClock) -> None:
    """RA-6: what a process still reads cannot be taken from it."""
    (stored,) = put(file_store, a_chunk("a"))
    reader = Store.open(path, clock=clock, timeout_s=0.05)
    with reader.snapshot():
        assert reader.knowledge.chunks.get(ChunkId("a")) is not None
        with file_store.transaction():
            file_store.knowledge.forget([stored.id])
        assert not file_store.knowledge.empty_log()
    reader.close()
    assert file_store.knowledge.empty_log()
