"""Changes an agent proposes to a plan: accepted if valid, else refused with an explanation."""

import pytest
from inline_snapshot import snapshot
from msgspec.structs import replace

from scaffold.core.plan import GoalSpec, Plan
from scaffold.plan.edit.draft import (
    WAITING,
    ChangeRejected,
    CreateActions,
    CreateGoal,
    PlanDraft,
    PlanHistory,
    ProposeAssertions,
    RetryApproach,
    UpdateAction,
)
from scaffold.plan.edit.proposal_limits import MAX_ACTIONS, MAX_ASSERTIONS, MAX_NAME_CHARS, MAX_TEXT_CHARS
from scaffold.plan.progress import PlanProgress
from support import plans


def action(key, needs="", gives="", **fields):
    return plans.action(key, needs, gives, **{"description": "do it"} | fields)


def compound(key, needs="", gives="", **fields):
    return action(key, needs, gives, kind="compound", **fields)


def goal(name="shop", wants="store api", *actions):
    return GoalSpec(name=name, description=f"Have a {name}.", goal_state=tuple(wants.split()), actions=actions)


def draft(*goals, facts="", history=None, **statuses):
    progress = PlanProgress(statuses=statuses, facts={"shop": tuple(facts.split())})
    return PlanDraft(Plan(goals=goals), progress, history or PlanHistory())


def add(on, *specs, to="shop"):
    return on.apply(CreateActions(to, specs))


def expect_refusal(on, change, *words):
    """The change is refused with these names and numbers, and nothing of it is taken in."""
    before = (on.plan, on.progress, on.history, on.changes)
    with pytest.raises(ChangeRejected) as refusal:
        on.apply(change)
    for word in words:
        assert word in refusal.value.in_full
    assert refusal.value.fix
    assert (on.plan, on.progress, on.history, on.changes) == before
    return refusal.value


STORE, API = action("store", "", "store"), action("api", "store", "api")
SHOP = goal("shop", "store api", STORE, API)


def test_a_plan_grows_goal_by_goal_and_action_by_action():
    """SC-12, AL-3."""
    on = draft()
    assert on.apply(CreateGoal(goal("shop", "store api store")))
    assert add(on, compound("all", "", "store api"), STORE)
    assert add(on, replace(API, parent="all", preconditions=("store", "store")))
    assert on.plan == Plan(
        goals=(goal("shop", "store api", compound("all", "", "store api"), STORE, on.action("api")),)
    )
    assert on.action("api").preconditions == ("store",)
    assert [type(change) for change in on.changes] == [CreateGoal, CreateActions, CreateActions]


def test_an_action_without_a_description_is_described_by_its_key():
    on = draft(goal())
    add(on, action("store", "", "store", description=""))
    assert on.action("store").description == "store"


def test_creating_an_existing_item_again_changes_nothing():
    """SC-12: creating what exists with the same content is no error, and adds nothing."""
    on = draft(SHOP)
    assert not on.apply(CreateGoal(goal("shop", "api store")))
    assert not add(on, STORE, API)
    assert on.changes == ()
    assert on.plan == Plan(goals=(SHOP,))


def test_only_new_items_of_a_list_are_added():
    on = draft(SHOP)
    assert add(on, STORE, action("docs", "", "docs"))
    assert on.changes == (CreateActions("shop", (action("docs", "", "docs"),)),)


def test_another_goal_of_the_same_name_is_refused():
    expect_refusal(draft(SHOP), CreateGoal(goal("shop", "store")), "`shop`")


def test_a_goal_needs_a_name_and_a_goal_state():
    """SC-12: a goal that cannot be stored or reached is refused."""
    goals = (
        (goal("", "a"), "is empty"),
        (goal("x" * (MAX_NAME_CHARS + 1), "a"), "longer than"),
        (goal("shop", ""), "goal state"),
        (goal("shop", "a\x07"), "a\\x07"),
        (goal("shop", " ".join(f"a{n}" for n in range(MAX_ASSERTIONS + 1))), "1001"),
        (SHOP, "actions"),
        (replace(goal(), description="x" * (MAX_TEXT_CHARS + 1)), "longer than"),
        (replace(goal(), description="\ud800"), "the description"),
    )
    for spec, word in goals:
        expect_refusal(draft(), CreateGoal(spec), word)


def test_one_invalid_action_refuses_the_whole_list_and_is_named():
    """SC-12, OR-6: the error says which one, and nothing is applied."""
    specs = (
        (action("../up"), ["actions[1]", "`../up`"]),
        (replace(STORE, role=" "), ["actions[1]", "role"]),
        (replace(STORE, files=("/etc",)), ["actions[1]", "`/etc`"]),
        (replace(STORE, effects=("",)), ["actions[1]", "effect ``"]),
        (replace(STORE, preconditions=("x" * 201,)), ["precondition", "200"]),
        (replace(STORE, description="x" * (MAX_TEXT_CHARS + 1)), ["description", f"{MAX_TEXT_CHARS}"]),
        (API, ["actions[1] `api`", "same key"]),
        (replace(STORE, parent="al"), ["`al`", "`all`"]),
        (replace(STORE, parent="api"), ["parent `api`"]),
        (replace(STORE, parent="elsewhere"), ["`elsewhere`", "`shop`"]),
        (replace(STORE, key="elsewhere"), ["`elsewhere`", "another goal"]),
        (replace(compound("all", "", "store"), effects=("x",)), ["`all`", "effects"]),
    )
    on = draft(goal("shop", "store", compound("all", "", "store")), goal("other", "x", compound("elsewhere", "", "x")))
    for spec, words in specs:
        expect_refusal(on, CreateActions("shop", (API, spec)), *words)


def test_parents_and_children_may_come_in_one_list_but_not_in_a_cycle():
    """SC-5: compounds may have compounds as children."""
    on = draft(goal())
    assert add(on, action("b", "", "api", parent="top"), compound("top", "", "api", parent="above"), compound("above"))
    rounds = CreateActions("shop", (compound("x", parent="y"), compound("y", parent="x")))
    expect_refusal(on, rounds, "x -> y -> x")


def test_a_compound_that_has_ended_takes_no_children():
    """SC-5."""
    statuses = ("completed", "failed", "skipped", "cancelled")
    for status in statuses:
        on = draft(goal("shop", "store", compound("all", "", "store")), all=status)
        expect_refusal(on, CreateActions("shop", (replace(STORE, parent="all"),)), f"`all` is {status}")


def test_a_compound_that_may_still_run_takes_more_children():
    """SC-5: more children close the gap that the first ones left."""
    statuses = ("pending", "running", "blocked")
    for status in statuses:
        on = draft(goal("shop", "store", compound("all", "", "store"), replace(API, parent="all")), all=status)
        assert add(on, replace(STORE, parent="all"))
        assert on.below("all") == ("api", "store")


def test_a_large_goal_can_be_created_in_one_call():
    """SC-12: a goal of several hundred assertions, and the actions for all of them in one batch."""
    works = tuple(action(f"a{n}", gives=f"a{n}") for n in range(300))
    on = draft()
    assert on.apply(CreateGoal(goal("big", " ".join(work.key for work in works))))
    assert on.apply(CreateActions("big", works))
    assert on.findings() == ()


def test_the_length_of_a_list_is_bounded():
    many = tuple(action(f"a{n}") for n in range(MAX_ACTIONS + 1))
    expect_refusal(draft(SHOP), CreateActions("shop", many), "1001", "1000")
    expect_refusal(draft(SHOP), CreateActions("shop", ()), "empty")


def test_only_some_of_many_problems_are_reported():
    bad = tuple(action(f"-{n}") for n in range(9))
    expect_refusal(draft(SHOP), CreateActions("shop", bad), "actions[4]", "(and 4 more)")


def test_a_missing_or_ended_goal_takes_no_actions():
    on = draft(SHOP, history=PlanHistory(ended={"shop": "failed"}))
    expect_refusal(on, CreateActions("shop", (action("x"),)), "goal `shop` is failed")
    expect_refusal(on, CreateActions("shp", (action("x"),)), "`shp`", "`shop`")
    expect_refusal(draft(), CreateActions("shop", (action("x"),)), "none yet")
    assert on.goal("shp") is None
    assert on.below("nobody") == ()


def test_an_unneeded_action_is_skipped_with_its_descendants():
    """SC-12."""
    inner = compound("inner", parent="all")
    on = draft(
        goal("shop", "store", compound("all"), inner, action("x", parent="inner"), action("y", parent="all")),
        y="completed",
        x="failed",
    )
    assert on.apply(UpdateAction("all", "skipped", " not needed "))
    assert on.progress.statuses == {"all": "skipped", "inner": "skipped", "x": "skipped", "y": "completed"}
    assert on.changes == (UpdateAction("all", "skipped", "not needed"),)
    assert not on.apply(UpdateAction("all", "skipped", "again"))


def test_a_running_action_cannot_be_changed():
    """SC-12: no agent takes work from a running worker."""
    for status in ("running", "verifying", "landing", WAITING):
        for to in ("skipped", "pending"):
            expect_refusal(draft(SHOP, store=status), UpdateAction("store", to, "no"), f"`store` is {status}")


def test_an_invalid_update_is_refused_with_a_fix():
    """SC-12."""
    updates = (
        (UpdateAction("stor", "skipped", "x"), {}, ["`stor`", "`store`"]),
        (UpdateAction("store", "skipped", " "), {}, ["reason"]),
        (UpdateAction("store", "skipped", "\x00"), {}, ["note", "`store`"]),
        (UpdateAction("store", "skipped", "x"), {"store": "completed"}, ["`store` is completed", "skipped"]),
        (UpdateAction("all", "skipped", "x"), {"part": "running"}, ["`part`"]),
        (UpdateAction("part", "pending", "x"), {"part": "failed", "all": "failed"}, ["`all` is failed"]),
    )
    for change, statuses, words in updates:
        on = draft(goal("shop", "store", STORE, compound("all"), action("part", parent="all")), **statuses)
        expect_refusal(on, change, *words)


def test_what_cannot_be_retried_has_another_way_on():
    """SC-12."""
    refusals = [
        expect_refusal(draft(SHOP, store=status), UpdateAction("store", "pending", "x"), f"`store` is {status}")
        for status in ("pending", "blocked", "completed")
    ]
    assert [refusal.fix for refusal in refusals] == snapshot(
        [
            "It will be dispatched once its preconditions hold.",
            "Fix the failure it depends on; it is then unblocked automatically.",
            "Create another action with its own key.",
        ]
    )


def test_a_failed_action_is_retried_once_and_only_with_another_approach():
    """SC-12, SC-20: a retry needs something new, and there is one."""
    on = draft(SHOP, store="failed")
    expect_refusal(on, UpdateAction("store", "pending", ""), "new approach")
    expect_refusal(on, UpdateAction("store", "pending", " Do  IT "), "new approach")
    assert on.apply(UpdateAction("store", "pending", "use a file"))
    assert on.progress.status("store") == "pending"
    assert on.history.approaches == {"store": RetryApproach("use a file", spent=True)}
    assert not on.apply(UpdateAction("store", "pending", "use a file"))
    assert not on.apply(UpdateAction("store", "pending", ""))
    again = PlanDraft(on.plan, PlanProgress(statuses={"store": "failed"}), on.history)
    expect_refusal(again, UpdateAction("store", "pending", "use a socket"), "a human")


def test_a_retry_by_a_human_allows_another_approach_but_not_the_same_one():
    """SC-20."""
    history = PlanHistory(approaches={"store": RetryApproach("use a file", spent=False)})
    on = draft(SHOP, history=history, store="failed")
    expect_refusal(on, UpdateAction("store", "pending", "Use a file"), "same way")
    assert on.apply(UpdateAction("store", "pending", "use a socket"))


def test_a_failed_child_of_a_running_compound_can_be_retried():
    """SC-5."""
    on = draft(
        goal("shop", "a", compound("all", "", "a"), action("x", "", "a", parent="all")), x="failed", all="running"
    )
    assert on.apply(UpdateAction("x", "pending", "another way"))
    assert on.findings() == ()


def test_a_proposal_is_recorded_and_makes_no_fact():
    """SC-3, SC-12: only evidence makes a fact."""
    on = draft(SHOP)
    claim = ProposeAssertions("shop", {"store": True, "api": False}, evidence="store")
    assert on.apply(claim)
    assert not on.apply(claim)
    assert on.changes == (claim,)
    assert on.progress == draft(SHOP).progress
    assert on.apply(ProposeAssertions("shop", {}, summary="half done"))


def test_a_proposal_must_concern_an_assertion_of_the_goal():
    """SC-12."""
    claims = (
        (ProposeAssertions("shop", {"stor": True}), ["`stor`", "`store`"]),
        (ProposeAssertions("shop", {}), ["empty"]),
        (ProposeAssertions("shop", {f"a{n}": True for n in range(MAX_ASSERTIONS + 1)}), ["1001"]),
        (ProposeAssertions("shop", {"store": True}, evidence="\udcff"), ["evidence"]),
        (ProposeAssertions("shop", {}, summary="x" * (MAX_TEXT_CHARS + 1)), ["summary"]),
        (ProposeAssertions("shap", {"store": True}), ["`shap`"]),
    )
    for claim, words in claims:
        expect_refusal(draft(SHOP), claim, *words)


def test_findings_cover_only_the_remaining_work():
    """SC-5, SC-8: what the plan lacks, given the facts, is reported before it is stored."""
    on = draft(goal("shop", "store api"), facts="store")
    assert [finding.code for finding in on.findings()] == ["unreachable-goal"]
    add(on, replace(API, parent="all"), compound("all", "", "api docs"))
    assert [(finding.code, finding.action) for finding in on.findings() if finding.severity == "error"] == [
        ("unreachable-goal", "all")
    ]
    add(on, action("docs", "", "docs", parent="all"))
    assert [(finding.severity, finding.code) for finding in on.findings()] == [("warning", "unused-effect")]


def test_failed_actions_provide_nothing_and_the_blocked_ones_are_named():
    """SC-8."""
    on = draft(SHOP, store="failed", api="blocked")
    assert {(finding.code, finding.action) for finding in on.findings()} == {
        ("unprovided-precondition", "api"),
        ("unreachable-goal", None),
    }
    add(on, action("shelf", "", "store"))
    assert on.findings() == ()


def test_children_of_an_ended_compound_are_ignored():
    """SC-5: they end with it; only an effect without another provider is missing."""
    inner = compound("inner", parent="all")
    parts = (compound("all", "", "store"), inner, action("part", "", "store", parent="inner"), action("free"))
    on = draft(goal("shop", "store", *parts), all="failed", part="blocked")
    assert [(each.code, each.action) for each in on.findings() if each.severity == "error"] == [
        ("unreachable-goal", None)
    ]


def test_findings_of_one_goal_leave_out_other_and_ended_goals():
    on = draft(goal("shop", "store"), goal("lab", "x"), goal("old", "y"), history=PlanHistory(ended={"old": "failed"}))
    assert [finding.goal for finding in on.findings()] == ["shop", "lab"]
    assert [finding.goal for finding in on.findings("lab")] == ["lab"]
