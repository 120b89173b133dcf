"""Goals of plans that lint has nothing to say about."""

from hypothesis import strategies as st

from scaffold.core.plan import ActionSpec, GoalSpec


@st.composite
def sound_goal(draw, name="g"):
    """A goal without errors: actions need only what earlier ones provide, and children provide for their parents."""
    actions: list[ActionSpec] = []
    provided: list[str] = []
    for i in range(draw(st.integers(1, 6))):
        needs = tuple(draw(st.lists(st.sampled_from(provided), max_size=2, unique=True))) if provided else ()
        gives = tuple(f"{effect}{i}" for effect in "xy"[: draw(st.integers(1, 2))])
        shape = draw(st.sampled_from(["primitive", "childless", "parent"]))
        kind = "primitive" if shape == "primitive" else "compound"
        key = f"{name}{i}"
        actions.append(ActionSpec(key=key, kind=kind, preconditions=needs, effects=gives))
        if shape == "parent":
            actions += [ActionSpec(key=f"{key}/{effect}", parent=key, effects=(effect,)) for effect in gives]
        provided += gives
    wanted = draw(st.lists(st.sampled_from(provided), min_size=1, max_size=3, unique=True))
    return GoalSpec(name=name, goal_state=tuple(wanted), actions=tuple(draw(st.permutations(actions))))
