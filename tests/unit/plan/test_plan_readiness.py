from scaffold.plan.graph.readiness import blocked_by_failure
from support.plans import node

NOTHING = frozenset()


def stranded(*actions, facts=NOTHING):
    """Return the stranded actions, each with the one that strands it."""
    return {
        key: reason.removeprefix("dependency_failed:") for key, reason in blocked_by_failure(actions, facts).items()
    }


FAILED = node("a", "failed", gives="x")
NEEDS_X = node("b", needs="x", gives="y")
NEEDS_Y = node("c", needs="y")
STRANDED = {
    "every action behind a failure": ((FAILED, NEEDS_X, NEEDS_Y, node("free", gives="z")), {"b": "a", "c": "a"}),
    "not by a provider that needs the same assertion": ((FAILED, node("b", needs="x", gives="x")), {"b": "a"}),
    "children of a stranded parent": (
        (FAILED, node("p", needs="x", kind="compound"), node("c", parent="p")),
        {"p": "a", "c": "a"},
    ),
    "not by a running compound, whose further children can close the gap": (
        (node("p", "running", gives="x", kind="compound"), node("a", "failed", parent="p", gives="x"), NEEDS_X),
        {},
    ),
    "the reason is the root behind actions that were blocked earlier": (
        (FAILED, node("b", "blocked", needs="x", gives="y"), NEEDS_Y),
        {"c": "a"},
    ),
    "an action blocked for its own reason is a root": ((node("b", "blocked", gives="y"), NEEDS_Y), {"c": "b"}),
    "the nearest of several roots, then the first": (
        (
            node("a", "failed", gives="w"),
            node("b", "failed", gives="x"),
            node("far", needs="w", gives="v"),
            node("c", needs="v x w"),
            node("d", needs="v x"),
        ),
        {"far": "a", "c": "a", "d": "b"},
    ),
    "neither without any provider nor in a cycle, which are left to lint": (
        (FAILED, node("n", needs="nobody"), node("q", needs="q", gives="r"), node("r", needs="r", gives="q")),
        {},
    ),
    "not with a missing parent": ((node("c", parent="nobody"), FAILED), {}),
}


def test_a_failure_strands_what_nothing_else_can_provide_for():
    """SC-4, SC-5."""
    assert {name: stranded(*actions) for name, (actions, _) in STRANDED.items()} == {
        name: reasons for name, (_, reasons) in STRANDED.items()
    }


def test_cancelled_and_skipped_actions_strand_others_like_failed_ones():
    """SC-5: also the children of a parent, and with them those who wait."""
    for status in ("failed", "cancelled", "skipped"):
        assert stranded(node("a", status, gives="x"), NEEDS_X) == {"b": "a"}, status
        family = (node("p", status, kind="compound"), node("c", parent="p", gives="x"), node("after", needs="x"))
        assert stranded(*family) == {"c": "p", "after": "p"}, status


def test_another_possible_provider_prevents_stranding():
    for status in ("pending", "running", "verifying", "landing", "completed"):
        assert stranded(FAILED, node("other", status, gives="x"), NEEDS_X) == {}, status
    assert stranded(FAILED, NEEDS_X, facts=frozenset({"x"})) == {}


def test_an_action_that_waits_for_a_human_strands_no_action():
    """BX-13: a decision may let it continue at any time."""
    asks = node("asks", "waiting", needs="gone", gives="x")
    assert stranded(FAILED, asks, NEEDS_X, node("p", "waiting", kind="compound"), NEEDS_Y) == {}
