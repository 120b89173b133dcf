"""Documents in both databases: how far each is read, and what goes with it."""

from pathlib import Path

import pytest
from msgspec import structs

from scaffold.core.errors import StaleFence
from scaffold.core.knowledge import DOCUMENTS, Chunk, ChunkFilter, ChunkId, Document, DocumentId, Span
from scaffold.store.database import Store
from support.fake_clock import FakeClock

VECTOR = b"\x00\x3c\x00\x00"


def a_document(name: str, **fields) -> Document:
    given = {"name": "a.pdf", "source": "file:a.pdf", "sha256": name, "created_at": FakeClock().now(), **fields}
    return Document(id=DocumentId(name), collection=DOCUMENTS, **given)


def a_chunk(document: str, number: int, **fields) -> Chunk:
    now, start = FakeClock().now(), number * 10
    return Chunk(
        id=ChunkId(f"{document}{number}"),
        collection=DOCUMENTS,
        text="the walrus",
        sha256="same",
        document=DocumentId(document),
        span=Span(start, start + 9, number + 1),
        valid_from=now,
        created_at=now,
        **fields,
    )


def put(store: Store, document: Document, *chunks: Chunk) -> tuple[Chunk, ...]:
    with store.transaction():
        store.knowledge.collections.ensure(DOCUMENTS)
        store.knowledge.documents.add(document)
        return store.knowledge.chunks.add(chunks)


def found(store: Store) -> list[str]:
    chunks = store.knowledge.chunks
    return [each.id for each in chunks.with_numbers(chunks.search(DOCUMENTS, ["walrus"], ChunkFilter(), most=9))]


def test_only_one_of_two_processes_reads_a_document_further(store: Store) -> None:
    """RA-9."""
    begun = a_document("d")
    put(store, begun)
    further = structs.replace(begun, position=5, length=9, missing={"is empty": "3-4"})
    with store.transaction():
        store.knowledge.documents.move(begun, further)
    with pytest.raises(StaleFence), store.transaction():
        store.knowledge.documents.move(begun, further)
    assert store.knowledge.documents.get(begun.id) == further
    assert store.knowledge.documents.for_source(DOCUMENTS, "file:a.pdf") == (further,)


def test_chunks_of_a_new_version_are_found_once_it_is_complete(store: Store) -> None:
    """RA-9: and have no vector until then."""
    put(store, a_document("d"), a_chunk("d", 0, state="pending"), a_chunk("d", 1, state="pending"))
    knowledge, embeddings = store.knowledge, store.knowledge.embeddings
    seen = embeddings.moment().number
    assert (found(store), embeddings.missing(DOCUMENTS, most=9)) == ([], ())
    assert embeddings.missing(DOCUMENTS, most=9, after=seen - 2) == ()
    with store.transaction():
        knowledge.documents.activate(DocumentId("d"))
    assert found(store) == ["d0", "d1"]
    assert len(embeddings.missing(DOCUMENTS, most=9)) == 2
    assert embeddings.missing(DOCUMENTS, most=9, after=seen) == embeddings.missing(DOCUMENTS, most=9)


def test_a_document_goes_with_its_chunks_and_vectors(store: Store) -> None:
    """RA-9: what an index outside of the database has to drop is noted."""
    kept, gone = a_document("k", source="file:b"), a_document("g")
    chunks = (*put(store, kept, a_chunk("k", 0)), *put(store, gone, a_chunk("g", 0), a_chunk("g", 1)))
    knowledge = store.knowledge
    with store.transaction():
        knowledge.collections.set_model(DOCUMENTS, "m", 2)
        knowledge.embeddings.put("m", [(each, VECTOR) for each in chunks])
    before = knowledge.embeddings.moment().number
    documents = knowledge.documents
    assert (documents.chunks(gone.id), documents.vectors(gone.id), documents.end(gone.id)) == (2, 2, 19)
    with store.transaction():
        knowledge.documents.forget_for_good(gone.id)
    assert (found(store), knowledge.embeddings.count(DOCUMENTS), documents.end(gone.id)) == (["k0"], 1, -1)
    after = knowledge.embeddings.moment().number
    assert knowledge.embeddings.removed_between(DOCUMENTS, before, after) == {each.seq for each in chunks[1:]}
    assert documents.all() == documents.all(DOCUMENTS) == (kept,)


def test_the_text_of_a_forgotten_document_is_nowhere_in_the_file(file_store: Store, path: Path) -> None:
    """RA-9."""
    put(file_store, a_document("d"), a_chunk("d", 0))
    with file_store.transaction():
        file_store.knowledge.documents.forget_for_good(DocumentId("d"))
    assert file_store.knowledge.empty_log()
    assert all(b"walrus" not in each.read_bytes() for each in path.parent.iterdir() if each.is_file())
