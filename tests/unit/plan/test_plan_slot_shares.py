"""The slots of a run are shared fairly among its goals, and landing keeps up."""

from hypothesis import given
from hypothesis import strategies as st

from scaffold.core.ids import GoalId
from scaffold.plan.slot_shares import CANDIDATES_PER_AGENT, SlotDemand, free_slots, share_slots


def wants(goal, wanted=9, *, working=0, served=0):
    return SlotDemand(goal=GoalId(goal), working=working, wanted=wanted, served=served)


def yes(_):
    return True


def test_slots_are_free_below_the_agents_and_while_landing_keeps_up():
    """SC-15: attempts that run count as candidates to come, so the limit holds whatever they do."""
    free = {(0, 0): 4, (3, 0): 1, (4, 0): 0, (5, 0): 0, (0, 4): 4, (0, 5): 3, (2, 4): 2, (3, 5): 0, (0, 8): 0}
    assert {at: free_slots(4, taken=at[0], unlanded=sum(at)) for at in free} == free


@given(st.integers(1, 30), st.lists(st.sampled_from(["start", "ask", "go on", "submit", "land"]), max_size=300))
def test_no_more_than_twice_the_agents_wait_to_land(agents, steps):
    """AL-13: whether they waited for a human before or not."""
    working = waiting = candidates = 0
    for step in steps:
        if step == "start" and free_slots(agents, taken=working, unlanded=working + waiting + candidates):
            working += 1
        elif step == "ask" and working and waiting < agents:
            working, waiting = working - 1, waiting + 1
        elif step == "go on" and waiting and working < agents:
            working, waiting = working + 1, waiting - 1
        elif step == "submit" and working:
            working, candidates = working - 1, candidates + 1
        elif step == "land" and candidates:
            candidates -= 1
        assert working <= agents
        assert candidates <= CANDIDATES_PER_AGENT * agents


def test_the_next_slot_goes_to_the_goal_with_the_fewest_that_waited_longest():
    rows = (
        ([], 3, {}),
        ([wants("a")], 0, {}),
        ([wants("a")], 3, {"a": 3}),
        ([wants("a", 0), wants("b")], 1, {"b": 1}),
        ([wants("a"), wants("b")], 3, {"a": 2, "b": 1}),
        ([wants("a", working=2), wants("b")], 3, {"a": 1, "b": 2}),
        ([wants("a", working=2), wants("b")], 2, {"b": 2}),
        ([wants("a", 1), wants("b", 1)], 9, {"a": 1, "b": 1}),
        ([wants("a", served=7), wants("b", served=3), wants("c", served=5)], 2, {"b": 1, "c": 1}),
        ([wants("a", served=7), wants("b"), wants("c", served=5)], 1, {"b": 1}),
    )
    assert [(demands, free, share_slots(demands, free, yes)) for demands, free, _ in rows] == list(rows)


def test_a_goal_that_is_reached_needs_no_slot_and_is_asked_only_in_its_turn():
    asked = []

    def needed(goal):
        asked.append(goal)
        return goal != "a"

    demands = [wants("a"), wants("b", served=1), wants("c", served=2)]
    assert share_slots(demands, 1, needed) == {"b": 1}
    assert asked == ["a", "b"]


goals = st.lists(
    st.tuples(st.integers(0, 6), st.integers(0, 8), st.integers(0, 50)).map(
        lambda drawn: {"working": drawn[0], "wanted": drawn[1], "served": drawn[2]}
    ),
    max_size=12,
).map(lambda all_of: [wants(f"g{n}", **fields) for n, fields in enumerate(all_of)])


@given(goals, st.integers(0, 30))
def test_no_slot_is_wasted_and_no_goal_waits_for_one_that_holds_more(demands, free):
    """SC-15: work-conserving; a goal that still wants a slot has no fewer, less one, than one that got some."""
    shares = share_slots(demands, free, yes)
    assert sum(shares.values()) == min(free, sum(each.wanted for each in demands))
    held = {each.goal: each.working + shares.get(each.goal, 0) for each in demands}
    waiting = [each for each in demands if shares.get(each.goal, 0) < each.wanted]
    for each in demands:
        got = shares.get(each.goal, 0)
        assert got <= each.wanted
        assert all(held[each.goal] <= held[other.goal] + 1 for other in waiting if got)


@given(st.integers(2, 8), st.integers(1, 4), st.randoms(use_true_random=False))
def test_goals_get_slots_in_turn_whoever_asks_first(count, agents, rng):
    """SC-15: with endless work everywhere, no goal gets two slots more than another while that one holds fewer."""
    goals, working, served = [f"g{n}" for n in range(count)], [], {}
    for seq in range(1, 60):
        if len(working) == agents:
            working.pop(rng.randrange(agents))
        demands = [wants(goal, working=working.count(goal), served=served.get(goal, 0)) for goal in goals]
        shares = share_slots(demands, agents - len(working), yes)
        starts = rng.choice([goal for goal in goals if shares.get(goal)])
        if agents == 1:
            assert starts == min(goals, key=lambda goal: (served.get(goal, 0), goal)), "a single slot goes round"
        working.append(starts)
        served[starts] = seq
        assert max(map(working.count, goals)) <= -(-agents // count)
