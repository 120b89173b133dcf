"""Rankings are joined by the places of their items."""

from hypothesis import given
from hypothesis import strategies as st

from scaffold.memory.hybrid import fuse


def test_what_both_rankings_have_comes_before_what_one_has():
    assert fuse(["a", "b", "c"], ["d", "b", "e"]) == ("b", "a", "d", "c", "e")


@given(rankings=st.lists(st.lists(st.integers(0, 9), max_size=9), max_size=4))
def test_each_item_is_there_once_and_a_single_ranking_keeps_its_order(rankings):
    """RA-7: hybrid search."""
    fused = fuse(*rankings)
    assert sorted(fused) == sorted({item for ranking in rankings for item in ranking})
    for ranking in rankings:
        assert fuse(ranking, ranking) == tuple(dict.fromkeys(ranking))
