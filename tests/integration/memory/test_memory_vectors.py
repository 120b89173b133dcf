"""Search by meaning with the extra `memory`: exact, and by an index file that may be lost or broken at any time."""

from pathlib import Path

import msgspec
import pytest

from integration.memory.builders import needs_extra
from scaffold.core.knowledge import MEMORIES
from scaffold.memory.memories import Memories
from scaffold.memory.vectors.memory_cache import index_folder, index_path, let_go
from scaffold.session.memory.commands import searched
from scaffold.store.database import Store

pytestmark = needs_extra

CAT, FELINE = "The cat sat on the mat", "feline resting on a rug"


@pytest.fixture
def memories(memories_by_meaning: Memories) -> Memories:
    return memories_by_meaning


async def best(memories: Memories, query: str) -> str:
    return (await memories.find(query, most=3))[0].memory.chunk.text


async def test_a_memory_is_found_by_its_meaning_once_its_vector_is_there(memories: Memories, store: Store) -> None:
    """RA-6, RA-8: vectors are filled in by the first search; remembering asks no model."""
    memories.remember(CAT, source="user")
    memories.remember("Deployments happen on Fridays", source="user")
    assert store.knowledge.embeddings.count(MEMORIES) == 0
    assert await best(memories, FELINE) == CAT
    assert store.knowledge.embeddings.count(MEMORIES) == 2
    memory = memories.newest(most=9)[0]
    memories.edit(memory, text="We eat pizza on Mondays")
    assert store.knowledge.embeddings.count(MEMORIES) == 1
    assert await best(memories, FELINE) == CAT
    memories.forget(memories.newest(most=9))
    assert store.knowledge.embeddings.count(MEMORIES) == 0
    assert await memories.find(FELINE, most=3) == []


async def test_half_a_model_file_leaves_search_by_words(memories: Memories, store: Store, tmp_path: Path) -> None:
    """RA-8."""
    from scaffold.memory.embedders.minilm import MiniLM

    whole = MiniLM()._path.read_bytes()
    (tmp_path / "half.onnx").write_bytes(whole[: len(whole) // 2])
    memories.remember(CAT, source="user")
    from scaffold.memory.hybrid import VectorLeg
    from scaffold.memory.vectors.database_search import open_searches

    leg = VectorLeg(MiniLM(tmp_path / "half.onnx"), open_searches(store.knowledge, tmp_path / "cache"))
    memories.databases.legs["project"] = leg
    assert await best(memories, "cat") == CAT
    *_, last = (await searched(memories, "cat", width=80)).text.splitlines()
    assert "by words alone" in last
    assert "pip install" in last


@pytest.mark.slow
async def test_a_lost_or_broken_index_file_changes_no_result(memories: Memories, store: Store, tmp_path: Path) -> None:
    """RA-7: HNSW above 20,000 vectors; forgetting deletes the file."""
    from numpy import random as numpy

    from scaffold.memory.embedders.vector_bytes import packed

    random, leg = numpy.default_rng(1), memories.databases.leg("project")
    rows = packed(random.standard_normal((20_500, 384)).astype("float32"))
    template = memories.remember("Note 0", source="user").memory.chunk
    with store.transaction():
        chunks = store.knowledge.chunks.add(
            [
                msgspec.structs.replace(template, id=f"n{n}", text=f"Note {n}", sha256=str(n), seq=0)
                for n in range(1, len(rows))
            ]
        )
        store.knowledge.collections.set_model(MEMORIES, leg.embedder.model, 384)
        store.knowledge.embeddings.put(leg.embedder.model, list(zip(chunks, rows[1:], strict=True)))
    search = leg.vectors.search_of(MEMORIES, leg.embedder.model)
    queries = rows[100:120]
    exact = [search.search(each, most=5) for each in queries]
    assert (await memories.index())[1] == 1
    file = index_path(index_folder(tmp_path / "cache", store.name), MEMORIES)
    assert file.exists()
    assert [search.search(each, most=1)[0][0] for each in queries] == [each[0][0] for each in exact]
    content = file.read_bytes()
    for broken in (content[: len(content) // 2], b"", content[:-1] + bytes([content[-1] ^ 1])):
        file.write_bytes(broken)
        let_go(store.name, MEMORIES)  # as in a new process, which has not read it yet
        from scaffold.memory.vectors.database_search import open_searches

        fresh = open_searches(store.knowledge, file.parent)
        again = [fresh.search_of(MEMORIES, leg.embedder.model).search(each, most=5) for each in queries]
        assert [[key for key, _ in each] for each in again] == [[key for key, _ in each] for each in exact]
    file.write_bytes(content)
    memories.forget([memories.by_prefix(chunks[100].id)[0]])
    assert not file.exists()
