from inline_snapshot import snapshot

from scaffold.core.plan import ActionSpec, Finding, Plan
from scaffold.plan.analysis.lint import lint
from support.findings import fault
from support.plans import action, compound, goal


def report(wanted, *actions):
    return lint(Plan(goals=(goal(wanted, *actions),)))


def said(linted):
    return [(finding.code, finding.action) for finding in linted.findings]


def only(linted, code):
    (finding,) = [finding for finding in linted.findings if finding.code == code]
    return finding


def test_a_plan_that_reaches_its_goal_has_no_findings():
    """BX-7."""
    linted = report("c", action("one", gives="a"), action("two", "a", "b"), action("three", "a b", "c"))
    assert linted.findings == ()
    assert linted.valid
    assert linted.actions == 3


def test_an_unprovided_precondition_is_reported_with_a_suggestion():
    """BX-7."""
    linted = report("done", action("store", gives="store_works"), action("api", "store_work", "done"))
    finding = only(linted, "unprovided-precondition")
    assert not linted.valid
    assert (finding.goal, finding.action, finding.severity) == ("g", "api", "error")
    assert finding.message == snapshot("action `api` needs `store_work`, which no action of goal `g` makes true")
    assert finding.fix.startswith("Did you mean `store_works`? Add an action with the effect `store_work`")


def test_a_precondition_unlike_any_effect_gets_no_suggestion():
    finding = only(report("a", action("one", "zzz", "a")), "unprovided-precondition")
    assert finding.fix.startswith("Add an action")


def test_a_precondition_provided_only_in_another_goal_is_unprovided():
    """SC-2."""
    plan = Plan(goals=(goal("a", action("one", gives="a")), goal("b", action("two", "a", "b"), name="h")))
    finding = only(lint(plan), "unprovided-precondition")
    assert (finding.goal, finding.action) == ("h", "two")
    assert finding.fix.startswith("Facts are per goal, and only goal `g` provides `a`")


def test_a_cycle_is_listed_in_order_from_its_first_action():
    """BX-7."""
    linted = report("x", action("a", "y", "x"), action("b", "z", "y"), action("c", "x", "z"))
    finding = only(linted, "cycle")
    assert finding.message == snapshot("actions wait for each other: a -> b -> c -> a")
    assert finding.action == "a"
    assert "`y` of `a`" in finding.fix


def test_actions_that_only_wait_behind_a_fault_are_not_reported():
    """BX-7."""
    linted = report(
        "done",
        action("late", "x w", "v"),
        action("a", "y", "x"),
        action("b", "x", "y"),
        action("blind", "nobody", "w"),
        action("last", "v", "done"),
    )
    errors = [(f.code, f.action) for f in linted.findings if f.severity == "error"]
    assert errors == [("unprovided-precondition", "blind"), ("cycle", "a"), ("unreachable-goal", None)]


RINGS = {
    "a cycle entered in its middle starts with its first action": (
        ("q", action("in", "y q", "w"), action("a", "y", "x"), action("b", "x", "y q")),
        ["a -> b -> a"],
    ),
    # `a` and `b` need each other only because `c`, the other provider of `x`, cannot run.
    "a cycle with another provider is not blamed for the provider's fault": (
        (
            *("y", action("a", "x", "y"), action("b", "y", "x")),
            *(action("c", "v", "x"), action("d", "w", "v"), action("e", "v", "w")),
        ),
        ["d -> e -> d"],
    ),
    "every cycle of a connected component": (
        (
            *("x", action("a", "y z", "x"), action("b", "x", "y"), action("c", "x", "z")),
            *(action("d", "v y", "u"), action("e", "u", "v")),
        ),
        ["a -> b -> a", "d -> e -> d"],
    ),
    "two cycles in one component, one after the other": (
        (
            *("a", action("one", "b", "a"), action("two", "a c", "b")),
            *(action("three", "d a", "c"), action("four", "c", "d")),
        ),
        ["one -> two -> one", "three -> four -> three"],
    ),
    "a child waits for the preconditions of its parent": (
        ("a", compound("c", "b", "a"), action("child", gives="a", parent="c"), action("pre", "a", "b")),
        ["c -> pre -> child -> c"],
    ),
    "a parent that needs its child's effect": (
        ("a", compound("c", "a", "a"), action("child", gives="a", parent="c")),
        ["c -> child -> c"],
    ),
    "parents inside each other": (
        ("a", compound("p", gives="a", parent="q"), compound("q", gives="a", parent="p")),
        ["p -> q -> p"],
    ),
}


def test_each_plan_has_these_cycles():
    """BX-7, SC-5."""
    found = {
        name: [each for each in report(*given).findings if each.code == "cycle"] for name, (given, _) in RINGS.items()
    }
    assert {name: [each.message.rpartition(": ")[2] for each in cycles] for name, cycles in found.items()} == {
        name: rings for name, (_, rings) in RINGS.items()
    }
    assert found["parents inside each other"][0].fix == snapshot("Remove one `parent` on the cycle, e.g. that of `p`.")


def test_an_action_that_needs_its_own_effect_depends_on_itself():
    linted = report("x", action("a", "x", "x"))
    finding = only(linted, "self-dependency")
    assert finding.message == snapshot("action `a` waits for `x`, which only the action itself provides")
    assert said(linted) == [("self-dependency", "a"), ("unreachable-goal", None)]


def test_a_goal_without_providers_is_unreachable():
    """SC-3."""
    finding = only(report("done", action("a", gives="don")), "unreachable-goal")
    assert finding.action is None
    assert finding.message == snapshot("goal `g` is never reached: no action makes `done` true")
    assert finding.fix.startswith("Did you mean `don`?")


def test_an_unreachable_goal_names_its_providers_that_cannot_run():
    finding = only(report("done", action("a", "nobody", "done")), "unreachable-goal")
    assert finding.message == snapshot("goal `g` is never reached: `done` needs `a`, which cannot provide it")


def test_keys_and_goal_names_are_unique():
    goals = (goal("a", action("one", gives="a")), goal("a", action("one", gives="a")))
    linted = lint(Plan(goals=goals))
    assert said(linted) == [("duplicate-key", None), ("duplicate-key", "one")]
    assert not linted.valid
    assert said(lint(Plan(goals=(goal(""),) * 3))) == [("duplicate-key", None)]


def test_warnings_leave_a_plan_valid():
    linted = report("a", action("one", gives="a unused"), action("two", gives="a"), action("three"))
    assert said(linted) == [("empty-effects", "three"), ("unused-effect", "one"), ("duplicate-provider", "two")]
    assert linted.valid


def test_a_long_list_of_providers_is_shortened():
    linted = report("a", *(action(f"p{i}", gives="a") for i in range(7)))
    assert only(linted, "duplicate-provider").message.endswith("by `p0`, `p1`, `p2`, `p3`, `p4` and 2 more")


PLANS = {
    "actions in any order": (("c", action("two", "a", "c"), action("one", gives="a")), []),
    "an action may need its own effect if another provides it": (
        ("x", action("a", "x", "x"), action("b", gives="x")),
        [("duplicate-provider", "b")],
    ),
    "a key that is used three times is reported once": (
        ("a b c", *(action("one", gives=effect) for effect in "abc")),
        [("duplicate-key", "one")],
    ),
    "the first of several actions with one key is the parent": (
        ("a b", compound("p", gives="a"), action("p", gives="b"), action("child", gives="a", parent="p")),
        [("duplicate-key", "p")],
    ),
    "a repeated assertion counts once": (
        ("a a", action("one", "", "a a"), action("two", "a a", "b b"), action("three", "b b nobody nobody")),
        [("unprovided-precondition", "three"), ("empty-effects", "three")],
    ),
    "a compound provides its effects until it has children": (
        ("b", compound("c", gives="a"), action("two", "a", "b")),
        [],
    ),
    "children provide for their parent without being duplicates": (
        ("a", compound("c", gives="a"), action("child", gives="a", parent="c")),
        [],
    ),
    "an effect of the parent is not unused by the child": (
        ("a", compound("c", gives="a extra"), action("child", gives="a extra", parent="c")),
        [("unused-effect", "c")],
    ),
    "actions that wait for a missing effect are not reported": (
        ("d", compound("c", gives="b"), action("child", "", "x", parent="c"), action("two", "b x", "d")),
        [("unreachable-goal", "c"), ("unreachable-goal", None)],
    ),
}


def test_each_plan_has_these_findings():
    """SC-5."""
    found = {name: said(report(*given)) for name, (given, _) in PLANS.items()}
    assert found == {name: findings for name, (_, findings) in PLANS.items()}


def test_children_that_do_not_provide_a_parents_effect_are_an_error():
    """SC-5."""
    linted = report("a b", compound("c", gives="a b"), action("child", gives="a", parent="c"))
    assert said(linted) == [("unreachable-goal", "c"), ("unreachable-goal", None)]
    assert linted.findings[0].message == snapshot("compound `c` promises `b`, but its children never make `b` true")
    assert linted.findings[1].message == snapshot("goal `g` is never reached: `b` needs `c`, which cannot provide it")


def test_an_invalid_parent_is_reported_at_the_child():
    for parent in ("nobody", "plain"):
        linted = report("a b", action("plain", gives="a"), action("child", gives="b", parent=parent))
        assert fault(only(linted, "unprovided-precondition")) == f"unprovided-precondition child {parent} g"


def test_a_compound_that_is_its_own_parent_depends_on_itself():
    finding = only(report("a", compound("p", gives="a", parent="p")), "self-dependency")
    assert (finding.message, finding.fix) == snapshot(("action `p` is its own parent", "Remove `parent`."))


def test_parser_findings_come_before_those_of_lint():
    warning = Finding(code="unknown-key", severity="warning", message="what?", fix="that")
    linted = report("a", action("one", gives="a b")).after([warning])
    assert [finding.code for finding in linted.findings] == ["unknown-key", "unused-effect"]
    assert linted.actions == 1


def test_a_plan_without_goals_has_no_findings_and_no_width():
    linted = lint(Plan(goals=()))
    assert (linted.findings, linted.width, linted.critical_path, linted.actions) == ((), 0, (), 0)


def given(facts, wanted, *actions):
    return lint(Plan(goals=(goal(wanted, *actions),)), {"g": tuple(facts.split())})


def test_an_assertion_that_holds_needs_no_provider():
    """BX-7: neither for an action, nor for the goal, nor for what a compound promises."""
    assert given("a", "b", action("two", "a", "b")).valid
    assert given("b", "b").valid
    assert given("b", "a b", compound("c", gives="a b"), action("child", gives="a", parent="c")).valid


def test_an_assertion_that_holds_breaks_cycles():
    """BX-7."""
    ring = (action("one", "b", "a"), action("two", "a", "b"))
    assert not given("", "a", *ring).valid
    assert given("a", "a", *ring).findings == ()
    assert given("a", "a", action("self", "a", "a")).findings == ()


def test_a_fact_of_one_goal_does_not_hold_in_another():
    """SC-2."""
    assert not lint(Plan(goals=(goal("b", action("two", "a", "b")),)), {"h": ("a",)}).valid


STEP = {"key": "US-1/step-001", "parent": "US-1", "method": "story", "workspace": "parent", "role": "final_review"}


def test_what_is_no_step_of_a_story_is_an_error():
    """DR-5: whoever planned it, as no step could be executed beside it."""
    changes = ({"key": "US-1/other"}, {"role": "implementation"}, {"workspace": "own"}, {"method": None})
    story = ActionSpec(key="US-1", kind="compound", method="story", effects=("done",))
    last = ActionSpec(**(STEP | {"effects": ("done",)}))
    assert report("done", story, last).findings == ()
    others = [ActionSpec(**(STEP | {"key": "US-1/step-002", "effects": ("done",)} | changed)) for changed in changes]
    linted = [report("done", story, last, other) for other in others]
    assert [only(each, "malformed-story").message for each in linted] == snapshot(
        [
            "action `US-1/other` is not a step of the story `US-1`: its key is not like `US-1/step-001`",
            "action `US-1/step-002` is not a step of the story `US-1`: its role `implementation` is not a step type",
            (
                "action `US-1/step-002` is not a step of the story `US-1`: it has to be a primitive with "
                "`workspace: parent` and `method: story`"
            ),
            (
                "action `US-1/step-002` is not a step of the story `US-1`: it has to be a primitive with "
                "`workspace: parent` and `method: story`"
            ),
        ]
    )


def test_a_story_without_a_final_review_is_an_error():
    """DR-5: nothing would land it."""
    story = ActionSpec(key="US-1", kind="compound", method="story", effects=("done",))
    linted = report("done", story, ActionSpec(**(STEP | {"effects": ("done",), "role": "coding"})))
    assert only(linted, "malformed-story").message == snapshot(
        "the story `US-1` has no step of type `final_review`, which lands it"
    )
