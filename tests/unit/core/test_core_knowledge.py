"""Values of what is known: defaults that others rely on."""

from scaffold.core.knowledge import CAPACITIES, MEMORIES, ChunkFilter, Span


def test_an_index_of_memories_holds_100_000() -> None:
    """RA-7."""
    assert CAPACITIES[MEMORIES] == 100_000


def test_a_search_looks_at_what_counts_unless_it_is_asked_otherwise() -> None:
    """RA-6."""
    assert ChunkFilter().states == ("active", "unconfirmed")
    assert Span().page == 0
