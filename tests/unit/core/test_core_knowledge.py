"""Values of what is known: defaults that others rely on."""

from datetime import UTC, datetime

from scaffold.core.knowledge import (
    CAPACITIES,
    MEMORIES,
    Chunk,
    ChunkFilter,
    ChunkId,
    Collection,
    CollectionName,
    DocumentId,
    Span,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_an_index_of_memories_holds_100_000() -> None:
    """RA-7."""
    assert CAPACITIES[MEMORIES] == 100_000


def test_a_search_looks_at_what_counts_unless_it_is_asked_otherwise() -> None:
    """RA-6."""
    assert ChunkFilter().states == ("active", "unconfirmed")
    assert Span().page == 0


def test_an_index_has_given_vectors_if_it_has_a_dimension_and_no_model() -> None:
    """RA-7: from its creation on."""
    kinds = ("", 0), ("", 3), ("mini", 3)
    made = [
        Collection(name=CollectionName("x"), model=model, dimension=dimension, capacity=1, created_at=NOW)
        for model, dimension in kinds
    ]
    assert [each.has_given_vectors for each in made] == [False, True, False]


def test_a_text_is_stored_once_at_each_place_of_a_document() -> None:
    """RA-7."""
    chunk = Chunk(
        id=ChunkId("c"),
        collection=MEMORIES,
        text="x",
        sha256="0",
        document=DocumentId("d"),
        span=Span(3, 4),
        valid_from=NOW,
        created_at=NOW,
    )
    assert chunk.place == ("d", 3)
