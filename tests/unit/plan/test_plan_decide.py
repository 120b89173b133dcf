from scaffold.plan.decide import (
    AskHuman,
    CompleteCompound,
    CompleteGoal,
    Decompose,
    Dispatch,
    FailCompound,
    FailedPrimitive,
    FailGoal,
    GoalView,
    ReadyAction,
    Replan,
    RunningCompound,
    StartCompound,
    decide,
)


def view(**changes):
    settings = {
        "unmet": ("done",),
        "ready": (),
        "compounds": (),
        "running": 0,
        "waiting": 0,
        "exhausted": (),
        "slots": 3,
        "replans_left": 0,
        "can_decompose": False,
    }
    return GoalView(**settings | changes)


def primitive(key):
    return ReadyAction(key.upper(), key, "primitive", False)


def failed(*keys, parent=None, **how):
    return tuple(FailedPrimitive(key.upper(), key, parent, **how) for key in keys)


def compound(key, *, children):
    return ReadyAction(key.upper(), key, "compound", children)


def begun(key, *, open_children, unmet=(), story=False):
    return RunningCompound(key.upper(), key, open_children, unmet, story)


STUCK = "`done` cannot be reached: nothing is ready or running"
NO_CHILDREN = "it has no children, and there is no planner to break it down"

TABLE = {
    "a goal whose state holds is complete": (view(unmet=()), (CompleteGoal(),)),
    "a goal whose state holds is complete whatever is left": (
        view(unmet=(), ready=(primitive("a"),), exhausted=failed("b"), replans_left=1),
        (CompleteGoal(),),
    ),
    "a goal whose state holds lets what runs end, and starts nothing": (
        view(unmet=(), running=1, ready=(primitive("a"),)),
        (),
    ),
    "a story whose steps have ended without its effect fails, whoever could plan": (
        view(
            unmet=("done",),
            compounds=(begun("s", open_children=0, unmet=("x",), story=True),),
            exhausted=failed("s/step-001", parent="S"),
            replans_left=1,
            can_decompose=True,
        ),
        (FailCompound("S", "its steps ended without `x`"),),
    ),
    "nothing is planned for the steps of a story": (
        view(
            unmet=("done",),
            compounds=(begun("s", open_children=1, unmet=("x",), story=True),),
            exhausted=failed("s/step-001", parent="S"),
            replans_left=1,
        ),
        (Replan(("done",), "`s/step-001` failed permanently"),),
    ),
    "compounds are finished before their goal": (
        view(unmet=(), compounds=(begun("c", open_children=0), begun("d", open_children=1))),
        (CompleteCompound("C"),),
    ),
    "compounds are finished while the last attempts of a reached goal run": (
        view(unmet=(), running=1, compounds=(begun("c", open_children=0),)),
        (CompleteCompound("C"),),
    ),
    "a task that failed permanently asks for another plan before anything starts": (
        view(exhausted=failed("a", "b"), replans_left=2, ready=(primitive("c"),), running=1),
        (Replan(("done",), "`a`, `b` failed permanently"),),
    ),
    "work that used up its attempts is to be broken down": (
        view(exhausted=failed("a", too_large=True), replans_left=1),
        (
            Replan(
                ("done",),
                "`a` failed permanently. `a` failed too often to be tried again as it is: break it down into smaller "
                "actions, each with a check of its own, that make the same assertions true together",
                smaller=("a",),
            ),
        ),
    ),
    "without replans a human is asked, and the rest goes on": (
        view(exhausted=failed("a", "b"), asks_human=True, ready=(primitive("c"),)),
        (AskHuman("A"), AskHuman("B")),
    ),
    "a human alone is asked about work that changed what it may not, even during a turn": (
        view(exhausted=(*failed("a", refused=True), *failed("b")), asks_human=True, replans_left=2, planner_busy=True),
        (AskHuman("A"),),
    ),
    "without a planner it fails as any other": (
        view(exhausted=failed("a", refused=True), ready=(primitive("c"),)),
        (Dispatch("C"),),
    ),
    "nobody is asked during a turn": (
        view(exhausted=failed("a"), asks_human=True, planner_busy=True, ready=(primitive("c"),)),
        (Dispatch("C"),),
    ),
    "nobody is asked about a step, which fails with its story": (
        view(exhausted=failed("a", is_step=True), asks_human=True, ready=(primitive("c"),)),
        (Dispatch("C"),),
    ),
    "without replans the rest goes on": (view(exhausted=failed("a"), ready=(primitive("c"),)), (Dispatch("C"),)),
    "ready primitives start as far as there are slots": (
        view(ready=tuple(map(primitive, "abc")), slots=2),
        (Dispatch("A"), Dispatch("B")),
    ),
    "a cap that was lowered starts nothing": (view(ready=tuple(map(primitive, "ab")), slots=-1, running=3), ()),
    "slots that other goals hold are waited for": (view(ready=(primitive("a"),), slots=0), ()),
    "slots are not waited for when nothing could use them": (view(slots=0), (FailGoal(STUCK),)),
    "a ready compound with children begins": (
        view(ready=(compound("c", children=True),), slots=0),
        (StartCompound("C"),),
    ),
    "a ready compound without children is broken down": (
        view(ready=(compound("c", children=False),), can_decompose=True),
        (Decompose("C", ()),),
    ),
    "a compound nobody can break down is given up": (
        view(ready=(compound("c", children=False),)),
        (FailCompound("C", NO_CHILDREN),),
    ),
    "a compound whose effects hold is finished once its children ended": (
        view(compounds=(begun("c", open_children=0), begun("d", open_children=1)), running=1),
        (CompleteCompound("C"),),
    ),
    "a gap is closed with further children": (
        view(compounds=(begun("c", open_children=0, unmet=("x", "y")),), can_decompose=True, replans_left=1),
        (Decompose("C", ("x", "y")),),
    ),
    "a gap that replanning did not close is given up": (
        view(compounds=(begun("c", open_children=0, unmet=("x",)),), can_decompose=True),
        (FailCompound("C", "its children ended without `x`, and replanning did not help"),),
    ),
    "who thinks is asked nothing else, and what is ready starts": (
        view(
            ready=(compound("k", children=False), primitive("a"), compound("l", children=True)),
            compounds=(begun("g", open_children=0, unmet=("x",)),),
            exhausted=failed("b"),
            can_decompose=True,
            replans_left=2,
            planner_busy=True,
        ),
        (StartCompound("L"), Dispatch("A")),
    ),
    "who thinks is waited for": (view(planner_busy=True, replans_left=1), ()),
    "a child that failed permanently asks for another way inside its compound": (
        view(
            unmet=("x", "y"),
            exhausted=failed("b", parent="G"),
            compounds=(begun("f", open_children=1, unmet=("y",)), begun("g", open_children=1, unmet=("x",))),
            replans_left=1,
        ),
        (Replan(("x",), "`b` failed permanently", "G"),),
    ),
    "a child nobody needs any more asks for another way at the top": (
        view(exhausted=failed("b", parent="G"), compounds=(begun("g", open_children=1),), replans_left=1),
        (Replan(("done",), "`b` failed permanently"),),
    ),
    "a gap nobody can close is given up": (
        view(compounds=(begun("c", open_children=0, unmet=("x",)),)),
        (FailCompound("C", "its children ended without `x`, and there is no planner to add others"),),
    ),
    "everything that can be done is done at once, in order": (
        view(
            ready=(primitive("a"), compound("k", children=True), primitive("b")),
            compounds=(begun("g", open_children=0, unmet=("x",)), begun("f", open_children=0)),
            running=1,
            can_decompose=True,
            replans_left=1,
        ),
        (CompleteCompound("F"), Decompose("G", ("x",)), StartCompound("K"), Dispatch("A"), Dispatch("B")),
    ),
    "a human is waited for, and no other plan is asked for": (view(waiting=1, replans_left=1), ()),
    "a human is waited for whatever failed permanently": (view(waiting=1, exhausted=failed("a")), ()),
    "what is ready starts while others wait for a human": (view(waiting=1, ready=(primitive("a"),)), (Dispatch("A"),)),
    "a goal that is reached waits for no human": (view(unmet=(), waiting=1), (CompleteGoal(),)),
    "what runs is waited for": (view(running=1, replans_left=1), ()),
    "a deadlock asks for another plan": (view(replans_left=1), (Replan(("done",), "nothing is ready or running"),)),
    "a deadlock without replans fails, and says what cannot be reached": (view(), (FailGoal(STUCK),)),
    "a failure names the actions that failed permanently": (
        view(unmet=("x", "y"), exhausted=failed("a")),
        (FailGoal("`x`, `y` cannot be reached: `a` failed permanently"),),
    ),
}


def test_decision():
    """OR-3, SC-3, SC-5."""
    assert {case: decide(seen) for case, (seen, _) in TABLE.items()} == {
        case: commands for case, (_, commands) in TABLE.items()
    }
