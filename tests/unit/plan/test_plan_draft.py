"""What an agent proposes for a plan: taken in where it fits, refused in words that teach where it does not."""

import pytest
from msgspec.structs import replace

from scaffold.core.plan import ActionSpec, GoalSpec, Plan
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


def action(key, needs="", gives="", *, kind="primitive", parent=None, description="do it"):
    return ActionSpec(
        key=key,
        preconditions=tuple(needs.split()),
        effects=tuple(gives.split()),
        kind=kind,
        parent=parent,
        description=description,
    )


def compound(key, needs="", gives="", *, parent=None):
    return action(key, needs, gives, kind="compound", parent=parent)


def goal(name="shop", wants="store api", *actions):
    return GoalSpec(name=name, description=f"Have a {name}.", goal_state=tuple(wants.split()), actions=actions)


def draft(*goals, facts="", history=None, **statuses):
    progress = PlanProgress(statuses=statuses, facts={"shop": tuple(facts.split())})
    return PlanDraft(Plan(goals=goals), progress, history or PlanHistory())


def add(on, *specs, to="shop"):
    return on.apply(CreateActions(to, specs))


def expect_refusal(on, change, *words):
    """The change is refused in these words, and nothing of it is taken in."""
    before = (on.plan, on.progress, on.history, on.changes)
    with pytest.raises(ChangeRejected) as refusal:
        on.apply(change)
    for word in words:
        assert word in refusal.value.in_full
    assert refusal.value.fix
    assert (on.plan, on.progress, on.history, on.changes) == before


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


def test_the_same_thing_again_changes_nothing():
    """SC-12: creating what exists with the same content is no error, and adds nothing."""
    on = draft(SHOP)
    assert not on.apply(CreateGoal(goal("shop", "api store")))
    assert not add(on, STORE, API)
    assert on.changes == ()
    assert on.plan == Plan(goals=(SHOP,))


def test_of_a_list_only_what_is_new_is_added():
    on = draft(SHOP)
    assert add(on, STORE, action("docs", "", "docs"))
    assert on.changes == (CreateActions("shop", (action("docs", "", "docs"),)),)


def test_another_goal_of_the_same_name_is_refused():
    expect_refusal(draft(SHOP), CreateGoal(goal("shop", "store")), "already, with another", "another name")


@pytest.mark.parametrize(
    ("spec", "word"),
    [
        (goal("", "a"), "is empty"),
        (goal("x" * (MAX_NAME_CHARS + 1), "a"), "longer than"),
        (goal("shop", ""), "its goal state is empty"),
        (goal("shop", "a\x07"), "an unprintable character"),
        (goal("shop", " ".join(f"a{n}" for n in range(MAX_ASSERTIONS + 1))), "are more than"),
        (SHOP, "contains actions"),
        (replace(goal(), description="x" * (MAX_TEXT_CHARS + 1)), "longer than"),
        (replace(goal(), description="\ud800"), "a character that is not allowed"),
    ],
)
def test_a_goal_must_have_a_name_and_something_to_reach(spec, word):
    """SC-12: nothing that cannot be stored or reached gets in."""
    expect_refusal(draft(), CreateGoal(spec), word)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (action("../up"), ["actions[1]: the key `../up` has a part"]),
        (replace(STORE, role=" "), ["actions[1]: the role"]),
        (replace(STORE, files=("/etc",)), ["actions[1]: the file `/etc` leaves the tree"]),
        (replace(STORE, effects=("",)), ["actions[1]: the effect `` is empty"]),
        (replace(STORE, preconditions=("x" * 201,)), ["the precondition", "longer than 200"]),
        (replace(STORE, description="x" * (MAX_TEXT_CHARS + 1)), ["the description", "longer than"]),
        (API, ["actions[1] `api` has the key of another one in the list"]),
        (replace(STORE, parent="al"), ["there is no action `al`", "Did you mean `all`?"]),
        (replace(STORE, parent="api"), ["its parent `api` is primitive", "Only compounds"]),
        (replace(STORE, parent="elsewhere"), ["no action `elsewhere` in goal `shop`"]),
        (replace(STORE, key="elsewhere"), ["taken by an action of another goal"]),
        (replace(compound("all", "", "store"), effects=("x",)), ["exists already, with another effects"]),
    ],
)
def test_one_action_that_does_not_fit_keeps_out_the_whole_list_and_is_named(spec, words):
    """SC-12, OR-6: the error says which one, and nothing is applied."""
    on = draft(goal("shop", "store", compound("all", "", "store")), goal("other", "x", compound("elsewhere", "", "x")))
    expect_refusal(on, CreateActions("shop", (API, spec)), *words)


def test_parents_and_children_may_come_in_one_list_but_not_go_round():
    """SC-5: compounds may have compounds as children."""
    on = draft(goal())
    assert add(on, action("b", "", "api", parent="top"), compound("top", "", "api", parent="above"), compound("above"))
    rounds = CreateActions("shop", (compound("x", parent="y"), compound("y", parent="x")))
    expect_refusal(on, rounds, "the parents form a cycle: x -> y -> x")


@pytest.mark.parametrize("status", ["completed", "failed", "skipped", "cancelled"])
def test_a_compound_that_is_over_takes_no_children(status):
    """SC-5."""
    on = draft(goal("shop", "store", compound("all", "", "store")), all=status)
    expect_refusal(on, CreateActions("shop", (replace(STORE, parent="all"),)), f"`all` is {status}")


@pytest.mark.parametrize("status", ["pending", "running", "blocked"])
def test_a_compound_that_may_still_run_takes_further_children(status):
    """SC-5: the gap that its children left is closed by further ones."""
    on = draft(goal("shop", "store", compound("all", "", "store"), replace(API, parent="all")), all=status)
    assert add(on, replace(STORE, parent="all"))
    assert on.below("all") == ("api", "store")


def test_a_large_goal_is_laid_out_in_one_call():
    """SC-12: a goal of several hundred assertions, and the actions for all of them in one batch."""
    works = tuple(action(f"a{n}", gives=f"a{n}") for n in range(300))
    on = draft()
    assert on.apply(CreateGoal(goal("big", " ".join(work.key for work in works))))
    assert on.apply(CreateActions("big", works))
    assert on.findings() == ()


def test_the_size_of_a_list_is_bounded():
    many = tuple(action(f"a{n}") for n in range(MAX_ACTIONS + 1))
    expect_refusal(draft(SHOP), CreateActions("shop", many), "1001 actions are too many at once", "1000 in one call")
    expect_refusal(draft(SHOP), CreateActions("shop", ()), "the list of actions is empty")


def test_many_problems_are_told_in_part():
    bad = tuple(action(f"-{n}") for n in range(9))
    expect_refusal(draft(SHOP), CreateActions("shop", bad), "actions[4]", "(and 4 more)")


def test_a_goal_that_is_not_there_or_has_ended_takes_nothing():
    on = draft(SHOP, history=PlanHistory(ended={"shop": "failed"}))
    expect_refusal(on, CreateActions("shop", (action("x"),)), "goal `shop` is failed")
    expect_refusal(on, CreateActions("shp", (action("x"),)), "no goal `shp`", "Did you mean `shop`?")
    expect_refusal(draft(), CreateActions("shop", (action("x"),)), "none yet: create it first")
    assert on.goal("shp") is None
    assert on.below("nobody") == ()


def test_what_is_not_needed_is_skipped_with_all_below_it():
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


@pytest.mark.parametrize("status", ["running", "verifying", "landing", WAITING])
@pytest.mark.parametrize("to", ["skipped", "pending"])
def test_what_somebody_is_at_is_left_alone(status, to):
    """SC-12: no agent takes work from under a worker."""
    expect_refusal(draft(SHOP, store=status), UpdateAction("store", to, "no"), f"`store` is {status}", "Leave it alone")


@pytest.mark.parametrize(
    ("change", "statuses", "words"),
    [
        (UpdateAction("stor", "skipped", "x"), {}, ["no action `stor`", "Did you mean `store`?"]),
        (UpdateAction("store", "skipped", " "), {}, ["without a reason"]),
        (UpdateAction("store", "skipped", "\x00"), {}, ["a character that is not allowed"]),
        (UpdateAction("store", "skipped", "x"), {"store": "completed"}, ["cannot be skipped any more"]),
        (UpdateAction("all", "skipped", "x"), {"part": "running"}, ["`part` below it is in progress"]),
        (
            UpdateAction("store", "pending", "x"),
            {"store": "completed"},
            ["only failed actions can be retried", "its own key"],
        ),
        (
            UpdateAction("store", "pending", "x"),
            {"store": "blocked"},
            ["only failed actions can be retried", "unblocked automatically"],
        ),
        (
            UpdateAction("store", "pending", "x"),
            {},
            ["is pending; only failed actions can be retried", "once its preconditions"],
        ),
        (UpdateAction("part", "pending", "x"), {"part": "failed", "all": "failed"}, ["its parent `all` is failed"]),
    ],
)
def test_an_update_that_does_not_fit_is_refused_with_a_way_on(change, statuses, words):
    """SC-12."""
    on = draft(goal("shop", "store", STORE, compound("all"), action("part", parent="all")), **statuses)
    expect_refusal(on, change, *words)


def test_a_failed_action_is_tried_again_once_and_only_in_another_way():
    """SC-12, SC-20: a retry needs something new, and there is one."""
    on = draft(SHOP, store="failed")
    expect_refusal(on, UpdateAction("store", "pending", ""), "a retry needs a new approach")
    expect_refusal(on, UpdateAction("store", "pending", " Do  IT "), "a retry needs a new approach")
    assert on.apply(UpdateAction("store", "pending", "use a file"))
    assert on.progress.status("store") == "pending"
    assert on.history.approaches == {"store": RetryApproach("use a file", spent=True)}
    assert not on.apply(UpdateAction("store", "pending", "use a file"))
    assert not on.apply(UpdateAction("store", "pending", ""))
    again = PlanDraft(on.plan, PlanProgress(statuses={"store": "failed"}), on.history)
    expect_refusal(
        again, UpdateAction("store", "pending", "use a socket"), "was already retried with another approach", "a human"
    )


def test_a_forgiven_action_may_be_guided_anew_but_not_in_the_same_words():
    """SC-20."""
    history = PlanHistory(approaches={"store": RetryApproach("use a file", spent=False)})
    on = draft(SHOP, history=history, store="failed")
    expect_refusal(on, UpdateAction("store", "pending", "Use a file"), "not retried in the same way")
    assert on.apply(UpdateAction("store", "pending", "use a socket"))


def test_a_failed_child_of_a_running_compound_is_tried_again():
    """SC-5."""
    on = draft(
        goal("shop", "a", compound("all", "", "a"), action("x", "", "a", parent="all")), x="failed", all="running"
    )
    assert on.apply(UpdateAction("x", "pending", "another way"))
    assert on.findings() == ()


def test_a_claim_is_recorded_and_makes_nothing_true():
    """SC-3, SC-12: a proposal is no fact."""
    on = draft(SHOP)
    claim = ProposeAssertions("shop", {"store": True, "api": False}, evidence="store")
    assert on.apply(claim)
    assert not on.apply(claim)
    assert on.changes == (claim,)
    assert on.progress == draft(SHOP).progress
    assert on.apply(ProposeAssertions("shop", {}, summary="half done"))


@pytest.mark.parametrize(
    ("claim", "words"),
    [
        (ProposeAssertions("shop", {"stor": True}), ["has no assertion `stor`", "Did you mean `store`?"]),
        (ProposeAssertions("shop", {}), ["the proposal is empty"]),
        (
            ProposeAssertions("shop", {f"a{n}": True for n in range(MAX_ASSERTIONS + 1)}),
            ["1001 assertions are more than"],
        ),
        (
            ProposeAssertions("shop", {"store": True}, evidence="\udcff"),
            ["the evidence", "a character that is not allowed"],
        ),
        (ProposeAssertions("shop", {}, summary="x" * (MAX_TEXT_CHARS + 1)), ["the summary", "longer than"]),
        (ProposeAssertions("shap", {"store": True}), ["no goal `shap`"]),
    ],
)
def test_a_claim_must_be_about_something_of_the_goal(claim, words):
    """SC-12."""
    expect_refusal(draft(SHOP), claim, *words)


def test_findings_are_those_of_what_is_left_to_do():
    """SC-5, SC-8: what the plan lacks, given what holds, is said before it is written."""
    on = draft(goal("shop", "store api"), facts="store")
    assert [finding.code for finding in on.findings()] == ["unreachable-goal"]
    add(on, replace(API, parent="all"), compound("all", "", "api docs"))
    assert [(finding.code, finding.action) for finding in on.findings() if finding.severity == "error"] == [
        ("unreachable-goal", "all")
    ]
    add(on, action("docs", "", "docs", parent="all"))
    assert [(finding.severity, finding.code) for finding in on.findings()] == [("warning", "unused-effect")]


def test_what_failed_helps_nobody_and_what_it_blocked_is_named():
    """SC-8."""
    on = draft(SHOP, store="failed", api="blocked")
    assert {(finding.code, finding.action) for finding in on.findings()} == {
        ("unprovided-precondition", "api"),
        ("unreachable-goal", None),
    }
    add(on, action("shelf", "", "store"))
    assert on.findings() == ()


def test_what_is_below_a_dead_compound_is_no_concern():
    """SC-5: its children go with it; only what nobody provides any more is missing."""
    inner = compound("inner", parent="all")
    parts = (compound("all", "", "store"), inner, action("part", "", "store", parent="inner"), action("free"))
    on = draft(goal("shop", "store", *parts), all="failed", part="blocked")
    assert [(each.code, each.action) for each in on.findings() if each.severity == "error"] == [
        ("unreachable-goal", None)
    ]


def test_findings_of_one_goal_leave_others_and_what_has_ended_out():
    on = draft(goal("shop", "store"), goal("lab", "x"), goal("old", "y"), history=PlanHistory(ended={"old": "failed"}))
    assert [finding.goal for finding in on.findings()] == ["shop", "lab"]
    assert [finding.goal for finding in on.findings("lab")] == ["lab"]
