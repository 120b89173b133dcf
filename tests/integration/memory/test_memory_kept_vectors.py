"""Vectors stay in the process when a database is closed: each search reads what has changed, and never what is gone."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from integration.memory.builders import needs_extra
from scaffold.core.knowledge import MEMORIES, Chunk, ChunkId, CollectionName
from scaffold.host.atomic_files import write_atomic
from scaffold.host.leftovers import own_mark
from scaffold.memory.vectors.memory_cache import delete_index, index_path, let_go
from scaffold.store.database import Store
from support.fake_clock import FakeClock

pytestmark = needs_extra
MODEL = "m"


def unit(number: int, dimension: int = 8) -> bytes:
    """A vector of its own for each number."""
    from numpy import random as numpy

    row = numpy.default_rng(number).standard_normal((1, dimension))
    from scaffold.memory.embedders.vector_bytes import packed

    packed: bytes = packed(row)[0]
    return packed


def a_chunk(number: int) -> Chunk:
    now = FakeClock().now()
    return Chunk(
        id=ChunkId(f"c{number}"),
        collection=MEMORIES,
        text=f"text {number}",
        sha256=str(number),
        valid_from=now,
        created_at=now,
    )


def put(store: Store, *numbers: int, dimension: int = 8, model: str = MODEL) -> tuple[Chunk, ...]:
    with store.transaction():
        store.knowledge.collections.ensure(MEMORIES)
        chunks = store.knowledge.chunks.add([a_chunk(number) for number in numbers])
        store.knowledge.collections.set_model(MEMORIES, model, dimension)
        vectors = [unit(number, dimension) for number in numbers]
        store.knowledge.embeddings.put(model, list(zip(chunks, vectors, strict=True)))
    return chunks


def nearest(path: Path, number: int, *, most: int = 1, dimension: int = 8, model: str = MODEL) -> list[str]:
    """What a search finds that opens the database for itself."""
    with closing(Store.open(path, clock=FakeClock())) as store:
        from scaffold.memory.vectors.database_search import open_searches

        found = open_searches(store.knowledge, path.parent / "cache").search_of(MEMORIES, model)
        hits = found.search(unit(number, dimension), most=most)
        return [each.id for each in store.knowledge.chunks.with_numbers(seq for seq, _ in hits)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


def test_a_search_reads_only_what_has_changed_since_the_last_one(path: Path) -> None:
    """RA-7: also if the database was closed in between, and others wrote to it."""
    with closing(Store.open(path, clock=FakeClock())) as store:
        chunks = put(store, *range(100))
        assert nearest(path, 7) == ["c7"]
        with closing(sqlite3.connect(path)) as raw, raw:
            raw.execute("UPDATE embedding SET vector = ? WHERE chunk_seq = ?", (unit(9), chunks[8].seq))
        assert nearest(path, 8) == ["c8"], "what was not changed by our own program is not read again"
        put(store, 100)
        assert nearest(path, 100) == ["c100"]
        assert nearest(path, 8) == ["c8"]
        with store.transaction():
            store.knowledge.forget([chunks[7].id])
        assert nearest(path, 7) != ["c7"]
        with store.transaction():
            store.knowledge.embeddings.put(MODEL, [(chunks[8], unit(7))])
        assert nearest(path, 7) == ["c8"], "a vector that was replaced counts once, and anew"
        assert nearest(path, 7, most=200).count("c8") == 1


def test_another_model_and_a_restored_backup_are_read_anew(path: Path, tmp_path: Path) -> None:
    """RA-7: its numbers come back with a backup, but not what they stood for."""
    with closing(Store.open(path, clock=FakeClock())) as store:
        put(store, *range(10))
    backup = shutil.copy(path, tmp_path / "backup")
    with closing(Store.open(path, clock=FakeClock())) as store:
        put(store, *range(10, 20))
    assert nearest(path, 15) == ["c15"]
    shutil.copy(backup, path)
    assert nearest(path, 15) != ["c15"]
    with closing(Store.open(path, clock=FakeClock())) as store:
        put(store, *range(30, 40))
    assert nearest(path, 15) != ["c15"], "with the same number of the last change as before"
    assert nearest(path, 35) == ["c35"]
    with closing(Store.open(path, clock=FakeClock())) as store:
        put(store, *range(40, 45), dimension=4, model="other")
    assert sorted(nearest(path, 41, most=99, dimension=4, model="other")) == [f"c{n}" for n in range(40, 45)]


def test_what_is_forgotten_leaves_the_memory_of_the_process(path: Path) -> None:
    """RA-6: at the next search if another process forgot it, at once if this one did."""
    matrices: list[Any] = []
    from scaffold.memory.embedders.vector_bytes import unpacked

    rows = unpacked([unit(7)])[0].tobytes()

    def has_it() -> bool:
        from scaffold.memory.vectors.memory_cache import _kept as searches

        tables = [each._table for key, each in searches.items() if key.database == str(path)]
        assert not any(each._matrix[len(each) :].any() for each in tables), "room for more has what others had freed"
        matrices.extend(each._matrix for each in tables)
        return any(rows in each.tobytes() for each in matrices)

    with closing(Store.open(path, clock=FakeClock())) as store:
        chunks = put(store, *range(20))
        # Memory that was freed, of about the size of a matrix with its room for more, still has the vector.
        copies = [rows * (2_070 + count % 20) for count in range(200)]
        del copies[::2]
        nearest(path, 7)
        assert has_it()
        with store.transaction():
            store.knowledge.forget([chunks[7].id])
        nearest(path, 3)
        assert not has_it()
        put(store, 7)
        nearest(path, 7)
        assert has_it()
    let_go(str(path), MEMORIES)
    assert not has_it()


def test_a_large_collection_is_searched_without_keeping_its_vectors(path: Path) -> None:
    """RA-7: with the same results."""
    from scaffold.memory.vectors.database_search import VectorSearch
    from scaffold.memory.vectors.index_file import IndexFolder

    with closing(Store.open(path, clock=FakeClock())) as store:
        put(store, *range(60))
        collection = store.knowledge.collections.get(MEMORIES)
        folder = IndexFolder(path.parent / "cache")
        large = VectorSearch(collection, folder, most_kept=50)
        usual = VectorSearch(collection, folder)
        for number in range(5):
            for among in (None, {chunk.seq for chunk in store.knowledge.chunks.newest(MEMORIES, most=20)}):
                expected = usual.search(store.knowledge.embeddings, unit(number), most=7, among=among)
                again = large.search(store.knowledge.embeddings, unit(number), most=7, among=among)
                assert dict(again) == pytest.approx(dict(expected))
        assert (len(large), len(usual)) == (0, 60)


def test_a_memory_that_counts_again_gets_its_vector_back(path: Path) -> None:
    """RA-6: what has no vector is looked for among what has changed."""
    with closing(Store.open(path, clock=FakeClock())) as store:
        one, *_ = put(store, 1, 2)
        embeddings = store.knowledge.embeddings
        seen = embeddings.moment().number
        for state in ("superseded", "active"):
            with store.transaction():
                store.knowledge.chunks.change(msgspec.structs.replace(one, state=state))
        assert embeddings.missing(MEMORIES, most=9, after=seen) == embeddings.missing(MEMORIES, most=9) == (one.seq,)


def test_forgetting_deletes_what_was_left_of_an_index_that_was_being_written(tmp_path: Path) -> None:
    """RA-6: its process was killed, or is still writing; that one then makes none."""
    folder = tmp_path / "cache"
    index = index_path(folder, MEMORIES)
    write_atomic(index, b"old")
    other = index_path(folder, CollectionName("other"))
    write_atomic(other, b"old")
    (folder / f"{own_mark()}half").write_bytes(b"vectors")
    delete_index(folder, MEMORIES)
    assert list(folder.iterdir()) == [other]


def test_an_index_is_not_kept_if_something_in_it_was_forgotten_while_it_was_made(tmp_path: Path, path: Path) -> None:
    """RA-6: it is deleted by who made it, as who forgot found no file."""
    from scaffold.memory.vectors.index_file import IndexFolder

    with closing(Store.open(path, clock=FakeClock())) as store, closing(Store.open(path, clock=FakeClock())) as another:
        chunks = put(store, *range(30))
        collection = store.knowledge.collections.get(MEMORIES)

        class Slow(IndexFolder):  # type: ignore[misc,valid-type]
            """Something is forgotten when the file has been computed, before it is written."""

            def _write_files(self, *args: Any) -> None:
                with another.transaction():
                    another.knowledge.forget([chunks[3].id])
                delete_index(tmp_path / "cache", MEMORIES)
                super()._write_files(*args)

        assert IndexFolder(tmp_path / "cache", exact_until=9).make(collection, store.knowledge.embeddings)
        assert index_path(tmp_path / "cache", MEMORIES).exists()
        assert not Slow(tmp_path / "cache", exact_until=9).make(collection, store.knowledge.embeddings)
        assert not index_path(tmp_path / "cache", MEMORIES).exists()
