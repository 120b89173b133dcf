from scaffold.plan.graph.readiness import blocked_by_failure, ready_actions
from support.plans import node

NOTHING = frozenset()


def test_an_action_is_ready_when_it_is_pending_and_its_preconditions_are_facts():
    """SC-4: no explicit edges; an assertion that no fact shows is false (SC-2)."""
    actions = [node("a", needs="x"), node("b", needs="x y"), node("c", "running"), node("d")]
    assert ready_actions(actions, frozenset({"x"})) == ("a", "d")


def test_a_child_is_ready_only_while_its_parent_runs():
    """SC-5."""
    for status, expected in {"pending": ("p",), "running": ("c",), "completed": (), "failed": ()}.items():
        assert ready_actions([node("p", status, kind="compound"), node("c", parent="p")], NOTHING) == expected


def test_a_failure_strands_every_action_behind_it():
    actions = [
        node("a", "failed", gives="x"),
        node("b", needs="x", gives="y"),
        node("c", needs="y"),
        node("free", gives="z"),
    ]
    reason = "dependency_failed:a"
    assert blocked_by_failure(actions, NOTHING) == {"b": reason, "c": reason}


def test_cancelled_and_skipped_actions_strand_others_like_failed_ones():
    for status in ("cancelled", "skipped"):
        actions = [node("a", status, gives="x"), node("b", needs="x")]
        assert blocked_by_failure(actions, NOTHING) == {"b": "dependency_failed:a"}


def test_another_possible_provider_prevents_stranding():
    for status in ("pending", "running", "verifying", "landing", "completed"):
        actions = [node("a", "failed", gives="x"), node("other", status, gives="x"), node("b", needs="x")]
        assert blocked_by_failure(actions, NOTHING) == {}


def test_an_action_that_waits_for_a_human_strands_no_action():
    """BX-13: a decision may let it continue at any time."""
    actions = [
        node("failed", "failed", gives="x"),
        node("asks", "waiting", needs="gone", gives="x"),
        node("b", needs="x", gives="y"),
        node("p", "waiting", kind="compound"),
        node("c", needs="y"),
    ]
    assert blocked_by_failure(actions, NOTHING) == {}
    assert ready_actions(actions, frozenset({"gone"})) == ()


def test_a_provider_that_needs_the_same_assertion_does_not_help():
    actions = [node("a", "failed", gives="x"), node("b", needs="x", gives="x")]
    assert blocked_by_failure(actions, NOTHING) == {"b": "dependency_failed:a"}


def test_a_fact_that_holds_strands_no_action():
    assert blocked_by_failure([node("a", "failed", gives="x"), node("b", needs="x")], frozenset({"x"})) == {}


def test_children_are_stranded_with_their_parent_and_with_them_those_who_wait():
    """SC-5."""
    for status in ("failed", "cancelled", "skipped"):
        actions = [
            node("p", status, kind="compound"),
            node("c", parent="p", gives="x"),
            node("after", needs="x"),
        ]
        assert blocked_by_failure(actions, NOTHING) == dict.fromkeys(["c", "after"], "dependency_failed:p")


def test_children_of_a_stranded_parent_are_stranded():
    actions = [
        node("a", "failed", gives="x"),
        node("p", needs="x", kind="compound"),
        node("c", parent="p"),
    ]
    assert blocked_by_failure(actions, NOTHING) == dict.fromkeys(["p", "c"], "dependency_failed:a")


def test_a_running_compound_may_still_provide_its_effects():
    """SC-5: further children can close the gap."""
    actions = [
        node("p", "running", gives="x", kind="compound"),
        node("c", "failed", parent="p", gives="x"),
        node("after", needs="x"),
    ]
    assert blocked_by_failure(actions, NOTHING) == {}


def test_the_reason_names_the_root_behind_actions_blocked_earlier():
    actions = [
        node("a", "failed", gives="x"),
        node("b", "blocked", needs="x", gives="y"),
        node("c", needs="y"),
    ]
    assert blocked_by_failure(actions, NOTHING) == {"c": "dependency_failed:a"}


def test_an_action_blocked_for_its_own_reason_is_a_root():
    actions = [node("b", "blocked", gives="y"), node("c", needs="y")]
    assert blocked_by_failure(actions, NOTHING) == {"c": "dependency_failed:b"}


def test_the_nearest_of_several_roots_is_named_and_then_the_first():
    actions = [
        node("a", "failed", gives="w"),
        node("b", "failed", gives="x"),
        node("far", needs="w", gives="v"),
        node("c", needs="v x w"),
        node("d", needs="v x"),
    ]
    reasons = blocked_by_failure(actions, NOTHING)
    assert reasons["c"] == "dependency_failed:a"
    assert reasons["d"] == "dependency_failed:b"


def test_an_action_that_no_failure_blocks_is_not_stranded():
    """A precondition without any provider, and a cycle, are left to lint."""
    actions = [
        node("failed", "failed", gives="x"),
        node("a", needs="nobody"),
        node("b", needs="q", gives="r"),
        node("c", needs="r", gives="q"),
    ]
    assert blocked_by_failure(actions, NOTHING) == {}


def test_an_action_with_a_missing_parent_waits_but_is_not_stranded():
    assert blocked_by_failure([node("c", parent="nobody"), node("a", "failed")], NOTHING) == {}
