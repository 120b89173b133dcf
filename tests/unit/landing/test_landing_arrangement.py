"""The order of the merge queue, as a pure function."""

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from scaffold.landing.queue.arrangement import MOST_OVERTAKEN, QueuedCandidate, arrange, count_apart

FACT = ("goal", "done")


def candidate(name, *paths, **fields):
    return QueuedCandidate(**{"id": name, "paths": frozenset(paths), "proves": frozenset(), **fields})


def test_candidates_with_other_paths_and_facts_are_proven_side_by_side():
    """AL-13, BX-6: in the order in which they were handed in."""
    found = arrange([candidate("a", "x"), candidate("b", "y"), candidate("c", "z")], {})
    assert (found.lanes, found.waiting) == (("a", "b", "c"), {})


def test_a_candidate_waits_for_those_with_which_it_shares_a_fact_or_a_foundation():
    """AL-13, BX-6: one that shares a path alone is proven on top of them."""
    candidates = [
        candidate("a", "x", "w", proves=frozenset({FACT})),
        candidate("same path", "x", "y"),
        candidate("same fact", "z", proves=frozenset({FACT})),
        candidate("builds on", "v", relies_on=frozenset({"w"})),
        candidate("needs", "t", needs=frozenset({FACT})),
        candidate("other", "o"),
    ]
    found = arrange(candidates, {})
    assert found.lanes == ("a", "same path", "other")
    assert found.waiting == dict.fromkeys(("same fact", "builds on", "needs"), ("a",))


def test_lanes_land_together_up_to_the_first_that_changes_what_one_ahead_of_it_changes():
    """AL-13, BX-6: what the one ahead was proven by may not hold any more then, so that it is checked once more."""
    x, y = frozenset({"x"}), frozenset({"y"})
    assert [count_apart(each) for each in ([], [x], [x, y], [x, y, x], [x, x, y])] == [0, 1, 2, 2, 1]


def test_a_forecasted_conflict_keeps_candidates_apart_and_the_one_with_the_fewest_goes_first():
    """AL-4, BX-6: landing `all` first would have three candidates done again, landing it last only one."""
    conflicts = {"all": dict.fromkeys("bcd", ("f",))} | {each: {"all": ("f",)} for each in "bcd"}
    found = arrange([candidate("all", "1"), *(candidate(each, each) for each in "bcd")], conflicts)
    assert (found.lanes, found.waiting) == (("b", "c", "d"), {"all": ("b", "c", "d")})


def test_a_candidate_that_was_overtaken_too_often_goes_first():
    """BX-6: whatever it conflicts with, it does not starve."""
    conflicts = {"old": {"b": ("f",), "c": ("f",)}, "b": {"old": ("f",)}, "c": {"old": ("f",)}}
    old = candidate("old", "1", overtaken=MOST_OVERTAKEN)
    found = arrange([old, candidate("b", "2"), candidate("c", "3")], conflicts)
    assert (found.lanes, found.waiting) == (("old",), {"b": ("old",), "c": ("old",)})


def test_no_candidate_joins_the_lanes_while_one_waits_that_was_overtaken_too_often():
    """BX-6: otherwise those that arrive later could keep it waiting for ever."""
    old = candidate("old", "x", overtaken=MOST_OVERTAKEN, proves=frozenset({FACT}))
    first = candidate("a", "y", proves=frozenset({FACT}))
    found = arrange([old, first, candidate("new", "n")], {}, started=("a",))
    assert found.lanes == ("a",)
    assert list(found.waiting) == ["old", "new"]


def test_a_candidate_that_failed_behind_others_is_not_proven_behind_them_again():
    """BX-6: others are; it waits until these have landed or have been refused."""
    found = arrange([candidate("a", "x"), candidate("b", "y", barred=True), candidate("c", "z")], {}, started=("a",))
    assert (found.lanes, found.waiting) == (("a", "c"), {"b": ("a",)})
    assert arrange([candidate("b", "y", barred=True)], {}).lanes == ("b",)


NAMES = st.sampled_from("abcdefgh")
CANDIDATES = st.lists(
    st.builds(
        QueuedCandidate,
        id=NAMES,
        paths=st.frozensets(st.sampled_from("uvwxyz"), max_size=3),
        proves=st.frozensets(st.sampled_from([FACT, ("goal", "other")]), max_size=1),
        relies_on=st.frozensets(st.sampled_from("uvwxyz"), max_size=2),
        needs=st.frozensets(st.sampled_from([FACT, ("goal", "other")]), max_size=1),
        overtaken=st.integers(0, MOST_OVERTAKEN + 1),
        barred=st.booleans(),
    ),
    unique_by=lambda each: each.id,
    max_size=8,
)


@given(CANDIDATES, st.lists(NAMES, unique=True, max_size=3), st.integers(1, 9), st.sets(st.tuples(NAMES, NAMES)))
def test_every_candidate_has_one_place_and_those_that_join_the_lanes_meet_no_other(candidates, started, most, pairs):
    """BX-6: for any candidates, forecasts and lanes."""
    known = {each.id: each for each in candidates}
    started = [each for each in started if each in known]
    conflicts = {one: {other: ("f",) for other in known if {(one, other), (other, one)} & pairs} for one in known}
    found = arrange(candidates, conflicts, started=started, most=most)
    assert sorted((*found.lanes, *found.waiting)) == sorted(known)
    assert list(found.lanes[: len(started)]) == started
    assert len(found.lanes) <= max(most, len(started))
    assert found.lanes or not known, "something can always be proven"
    for one, other in combinations(found.lanes, 2):
        if other not in started:
            assert not known[one].proves & known[other].proves
            assert not known[one].relies_on & known[other].paths
            assert not known[other].relies_on & known[one].paths
            assert not known[one].needs & known[other].proves
            assert not known[other].needs & known[one].proves
            assert not known[other].barred
            assert other not in conflicts[one]
    for waits, ahead in found.waiting.items():
        assert waits not in ahead
        assert set(ahead) <= set(found.lanes)
